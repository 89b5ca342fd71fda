"""Amounts and differences: objects and bytes, in total and one level down."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.lake.reading.differences import Differences, start_after, uncommitted
from graveler.lake.text import utf8
from graveler.model import Totals
from graveler.staging.changes import StagedReader
from graveler.system.departures import expect_client
from graveler.tree import summary as trees
from graveler.tree.has_difference import differ
from graveler.tree.listing import prefix_end
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from graveler.text.markup import Cell, Table

Groups = Iterable[tuple[bytes, Totals]]


MOST_SORTED: Final = 10_000
"""Number of common prefixes that are sorted by bytes; more of them come in the order of their paths."""


class SummaryBounds(Struct, frozen=True):
    """The part of a summary that one call returns.

    ``amount``: a page of so many common prefixes, which follow the one named by ``after``; its total is that of the page, and its
    cost that of these prefixes. Objects outside of all common prefixes are summed up from page to page, each on the page before
    whose end it lies.

    ``by_bytes``: the parts with the most bytes (added, removed, and of changed objects before and after) come first, if there are
    at most :data:`MOST_SORTED`. Each page then costs as much as the whole summary, and objects outside are on the first one.

    ``most``: look at so many differences at most, of uncommitted changes at so many staged records; a range of records that is
    counted by its description is one. The last part may then be incomplete.
    """

    after: str = ""
    amount: int | None = None
    by_bytes: bool = False
    most: int | None = None

    def check(self, delimiter: str) -> None:
        """:class:`InvalidError` for what does not go together."""
        if self.amount is None and (self.after or self.by_bytes):
            raise InvalidError("parts of a summary are sorted, or continued, in pages; give an amount")
        if self.amount is not None and not delimiter:
            raise InvalidError("the pages of a summary are of common prefixes; give a delimiter")
        if self.amount is not None and self.most is not None:
            raise InvalidError("a summary has pages (amount) or a bound (most); leave out one of them")
        for name, number in (("amount", self.amount), ("most", self.most)):
            if number is not None and number < 1:
                raise InvalidError(f"{name} is {number}; give at least 1")


_WHOLE: Final = SummaryBounds()


class SummaryPart(Struct, frozen=True):
    """The differences within one common prefix; or, if ``path`` is the requested prefix, outside of all common prefixes."""

    path: str
    totals: Totals


class Summary(Struct, frozen=True):
    """The differences: in total, and (with a delimiter) by common prefix, in the order of the paths' bytes, or with ``by_bytes``
    the largest first. ``next_after`` continues a page. ``more``: there are differences that were not looked at."""

    total: Totals
    parts: tuple[SummaryPart, ...] = ()
    next_after: str | None = None
    by_bytes: bool = False
    more: bool = False

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _labels(self) -> tuple[str, str]:
        """Return the caption of its table, and the note of one without differences."""
        return "differences", "none"

    def _table(self) -> "Table":
        from graveler.text.markup import Cell, Table  # for notebooks and terminals
        from graveler.text.readable import human_size

        def cells(path: str, totals: Totals) -> "Sequence[Cell]":
            before, after = human_size(totals.changed_bytes_before), human_size(totals.changed_bytes_after)
            numbers = (
                (totals.added, human_size(totals.added_bytes)),
                (totals.removed, human_size(totals.removed_bytes)),
                (totals.changed, f"{before} → {after}"),
            )
            return (
                Cell(path or "(no folder)", code=True),
                *(Cell(f"{number:,}, {size}" if number else "", right=True) for number, size in numbers),
            )

        headings = (Cell("path"), *(Cell(name, right=True) for name in ("added", "removed", "changed")))
        rows = [cells(part.path, part.totals) for part in self.parts]
        caption, if_none = self._labels()
        if self.total == Totals():
            return Table(caption, headings, (), [if_none])
        return Table(caption, headings, [*rows, cells("total", self.total)])


class DiffSummary(Summary, frozen=True):
    """A summary whose table says which ``question`` it answers, and ``if_none`` of one without differences."""

    question: str = ""
    if_none: str = ""

    def _labels(self) -> tuple[str, str]:
        return self.question, self.if_none


class UsagePart(Struct, frozen=True):
    """The number of objects within one common prefix; or, if ``path`` is the requested prefix, outside of all common prefixes.
    ``size`` is their bytes."""

    path: str
    objects: int
    size: int


class Usage(Struct, frozen=True):
    """The number of objects, and (``size``) their bytes: in total, and with a delimiter by common prefix, in the order of
    the paths' bytes."""

    objects: int
    size: int
    parts: tuple[UsagePart, ...] = ()

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> "Table":
        from graveler.text.markup import Cell, Table, size  # for notebooks and terminals

        rows = [(part.path, part.objects, part.size) for part in self.parts] + [("total", self.objects, self.size)]
        return Table(
            "usage",
            (Cell("path"), Cell("objects", right=True), Cell("size", right=True)),
            [
                (Cell(path or "(no folder)", code=True), Cell(f"{number:,}", right=True), size(of))
                for path, number, of in rows
            ],
        )


class _AllowanceOfClient(trees.Allowance):
    """An allowance that ends with the client of the read."""

    def take(self) -> bool:
        """Return whether one more step may be taken, and count it. :class:`ClientLeftError`."""
        expect_client()
        return super().take()


class Level:
    """The scope of a summary: the paths that begin with ``prefix``, in parts that end with the first ``delimiter`` after it."""

    def __init__(self, prefix: str, delimiter: str) -> None:
        self._prefix, self._delimiter = utf8("prefix", prefix), utf8("delimiter", delimiter)
        self._group = trees.by_delimiter(self._prefix, self._delimiter) if self._delimiter else trees.whole

    def between(self, left_tree: Tree, right_tree: Tree, bounds: SummaryBounds = _WHOLE) -> Summary:
        """Return what turns ``left_tree`` into ``right_tree``, as far as the bounds say. Opens the ranges that differ and overlap
        others, or hold several parts."""
        allowance = _AllowanceOfClient(bounds.most)
        return self._bounded(
            lambda start: trees.summarize(left_tree, right_tree, self._prefix, self._group, start, allowance),
            lambda start: differ(left_tree, right_tree, start, prefix_end(self._prefix)),
            bounds,
            allowance,
        )

    def of_differences(
        self, differences: Differences, bounds: SummaryBounds = _WHOLE, allowance: trees.Allowance | None = None
    ) -> Summary:
        """Return the sums of some differences, as far as the bounds say; the ``allowance`` is theirs, if they have one. Reads all
        that it sums up."""
        return self._bounded(
            lambda start: self._grouped(differences, start),
            lambda start: next(differences(start, prefix_end(self._prefix)), None) is not None,
            bounds,
            allowance or trees.Allowance(),
        )

    def usage(self, tree: Tree, staged: StagedReader) -> Usage:
        """Return the usage of a tree overlaid by what is staged. Opens the ranges that hold several parts, or extend over the
        ends of the prefix, and those that the staged changes touch."""
        sums = self._sum_up(trees.measure(tree, self._prefix, self._group))
        if staged:
            for group, totals in self._sum_up(self._grouped(uncommitted(tree, staged), self._prefix)).items():
                sums[group] = sums.get(group, Totals()) + totals
        groups = [UsagePart(group.decode(), *_held(totals)) for group, totals in sorted(sums.items())]
        parts = tuple(part for part in groups if part.objects) if self._delimiter else ()
        return Usage(sum(part.objects for part in groups), sum(part.size for part in groups), parts)

    def _bounded(
        self,
        groups: Callable[[bytes], Groups],
        differs: Callable[[bytes], bool],
        bounds: SummaryBounds,
        allowance: trees.Allowance,
    ) -> Summary:
        """Return the summary of groups from a key on; ``differs`` returns whether anything differs from a key on."""
        bounds.check(self._delimiter.decode())
        if bounds.amount is None:
            summary = self._summary(self._sum_up(groups(self._prefix)))
            return replace(summary, more=allowance.is_spent)
        if bounds.by_bytes:
            sums, more = self._first(groups(self._prefix), MOST_SORTED + 1)
            if more is None:
                return self._page_by_bytes(sums, bounds.after, bounds.amount)
        start = self._behind(utf8("after", bounds.after))
        if start is None:
            return Summary(Totals())
        sums, last = self._first(groups(start), bounds.amount)
        start = None if last is None else self._behind(last)
        summary = self._summary(sums)
        return (
            summary
            if last is None or start is None or not differs(start)
            else replace(summary, next_after=last.decode())
        )

    def _page_by_bytes(self, sums: Mapping[bytes, Totals], after: str, amount: int) -> Summary:
        outside = {self._prefix: sums[self._prefix]} if self._prefix in sums and not after else {}
        ordered = sorted(
            ((path, totals) for path, totals in sums.items() if path != self._prefix),
            key=lambda part: (-_all_bytes(part[1]), part[0]),
        )
        begin = 0
        if after:
            paths = [path for path, _ in ordered]
            if (path := utf8("after", after)) not in paths:
                raise InvalidError(f"{after!r} is no common prefix of this summary; begin without it")
            begin = paths.index(path) + 1
        page = dict(ordered[begin : begin + amount])
        summary = self._summary({**outside, **page})
        parts = (*outside.items(), *page.items())
        follows = begin + amount < len(ordered)
        return Summary(
            summary.total,
            tuple(SummaryPart(path.decode(), totals) for path, totals in parts),
            parts[-1][0].decode() if follows else None,
            by_bytes=True,
        )

    def _first(self, groups: Groups, amount: int) -> tuple[dict[bytes, Totals], bytes | None]:
        """Return the sums up to so many common prefixes, and the last one's name if there were so many."""
        sums: dict[bytes, Totals] = {}
        number = 0
        for group, totals in groups:
            name = self._part_of(group)
            sums[name] = sums[name] + totals if name in sums else totals
            number += name != self._prefix
            if number == amount:
                return sums, group
        return sums, None

    def _behind(self, after: bytes) -> bytes | None:
        """Return the key at which a page begins that follows a common prefix; None if no key of the summary does."""
        start, end = start_after(self._prefix, self._delimiter, after), prefix_end(self._prefix)
        return None if end is not None and start >= end else start

    def _summary(self, sums: Mapping[bytes, Totals]) -> Summary:
        total = sum(sums.values(), Totals())
        parts = sorted(sums.items()) if self._delimiter else []
        return Summary(total, tuple(SummaryPart(group.decode(), totals) for group, totals in parts))

    def _sum_up(self, groups: Groups) -> dict[bytes, Totals]:
        """Return the sums of groups with the same name: for objects without a delimiter, that is the prefix."""
        sums: dict[bytes, Totals] = {}
        for group, totals in groups:
            name = self._part_of(group)
            sums[name] = sums[name] + totals if name in sums else totals
        return sums

    def _part_of(self, group: bytes) -> bytes:
        """Return the name of the part that a group counts for: itself, or the prefix for an object outside of all common
        prefixes."""
        rolled_up = self._delimiter and group.find(self._delimiter, len(self._prefix)) >= 0
        return group if rolled_up else self._prefix

    def _grouped(self, differences: Differences, start: bytes) -> Iterator[tuple[bytes, Totals]]:
        changes = differences(start, prefix_end(self._prefix))
        for group, members in groupby(changes, key=lambda difference: self._group(difference[0])):
            counter = trees.TotalsCounter()
            for _, before, after in members:
                expect_client()
                counter.add(before, after)
            yield group, counter.totals()


def _all_bytes(totals: Totals) -> int:
    return totals.added_bytes + totals.removed_bytes + totals.changed_bytes_before + totals.changed_bytes_after


def _held(totals: Totals) -> tuple[int, int]:
    """Return the objects and bytes that remain after these changes, starting from nothing."""
    changed = totals.changed_bytes_after - totals.changed_bytes_before
    return totals.added - totals.removed, totals.added_bytes - totals.removed_bytes + changed
