"""Merges of trees in which both sides changed a table: the table is merged by its rows, and the rest as in any tree.

To a merge of trees a table is one record, which both sides changed: a conflict. Such conflicts are decided for the destination
at first, and the merged tree then gets what the merge of the tables makes: the entry with the new metadata, and the links of
all files that it reaches. Links stay that one side removed, since the merged table may still name those files; those of a side
that has them below another path, since it registered the table under another name, are moved.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from graveler.lake.iceberg.catalog_paths import relation_of
from graveler.lake.iceberg.linked_files import FOLDER_FIELD, NamedFile, linked_keys, links, placed_files
from graveler.lake.iceberg.metadata_files import ForeignFileError, document_entry, put_once, read_document
from graveler.lake.iceberg.moved_states import state_in_folder
from graveler.lake.iceberg.position_deletes import missing_reader, position_reader
from graveler.lake.iceberg.table_folders import TableFolder, folder_of
from graveler.lake.iceberg.table_states import UUID_FIELD, location_of, reader_in, state_fields
from graveler.lake.merging.table_names import NameConflict, TableNames, both_changed_names
from graveler.lake.parts import RepositoryParts
from graveler.model import (
    CommitID,
    Isolation,
    MergeStrategy,
    ObjectEntry,
    SplitParameters,
    TableMerge,
    TableReason,
)
from graveler.table_format.merge_results import (
    MergedTable,
    MergeResult,
    MergeTerms,
    OmittedCompaction,
    Side,
    SideTaken,
    TableConflicts,
    TableState,
    TableSummary,
)
from graveler.table_format.merge_tables import merge_tables
from graveler.tree.apply import apply
from graveler.tree.diff import diff
from graveler.tree.listing import prefix_end
from graveler.tree.merge import StrategyOf
from graveler.tree.tree import Tree
from graveler.values.reserved_paths import FILES, is_table

_STRATEGIES: Final = {
    MergeStrategy.NONE: None,
    MergeStrategy.SOURCE_WINS: "source-wins",
    MergeStrategy.DEST_WINS: "destination-wins",
}

_NUMBERS: Final[Mapping[Side, int]] = {"source": 1, "destination": 2}
"""The numbers of the sides among the trees and the records of base, source and destination."""
_ATTEMPTS: Final = 8
"""Attempts to find free names for the files of a merged table."""
_SIDES: Final = {number: side for side, number in _NUMBERS.items()}


class TableDecision(Struct, frozen=True):
    """The merge of one table: the records that it changes in the merged tree, none for a conflict, and its result."""

    changes: Mapping[bytes, bytes | None]
    table: TableMerge

    @property
    def is_conflict(self) -> bool:
        """True if the table cannot be merged."""
        return self.table.outcome == "conflict"


class TableMerges:
    """The merges of the tables of one merge. ``trees`` are those of base, source and destination, ``source`` is the source's
    commit, and ``strategy`` says which side wins where a table is a conflict. ``isolation`` overrides that of the tables. A merge
    that ``is_detached`` leaves no common commit."""

    def __init__(
        self,
        repository: RepositoryParts,
        trees: tuple[Tree, Tree, Tree],
        source: CommitID,
        strategy: StrategyOf,
        isolation: Isolation | UnsetType = UNSET,
        *,
        is_detached: bool = False,
    ) -> None:
        self._is_detached = is_detached
        self._repository = repository
        self._trees = trees
        self._source = source
        self._strategy = strategy
        self._isolation = isolation

    @cached_property
    def _names(self) -> TableNames:
        return TableNames(self._repository.codec, self._trees)

    def merged(self, tree: Tree, keys: frozenset[bytes], split: SplitParameters) -> tuple[Tree, tuple[TableMerge, ...]]:
        """Return the merged tree with the merges of the tables at these keys, or the tables and names that are conflicts.

        Cost for each table: its metadata at the three commits, unless this process has it, three manifest lists, the manifests
        that differ; the files of the new snapshot written, one request for each file that is linked anew.
        """
        decisions = [self.decide(key, tree, writes=True) for key in sorted(keys)]
        decisions += [self.of_names(conflict, tree) for conflict in self.name_conflicts()]
        conflicts = tuple(decision.table for decision in decisions if decision.is_conflict)
        if conflicts:
            return tree, conflicts
        changes = {key: packed for decision in decisions for key, packed in decision.changes.items()}
        return apply(tree, sorted(changes.items()), split), ()

    def name_conflicts(self) -> list[NameConflict]:
        """Return the conflicts of names. Reads the entries of the catalog in which a side differs from the base, if both do."""
        return self._names.conflicts() if both_changed_names(self._trees) else []

    def renamed_tables(self) -> list[bytes]:
        """Return the keys of tables that both sides changed differently, and whose merge may change other entries, since a side
        renamed a table from or to them. Reads as :meth:`name_conflicts`."""
        return self._names.renamed_tables() if both_changed_names(self._trees) else []

    def of_names(self, conflict: NameConflict, tree: Tree) -> TableDecision:
        """Return what a strategy does about a conflict of names, or the conflict."""
        strategy = self._strategy(conflict.key)
        if strategy is MergeStrategy.NONE:
            return TableDecision({}, _name_merge(conflict, "conflict"))
        resolution = conflict.resolutions[strategy]
        changes = {**self._links_without(resolution, tree), **resolution}
        winner, loser = _order(strategy)
        for key, packed in resolution.items():
            if packed is not None and is_table(key):
                is_winners = any(self._trees[winner].get(place) == packed for place in resolution)
                entry = self._repository.codec.decode(key, packed)
                changes |= self._links_as_side(winner if is_winners else loser, entry, tree)
        return TableDecision(changes, _name_merge(conflict, _SIDES[winner]))

    def _links_without(self, resolution: Mapping[bytes, bytes | None], tree: Tree) -> dict[bytes, bytes | None]:
        """Return the removals of the links of tables that a resolution removes, and gives no other name."""
        decode = self._repository.codec.decode
        kept_folders = {
            decode(key, packed).metadata.get(FOLDER_FIELD)
            for key, packed in resolution.items()
            if packed is not None and is_table(key)
        }
        removed = [
            decode(key, packed)
            for key, resolved in resolution.items()
            if resolved is None and is_table(key)
            for side in self._trees[1:]
            if (packed := side.get(key)) is not None
        ]
        return {
            link: None
            for entry in removed
            if entry.metadata.get(FOLDER_FIELD) not in kept_folders
            for link in linked_keys(tree, entry)
        }

    def decide(self, key: bytes, tree: Tree, *, writes: bool = False) -> TableDecision:
        """Return the merge of the table at a key, whose other records ``tree`` has. Without ``writes`` nothing is written or
        linked. The names of new files are others where strangers' files have them: the next attempt's.
        :class:`ForeignFileError` if none is free."""
        for attempt in range(_ATTEMPTS - 1):
            try:
                return self._decide(key, tree, attempt, writes=writes)
            except ForeignFileError:
                continue
        return self._decide(key, tree, _ATTEMPTS - 1, writes=writes)

    def _decide(self, key: bytes, tree: Tree, attempt: int, *, writes: bool) -> TableDecision:
        records = self._records(key)
        entries = [
            None if packed is None else self._repository.codec.decode(place, packed) for place, packed in records
        ]
        _, (source_key, _), (destination_key, _) = records
        uuids = {entry.metadata.get(UUID_FIELD) for entry in entries if entry is not None}
        if len(uuids) > 1 or self._means_two_tables(records):
            return self._side_decision(key, records, tree, self._two_tables(records))
        result, folder = self._merge(key, entries, attempt)
        if isinstance(result, TableConflicts):
            return TableDecision({}, _table_merge(key, "conflict", result.conflicts))
        place = source_key if destination_key == records[0][0] else destination_key
        if isinstance(result, SideTaken):
            table = _table_merge(key, result.side, result.overridden, result.summary)
            return self._table_of_side(records, _NUMBERS[result.side], tree, table, b"" if result.overridden else place)
        assert folder is not None
        entry = entries[2] or entries[1]
        assert entry is not None
        return self._written(records, place, entry, result, folder, tree, writes=writes)

    def _means_two_tables(self, records: list[tuple[bytes, bytes | None]]) -> bool:
        """Return whether a name means two tables, though they may have one UUID: a side renamed another one to it, or the one
        itself, and has another one here."""
        (key, packed), *sides = records
        former = self._names.former_keys(key)
        if packed is None:
            return len(former) > 1
        return bool(former) or any(
            place == key and record is not None and self._names.new_key(number, key) is not None
            for number, (place, record) in enumerate(sides)
        )

    def _two_tables(self, records: list[tuple[bytes, bytes | None]]) -> str:
        """Return the reason for which two tables cannot have one name."""
        key, packed = records[0]
        if packed is None:
            return "both sides have a new table of this name, and they are two"
        for number, (maker, changer) in enumerate((("source", "destination"), ("destination", "source"))):
            renamed = self._names.new_key(number, key)
            relation = relation_of(renamed) if renamed is not None else None
            if relation is not None:
                renaming = f"the {maker} renamed it to {relation[0]} and has another one here"
                return f"{renaming}, and the {changer} changed it"
        return "one side made it anew, and the other changed it"

    def _records(self, key: bytes) -> list[tuple[bytes, bytes | None]]:
        """Return the table's key and record at base, source and destination, also if one side renamed it. A table at a key from
        which both sides renamed one is new."""
        base, source, destination = self._trees
        place, packed = key, base.get(key)
        if packed is not None and all(self._names.new_key(number, key) is not None for number in (0, 1)):
            return [(key, None), (key, source.get(key)), (key, destination.get(key))]
        uuids = [self._uuid(key, side.get(key)) for side in (source, destination)]
        if packed is None and uuids[0] == uuids[1]:
            former = self._names.former_keys(key)
            place = former.pop() if len(former) == 1 else key
            packed = base.get(place)
        records = [(place, packed)]
        for number, side in enumerate((source, destination)):
            present = key
            if side.get(key) is None:
                present = self._names.new_key(number, place) or key
            records.append((present, side.get(present)))
        return records

    def _own_keys(self, records: list[tuple[bytes, bytes | None]]) -> set[bytes]:
        """Return the keys of a table at the three commits, without one at which a side has another table since."""
        keys = {key for key, _ in records}
        for (present, _), side in zip(records[1:], self._trees[1:], strict=True):
            keys -= {key for key in keys if key != present and side.get(key) is not None}
        return keys

    def _uuid(self, key: bytes, packed: bytes | None) -> str | None:
        return None if packed is None else self._repository.codec.decode(key, packed).metadata.get(UUID_FIELD)

    def _merge(
        self, key: bytes, entries: list[ObjectEntry | None], attempt: int
    ) -> tuple[MergeResult, TableFolder | None]:
        states = [None if entry is None else self._state(entry) for entry in entries]
        folders = [
            folder_of(self._repository, state.metadata["table-uuid"], state.metadata["location"])
            for state in states[:0:-1]
            if state is not None
        ]
        folder = folders[0]
        read_file = reader_in(self._repository, folder)
        if states[0] is not None:
            states[0], read_file = state_in_folder(self._repository, folder, states[0], read_file)
        terms = MergeTerms(
            f"{folder.location}/metadata",
            self._source,
            isolation=self._isolation or None,
            strategy=_STRATEGIES[self._strategy(key)],
            read_positions=position_reader(read_file),
            missing_reader=missing_reader(),
            attempt=attempt,
            is_detached=self._is_detached,
        )
        return merge_tables(states[0], states[1], states[2], read_file, terms), folder

    def _state(self, entry: ObjectEntry) -> TableState:
        document = read_document(self._repository, entry, "")
        return TableState(document, location_of(self._repository, entry))

    def _side_decision(
        self, key: bytes, records: list[tuple[bytes, bytes | None]], tree: Tree, sentence: str
    ) -> TableDecision:
        """Return the side that the strategy says, or the conflict."""
        strategy, conflicts = self._strategy(key), [TableReason("table", sentence)]
        if strategy is MergeStrategy.NONE:
            return TableDecision({}, _table_merge(key, "conflict", conflicts))
        winner, loser = _order(strategy)
        decision = self._table_of_side(records, winner, tree, _table_merge(key, _SIDES[winner], conflicts))
        if records[0][1] is not None:
            undone = self._names.renamings(loser - 1, key) - {key}
            return TableDecision({**decision.changes, **self._as_side(winner, undone, tree)}, decision.table)
        former = {place: packed for place, packed in self._names.without(loser - 1, key).items() if place != key}
        return TableDecision({**decision.changes, **former}, decision.table)

    def _as_side(self, number: int, keys: Iterable[bytes], tree: Tree) -> dict[bytes, bytes | None]:
        """Return the changes after which entries are as a side has them, with their links."""
        changes = {key: self._trees[number].get(key) for key in keys}
        for key, packed in list(changes.items()):
            if packed is not None:
                changes |= self._links_as_side(number, self._repository.codec.decode(key, packed), tree)
        return changes

    def _table_of_side(
        self,
        records: list[tuple[bytes, bytes | None]],
        winner: int,
        tree: Tree,
        table: TableMerge,
        place: bytes = b"",
    ) -> TableDecision:
        """Return the table as one side (1: the source, 2: the destination) has it: at ``place``, or if that is empty, where that
        side has it. Its links are that side's, too: any other would stay for ever where the table is dropped later."""
        key, packed = records[winner]
        changes: dict[bytes, bytes | None] = dict.fromkeys(self._own_keys(records))
        changes[place or key] = packed
        if packed is None:
            return TableDecision({**changes, **self._removed_links(records, b"")}, table)
        entry = self._repository.codec.decode(key, packed)
        path = entry.metadata.get(FOLDER_FIELD, "").encode()
        changes |= self._links_as_side(winner, entry, tree) | self._removed_links(records, path)
        return TableDecision(changes, table)

    def _written(
        self,
        records: list[tuple[bytes, bytes | None]],
        place: bytes,
        entry: ObjectEntry,
        result: MergedTable,
        folder: TableFolder,
        tree: Tree,
        *,
        writes: bool,
    ) -> TableDecision:
        repository = self._repository
        path = entry.metadata[FOLDER_FIELD]
        fields = state_fields(result.metadata, path)
        key = folder.key_of(result.location)
        assert key is not None
        written = document_entry(repository, key, place.decode(), result.metadata, fields, writes=writes)
        packed = repository.pack(written)
        changes: dict[bytes, bytes | None] = dict.fromkeys(self._own_keys(records))
        changes[place] = packed
        changes |= self._links_in_place(records, entry, tree)
        if writes:
            for location, data in result.files.items():
                file = folder.key_of(location)
                assert file is not None
                put_once(repository, file, data)
            entries = [repository.codec.decode(side, record) for side, record in records[1:] if record is not None]
            by_location = {location_of(repository, side_entry): side_entry for side_entry in entries}
            log = [
                NamedFile(state["metadata-file"], entry=by_location.get(state["metadata-file"]))
                for state in result.metadata.get("metadata-log", ())
            ]
            files = [*map(NamedFile, result.reached), *log]
            changes |= links(repository, tree, folder, placed_files(folder, path, files), sources=self._trees[1:])
        return TableDecision(changes, _table_merge(records[0][0], "merged", (), result.summary))

    def _links_in_place(
        self, records: list[tuple[bytes, bytes | None]], entry: ObjectEntry, tree: Tree
    ) -> dict[bytes, bytes | None]:
        """Return the changes of links after which the merged tree has those of source and destination where the table's entry has
        its links, and nowhere else."""
        changes: dict[bytes, bytes | None] = dict(self._links_of_sides(entry, tree))
        path = entry.metadata.get(FOLDER_FIELD, "").encode()
        for side_entry, _, link, packed in self._links_elsewhere(records, path):
            link_in_place = path + link.removeprefix(side_entry.metadata[FOLDER_FIELD].encode())
            is_same_table = side_entry.metadata.get(UUID_FIELD) == entry.metadata.get(UUID_FIELD)
            if is_same_table and tree.get(link_in_place) is None:
                changes[link_in_place] = packed
        return changes | self._removed_links(records, path)

    def _removed_links(self, records: list[tuple[bytes, bytes | None]], path: bytes) -> dict[bytes, bytes | None]:
        """Return the removals of the links that only one side has, for those below another path than ``path``."""
        return {
            link: None for _, opposite, link, _ in self._links_elsewhere(records, path) if opposite.get(link) is None
        }

    def _links_elsewhere(
        self, records: list[tuple[bytes, bytes | None]], path: bytes
    ) -> Iterator[tuple[ObjectEntry, Tree, bytes, bytes]]:
        """Yield the links that a side has for its table below another path than ``path``: the side's entry, the tree of the
        opposite side, the key and the record of the link."""
        for (key, packed), side, opposite in zip(records[1:], self._trees[1:], self._trees[:0:-1], strict=True):
            entry = None if packed is None else self._repository.codec.decode(key, packed)
            side_path = b"" if entry is None else entry.metadata.get(FOLDER_FIELD, "").encode()
            if entry is None or side_path == path or not side_path.startswith(FILES):
                continue
            for keys, links_of_block in side.run(side_path, prefix_end(side_path)):
                for link, packed_link in zip(keys, links_of_block, strict=True):
                    yield entry, opposite, link, packed_link

    def _links_as_side(self, number: int, entry: ObjectEntry, tree: Tree) -> dict[bytes, bytes | None]:
        """Return the changes after which the merged tree has the links of a table that a side (1: the source, 2: the destination)
        has, and no others of it."""
        path = entry.metadata.get(FOLDER_FIELD, "").encode()
        if not path.startswith(FILES):
            return {}
        return {key: packed for key, _, packed in diff(tree, self._trees[number], path, prefix_end(path))}

    def _links_of_sides(self, entry: ObjectEntry, tree: Tree) -> Iterator[tuple[bytes, bytes]]:
        """Yield the links that the source or the destination has, and the merged tree has not."""
        path = entry.metadata.get(FOLDER_FIELD, "").encode()
        if not path.startswith(FILES):
            return
        for side in self._trees[1:]:
            for key, merged, packed in diff(tree, side, path, prefix_end(path)):
                if merged is None and packed is not None:
                    yield key, packed


def _order(strategy: MergeStrategy) -> tuple[int, int]:
    """Return the numbers of the side that wins and of the other one."""
    return (1, 2) if strategy is MergeStrategy.SOURCE_WINS else (2, 1)


def _table_merge(
    key: bytes,
    outcome: Literal["merged", "source", "destination", "conflict"],
    conflicts: Sequence[TableReason],
    summary: TableSummary | None = None,
) -> TableMerge:
    """Return the result of the merge of the table at a key."""
    relation = relation_of(key)
    assert relation is not None
    notes = () if summary is None else tuple(map(_note, summary.omitted))
    return TableMerge(key.decode(), str(relation[0]), outcome, tuple(conflicts), notes)


def _name_merge(conflict: NameConflict, outcome: Literal["source", "destination", "conflict"]) -> TableMerge:
    """Return the result of a conflict of names. The name is that of a table or a view; for a namespace its path."""
    relation = relation_of(conflict.key)
    path = conflict.key.decode()
    name = path if relation is None else str(relation[0])
    return TableMerge(path, name, outcome, (TableReason("name", conflict.sentence),))


def _note(compaction: OmittedCompaction) -> str:
    files = f"{compaction.files:,} file{'s' if compaction.files != 1 else ''}, {compaction.rows:,} rows"
    return (
        f"a compaction of the {compaction.side} ({files}) is left out: it changed no row, and the other side changed what it had "
        "compacted"
    )
