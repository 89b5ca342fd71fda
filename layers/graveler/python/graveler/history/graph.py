"""Questions asked of the commit graph: merge base, ancestry, log.

A walk needs one commit after the other, and a request brings a hundred for the time of one. So a walk reads ahead: with the
commit that it needs it asks for those that it will probably need next (:class:`_Reader`). What was read too much stays in the
store's memory.

Generations (1 for a root, else one more than the highest parent's) bound every walk: an ancestor's is always lower.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Final

from graveler.errors import CorruptError, RefNotFoundError
from graveler.history.commits import READ_BATCH, CommitStore, KeptCommit
from graveler.model import Commit, CommitID, Page

_LEFT: Final = 1
_RIGHT: Final = 2
_BOTH: Final = 3
_STALE: Final = 4


def merge_base(commits: CommitStore, left: CommitID, right: CommitID) -> CommitID | None:
    """The best common ancestor of two commits; None if they share no history.

    It is a common ancestor (a commit counts as its own) that is no ancestor of another one; of several the one with the
    highest generation, then with the smallest ID. Requests: about one for each 32 generations that lie above the result
    along the main line, two at least unless in memory; only commits above the result's generation are looked at. Errors as
    :meth:`CommitStore.get`.
    """
    return next(_common_ancestors(commits, left, right), None)


def best_common_ancestors(commits: CommitStore, left: CommitID, right: CommitID) -> list[CommitID]:
    """All best common ancestors, the one that :func:`merge_base` chooses first, then by generation and ID. Requests: as
    :func:`merge_base`, down to the lowest of them."""
    return list(_common_ancestors(commits, left, right))


def _common_ancestors(commits: CommitStore, left: CommitID, right: CommitID) -> Iterator[CommitID]:
    """Paint what each side reaches, from high generations to low ones; all descendants of a commit come before it.

    So a commit's paint is final when its turn comes. One with both colours, and not below another such, is a best common
    ancestor; what is below it is stale. The walk ends when all that wait are stale.
    """
    reader = _Reader(commits)
    paint = {left: _LEFT}
    paint[right] = paint.get(right, 0) | _RIGHT
    # A commit not read yet waits under the highest generation that it can have, before those known to have it, and is read
    # when its turn comes: many never are.
    waiting: list[tuple[int, int, CommitID, Commit | None]] = []
    for commit in reader.take(list(paint)):
        heappush(waiting, (-commit.generation, 1, commit.id, commit))
    fresh = set(paint)  # waiting and not stale
    while fresh:
        bound, _, cid, known = heappop(waiting)
        if known is None:
            (commit,) = reader.take([cid])
            if commit.generation > -bound:
                raise CorruptError(f"commit {cid} has generation {commit.generation}, which is not below its child's")
            heappush(waiting, (-commit.generation, 1, cid, commit))
            continue
        fresh.discard(cid)
        colour = paint[cid]
        if colour == _BOTH:
            yield cid
            colour |= _STALE
        for parent in known.parents:
            before = paint.get(parent)
            if before is None:
                before = 0
                heappush(waiting, (1 - known.generation, 0, parent, None))
            paint[parent] = after = before | colour
            if after & _STALE:
                fresh.discard(parent)
            else:
                fresh.add(parent)


def is_ancestor(commits: CommitStore, ancestor: CommitID, descendant: CommitID) -> bool:
    """Whether ``ancestor`` is ``descendant`` itself or can be reached from it. Requests: about one for each 32 generations
    between the two along the main line, one at least unless in memory. Errors as :meth:`CommitStore.get`."""
    reader = _Reader(commits)
    target, *frontier = reader.take([ancestor, descendant])
    seen = {descendant}
    while frontier:
        if target in frontier:
            return True
        above = dict.fromkeys(
            parent
            for commit in frontier
            if commit.generation > target.generation
            for parent in commit.parents
            if parent not in seen
        )
        if ancestor in above:
            return True
        seen.update(above)
        frontier = reader.take(list(above))
    return False


def first_parent_ancestor(commits: CommitStore, start: CommitID, distance: int) -> tuple[CommitID | None, int]:
    """The commit ``distance`` steps along first parents from ``start``, and how many commits that walk saw (``distance`` + 1);
    None, and how many there are, if the history ends before.

    The commit itself need not be read; it is when that costs nothing. Requests: none for distance 0, else one, and one for
    each further 32 steps begun. Errors as :meth:`CommitStore.get`.
    """
    reader = _Reader(commits, first_parent=True)
    at = start
    for step in range(distance):
        (commit,) = reader.take([at], ahead=distance - step)
        if not commit.parents:
            return None, step + 1
        at = commit.parents[0]
    return at, distance + 1


def log(
    commits: CommitStore,
    start: CommitID,
    *,
    first_parent: bool = False,
    since: int | None = None,
    stop_at: CommitID | None = None,
    limit: int | None = None,
) -> Iterator[Commit]:
    """The commits that ``start`` can reach, itself first: of those whose child was shown always the one created last, then
    the one with the higher generation, then with the smaller ID. Each once.

    ``first_parent`` follows no other parents; ``since`` (Unix seconds) leaves out commits created before, and what only they
    reach; ``stop_at`` is the last commit shown; ``limit`` is how many are shown at most. Requests: about one for each 32 shown
    in a linear history, up to one for each that is shown in the worst. Errors as :meth:`CommitStore.get`, from the iterator.
    """
    reader = _Reader(commits, first_parent=first_parent)
    queue: list[tuple[int, int, CommitID, Commit]] = []
    seen = {start}
    arriving: Sequence[CommitID] = [start]
    shown = 0
    while limit is None or shown < limit:
        for commit in reader.take(arriving, READ_BATCH if limit is None else limit - shown):
            if since is None or commit.created >= since:
                heappush(queue, (-commit.created, -commit.generation, commit.id, commit))
        if not queue:
            return
        commit = heappop(queue)[3]
        yield commit
        shown += 1
        if commit.id == stop_at:
            return
        arriving = [cid for cid in _followed(commit, first_parent) if cid not in seen]
        seen.update(arriving)


def log_page(
    commits: CommitStore,
    start: CommitID,
    after: CommitID | None,
    amount: int,
    *,
    first_parent: bool = False,
    since: int | None = None,
    stop_at: CommitID | None = None,
) -> Page[Commit]:
    """Up to ``amount`` commits of :func:`log`, from the one that follows ``after``.

    Where a page begins depends on all before it, so the walk begins at ``start`` again: requests as for a log of everything up
    to the page's end, none for what is in memory. :class:`RefNotFoundError` if ``after`` is not in that log.
    """
    limit = amount + 1 if after is None else None
    walk = log(commits, start, first_parent=first_parent, since=since, stop_at=stop_at, limit=limit)
    if after is not None and not any(commit.id == after for commit in walk):
        raise RefNotFoundError(after, f"the log of {start[:16]} does not contain it; begin again from the first page")
    results = tuple(islice(walk, amount + 1))
    more = len(results) > amount
    results = results[:amount]
    return Page(results, results[-1].id if more and results else None)


class _Reader:
    """Reads the commits that one walk needs, and with them those that it will probably need next.

    *Ends* are the known parents of commits that were read, and were not read themselves. The next request takes the needed
    ones, then what continues them by their children's lines, then the other ends, then what continues those, up to what
    one request carries.
    """

    def __init__(self, commits: CommitStore, *, first_parent: bool = False) -> None:
        self._commits, self._first_parent = commits, first_parent
        self._ends: dict[CommitID, KeptCommit] = {}  # end → the child that knows it

    def take(self, ids: Sequence[CommitID], ahead: int = READ_BATCH) -> list[Commit]:
        """The commits, in the order of ``ids``. At most one request for 100 of them, none if all are in memory; it brings up
        to ``ahead`` more as far as they fit. :class:`RefNotFoundError` if one does not exist."""
        found = {cid: self._commits.in_memory(cid) for cid in ids}
        missing = [cid for cid, kept in found.items() if kept is None]
        if missing:
            found.update(self._read(missing, ahead))
        commits = []
        for cid in ids:
            kept = found[cid]
            if kept is None:
                child = self._ends.get(cid)
                if child is None:
                    raise RefNotFoundError(cid, "no commit has this ID")
                raise CorruptError(f"commit {cid} is missing, and commit {child.commit.id} names it as a parent")
            self._note(kept)
            commits.append(kept.commit)
        return commits

    def _read(self, missing: Sequence[CommitID], ahead: int) -> dict[CommitID, KeptCommit]:
        wanted = dict.fromkeys(missing)
        room = min(READ_BATCH, len(wanted) + ahead)
        hints = chain(
            chain.from_iterable(self._line(cid) for cid in missing),
            self._ends,
            chain.from_iterable(map(self._line, self._ends)),
        )
        for cid in hints:
            if len(wanted) >= room:
                break
            if cid not in wanted and self._commits.in_memory(cid) is None:
                wanted[cid] = None
        read = self._commits.read(list(wanted))
        for kept in read.values():
            self._note(kept)
        return read

    def _line(self, end: CommitID) -> list[CommitID]:
        """What probably continues an end: its child's line, if it is the child's first parent."""
        child = self._ends.get(end)
        return child.ancestors() if child is not None and child.commit.parents[0] == end else []

    def _note(self, kept: KeptCommit) -> None:
        self._ends.pop(kept.commit.id, None)
        for number, parent in enumerate(_followed(kept.commit, self._first_parent)):
            if (number == 0 or parent not in self._ends) and self._commits.in_memory(parent) is None:
                self._ends[parent] = kept


def _followed(commit: Commit, first_parent: bool) -> Sequence[CommitID]:
    return commit.parents[:1] if first_parent else commit.parents
