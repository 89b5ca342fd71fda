"""Differences between two trees to the byte, and digests of records: addresses and times count, as in the names of files, and as
they do not in :mod:`graveler.tree.diff`."""

from collections.abc import Iterable, Iterator, Set
from hashlib import sha256
from itertools import islice
from typing import Final

from graveler.tree.diff import Difference
from graveler.tree.key_range import KeyRange
from graveler.tree.tree import Tree

_AT_ONCE: Final = 1000

Record = tuple[bytes, bytes]
"""A key, and its packed bytes."""


def record_differences(old: Tree, new: Tree, keys: KeyRange) -> Iterator[Difference]:
    """Yield the records of these keys that are not the same to the byte in both trees, in key order. Opens the ranges that only
    one of them has, wherever these are cut; streaming. 0.3 µs a range besides.

    A range that both trees have is left out of both: its records lie between its first and its last key in either, and no others
    do.
    """
    common = frozenset(zip(old.lasts, old.packed, strict=True)).intersection(zip(new.lasts, new.packed, strict=True))
    old_records, new_records = _records(old, keys, common), _records(new, keys, common)
    before, after = next(old_records, None), next(new_records, None)
    while before is not None or after is not None:
        if after is None or (before is not None and before[0] < after[0]):
            assert before is not None
            yield before[0], before[1], None
            before = next(old_records, None)
        elif before is None or after[0] < before[0]:
            yield after[0], None, after[1]
            after = next(new_records, None)
        else:
            if before[1] != after[1]:
                yield before[0], before[1], after[1]
            before, after = next(old_records, None), next(new_records, None)


def _records(tree: Tree, keys: KeyRange, common: Set[tuple[bytes, bytes]]) -> Iterator[Record]:
    """Yield the records of these keys in the ranges that are not common."""
    for number in keys.numbers(tree):
        if (tree.lasts[number], tree.packed[number]) in common:
            continue
        for block in tree.range_blocks(number, keys.start):
            if keys.end is not None and block[0][-1] >= keys.end:
                yield from ((key, packed) for key, packed in zip(*block, strict=True) if key < keys.end)
                break
            yield from zip(*block, strict=True)


def digest_of(records: Iterable[tuple[bytes, ...]]) -> bytes:
    """Return a digest of records, or of differences whose absent sides are left out by the caller: of keys, identities, addresses
    and times, in this order, and independent of the ranges in which they lie. 32 bytes; 0.5 µs a record."""
    digest = sha256()
    iterator = iter(records)
    while some := list(islice(iterator, _AT_ONCE)):
        digest.update(b"".join([len(field).to_bytes(4, "big") + field for record in some for field in (*record, b"")]))
    return digest.digest()
