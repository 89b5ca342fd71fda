"""Copying and moving objects without their bytes, and changing what is noted of an object.

A copy is another record with the same address. Addresses inside the namespace prove for which path they were handed out
(:mod:`graveler.lake.addresses`); a copy does not show that proof again, since it takes over a record that was checked once.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from graveler.errors import BusyError, InvalidError, ObjectNotFoundError, UnavailableError
from graveler.history.refs import BranchState, Refs
from graveler.lake.branches import Branches, busy
from graveler.lake.clock import Backoff, Clock
from graveler.lake.deadline import Deadlines
from graveler.lake.rules import Intent
from graveler.lake.stage import Stager
from graveler.lake.text import utf8
from graveler.lake.traces import Traces
from graveler.model import ObjectEntry
from graveler.staging.changes import Staged, StagedChanges
from graveler.storage.tables import ConditionFailedError, Tables
from graveler.tree.record import RecordCodec, encode_key
from graveler.tree.tree import Trees

if TYPE_CHECKING:
    from graveler.lake.reading import RepositoryReader

_PAGE: Final = 1000


class Copier:
    """Copies and moves objects of one repository."""

    def __init__(
        self,
        tables: Tables,
        refs: Refs,
        branches: Branches,
        staged: StagedChanges,
        trees: Trees,
        codec: RecordCodec,
        pack: Callable[[ObjectEntry], bytes],
        stager: Stager,
        reader: "RepositoryReader",
        traces: Traces,
        clock: Clock,
        deadlines: Deadlines,
    ) -> None:
        self._tables = tables
        self._refs = refs
        self._branches = branches
        self._staged = staged
        self._trees = trees
        self._codec = codec
        self._pack = pack
        self._stager = stager
        self._reader = reader
        self._traces = traces
        self._clock = clock
        self._deadlines = deadlines

    def copy(self, branch: str, source: str, destination: str, source_ref: str, *, force: bool) -> ObjectEntry:
        """See :meth:`graveler.lake.repository.OpenRepository.copy`."""
        key = encode_key(destination)
        until = self._deadlines.begin()
        found = self._noted(source_ref or branch, [self._reader.stat(source_ref or branch, source)])
        if not found:
            raise ObjectNotFoundError(source, source_ref or branch)
        copied = self._renamed(found[0], destination)
        self._stager.stage(branch, [(key, self._pack(copied))], until, force=force)
        return copied

    def copy_prefix(
        self, branch: str, source: str, destination: str, source_ref: str, *, force: bool
    ) -> Iterator[ObjectEntry]:
        """See :meth:`graveler.lake.repository.OpenRepository.copy_prefix`."""
        if source_ref in ("", branch):
            _refuse_overlap(source, destination)
        for _, copies in self._pages(branch, source, destination, source_ref, force=force):
            yield from copies

    def move(self, branch: str, source: str, destination: str, *, force: bool) -> ObjectEntry:
        """See :meth:`graveler.lake.repository.OpenRepository.move`."""
        if source == destination:
            raise InvalidError(f"{source!r} is to be moved to itself; name another path")
        moved = self.copy(branch, source, destination, "", force=force)
        self._stager.stage(branch, [(encode_key(source), None)], self._deadlines.begin(), force=force)
        return moved

    def move_prefix(
        self, branch: str, source: str, destination: str, *, force: bool
    ) -> Iterator[tuple[str, ObjectEntry]]:
        """See :meth:`graveler.lake.repository.OpenRepository.move_prefix`."""
        _refuse_overlap(source, destination)
        for old, copies in self._pages(branch, source, destination, "", force=force):
            deleted = [(encode_key(entry.path), None) for entry in old]
            self._stager.stage(branch, deleted, self._deadlines.begin(), force=force)
            yield from zip((entry.path for entry in old), copies, strict=True)

    def update_metadata(self, branch: str, path: str, metadata: Mapping[str, str], *, force: bool) -> ObjectEntry:
        """See :meth:`graveler.lake.repository.OpenRepository.update_metadata`."""
        key = encode_key(path)
        backoff = Backoff(self._clock)
        while True:
            state, top, packed = self._look(branch, key, force=force)
            if packed is None:
                raise ObjectNotFoundError(path, branch)
            entry = msgspec.structs.replace(self._codec.decode(key, packed), metadata=dict(metadata))
            wanted = self._pack(entry)
            if wanted == packed:
                return entry
            write = self._staged.put_write(state.open, key, wanted, top)
            try:
                self._tables.transact([write, self._refs.unchanged_check(state)])
                return entry
            except ConditionFailedError:
                if not backoff.wait():
                    raise busy(branch) from None
            except UnavailableError:
                if self._look(branch, key, force=force)[2] != wanted:
                    raise
                return entry

    def _pages(
        self, branch: str, source: str, destination: str, source_ref: str, *, force: bool
    ) -> Iterator[tuple[list[ObjectEntry], list[ObjectEntry]]]:
        """Objects and their copies, a page at a time, when the copies are staged."""
        utf8("destination", destination)
        entries = self._reader.objects(source_ref or branch, source)
        while True:
            until = self._deadlines.begin()
            page = list(islice(entries, _PAGE))
            if not page:
                return
            page = self._noted(source_ref or branch, page)
            copies = [self._renamed(entry, destination + entry.path.removeprefix(source)) for entry in page]
            records = [(encode_key(copied.path), self._pack(copied)) for copied in copies]
            self._stager.stage(branch, records, until, force=force)
            yield page, copies

    def _noted(self, ref: str, entries: list[ObjectEntry]) -> list[ObjectEntry]:
        """The objects to copy, safe from garbage collection until the copies are staged (:mod:`graveler.lake.traces`).

        No request for young objects. For others, a table write for each thousand, and the source is read again; those that are
        gone by then are left out. :class:`ExpiredCommitError`.
        """
        backoff = Backoff(self._clock)
        while keys := self._traces.needed([entry.address for entry in entries]):
            self._traces.leave(keys)
            self._reader.expect_kept(ref)
            again = self._reader.stat_many(ref, [entry.path for entry in entries])
            if [None if entry is None else entry.address for entry in again] == [entry.address for entry in entries]:
                break
            entries = [entry for entry in again if entry is not None]
            if not backoff.wait():
                raise BusyError(f"what is to be copied from {ref!r} is being changed by too many others; try again")
        return entries

    def _renamed(self, entry: ObjectEntry, path: str) -> ObjectEntry:
        return msgspec.structs.replace(entry, path=path, mtime=int(self._clock.now()))

    def _look(self, branch: str, key: bytes, *, force: bool) -> tuple[BranchState, Staged | None, bytes | None]:
        """The branch, what its open token holds for a key, and the record that it has."""
        state = self._branches.state(branch, Intent(direct=True, force=force))
        staged = self._staged.look((state.open, *state.sealed[::-1]), key)
        newest = next((found for found in staged if found is not None), None)
        if newest is not None:
            return state, staged[0], newest.packed
        tree = self._trees.load(self._branches.commit(state.commit_id).metarange)
        return state, None, tree.get(key)


def _refuse_overlap(source: str, destination: str) -> None:
    if source.startswith(destination) or destination.startswith(source):
        raise InvalidError(
            f"{source!r} and {destination!r} overlap, so one would be copied into the other; choose prefixes of which neither "
            "begins with the other"
        )
