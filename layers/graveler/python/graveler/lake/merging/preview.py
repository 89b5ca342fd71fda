"""Preview of a merge: its effect in total, its changes and conflicts in pages, and its changes by common prefix."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct

from graveler.lake.merging.inputs import commit_at, conflict_of, trees_of
from graveler.lake.merging.merge import base_of_merge
from graveler.lake.merging.named_tables import expect_named_tables, has_in
from graveler.lake.merging.three_way import strategy_by_key, strategy_by_prefix
from graveler.lake.parts import RepositoryParts
from graveler.lake.reading.differences import change, page_of_differences, start_after
from graveler.lake.reading.state_reader import at_least_one
from graveler.lake.reading.summary import Level, Summary, SummaryBounds
from graveler.lake.text import utf8
from graveler.model import Change, ChangeType, Conflict, MergePreview, MergeStrategies, Page, TableMerge
from graveler.system.departures import expect_client
from graveler.tree.diff import Difference
from graveler.tree.has_difference import covers_differ
from graveler.tree.listing import prefix_end
from graveler.tree.merge import TreeConflict, preview
from graveler.tree.summary import Allowance, TotalsCounter
from graveler.values.reserved_paths import END, FILES, RESERVED, is_table

if TYPE_CHECKING:
    from graveler.lake.merging.table_merges import TableMerges


_Item = Difference | TreeConflict | None
"""What a merge does at a key; None, if it is nothing though the trees differ there."""


class MergeChange(Struct, frozen=True, gc=False):
    """A change that a merge makes in the destination; with ``in_conflict``, one that it cannot make, from the object of the
    destination to that of the source."""

    change: Change
    in_conflict: bool = False


class PreviewedMerge:
    """A merge of a source into a destination, both as they were when it was opened. Changes nothing.

    Cost of opening it: resolving both refs and finding the base, three metaranges, and one range for each table that a strategy
    names. :class:`InvalidError` as of :func:`expect_named_tables`.
    """

    def __init__(self, repository: RepositoryParts, source: str, destination: str, strategies: MergeStrategies) -> None:
        self._repository = repository
        self.source, self.destination = commit_at(repository, source), commit_at(repository, destination)
        self.base = base_of_merge(repository, source, self.source, destination, self.destination, allow_empty=True)
        self._trees = trees_of(repository, self.base, self.source, self.destination)
        expect_named_tables(strategies, has_in(self._trees[::-1]), source, destination)
        self._strategies = strategies
        self._tables: dict[bytes, TableMerge] = {}

    def whole(self) -> MergePreview:
        """Return the totals of all changes, and all conflicts. Cost: the ranges in which the source differs from the base, and
        those of the destination there."""
        counter = TotalsCounter()
        conflicts = []
        self._tables.clear()
        for item in self._items(b"", None):
            if isinstance(item, TreeConflict):
                conflicts.append(conflict_of(self._repository, item))
            else:
                counter.add(item[1], item[2])
        tables = tuple(self._tables.values())
        return MergePreview(
            self.base.id, counter.totals(), tuple(conflicts), self.source.id, self.destination.id, tables
        )

    def conflicts(self, *, prefix: str = "", after: str = "", amount: int = 100) -> Page[Conflict]:
        """Return a page of the conflicts below a prefix. Cost: as :meth:`whole`, from ``after`` to the first conflict of the next
        page."""
        at_least_one(amount)
        below = utf8("prefix", prefix)
        conflicts: list[Conflict] = []
        for item in self._items(start_after(below, b"", utf8("after", after)), prefix_end(below)):
            if isinstance(item, TreeConflict):
                if len(conflicts) == amount:
                    return Page(tuple(conflicts), conflicts[-1].path)
                conflicts.append(conflict_of(self._repository, item))
        return Page(tuple(conflicts))

    def changes(
        self, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[MergeChange]:
        """Return a page of what the merge changes, and what it cannot, in key order; a ``delimiter`` rolls both up. Cost: as
        :meth:`whole`, as far as the page goes."""
        conflicting: set[bytes] = set()

        def differences(start: bytes, end: bytes | None) -> Iterator[Difference]:
            for item in self._items(start, end):
                if isinstance(item, TreeConflict):
                    conflicting.add(item.key)
                    yield item.key, item.destination, item.source
                else:
                    yield item

        def show(key: bytes, before: bytes | None, after: bytes | None) -> MergeChange:
            return MergeChange(change(self._repository.codec, key, before, after), key in conflicting)

        return page_of_differences(
            differences,
            show,
            lambda path: MergeChange(Change(ChangeType.PREFIX_CHANGED, path)),
            prefix=prefix,
            after=after,
            delimiter=delimiter,
            amount=at_least_one(amount),
        )

    def summary(self, *, prefix: str = "", delimiter: str = "", bounds: SummaryBounds | None = None) -> Summary:
        """Return the totals of the changes, without conflicts, below a prefix and by common prefix, as far as the bounds say.
        Cost: as :meth:`whole`, of what is summed up."""
        bounds = bounds or SummaryBounds()
        allowance = Allowance(bounds.most)

        def differences(start: bytes, end: bytes | None) -> Iterator[Difference]:
            changes = (item for item in self._items(start, end) if not isinstance(item, TreeConflict))
            return takewhile(lambda _: allowance.take(), changes)

        return Level(prefix, delimiter).of_differences(differences, bounds, allowance)

    def _items(self, start: bytes, end: bytes | None) -> Iterator[Difference | TreeConflict]:
        return (item for item in self._all_items(start, end) if item is not None)

    def _all_items(self, start: bytes, end: bytes | None) -> Iterator[_Item]:
        base, source, destination = self._trees
        of_names = dict(self._of_names(start, end))
        for item in preview(base, source, destination, strategy_by_key(self._strategies), start, end):
            expect_client()
            key = item.key if isinstance(item, TreeConflict) else item[0]
            for earlier in [place for place in of_names if place < key]:
                yield of_names.pop(earlier)
            if key in of_names:
                yield of_names.pop(key)
            else:
                yield self._of_table(item).get(key) if isinstance(item, TreeConflict) and is_table(item.key) else item
        yield from of_names.values()

    @cached_property
    def _merges(self) -> "TableMerges":
        from graveler.lake.merging.table_merges import TableMerges  # few merges meet in a table

        base, source, destination = self._trees
        strategy = strategy_by_prefix(self._strategies)
        return TableMerges(
            self._repository, (base, source, destination), self.source.id, strategy, self._strategies.isolation
        )

    def _of_names(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, _Item]]:
        """Yield the conflicts of names in an interval, what strategies do about some, and the entries of tables that one side
        renamed and the other changed, in key order. No request where only one side changed names."""
        base, source, destination = self._trees
        if not all(covers_differ(base, side, RESERVED, END) for side in (source, destination)):
            return
        items: dict[bytes, _Item] = {}
        for key in self._merges.renamed_tables():
            items |= self._of_table(TreeConflict(key, base.get(key), source.get(key), destination.get(key)))
        for conflict in self._merges.name_conflicts():
            decision = self._merges.of_names(conflict, destination)
            self._tables[conflict.key] = decision.table
            if decision.is_conflict:
                key = conflict.key
                items[key] = TreeConflict(key, base.get(key), source.get(key), destination.get(key))
            items |= self._items_of(decision.changes)
        for key in sorted(items):
            if start <= key and (end is None or key < end):
                yield key, items[key]

    def _of_table(self, conflict: TreeConflict) -> dict[bytes, _Item]:
        """Return what the merge of a table that both sides changed does to its entry, and to that of a new name. Cost as of
        :meth:`graveler.lake.merging.table_merges.TableMerges.merged`; nothing is written."""
        decision = self._merges.decide(conflict.key, self._trees[2])
        self._tables[conflict.key] = decision.table
        if decision.is_conflict:
            return {conflict.key: conflict}
        return self._items_of({key: packed for key, packed in decision.changes.items() if not key.startswith(FILES)})

    def _items_of(self, changes: Mapping[bytes, bytes | None]) -> dict[bytes, _Item]:
        """Return what changes, as records by key, are to the destination."""
        differences = ((key, self._trees[2].get(key), packed) for key, packed in changes.items())
        return {key: None if before == after else (key, before, after) for key, before, after in differences}
