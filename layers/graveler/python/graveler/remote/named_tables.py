"""Tables that the strategies of a previewed merge name, looked up at a server."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from graveler.lake.merging.named_tables import expect_named_tables
from graveler.model import MergePreview, MergeStrategies, MergeStrategy, ObjectEntry, TableMerge
from graveler.values.merge_strategies import strategy_for

StatMany = Callable[[str, Sequence[str]], list[ObjectEntry | None]]


def expect_tables_of_preview(
    stat_many: StatMany, strategies: MergeStrategies, preview: MergePreview, source: str, destination: str
) -> None:
    """Raise :class:`~graveler.errors.InvalidError` for a strategy that names a table which neither side of a merge has. At most
    three requests for each table that the strategies name and both sides did not change; none for others."""
    refs = preview.destination or destination, preview.source or source, preview.base
    states = [partial(_has_entry, stat_many, ref) for ref in refs]
    contested = frozenset(table.path.encode() for table in preview.tables)
    expect_named_tables(strategies, states, source, destination, contested)


def decided_table(table: TableMerge, strategies: MergeStrategies) -> TableMerge:
    """Return the merge of a table with the strategy for its path, which was not in the request if it is one for a prefix."""
    strategy = strategy_for(strategies, table.path)
    if table.outcome != "conflict" or strategy is MergeStrategy.NONE:
        return table
    return replace(table, outcome="source" if strategy is MergeStrategy.SOURCE_WINS else "destination")


def _has_entry(stat_many: StatMany, ref: str, key: bytes) -> bool:
    return stat_many(ref, [key.decode()])[0] is not None
