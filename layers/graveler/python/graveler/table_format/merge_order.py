"""The order of deletes and data in a merge: which deletes would apply to other files than they did at the source.

By sequence numbers, a delete by values is older or newer than data. A file may have other numbers at a side, after an earlier
merge or because a writer removed it and added it again.
"""

from collections.abc import Iterable, Iterator, Mapping, Set

from msgspec import Struct

from graveler.table_format.live_files import (
    DATA,
    EQUALITY_DELETES,
    POSITION_DELETES,
    FileKey,
    LiveFile,
    Renumbered,
    overlap,
)
from graveler.table_format.merge_circumstances import Circumstances, Positions
from graveler.table_format.merge_sides import SideChanges


class _Numbers(Struct, frozen=True):
    """Sequence numbers of a file at the base (None: it is not in it), at the source, and in the result."""

    base: int | None
    source: int
    merged: int

    def changes_for(self, data: "_Numbers", *, applies_to_equal: bool) -> bool:
        """Return whether a delete of these numbers applies to data in the result, and not at the source, or the reverse; unless
        it is the destination that changed it."""
        margin = 0 if applies_to_equal else 1
        at_source = data.source + margin <= self.source
        if at_source == (data.merged + margin <= self.merged):
            return False
        if self.base is None or data.base is None:
            return True
        return at_source != (data.base + margin <= self.base)


_Numbered = tuple[LiveFile, _Numbers]
"""A file as the source has it, and its numbers."""


def reordered_deletes(
    source: SideChanges,
    destination: SideChanges,
    circumstances: Circumstances,
    both_added: Mapping[FileKey, Renumbered],
) -> Iterator[tuple[LiveFile, list[LiveFile]]]:
    """Yield the deletes that would apply to data files in the result to which they do not apply at the source, or the reverse,
    with these files. ``both_added`` are files of both sides, as each has them, which their changes do not have."""
    at_source = {pair.before.key: pair.after for pair in circumstances.by_source}
    at_destination = {pair.before.key: pair.after for pair in circumstances.by_destination}
    former = {pair.before.key: pair.before for pair in (*circumstances.by_source, *circumstances.by_destination)}
    renumbered = [
        (pair.before, _Numbers(None, pair.before.sequence, pair.after.sequence)) for pair in both_added.values()
    ]
    for key, file in former.items():
        if key not in source.removed and key not in destination.removed:
            at_sides = at_source.get(key, file), at_destination.get(key, file)
            numbers = _Numbers(file.sequence, *(side_file.sequence for side_file in at_sides))
            renumbered.append((at_sides[0], numbers))
    common = [
        (file, _Numbers(file.sequence, file.sequence, at_destination.get(file.key, file).sequence))
        for file in circumstances.common_deletes
        if file.key not in destination.removed
    ]
    added = [
        (file, _Numbers(None, file.sequence, circumstances.merged_sequence(file))) for file in source.added.values()
    ]
    pairs = (*circumstances.by_source, *circumstances.by_destination, *both_added.values())
    brought = {
        file.key for pair in pairs for file in (pair.before, pair.after) if file.snapshot_id in circumstances.merges
    }
    for deletes, files in ((added, renumbered), (renumbered, [*added, *renumbered]), (common, renumbered)):
        yield from _reordered(deletes, files, brought, circumstances.positions)


def _reordered(
    deletes: Iterable[_Numbered],
    files: Iterable[_Numbered],
    brought: Set[FileKey],
    positions_of: Positions,
) -> Iterator[tuple[LiveFile, list[LiveFile]]]:
    """Costs a comparison for each of the deletes with each of the distinct numbers of data files."""
    data: dict[_Numbers, list[LiveFile]] = {}
    for file, numbers in files:
        if file.content == DATA:
            data.setdefault(numbers, []).append(file)
    for delete, numbers in deletes if data else ():
        if delete.content == DATA:
            continue
        applies_to_equal = delete.content == POSITION_DELETES
        reordered = [
            file
            for data_numbers, data_files in data.items()
            if numbers.changes_for(data_numbers, applies_to_equal=applies_to_equal)
            for file in data_files
            if _touches(delete, file, brought, positions_of)
        ]
        if reordered:
            yield delete, reordered


def _touches(delete: LiveFile, data_file: LiveFile, brought: Set[FileKey], positions_of: Positions) -> bool:
    """Return whether deletes may have rows of a data file. If their positions cannot be read, they have none where a merge
    ``brought`` one of both to the other: the file was not there when the deletes were written."""
    if delete.content == EQUALITY_DELETES:
        return overlap(delete.partition, data_file.partition)
    if not delete.may_touch(data_file):
        return False
    if delete.target:
        return True
    positions = positions_of(delete)
    if positions is None:
        return brought.isdisjoint((delete.key, data_file.key))
    return data_file.path in positions
