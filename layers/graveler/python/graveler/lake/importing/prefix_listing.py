"""Sources of an import that are named by address: one object, or all objects below a prefix of addresses.

A prefix has the meaning that it has in object stores: ``…/a/b`` includes ``…/a/bc`` and ``…/a/b/c``. Paths begin after its last
slash.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Final

from graveler.errors import InvalidError, NotFoundError
from graveler.lake.importing.file_records import file_record, timed_record
from graveler.lake.importing.folder_listing import FolderListing
from graveler.lake.importing.gate import Gate, GateOfMany, Refused, refused
from graveler.lake.importing.importer import ImportSource, Listing
from graveler.lake.importing.uploaded_here import refuse_own
from graveler.lake.text import utf8
from graveler.model import ObjectEntry
from graveler.requests.importing import AddressType, ImportAddress
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.folder_files import FolderFiles
from graveler.storage.objects.port import ObjectMissingError, StoredObject
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.record import RecordCodec, encode_key, object_size

_ANY: Final = "any"
"""Stands for any file of a folder."""
_FILE: Final = "file://"


def source_at(
    source: ImportAddress,
    codec: RecordCodec,
    gate: Gate,
    progress: ObjectProgress = no_object_progress,
    workers: int = 1,
    *,
    trust_mtime: bool = False,
    folders: bool = False,
    exclude: Sequence[str] = (),
    ignore: bool = False,
) -> ImportSource:
    """Return the source at an address, for an import. No request yet. ``gate`` finds the object store of an address; ``workers``
    processes may help to read files.

    A folder's files are read for their MD5, unless ``trust_mtime`` says that size and time stand for their bytes; other stores
    are listed (one request for each 1,000), and their ETags are used as checksums; ``folders`` includes their folder markers,
    empty objects whose key ends with a slash. ``exclude`` and ``ignore`` are those of :class:`FolderListing`, for files alone.
    :class:`ForbiddenError` or :class:`InvalidError` for an address that the gate
    refuses, and when it is read, for objects of which it refuses the addresses; :class:`InvalidError` for one that cannot be
    listed; :class:`NotFoundError`, when it is read, if nothing is there.
    """
    above, name = _split(source.address)
    is_object = source.type is AddressType.OBJECT
    named = repr(source.address)
    if is_object and not name:
        raise InvalidError(f"{source.address!r} names a folder, not an object; import it as a prefix")
    files = None
    if source.address.startswith(_FILE):
        file = f"{above.removesuffix('/')}/{name or _ANY}"
        if (refusal := gate.refusal(file)) is not None:
            raise refusal
        objects, _ = gate.outside(file)
        files = objects.files if isinstance(objects, FolderObjects) else FolderFiles(Path("/"))
    else:
        expect_files(source, trust_mtime=trust_mtime, exclude=exclude)
    destination = destination_of(source)
    if is_object:
        records = (
            _stored(source, codec, gate, progress)
            if files is None
            else _file(source, codec, files, progress, trust_mtime=trust_mtime)
        )
        return ImportSource(destination, False, records, name=named)
    prefix = destination.decode()
    if files is not None:
        folder = above.removeprefix(_FILE) or "/"
        listing = FolderListing(
            Path(folder),
            prefix,
            codec,
            progress,
            workers=workers,
            beginning=name,
            files=files,
            trust_mtime=trust_mtime,
            refuses_special=True,
            gate=gate,
            exclude=exclude,
            ignore=ignore,
        )
        left_out = (lambda: listing.left_out) if exclude or ignore else None
        return ImportSource(destination, True, listing, name=named, left_out=left_out)
    listed = _listed(above, name, prefix, codec, gate, progress, folders=folders)
    return ImportSource(destination, True, listed, name=named)


def expect_files(source: ImportAddress, *, trust_mtime: bool = False, exclude: Sequence[str] = ()) -> None:
    """Raise :class:`InvalidError` for options that only files have, unless the source consists of files: their time may be
    trusted, and their folders walked."""
    if source.address.startswith(_FILE):
        return
    if exclude:
        raise InvalidError(
            f"exclude applies to the files of a folder, and {source.address!r} is no folder of files: leave exclude out, and "
            "import narrower prefixes"
        )
    if trust_mtime:
        raise InvalidError(
            f"trust_mtime applies only to files, which an import would otherwise read; {source.address!r} is never read, because "
            "its store knows the checksums: leave trust_mtime out"
        )


def destination_of(source: ImportAddress) -> bytes:
    """Return the source's destination in the branch, as :attr:`ImportSource.destination`. :class:`InvalidError` for an invalid
    path."""
    destination = source.destination
    if source.type is AddressType.OBJECT:
        return encode_key(destination)
    return utf8("destination", destination if not destination or destination.endswith("/") else destination + "/")


def _file(
    source: ImportAddress, codec: RecordCodec, files: FolderFiles, progress: ObjectProgress, *, trust_mtime: bool
) -> Listing:
    def records() -> Iterator[tuple[bytes, bytes]]:
        path = Path(source.address.removeprefix(_FILE))
        if not files.is_file(path):
            raise _missing(source.address)
        key = encode_key(source.destination)
        named = str(path)
        packed = (
            timed_record(named, key, codec, files) if trust_mtime else file_record(named, key, codec, Event(), files)
        )
        progress(1, object_size(packed))
        yield key, packed

    return records


def _stored(source: ImportAddress, codec: RecordCodec, gate: Gate, progress: ObjectProgress) -> Listing:
    objects, name = gate.outside(source.address)

    def records() -> Iterator[tuple[bytes, bytes]]:
        try:
            stored = objects.head(name)
        except ObjectMissingError:
            raise _missing(source.address) from None
        progress(1, stored.size)
        yield _record(source.destination, source.address, stored, codec)

    return records


def _listed(
    above: str,
    name: str,
    prefix: str,
    codec: RecordCodec,
    gate: Gate,
    progress: ObjectProgress,
    *,
    folders: bool,
) -> Listing:
    objects, probe = gate.outside(f"{above}/_")  # the root of a bucket has no key of its own
    folder = probe[:-1]

    def records() -> Iterator[tuple[bytes, bytes]]:
        refusals, many = list[Refused](), GateOfMany(gate)
        for stored in objects.list(folder + name):
            if stored.key.endswith("/") and not stored.size and not folders:
                continue
            relative = stored.key.removeprefix(folder)
            address = f"{above}/{relative}"
            record = _record(prefix + relative, address, stored, codec)
            for _, refusal in many.refusals([address.encode()]):
                refusals.append(Refused(address, refusal))
            if not refusals:
                progress(1, stored.size)
                yield record
        if refusals:
            raise refused(refusals)

    return records


def _record(path: str, address: str, stored: StoredObject, codec: RecordCodec) -> tuple[bytes, bytes]:
    entry = ObjectEntry(path, address, stored.size, stored.etag.strip('"'), int(stored.modified))
    packed = codec.encode(entry)
    refuse_own(packed, address)
    return encode_key(path), packed


def _missing(address: str) -> NotFoundError:
    return NotFoundError(f"object {address!r} does not exist; nothing was imported")


def _split(address: str) -> tuple[str, str]:
    """Return the parts of an address before and after its last slash."""
    scheme, separator, path = address.partition("://")
    if (
        not separator
        or not scheme
        or (not path.strip("/") and scheme != "file")
        or (scheme == "file") != path.startswith("/")
    ):
        raise InvalidError(
            f"cannot import from {address!r}; give an address of the form file:///absolute/path or s3://bucket/path"
        )
    if "\0" in path or any(part in (".", "..") for part in path.split("/")):
        raise InvalidError(f"cannot import from {address!r}: '.', '..' and NUL are not allowed in an address")
    if "/" not in path:
        path += "/"  # a bucket alone
    above, _, name = path.rpartition("/")
    return f"{scheme}://{above}", name
