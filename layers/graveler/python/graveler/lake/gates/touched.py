"""Comparison of trees below prefixes, for rules that apply to some paths only."""

from collections.abc import Sequence

from graveler.lake.reading.blame import keys_of_prefix
from graveler.tree.record_differences import record_differences
from graveler.tree.tree import Tree


def touched(before: Tree, after: Tree, prefixes: Sequence[str]) -> bool:
    """Return whether the trees differ below one of the prefixes, to the byte: whoever links an object states its checksum, so the
    same checksum at another address is a change. Opens ranges that only one of the trees has."""
    ranges = map(keys_of_prefix, prefixes)
    return any(next(record_differences(before, after, keys), None) is not None for keys in ranges)
