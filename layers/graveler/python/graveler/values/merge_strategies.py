"""The strategy of a merge for a path."""

from graveler.model import MergeStrategies, MergeStrategy
from graveler.values.reserved_paths import is_table


def strategy_for(strategies: MergeStrategies, path: str) -> MergeStrategy:
    """Return the strategy of the longest prefix that a path begins with, else the default. A prefix that is the entry of a table
    decides about this table alone, since entries of other tables may begin with it, too."""
    prefixes = [
        (len(prefix), strategy)
        for prefix, strategy in strategies.by_prefix
        if path == prefix or (path.startswith(prefix) and not is_table(prefix.encode()))
    ]
    return max(prefixes, key=lambda pair: pair[0])[1] if prefixes else strategies.default
