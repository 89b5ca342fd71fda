"""Amounts and differences: objects and bytes, in total and one level down."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from graveler.lake.reading.differences import Differences, uncommitted
from graveler.lake.text import utf8
from graveler.model import Totals
from graveler.staging.changes import StagedReader
from graveler.tree import summary as trees
from graveler.tree.listing import prefix_end
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from graveler.text.markup import Cell, Table

Groups = Iterable[tuple[bytes, Totals]]


class SummaryPart(Struct, frozen=True):
    """The differences within one common prefix; or, if ``path`` is the requested prefix, outside of all common prefixes."""

    path: str
    totals: Totals


class Summary(Struct, frozen=True):
    """The differences: in total, and (with a delimiter) by common prefix, in the order of the paths' bytes."""

    total: Totals
    parts: tuple[SummaryPart, ...] = ()

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


class Level:
    """The scope of a summary: the paths that begin with ``prefix``, in parts that end with the first ``delimiter`` after it."""

    def __init__(self, prefix: str, delimiter: str) -> None:
        self._prefix, self._delimiter = utf8("prefix", prefix), utf8("delimiter", delimiter)
        self._group = trees.by_delimiter(self._prefix, self._delimiter) if self._delimiter else trees.whole

    def between(self, left_tree: Tree, right_tree: Tree) -> Summary:
        """Return what turns ``left_tree`` into ``right_tree``. Opens the ranges that differ and overlap others, or hold several
        parts."""
        return self._summary(trees.summarize(left_tree, right_tree, self._prefix, self._group))

    def of_differences(self, differences: Differences) -> Summary:
        """Return the sums of some differences. Reads all of them."""
        return self._summary(self._grouped(differences))

    def usage(self, tree: Tree, staged: StagedReader) -> Usage:
        """Return the usage of a tree overlaid by what is staged. Opens the ranges that hold several parts, or extend over the
        ends of the prefix, and those that the staged changes touch."""
        sums = self._sum_up(trees.measure(tree, self._prefix, self._group))
        if staged:
            for group, totals in self._sum_up(self._grouped(uncommitted(tree, staged))).items():
                sums[group] = sums.get(group, Totals()) + totals
        groups = [UsagePart(group.decode(), *_held(totals)) for group, totals in sorted(sums.items())]
        parts = tuple(part for part in groups if part.objects) if self._delimiter else ()
        return Usage(sum(part.objects for part in groups), sum(part.size for part in groups), parts)

    def _summary(self, groups: Groups) -> Summary:
        sums = self._sum_up(groups)
        total = Totals()
        for totals in sums.values():
            total += totals
        parts = sorted(sums.items()) if self._delimiter else []
        return Summary(total, tuple(SummaryPart(group.decode(), totals) for group, totals in parts))

    def _sum_up(self, groups: Groups) -> dict[bytes, Totals]:
        """Return the sums of groups with the same name: for objects without a delimiter, that is the prefix."""
        sums: dict[bytes, Totals] = {}
        for group, totals in groups:
            rolled_up = self._delimiter and group.find(self._delimiter, len(self._prefix)) >= 0
            name = group if rolled_up else self._prefix
            sums[name] = sums[name] + totals if name in sums else totals
        return sums

    def _grouped(self, differences: Differences) -> Iterator[tuple[bytes, Totals]]:
        changes = differences(self._prefix, prefix_end(self._prefix))
        for group, members in groupby(changes, key=lambda difference: self._group(difference[0])):
            counter = trees.TotalsCounter()
            for _, before, after in members:
                counter.add(before, after)
            yield group, counter.totals()


def _held(totals: Totals) -> tuple[int, int]:
    """Return the objects and bytes that remain after these changes, starting from nothing."""
    changed = totals.changed_bytes_after - totals.changed_bytes_before
    return totals.added - totals.removed, totals.added_bytes - totals.removed_bytes + changed
