"""Merges of trees in which both sides changed a table: the table is merged by its rows, and the rest as in any tree.

To a merge of trees a table is one record, which both sides changed: a conflict. Such conflicts are decided for the destination
at first, and the merged tree then gets what the merge of the tables makes: the entry with the new metadata, and the links of
all files that it reaches. Links stay that one side removed, since the merged table may still name those files; those of a side
that has them below another path, since it registered the table under another name, are moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from graveler.lake.iceberg.catalog_paths import relation_of
from graveler.lake.iceberg.linked_files import FOLDER_FIELD, NamedFile, links, placed_files
from graveler.lake.iceberg.metadata_files import keep_document, put_once, read_document
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
    TableConflict,
    TableConflicts,
    TableState,
    TableSummary,
)
from graveler.table_format.merge_tables import merge_tables
from graveler.table_format.table_metadata import read_table
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
    commit, and ``strategy`` says which side wins where a table is a conflict. ``isolation`` overrides that of the tables."""

    def __init__(
        self,
        repository: RepositoryParts,
        trees: tuple[Tree, Tree, Tree],
        source: CommitID,
        strategy: StrategyOf,
        isolation: Isolation | UnsetType = UNSET,
    ) -> None:
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

    def of_names(self, conflict: NameConflict, tree: Tree) -> TableDecision:
        """Return what a strategy does about a conflict of names, or the conflict."""
        strategy = self._strategy(conflict.key)
        if strategy is MergeStrategy.NONE:
            return TableDecision({}, _name_merge(conflict, "conflict"))
        changes = dict(conflict.resolutions[strategy])
        for key, packed in conflict.resolutions[strategy].items():
            if packed is not None and is_table(key):
                changes |= self._kept_links(self._repository.codec.decode(key, packed), tree)
        side: Side = "source" if strategy is MergeStrategy.SOURCE_WINS else "destination"
        return TableDecision(changes, _name_merge(conflict, side))

    def decide(self, key: bytes, tree: Tree, *, writes: bool = False) -> TableDecision:
        """Return the merge of the table at a key, whose other records ``tree`` has. Without ``writes`` nothing is written or
        linked."""
        records = self._records(key)
        entries = [
            None if packed is None else self._repository.codec.decode(place, packed) for place, packed in records
        ]
        _, (source_key, source), (destination_key, destination) = records
        if len({entry.metadata.get(UUID_FIELD) for entry in entries if entry is not None}) > 1:
            return self._sided(key, records, tree, self._two_tables(records))
        result, folder = self._merge(key, entries)
        if isinstance(result, TableConflicts):
            return TableDecision({}, _table_merge(key, "conflict", result.conflicts))
        place = source_key if destination_key == records[0][0] else destination_key
        if isinstance(result, SideTaken):
            table = _table_merge(key, result.side, result.overridden, result.summary)
            packed = source if result.side == "source" else destination
            return self._taken(records, packed, tree, table, b"" if result.overridden else place)
        assert folder is not None
        entry = entries[2] or entries[1]
        assert entry is not None
        return self._written(records, place, entry, result, folder, tree, writes=writes)

    def _two_tables(self, records: list[tuple[bytes, bytes | None]]) -> str:
        """Return the reason for which two tables cannot have one name."""
        uuid = self._uuid(*records[0])
        if uuid is None:
            return "both sides have a new table of this name, and they are two"
        for number, (maker, changer) in enumerate((("source", "destination"), ("destination", "source"))):
            renamed = self._names.new_key(number, uuid)
            relation = relation_of(renamed) if renamed is not None else None
            if relation is not None:
                renaming = f"the {maker} renamed it to {relation[0]} and has another one here"
                return f"{renaming}, and the {changer} changed it"
        return "one side made it anew, and the other changed it"

    def _records(self, key: bytes) -> list[tuple[bytes, bytes | None]]:
        """Return the table's key and record at base, source and destination, also if one side renamed it."""
        base, source, destination = self._trees
        place, packed = key, base.get(key)
        uuids = [self._uuid(key, side.get(key)) for side in (source, destination)]
        if packed is None and uuids[0] == uuids[1]:
            place = self._names.former_key(uuids[0]) or key
            packed = base.get(place)
        uuid = self._uuid(place, packed)
        records = [(place, packed)]
        for number, side in enumerate((source, destination)):
            present = key
            if side.get(key) is None:
                present = self._names.new_key(number, uuid) or key
            records.append((present, side.get(present)))
        return records

    def _uuid(self, key: bytes, packed: bytes | None) -> str | None:
        return None if packed is None else self._repository.codec.decode(key, packed).metadata.get(UUID_FIELD)

    def _merge(self, key: bytes, entries: list[ObjectEntry | None]) -> tuple[MergeResult, TableFolder | None]:
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
        )
        return merge_tables(states[0], states[1], states[2], read_file, terms), folder

    def _state(self, entry: ObjectEntry) -> TableState:
        document = read_document(self._repository, entry, "", read_table)
        return TableState(document, location_of(self._repository, entry))

    def _sided(self, key: bytes, records: list[tuple[bytes, bytes | None]], tree: Tree, sentence: str) -> TableDecision:
        """Return the side that the strategy says, or the conflict."""
        strategy, conflicts = self._strategy(key), [TableConflict("table", sentence)]
        if strategy is MergeStrategy.NONE:
            return TableDecision({}, _table_merge(key, "conflict", conflicts))
        winner, loser = (1, 2) if strategy is MergeStrategy.SOURCE_WINS else (2, 1)
        side: Side = "source" if winner == 1 else "destination"
        decision = self._taken(records, records[winner][1], tree, _table_merge(key, side, conflicts))
        if records[0][1] is not None:
            return decision
        former = {place: packed for place, packed in self._names.without(loser - 1, key).items() if place != key}
        return TableDecision({**decision.changes, **former}, decision.table)

    def _taken(
        self,
        records: list[tuple[bytes, bytes | None]],
        packed: bytes | None,
        tree: Tree,
        table: TableMerge,
        place: bytes = b"",
    ) -> TableDecision:
        """Return the table as one side has it: at ``place``, or if that is empty, where that side has it."""
        place = place or next((key for key, record in records if record == packed), records[0][0])
        changes: dict[bytes, bytes | None] = {key: None for key, _ in records}
        changes[place] = packed
        entry = None if packed is None else self._repository.codec.decode(place, packed)
        changes |= self._links_in_place(records, entry, tree)
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
        written = keep_document(repository, key, place.decode(), result.metadata, fields, writes=writes)
        packed = repository.pack(written)
        changes: dict[bytes, bytes | None] = {key: None for key, _ in records}
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
        self, records: list[tuple[bytes, bytes | None]], entry: ObjectEntry | None, tree: Tree
    ) -> dict[bytes, bytes | None]:
        """Return the changes of links after which the merged tree has those of source and destination where the table's entry has
        its links, and nowhere else; with no entry, nowhere."""
        changes: dict[bytes, bytes | None] = {} if entry is None else dict(self._kept_links(entry, tree))
        fields = {} if entry is None else entry.metadata
        path = fields.get(FOLDER_FIELD, "").encode()
        for (key, packed), side, opposite in zip(records[1:], self._trees[1:], self._trees[:0:-1], strict=True):
            side_fields = {} if packed is None else self._repository.codec.decode(key, packed).metadata
            side_path = side_fields.get(FOLDER_FIELD, "").encode()
            if side_path == path or not side_path.startswith(FILES):
                continue
            is_same_table = side_fields.get(UUID_FIELD) == fields.get(UUID_FIELD)
            for keys, links_of_block in side.run(side_path, prefix_end(side_path)):
                for link, packed_link in zip(keys, links_of_block, strict=True):
                    link_in_place = path + link.removeprefix(side_path)
                    if is_same_table and tree.get(link_in_place) is None:
                        changes[link_in_place] = packed_link
                    if opposite.get(link) is None:
                        changes[link] = None
        return changes

    def _kept_links(self, entry: ObjectEntry, tree: Tree) -> Iterator[tuple[bytes, bytes]]:
        """Yield the links that the source or the destination has, and the merged tree has not."""
        path = entry.metadata.get(FOLDER_FIELD, "").encode()
        if not path.startswith(FILES):
            return
        for side in self._trees[1:]:
            for key, merged, packed in diff(tree, side, path, prefix_end(path)):
                if merged is None and packed is not None:
                    yield key, packed


def _table_merge(
    key: bytes,
    outcome: Literal["merged", "source", "destination", "conflict"],
    conflicts: Sequence[TableConflict],
    summary: TableSummary | None = None,
) -> TableMerge:
    """Return the result of the merge of the table at a key."""
    relation = relation_of(key)
    assert relation is not None
    reasons = tuple(TableReason(**asdict(conflict)) for conflict in conflicts)
    notes = () if summary is None else tuple(map(_note, summary.omitted))
    return TableMerge(key.decode(), str(relation[0]), outcome, reasons, notes)


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
