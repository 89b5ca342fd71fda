"""Columns from values: each column of a batch is made of one field of all rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from graveler.errors import InvalidError
from graveler.model import Branch, Change, Commit, CommonPrefix, ObjectEntry, Repository, Tag
from graveler.sql.arrow import schemas

Field: TypeAlias = Callable[[Any], object]
"""Returns a row's value of one column."""


def _of_object(name: str) -> Field:
    return lambda row: None if isinstance(row, CommonPrefix) else getattr(row, name)


def _of_side(side: str, name: str) -> Field:
    def field(row: Change) -> object:
        entry = getattr(row, side)
        return None if entry is None else getattr(entry, name)

    return field


_OBJECTS: Final[Mapping[str, Field]] = {
    "path": lambda row: row.path,
    "size": _of_object("size"),
    "checksum": _of_object("checksum"),
    "physical_address": _of_object("address"),
    "mtime": _of_object("mtime"),
    "content_type": _of_object("content_type"),
    "metadata": lambda row: None if isinstance(row, CommonPrefix) else list(row.metadata.items()),
}
_DIFF: Final[Mapping[str, Field]] = {
    "type": lambda row: row.type.value,
    "path": lambda row: row.path,
    **{
        f"{column}_{side}": _of_side(side, name)
        for column, name in (
            ("size", "size"),
            ("checksum", "checksum"),
            ("physical_address", "address"),
            ("mtime", "mtime"),
        )
        for side in ("before", "after")
    },
}
_COMMITS: Final[Mapping[str, Field]] = {
    "id": lambda row: row.id,
    "parents": lambda row: list(row.parents),
    "committer": lambda row: row.committer,
    "message": lambda row: row.message,
    "created": lambda row: row.created,
    "generation": lambda row: row.generation,
    "meta_range_id": lambda row: row.metarange_id,
    "metadata": lambda row: list(row.metadata.items()),
}
_BRANCHES: Final[Mapping[str, Field]] = {
    "id": lambda row: row.name,
    "commit_id": lambda row: row.commit_id,
    "hidden": lambda row: row.hidden,
}
_TAGS: Final[Mapping[str, Field]] = {"id": lambda row: row.name, "commit_id": lambda row: row.commit_id}
_REPOSITORIES: Final[Mapping[str, Field]] = {
    "id": lambda row: row.name,
    "storage_namespace": lambda row: row.namespace,
    "default_branch": lambda row: row.default_branch,
    "created": lambda row: row.created,
}
_REFLOG: Final[Mapping[str, Field]] = {
    "time": lambda row: row.event.time_ns,
    "operation": lambda row: row.event.operation,
    "operation_id": lambda row: row.event.operation_id,
    "by": lambda row: row.event.by,
    "old_commit_id": lambda row: row.old,
    "new_commit_id": lambda row: row.new,
}
_BLAME: Final[Mapping[str, Field]] = {
    "path": lambda row: row[0].path,
    "size": lambda row: row[0].size,
    "commit_id": lambda row: row[1].id,
    "committer": lambda row: row[1].committer,
    "message": lambda row: row[1].message,
    "created": lambda row: row[1].created,
}
Columns: TypeAlias = tuple[pa.Schema, Mapping[str, Field]]
OBJECTS: Final[Columns] = schemas.OBJECTS, _OBJECTS
DIFF: Final[Columns] = schemas.DIFF, _DIFF
COMMITS: Final[Columns] = schemas.COMMITS, _COMMITS
BRANCHES: Final[Columns] = schemas.BRANCHES, _BRANCHES
TAGS: Final[Columns] = schemas.TAGS, _TAGS
REPOSITORIES: Final[Columns] = schemas.REPOSITORIES, _REPOSITORIES
REFLOG: Final[Columns] = schemas.REFLOG, _REFLOG
BLAME: Final[Columns] = schemas.BLAME, _BLAME
KINDS: Final[Mapping[type, Columns]] = {
    ObjectEntry: OBJECTS,
    CommonPrefix: OBJECTS,
    Change: DIFF,
    Commit: COMMITS,
    Branch: BRANCHES,
    Tag: TAGS,
    Repository: REPOSITORIES,
}
"""The columns of each kind of row."""


def chosen(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the columns of these names, in their order; all for None. :class:`InvalidError` for an unknown one."""
    if columns is None:
        return schema
    if unknown := [name for name in columns if name not in schema.names]:
        raise InvalidError(f"column {unknown[0]!r} is unknown; there are {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns])


def batches(
    kind: Columns, groups: Iterable[Sequence[Any]], columns: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """Return a stream with one batch for each group of rows that has any. A group is asked for when its batch is."""
    schema = chosen(kind[0], columns)
    stream = (pa.RecordBatch.from_arrays(arrays(kind, rows, schema), schema=schema) for rows in groups if rows)
    return pa.RecordBatchReader.from_batches(schema, stream)


def arrays(kind: Columns, rows: Sequence[Any], schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of a chosen schema for some rows."""
    return [pa.array([*map(kind[1][column.name], rows)], column.type) for column in schema]
