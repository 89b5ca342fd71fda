"""One state of a ref, for reading: a commit's tree, overlaid by what is staged on a branch."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Final, TypeVar

from graveler.lake.reading.differences import uncommitted
from graveler.model import Token
from graveler.staging.changes import StagedChanges, StagedReader
from graveler.system.pauses import require_cached
from graveler.tree.diff import Difference
from graveler.tree.expected_ranges import listed
from graveler.tree.listing import ListedPage, list_page, prefix_end
from graveler.tree.rendered_pages import RenderedPage, Renderer, Rendering
from graveler.tree.sstable import Records
from graveler.tree.tree import Tree

T = TypeVar("T")

_NONE: Final[Records] = ([], [])


class Snapshot:
    """A reader of one state's records. ``load`` returns the commit's tree, and is called when it is first needed; ``get`` returns
    a record of it, or None, for less where nothing else is needed. ``tokens`` from the newest on, none for a committed state.

    Valid as long as a request may last (``staging.cleanup``); longer work takes a new one and continues after its last key.
    """

    def __init__(
        self,
        load: Callable[[], Tree],
        get: Callable[[bytes], bytes | None],
        staged: StagedChanges,
        tokens: Sequence[Token] = (),
    ) -> None:
        self._load = load
        self._get = get
        self._tree: Tree | None = None
        self._staged = StagedReader(staged, tokens)

    def again(self) -> "Snapshot":
        """Return another reader of the same state. No request."""
        snapshot = copy(self)
        snapshot._staged = self._staged.again()
        return snapshot

    @property
    def is_staged(self) -> bool:
        """True if the state has staged changes, or may have some."""
        return bool(self._staged)

    def _committed(self) -> Tree:
        # Not cached_property: before Python 3.12 it holds a lock of the whole class while it loads.
        if self._tree is None:
            self._tree = self._load()
        return self._tree

    def get(self, key: bytes) -> bytes | None:
        """Return the packed record, or None. One table read (none without tokens); unless that finds it, the tree and at most one
        range."""
        if self._staged:
            staged = self._staged.get(key)
            if staged is not None:
                return staged.packed
        return self._get(key) if self._tree is None else self._tree.get(key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """Return the packed records, or None, of ascending keys. One table read for each hundred (none without tokens); unless
        those find them all, the tree, and the ranges in which the others may be."""
        staged = self._staged.get_many(keys) if self._staged else {}
        rest = [key for key in keys if key not in staged]
        records: dict[bytes, bytes | None] = {key: change.packed for key, change in staged.items()}
        if rest:
            records.update(zip(rest, self._committed().get_many(rest), strict=True))
        return records

    def page(self, *, prefix: bytes, after: bytes, delimiter: bytes, amount: int, start: bytes = b"") -> ListedPage:
        """See :func:`graveler.tree.listing.list_page`."""
        tree = self._committed()
        with tree.store.reading_ahead() as read_ahead:
            if read_ahead is not None:
                read_ahead.expect(listed(tree, prefix, after, delimiter, amount))
            return list_page(self.run, prefix=prefix, after=after, delimiter=delimiter, amount=amount, start=start)

    def rendered(
        self, renderer: Renderer, rendering: Rendering[T], prefix: bytes, after: bytes, amount: int
    ) -> tuple[RenderedPage, ListedPage]:
        """Return a page in two consecutive parts: as text what comes before anything staged, and records from there
        on. The second shows whether more follows."""
        tree = self._committed()
        end = prefix_end(prefix)
        start = max(prefix, after + b"\0") if after else prefix
        upto = end
        if self._staged:
            staged = self._staged.chunk(start, end)
            index = bisect_left(staged.keys, start)
            upto = staged.keys[index] if index < len(staged.keys) else end
        with tree.store.reading_ahead() as read_ahead:
            if read_ahead is not None:
                read_ahead.expect(listed(tree, prefix, after, b"", amount))
            rendered = renderer.page(rendering, tree, start, upto, amount)
        if rendered.more or upto is None or upto == end:
            return rendered, ListedPage([], [], more=rendered.more)
        require_cached()  # tombstones may hide any number of records
        return rendered, self.page(
            prefix=prefix, after=after, delimiter=b"", amount=amount - rendered.count, start=upto
        )

    def run(self, start: bytes, end: bytes | None) -> Iterator[Records]:
        """Yield the records with ``start <= key < end``, in order, some at a time."""
        committed = self._committed().run(start, end)
        if not self._staged:
            yield from committed
            return
        keys, packed = next(committed, _NONE)
        while True:
            staged = self._staged.chunk(start, end)
            upto = _smaller(keys[-1] if keys else None, staged.complete_upto)
            low = bisect_left(staged.keys, start)
            high = len(staged.keys) if upto is None else bisect_right(staged.keys, upto)
            cut = len(keys) if upto is None else bisect_right(keys, upto)
            records = (keys, packed) if cut == len(keys) else (keys[:cut], packed[:cut])
            if low < high:
                records = _overlay(*records, staged.keys[low:high], staged.packed[low:high])
            if records[0]:
                yield records
            if upto is None:
                return
            start = upto + b"\0"
            keys, packed = next(committed, _NONE) if cut == len(keys) else (keys[cut:], packed[cut:])

    def stretches(
        self, start: bytes, end: bytes | None
    ) -> Iterator[Records | tuple[bytes, bytes | None, Iterator[bytes]]]:
        """Yield the same as :meth:`run`, but where nothing is staged ``(start, end, blocks)``: the tree's blocks with the records
        of such a stretch of keys, decompressed, of which the first and the last may hold others, too."""
        committed = self._committed()
        if not self._staged:
            yield start, end, committed.contents(start, end)
            return
        while True:
            chunk = self._staged.chunk(start, end)
            upto = end if chunk.complete_upto is None else chunk.complete_upto + b"\0"
            low = bisect_left(chunk.keys, start)
            keys, packed = chunk.keys[low:], chunk.packed[low:]
            if keys:
                if start < keys[0]:
                    yield start, keys[0], committed.contents(start, keys[0])
                start = keys[-1] + b"\0"
                yield from _overlaid(committed.blocks(keys[0], start), keys, packed)
            if upto is None or start < upto:
                yield start, upto, committed.contents(start, upto)
            if chunk.complete_upto is None:
                return
            assert upto is not None
            start = upto

    def changes(self, start: bytes, end: bytes | None) -> Iterator[Difference]:
        """Yield what is staged with ``start <= key < end`` and differs from the commit, in key order."""
        return uncommitted(self._committed(), self._staged)(start, end)

    def records(self, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield all records with ``start <= key < end``, in order."""
        for keys, packed in self.run(start, end):
            yield from zip(keys, packed, strict=True)


def _smaller(a: bytes | None, b: bytes | None) -> bytes | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def _overlaid(
    committed: Iterator[Records], staged_keys: Sequence[bytes], staged: Sequence[bytes | None]
) -> Iterator[Records]:
    """Yield committed records overlaid by staged ones, some at a time."""
    done = 0
    for keys, packed in committed:
        stop = bisect_right(staged_keys, keys[-1], done)
        records = _overlay(keys, packed, staged_keys[done:stop], staged[done:stop])
        done = stop
        if records[0]:
            yield records
    records = _overlay([], [], staged_keys[done:], staged[done:])
    if records[0]:
        yield records


def _overlay(
    keys: list[bytes], packed: list[bytes], staged_keys: Sequence[bytes], staged: Sequence[bytes | None]
) -> Records:
    """Return committed records overlaid by staged ones; tombstones hide."""
    if not keys:
        present = [value for value in staged if value is not None]
        if len(present) == len(staged):
            return [*staged_keys], present
    merged_keys: list[bytes] = []
    merged: list[bytes] = []
    done = 0
    for key, value in zip(staged_keys, staged, strict=True):
        index = bisect_left(keys, key, done)
        merged_keys += keys[done:index]
        merged += packed[done:index]
        done = index + 1 if index < len(keys) and keys[index] == key else index
        if value is not None:
            merged_keys.append(key)
            merged.append(value)
    return merged_keys + keys[done:], merged + packed[done:]
