"""Iceberg tables of a ref: their states, their history by commits, a check of one, and the expiry of its snapshots.

All of it reads the repository as any client may: the entry of a table is its metadata file, and its other files are linked in the
same tree. So it works in this process and behind servers alike. Changes are commits of tables, as those of any client.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import ConflictError, CorruptError, InvalidError, NotFoundError, ObjectNotFoundError
from graveler.lake.iceberg.catalog_errors import RelationNotFoundError
from graveler.lake.iceberg.catalog_paths import entries_prefix, parse_table, relation_key, relation_of
from graveler.lake.iceberg.linked_files import FOLDER_FIELD, link_place
from graveler.lake.iceberg.table_folders import TableFolder
from graveler.lake.iceberg.table_relocation import RewrittenTables
from graveler.lake.iceberg.table_states import SNAPSHOT_FIELD, UUID_FIELD
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID, CommonPrefix, ObjectEntry
from graveler.requests.base import CommitInfo
from graveler.requests.iceberg import CommitTables, TableChange
from graveler.table_format.file_locations import normal_location
from graveler.table_format.merge_results import TableState
from graveler.table_format.plain_documents import Document
from graveler.table_format.reached_files import reached_files
from graveler.table_format.snapshot_expiry import expired_snapshots
from graveler.table_format.spec_check import Violation, check_table
from graveler.table_format.table_differences import TableDifference, table_difference
from graveler.table_format.table_metadata import read_table, snapshot_by_id
from graveler.values.paging import items
from graveler.values.reserved_paths import FILES, is_table

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

_PAGE: Final = 1000
_ATTEMPTS: Final = 10
_BEHIND_FILES: Final = FILES.decode()[:-1] + "0"
"""A path behind those of the files of tables, and before all entries."""


class Table:
    """A table as it is at a commit."""

    def __init__(self, repository: "AnyRepository", commit_id: str, entry: ObjectEntry) -> None:
        self._repository = repository
        self._document: Document | None = None
        self.commit_id = commit_id
        """The commit."""
        self.entry = entry
        """The table's entry: its metadata file."""

    @property
    def name(self) -> str:
        """The levels of its namespace and its name, with dots."""
        return table_name(self.entry.path)

    @property
    def uuid(self) -> str:
        """Its UUID."""
        return self.entry.metadata.get(UUID_FIELD, "")

    @property
    def snapshot_id(self) -> int | None:
        """The ID of its current snapshot; None without one."""
        text = self.entry.metadata.get(SNAPSHOT_FIELD)
        return None if text is None else int(text)

    @property
    def metadata(self) -> Document:
        """Its metadata document. One object read, at the first time."""
        if self._document is None:
            data = b"".join(self._repository.bytes_in(self.commit_id, self.entry))
            self._document = read_table(data, self.entry.path, stored=True)
        return self._document

    @property
    def snapshot(self) -> Document | None:
        """Its current snapshot; None without one."""
        return None if self.snapshot_id is None else snapshot_by_id(self.metadata, self.snapshot_id)

    @property
    def state(self) -> TableState:
        """The table for :mod:`graveler.table_format`."""
        return TableState(self.metadata, self.entry.address)

    def total(self, name: str) -> int | None:
        """Return a total of the current snapshot, such as ``records``; 0 without a snapshot, None if it does not state it."""
        if self.snapshot is None:
            return 0
        text = (self.snapshot.get("summary") or {}).get(f"total-{name}")
        return int(text) if text is not None else None

    def path_of(self, location: str) -> str:
        """Return the path in the tree under which a file of the table is linked. No request."""
        folder = TableFolder("", normal_location(self.metadata["location"]).rstrip("/"))
        return link_place(folder, self.entry.metadata[FOLDER_FIELD], location)[0]

    def read_file(self, location: str) -> bytes:
        """Return the bytes of a file of the table. One lookup, one object read. :class:`NotFoundError`."""
        return self._repository.read(self.commit_id, self.path_of(location))

    def check(self) -> list[Violation]:
        """Return the table's violations of the table specification, and the files that its metadata reaches but that are not
        linked, do not exist, or have another size than it states. Cost: each manifest list and manifest is read twice, and one
        byte of each file. :class:`InvalidError` beyond the limits of
        :func:`graveler.table_format.reached_files.reached_files`."""
        violations = check_table(self.metadata, self.read_file)
        try:
            reached = reached_files(self.metadata, self.read_file)
        except (CorruptError, NotFoundError):  # a file that check_table has reported
            return violations
        paths = {self.path_of(file.location): file for file in reached.values()}
        names = sorted(paths)
        for start in range(0, len(names), _PAGE):
            part = names[start : start + _PAGE]
            for path, link in zip(part, self._repository.stat_many(self.commit_id, part), strict=True):
                if problem := self._problem(link, paths[path].size):
                    violations.append(Violation(f"file {paths[path].location}", problem))
        return violations

    def _problem(self, link: ObjectEntry | None, size: int | None) -> str:
        if link is None:
            return "it is not in the tree"
        if size is not None and link.size != size:
            return f"it has {link.size:,} bytes, and the metadata states {size:,}"
        try:
            for _ in self._repository.bytes_in(self.commit_id, link, 0, 1):
                pass
        except NotFoundError:
            return "it is in the tree, but does not exist any more"
        return ""


class TableVersion(Struct, frozen=True):
    """A commit that changed a table: the table's current snapshot there, and the ``snapshots`` that came with the commit, the
    newest first, as far as the table's metadata has them. None is a commit without the table."""

    commit: Commit
    snapshot_id: int | None
    snapshots: tuple[Document, ...] = ()


class Expiry(Struct, frozen=True):
    """The snapshots that an expiry removes from a table, the oldest first, and the branches and tags of the table, by name.
    ``commit`` has the table without them; None if nothing has expired, and for a dry run."""

    snapshots: tuple[Document, ...]
    refs: tuple[str, ...]
    commit: Commit | None


class Tables:
    """The Iceberg tables of a ref. Names are written ``shop.orders``; one with a dot in a level as its path,
    ``_iceberg/shop/or.ders.table``. ``committer`` is the author of changes."""

    def __init__(self, repository: "AnyRepository", ref: str, committer: str = "") -> None:
        self._repository = repository
        self._ref = ref
        self._committer = committer

    def list(self, namespace: str = "") -> Iterator[Table]:
        """Yield the tables of the ref's commit, by path: those of a namespace and of the namespaces below it, or all. Cost: that
        of a listing of their entries."""
        commit_id = self._commit_id()
        prefix = entries_prefix(namespace.split(".") if namespace else ()).decode()
        after = "" if namespace else _BEHIND_FILES
        pages = items(
            lambda position: self._repository.list_objects(commit_id, prefix=prefix, after=position, amount=_PAGE),
            after=after,
        )
        for entry in pages:
            if not isinstance(entry, CommonPrefix) and is_table_path(entry.path):
                yield Table(self._repository, commit_id, entry)

    def load(self, name: str) -> Table:
        """Return a table as it is at the ref's commit. Resolving the ref, one lookup. :class:`RelationNotFoundError`,
        :class:`InvalidError`."""
        commit_id = self._commit_id()
        table = parse_table(name)
        try:
            entry = self._repository.stat(commit_id, relation_key(table, "table").decode())
        except ObjectNotFoundError:
            raise RelationNotFoundError("table", str(table), self._ref) from None
        return Table(self._repository, commit_id, entry)

    def history(self, name: str) -> Iterator[TableVersion]:
        """Yield the commits that changed a table, the newest first, with the snapshots that each of them brought.

        The commits are those of the ref itself that changed the table's entry under this name: a merge is one of them. Cost: that
        of a log of its path, and one lookup for each commit. Errors as of :meth:`load`.
        """
        table = self.load(name)
        commit_id = table.commit_id
        path = table.entry.path
        by_id = {snapshot["snapshot-id"]: snapshot for snapshot in table.metadata["snapshots"]}
        commits = items(
            lambda after: self._repository.log(
                commit_id, after=CommitID(after) if after else None, amount=_PAGE, first_parent=True, paths=(path,)
            )
        )
        newer: TableVersion | None = None
        for commit in commits:
            entry = self._repository.stat_many(commit.id, (path,))[0]
            version = TableVersion(
                commit, None if entry is None else Table(self._repository, commit.id, entry).snapshot_id
            )
            if newer is not None:
                yield _with_snapshots(newer, version.snapshot_id, by_id)
            newer = version
        if newer is not None:
            yield _with_snapshots(newer, None, by_id)

    def expire(
        self, name: str, *, older_than: float | None = None, keep_last: int | None = None, dry_run: bool = False
    ) -> Expiry:
        """Remove from a table of a branch the snapshots that have expired by Iceberg's rules: those from before ``older_than``
        (Unix seconds), but not the ``keep_last`` newest of each branch of the table, nor what its branches and tags need. What is
        None is as the table's properties ``history.expire.*`` say, by default five days and one snapshot. One commit, which also
        removes the links of files that only those snapshots have; their bytes are collected once no retained commit has them.

        If the table changes meanwhile, what has expired is looked for again, up to ten times. Cost: those of :meth:`load` and of
        a commit of tables. :class:`InvalidError` for a ref that is no branch; errors as of :meth:`load` and of
        :class:`graveler.requests.iceberg.CommitTables`.
        """
        self._expect_branch()
        for attempt in range(_ATTEMPTS):
            table = self.load(name)
            metadata = table.metadata
            now_ms = int(time.time() * 1_000)
            limit_ms = None if older_than is None else int(older_than * 1_000)
            expired = expired_snapshots(metadata, now_ms, older_than_ms=limit_ms, keep_last=keep_last)
            snapshots = [snapshot_by_id(metadata, number) for number in expired.snapshot_ids]
            removed = tuple(sorted(filter(None, snapshots), key=_time_of))
            if dry_run or not expired.updates:
                return Expiry(removed, expired.refs, None)
            change = TableChange(parse_table(name), _requirements(metadata), tuple(expired.updates))
            message = f"Expire {len(removed)} snapshot{'' if len(removed) == 1 else 's'} of table {table.name}"
            info = CommitInfo(message, self._committer)
            try:
                commit = self._repository.run(CommitTables(branch=self._ref, tables=(change,), info=info))
            except ConflictError:
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return Expiry(removed, expired.refs, commit)
        raise AssertionError("each attempt returns or raises")

    def rewrite_locations(self, *names: str) -> RewrittenTables:
        """Rewrite the locations in tables and views of a branch to those where their files lie now, after the lake was moved;
        those of all without names. One commit; none if the locations are right. Data files do not change.

        Cost and errors as of :func:`graveler.lake.iceberg.table_relocation.rewrite_table_locations`; also :class:`InvalidError`
        for a ref that is no branch, and through a server.
        """
        if not isinstance(self._repository, OpenRepository):
            raise InvalidError(
                "locations of tables are rewritten where the lake itself is opened, and not through a server; name the lake's "
                "folder or its DynamoDB table"
            )
        self._expect_branch()
        tables = [parse_table(name) for name in names]
        return self._repository.rewrite_table_locations(self._ref, tables, committer=self._committer)

    def _expect_branch(self) -> None:
        if self._repository.describe_ref(self._ref).type != "branch":
            raise InvalidError(f"{self._ref!r} is no branch, and only a branch can change; name one")

    def _commit_id(self) -> CommitID:
        return self._repository.commit_of(self._ref).id


def tables_at(
    repository: "AnyRepository", base: CommitID, changed: CommitID, path: str
) -> "tuple[Table | None, Table | None] | None":
    """Return the table of this name, or with an entry at this path, at two commits; None if neither has it, or one has another
    object of that path. Two look-ups, if it can be the name of a table."""
    try:
        entry_path = relation_key(parse_table(path), "table").decode()
    except InvalidError:
        return None
    tables: list[Table | None] = []
    for commit_id in (base, changed):
        entry, other = repository.stat_many(commit_id, (entry_path, path))
        if other is not None and path != entry_path:
            return None
        tables.append(None if entry is None else Table(repository, commit_id, entry))
    return (tables[0], tables[1]) if any(tables) else None


def compare_tables(before: Table | None, after: Table | None) -> TableDifference:
    """Return what turns a table of one ref into that of another; None, of at most one of them, is a table that does not exist
    there. Its metadata at both, two manifest lists, and the manifests that differ are read."""
    sides = [table for table in (after, before) if table is not None]

    def read_file(location: str) -> bytes:
        for table in sides[:-1]:
            with suppress(NotFoundError):
                return table.read_file(location)
        return sides[-1].read_file(location)

    states = [None if table is None else table.state for table in (before, after)]
    return table_difference(states[0], states[1], read_file)


def is_table_path(path: str) -> bool:
    """Return whether a path is the entry of a table."""
    return is_table(path.encode())


def table_name(path: str) -> str:
    """Return the name of the table whose entry has this path."""
    relation = relation_of(path.encode())
    assert relation is not None
    return str(relation[0])


def _requirements(metadata: Document) -> tuple[Document, ...]:
    """Return the requirements that a table and its branches and tags are as they were."""
    refs = (
        {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": ref["snapshot-id"]}
        for name, ref in metadata.get("refs", {}).items()
    )
    return {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}, *refs


def _time_of(snapshot: Document) -> int:
    time_ms: int = snapshot["timestamp-ms"]
    return time_ms


def _with_snapshots(version: TableVersion, older_id: int | None, by_id: Mapping[int, Document]) -> TableVersion:
    """Return a version with the snapshots since the older one."""
    snapshots: list[Document] = []
    number = version.snapshot_id
    while number is not None and number != older_id and number in by_id and len(snapshots) < len(by_id):
        snapshots.append(by_id[number])
        number = by_id[number].get("parent-snapshot-id")
    return replace(version, snapshots=tuple(snapshots))
