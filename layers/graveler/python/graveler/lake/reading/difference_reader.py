"""Differences between two refs, and between a branch and what is staged on it: pages and sums."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from graveler.errors import (
    InvalidError,
)
from graveler.lake.reading.differences import Differences, change, outline, page_of_differences, uncommitted
from graveler.lake.reading.history_reader import HistoryReader
from graveler.lake.reading.state_reader import at_least_one
from graveler.model import (
    Change,
    ChangeOutline,
    ChangeType,
    CommitID,
    Page,
)
from graveler.staging.changes import StagedReader
from graveler.tree.diff import Difference, diff
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from graveler.lake.reading.summary import Summary, SummaryBounds
    from graveler.tree.key_range import KeyRange
    from graveler.tree.summary import Allowance


T = TypeVar("T")


class DifferenceReader(HistoryReader):
    """Compares two states of a repository."""

    def uncommitted(
        self, branch: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]:
        """Return what is staged on a branch and differs from its last commit, in key order. Cost: resolving, the commit, its
        metarange, the ranges that the staged changes touch; one table read for each staging token and shard, and as many again
        for each thousand staged records that the page spans."""
        differences, commit_id = self._uncommitted(branch)
        return self._page_of_changes(differences, (commit_id,), prefix, after, delimiter, amount)

    def uncommitted_outline(
        self, branch: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[ChangeOutline]:
        """Return :meth:`uncommitted` with only the sizes of the objects. Costs the same requests, and less time."""
        differences, commit_id = self._uncommitted(branch)
        return _shown_page(ChangeOutline, outline, differences, (commit_id,), prefix, after, delimiter, amount)

    def uncommitted_summary(
        self, branch: str, *, prefix: str = "", delimiter: str = "", bounds: "SummaryBounds | None" = None
    ) -> "Summary":
        """Return how many objects and bytes :meth:`uncommitted` adds, removes and changes: in total, and with a ``delimiter`` for
        each common prefix; as far as the ``bounds`` say. Cost: as :meth:`uncommitted` of all that is summed up."""
        from graveler.lake.reading.summary import Level, SummaryBounds  # not on the path of a cold start
        from graveler.tree.summary import Allowance

        bounds = bounds or SummaryBounds()
        allowance = None if bounds.most is None else Allowance(bounds.most)
        return Level(prefix, delimiter).of_differences(self._uncommitted(branch, allowance)[0], bounds, allowance)

    def _uncommitted(self, branch: str, allowance: "Allowance | None" = None) -> tuple[Differences, CommitID]:
        """Return what is staged on a branch and differs from its last commit, and the ID of that commit."""
        state = self._branches.state(branch)
        staged = StagedReader(self._staged, (state.open, *state.sealed[::-1]))
        return uncommitted(self._tree(state.commit_id), staged, allowance), state.commit_id

    def diff(
        self,
        left_ref: str,
        right_ref: str,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        amount: int = 100,
    ) -> Page[Change]:
        """Return what turns the commit of ``left_ref`` into that of ``right_ref`` (two dots), in key order.

        Cost: resolving both, one table read of the commits, two metaranges, the ranges that differ, as far as the page goes.
        """
        ids = self._both(left_ref, right_ref)
        return self._page_of_changes(self._differences(*ids, amount), ids, prefix, after, delimiter, amount)

    def diff_outline(
        self,
        left_ref: str,
        right_ref: str,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        amount: int = 100,
    ) -> Page[ChangeOutline]:
        """Return :meth:`diff` with only the sizes of the objects. Costs the same requests, and less time."""
        ids = self._both(left_ref, right_ref)
        differences = self._differences(*ids, amount)
        return _shown_page(ChangeOutline, outline, differences, ids, prefix, after, delimiter, amount)

    def all_differences(
        self, left_id: CommitID, right_id: CommitID, key_ranges: "Sequence[KeyRange]"
    ) -> Iterator[Difference]:
        """Return all of :meth:`diff` of two commits in some key ranges, for callers that decode records by themselves
        (:attr:`codec`). Costs the same."""
        return _in_ranges(partial(diff, *self._two_trees(left_id, right_id)), key_ranges)

    def diff_summary(
        self,
        left_ref: str,
        right_ref: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        bounds: "SummaryBounds | None" = None,
    ) -> "Summary":
        """Return how many objects and bytes :meth:`diff` adds, removes and changes: in total, and with a ``delimiter`` for each
        common prefix; as far as the ``bounds`` say.

        Cost: resolving both, one table read of the commits, two metaranges, and of the ranges that differ those that overlap
        others or hold several common prefixes; a range for which the other side has nothing is not opened.
        """
        from graveler.lake.reading.summary import Level, SummaryBounds  # not on the path of a cold start

        trees = self._two_trees(*self._both(left_ref, right_ref))
        return Level(prefix, delimiter).between(*trees, bounds or SummaryBounds())

    def compare(
        self,
        left_ref: str,
        right_ref: str,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        amount: int = 100,
    ) -> Page[Change]:
        """Return what ``right_ref`` changed since its common base with ``left_ref`` (three dots): what merging it into
        ``left_ref`` would bring.

        Cost: as :meth:`diff`, and finding the base. :class:`InvalidError` without a common history.
        """
        ids = self._both(left_ref, right_ref)
        differences = self._differences(self._base(left_ref, right_ref, ids), ids[1], amount)
        return self._page_of_changes(differences, ids, prefix, after, delimiter, amount)

    def compare_summary(
        self,
        left_ref: str,
        right_ref: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        bounds: "SummaryBounds | None" = None,
    ) -> "Summary":
        """Return the :meth:`diff_summary` of what :meth:`compare` shows. Cost: as that, and finding the base.
        :class:`InvalidError` without a common history."""
        from graveler.lake.reading.summary import Level, SummaryBounds  # not on the path of a cold start

        ids = self._both(left_ref, right_ref)
        trees = self._two_trees(self._base(left_ref, right_ref, ids), ids[1])
        return Level(prefix, delimiter).between(*trees, bounds or SummaryBounds())

    def _base(self, left_ref: str, right_ref: str, ids: tuple[CommitID, CommitID]) -> CommitID:
        """Return the common base of two refs, whose commits are ``ids``."""
        base = self.base_of(*ids)
        if base is None:
            raise InvalidError(
                f"{left_ref!r} and {right_ref!r} have no common history; compare them with two dots instead"
            )
        return base

    def _differences(self, left_id: CommitID, right_id: CommitID, amount: int) -> Differences:
        """Return the differences for a page of so many; one more shows whether anything follows."""
        return partial(diff, *self._two_trees(left_id, right_id), most=amount + 1)

    def _two_trees(self, left_id: CommitID, right_id: CommitID) -> tuple[Tree, Tree]:
        self._commits.read(
            [cid for cid in {left_id, right_id} if self._commits.in_memory(cid) is None]
        )  # both in one request
        left_tree, right_tree = self._trees.load_many(
            [self._branches.commit(commit_id).metarange for commit_id in (left_id, right_id)]
        )
        return left_tree, right_tree

    def _page_of_changes(
        self,
        differences: Differences,
        commits: tuple[CommitID, ...],
        prefix: str,
        after: str,
        delimiter: str,
        amount: int,
    ) -> Page[Change]:
        show = partial(change, self.codec)
        return _shown_page(Change, show, differences, commits, prefix, after, delimiter, amount)


def _shown_page(
    kind: Callable[[ChangeType, str], T],
    show: Callable[[bytes, bytes | None, bytes | None], T],
    differences: Differences,
    commits: tuple[CommitID, ...],
    prefix: str,
    after: str,
    delimiter: str,
    amount: int,
) -> Page[T]:
    page = page_of_differences(
        differences,
        show,
        partial(kind, ChangeType.PREFIX_CHANGED),
        prefix=prefix,
        after=after,
        delimiter=delimiter,
        amount=at_least_one(amount),
    )
    return Page(page.results, page.next_after, commits)


def _in_ranges(differences: Differences, key_ranges: "Sequence[KeyRange]") -> Iterator[Difference]:
    return chain.from_iterable(differences(keys.start, keys.end) for keys in key_ranges if not keys.empty)
