"""Live files of a snapshot and their partitions, as merges and comparisons see them."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

DATA: Final = 0
POSITION_DELETES: Final = 1
EQUALITY_DELETES: Final = 2
"""The content of a file. A deletion vector has position deletes, in a file of Puffin."""

Partition = tuple[tuple[tuple[tuple[int, ...], str], Any], ...]
"""Values of a partition by source columns and transform, so that partitions of several specs compare. Empty: no partitioning."""

FileKey = tuple[str, int]
"""The location of a file, and the offset of a deletion vector in it: -1 for whole files."""


class LiveFile(Struct, frozen=True, eq=False):
    """A data or delete file of a snapshot.

    ``sequence`` is the data sequence number. ``lowest`` and ``highest`` are bounds on the data files whose positions a file of
    position deletes has; both empty if they are unknown. ``entry`` is what a manifest has of it, for the writer.
    """

    path: str
    content: int
    partition: Partition
    rows: int
    sequence: int
    snapshot_id: int
    size: int = 0
    offset: int = -1
    is_vector: bool = False
    lowest: str = ""
    highest: str = ""
    entry: Any = None

    @property
    def key(self) -> FileKey:
        """Identity of the file in a table."""
        return self.path, self.offset

    @property
    def target(self) -> str:
        """The one data file whose positions a file of position deletes has, or an empty text."""
        return self.lowest if self.lowest == self.highest else ""

    def may_touch(self, data_file: "LiveFile") -> bool:
        """Return whether this file of position deletes may have positions of a data file."""
        if self.target:
            return self.target == data_file.path
        if self.lowest and not self.lowest <= data_file.path <= self.highest:
            return False
        return overlap(self.partition, data_file.partition)


class Renumbered(Struct, frozen=True, eq=False):
    """A file of the base that a side has with another sequence number or row ID, after an earlier merge: as the base and as that
    side has it."""

    before: LiveFile
    after: LiveFile


def overlap(partition: Partition, other: Partition) -> bool:
    """Return whether two partitions can have rows in common: no column and transform has two values."""
    if partition == other or not partition or not other:
        return True
    values = dict(partition)
    return all(
        values[field] in (value,) for field, value in other if field in values
    )  # `in`: NaN is not equal to itself


class PartitionIndex:
    """Files by partition. ``overlapping`` costs one look-up, and a comparison for each distinct partition of another spec."""

    def __init__(self, files: Iterable[LiveFile]) -> None:
        self._files: dict[Partition, list[LiveFile]] = {}
        for file in files:
            self._files.setdefault(file.partition, []).append(file)
        shapes: dict[tuple[Any, ...], list[Partition]] = {}
        for partition in self._files:
            shapes.setdefault(_shape(partition), []).append(partition)
        self._shapes = shapes

    def __bool__(self) -> bool:
        return bool(self._files)

    def overlapping(self, partition: Partition) -> Iterator[LiveFile]:
        """Yield the files whose partitions overlap with this one."""
        yield from self._files.get(partition, ())
        shape = _shape(partition)
        for other_shape, partitions in self._shapes.items():
            if other_shape != shape:
                for other in partitions:
                    if overlap(partition, other):
                        yield from self._files[other]


def _shape(partition: Partition) -> tuple[Any, ...]:
    return tuple(field for field, _ in partition)
