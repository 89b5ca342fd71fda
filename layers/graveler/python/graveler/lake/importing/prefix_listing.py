"""Sources of an import that are named by address: one object, or all objects below a prefix of addresses.

A prefix is taken as the object stores take it: ``…/a/b`` is also ``…/a/bc`` and ``…/a/b/c``. Paths begin behind its last slash.
"""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from threading import Event
from typing import Final

import msgspec

from graveler.errors import InvalidError, NotFoundError
from graveler.lake.importing.folder_listing import FolderListing, Progress, file_record, no_progress
from graveler.lake.importing.importer import ImportSource
from graveler.lake.text import utf8
from graveler.tree.record import RecordCodec, encode_key

_FILE: Final = "file://"


class AddressType(str, Enum):
    """What an address names: one object, or all whose address begins with it."""

    OBJECT = "object"
    COMMON_PREFIX = "common_prefix"


class ImportAddress(msgspec.Struct, frozen=True):
    """One source of an import, ``address``, and where in the branch it goes: the object's path, or (for a prefix) a folder, with
    or without its slash; empty is the root."""

    type: AddressType
    address: str
    destination: str = ""


def source_at(source: ImportAddress, codec: RecordCodec, progress: Progress = no_progress) -> ImportSource:
    """What is at an address, for an import. No request yet. :class:`InvalidError` for an address that cannot be listed;
    :class:`NotFoundError`, when it is read, if nothing is there."""
    folder, name = _split(source.address)
    if source.type is AddressType.OBJECT:
        return _object(source, folder, name, codec, progress)
    destination = source.destination
    inside = destination if not destination or destination.endswith("/") else destination + "/"
    listing = FolderListing(Path(folder), inside, codec, progress, beginning=name)
    return ImportSource(utf8("destination", inside), True, listing)


def _object(source: ImportAddress, folder: str, name: str, codec: RecordCodec, progress: Progress) -> ImportSource:
    if not name:
        raise InvalidError(f"{source.address!r} names a folder, not an object; import it as a prefix")
    key = encode_key(source.destination)

    def records() -> Iterator[tuple[bytes, bytes]]:
        path = Path(folder) / name
        if not path.is_file():
            raise NotFoundError(f"object {source.address!r} does not exist; nothing was imported")
        key_, packed, size = file_record(str(path), key, codec, Event())
        progress(1, size)
        yield key_, packed

    return ImportSource(key, False, records)


def _split(address: str) -> tuple[str, str]:
    """The folder that an address lies in, and what comes behind it."""
    path = address.removeprefix(_FILE)
    if not address.startswith(_FILE + "/"):
        raise InvalidError(f"cannot import from {address!r}; give an address of the form file:///absolute/path")
    if "\0" in path or any(part in (".", "..") for part in path.split("/")):
        raise InvalidError(f"cannot import from {address!r}: '.', '..' and NUL have no place in an address")
    folder, _, name = path.rpartition("/")
    return folder or "/", name
