"""The circumstances of a merge of two sets of changes: what its decisions depend on besides these."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from graveler.table_format.live_files import DATA, EQUALITY_DELETES, LiveFile, Partition, Renumbered

Positions = Callable[[LiveFile], Mapping[str, frozenset[int]] | None]
"""Returns the positions of a file of position deletes by data file, or None if they cannot be read."""


class Circumstances(Struct, frozen=True):
    """``isolated`` is whether rows may only be removed where the destination added none. ``base_sequence`` is the last sequence
    number of the base, ``merged_sequence`` returns the number that a file of the source gets, and ``partition_text`` renders a
    partition. The others are files of the base that have another number at a side, after an earlier merge."""

    isolated: bool
    base_sequence: int
    merged_sequence: Callable[[LiveFile], int]
    positions: Positions
    partition_text: Callable[[Partition], str]
    by_source: tuple[Renumbered, ...] = ()
    by_destination: tuple[Renumbered, ...] = ()
    common_deletes: tuple[LiveFile, ...] = ()
    """Deletes that no side changed, of those that may apply to one of the files with another number and not to the other."""
    merges: frozenset[int] = frozenset()
    """Snapshots of both sides that earlier merges made."""
    missing_reader: str = ""
    """The sentence that says which package is needed to read positions, for conflicts where they are unknown."""

    @property
    def renumbered(self) -> list[LiveFile]:
        """The equality deletes of the base that have another number at the destination."""
        return [pair.before for pair in self.by_destination if pair.before.content == EQUALITY_DELETES]

    def old_data(self, files: Iterable[LiveFile]) -> list[LiveFile]:
        """Return the data files whose sequence number a merge leaves as it is."""
        return [file for file in files if file.content == DATA and file.sequence <= self.base_sequence]
