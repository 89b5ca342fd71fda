"""Space usage: bytes of stored objects by branch, tag, legal hold, dump and reference log; and what their deletion would free.

Each object is counted once, however many name it. The objects of a branch are those that its last commit names, those of older
commits that keep their objects because of it (its *history*: subject to retention rules), and those that are staged. The
*exclusive* ones have no other holder: they are freed, a grace period later, when the branch or tag is deleted.

Holders are bits of a number. Commits pass the bits of branches on to their parents, ranges have those of the commits that contain
them, and one pass over the listing and the sorted marks of the collector adds up sizes by combination of holders. Memory: as of
the collector, and for each range and each combination a number with a bit per holder.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from enum import Enum
from functools import partial
from itertools import islice
from math import inf
from tempfile import TemporaryFile
from typing import IO, Final

from msgspec import Struct

from graveler.history.reflog import RefKind
from graveler.history.refs import BranchState
from graveler.lake.gates.candidates import Candidates
from graveler.lake.importing.external_sort import Block, sort_blocks
from graveler.lake.opening.repositories import Repositories
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID, RetentionRules
from graveler.retention.comparison import BATCH, ROW, Rows
from graveler.retention.engine import InProcess
from graveler.retention.holds import Holds
from graveler.retention.live_listing import EVERYTHING, Horizon, Unknown, own_objects
from graveler.retention.marks import MOST_FILES, Marks
from graveler.retention.range_numbers import RangeNumbers
from graveler.retention.roots import Names, RootReader
from graveler.retention.rowfiles import read_rows
from graveler.retention.rules import DAY, KnownCommit
from graveler.retention.runs import Claim, Tally
from graveler.staging.changes import StagedChanges
from graveler.storage.durable_files import temporary_files
from graveler.system.progress import Progress, no_progress
from graveler.tree.record import record_data_id

_INSIDE: Final = "_graveler/"
_MEMORY: Final = 64 << 20
_PIECE: Final = 1 << 20
_PAGE: Final = 1000


class HolderKind(str, Enum):
    """The kind of a holder of objects."""

    BRANCH = "branch"
    TAG = "tag"
    HOLD = "legal hold"
    CANDIDATE = "candidate"
    DUMP = "dump"
    LOG = "reference log"


class Holding(Struct, frozen=True):
    """The objects of one holder. ``exclusive`` ones have no other holder. ``history`` ones are held by nothing but older commits
    of branches, this one's or others': they are subject to retention rules. Reference logs, which let go of their objects after
    another grace period, do not count as holders for either."""

    kind: HolderKind
    name: str
    held: Tally
    exclusive: Tally
    history: Tally


class Space(Struct, frozen=True):
    """The stored space. ``objects`` have names of graveler's form; those that are ``unheld`` have no holder (garbage, and uploads
    in progress). ``own`` are graveler's own files by folder (ranges, metaranges, commits, quarantine, …); ``unknown`` are files
    that are not graveler's."""

    holders: tuple[Holding, ...]
    objects: Tally
    unheld: Tally
    own: Mapping[str, Tally]
    unknown: Tally


class BranchBits(Struct, frozen=True):
    """The bits of a branch, and its commit."""

    name: str
    commit_id: CommitID
    head: int
    history: int
    staged: int


def space(repository: OpenRepository, progress: Progress = no_progress) -> Space:
    """Return the space by holder. Concurrent changes may be counted or not. Takes the turn of a collector, and reads and saves
    its marks. :class:`BusyError` while a collector is at work, :class:`CorruptError`.

    Cost: a table read per thousand branches, tags, staged changes and commits, one for each ref's log; an object read for each
    metarange and range that no run has read before; a listing of the namespace. About 2 µs an object and row.
    """
    claim = Claim(
        repository.tables,
        repository.repository.uid,
        repository.clock,
        repository.leases,
        lambda: progress("waiting for a collector", 0, 1),
    )
    try:
        return _Survey(repository, claim, progress).make()
    finally:
        claim.release()


def held_by(
    commits: Mapping[CommitID, KnownCommit],
    branches: Sequence[BranchBits],
    pins: Mapping[CommitID, int],
    rules: RetentionRules | None,
    now: float,
) -> dict[CommitID, int]:
    """Return the bits of the holders of each commit's objects, as :func:`graveler.retention.rules.judge` decides. No
    request."""
    masks: dict[CommitID, int] = {cid: mask for cid, mask in pins.items() if cid in commits}
    passed: dict[CommitID, int] = {} if rules is not None else dict(masks)
    since: dict[int, float] = {}
    for branch in branches:
        if branch.commit_id in commits:
            masks[branch.commit_id] = masks.get(branch.commit_id, 0) | branch.head
            passed[branch.commit_id] = passed.get(branch.commit_id, 0) | branch.history
            if rules is not None:
                since[branch.history] = now - rules.branches.get(branch.name, rules.default_days) * DAY
    for cid in _children_first(commits, passed):
        commit = commits[cid]
        mask = passed.pop(cid, 0)
        for bit, moment in since.items():
            if mask & bit and commit.created < moment:
                mask &= ~bit
        for parent in commit.parents:
            if mask and parent in commits:
                masks[parent] = masks.get(parent, 0) | mask
                passed[parent] = passed.get(parent, 0) | mask
    return masks


def _children_first(commits: Mapping[CommitID, KnownCommit], starts: Mapping[CommitID, int]) -> Iterator[CommitID]:
    """Yield all ancestors of ``starts``, each after all of its children among them."""
    children: dict[CommitID, int] = dict.fromkeys(starts, 0)
    todo = list(starts)
    while todo:
        for parent in commits[todo.pop()].parents:
            if parent in commits:
                if parent not in children:
                    children[parent] = 0
                    todo.append(parent)
                children[parent] += 1
    ready = [cid for cid, count in children.items() if not count]
    while ready:
        cid = ready.pop()
        yield cid
        for parent in commits[cid].parents:
            if parent in commits:
                children[parent] -= 1
                if not children[parent]:
                    ready.append(parent)


class _Survey:
    """One measurement of the space."""

    def __init__(self, repository: OpenRepository, claim: Claim, progress: Progress) -> None:
        self._repository, self._claim, self._progress = repository, claim, progress
        self._objects = repository.namespace
        self._holders: list[tuple[HolderKind, str, int, int]] = []
        """Kind, name, all bits, and that of the history."""
        self._bits = 0

    def make(self) -> Space:
        opened = self._repository
        alive = self._claim.renew
        reader = RootReader(opened.repository, opened.tables, self._objects, opened.clock, opened.grace, alive)
        self._progress("reading refs", 0, 1)
        now = opened.clock.now()
        states = reader.branches()
        branches = [self._branch(state) for state in states]
        dumped = Names()
        with closing(dumped):
            pins, dump = self._pins(reader, states, now - opened.grace - opened.skew, dumped)
            commits = reader.commits()
            rules = Repositories(opened.tables).get(opened.repository.name).repository.settings.retention
            masks = held_by(commits, branches, pins, rules, now)
            marks = Marks(self._objects)
            ranges = self._ranges(marks, commits, masks)
            extra = [*(branch.staged for branch in branches), dump]
            with temporary_files("adding up staged changes"), TemporaryFile() as file:
                self._write_staged(states, dumped, file)
                file.seek(0)
                staged = Rows(iter(partial(file.read, _PIECE), b""))
                rows = [(read_rows(self._objects, key), ranges) for key in marks.files]
                unknown = Unknown()
                tallies = self._add_up([*rows, (staged, extra)], unknown)
        return self._space(tallies, unknown)

    def _bit(self) -> int:
        self._bits += 1
        return 1 << self._bits - 1

    def _branch(self, state: BranchState) -> BranchBits:
        bits = BranchBits(state.name, state.commit_id, self._bit(), self._bit(), self._bit())
        together = bits.head | bits.history | bits.staged
        self._holders.append((HolderKind.BRANCH, state.name, together, bits.history))
        return bits

    def _other(self, kind: HolderKind, name: str = "") -> int:
        bit = self._bit()
        self._holders.append((kind, name, bit, 0))
        return bit

    def _pins(
        self, reader: RootReader, states: Sequence[BranchState], since: float, dumped: Names
    ) -> tuple[dict[CommitID, int], int]:
        """Return the bits of the holders of commits besides branches; and that of the dumps."""
        pins: dict[CommitID, int] = {}

        def add(commit: CommitID, bit: int) -> None:
            pins[commit] = pins.get(commit, 0) | bit

        refs: list[tuple[RefKind, str]] = [("branch", state.name) for state in states]
        after: str | None = ""
        while after is not None:
            page = self._repository.tags(after=after, amount=_PAGE)
            for tag in page.results:
                add(tag.commit_id, self._other(HolderKind.TAG, tag.name))
                refs.append(("tag", tag.name))
            after = page.next_after
        for hold in Holds(self._repository.tables, self._repository.repository.uid).all():
            add(hold.commit_id, self._other(HolderKind.HOLD, hold.commit_id))
        for row in Candidates(self._repository.tables, self._repository.repository.uid).all():
            if row.in_progress and row.candidate.commit_id:
                add(row.candidate.commit_id, self._other(HolderKind.CANDIDATE, row.candidate.commit_id))
        of_dumps: dict[CommitID, str] = {}
        reader.read_dumps(of_dumps, dumped)
        of_logs: dict[CommitID, str] = {}
        reader.read_logs(refs, since, of_logs)
        dump = self._other(HolderKind.DUMP)
        for commit in of_dumps:
            add(commit, dump)
        log = self._other(HolderKind.LOG)
        for commit in of_logs:
            add(commit, log)
        return pins, dump

    def _ranges(
        self, marks: Marks, commits: Mapping[CommitID, KnownCommit], masks: Mapping[CommitID, int]
    ) -> Sequence[int]:
        """Return the bits of each range, by its number; ranges that no run has read are read."""
        trees: dict[str, int] = {}
        for cid, mask in masks.items():
            if commits[cid].metarange:
                trees[commits[cid].metarange] = trees.get(commits[cid].metarange, 0) | mask

        def report(phase: str, done: int, total: int) -> None:
            self._progress(phase, done, total)
            self._claim.renew()

        marks.read(trees, commits, partial(report, "reading metaranges"))
        range_masks = marks.masks()
        numbers = RangeNumbers([number for number, mask in enumerate(range_masks) if mask])
        progress = partial(report, "reading ranges")
        engine = InProcess(self._repository.clock)
        unread = marks.unread(numbers)
        if unread:
            marks.add(unread, engine.mark(self._objects, unread, progress))
        marks.save(numbers, lambda objects, files, alive: engine.merge(objects, files, alive, progress), MOST_FILES)
        return range_masks

    def _write_staged(self, states: Sequence[BranchState], dumped: Names, file: IO[bytes]) -> None:
        """Write the rows of staged objects by the number of their branch, followed by those of dumps."""
        staged = StagedChanges(self._repository.tables, self._repository.repository.uid)

        def names() -> Iterator[tuple[bytes, int]]:
            for number, state in enumerate(states):
                for token in (*state.sealed, state.open):
                    self._claim.renew()
                    for _, packed in staged.scan([token]):
                        name = None if packed is None else record_data_id(packed)
                        if name is not None:
                            yield name, number
            for name in dumped.sorted():
                yield name, len(states)

        def blocks() -> Iterator[Block]:
            source = names()
            while some := list(islice(source, BATCH)):
                yield [name for name, _ in some], [number for _, number in some], [b""] * len(some)

        for sorted_names, numbers, _ in sort_blocks(blocks(), _MEMORY):
            file.write(b"".join(map(ROW.pack, sorted_names, numbers)))

    def _add_up(self, sources: Sequence[tuple[Rows, Sequence[int]]], unknown: Unknown) -> dict[int, Tally]:
        """Return objects and bytes by combination of holders."""
        sums: dict[int, list[int]] = {}

        def report(done: int) -> None:
            self._progress("listing objects", done, done)
            self._claim.renew()

        whenever = Horizon(inf, inf, self._repository.parts.names.table_folders)
        listing = own_objects(self._objects, EVERYTHING, whenever, unknown, report)
        while batch := list(islice(listing, BATCH)):
            holders: dict[bytes, int] = {}
            for rows, masks in sources:
                for name, number in ROW.iter_unpack(rows.upto(batch[-1].name)):
                    if masks[number]:
                        holders[name] = holders.get(name, 0) | masks[number]
            for listed in batch:
                added = sums.setdefault(holders.get(listed.name, 0), [0, 0])
                added[0] += 1
                added[1] += listed.size
        return {mask: Tally(files, size) for mask, (files, size) in sums.items()}

    def _space(self, tallies: Mapping[int, Tally], unknown: Unknown) -> Space:
        history = sum(bit for *_, bit in self._holders)
        log = sum(bits for kind, _, bits, _ in self._holders if kind is HolderKind.LOG)  # expires by itself
        holdings = []
        for kind, name, bits, own_bit in self._holders:
            used = {mask: tally for mask, tally in tallies.items() if mask & bits}
            holding = Holding(
                kind,
                name,
                _total(used.values()),
                _total(tally for mask, tally in used.items() if not mask & ~(bits | log)),
                _total(tally for mask, tally in used.items() if mask & own_bit and not mask & ~(history | log)),
            )
            if kind in (HolderKind.BRANCH, HolderKind.TAG) or holding.held.files:
                holdings.append(holding)
        files: dict[str, Tally] = {}
        for stored in self._objects.list(_INSIDE):
            folder = stored.key.split("/", 2)[1]
            files[folder] = files.get(folder, Tally()).plus(stored.size)
        for stored in self._objects.list():
            if stored.key >= _INSIDE:
                break
            unknown.add(stored)
        return Space(tuple(holdings), _total(tallies.values()), tallies.get(0, Tally()), files, unknown.tally)


def _total(tallies: Iterable[Tally]) -> Tally:
    files = size = 0
    for tally in tallies:
        files += tally.files
        size += tally.bytes
    return Tally(files, size)
