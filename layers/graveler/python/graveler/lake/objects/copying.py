"""Copying and moving objects without their bytes, and changing an object's metadata.

A copy is another record with the same address. Addresses inside the namespace prove for which path they were issued
(:mod:`graveler.lake.objects.issued_addresses`); a copy does not show that proof again, since its source record was already
checked.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from graveler.errors import BusyError, BytesGoneError, InvalidError, ObjectChangedError, ObjectNotFoundError
from graveler.lake.clock import Backoff
from graveler.lake.context import Context
from graveler.lake.objects.conditional import change_on, look, stage_change
from graveler.lake.parts import RepositoryParts
from graveler.lake.reading.reader import RepositoryReader
from graveler.lake.text import utf8
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.requests.staging import Condition, Copy, CopyPrefix, Duplicate, Move, MovePrefix, UpdateMetadata
from graveler.storage.objects.port import ObjectMissingError
from graveler.tree.record import encode_key

_PAGE: Final = 1000
_DUPLICATED_BYTES: Final = 256 << 20
"""The largest size that a store copies within some seconds."""


def copy(repository: RepositoryParts, request: Copy, _: Context) -> ObjectEntry:
    """See :class:`graveler.requests.staging.Copy`."""
    return _copy(repository, request.branch, request.source_path, request.destination_path, request)


def _copy(repository: RepositoryParts, branch: str, source: str, destination: str, request: Copy | Move) -> ObjectEntry:
    key = encode_key(destination)
    deadline = repository.deadlines.begin()
    copied = _source_of(repository, _source_ref(request), source, destination)
    repository.stager.stage(branch, [(key, repository.pack(copied))], deadline, force=request.force)
    return copied


def copy_under_condition(
    repository: RepositoryParts,
    request: Copy,
    condition: Condition,
    *,
    source_etag: str = "",
    content_type: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> ObjectEntry:
    """Copy an object as :class:`graveler.requests.staging.Copy`, under a condition of :class:`graveler.requests.staging.Link`,
    and only if the source has the ETag ``source_etag``, if that is given (:class:`ObjectChangedError`). ``content_type`` and
    ``metadata`` are those of the copy; None: those of the source. Cost: a stat and a link with its condition."""
    branch, path, ref = request.branch, request.destination_path, _source_ref(request)
    key = encode_key(path)
    deadline = repository.deadlines.begin()
    copied = _source_of(repository, ref, request.source_path, path)
    if source_etag and copied.checksum != source_etag:
        raise ObjectChangedError(request.source_path, ref, source_etag, copied.checksum)
    if content_type is not None:
        copied = msgspec.structs.replace(copied, content_type=content_type or DEFAULT_CONTENT_TYPE)
    if metadata is not None:
        copied = msgspec.structs.replace(copied, metadata=metadata)
    packed = repository.pack(copied)
    if condition:
        change = change_on(condition, repository, branch, path, key, packed)
        stage_change(repository, branch, path, key, change, deadline, force=request.force)
    else:
        repository.stager.stage(branch, [(key, packed)], deadline, force=request.force)
    return copied


def _source_of(repository: RepositoryParts, ref: str, source: str, destination: str) -> ObjectEntry:
    """Return the object to copy, under its new path, safe from garbage collection as :func:`_noted` says."""
    reader = RepositoryReader(repository)
    entries = _noted(repository, reader, ref, [reader.stat(ref, source)])
    if not entries:
        raise ObjectNotFoundError(source, ref)
    return _renamed(repository, entries[0], destination)


def duplicate(repository: RepositoryParts, request: Duplicate, _: Context) -> ObjectEntry:
    """See :class:`graveler.requests.staging.Duplicate`."""
    branch, destination, ref = request.branch, request.destination_path, _source_ref(request)
    reader = RepositoryReader(repository)
    entry = reader.stat(ref, request.source_path)
    prefix = f"{repository.namespace}/"
    if entry.size > _DUPLICATED_BYTES or not entry.address.startswith(prefix):
        return _copy(repository, branch, request.source_path, destination, request)
    key = encode_key(destination)
    deadline = repository.deadlines.begin()
    repository.stager.expect(branch, force=request.force)  # before any byte is written
    name = repository.names.new(branch, destination, repository.clock.now())
    try:
        repository.objects.copy(entry.address.removeprefix(prefix), name)
    except ObjectMissingError:
        reader.expect_kept(ref)
        raise BytesGoneError(request.source_path, ref, entry.address) from None
    copied = msgspec.structs.replace(_renamed(repository, entry, destination), address=f"{prefix}{name}")
    repository.stager.stage(branch, [(key, repository.pack(copied))], deadline, force=request.force)
    return copied


def copy_prefix(repository: RepositoryParts, request: CopyPrefix, _: Context) -> Iterator[ObjectEntry]:
    """See :class:`graveler.requests.staging.CopyPrefix`."""
    if request.source_ref in ("", request.branch):
        refuse_overlap(request.source_prefix, request.destination_prefix)
    utf8("destination", request.destination_prefix)
    return (copied for _, copies in _pages(repository, request) for copied in copies)


def move(repository: RepositoryParts, request: Move, _: Context) -> ObjectEntry:
    """See :class:`graveler.requests.staging.Move`."""
    branch, source = request.branch, request.source_path
    if source == request.destination_path:
        raise InvalidError(f"cannot move {source!r} to itself; choose another path")
    moved = _copy(repository, branch, source, request.destination_path, request)
    repository.stager.stage(branch, [(encode_key(source), None)], repository.deadlines.begin(), force=request.force)
    return moved


def move_prefix(repository: RepositoryParts, request: MovePrefix, _: Context) -> Iterator[tuple[str, ObjectEntry]]:
    """See :class:`graveler.requests.staging.MovePrefix`."""
    refuse_overlap(request.source_prefix, request.destination_prefix)
    utf8("destination", request.destination_prefix)

    def moved() -> Iterator[tuple[str, ObjectEntry]]:
        for old, copies in _pages(repository, request):
            deleted = [(encode_key(entry.path), None) for entry in old]
            repository.stager.stage(request.branch, deleted, repository.deadlines.begin(), force=request.force)
            yield from zip((entry.path for entry in old), copies, strict=True)

    return moved()


def update_metadata(repository: RepositoryParts, request: UpdateMetadata, _: Context) -> ObjectEntry:
    """See :class:`graveler.requests.staging.UpdateMetadata`."""
    branch, path, force = request.branch, request.path, request.force
    key = encode_key(path)

    def replaced(packed: bytes | None) -> bytes:
        if packed is None:
            raise ObjectNotFoundError(path, branch)
        entry = repository.codec.decode(key, packed)
        return repository.pack(msgspec.structs.replace(entry, metadata=dict(request.metadata)))

    basis = look(repository, branch, key, force=force)
    record = replaced(basis.packed)
    if record != basis.packed:
        deadline = repository.deadlines.begin()
        record = stage_change(repository, branch, path, key, replaced, deadline, basis, force=force) or record
    return repository.codec.decode(key, record)


def _source_ref(request: Copy | Move | CopyPrefix | MovePrefix) -> str:
    return request.branch if isinstance(request, Move | MovePrefix) else request.source_ref or request.branch


def _pages(
    repository: RepositoryParts, request: CopyPrefix | MovePrefix
) -> Iterator[tuple[list[ObjectEntry], list[ObjectEntry]]]:
    """Yield objects and their copies, a page at a time, once the copies are staged."""
    reader, ref = RepositoryReader(repository), _source_ref(request)
    entries = reader.objects(ref, request.source_prefix)
    while True:
        deadline = repository.deadlines.begin()
        page = list(islice(entries, _PAGE))
        if not page:
            return
        page = _noted(repository, reader, ref, page)
        copies = [
            _renamed(repository, entry, request.destination_prefix + entry.path.removeprefix(request.source_prefix))
            for entry in page
        ]
        records = [(encode_key(copied.path), repository.pack(copied)) for copied in copies]
        repository.stager.stage(request.branch, records, deadline, force=request.force)
        yield page, copies


def _noted(
    repository: RepositoryParts, reader: RepositoryReader, ref: str, entries: list[ObjectEntry]
) -> list[ObjectEntry]:
    """Return the objects to copy, safe from garbage collection until the copies are staged (:mod:`graveler.lake.objects.traces`).

    No request for young objects. For others, a table write for each thousand, and the source is read again; those that are
    gone by then are omitted. :class:`ExpiredCommitError`.
    """
    backoff = Backoff(repository.clock)
    while keys := repository.traces.needed([entry.address for entry in entries]):
        repository.traces.leave(keys)
        reader.expect_kept(ref)
        again = reader.stat_many(ref, [entry.path for entry in entries])
        if [None if entry is None else entry.address for entry in again] == [entry.address for entry in entries]:
            break
        entries = [entry for entry in again if entry is not None]
        if not backoff.wait():
            raise BusyError(f"the objects to copy from {ref!r} keep being changed by others; try again")
    return entries


def _renamed(repository: RepositoryParts, entry: ObjectEntry, path: str) -> ObjectEntry:
    return msgspec.structs.replace(entry, path=path, mtime=int(repository.clock.now()))


def refuse_overlap(source: str, destination: str) -> None:
    """Raise :class:`InvalidError` if one of two prefixes of a branch begins with the other."""
    if source.startswith(destination) or destination.startswith(source):
        raise InvalidError(
            f"{source!r} and {destination!r} overlap, so one would be copied into the other; choose prefixes where neither "
            "starts with the other"
        )
