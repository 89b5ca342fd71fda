"""Uncommitted changes of one repository: objects that are uploaded, linked, copied, moved, deleted; and what is reset."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import md5
from pathlib import Path
from typing import Final

import msgspec

from graveler.errors import BytesGoneError, InvalidError, NotFoundError, UnavailableError
from graveler.lake.rules import Intent
from graveler.lake.stage import Accept
from graveler.lake.text import utf8
from graveler.lake.uploads import PartedUpload, checksum_of_parts
from graveler.lake.verbs.base import VerbsBase
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.staging.changes import StagedRecord
from graveler.storage.objects import ObjectMissingError, Objects
from graveler.storage.tables import Item, Key, Write
from graveler.tree.listing import prefix_end
from graveler.tree.record import encode_key

_PIECE: Final = 1 << 20
_DUPLICATED_BYTES: Final = 256 << 20
"""A store copies that much within some seconds."""


class Beside(msgspec.Struct, frozen=True):
    """What is staged in one transaction: objects and deletes, of distinct paths, and ``writes`` of a room above. At most 99
    together."""

    entries: Sequence[ObjectEntry] = ()
    deleted: Sequence[str] = ()
    writes: Sequence[Write] = ()


class StagingVerbs(VerbsBase):
    """Verbs about uncommitted changes."""

    def upload(
        self,
        branch: str,
        path: str,
        data: bytes | Path,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
        force: bool = False,
    ) -> ObjectEntry:
        """Write an object's bytes and stage it; readers of the branch see it at once (promise C3).

        ``data`` is the bytes, or a file. With ``if_absent``, only if the branch has no object of this path, now or at the end:
        of several who do so at once, one wins. Cost: one object write, and :meth:`link`. :class:`AlreadyExistsError`, before a
        byte is written if it is so already.
        """
        key = encode_key(path)
        until = self._deadlines.begin()
        seen = self._creator.look(branch, path, key, force=force) if if_absent else None
        if seen is None:
            self._stager.expect(branch, force=force)  # before any byte is written
        name = self._names.new(branch, path, self._clock.now())
        size, checksum = _digest(data)
        entry = ObjectEntry(
            path,
            f"{self.repository.namespace}/{name}",
            size,
            checksum,
            int(self._clock.now()),
            content_type,
            metadata or {},
        )
        packed = self._packed(entry)
        stored = self._objects.put(name, data)
        if stored.size != size:
            raise UnavailableError(f"{str(data)!r} changed while it was being uploaded; nothing was staged, try again")
        if seen is None:
            self._stager.stage(branch, [(key, packed)], until, force=force)
        else:
            self._creator.create(branch, path, key, packed, until, seen, force=force)
        return entry

    def store_at(self, address: str) -> tuple[Objects, str]:
        """The object store in which an address lies, and its key there. No request. Errors as :meth:`expect_readable`."""
        return self._locate(address)

    def expect_changes(self, branch: str, *, force: bool = False) -> None:
        """See that the branch is there and may be changed directly, before somebody goes to work for it. Cost: one table read.
        :class:`RefNotFoundError`, :class:`ForbiddenError`."""
        self._branches.state(branch, Intent(direct=True, force=force))

    def new_address(self, branch: str, path: str, *, force: bool = False) -> str:
        """A physical address to write an object's bytes to, for :meth:`link` afterwards. Cost: one table read."""
        encode_key(path)
        self._branches.state(branch, Intent(direct=True, force=force))
        return f"{self.repository.namespace}/{self._names.new(branch, path, self._clock.now())}"

    def address_ahead(self, branch: str, path: str) -> str:
        """The same for a branch of this name that somebody is going to create. No request."""
        encode_key(path)
        return f"{self.repository.namespace}/{self._names.new(branch, path, self._clock.now())}"

    def expect_handed_out(self, branch: str, path: str, address: str) -> None:
        """:class:`InvalidError` unless an address is one of :meth:`new_address` for this path and branch, and not too old. No
        request."""
        self._names.check(address.removeprefix(f"{self.repository.namespace}/"), branch, path, self._clock.now())

    def upload_url(self, branch: str, path: str, address: str, expires_in: int) -> str:
        """A URL with which anybody may write the bytes at an address of :meth:`new_address` for ``expires_in`` seconds. No
        request. :class:`InvalidError` for another address."""
        return self._uploads.put_url(branch, path, address, expires_in)

    def begin_upload(self, branch: str, path: str) -> PartedUpload:
        """Begin an upload in parts, for :meth:`finish_upload`. Cost: one table read, one object request."""
        return self._uploads.begin(branch, path, self.new_address(branch, path))

    def part_url(self, branch: str, path: str, upload: PartedUpload, number: int, expires_in: int) -> str:
        """A URL with which anybody may upload one part, 1 to 10,000, for ``expires_in`` seconds. No request."""
        return self._uploads.part_url(branch, path, upload, number, expires_in)

    def upload_part(self, branch: str, path: str, upload: PartedUpload, number: int, data: bytes) -> str:
        """Upload one part; returns its ETag. Cost: one object request."""
        return self._uploads.put_part(branch, path, upload, number, data)

    def abort_upload(self, branch: str, path: str, upload: PartedUpload) -> None:
        """Forget an upload in parts; an unknown one is success. Cost: one object request."""
        self._uploads.abort(branch, path, upload)

    def finish_upload(
        self,
        branch: str,
        path: str,
        upload: PartedUpload,
        parts: Sequence[tuple[int, str]],
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
    ) -> ObjectEntry:
        """Make an object of its parts, ``(number, ETag)`` in order, and stage it. Repeated, it stages the same object again.
        Cost: one object request, and :meth:`link`, whose ``if_absent`` it has. :class:`UploadMissingError`,
        :class:`InvalidError`."""
        self._stager.expect(branch)  # before anything is completed
        stored = self._uploads.complete(branch, path, upload, parts)
        checksum = checksum_of_parts(parts) or stored.etag
        entry = ObjectEntry(
            path, upload.address, stored.size, checksum, int(self._clock.now()), content_type, metadata or {}
        )
        self.link(branch, entry, if_absent=if_absent)
        return entry

    def link(
        self,
        branch: str,
        entry: ObjectEntry,
        *,
        if_absent: bool = False,
        force: bool = False,
        accept: Accept | None = None,
    ) -> None:
        """Stage an object whose bytes are at ``entry.address`` already.

        An address inside the namespace must be one that :meth:`new_address` gave for this path and branch, and not be older
        than half a day; outside, any address goes. Cost: one table write, one table read (once more on the first use of a
        branch). :class:`InvalidError`.

        With ``if_absent``, only if the branch has no object of this path: of several who do so at once, one wins. Cost: two
        table reads (the branch, what is staged for the path); unless a delete is staged there, the commit, its metarange,
        one range at most; one transaction. Those who do so on one branch, and commits there, exclude each other: whoever
        loses looks again. :class:`AlreadyExistsError`, :class:`BusyError`. It takes no ``accept``.
        """
        if not if_absent:
            self.link_many(branch, [entry], force=force, accept=accept)
            return
        assert accept is None
        until = self._deadlines.begin()
        key, packed = self._record(branch, entry, self._clock.now())
        self._creator.create(branch, entry.path, key, packed, until, force=force)

    def link_many(
        self, branch: str, entries: Iterable[ObjectEntry], *, force: bool = False, accept: Accept | None = None
    ) -> None:
        """As :meth:`link`, of many objects with distinct paths. Each is staged, and acknowledged, by itself: after an error some
        may be, and repeating all of them is safe. ``accept`` is called with the repository's settings as they are when the
        objects are staged; what it raises refuses them. Cost: of one object as :meth:`link`; of several one table read, one table
        write for each 25, one table read for each thousand."""
        now, until = self._clock.now(), self._deadlines.begin()
        records = [self._record(branch, entry, now) for entry in entries]
        self._stager.stage(branch, records, until, force=force, accept=accept)

    def delete(self, branch: str, paths: Iterable[str], *, force: bool = False) -> None:
        """Remove objects from the branch; a path that is not there is no error. Their bytes stay, for older commits.

        Cost: of one path one table write, one table read; of several one table read, one table write for each 25, one table read
        for each thousand.
        """
        deleted = [(encode_key(path), None) for path in dict.fromkeys(paths)]
        self._stager.stage(branch, deleted, self._deadlines.begin(), force=force)

    def stage_beside(
        self,
        branch: str,
        keys: Sequence[Key],
        decide: Callable[[Sequence[Item | None]], Beside | None],
        *,
        force: bool = False,
    ) -> bool:
        """Stage what ``decide`` says by the items of a room above that are under ``keys``: objects as :meth:`link_many` does, and
        deletes as :meth:`delete` does, in one transaction with writes of that room. False if it says to stage nothing.

        The writes' conditions hold that the items are as they were read. If one fails, or the branch has changed, all begins anew
        with reading, and ``decide`` is asked again. Cost: one table read for each 98 keys, and one transaction. Those who do so
        on one branch, and commits there, exclude each other. :class:`BusyError`; after :class:`UnavailableError` it may have
        happened.
        """

        def decided(items: Sequence[Item | None]) -> tuple[Sequence[StagedRecord], Sequence[Write]] | None:
            found = decide(items)
            if found is None:
                return None
            now = self._clock.now()
            records: list[StagedRecord] = [self._record(branch, entry, now) for entry in found.entries]
            records += [(encode_key(path), None) for path in found.deleted]
            return records, found.writes

        return self._joint.stage(branch, keys, decided, force=force)

    def copy(
        self, branch: str, source_path: str, destination_path: str, *, source_ref: str = "", force: bool = False
    ) -> ObjectEntry:
        """Stage on a branch another object with the same bytes: ``source_path`` in ``source_ref`` (this branch, if empty).

        No byte is copied: both have one address, which is safe, since objects are never changed and stay as long as anything
        refers to them. Checksum, content type and metadata are the source's, the time is now. Cost: :meth:`stat` and
        :meth:`link`. :class:`ObjectNotFoundError`, :class:`RefNotFoundError`.
        """
        return self._copier.copy(branch, source_path, destination_path, source_ref, force=force)

    def duplicate(
        self, branch: str, source_path: str, destination_path: str, *, source_ref: str = "", force: bool = False
    ) -> ObjectEntry:
        """As :meth:`copy`, but the store copies the bytes, so that the copy has an address of its own. Objects outside of the
        namespace, and those larger than 256 MiB, are only copied as there: it would take too long for one call.

        Cost: :meth:`stat`, a copy within the store, and :meth:`link`. Errors as :meth:`copy`, and of :meth:`bytes_in`.
        """
        entry = self.stat(source_ref or branch, source_path)
        inside = f"{self.repository.namespace}/"
        if entry.size > _DUPLICATED_BYTES or not entry.address.startswith(inside):
            return self.copy(branch, source_path, destination_path, source_ref=source_ref, force=force)
        key = encode_key(destination_path)
        until = self._deadlines.begin()
        self._stager.expect(branch, force=force)  # before any byte is written
        name = self._names.new(branch, destination_path, self._clock.now())
        try:
            self._objects.copy(entry.address.removeprefix(inside), name)
        except ObjectMissingError:
            self.expect_kept(source_ref or branch)
            raise BytesGoneError(source_path, source_ref or branch, entry.address) from None
        copied = msgspec.structs.replace(
            entry, path=destination_path, address=f"{inside}{name}", mtime=int(self._clock.now())
        )
        self._stager.stage(branch, [(key, self._packed(copied))], until, force=force)
        return copied

    def copy_prefix(
        self, branch: str, source_prefix: str, destination_prefix: str, *, source_ref: str = "", force: bool = False
    ) -> Iterator[ObjectEntry]:
        """As :meth:`copy`, of all objects whose path begins with ``source_prefix``, which ``destination_prefix`` replaces.

        Yields what is staged, a page at a time, while it is consumed; after an error some is staged, and repeating it is safe.
        Cost: :meth:`list_objects` for each thousand, and :meth:`link_many`. :class:`InvalidError` for a prefix that begins with
        the other, on one branch.
        """
        return self._copier.copy_prefix(branch, source_prefix, destination_prefix, source_ref, force=force)

    def move(self, branch: str, source_path: str, destination_path: str, *, force: bool = False) -> ObjectEntry:
        """Give an object of a branch another path: a :meth:`copy`, and then a :meth:`delete`.

        A failure between the two leaves both, never none; repeating it is safe. Cost: both of them.
        :class:`ObjectNotFoundError`; :class:`InvalidError` for one path twice.
        """
        return self._copier.move(branch, source_path, destination_path, force=force)

    def move_prefix(
        self, branch: str, source_prefix: str, destination_prefix: str, *, force: bool = False
    ) -> Iterator[tuple[str, ObjectEntry]]:
        """As :meth:`move`, of all objects whose path begins with ``source_prefix``: old path and new object, a page at a time.

        As :meth:`copy_prefix`. A failure leaves every object at its old path, its new one, or both.
        """
        return self._copier.move_prefix(branch, source_prefix, destination_prefix, force=force)

    def update_metadata(
        self, branch: str, path: str, metadata: Mapping[str, str], *, force: bool = False
    ) -> ObjectEntry:
        """Replace an object's own metadata; address, time and all else stay. The object as it is then.

        Who replaces the object at the same time is not overwritten. Cost: two table reads; unless it is staged, the commit, its
        metarange, one range at most; one transaction; all again after losing a race. :class:`ObjectNotFoundError`,
        :class:`BusyError`.
        """
        return self._copier.update_metadata(branch, path, metadata, force=force)

    def reset(
        self, branch: str, *, path: str | None = None, prefix: str | None = None, by: str = "", force: bool = False
    ) -> None:
        """Drop uncommitted changes: all, or those of one path, or of the paths that begin with a prefix. Resetting nothing is no
        error. What is staged while this runs may go or stay.

        All of them go at once. Those of a prefix go one by one: after an error some may be gone, and repeating it is safe.
        Cost of all: one table read of the branch, one for each staging token and shard to see that something is staged, and one
        transaction, whatever is staged. Of a path: two table reads, one transaction if it is staged. Of a prefix: the branch, one
        table read for each token and shard and thousand staged there, one transaction for each 99. Waits for a commit that
        is at work. If one died that had taken such changes, the other changes that it had taken are first staged again: one table
        read for each token and shard and thousand of them, one transaction for each 99 and one at the end.
        :class:`InvalidError` for both path and prefix, :class:`BusyError`.
        """
        if path is not None and prefix is not None:
            raise InvalidError(f"reset either path {path!r} or prefix {prefix!r}, not both")
        if path is not None:
            key = encode_key(path)
            self._resetter.reset(branch, key, key + b"\0", by, force=force)
        elif prefix:
            first = utf8("prefix", prefix)
            self._resetter.reset(branch, first, prefix_end(first), by, force=force)
        else:
            self._resetter.reset_all(branch, by, force=force)

    def _record(self, branch: str, entry: ObjectEntry, now: float) -> tuple[bytes, bytes]:
        """Key and record of an object that is to be linked, if its address may be. :class:`InvalidError`."""
        key = encode_key(entry.path)
        inside = self.repository.namespace + "/"
        if entry.address.startswith(inside):
            self._names.check(entry.address.removeprefix(inside), branch, entry.path, now)
        return key, self._packed(entry)


def _digest(data: bytes | Path) -> tuple[int, str]:
    """Size and MD5. :class:`NotFoundError`, :class:`UnavailableError` for a file that cannot be read."""
    if isinstance(data, bytes):
        return len(data), md5(data, usedforsecurity=False).hexdigest()
    digest = md5(usedforsecurity=False)
    size = 0
    try:
        with data.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
    except FileNotFoundError:
        raise NotFoundError(f"file {str(data)!r} does not exist; name one that does") from None
    except OSError as error:
        raise UnavailableError(f"cannot read {str(data)!r}: {error.strerror}; nothing was uploaded") from None
    return size, digest.hexdigest()
