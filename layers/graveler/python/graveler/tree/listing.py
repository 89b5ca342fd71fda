"""Listing with prefix, delimiter and paging, over any source of sorted records in chunks.

A source returns *the records from a key on*, some at a time. A :class:`graveler.tree.tree.Tree` is one (through
:meth:`~graveler.tree.tree.Tree.run`), a branch with uncommitted changes another. With a delimiter, everything behind one common
prefix is skipped, so the cost follows the prefixes shown and not the objects below them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator

import msgspec

from graveler.errors import CorruptError
from graveler.tree.sstable import Records

Runs = Callable[[bytes, bytes | None], Iterator[Records]]
"""``(start, end)`` → the records with ``start <= key < end``, in order, some at a time and at least one."""


class ListedPage(msgspec.Struct, frozen=True):
    """One page of a listing: records by key. Where ``packed`` is None, the key is a common prefix. ``more``: something
    follows."""

    keys: list[bytes]
    packed: list[bytes | None]
    more: bool


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the smallest key above all that begin with ``prefix``; None if none exists (nothing but 0xff bytes, or empty)."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def list_page(
    run: Runs,
    *,
    prefix: bytes = b"",
    after: bytes = b"",
    delimiter: bytes = b"",
    amount: int = 1000,
    start: bytes = b"",
) -> ListedPage:
    """Return at most ``amount`` records and common prefixes that begin with ``prefix`` and are greater than ``after``, in key
    order. Records below ``start`` are skipped; only without a delimiter.

    With a ``delimiter``, keys that contain it behind the prefix are rolled up into the part that ends with its first occurrence.
    ``after`` may be anything; if it contains the delimiter behind the prefix, everything rolled up with it is skipped. Begins at
    most one run for each common prefix shown, and takes no more of it than the page needs.
    """
    end = prefix_end(prefix)
    start = max(prefix, after + b"\0", start) if after else max(prefix, start)
    if delimiter and after.startswith(prefix) and (position := after.find(delimiter, len(prefix))) >= 0:
        # Keys with the same common prefix would be rolled up into it, and it is not greater than ``after``.
        beyond = prefix_end(after[: position + len(delimiter)])
        if beyond is None:
            return ListedPage([], [], more=False)
        start = beyond
    page_keys: list[bytes] = []
    page_packed: list[bytes | None] = []
    while end is None or start < end:
        for keys, packed in run(start, end):
            # Otherwise this loop, or the caller's loop over pages, might never end.
            if keys[0] < start or keys[-1] < keys[0]:
                raise out_of_order(start, keys[0], keys[-1])
            following = keys[-1] + b"\0"
            if not delimiter:
                room = amount - len(page_keys)
                page_keys += keys[:room]
                page_packed += packed[:room]
                if len(keys) > room:
                    return ListedPage(page_keys, page_packed, more=True)
                start = following
                continue
            index = 0
            while index < len(keys):
                if len(page_keys) == amount:
                    return ListedPage(page_keys, page_packed, more=True)
                key = keys[index]
                position = key.find(delimiter, len(prefix))
                if position < 0:
                    page_keys.append(key)
                    page_packed.append(packed[index])
                    index += 1
                    continue
                common = key[: position + len(delimiter)]
                page_keys.append(common)
                page_packed.append(None)
                beyond = prefix_end(common)
                if beyond is None:
                    return ListedPage(page_keys, page_packed, more=False)
                index = bisect_left(keys, beyond, index)
                start = beyond
            if start > following:
                break  # and go on there: what is between need not be read
            start = following
        else:
            break
    return ListedPage(page_keys, page_packed, more=False)


def out_of_order(start: bytes, first_key: bytes, last_key: bytes) -> CorruptError:
    """Return the error for records that do not lie in order from ``start`` on."""
    return CorruptError(
        f"a read of the records from {start!r} on returned those from {first_key!r} to {last_key!r}. That is out of order, "
        "and the listing might never end. `graveler fsck` finds what is damaged"
    )
