"""Reading metaranges that no run has read: which ranges each of them has, and which it changes against the one before.

Of two metaranges that follow each other most blocks are the same bytes. Only the others are decompressed, and only their ranges
compared; a description that was met before needs no unpacking either.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from graveler.retention.packed_numbers import file_name
from graveler.retention.tree_tables import tree_table
from graveler.storage.objects.port import Objects
from graveler.tree.range_info import RangeInfo
from graveler.tree.store import METARANGES

_Blocks = dict[bytes, list[int]]
"""The blocks of a metarange as they are in its file, each with the numbers of its ranges."""


class MetarangeReader:
    """A reader of metaranges. ``number`` gives the number of a range by its raw name; ``lists`` has the ranges of metaranges that
    need not be read, by raw name. ``alive`` is called before each metarange.

    Memory: the compressed blocks of two metaranges, and 300 bytes for each of the ranges of one."""

    def __init__(
        self,
        objects: Objects,
        number: Callable[[bytes], int],
        lists: Mapping[bytes, Sequence[int]],
        alive: Callable[[], None],
    ) -> None:
        self._objects = objects
        self._number = number
        self._lists = lists
        self._alive = alive
        self._described: dict[bytes, int] = {}
        """Packed description of a range → its number."""
        self.objects_read = 0

    def changes(self, names: Sequence[bytes], live: set[int]) -> Iterator[set[int]]:
        """Yield what each of these metaranges changes (:data:`graveler.retention.succession.Changes`). One object read each,
        unless it has a list. :class:`DamagedFileError`."""
        blocks: _Blocks = {}
        for name in names:
            self._alive()
            listed = self._lists.get(name)
            if listed is None:
                earlier, blocks = blocks, {}
                count = self._read(file_name(name), earlier, blocks)
                yield changed_ranges(earlier, blocks, count, live)
            else:
                blocks = {}
                yield _replaced(set(listed), live)

    def _read(self, name: str, earlier: Mapping[bytes, list[int]], blocks: _Blocks) -> int:
        """Read the ``blocks`` of a metarange, those that are not among the ``earlier`` ones; return the number of its ranges."""
        count = 0
        with tree_table(self._objects, METARANGES, name) as table:
            self.objects_read += 1
            for index in range(len(table)):
                raw = table.raw(index)
                numbers = earlier.get(raw)
                blocks[raw] = numbers = self._numbers(*table.read(index)) if numbers is None else numbers
                count += len(numbers)
        if len(self._described) > 2 * count:
            self._described.clear()
        return count

    def _numbers(self, lasts: Sequence[bytes], descriptions: Sequence[bytes]) -> list[int]:
        described = self._described
        for last, packed in zip(lasts, descriptions, strict=True):
            if packed not in described:
                info = RangeInfo.unpack(last, packed)
                described[packed] = self._number(info.id + info.suffix)
        return [described[packed] for packed in descriptions]


def changed_ranges(earlier: _Blocks, blocks: _Blocks, count: int, live: set[int]) -> set[int]:
    """Make ``live``, the ranges of the ``earlier`` blocks, those of ``blocks``, of which there are ``count``; return the changes.

    Blocks that both have are left out. That is right if no range is in two blocks, and then, and only then, the number of ranges
    is right, too."""
    if earlier:
        fresh = set(chain.from_iterable(numbers for raw, numbers in blocks.items() if raw not in earlier))
        changed = fresh.symmetric_difference(
            chain.from_iterable(numbers for raw, numbers in earlier.items() if raw not in blocks)
        )
        live ^= changed
        if len(live) == count:
            return changed
        live ^= changed
    return _replaced(set(chain.from_iterable(blocks.values())), live)


def _replaced(ranges: set[int], live: set[int]) -> set[int]:
    """Make ``live`` these ranges, and return the changes."""
    changed = live ^ ranges
    live ^= changed
    return changed
