"""The history that a ref leads to: log, blame, and merge bases."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from graveler.errors import InvalidError, NotCommittedError, ObjectNotFoundError
from graveler.history import graph
from graveler.history.expressions import resolve
from graveler.lake.reading.object_reader import ObjectReader
from graveler.lake.reading.state_reader import at_least_one
from graveler.model import (
    Annotations,
    Branch,
    Commit,
    CommitID,
    CommonPrefix,
    DetailedRef,
    ObjectEntry,
    Page,
    RefSelection,
)

if TYPE_CHECKING:
    from graveler.tree.key_range import KeyRange

T = TypeVar("T")


class HistoryReader(ObjectReader):
    """Reads the commits behind refs, and finds those that changed an object."""

    def log(
        self,
        ref: str,
        *,
        after: CommitID | None = None,
        amount: int = 100,
        first_parent: bool = False,
        since: int | None = None,
        stop_at: str | None = None,
        paths: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        author: str = "",
        text: str = "",
        limit: bool = False,
        within: float | None = None,
    ) -> Page[Commit]:
        """Return commits that a ref can reach, newest first.

        ``first_parent`` follows only the first parent of merges. ``since`` (Unix seconds) omits commits created before, and
        what only they reach. ``stop_at`` is a ref: its commit is the last one, if the walk comes to it. With ``paths`` or
        ``prefixes``, only commits that changed one of those paths, or what begins with one of those prefixes: that differ there
        from each of their parents (with ``first_parent``, from the first one). ``limit`` asks for ``amount`` commits and no
        more: no ``next_after``, and no search for further commits.

        Cost: resolving, about one table read for each 32 commits. With paths, prefixes, an author or a text, the walk goes on
        until it finds a commit of the next page (unless ``limit``), however far that is, or ``within`` is over. With paths or
        prefixes, for each commit that it passes, it reads the metarange, and of the ranges there that a parent does not have
        those that it needs to decide.
        """
        from graveler.lake.reading.blame import (  # not on the path of a cold start
            by_author_and_text,
            keys_of_path,
            keys_of_prefix,
            touching,
        )

        key_ranges = [*map(keys_of_path, paths), *map(keys_of_prefix, prefixes)]
        shows = touching(key_ranges, self._tree_of, self._trees.empty()) if key_ranges else None
        if author or text:
            shows = by_author_and_text(author, text, shows)
        start = resolve(ref, self._refs, self._commits).commit_id
        return graph.log_page(
            self._commits,
            start,
            after,
            at_least_one(amount),
            first_parent=first_parent,
            since=since,
            stop_at=resolve(stop_at, self._refs, self._commits).commit_id if stop_at is not None else None,
            shows=shows,
            limit=limit,
            stop=self._end(within),
        )

    def blame(self, ref: str, path: str) -> Commit:
        """Return the commit that made the object at ``path`` what it is in the commit of ``ref``: following the parents that have
        the same object (the first such of each merge), the last one that has.

        Uncommitted changes do not count. Cost: resolving, the walk down to that commit: about one table read for each 32
        commits, the metarange of each, and ranges only where the one that holds the path differs. :class:`ObjectNotFoundError`.
        """
        from graveler.lake.reading.blame import keys_of_path, last_changes  # not on the path of a cold start

        keys = keys_of_path(path)
        resolved = resolve(ref, self._refs, self._commits)
        if self._tree(resolved.commit_id).get(keys.start) is None:
            staged = resolved.branch is not None and self._snapshot(ref).get(keys.start) is not None
            raise NotCommittedError(path, ref) if staged else ObjectNotFoundError(path, ref)
        return last_changes(self._commits, resolved.commit_id, [keys], self._tree_of)[0]

    def annotate(
        self, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[tuple[ObjectEntry | CommonPrefix, Commit]]:
        """Return :meth:`list_objects` of the commit of ``ref``, and for each entry the last commit that changed it: for an object
        as :meth:`blame`, for a common prefix the one that made its whole contents what they are.

        Cost: as :meth:`list_objects`, and one walk for the whole page, down to its oldest result.
        """
        from graveler.lake.reading.blame import last_changes  # not on the path of a cold start

        commit_id = resolve(ref, self._refs, self._commits).commit_id
        page = self.list_objects(commit_id, prefix=prefix, after=after, delimiter=delimiter, amount=amount)
        commits = last_changes(self._commits, commit_id, _key_ranges(page), self._tree_of)
        return Page(tuple(zip(page.results, commits, strict=True)), page.next_after, page.commits)

    def annotate_within(
        self,
        ref: str,
        seconds: float,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        amount: int = 100,
        position: str = "",
    ) -> Annotations:
        """Return :meth:`annotate`, as far as its walk gets in so many seconds: the commits that it has not found are None, and
        another call with the same arguments and the ``position`` continues it, for these entries alone. Looks at one commit at
        least. :class:`InvalidError` for a position that no call returned.

        Cost: as :meth:`annotate`, down to where the walk stops.
        """
        from graveler.lake.reading.annotation_position import AnnotationPosition
        from graveler.lake.reading.blame import last_changes_until

        earlier = AnnotationPosition.parse(position) if position else None
        commit_id = resolve(ref, self._refs, self._commits).commit_id if earlier is None else earlier.commit
        page = self.list_objects(commit_id, prefix=prefix, after=after, delimiter=delimiter, amount=amount)
        if earlier is not None and earlier.entries != len(page.results):
            raise InvalidError("the position is that of another page; pass the arguments that it came with")
        frontier = {commit_id: list(range(len(page.results)))} if earlier is None else earlier.numbers()
        origins = last_changes_until(self._commits, frontier, _key_ranges(page), self._tree_of, self._end(seconds))
        entries = sorted(number for numbers in frontier.values() for number in numbers)
        results = tuple((page.results[number], origins.commits.get(number)) for number in entries)
        reached = AnnotationPosition.of(commit_id, len(page.results), origins.frontier) if origins.frontier else ""
        return Annotations(Page(results, page.next_after, page.commits), str(reached))

    def last_changes_of(self, commit_id: CommitID, keys: Iterable[bytes]) -> list[Commit]:
        """Return for each key of the commit's tree the last commit that changed it, as :meth:`annotate`. Cost: one walk, down to
        the oldest result."""
        from graveler.lake.reading.blame import last_changes  # not on the path of a cold start
        from graveler.tree.key_range import KeyRange

        return last_changes(self._commits, commit_id, [KeyRange(key, key + b"\0") for key in keys], self._tree_of)

    def last_changes_within(self, commit_id: CommitID, paths: Sequence[str], seconds: float) -> list[Commit | None]:
        """Return for each path the last commit that changed or removed it, as far as one walk gets in so many seconds; None for
        the others. Cost: as :meth:`annotate`."""
        from graveler.lake.reading.blame import keys_of_path, last_changes_until  # not on the path of a cold start

        key_ranges = list(map(keys_of_path, paths))
        frontier = {commit_id: range(len(paths))} if paths else {}
        origins = last_changes_until(self._commits, frontier, key_ranges, self._tree_of, self._end(seconds))
        return [origins.commits.get(number) for number in range(len(paths))]

    def detailed_branches(self, selection: RefSelection, *, show_hidden: bool = False) -> Page[DetailedRef]:
        """Return a page of branches with their last commits, their distances from a base, and whether anything is staged.

        Cost: as :meth:`branches`; for ``commit`` one table read for each 100 commits that are not in memory; for ``counts`` one
        walk for the whole page (:func:`graveler.history.graph.divergences`); for ``uncommitted`` one table read for each
        branch, its staging tokens and shards, concurrently. ``by_update`` reads all branches with the prefix, and their
        commits, for each page; a branch that moves between two pages may be missing from them. :class:`InvalidError` if they
        are more than 10,000, and for a position that no page returned; :class:`RefNotFoundError` for the base.
        """
        from graveler.lake.reading.detailed_refs import detailed, selected  # not on the path of a cold start

        page = selected(self.parts, partial(self._refs.list_branches, show_hidden=show_hidden), selection)
        staged: Sequence[bool | None] = [None] * len(page.results)
        if "uncommitted" in selection.details:
            staged = self._staged.exist_in([(state.open, *state.sealed) for state in page.results])
        branches = [Branch(state.name, state.commit_id, state.hidden) for state in page.results]
        return Page(detailed(self.parts, branches, staged, selection), page.next_after)

    def detailed_tags(self, selection: RefSelection) -> Page[DetailedRef]:
        """Return a page of tags as :meth:`detailed_branches` does. Nothing is staged on a tag: ``uncommitted`` is None."""
        from graveler.lake.reading.detailed_refs import detailed, selected  # not on the path of a cold start

        page = selected(self.parts, self._refs.list_tags, selection)
        return Page(detailed(self.parts, page.results, [None] * len(page.results), selection), page.next_after)

    def merge_base(self, left_ref: str, right_ref: str) -> Commit | None:
        """Return the best common ancestor of two refs, as git's; None if they share no history."""
        base = self.base_of(*self._both(left_ref, right_ref))
        return None if base is None else self._commits.get(base)

    def base_of(self, left_id: CommitID, right_id: CommitID) -> CommitID | None:
        """Return :meth:`merge_base` of two commits. Cost: the part of their histories that is not in memory."""
        return graph.merge_base(self._commits, left_id, right_id)

    def _end(self, seconds: float | None) -> Callable[[], bool]:
        """Return a function that tells whether so many seconds are over since now; None: they never are."""
        if seconds is None:
            return lambda: False
        clock = self.parts.clock
        end = clock.monotonic() + seconds
        return lambda: clock.monotonic() >= end

    def _both(self, left_ref: str, right_ref: str) -> tuple[CommitID, CommitID]:
        """Return the commit IDs of two refs."""
        return (
            resolve(left_ref, self._refs, self._commits).commit_id,
            resolve(right_ref, self._refs, self._commits).commit_id,
        )


def _key_ranges(page: Page[ObjectEntry | CommonPrefix]) -> "list[KeyRange]":
    """Return the keys of each entry."""
    from graveler.lake.reading.blame import keys_of_path, keys_of_prefix  # not on the path of a cold start

    return [
        keys_of_prefix(item.path) if isinstance(item, CommonPrefix) else keys_of_path(item.path)
        for item in page.results
    ]
