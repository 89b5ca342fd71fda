"""Live files of a merged table, and their sequence numbers."""

from collections.abc import Iterable

from msgspec import Struct

from graveler.table_format.live_files import POSITION_DELETES, LiveFile
from graveler.table_format.merge_decisions import Decision, VectorUnion
from graveler.table_format.merge_sides import Files, SideChanges, reapply
from graveler.table_format.plain_documents import Document


class SequenceNumbers(Struct, frozen=True):
    """Last sequence numbers of the three states, all 0 in version 1 of the format.

    After a revert, and in a cherry-pick, the destination may have a lower one than the base. ``unchanged`` is the highest number
    up to the base's last that a file of the source has, and ``copied`` that of the snapshots that come from the source.
    """

    base: int
    source: int
    destination: int
    unchanged: int = 0
    copied: int = 0

    @property
    def _start(self) -> int:
        """The highest number that is not the merged snapshot's: those that the source gave follow it."""
        return max(self.destination, self.unchanged)

    def merged(self) -> int:
        """Return the sequence number of the merged snapshot: above those of all that the merge brings, so that a later delete by
        values applies to it."""
        return max(self._start + max(1, self.source - self.base), self.copied + 1)

    def of_added(self, file: LiveFile) -> int:
        """Return the data sequence number of a file that comes from the source.

        Deletes by values apply to older data only, so numbers that the source gave lie above all of the destination's, in their
        order; those up to the base's last stay, so that they compare with the base's files as they did. Position deletes of the
        base that the source brought back have the highest: they name their file, which may be newer at the destination.
        """
        if file.sequence <= self.base:
            return self.merged() if file.content == POSITION_DELETES else file.sequence
        return file.sequence + self._start - self.base


def sequence_numbers(
    states: tuple[Document, Document, Document], source: SideChanges, copied: Iterable[Document]
) -> SequenceNumbers:
    """Return the sequence numbers of a merge: of the metadata of base, source and destination, with the source's changes and the
    snapshots that come from it."""
    base, *sides = (state.get("last-sequence-number") or 0 for state in states)
    added = [source.added, *(compaction.added for compaction in source.compactions)]
    unchanged = [file.sequence for files in added for file in files.values() if file.sequence <= base]
    numbers = [snapshot.get("sequence-number") or 0 for snapshot in copied]
    return SequenceNumbers(base, sides[0], sides[1], max(unchanged, default=0), max(numbers, default=0))


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
    # A file that a left-out compaction wrote stays if the source has it, too.
    removed = {key: file for key, file in before_added.items() if key not in after_added and key not in source_added}
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
