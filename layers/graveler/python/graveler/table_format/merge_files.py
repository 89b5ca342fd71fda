"""Live files of a merged table, and their sequence numbers."""

from msgspec import Struct

from graveler.table_format.live_files import POSITION_DELETES, LiveFile
from graveler.table_format.merge_decisions import Decision, VectorUnion
from graveler.table_format.merge_sides import Files, SideChanges, reapply


class SequenceNumbers(Struct, frozen=True):
    """Last sequence numbers of the three states, all 0 in version 1 of the format."""

    base: int
    source: int
    destination: int

    def merged(self) -> int:
        """Return the sequence number of the merged snapshot."""
        return self.destination + max(1, self.source - self.base)

    def of_added(self, file: LiveFile) -> int:
        """Return the data sequence number of a file that comes from the source.

        Deletes by values apply to older data only, so numbers that the source gave lie above all of the destination's, in their
        order. Position deletes name their file, and have the highest.
        """
        if file.content == POSITION_DELETES:
            return self.merged()
        if file.sequence <= self.base:
            return file.sequence
        return file.sequence + self.destination - self.base


class MergedFiles(Struct, frozen=True, eq=False):
    """Differences of the merged table to the destination: files of the source to add, files to remove, files that a compaction
    of the destination had removed and that are live again, and vectors to unite."""

    added: tuple[LiveFile, ...]
    removed: tuple[LiveFile, ...]
    restored: tuple[LiveFile, ...]
    vectors: tuple[VectorUnion, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.restored or self.vectors)


def merged_files(source: SideChanges, destination: SideChanges, decision: Decision) -> MergedFiles:
    """Return what a merge without a conflict adds to the destination's live files and removes from them, in the order of paths.

    The live files become those of the base, without those that a side removed, with those that a side added.
    """
    before_added, before_removed = reapply(destination, destination.compactions)
    after_added, after_removed = reapply(destination, decision.destination_compactions)
    source_added, source_removed = reapply(source, decision.source_compactions)
    removed = {key: file for key, file in before_added.items() if key not in after_added}
    removed |= {key: file for key, file in source_removed.items() if key not in before_removed}
    restored = {
        key: file for key, file in before_removed.items() if key not in after_removed and key not in source_removed
    }
    restored |= {key: file for key, file in after_added.items() if key not in before_added}
    added = {key: file for key, file in source_added.items() if key not in before_added and key not in restored}
    for union in decision.vectors:
        if union.source:
            added.pop(union.source.key, None)
        if union.destination and restored.pop(union.destination.key, None) is None:
            removed[union.destination.key] = union.destination
    return MergedFiles(_sorted(added), _sorted(removed), _sorted(restored), decision.vectors)


def _sorted(files: Files) -> tuple[LiveFile, ...]:
    return tuple(files[key] for key in sorted(files))
