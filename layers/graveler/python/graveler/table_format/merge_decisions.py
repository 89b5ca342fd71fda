"""The decisions of a merge about the files that both sides changed: the table under "Merges" in docs/iceberg.md, row by row.

Everything is a function of two sets of changes: no file is read but for positions of deletes, by the caller's means. A merge that
has no conflict has the rows of the source's work done after the destination's.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from graveler.model import TableReason
from graveler.table_format.live_files import (
    DATA,
    EQUALITY_DELETES,
    POSITION_DELETES,
    FileKey,
    LiveFile,
    Partition,
    PartitionIndex,
    Renumbered,
)
from graveler.table_format.merge_circumstances import Circumstances
from graveler.table_format.merge_order import reordered_deletes
from graveler.table_format.merge_results import MAX_FILES, SERIALIZABLE, ReasonKind
from graveler.table_format.merge_sides import Compaction, SideChanges, applicable

_LEVELS = ("write.delete.isolation-level", "write.update.isolation-level", "write.merge.isolation-level")


class VectorUnion(Struct, frozen=True, eq=False):
    """Deletion vectors of one data file, of which one is to be made: those of the base (if it had one), and of both sides (None:
    that side removed it)."""

    target: str
    base: LiveFile | None
    source: LiveFile | None
    destination: LiveFile | None


class Decision(Struct, frozen=True, eq=False):
    """Conflicts; or the compactions of each side that stay, and the vectors to unite."""

    conflicts: tuple[TableReason, ...]
    source_compactions: tuple[Compaction, ...] = ()
    destination_compactions: tuple[Compaction, ...] = ()
    vectors: tuple[VectorUnion, ...] = ()


def is_isolated(properties: Mapping[str, str], source: SideChanges) -> bool:
    """Return whether a table's isolation levels forbid removing rows where the destination added some. A source whose added rows
    were all appended did nothing but delete, so only the level of deletes counts; otherwise the strictest level does."""
    levels = _LEVELS if source.derived() else _LEVELS[:1]
    return any(properties.get(level, SERIALIZABLE).lower() == SERIALIZABLE for level in levels)


def decide(source: SideChanges, destination: SideChanges, circumstances: Circumstances) -> Decision:
    """Return the decision about two sets of changes of one base.

    Costs a look-up for each changed file, more where partitions of several specs, or deletes of unknown files, meet; and one read
    of each file of position deletes whose positions are compared.
    """
    both_added = source.added.keys() & destination.added.keys()
    decisions = _Decisions(
        _without_added(source, both_added),
        _without_added(destination, both_added),
        circumstances,
        {key: Renumbered(source.added[key], destination.added[key]) for key in both_added},
    )
    decisions.compare()
    if decisions.conflicts:
        return Decision(tuple(decisions.conflicts))
    source_compactions, destination_compactions = decisions.compactions()
    decisions.expect_compactions(source, source_compactions, destination, "source", "destination")
    decisions.expect_compactions(destination, destination_compactions, source, "destination", "source")
    if decisions.conflicts:
        return Decision(tuple(decisions.conflicts))
    return Decision((), tuple(source_compactions), tuple(destination_compactions), tuple(decisions.vectors))


def without_compactions(decision: Decision, source: SideChanges, omitted: Set[int]) -> Decision:
    """Return a decision without some compactions of the source, by snapshot, and without those that need them."""
    chosen = {compaction.snapshot_id for compaction in decision.source_compactions}
    omitted = {compaction.snapshot_id for compaction in source.compactions} - chosen | omitted
    return replace(decision, source_compactions=tuple(applicable(source, omitted)))


def _without_added(changes: SideChanges, keys: Set[FileKey]) -> SideChanges:
    if not keys:
        return changes
    added = {key: file for key, file in changes.added.items() if key not in keys}
    return SideChanges(added, changes.removed, changes.compactions, changes.appends)


class _Decisions:
    def __init__(
        self,
        source: SideChanges,
        destination: SideChanges,
        circumstances: Circumstances,
        both_added: Mapping[FileKey, Renumbered],
    ) -> None:
        self.source, self.destination, self.circumstances = source, destination, circumstances
        self.both_added = both_added
        self.conflicts: list[TableReason] = []
        self.vectors: list[VectorUnion] = []
        self._source_deletes = _Deletes(source)
        self._destination_deletes = _Deletes(destination)

    def compare(self) -> None:
        self._same_files()
        self._isolation()
        self._deletes_of_removed_files(self._source_deletes, self.destination.data_removed(), "source", "destination")
        self._deletes_of_removed_files(self._destination_deletes, self.source.data_removed(), "destination", "source")
        self._position_deletes_of_both()
        self._equality_deletes_of_source()
        self._equality_deletes_of_destination()
        self._reordered_deletes()
        self._deletes_of_files_of_both()

    def _conflict(
        self,
        kind: ReasonKind,
        sentence: str,
        partition: Partition,
        files: Iterable[LiveFile],
        source_files: Iterable[LiveFile] = (),
        destination_files: Iterable[LiveFile] = (),
    ) -> None:
        paths = sorted({file.path for file in files})[:MAX_FILES]
        self.conflicts.append(
            TableReason(
                kind,
                sentence,
                self.circumstances.partition_text(partition),
                tuple(paths),
                (),
                sum(file.rows for file in source_files),
                sum(file.rows for file in destination_files),
            )
        )

    def _same_files(self) -> None:
        common = [file for file in self.source.data_removed() if file.key in self.destination.removed]
        if not common:
            return
        added = PartitionIndex([*_rows_added(self.source), *_rows_added(self.destination)])
        moved = [*self.source.derived(), *self.destination.derived()]
        for partition, files in _by_partition(common).items():
            if moved or any(added.overlapping(partition)):
                self._conflict(
                    "file",
                    f"both sides removed {_files(files)}{self._in(partition)}, and one of them added rows that may be the same "
                    f"rows, changed",
                    partition,
                    files,
                    files,
                    files,
                )

    def _isolation(self) -> None:
        added = PartitionIndex(_rows_added(self.destination))
        if not self.circumstances.isolated or not added:
            return
        removing = [*self.source.data_removed(), *self._source_deletes.added]
        for partition, files in _by_partition(removing).items():
            in_way = list(added.overlapping(partition))
            if in_way:
                self._conflict(
                    "isolation",
                    f"the source removed rows{self._in(partition)} ({_files(files)}), and the destination added rows to it "
                    f"({_files(in_way)}); isolation level snapshot would take both",
                    partition,
                    [*files, *in_way],
                    files,
                    in_way,
                )

    def _deletes_of_removed_files(
        self, deletes: "_Deletes", removed: Sequence[LiveFile], deleter: str, remover: str
    ) -> None:
        if not removed or not deletes:
            return
        by_path = {file.path: file for file in removed}
        index = PartitionIndex(removed)
        for delete in chain(deletes.added, deletes.restored):
            if delete.target:
                touched = [by_path[delete.target]] if delete.target in by_path else []
            elif delete.content == POSITION_DELETES:
                touched = [file for file in removed if delete.may_touch(file)]
                positions = self.circumstances.positions(delete) if touched else None
                if positions is not None:
                    touched = [file for file in touched if file.path in positions]
            else:
                touched = list(index.overlapping(delete.partition))
            if touched:
                sides = ((delete,), touched) if deleter == "source" else (touched, (delete,))
                self._conflict(
                    "position-deletes",
                    f"the {deleter} changed which rows of {_files(touched)}{self._in(delete.partition)} are deleted, and the "
                    f"{remover} removed or rewrote them",
                    delete.partition,
                    touched,
                    *sides,
                )

    def _position_deletes_of_both(self) -> None:
        source, destination = self._source_deletes, self._destination_deletes
        rows_added = any(_rows_added(self.source)) or any(_rows_added(self.destination))
        vectors = source.vectors.keys() & destination.vectors.keys()
        for target in sorted(vectors):
            union = _vector_union(target, self.source, self.destination)
            if not rows_added or self._disjoint(target, union):
                self.vectors.append(union)
        self._vectors_and_files(source.positions, destination.positions)
        if not rows_added:
            return
        loose = [file for file in destination.positions if not (file.is_vector and file.target in vectors)]
        by_target: dict[str, list[LiveFile]] = {}
        for file in loose:
            by_target.setdefault(file.target, []).append(file)
        for file in (*source.positions, *source.restored):
            if file.is_vector and file.target in vectors:
                continue
            candidates = loose if file.content == POSITION_DELETES else destination.positions
            if file.target:
                candidates = [*by_target.get(file.target, ()), *by_target.get("", ())]
            meeting = [other for other in candidates if _may_meet(file, other)]
            if meeting:
                self._common_positions(file, meeting)

    def _vectors_and_files(self, source: list[LiveFile], destination: list[LiveFile]) -> None:
        """Note conflicts where a vector would hide deletes of the other side, which its format still has in other files."""
        for vectors, files in ((source, destination), (destination, source)):
            loose = [file for file in files if not file.is_vector]
            for vector in vectors if loose else ():
                hidden = [file for file in loose if _may_meet(file, vector)] if vector.is_vector else []
                if hidden:
                    sides = ([vector], hidden) if vectors is source else (hidden, [vector])
                    self._conflict(
                        "position-deletes",
                        f"one side deleted rows of {vector.target} by a deletion vector, the other maybe by position deletes of "
                        f"format version 2; upgrade both sides to version 3 and rewrite their position deletes",
                        vector.partition,
                        [vector, *hidden],
                        *sides,
                    )

    def _disjoint(self, target: str, union: VectorUnion) -> bool:
        base = self._target_positions(union.base, target)
        source = self._target_positions(union.source, target)
        destination = self._target_positions(union.destination, target)
        if base is None or source is None or destination is None:
            reason = f"at positions that cannot be read{self._lack()}"
        elif common := (source ^ base) & (destination ^ base):
            reason = f"{len(common):,} of them the same"
        else:
            return True
        vector = union.source or union.destination or union.base
        self._conflict(
            "position-deletes",
            f"both sides changed which rows of {target} are deleted, {reason}, and one of them added rows",
            vector.partition if vector else (),
            [file for file in (union.source, union.destination) if file],
            [file for file in (union.source,) if file],
            [file for file in (union.destination,) if file],
        )
        return False

    def _target_positions(self, file: LiveFile | None, target: str) -> frozenset[int] | None:
        if file is None:
            return frozenset()
        positions = self.circumstances.positions(file)
        return None if positions is None else positions.get(target, frozenset())

    def _common_positions(self, file: LiveFile, candidates: list[LiveFile]) -> None:
        positions = self.circumstances.positions(file) if file.content == POSITION_DELETES else None
        meeting = []
        for other in candidates:
            other_positions = self.circumstances.positions(other) if positions is not None else None
            if (
                positions is None
                or other_positions is None
                or any(positions[path] & other_positions[path] for path in positions.keys() & other_positions.keys())
            ):
                meeting.append(other)
        if meeting:
            is_known = positions is not None and all(
                self.circumstances.positions(other) is not None for other in meeting
            )
            verb = "have rows in common" if is_known else f"may have rows in common{self._lack()}"
            self._conflict(
                "position-deletes",
                f"deletes that both sides changed{self._in(file.partition)} {verb}, and one side added rows",
                file.partition,
                [file, *meeting],
                [file],
                meeting,
            )

    def _lack(self) -> str:
        return f" ({self.circumstances.missing_reader})" if self.circumstances.missing_reader else ""

    def _deletes_of_files_of_both(self) -> None:
        brought_back = [*self.source.data_removed(), *self._source_deletes.restored]
        for delete in self._destination_deletes.positions if brought_back else ():
            if (delete.target, -1) in self.both_added:
                self._conflict(
                    "position-deletes",
                    f"the destination deleted rows of {delete.target}, which the source brought back",
                    delete.partition,
                    [delete],
                    brought_back,
                    [delete],
                )

    def _equality_deletes_of_source(self) -> None:
        deletes = self.source.equality_deletes()
        if not deletes:
            return
        added = PartitionIndex(_rows_added(self.destination))
        removing = PartitionIndex([*self.destination.data_removed(), *self._destination_deletes.added])
        moved = self.destination.derived()
        derived = self.source.derived()  # in any partition: an update may have moved rows
        for partition, files in _by_partition(deletes).items():
            in_way = list(added.overlapping(partition))
            if not in_way and moved and any(removing.overlapping(partition)):
                in_way = moved
            if in_way:
                self._conflict(
                    "equality-deletes",
                    f"the source deleted rows{self._in(partition)} by their values, and the destination added rows "
                    f"({_files(in_way)}) that may have these",
                    partition,
                    [*files, *in_way],
                    files,
                    in_way,
                )
            elif derived and (removed := list(removing.overlapping(partition))):
                self._conflict(
                    "equality-deletes",
                    f"the source deleted rows{self._in(partition)} by their values and added rows that may be the same rows, "
                    f"changed, and the destination removed rows there ({_files(removed)})",
                    partition,
                    [*files, *removed],
                    files,
                    removed,
                )

    def _equality_deletes_of_destination(self) -> None:
        deletes = [*self.destination.equality_deletes(), *self.circumstances.renumbered]
        if not deletes:
            return
        derived = self.source.derived()
        removing = PartitionIndex(
            [*self.source.data_removed(), *self._source_deletes.positions, *self._source_deletes.restored]
        )
        old = PartitionIndex(self.circumstances.old_data(self.source.added.values()))
        restored = self._source_deletes.restored
        renumbered = set(self.circumstances.renumbered)
        for partition, files in _by_partition(deletes).items():
            in_way = list(old.overlapping(partition))
            if (derived or restored) and not in_way and not renumbered.issuperset(files):
                in_way = list(removing.overlapping(partition))
            if in_way:
                self._conflict(
                    "equality-deletes",
                    f"the destination deleted rows{self._in(partition)} by their values, and the source rewrote or brought back "
                    f"rows ({_files(in_way)}) that may have these",
                    partition,
                    [*files, *in_way],
                    in_way,
                    files,
                )

    def _reordered_deletes(self) -> None:
        for delete, in_way in reordered_deletes(self.source, self.destination, self.circumstances, self.both_added):
            by_values = delete.content == EQUALITY_DELETES
            self._conflict(
                "equality-deletes" if by_values else "position-deletes",
                f"rows{self._in(delete.partition)} were deleted by {'their values' if by_values else 'position'}, and an earlier "
                f"merge changed whether these deletes are older than rows there, or a file was added again ({_files(in_way)}); "
                f"choose a side",
                delete.partition,
                [delete, *in_way],
                [delete],
                in_way,
            )

    def compactions(self) -> tuple[list[Compaction], list[Compaction]]:
        """Return the compactions of both sides that stay."""
        source_chosen = _standing(
            self.source,
            {*self.destination.removed, *self.both_added},
            self._destination_deletes,
            self._destination_deletes.equality,
        )
        old = [file for file in self._source_deletes.equality if file.sequence <= self.circumstances.base_sequence]
        destination_chosen = _standing(
            self.destination, {*self.source.removed, *self.both_added}, self._source_deletes, old
        )
        removed = set(chain.from_iterable(compaction.removed for compaction in destination_chosen))
        by_source = [pair.before for pair in self.circumstances.by_source if pair.before.content == EQUALITY_DELETES]
        renumbered = PartitionIndex([*by_source, *self.circumstances.renumbered])
        omitted = {
            compaction.snapshot_id
            for compaction in self.source.compactions
            if compaction not in source_chosen
            or not removed.isdisjoint(compaction.removed)
            or any(
                any(renumbered.overlapping(file.partition))
                for file in self.circumstances.old_data(compaction.added.values())
            )
        }
        return applicable(self.source, omitted), destination_chosen

    def expect_compactions(
        self,
        side: SideChanges,
        chosen: Sequence[Compaction],
        opposite: SideChanges,
        compactor: str,
        owner: str,
    ) -> None:
        """Note a conflict if the opposite side has files of a compaction that is left out, and that compacted what the side had
        added: its rows would be in both."""
        omitted = [compaction for compaction in side.compactions if compaction not in chosen]
        compacted = set(chain.from_iterable(compaction.removed for compaction in omitted)) & side.added.keys()
        if not compacted:
            return
        files = [
            file
            for compaction in omitted
            for key, file in compaction.added.items()
            if key in opposite.added and file.content == DATA
        ]
        for partition, group in _by_partition(files).items():
            sides = (group, ()) if compactor == "source" else ((), group)
            self._conflict(
                "file",
                f"the {owner} has files of a compaction of the {compactor}{self._in(partition)} ({_files(group)}), which also "
                f"compacted files that the {compactor} had added, and cannot stay; choose a side",
                partition,
                group,
                *sides,
            )

    def _in(self, partition: Partition) -> str:
        text = self.circumstances.partition_text(partition)
        return f" in partition {text}" if text else ""


class _Deletes:
    """Deletes that a side added or removed on files of the base."""

    def __init__(self, changes: SideChanges) -> None:
        self.positions = changes.position_deletes()
        self.equality = changes.equality_deletes()
        self.added = [*self.positions, *self.equality]
        self.removed = changes.restored_deletes()
        deleted = Counter[str]()
        for file in self.positions:
            deleted[file.target] += file.rows
        for file in self.removed:
            deleted[file.target] -= file.rows
        self.restored = [file for file in self.removed if not file.target or deleted[file.target] < 0]
        self.vectors = {file.target: file for file in (*self.removed, *self.positions) if file.is_vector}

    def __bool__(self) -> bool:
        return bool(self.added or self.restored)


def _rows_added(changes: SideChanges) -> list[LiveFile]:
    return [*changes.data_added(), *_Deletes(changes).restored]


def _vector_union(target: str, source: SideChanges, destination: SideChanges) -> VectorUnion:
    def vector_of(files: Mapping[FileKey, LiveFile]) -> LiveFile | None:
        return next((file for file in files.values() if file.is_vector and file.target == target), None)

    return VectorUnion(
        target,
        vector_of(source.removed) or vector_of(destination.removed),
        vector_of(source.added),
        vector_of(destination.added),
    )


def _may_meet(file: LiveFile, other: LiveFile) -> bool:
    if file.target and other.target:
        return file.target == other.target
    if file.lowest and other.lowest and (file.highest < other.lowest or other.highest < file.lowest):
        return False
    return bool(file.target or other.target) or any(PartitionIndex([file]).overlapping(other.partition))


def _standing(
    side: SideChanges, other_files: Set[FileKey], other_deletes: _Deletes, by_values: Sequence[LiveFile]
) -> list[Compaction]:
    """Return the compactions of a side that the other side's changes, without its compactions, leave alone: none of
    ``other_files`` and nothing on which it changed deletes was compacted, nor what its deletes ``by_values`` may touch."""
    positions = [
        file for file in (*other_deletes.positions, *other_deletes.removed) if file.content == POSITION_DELETES
    ]
    removed = [file for file in other_deletes.removed if file.content == EQUALITY_DELETES]
    equality = PartitionIndex([*removed, *by_values])
    targets = {file.target for file in positions if file.target}
    ranges = [file for file in positions if not file.target]
    omitted = set()
    for compaction in side.compactions:
        data_files = [file for file in compaction.removed.values() if file.content == DATA]
        if (
            not other_files.isdisjoint(compaction.removed)
            or any(file.path in targets or any(equality.overlapping(file.partition)) for file in data_files)
            or any(delete.may_touch(file) for delete in ranges for file in data_files)
        ):
            omitted.add(compaction.snapshot_id)
    return applicable(side, omitted)


def _by_partition(files: Iterable[LiveFile]) -> dict[Partition, list[LiveFile]]:
    groups: dict[Partition, list[LiveFile]] = {}
    for file in files:
        groups.setdefault(file.partition, []).append(file)
    return groups


def _files(files: Sequence[LiveFile]) -> str:
    rows = sum(file.rows for file in files)
    return f"{len(files):,} file{'s' if len(files) != 1 else ''}, {rows:,} row{'s' if rows != 1 else ''}"
