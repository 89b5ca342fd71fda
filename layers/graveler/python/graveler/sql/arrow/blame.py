"""Blame as record batches: paths and sizes as listings have them, and of the commits each column once for each commit."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from graveler.model import Commit, CommitID
from graveler.sql.arrow import columns as kinds
from graveler.sql.arrow import schemas
from graveler.sql.arrow.objects import object_batches

if TYPE_CHECKING:
    from graveler.lake.reading.reader import RepositoryReader
    from graveler.tree.key_range import KeyRange

_ROWS: Final = 131_072
"""Objects for which the history is walked together."""
_OBJECT: Final = pa.schema([schemas.OBJECTS.field(name) for name in ("path", "size")])
_NAMES: Final = {"id": "commit_id", "committer": "committer", "message": "message", "created": "created"}
"""Columns of commits, and what they are called here."""
_COMMIT: Final = pa.schema([schemas.COMMITS.field(name) for name in _NAMES])


def blame_batches(
    repository: "RepositoryReader", commit: CommitID, keys: "Sequence[KeyRange]", schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the objects of a commit in some key ranges, with the columns of ``schema``, which are some of
    :data:`~graveler.sql.arrow.schemas.BLAME`. Cost: as their listing, and a walk of the history for each 131,072 objects."""
    for objects in _together(object_batches(repository.view(commit), keys, _OBJECT)):
        paths = objects.column("path").cast(pa.binary()).to_pylist()
        columns = {name: objects.column(name) for name in _OBJECT.names}
        columns |= _of_commits(repository.last_changes_of(commit, paths))
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows, in larger batches."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            yield from pa.Table.from_batches(pending).combine_chunks().to_batches()
            pending, rows = [], 0
    if pending:
        yield from pa.Table.from_batches(pending).combine_chunks().to_batches()


def _of_commits(commits: Sequence[Commit]) -> dict[str, pa.Array]:
    """Return the columns of these commits, most of which occur many times."""
    distinct = list({commit.id: commit for commit in commits}.values())
    numbers = {commit.id: number for number, commit in enumerate(distinct)}
    indices = pa.array(np.fromiter((numbers[commit.id] for commit in commits), np.int64, len(commits)))
    return {
        _NAMES[field.name]: column.take(indices)
        for field, column in zip(_COMMIT, kinds.arrays(kinds.COMMITS, distinct, _COMMIT), strict=True)
    }
