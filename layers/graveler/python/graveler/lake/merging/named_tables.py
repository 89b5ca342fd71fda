"""Tables that the strategies of a merge name."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from graveler.errors import InvalidError
from graveler.model import MergeStrategies
from graveler.tree.tree import Tree
from graveler.values.reserved_paths import is_table

HasEntry = Callable[[bytes], bool]
"""Whether a state has an entry with a key."""


def has_in(trees: Iterable[Tree]) -> list[HasEntry]:
    """Return for each tree whether it has a key. A look-up costs the range of the key."""
    return [partial(_has_key, tree) for tree in trees]


def _has_key(tree: Tree, key: bytes) -> bool:
    return tree.get(key) is not None


def expect_named_tables(
    strategies: MergeStrategies,
    states: Sequence[HasEntry],
    source: str,
    destination: str,
    contested: frozenset[bytes] = frozenset(),
) -> None:
    """Raise :class:`InvalidError` for a strategy that names a table which none of the ``states`` has: those of the destination,
    the source and the base. A table that one of these has may have a strategy though the merge does not need it. ``contested``
    tables are not looked up; others are, in one state after the other, until one has them."""
    for prefix, _ in strategies.by_prefix:
        key = prefix.encode()
        if is_table(key) and key not in contested and not any(has_entry(key) for has_entry in states):
            from graveler.lake.iceberg.catalog_paths import relation_of  # only for the error

            relation = relation_of(key)
            raise InvalidError(
                f"a strategy names the table {relation[0] if relation else prefix}, which neither {source!r} nor "
                f"{destination!r} has; name one of their tables"
            )
