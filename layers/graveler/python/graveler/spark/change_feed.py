"""``spark.readStream.format("graveler")``: the commits of a branch as a stream of their changes.

An offset is a commit. A micro batch has the changes of each commit that the branch got since the last one, along first parents
(:mod:`graveler.spark.feed_line`): without ``path`` a row for each object that a commit added, removed or changed
(:mod:`graveler.spark.feed_objects`), with ``path`` the rows of a dataset's added and removed files
(:mod:`graveler.spark.feed_rows`).

Spark does not tell a Python data source whether it is read at once or as a stream, and asks for the columns before either. So an
option must: any of those that only a stream has.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Protocol

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from graveler.errors import InvalidError
from graveler.lake.opening.location import open_at
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID
from graveler.spark.feed_line import BEGINNING, LATEST, Line, Position
from graveler.spark.locations import LOCATION_OPTIONS, location_of
from graveler.spark.source_options import expect_known, flag, needed, number
from graveler.spark.workers import forget_archives

STREAM_OPTIONS: Final = ("readChangeFeed", "startingRef", "maxCommitsPerTrigger")
"""Options that only a stream has."""

_OPTIONS: Final = (*LOCATION_OPTIONS, "repository", "ref", "path", "prefix", "rows_per_task", *STREAM_OPTIONS)
_COMMIT: Final = "commit"
_FROM: Final = "from"


class Step(Struct, frozen=True):
    """One commit of a batch, and its predecessor on the line, from which it is the difference; None for the first commit."""

    commit: Commit
    before: CommitID | None


class Feed(Protocol):
    """The content of a stream. Picklable."""

    def check(self, schema: StructType) -> None:
        """Refuse columns that this feed cannot fill, with :class:`InvalidError`."""
        ...

    def parts(self, repository: OpenRepository, steps: Sequence[Step]) -> list[Any]:
        """Return the tasks' parts of those commits: picklable, in order."""
        ...

    def read(self, part: Any, schema: StructType) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. Runs in a task."""
        ...


class FeedOptions:
    """The parsed options of a stream. Picklable."""

    def __init__(self, options: Mapping[str, str]) -> None:
        expect_known(options, _OPTIONS)
        self.location = location_of(options)
        self.repository = needed(options, "repository")
        self.branch = needed(options, "ref")
        self.starting = options.get("startingref", "") or LATEST
        self.limit = number(options, "maxCommitsPerTrigger", 0) or None
        if not flag(options, "readChangeFeed", default=True):
            raise InvalidError(
                "readChangeFeed is false, but there are options that only a stream has; leave it out, or leave them out"
            )


class _Part(InputPartition):
    """The part of one task."""


class CommitStream(DataSourceStreamReader):
    """The reader of a branch, commit by commit.

    One instance, in a separate process next to the driver, plans a query's batches for as long as it runs; others, whose
    :meth:`read` alone is called, are sent to the tasks.

    Spark asks for the first offset again whenever a query restarts that has never completed a batch, and would skip the commits
    made in between. So the offset before the first batch is empty, and each offset carries the stream's start along.
    """

    def __init__(self, options: FeedOptions, feed: Feed, schema: StructType) -> None:
        feed.check(schema)
        self._options, self._feed, self._schema = options, feed, schema
        self._open: tuple[ExitStack, OpenRepository, Line] | None = None
        self._from: Position | None = None
        self._at: Position | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the empty offset. No request."""
        return {_COMMIT: None, _FROM: None}

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the next batch. Costs and errors as :meth:`graveler.spark.feed_line.Line.upto`; on a stream's first
        call also as :meth:`~graveler.spark.feed_line.Line.start`."""
        _, _, line = self._opened()
        if self._at is None or self._from is None:
            self._from = self._at = line.start(self._options.starting)
        return {_COMMIT: line.upto(self._at, self._options.limit), _FROM: self._from}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the parts of the commits after ``start`` up to ``end``. By this call Spark also tells where a checkpoint
        ends."""
        self._from, self._at = _position(end, _FROM), _position(end, _COMMIT)
        start_commit = _position(start, _COMMIT)
        begin = self._from if start_commit is None else start_commit
        if begin is None or self._at is None or begin == self._at:
            return []
        _, repository, line = self._opened()
        before = None if begin == BEGINNING else begin
        steps = []
        for commit in line.between(begin, self._at):
            steps.append(Step(commit, before))
            before = commit.id
        return [_Part(part) for part in self._feed.parts(repository, steps)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part, in a task."""
        forget_archives()
        yield from self._feed.read(partition.value, self._schema)

    def stop(self) -> None:
        """Close the lake."""
        if self._open is not None:
            stack, _, _ = self._open
            self._open = None
            stack.close()

    def _opened(self) -> tuple[ExitStack, OpenRepository, Line]:
        if self._open is None:
            stack = ExitStack()
            repository = stack.enter_context(open_at(self._options.location)).repository(self._options.repository)
            self._open = stack, repository, Line(repository, self._options.branch)
        return self._open


def _position(offset: object, key: str) -> Position | None:
    commit_id = offset.get(key, 0) if isinstance(offset, dict) else 0
    if commit_id is None:
        return None
    if not isinstance(commit_id, str):
        raise InvalidError(
            f"offset {offset!r} is not from the data source graveler: the checkpoint belongs to another source; give another "
            "checkpointLocation"
        )
    return CommitID(commit_id)
