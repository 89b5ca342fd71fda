"""The common state of two sides of a merge, by the history of the table.

A squash merge and a cherry-pick bring the work of one side to the other, and leave no common commit: the base of the next merge
is the state before that work. The snapshots that such merges made say what the sides have in common since.
"""

from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from itertools import chain, pairwise
from typing import Final, NamedTuple

from graveler.errors import CorruptError, InvalidError, NotFoundError
from graveler.model import TableReason
from graveler.table_format.live_files import DATA, FileKey, LiveFile
from graveler.table_format.manifests import ADDED, DELETED
from graveler.table_format.merge_reading import MergeReader, snapshot_ids, snapshots_since
from graveler.table_format.merge_results import MAX_FILES, TableState
from graveler.table_format.merge_sides import Files, SideChanges
from graveler.table_format.plain_documents import Document, ReadFile
from graveler.table_format.snapshot_merges import (
    BASE_FIELD,
    DETACHED_FIELD,
    EXPIRED_FIELD,
    SOURCE_FIELD,
    WORK_FIELD,
    expired_snapshots,
    is_detached,
    merge_of,
    removes_files,
)
from graveler.table_format.table_metadata import (
    NO_SNAPSHOT,
    ROW_LINEAGE_VERSION,
    current_snapshot_id,
    empty_table,
    read_table,
)

_MAX_WORK: Final = 64
"""The number of snapshots that a merged one names."""
_HISTORY_FIELDS: Final = frozenset(
    (
        "last-sequence-number",
        "last-updated-ms",
        "next-row-id",
        "current-snapshot-id",
        "snapshots",
        "refs",
        "snapshot-log",
        "metadata-log",
        "statistics",
        "partition-statistics",
        EXPIRED_FIELD,
    )
)
"""The fields of metadata that change when rows do."""
_HIDDEN: Final = (
    "both sides have removed or rewritten rows since an earlier squash merge, cherry-pick or revert, and the snapshots that say "
    "which ones have expired; choose a side, or do the work again on a branch that begins at the destination"
)


class _Line(NamedTuple):
    """A side's snapshots since the base, oldest first, their numbers, and that of the snapshot on which they were built: the
    side's current one, if there are none. ``before`` are the numbers of this one and of those before it, as far as known."""

    snapshots: list[Document]
    numbers: list[str]
    start: str
    before: Set[str]


def merge_fields(base: Document, source: Document, *, detaches: bool) -> dict[str, str]:
    """Return the fields of a merged snapshot's summary that say which snapshots were merged into it, also by the source before,
    and whether the merge leaves no common commit."""
    source_id = current_snapshot_id(source)
    fields = {} if source_id is None else {SOURCE_FIELD: str(source_id)}
    number = _number(base)
    work = _work(number, _line(source, snapshot_ids(base)))
    fields |= {BASE_FIELD: number, WORK_FIELD: ",".join(work[-_MAX_WORK:])}
    return fields | ({DETACHED_FIELD: "true"} if detaches else {})


def _work(number: str, line: _Line) -> list[str]:
    """Return the snapshots of a side since the base, by its number, each after those that it merged."""
    undone = _undone(line.snapshots)
    former = {number, *line.before}
    work: dict[str, None] = {}
    for snapshot in line.snapshots:
        if _id(snapshot) not in undone:
            work |= dict.fromkeys(_merged(snapshot, former | work.keys()))
        work[_id(snapshot)] = None
    return [part for part in work if part not in former]


def base_of_new_table(source: TableState, destination: TableState, read_file: ReadFile) -> TableState | None:
    """Return the state from which both sides went on with a table that the commits' base has not: an earlier merge brought it
    from one to the other without a common commit.

    It is the newest metadata file that both have in their logs. If there is none, and the sides differ in rows only, it is the
    table without rows, which no file holds. None for two tables, and where nothing says which side changed the rest. Reads at
    most that file.
    """
    if source.metadata["table-uuid"] != destination.metadata["table-uuid"]:
        return None
    logs = [_metadata_files(state) for state in (source, destination)]
    location = next((location for location in reversed(logs[0]) if location in logs[1]), None)
    for state in (source, destination):
        if state.location == location:
            return state
    if location is not None:
        # It may be gone, damaged, or outside of the table's folder, where both sides registered it from.
        with suppress(NotFoundError, CorruptError, InvalidError):
            return TableState(read_table(read_file(location), location, stored=True), location)
    documents = [
        {name: value for name, value in state.metadata.items() if name not in _HISTORY_FIELDS}
        for state in (source, destination)
    ]
    if documents[0] != documents[1]:
        return None
    empty = empty_table(destination.metadata["format-version"], None)
    history = {name: value for name, value in empty.items() if name in _HISTORY_FIELDS}
    return TableState({**destination.metadata, **history, "last-updated-ms": 0, EXPIRED_FIELD: None}, "")


def _metadata_files(state: TableState) -> list[str]:
    """Return the locations of the metadata files that a table has had, as far as its log goes, oldest first."""
    return [*(entry["metadata-file"] for entry in state.metadata.get("metadata-log") or ()), state.location]


def common_state(base: TableState, source: TableState, destination: TableState) -> TableState:
    """Return the newest known state whose files both sides began with: ``base``, or one that both have in their history since, or
    one of which one side has brought all work since the base to itself. Reads nothing: what is in no snapshot of the sides,
    because it has expired, is not known."""
    former = snapshot_ids(base.metadata)
    states = source, destination
    lines = [_line(state.metadata, former) for state in states]
    number = _number(base.metadata)
    undone = _undone(lines[0].snapshots) | _undone(lines[1].snapshots)
    parts = _with_base(number, lines)
    shared = _shared(lines, parts)
    common = []
    for numbers, merging in zip(parts, reversed(lines), strict=True):
        brought = _brought(number, merging, numbers, undone)
        common.append([part for part in numbers if part in brought or part == shared])
    if not any(common):
        return base
    side = 0 if common[0] else 1
    if all(common):  # each side has work of the other one: of the two states the one that has the other
        newest = lines[1].numbers.index(common[1][-1])
        before = lines[1]._replace(snapshots=lines[1].snapshots[: newest + 1])
        side = int(common[0][-1] in _brought(number, before, lines[0].numbers, undone))
    line = lines[side]
    return _state_at(base, states[side], line.snapshots, line.snapshots[line.numbers.index(common[side][-1])])


def _line(state: Document, former: Set[int]) -> _Line:
    snapshots = snapshots_since(former, state)
    number = snapshots[0].get("parent-snapshot-id") if snapshots else current_snapshot_id(state)
    start = str(NO_SNAPSHOT if number is None else number)
    numbers = list(map(_id, snapshots))
    before = {start, *map(_id, snapshots_since(frozenset(), state))} - set(numbers)
    return _Line(snapshots, numbers, start, before)


def _with_base(number: str, lines: Sequence[_Line]) -> list[Sequence[str]]:
    """Return the snapshots of each line that have the work of the base: those since it, or since a side merged it. All, if no
    snapshot says so."""
    begins = [_first_with_base(number, line) for line in lines]
    for side, line in enumerate(lines):
        index = begins[1 - side]
        if begins[side] is None and index is not None and line.start in lines[1 - side].numbers[index:]:
            begins[side] = 0
    if begins == [None, None]:
        return [line.numbers for line in lines]
    return [() if index is None else line.numbers[index:] for index, line in zip(begins, lines, strict=True)]


def _first_with_base(number: str, line: _Line) -> int | None:
    if line.start == number:
        return 0
    sources = ((snapshot.get("summary") or {}).get(SOURCE_FIELD) for snapshot in line.snapshots)
    return next((index for index, source in enumerate(sources) if source == number), None)


def _shared(lines: Sequence[_Line], parts: Sequence[Sequence[str]]) -> str | None:
    """Return the newest snapshot of these ``parts`` that both lines went through, unless one of them has reverted work since."""
    both = set(parts[0]).intersection(parts[1])
    newest = next((number for number in reversed(parts[0]) if number in both), None)
    if newest is None:
        return None
    since = [line.numbers[line.numbers.index(newest) + 1 :] for line in lines]
    return (
        newest if all(_undone(line.snapshots).isdisjoint(new) for line, new in zip(lines, since, strict=True)) else None
    )


def _brought(number: str, line: _Line, opposite: Sequence[str], undone: Set[str]) -> set[str]:
    """Return the base's number, and those of the snapshots whose work a line has: its own, and what it merged. After a revert of
    work of the ``opposite`` line nothing counts that was brought before."""
    brought = {number, *line.before}
    lineage = {number, *line.before}
    for snapshot in line.snapshots:
        parts = {_id(snapshot), *_merged(snapshot, lineage | brought)}
        lineage.add(_id(snapshot))
        if _id(snapshot) not in undone:
            brought |= parts
        elif not parts.isdisjoint(opposite):
            brought = {number}
    return brought


def _merged(snapshot: Document, brought: Set[str]) -> Sequence[str]:
    """Return the snapshots that a merge brought to its line, if these are all since one that was ``brought`` before."""
    merge = merge_of(snapshot)
    return () if merge is None or merge.base not in brought else (*merge.work, merge.source)


def _undone(line: Sequence[Document]) -> set[str]:
    """Return the snapshots of a line, oldest first, that it has reverted, with the reverts; all after a revert of a revert. A
    merge that brought a snapshot is none, though it may begin with one of the line: one that was taken as it was."""
    numbers = list(map(_id, line))
    undone: set[str] = set()
    for index, snapshot in enumerate(line):
        merge = merge_of(snapshot)
        if merge is None or not set(numbers).issuperset(merge.work):
            continue
        start = numbers.index(merge.source) + 1 if merge.source in numbers else 0
        if merge.base in numbers[start:index]:
            taken_back = set(numbers[start : numbers.index(merge.base) + 1])
            if not undone.isdisjoint(taken_back):
                return set(numbers)
            undone |= {*taken_back, numbers[index]}
    return undone


def conflicts_of_earlier_merges(
    reader: MergeReader,
    common: TableState,
    sides: tuple[TableState, TableState],
    added: tuple[Files, Files],
    changes: tuple[SideChanges, SideChanges],
) -> list[TableReason]:
    """Return a conflict if one side of a merge removed or rewrote a file that both had, though the common state lacks it: an
    earlier merge had brought it without a common commit, or a revert had brought it back. ``added`` are the live files of both
    sides that the common state has not, ``changes`` are those of both sides. Where snapshots of a side have expired, their notes
    say which files it has had.

    Reads nothing unless such a merge or revert is in the history of a side. Then it reads the manifest list of each of its
    snapshots since the common state, and the manifests that they wrote.
    """
    former = snapshot_ids(common.metadata)
    number = _number(common.metadata)
    whole_lines = [_line(state.metadata, former) for state in sides]
    notes = [_notes_since(common.metadata, state.metadata) for state in sides]
    histories = [_standing([*part, *line.snapshots]) for part, line in zip(notes, whole_lines, strict=True)]
    merges = [_unknown(filter(is_detached, history), former) for history in histories]
    standing = [set(map(_id, _standing(line.snapshots))) for line in whole_lines]
    is_shared = not standing[0].isdisjoint(standing[1])
    if not any(merges) and not is_shared and all(_first_with_base(number, line) is not None for line in whole_lines):
        return []
    lines = [_present(history) for history in histories]
    files = [[file for key, file in added[side].items() if key not in added[1 - side]] for side in (0, 1)]
    rewrites = any(side.derived() for side in changes) or any(map(_rewrites_rows, lines))
    unknown = [*chain(*merges)] if rewrites else []
    assumed: list[set[FileKey]] = []
    side_keys: list[set[FileKey]] = []
    for side, line in enumerate(lines):
        opposite = 1 - side
        assumed.append(
            _keys_of_merges(
                reader, _unknown(filter(is_detached, notes[side]), former), lines[opposite], files[opposite]
            )
            | _keys_of_expired(reader, notes[side], merges[opposite], files[opposite])
        )
        is_needed = files[opposite] or unknown
        side_keys.append(
            assumed[side] | _keys(reader, line) | _third_keys(reader, number, whole_lines[side], lines[opposite])
            if is_needed
            else set()
        )
    files = [[file for file in files[side] if file.key in side_keys[1 - side]] for side in (0, 1)]
    keys = {file.key for part in files for file in part}
    if unknown:
        brought = reader.changed_keys(_present(unknown), ADDED).union(*assumed)
        keys |= (brought & side_keys[0] & side_keys[1]) - added[0].keys() - added[1].keys()
    if not keys and _hides_removals(histories):
        return [TableReason("file", _HIDDEN)]
    if not keys:
        return []
    amount = f"{len(keys):,} file{'s' if len(keys) != 1 else ''}"
    return [
        TableReason(
            "file",
            f"both sides have had {amount} of an earlier squash merge, cherry-pick or revert, and one side has since removed or "
            "rewritten them; choose a side, or do the work again on a branch that begins at the destination",
            files=tuple(sorted({path for path, _ in keys})[:MAX_FILES]),
            source_rows=sum(file.rows for file in files[0] if file.content == DATA),
            destination_rows=sum(file.rows for file in files[1] if file.content == DATA),
        )
    ]


def _standing(line: list[Document]) -> list[Document]:
    """Return the snapshots of a line without those that it has reverted; all, if reverts were reverted."""
    undone = _undone(line)
    return line if len(undone) == len(line) else [snapshot for snapshot in line if _id(snapshot) not in undone]


def _hides_removals(histories: Sequence[Sequence[Document]]) -> bool:
    """Return whether both sides have removed files since the last merge between them, which has expired with its source, and some
    of these snapshots have expired, too: so nothing says whether both removed the same files."""
    for history, opposite in (histories, histories[::-1]):
        numbers = list(map(_id, history))
        links = [
            (index, merge)
            for index, part in enumerate(opposite)
            if (merge := merge_of(part)) and merge.source in numbers
        ]
        if not links:
            continue
        index, merge = links[-1]
        position = numbers.index(merge.source)
        if _present((history[position], opposite[index])):
            continue
        removals = [list(filter(removes_files, part)) for part in (history[position + 1 :], opposite[index + 1 :])]
        if all(removals) and len(_present(chain(*removals))) < len([*chain(*removals)]):
            return True
    return False


def _present(history: Iterable[Document]) -> list[Document]:
    """Return the snapshots of a history that have not expired: a note of one that has knows no time."""
    return [snapshot for snapshot in history if "timestamp-ms" in snapshot]


def _notes_since(common: Document, state: Document) -> list[Document]:
    """Return the notes of a side's snapshots that expired and that the common state does not know."""
    former = snapshot_ids(common) | {note["snapshot-id"] for note in expired_snapshots(common)}
    return [note for note in expired_snapshots(state) if note["snapshot-id"] not in former]


def _keys_of_merges(
    reader: MergeReader, merges: Iterable[Document], opposite: Sequence[Document], files: Iterable[LiveFile]
) -> set[FileKey]:
    """Return the files that a side had by ``merges`` which have expired: those of the ``opposite`` line that were live at the
    source, and the live ``files`` of the opposite side that the merged work added."""
    keys: set[FileKey] = set()
    for merge in filter(None, map(merge_of, merges)):
        parts = {*merge.work, merge.source}
        work = [snapshot for snapshot in opposite if _id(snapshot) in parts]
        keys |= reader.changed_keys(work, ADDED) - reader.changed_keys(work, DELETED)
        keys |= {file.key for file in files if str(file.snapshot_id) in parts}
    return keys


def _keys_of_expired(
    reader: MergeReader, notes: Iterable[Document], merges: Iterable[Document], files: Iterable[LiveFile]
) -> set[FileKey]:
    """Return the files that a side had at snapshots that have expired, as far as ``merges`` of the opposite side brought their
    work to it: what these added, of which ``files`` are live."""
    numbers = set(map(_id, notes))
    merges = [
        snapshot for snapshot in merges if (merge := merge_of(snapshot)) and {*merge.work, merge.source} & numbers
    ]
    merge_ids = {snapshot["snapshot-id"] for snapshot in merges}
    return reader.changed_keys(_present(merges), ADDED) | {file.key for file in files if file.snapshot_id in merge_ids}


def _keys(reader: MergeReader, line: Sequence[Document]) -> set[FileKey]:
    """Return the files that a side had, by the snapshots of its line: what it added, and what it removed by itself."""
    work = [snapshot for snapshot in line if SOURCE_FIELD not in (snapshot.get("summary") or {})]
    return reader.changed_keys(line, ADDED) | reader.changed_keys(work, DELETED)


def _third_keys(reader: MergeReader, number: str, line: _Line, opposite: Sequence[Document]) -> set[FileKey]:
    """Return the files that a line had by merges of a third branch, as far as merges of the ``opposite`` line tell, which brought
    nothing else. Vectors are left out: a merge may unite them in new files."""
    brought = _brought(number, line, (), frozenset())
    merges = [
        snapshot
        for snapshot in opposite
        if (merge := merge_of(snapshot)) and merge.work and brought.issuperset(merge.work)
    ]
    return {key for key in reader.changed_keys(merges, ADDED) if key[1] < 0}


def _rewrites_rows(line: Sequence[Document]) -> bool:
    """Return whether an append of a line may have rows that it removed before, changed: PyIceberg writes an overwrite so."""
    operations = [(snapshot.get("summary") or {}).get("operation") for snapshot in line]
    return any(former in ("delete", "overwrite") and latter == "append" for former, latter in pairwise(operations))


def _unknown(merges: Iterable[Document], former: Set[int]) -> list[Document]:
    """Return the merges without a common commit whose source the common state does not have."""
    numbers = set(map(str, former))
    return [snapshot for snapshot in merges if (merge := merge_of(snapshot)) and merge.source not in numbers]


def _number(state: Document) -> str:
    number = current_snapshot_id(state)
    return str(NO_SNAPSHOT if number is None else number)


def _id(snapshot: Document) -> str:
    return str(snapshot["snapshot-id"])


def _state_at(base: TableState, state: TableState, line: list[Document], snapshot: Document) -> TableState:
    """Return the state that a side had at a snapshot of its line, as far as a merge needs it: its files and numbers."""
    metadata = {
        **state.metadata,
        "snapshots": [*base.metadata["snapshots"], *line[: line.index(snapshot) + 1]],
        "current-snapshot-id": snapshot["snapshot-id"],
        "last-sequence-number": snapshot.get("sequence-number", 0),
    }
    first_row_id = snapshot.get("first-row-id")
    if first_row_id is not None:
        metadata["next-row-id"] = first_row_id + (snapshot.get("added-rows") or 0)
    elif metadata["format-version"] >= ROW_LINEAGE_VERSION:
        metadata |= {"format-version": base.metadata["format-version"], "next-row-id": base.metadata.get("next-row-id")}
    return TableState(metadata, state.location)
