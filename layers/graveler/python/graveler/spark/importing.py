"""Import on Spark: an object listing of any size becomes one commit.

The rows are partitioned by ranges of keys and sorted within; each task builds the tree of its interval and writes it straight to
the object store; the driver joins the trees at their seams and makes one commit. The metarange ID is that of a single process,
however the rows were partitioned, and whatever was done twice (law F1).
"""

import time
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import ceil
from operator import attrgetter
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import pyarrow as arrow
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from graveler.errors import CorruptError, InvalidError, PreconditionError
from graveler.lake.importing.gate import Gate
from graveler.lake.importing.importer import ImportSource
from graveler.lake.text import utf8
from graveler.location.environment import ServedLake
from graveler.requests.importing import ImportChanges, Imported, ListingOptions
from graveler.spark.checkpoints import Checkpoint, forget_old, spans_of
from graveler.spark.comparing import compare_by_tasks
from graveler.spark.connect import cores
from graveler.spark.error_translation import spark_errors
from graveler.spark.handles import LakeLike, Reachable, reached
from graveler.spark.joining import join_subtrees
from graveler.spark.listing_frames import Columns, canonical
from graveler.spark.locations import task_store
from graveler.spark.results import BadRow, Span, Subtree, Subtrees, unpack
from graveler.spark.subtrees import SAMPLES, SCHEMA, Mapper, SubtreeTask
from graveler.spark.workers import forget_archives
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from graveler.lake.repository import OpenRepository
    from graveler.spark.served import ServedRepository

ROWS: Final = 2_000_000
"""Rows per partition, unless the caller gives the number of partitions: some seconds' work of a task, and few seams."""
_SHOWN: Final = 3


class BadRowsError(InvalidError):
    """More rows of a listing cannot be imported than allowed. ``bad`` is their number, ``samples`` are some of them."""

    def __init__(self, label: str, bad: int, allowed: int, samples: list[BadRow]) -> None:
        self.label, self.bad, self.allowed, self.samples = label, bad, allowed, samples
        shown = "; ".join(f"{row.name!r}: {row.why}" for row in samples[:_SHOWN])
        super().__init__(
            f"{label}: {bad:,} rows cannot be imported, but only {allowed:,} are allowed; nothing was committed. {shown}"
            f"{'; …' if bad > _SHOWN else ''}. Fix the listing, or allow bad rows, which are then left out"
        )


class Built(Struct, frozen=True):
    """The work of an import's tasks. ``objects`` and their ``size`` (bytes), of which ``resumed`` objects had been built by an
    earlier run; ``duplicates`` are rows superseded by a later one of the same key, ``bad`` ones that were omitted, with
    ``samples`` of these; ``partitions``, and ``ranges`` of the listing's tree. Seconds of building and of joining."""

    objects: int
    size: int
    resumed: int
    duplicates: int
    bad: int
    samples: tuple[BadRow, ...]
    partitions: int
    ranges: int
    build_seconds: float
    join_seconds: float


class ImportReport(Struct, frozen=True):
    """The commit of an import (of a dry run without an ID), and what was built for it: None if an earlier request with this id
    had made the commit."""

    commit: Imported
    built: Built | None

    @property
    def changes(self) -> ImportChanges:
        """The numbers of objects that the import added, replaced, removed, and left unchanged, with their bytes."""
        return self.commit.changes


def import_listing(
    spark: SparkSession,
    repository: Reachable,
    branch: str,
    listing: DataFrame,
    options: ListingOptions | None = None,
    *,
    message: str = "",
    committer: str = "",
    metadata: Mapping[str, str] | None = None,
    partitions: int | None = None,
    max_bad_rows: int = 0,
    checkpoint: str = "",
    label: str = "the listing",
    request_id: str = "",
    created: int | None = None,
    force: bool = False,
    allow_empty: bool = False,
    dry_run: bool = False,
    lake: LakeLike | ServedLake = None,
) -> ImportReport:
    """Import the objects that a data frame lists, without copying them, as one commit. They replace everything under the options'
    destination. The objects themselves are not read.

    Columns are recognised by their names, as by :class:`graveler.lake.importing.object_listing.ObjectListing`; of rows with one
    key, that with the latest time counts. ``partitions`` is the number of tasks; without it, the rows are counted first.

    ``checkpoint`` names the state of this listing, such as the inventory's date: an interrupted import continues where it was, if
    it is repeated with the same name and options within a quarter of the collector's grace period. The same name must stand for
    the same rows. ``request_id`` makes a repetition return the first one's commit.

    ``lake`` may be the URL of a server of the HTTP API (or ``spark.graveler.endpoint``, GRAVELER_ENDPOINT): the server gets the
    access key of the environment, and makes the commit; the files of the tree go straight to the object store
    (:mod:`graveler.spark.served`). It does not support ``request_id``.

    A listing that names no object is refused, since it would remove everything under the destination, unless ``allow_empty``.
    With ``dry_run`` the branch is unchanged, and the report says what the import would change; what was built for that is
    garbage, which an import with the same ``checkpoint`` reuses.

    Cost: two passes over the listing (three without ``partitions``), one shuffle; n/r ranges, a metarange, a commit record and a
    checkpoint file per task written; :func:`graveler.spark.joining.join_subtrees`; the branch reads of
    :meth:`graveler.lake.repository.OpenRepository.import_sources`, before those of the listing; and
    :func:`graveler.spark.comparing.compare_by_tasks`.

    :class:`BadRowsError`, :class:`graveler.errors.EmptySourceError`, :class:`InvalidError` for columns, those of
    ``import_sources``; :class:`graveler.errors.UnavailableError` if tasks fail repeatedly. In all cases nothing was changed.
    """
    options = options or ListingOptions()
    if options.destination and not options.destination.endswith("/"):
        raise InvalidError(f"destination {options.destination!r} of a listing must be empty or end with '/'")
    if partitions is not None and partitions < 1:
        raise InvalidError(f"{partitions} partitions are not enough; give at least 1")
    destination = utf8("destination", options.destination)
    with reached(spark, repository, lake) as opened:
        now = opened.clock.now()
        gate = Gate(opened.repository.namespace, opened.locate_outside)
        rows, columns = canonical(listing, options, gate, label, int(now))
        note = None
        if checkpoint:
            split = opened.repository.split
            note = Checkpoint(opened.namespace, [checkpoint, repr(options), repr(columns.names), repr(split)])
        work = _Work(spark, opened, rows, columns, partitions, max_bad_rows, note)
        with spark_errors(f"importing to {branch!r}"):
            compare = compare_by_tasks(spark, opened, destination)
            source = ImportSource(destination, True, lambda: iter(()), tree=work.tree, compare=compare, name=work.name)
            commit = opened.import_sources(
                branch,
                [source],
                message or "Import a listing",
                committer=committer,
                metadata=metadata,
                request_id=request_id,
                created=created,
                force=force,
                allow_empty=allow_empty,
                dry_run=dry_run,
            )
        if note is not None and not dry_run:
            note.drop()
        forget_old(opened.namespace, now - 2 * opened.grace)
    return ImportReport(commit, work.built)


class _Work:
    """The tree of one import, and its report."""

    def __init__(
        self,
        spark: SparkSession,
        repository: "OpenRepository | ServedRepository",
        rows: DataFrame,
        columns: Columns,
        partitions: int | None,
        max_bad_rows: int,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._spark = spark
        self._repository = repository
        self._rows = rows
        self._columns = columns
        self._partitions = partitions
        self._max_bad_rows = max_bad_rows
        self._checkpoint = checkpoint
        self.built: Built | None = None

    @property
    def name(self) -> str:
        """The name of the listing in messages, with the rows of it that are imported."""
        source = self._columns.rules.source
        return self._columns.label + (f" (rows whose key or address starts with {source!r})" if source else "")

    def tree(self) -> Tree:
        """Build and return the tree of the listing."""
        began = time.monotonic()
        before: list[Subtree] = []
        oldest = float("inf")
        if self._checkpoint is not None:
            before, oldest = self._checkpoint.read(self._repository.clock.now() - self._repository.grace / 4)
        partitions = self._partitions or partitions_of(self._rows.count(), cores(self._spark))
        built = self._build(spans_of(before), partitions)
        built_at = time.monotonic()
        samples = [row for task in built for row in task.samples][:SAMPLES]
        bad = sum(task.bad for task in built)
        if bad > self._max_bad_rows:
            raise BadRowsError(self._columns.label, bad, self._max_bad_rows, samples)
        subtrees = sorted((*before, *(part for task in built for part in task.trees)), key=attrgetter("first"))
        for subtree, right in pairwise(subtrees):
            if subtree.last >= right.first:
                raise CorruptError(
                    f"{self._columns.label}: two tasks built the same interval, at {right.first!r}: the listing was different "
                    "when it was read again; import again, with another checkpoint name"
                )
        store, split = task_store(self._repository), self._repository.repository.split
        tree = join_subtrees(self._spark, store, split, subtrees)
        if self._repository.clock.now() - oldest > self._repository.grace / 2:
            raise PreconditionError(
                f"{self._columns.label}: the files of an earlier run are more than {self._repository.grace / 7200:.0f} hours "
                "old, and may be garbage-collected; import again"
            )
        self.built = Built(
            tree.count(),
            sum(tree.info(number).total for number in range(len(tree))),
            sum(part.tree(store).count() for part in before),
            sum(part.duplicates for part in subtrees),
            bad,
            tuple(samples),
            partitions,
            len(tree),
            built_at - began,
            time.monotonic() - built_at,
        )
        return tree

    def _build(self, spans: list[Span], partitions: int) -> list[Subtrees]:
        """Run the tasks, without the rows in ``spans``, and return their results."""
        rows, name = self._rows, self._columns.name
        for span_start, last in spans:
            outside = (rows[name] < sql.lit(self._columns.raw(span_start))) | (
                rows[name] > sql.lit(self._columns.raw(last))
            )
            rows = rows.filter(sql.coalesce(outside, sql.lit(True)))
        store = task_store(self._repository)
        split = self._repository.repository.split
        task = SubtreeTask(store, split, self._columns, token_hex(8), spans, self._checkpoint)
        sorted_rows = rows.repartitionByRange(partitions, name).sortWithinPartitions(name)
        return [unpack(row.result) for row in sorted_rows.mapInArrow(_mapper(task), SCHEMA).collect()]


def partitions_of(rows: int, cores: int) -> int:
    """Return the number of partitions for so many rows: at most :data:`ROWS` in each, if evenly spread; the same number per
    core."""
    return ceil(max(rows, 1) / ROWS / cores) * cores


def _mapper(task: SubtreeTask) -> Mapper:
    """Return a task as the plain function that Spark requires."""

    def run(batches: Iterable[arrow.RecordBatch]) -> Iterable[arrow.RecordBatch]:
        forget_archives()
        return task(iter(batches))

    return run
