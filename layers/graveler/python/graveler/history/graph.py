"""Queries on the commit graph: merge base, ancestry, log, origins.

A walk needs one commit after the other, and a request for a hundred takes as long as for one. So a walk reads ahead: together
with the commit that it needs it reads those that it will probably need next (:class:`_Reader`). Any surplus stays in the store's
memory.

Generations (1 for a root, otherwise one more than the highest parent's) bound every walk: an ancestor's is always lower.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Final, NamedTuple, cast

from graveler.errors import CorruptError, InvalidError, RefNotFoundError
from graveler.history.commits import READ_BATCH, CachedCommit, CommitStore, is_commit_id
from graveler.model import Commit, CommitID, Divergence, Page
from graveler.system.departures import expect_client

_LEFT: Final = 1
_RIGHT: Final = 2
_BOTH: Final = 3
_STALE: Final = 4

_BASE: Final = 1
"""The paint of the base, where other bits are tips."""

MAX_COUNT: Final = 1000
"""Number of commits up to which distances are counted."""

_MAX_FRONTIER: Final = 64
"""Maximum number of IDs in a log's position, so that it fits a URL: 4 KiB, of the 8 or 10 that gateways take."""

Shows = Callable[[Commit, Sequence[Commit]], bool]
"""Returns whether to show a commit that has these parents (of those that the log follows)."""

Unchanged = Callable[[Commit, Commit, Sequence[int]], Collection[int]]
"""Returns which of these things the second commit, a parent of the first, has exactly as the first has them."""


def merge_base(commits: CommitStore, left_id: CommitID, right_id: CommitID) -> CommitID | None:
    """Return the best common ancestor of two commits; None if they share no history.

    It is a common ancestor (a commit counts as its own) that is not an ancestor of another one; of several the one with the
    highest generation, then with the smallest ID. Requests: about one for each 32 generations that lie above the result along the
    main line, two at least unless in memory; only commits above the result's generation are looked at. Errors as
    :meth:`CommitStore.get`.
    """
    return next(_common_ancestors(commits, left_id, right_id), None)


def best_common_ancestors(commits: CommitStore, left_id: CommitID, right_id: CommitID) -> list[CommitID]:
    """Return all best common ancestors, the one that :func:`merge_base` chooses first, then by generation and ID. Requests: as
    :func:`merge_base`, down to the lowest of them."""
    return list(_common_ancestors(commits, left_id, right_id))


def _common_ancestors(commits: CommitStore, left_id: CommitID, right_id: CommitID) -> Iterator[CommitID]:
    """Paint the commits that each side reaches, from high generations to low ones; all descendants of a commit come before it.

    So a commit's paint is final when its turn comes. One with both colours, and not below another such, is a best common
    ancestor; everything below it is stale. The walk ends when all waiting commits are stale.
    """
    reader = _Reader(commits)
    paint = {left_id: _LEFT}
    paint[right_id] = paint.get(right_id, 0) | _RIGHT
    # An unread commit waits under the highest generation that it can have, before those known to have it, and is read when its
    # turn comes: many never are.
    waiting: list[tuple[int, int, CommitID, Commit | None]] = []
    for commit in reader.take(list(paint)):
        heappush(waiting, (-commit.generation, 1, commit.id, commit))
    fresh = set(paint)  # waiting and not stale
    while fresh:
        bound, _, cid, read = heappop(waiting)
        if read is None:
            (commit,) = reader.take([cid])
            _check_generation(commit, -bound)
            heappush(waiting, (-commit.generation, 1, cid, commit))
            continue
        fresh.discard(cid)
        colour = paint[cid]
        if colour == _BOTH:
            yield cid
            colour |= _STALE
        for parent in read.parents:
            before = paint.get(parent)
            if before is None:
                before = 0
                heappush(waiting, (1 - read.generation, 0, parent, None))
            paint[parent] = after = before | colour
            if after & _STALE:
                fresh.discard(parent)
            else:
                fresh.add(parent)


def commits_without(commits: CommitStore, tip: CommitID, without: CommitID) -> Iterator[Commit]:
    """Yield the commits that ``tip`` reaches and ``without`` does not, those of high generations first. Requests: about one for
    each 32 generations that lie above the merge base along the main line. Errors as :meth:`CommitStore.get`."""
    reader = _Reader(commits)
    paint = {tip: _LEFT}
    paint[without] = paint.get(without, 0) | _RIGHT
    waiting = [(-commit.generation, 1, commit.id, cast(Commit | None, commit)) for commit in reader.take(list(paint))]
    heapify(waiting)  # as in _common_ancestors
    fresh = {cid for cid, colour in paint.items() if colour == _LEFT}
    while fresh:
        bound, _, cid, commit = heappop(waiting)
        if commit is None:
            (commit,) = reader.take([cid])
            _check_generation(commit, -bound)
            heappush(waiting, (-commit.generation, 1, cid, commit))
            continue
        if cid in fresh:
            fresh.remove(cid)
            yield commit
        colour = paint.pop(cid)
        for parent in commit.parents:
            if parent not in paint:
                paint[parent] = 0
                heappush(waiting, (1 - commit.generation, 0, parent, None))
            paint[parent] |= colour
            (fresh.add if paint[parent] == _LEFT else fresh.discard)(parent)


def _check_generation(commit: Commit, bound: int) -> None:
    """Refuse a commit of a higher generation than its child allows: :class:`CorruptError`."""
    if commit.generation > bound:
        raise CorruptError(f"commit {commit.id} has generation {commit.generation}, which is not below its child's")


def divergences(
    commits: CommitStore, base: CommitID, tips: Sequence[CommitID], limit: int = MAX_COUNT
) -> list[Divergence]:
    """Return the distance of each tip from ``base``, counted up to ``limit``.

    One walk for all of them, from high generations to low ones. It paints each commit with the tips that reach it, a bit for
    each, and with :data:`_BASE` if the base does; all descendants of a commit come before it, so its paint is final at its turn.
    A waiting commit is *open* if a tip reaches it without the base, or the base without a tip, of the tips whose counts have not
    passed the limit; the walk ends when none is. So a tip that is further behind may have commits of its own that were not
    counted. Requests: one for each 100 tips, and about one for each 32 generations that are looked at. Errors as
    :meth:`CommitStore.get`.
    """
    reader = _Reader(commits)
    indexes = {tip: index for index, tip in enumerate(dict.fromkeys(tips))}
    all_tips = unsettled = (2 << len(indexes)) - 2
    tip_counts, base_counts = _BitCounters(all_tips, limit), _BitCounters(all_tips, limit)
    paint = {tip: 2 << index for tip, index in indexes.items()}  # of the commits that wait
    paint[base] = paint.get(base, 0) | _BASE
    waiting = [(-commit.generation, 1, commit.id, cast(Commit | None, commit)) for commit in reader.take(list(paint))]
    heapify(waiting)  # as in _common_ancestors
    open_commits = {cid for cid, colours in paint.items() if _parted(colours, unsettled)}
    while open_commits:
        expect_client()
        bound, _, cid, commit = heappop(waiting)
        if commit is None:
            (commit,) = reader.take([cid])
            _check_generation(commit, -bound)
            heappush(waiting, (-commit.generation, 1, cid, commit))
            continue
        open_commits.discard(cid)
        colours = paint.pop(cid)
        for parent in commit.parents:
            if parent not in paint:
                paint[parent] = 0
                heappush(waiting, (1 - commit.generation, 0, parent, None))
            paint[parent] |= colours
            (open_commits.add if _parted(paint[parent], unsettled) else open_commits.discard)(parent)
        passed = (base_counts if colours & _BASE else tip_counts).add(_parted(colours, all_tips))
        if passed & unsettled:
            unsettled &= ~passed
            open_commits = {cid for cid in open_commits if _parted(paint[cid], unsettled)}
    undecided = 0
    for colours in paint.values():
        undecided |= _parted(colours, all_tips)
    by_index = []
    for index in range(1, len(indexes) + 1):
        bit = 1 << index
        unmerged = (tip_counts.passed & bit) | tip_counts.count(index) > 0
        by_index.append(
            Divergence(
                tip_counts.count(index),
                base_counts.count(index),
                more=(undecided | tip_counts.passed | base_counts.passed) & bit != 0,
                merged=None if undecided & bit and not unmerged else not unmerged,
            )
        )
    return [by_index[indexes[tip]] for tip in tips]


def _parted(colours: int, tips: int) -> int:
    """Return those of the tips that reach a commit of this paint without the base, or that the base reaches it without."""
    return tips & ~colours if colours & _BASE else tips & colours


class _BitCounters:
    """A counter for each of some bits, up to a limit. A number of ``_planes`` holds one digit of all counters, so that adding to
    many of them takes a few operations. They begin so far below a power of two that passing the limit is a carry."""

    def __init__(self, bits: int, limit: int) -> None:
        self._limit = limit
        self._start = (1 << limit.bit_length()) - 1 - limit
        self._planes = [bits if self._start >> digit & 1 else 0 for digit in range(limit.bit_length())]
        self.passed = 0
        """The bits whose counters have passed the limit."""

    def add(self, bits: int) -> int:
        """Count one more for each of these bits; return those that have passed the limit."""
        for digit, plane in enumerate(self._planes):
            self._planes[digit] = plane ^ bits
            bits &= plane
            if not bits:
                return self.passed
        self.passed |= bits
        return self.passed

    def count(self, index: int) -> int:
        """Return the counter of the bit at ``index``; the limit if it has passed that."""
        if self.passed >> index & 1:
            return self._limit
        return sum((plane >> index & 1) << digit for digit, plane in enumerate(self._planes)) - self._start


def first_parent_ancestor(commits: CommitStore, start: CommitID, distance: int) -> tuple[CommitID | None, int]:
    """Return the commit ``distance`` steps along first parents from ``start``, and the number of commits on that walk
    (``distance`` + 1); None, and the number of commits, if the history ends before.

    The resulting commit is read only if that costs nothing. Requests: none for distance 0, otherwise one, and one for each
    further 32 steps begun. Errors as :meth:`CommitStore.get`.
    """
    reader = _Reader(commits, first_parent=True)
    ancestor = start
    for step in range(distance):
        (commit,) = reader.take([ancestor], read_ahead=distance - step)
        if not commit.parents:
            return None, step + 1
        ancestor = commit.parents[0]
    return ancestor, distance + 1


def log(
    commits: CommitStore,
    start: CommitID,
    *,
    first_parent: bool = False,
    since: int | None = None,
    stop_at: CommitID | None = None,
    limit: int | None = None,
) -> Iterator[Commit]:
    """Yield the commits that ``start`` can reach, itself first: of those whose child was shown always the one created last, then
    the one with the higher generation, then the one that was reached first, first parents before others. Each once.

    ``first_parent`` follows no other parents; ``since`` (Unix seconds) leaves out commits created before, and those that only
    they reach; ``stop_at`` is the last commit shown; ``limit`` is the maximum number shown. Requests: one for each 32 shown in a
    linear history, fewer in one with merges, up to one for each shown in the worst case. Errors as :meth:`CommitStore.get`, from
    the iterator.
    """
    walk = _LogWalk(commits, [start], first_parent=first_parent, since=since)
    shown = 0
    while limit is None or shown < limit:
        commit = walk.next(READ_BATCH if limit is None else limit - shown - 1)
        if commit is None:
            return
        yield commit
        shown += 1
        if commit.id == stop_at:
            return


class Origins(NamedTuple):
    """The result of :func:`origins`. ``commits``: for each thing the commit that gave it its state. ``frontier``: where the walk
    goes on if it was stopped, as commits, and the things that they have in that state."""

    commits: dict[int, Commit]
    frontier: Mapping[CommitID, Sequence[int]]


def origins(
    commits: CommitStore,
    frontier: Mapping[CommitID, Sequence[int]],
    unchanged: Unchanged,
    stop: Callable[[], bool] = lambda: False,
) -> Origins:
    """Return for each thing the commit that gave it the state in which the commits of ``frontier`` have it.

    From commit to commit a thing goes to the first of the parents that has it unchanged, and ends where none has. One walk for
    all of them; each commit is looked at once. It ends early once ``stop`` returns True, but looks at one commit at least.
    Requests: about one for each 32 generations down to the lowest origin. Errors as :meth:`CommitStore.get`.
    """
    reader = _Reader(commits)
    origin_of: dict[int, Commit] = {}
    arrived: dict[CommitID, list[int]] = {cid: list(things) for cid, things in frontier.items()}
    # The highest generation first: things arrive at a commit only from higher ones, so all of them are there at its turn.
    waiting: list[tuple[int, CommitID, Commit]] = [(-c.generation, c.id, c) for c in reader.take(list(arrived))]
    heapify(waiting)
    while waiting:
        expect_client()
        _, cid, commit = heappop(waiting)
        remaining = arrived.pop(cid)
        for parent in reader.take(commit.parents):
            same = set(unchanged(commit, parent, remaining)) if remaining else set()
            if not same:
                continue
            if parent.id not in arrived:
                arrived[parent.id] = []
                heappush(waiting, (-parent.generation, parent.id, parent))
            arrived[parent.id] += same
            remaining = [number for number in remaining if number not in same]
        origin_of.update((number, commit) for number in remaining)
        if waiting and stop():
            break
    return Origins(origin_of, arrived)


def log_page(
    commits: CommitStore,
    start: CommitID,
    after: str | None,
    amount: int,
    *,
    first_parent: bool = False,
    since: int | None = None,
    stop_at: CommitID | None = None,
    shows: Shows | None = None,
    limit: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Page[Commit]:
    """Return up to ``amount`` (at least 1) commits of :func:`log`, from the one that follows ``after``: a page's ``next_after``,
    or the ID of any commit in the log. With ``shows``, only those for which it returns True.

    ``next_after`` is the ID of a commit and then, each after a dot, the IDs with which the walk continues: so a page costs as
    many requests as a log of its length; with ``shows``, as one that reaches the first commit of the next page. An ID alone, or
    creation times that rise towards the past, make the walk begin at ``start`` again: requests as for a log of all up to the
    page's end. With ``limit``, the caller wants these commits and no more: the page has no ``next_after``, and no walk finds out
    whether anything follows. Once ``stop`` returns True the page ends, with a ``next_after`` unless the walk is over, even if it
    is not full; but the walk passes one commit at least.

    Raises :class:`InvalidError` for a malformed ``after`` and an ``amount`` below 1, :class:`RefNotFoundError` if the log does
    not contain it, and the errors of :func:`log`.
    """
    if amount < 1:
        raise InvalidError(f"amount is {amount}; ask for at least 1")
    whole = _LogWalk(commits, [start], first_parent=first_parent, since=since)
    if after is None:
        return _page(whole, amount, stop_at, shows, stop, limit=limit)
    position = after.split(".")
    if not all(map(is_commit_id, position)):
        raise InvalidError(
            f"{after[:80]!r} is not a position in a log; pass the position from the previous page, or a commit ID"
        )
    last, *frontier = map(CommitID, position)
    if last == stop_at:
        return Page(())
    if frontier:
        resumed = _LogWalk(commits, frontier, first_parent=first_parent, since=since, passed=last)
        page = _page(resumed, amount, stop_at, shows, stop, limit=limit)
        if resumed.ordered:
            return page
    while (commit := whole.next()) is not None:
        if commit.id == last:
            return _page(whole, amount, stop_at, shows, stop, limit=limit)
    raise RefNotFoundError(last, f"the log of {start[:16]} does not contain it; start again from the first page")


def _page(
    walk: "_LogWalk",
    amount: int,
    stop_at: CommitID | None,
    shows: Shows | None,
    stop: Callable[[], bool],
    *,
    limit: bool,
) -> Page[Commit]:
    results: list[Commit] = []
    position: list[CommitID] = []
    """Once the page is full: the last commit that the walk passed, and where it would go on."""
    while (commit := walk.next(amount - len(results) if shows is None else READ_BATCH)) is not None:
        if shows is None or shows(commit, walk.parents(commit)):
            if len(results) == amount:
                return Page(tuple(results), _offset(walk, position))
            results.append(commit)
        if commit.id == stop_at:
            break
        if len(results) == amount:
            if limit:
                break
            position = [commit.id, *walk.frontier()]
        if stop():
            position = [commit.id, *walk.frontier()]
            return Page(tuple(results), _offset(walk, position) if len(position) > 1 else None)
    return Page(tuple(results))


def _offset(walk: "_LogWalk", position: Sequence[CommitID]) -> str:
    """Return the position as text: only its commit if a walk could not resume there."""
    return ".".join(position) if walk.ordered and len(position) <= 1 + _MAX_FRONTIER else position[0]


class _LogWalk:
    """A walk in the order of :func:`log`, from ``seeds``; ``passed`` is the last commit that an earlier walk showed, whose
    frontier the seeds are.

    ``ordered``: no commit came that sorts before one shown earlier. As long as that holds, everything shown sorts before the
    rest, so a walk from the frontier alone cannot meet it again. It stops holding when a commit is younger than its child.
    """

    def __init__(
        self,
        commits: CommitStore,
        seeds: Sequence[CommitID],
        *,
        first_parent: bool,
        since: int | None,
        passed: CommitID | None = None,
    ) -> None:
        self._reader = _Reader(commits, first_parent=first_parent)
        self._first_parent, self._since, self._passed = first_parent, since, passed
        self._queue: list[tuple[int, int, int, Commit]] = []
        self._arriving: Sequence[CommitID] = seeds
        self._arrived = 0
        self._seen = set(seeds)
        self._last: tuple[int, int, int] | None = None
        self.ordered = True

    def next(self, read_ahead: int = READ_BATCH) -> Commit | None:
        """Return the next commit, None at the end. At most one request for 100 parents of the one before; it may bring
        ``read_ahead`` more."""
        expect_client()
        if self._passed is not None:
            passed, *_ = self._reader.take([self._passed, *self._arriving], read_ahead)
            self._last, self._passed = _log_order(passed, -1), None
        for commit in self._reader.take(self._arriving, read_ahead):
            if self._since is None or commit.created >= self._since:
                heappush(self._queue, (*_log_order(commit, self._arrived), commit))
                self._arrived += 1
        self._arriving = ()
        if not self._queue:
            return None
        created, generation, arrived, commit = heappop(self._queue)
        rank = (created, generation, arrived)
        self.ordered = self.ordered and (self._last is None or self._last < rank)
        self._last = rank
        self._arriving = [cid for cid in _followed(commit, self._first_parent) if cid not in self._seen]
        self._seen.update(self._arriving)
        return commit

    def parents(self, commit: Commit) -> list[Commit]:
        """Return the parents of the last commit that the walk follows. At most one request, for what the walk needs next."""
        return self._reader.take(_followed(commit, self._first_parent))

    def frontier(self) -> list[CommitID]:
        """Return where the walk would go on, in the order in which it came there."""
        waiting = sorted(self._queue, key=lambda rank: rank[2])
        return [*(commit.id for *_, commit in waiting), *self._arriving]


def _log_order(commit: Commit, arrived: int) -> tuple[int, int, int]:
    return -commit.created, -commit.generation, arrived


class _Reader:
    """Reads the commits that one walk needs, together with those that it will probably need next.

    *Ends* are the known but unread parents of commits that were read. The next request takes the needed commits, then their
    continuation by their children's lines, then the other ends, then the continuation of those, up to what one request carries.
    """

    def __init__(self, commits: CommitStore, *, first_parent: bool = False) -> None:
        self._commits, self._first_parent = commits, first_parent
        self._ends: dict[CommitID, CachedCommit] = {}  # end → the child that knows it

    def take(self, ids: Sequence[CommitID], read_ahead: int = READ_BATCH) -> list[Commit]:
        """Return the commits, in the order of ``ids``. At most one request for 100 of them, none if all are in memory; it brings
        up to ``read_ahead`` more as far as they fit. :class:`RefNotFoundError` if one does not exist."""
        cached_commits = {cid: self._commits.in_memory(cid) for cid in ids}
        missing = [cid for cid, cached in cached_commits.items() if cached is None]
        if missing:
            cached_commits.update(self._read(missing, read_ahead))
        commits = []
        for cid in ids:
            cached = cached_commits[cid]
            if cached is None:
                child = self._ends.get(cid)
                if child is None:
                    raise RefNotFoundError(cid, "no commit has this ID")
                raise CorruptError(f"commit {cid} is missing, but commit {child.commit.id} names it as a parent")
            self._note(cached)
            commits.append(cached.commit)
        return commits

    def _read(self, missing: Sequence[CommitID], read_ahead: int) -> dict[CommitID, CachedCommit]:
        ids = dict.fromkeys(missing)
        room = min(READ_BATCH, len(ids) + read_ahead)
        hints = chain(
            chain.from_iterable(self._line(cid) for cid in missing),
            self._ends,
            chain.from_iterable(map(self._line, self._ends)),
        )
        for cid in hints:
            if len(ids) >= room:
                break
            if cid not in ids and self._commits.in_memory(cid) is None:
                ids[cid] = None
        read = self._commits.read(list(ids))
        for cached in read.values():
            self._note(cached)
        return read

    def _line(self, end: CommitID) -> list[CommitID]:
        """Return the probable continuation of an end: its child's line, if it is the child's first parent."""
        child = self._ends.get(end)
        return child.ancestors() if child is not None and child.commit.parents[0] == end else []

    def _note(self, cached: CachedCommit) -> None:
        self._ends.pop(cached.commit.id, None)
        for number, parent in enumerate(_followed(cached.commit, self._first_parent)):
            if (number == 0 or parent not in self._ends) and self._commits.in_memory(parent) is None:
                self._ends[parent] = cached


def _followed(commit: Commit, first_parent: bool) -> Sequence[CommitID]:
    return commit.parents[:1] if first_parent else commit.parents
