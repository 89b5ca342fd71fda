"""Differences for users: between two commits, and of uncommitted changes. In key order, paged, rolled up by a delimiter."""

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from graveler.lake.text import utf8
from graveler.model import Change, ChangeOutline, ChangeType, Page
from graveler.staging.changes import StagedReader
from graveler.tree.diff import Difference
from graveler.tree.listing import out_of_order, prefix_end
from graveler.tree.record import RecordCodec, identity, object_size
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from graveler.tree.summary import Allowance

T = TypeVar("T")
Differences = Callable[[bytes, bytes | None], Iterator[Difference]]
"""``(start, end)`` → the differences with ``start <= key < end``, in key order."""


def uncommitted(tree: Tree, staged: StagedReader, allowance: "Allowance | None" = None) -> Differences:
    """Return the differences that a branch's staged records make to its head's tree. Opens the ranges that they touch. Ends after
    the staged records of an ``allowance``, whether they make a difference or not."""

    def differences(start: bytes, end: bytes | None) -> Iterator[Difference]:
        for keys, records in staged.chunks(start, end):
            if allowance is not None:
                number = sum(1 for _ in takewhile(lambda _: allowance.take(), keys))
                keys, records = keys[:number], records[:number]
            for key, packed, committed in zip(keys, records, tree.get_many(keys), strict=True):
                if changes_anything(committed, packed):
                    yield key, committed, packed
            if allowance is not None and allowance.is_spent:
                return

    return differences


def changes_anything(committed: bytes | None, staged: bytes | None) -> bool:
    """Return whether a staged record (None: a tombstone) changes the committed one (None: there is none)."""
    if committed is None or staged is None:
        return committed is not staged
    return identity(committed) != identity(staged)


def page_of_differences(
    differences: Differences,
    show: Callable[[bytes, bytes | None, bytes | None], T],
    show_prefix: Callable[[str], T],
    *,
    prefix: str = "",
    after: str = "",
    delimiter: str = "",
    amount: int = 100,
) -> Page[T]:
    """Return at most ``amount`` differences of paths that begin with ``prefix`` and are greater than ``after``, as ``show`` shows
    them.

    With a ``delimiter``, all differences with one common prefix are shown once, by ``show_prefix``, and skipped.
    """
    prefix_bytes, mark = utf8("prefix", prefix), utf8("delimiter", delimiter)
    end = prefix_end(prefix_bytes)
    start = start_after(prefix_bytes, mark, utf8("after", after))
    results: list[T] = []
    last = b""
    while end is None or start < end:
        for key, before, now in differences(start, end):
            if key < start:
                raise out_of_order(start, key, key)
            if len(results) == amount:
                return Page(tuple(results), last.decode() if results else None)
            index = key.find(mark, len(prefix_bytes)) if mark else -1
            if index >= 0:
                last = key[: index + len(mark)]
                results.append(show_prefix(last.decode()))
                start = prefix_end(last) or last + b"\xff"
                break
            results.append(show(key, before, now))
            last = key
        else:
            break
    return Page(tuple(results))


def start_after(prefix: bytes, delimiter: bytes, after: bytes) -> bytes:
    """Return the key at which a page below a prefix begins that follows ``after``: a path, or a common prefix."""
    if not after:
        return prefix
    if delimiter and after.startswith(prefix) and (index := after.find(delimiter, len(prefix))) >= 0:
        # Paths with the same common prefix would be rolled up into it, and it is not greater than ``after``.
        start = prefix_end(after[: index + len(delimiter)])
        if start is not None:
            return start
    return max(prefix, after + b"\0")


def outline(key: bytes, before: bytes | None, after: bytes | None) -> ChangeOutline:
    """Return a difference with only the sizes of the objects. 0.5 µs."""
    return ChangeOutline(
        _kind(before, after),
        key.decode(),
        None if before is None else object_size(before),
        None if after is None else object_size(after),
    )


def _kind(before: bytes | None, after: bytes | None) -> ChangeType:
    return ChangeType.ADDED if before is None else ChangeType.REMOVED if after is None else ChangeType.CHANGED


def change(codec: RecordCodec, key: bytes, before: bytes | None, after: bytes | None) -> Change:
    """Return a difference as a user sees it."""
    path = key.decode()
    return Change(
        _kind(before, after),
        path,
        None if before is None else codec.decode(key, before, path),
        None if after is None else codec.decode(key, after, path),
    )
