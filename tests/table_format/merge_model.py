"""A model of tables for tests of merges: rows in files, deletes with sequence numbers, and two branches.

A row is a partition, a key and a value. Each operation exists twice: as it changes files, and as it changes rows; the second is
what a merge is compared with.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graveler.table_format.live_files import (
    DATA,
    EQUALITY_DELETES,
    POSITION_DELETES,
    FileKey,
    LiveFile,
    Partition,
    Renumbered,
)
from graveler.table_format.merge_circumstances import Circumstances
from graveler.table_format.merge_decisions import Decision, VectorUnion, decide
from graveler.table_format.merge_files import SequenceNumbers, merged_files
from graveler.table_format.merge_sides import Compaction, SideChanges, side_changes

FIELD = ((1,), "identity")


class Row(NamedTuple):
    """A row; ``origin`` is the branch that wrote it."""

    partition: int
    key: int
    value: str
    origin: str


class Operation(NamedTuple):
    """An operation: ``append``, ``delete``, ``update``, ``upsert``, ``overwrite`` or ``compact``, of a key in a partition, in one
    of the ways to do it: ``copy`` (files rewritten), ``position`` or ``equality`` (deletes)."""

    verb: str
    partition: int
    key: int = 0
    way: str = ""


@dataclass
class World:
    """Contents of all files of all branches."""

    partitioned: bool = True
    vectors: bool = False
    data: dict[str, list[Row]] = field(default_factory=dict)
    positions: dict[FileKey, dict[str, frozenset[int]]] = field(default_factory=dict)
    keys: dict[FileKey, frozenset[tuple[int, int]]] = field(default_factory=dict)
    count: int = 0

    def name(self, kind: str) -> str:
        """Return a new name of a file."""
        self.count += 1
        return f"file:///t/data/{kind}{self.count:04}"

    def partition(self, number: int) -> Partition:
        """Return a partition as files have it."""
        return ((FIELD, number),) if self.partitioned else ()


@dataclass
class Step:
    """A snapshot: what it added and removed."""

    snapshot_id: int
    operation: str
    added: dict[FileKey, LiveFile]
    removed: dict[FileKey, LiveFile]


@dataclass
class Branch:
    """A table on a branch: live files, last sequence number, snapshots since the base, and the operations that changed rows, each
    with whether it matched rows of the base."""

    world: World
    name: str
    live: dict[FileKey, LiveFile] = field(default_factory=dict)
    last: int = 0
    steps: list[Step] = field(default_factory=list)
    work: list[tuple[Operation, bool]] = field(default_factory=list)

    def fork(self, name: str) -> "Branch":
        """Return a new branch of the present state."""
        return Branch(self.world, name, dict(self.live), self.last)

    def deletes_of(self, file: LiveFile) -> list[LiveFile]:
        """Return the live position deletes that apply to a data file."""
        return [
            delete
            for delete in self.live.values()
            if delete.content == POSITION_DELETES
            and delete.sequence >= file.sequence
            and file.path in self.world.positions[delete.key]
        ]

    def rows_of(self, file: LiveFile) -> list[tuple[int, Row]]:
        """Return the live rows of a data file with their positions."""
        gone: set[int] = set()
        for delete in self.deletes_of(file):
            gone |= self.world.positions[delete.key][file.path]
        keys: set[tuple[int, int]] = set()
        for delete in self.live.values():
            is_newer = delete.content == EQUALITY_DELETES and delete.sequence > file.sequence
            if is_newer and delete.partition in (file.partition, ()):
                keys |= self.world.keys[delete.key]
        rows = self.world.data[file.path]
        return [(position, row) for position, row in enumerate(rows) if position not in gone and row[:2] not in keys]

    def rows(self) -> list[Row]:
        """Return all live rows."""
        return [row for file in self.data_files() for _, row in self.rows_of(file)]

    def data_files(self, partition: int | None = None) -> list[LiveFile]:
        """Return the live data files, of one partition or all."""
        return [
            file
            for file in self.live.values()
            if file.content == DATA
            and (partition is None or any(row.partition == partition for row in self.world.data[file.path]))
        ]

    def append_rows(self, partition: int, rows: list[Row]) -> None:
        """Append a file."""
        self._land("append", [self._data(partition, rows)], [])

    def write(self, operation: Operation) -> None:
        """Do an operation on files; nothing, if it matches no row."""
        matched = [row for row in self.rows() if _matches(operation, row)]
        if operation.verb != "append" and not (matched or operation.verb in ("upsert", "overwrite")):
            return
        if operation.verb == "compact" and len(self.data_files(operation.partition)) < 1:
            return
        getattr(self, f"_{operation.verb}")(operation)
        if operation.verb != "compact":
            self.work.append((operation, any(row.origin == "base" for row in matched)))

    def _new_rows(self, operation: Operation) -> list[Row]:
        return [Row(operation.partition, operation.key, f"new{self.world.count}", self.name)]

    def _append(self, operation: Operation) -> None:
        self.append_rows(operation.partition, self._new_rows(operation))

    def _delete(self, operation: Operation) -> None:
        self._change(operation, lambda _: None)

    def _update(self, operation: Operation) -> None:
        self._change(operation, lambda row: _updated(row, self.name))

    def _change(self, operation: Operation, change: Callable[[Row], Row | None]) -> None:
        added: list[LiveFile] = []
        removed: list[LiveFile] = []
        new_rows: list[Row] = []
        loose: dict[str, frozenset[int]] = {}
        deleted_key = operation.way == "equality" and operation.verb == "delete"
        if deleted_key:
            added.append(self._equality(operation))
        for file in () if deleted_key else self.data_files(operation.partition):
            live = self.rows_of(file)
            hits = [(position, row) for position, row in live if _matches(operation, row)]
            if not hits:
                continue
            changed = [result for _, row in hits if (result := change(row)) is not None]
            if operation.way == "copy":
                rest = [row for _, row in live if not _matches(operation, row)] + changed
                removed += [file, *(delete for delete in self.deletes_of(file) if delete.target == file.path)]
                if rest:
                    added.append(self._data(operation.partition, rest))
                continue
            new_rows += changed
            positions = frozenset(position for position, _ in hits)
            if self.world.vectors:
                for delete in self.deletes_of(file):
                    positions |= self.world.positions[delete.key][file.path]
                    removed.append(delete)
                added.append(self._positions(file.partition, {file.path: positions}))
            elif operation.key % 2:
                added.append(self._positions(file.partition, {file.path: positions}))
            else:
                loose[file.path] = positions
        if loose:
            added.append(self._positions(self.world.partition(operation.partition), loose))
        if new_rows:
            added.append(self._data(operation.partition, new_rows))
        self._land("overwrite" if added else "delete", added, removed)

    def _upsert(self, operation: Operation) -> None:
        self._land(
            "overwrite", [self._equality(operation), self._data(operation.partition, self._new_rows(operation))], []
        )

    def _overwrite(self, operation: Operation) -> None:
        files = self.data_files(operation.partition)
        added = []
        for file in files:
            rest = [row for _, row in self.rows_of(file) if row.partition != operation.partition]
            if rest:
                added.append(self._data(operation.partition, rest))
        removed = [*files, *self._own_deletes(files)]
        self._land("overwrite", [*added, self._data(operation.partition, self._new_rows(operation))], removed)

    def _compact(self, operation: Operation) -> None:
        files = self.data_files(operation.partition)
        rows = [row for file in files for _, row in self.rows_of(file)]
        added = [self._data(operation.partition, rows)] if rows else []
        self._land("replace", added, [*files, *self._own_deletes(files)], sequence=self.last)

    def _own_deletes(self, files: Iterable[LiveFile]) -> list[LiveFile]:
        paths = {file.path for file in files}
        return [file for file in self.live.values() if file.content == POSITION_DELETES and file.target in paths]

    def _data(self, partition: int, rows: list[Row]) -> LiveFile:
        path = self.world.name("data")
        self.world.data[path] = rows
        return LiveFile(path, DATA, self.world.partition(partition), len(rows), 0, 0)

    def _positions(self, partition: Partition, positions: dict[str, frozenset[int]]) -> LiveFile:
        path = self.world.name("deletes")
        rows = sum(map(len, positions.values()))
        vector = self.world.vectors
        lowest, highest = min(positions), max(positions)
        offset = 4 if vector else -1
        file = LiveFile(
            path, POSITION_DELETES, partition, rows, 0, 0, 0, offset, is_vector=vector, lowest=lowest, highest=highest
        )
        self.world.positions[file.key] = positions
        return file

    def _equality(self, operation: Operation) -> LiveFile:
        file = LiveFile(self.world.name("keys"), EQUALITY_DELETES, self.world.partition(operation.partition), 1, 0, 0)
        self.world.keys[file.key] = frozenset((operation[1:3],))
        return file

    def _land(
        self, operation: str, added: list[LiveFile], removed: Iterable[LiveFile], sequence: int | None = None
    ) -> None:
        self.last += 1
        self.world.count += 1
        number = self.world.count
        own = self.last if sequence is None else sequence
        files = {file.key: _numbered(file, own, number) for file in added}
        gone = {file.key: self.live[file.key] for file in removed if file.key in self.live}
        for key in gone:
            del self.live[key]
        self.live |= files
        self.steps.append(Step(number, operation, files, gone))


def _numbered(file: LiveFile, sequence: int, snapshot_id: int) -> LiveFile:
    return LiveFile(
        **{name: getattr(file, name) for name in LiveFile.__struct_fields__}
        | {"sequence": sequence, "snapshot_id": snapshot_id}
    )


def _matches(operation: Operation, row: Row) -> bool:
    if operation.verb in ("compact", "overwrite"):
        return row.partition == operation.partition
    return row.partition == operation.partition and row.key == operation.key


def _updated(row: Row, origin: str) -> Row:
    return Row(row.partition, row.key, f"{row.value}+{origin[0]}", origin)


def changes_of(branch: Branch, base: Branch, *, remembers: bool = True) -> SideChanges:
    """Return the changes of a branch since its base; without its history, if it was expired."""
    added = {key: file for key, file in branch.live.items() if key not in base.live}
    removed = {key: file for key, file in base.live.items() if key not in branch.live}
    compactions = [
        Compaction(step.snapshot_id, step.added, step.removed) for step in branch.steps if step.operation == "replace"
    ]
    appends = {step.snapshot_id for step in branch.steps if step.operation == "append"}
    return side_changes(added, removed, compactions if remembers else [], appends if remembers else set())


class Merge(NamedTuple):
    """A merge of the model: the decision, and the merged branch if there is no conflict."""

    decision: Decision
    branch: Branch | None


def merge(base: Branch, source: Branch, destination: Branch, *, isolated: bool = True, remembers: bool = True) -> Merge:
    """Merge two branches."""
    world = base.world
    numbers = SequenceNumbers(base.last, source.last, destination.last)
    before, after = changes_of(source, base, remembers=remembers), changes_of(destination, base, remembers=remembers)
    renumbered = [
        tuple(
            Renumbered(file, side.live[key])
            for key, file in base.live.items()
            if key in side.live and side.live[key].sequence != file.sequence
        )
        for side in (source, destination)
    ]
    decision = decide(
        before,
        after,
        Circumstances(
            isolated,
            base.last,
            numbers.of_added,
            lambda file: world.positions[file.key],
            str,
            renumbered[0],
            renumbered[1],
        ),
    )
    if decision.conflicts:
        return Merge(decision, None)
    files = merged_files(before, after, decision)
    merged = Branch(world, "merged", dict(destination.live), numbers.merged())
    for file in files.removed:
        del merged.live[file.key]
    world.count += 1
    number = world.count
    added = {file.key: _numbered(file, numbers.of_added(file), number) for file in files.added}
    added |= {file.key: file for file in files.restored}
    for union in files.vectors:
        vector = _united(world, union)
        if vector:
            added[vector.key] = _numbered(vector, merged.last, number)
    assert not added.keys() & merged.live.keys()
    merged.live |= added
    merged.steps = [*destination.steps, Step(number, "overwrite", added, {file.key: file for file in files.removed})]
    return Merge(decision, merged)


def _united(world: World, union: VectorUnion) -> LiveFile | None:
    base, source, destination = (
        world.positions[file.key][union.target] if file else frozenset()
        for file in (union.base, union.source, union.destination)
    )
    positions = (destination - (base - source)) | (source - base)
    template = union.source or union.destination
    if not positions or template is None:
        return None
    path = world.name("deletes")
    file = LiveFile(
        path,
        POSITION_DELETES,
        template.partition,
        len(positions),
        0,
        0,
        0,
        4,
        is_vector=True,
        lowest=union.target,
        highest=union.target,
    )
    world.positions[file.key] = {union.target: frozenset(positions)}
    return file


def in_order(destination: Branch, source: Branch, *, isolated: bool) -> Counter[tuple[Any, ...]]:
    """Return the rows after the source's work is done on the destination's state, as a multiset.

    An operation that matched rows of the base is done on all rows; any other, on those of the source only: a merge of states
    cannot know that it would have matched more. Below serializable isolation, none sees the destination's rows.
    """
    rows = destination.rows()
    new_rows = _appended(source)
    for (operation, of_base), created in zip(source.work, new_rows, strict=True):
        origins = {"base", source.name} | ({destination.name} if isolated and of_base else set())
        if not of_base:
            origins.discard("base")
        matched = [row for row in rows if row.origin in origins and _matches(operation, row)]
        if operation.verb != "append":
            for row in matched:
                rows.remove(row)
        if operation.verb == "update":
            rows += [_updated(row, source.name) for row in matched]
        rows += created
    return Counter(row[:3] for row in rows)


def _appended(source: Branch) -> list[list[Row]]:
    steps = [step for step in source.steps if step.operation != "replace"]
    created = []
    for (operation, _), step in zip(source.work, steps, strict=True):
        rows = [row for file in step.added.values() if file.content == DATA for row in source.world.data[file.path]]
        if operation.verb in ("append", "upsert"):
            created.append(rows)
        elif operation.verb == "overwrite":
            created.append(rows[-1:])
        else:
            created.append([])
    return created


def multiset(branch: Branch) -> Counter[tuple[Any, ...]]:
    """Return the rows of a branch without their origins."""
    return Counter(row[:3] for row in branch.rows())


def base_of(world: World, operations: Iterable[Operation]) -> Branch:
    """Return a base with one file of two rows in each of two partitions, and some operations done on it."""
    base = Branch(world, "base")
    for partition in (0, 1):
        rows = [Row(partition, key, f"base{key}", "base") for key in (1, 2)]
        base.append_rows(partition, rows)
    for operation in operations:
        base.write(operation)
    base.steps.clear()
    base.work.clear()
    return base
