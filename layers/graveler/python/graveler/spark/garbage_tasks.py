"""Garbage collection on Spark: work that grows with the lake is distributed to tasks; decisions stay on the driver.

The driver is the collector of :mod:`graveler.retention`: it reads refs, decides on commits, and keeps the order of the steps.
Tasks read ranges, compare intervals of the listing with the needed files, and remove files, with the very code of a single
process; they leave their results in the object store, where a process could continue with them. They need no permission for the
table.

A task that runs twice writes the same files twice, or removes what is gone. While tasks run the driver renews its claim.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, TypeVar

from graveler.errors import GravelerError
from graveler.lake.clock import SystemClock
from graveler.retention.engine import Told, Written, sweep_chunk, write_chunks
from graveler.retention.live_listing import Comparison, ListingInterval, Unknown, candidates, intervals
from graveler.retention.marks import merge_rows, write_names, write_rows
from graveler.retention.rate_limit import Pace
from graveler.retention.rowfiles import RowFile, look_at_rows, name_at, read_rows
from graveler.retention.runs import FOLDER, Mode, Runs
from graveler.retention.sweeper import Sweeper
from graveler.retention.threads import THREADS, at_once
from graveler.spark.connect import expect_jvm
from graveler.spark.error_translation import spark_errors
from graveler.storage.objects.port import Objects

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANGES: Final = 200
"""Ranges per task: some million objects."""
TASKS: Final = 3
"""Intervals of the listing per core."""

_SAMPLES: Final = 16
"""Names sampled per interval."""
_GAP: Final = 1_000_000
"""Chunks that a task may write: 5e9 candidates."""
_RENEWED: Final = 10.0
"""Seconds between renewals."""

T = TypeVar("T")
R = TypeVar("R")


class SparkEngine:
    """The executors of a cluster; ``objects`` must be picklable for them. ``ranges`` is the number read by one task; ``parts`` is
    the number of intervals of the listing, None for three per core."""

    def __init__(self, spark: "SparkSession", *, ranges: int = RANGES, parts: int | None = None) -> None:
        expect_jvm(spark, "garbage collection", "run the job gc in the cluster, or `graveler gc run`")
        self._context = spark.sparkContext
        self._ranges = ranges
        self._parts = parts or TASKS * self._context.defaultParallelism
        self.most_files = 4 * self._parts

    def mark(self, objects: Objects, ranges: Sequence[tuple[int, str]], report: Told) -> list[str]:
        """See :meth:`graveler.retention.engine.Engine.mark`. One object read per range, one write per task."""
        groups = [ranges[start : start + self._ranges] for start in range(0, len(ranges), self._ranges)]

        def read(group: Sequence[tuple[int, str]]) -> str:
            return write_rows(objects, group, THREADS, lambda _done, _total: None)

        return self._run("reading ranges", read, groups, report)

    def merge(self, objects: Objects, files: Sequence[str], alive: bytes, report: Told) -> list[str]:
        """See :meth:`graveler.retention.engine.Engine.merge`. One file per interval."""
        shared = self._context.broadcast(alive)

        def merge(piece: _Piece) -> str:
            interval, keys = piece
            sources = (read_rows(objects, key, interval.above).rest(interval.upto) for key in keys)
            return merge_rows(objects, sources, shared.value)

        merged = self._run("sorting marks", merge, self._cut(objects, files), report)
        shared.unpersist()
        return merged

    def compare(
        self, work: Comparison, names: Iterator[bytes], run: str, first_chunk: int, unknown: Unknown, report: Told
    ) -> Written:
        """See :meth:`graveler.retention.engine.Engine.compare`. One listing per interval, and a dozen requests per file of
        rows."""
        staged = f"{FOLDER}/{run}/staged.rows"
        write_names(work.objects, names, len(work.alive), staged)
        shared = self._context.broadcast((work.objects, work.alive + b"\1", work.horizon))

        def compare(numbered: tuple[int, _Piece]) -> tuple[Written, Unknown]:
            number, (interval, files) = numbered
            objects, alive, horizon = shared.value
            unknown_files = Unknown()
            garbage_files = candidates(
                Comparison(objects, files, alive, horizon), interval, iter(()), unknown_files, lambda _: None
            )
            return write_chunks(Runs(objects), run, first_chunk + number * _GAP, garbage_files), unknown_files

        pieces = list(enumerate(self._cut(work.objects, (*work.files, staged))))
        written = Written([], {})
        for chunks, unknown_files in self._run("comparing the listing", compare, pieces, report):
            written.merge(chunks)
            unknown.merge(unknown_files)
        shared.unpersist()
        return written

    def sweep(self, objects: Objects, run: str, mode: Mode, numbers: Sequence[int], rate: float, report: Told) -> None:
        """See :meth:`graveler.retention.engine.Engine.sweep`. The rate is shared evenly among the running tasks."""
        together = max(1, min(len(numbers), self._context.defaultParallelism))

        def remove(number: int) -> None:
            clock = SystemClock()
            sweeper = Sweeper(objects, clock, THREADS, Pace(clock, rate / together))
            sweep_chunk(objects, run, mode, number, sweeper, lambda: None)

        self._run("removing", remove, list(numbers), report)

    def _cut(self, objects: Objects, files: Sequence[str]) -> "list[_Piece]":
        """Return intervals, each with the files that have rows in it. One request per file, and one per sampled name."""
        nonempty = [file for file in at_once(THREADS, lambda key: look_at_rows(objects, key), files) if file.rows]
        cut = intervals(_sample(objects, nonempty, self._parts * _SAMPLES), self._parts)
        return [
            (
                interval,
                tuple(
                    file.key
                    for file in nonempty
                    if file.last > interval.above and not (interval.upto and file.first > interval.upto)
                ),
            )
            for interval in cut
        ]

    def _run(self, phase: str, do: Callable[[T], R], items: Sequence[T], report: Told) -> list[R]:
        if not items:
            return []
        with _signs_of_life(report, len(items)), spark_errors(phase):
            return list(self._context.parallelize(items, len(items)).map(do).collect())


_Piece = tuple[ListingInterval, tuple[str, ...]]


def _sample(objects: Objects, files: Sequence[RowFile], amount: int) -> list[bytes]:
    """Return names sampled from sorted rows, from all files in proportion to their rows. One request each."""
    random = Random(1)
    total = sum(file.rows for file in files)
    positions: list[tuple[str, int]] = []
    for file in files:
        positions += [(file.key, random.randrange(file.rows)) for _ in range(-(-amount * file.rows // total))]
    return list(at_once(THREADS, lambda position: name_at(objects, *position), positions))


@contextmanager
def _signs_of_life(report: Told, total: int) -> Iterator[None]:
    """Call ``report`` at intervals during the block. An error that it raises is raised at the end: the job is then useless."""
    over, failed = Event(), list[GravelerError]()

    def tell() -> None:
        while not over.wait(_RENEWED):
            try:
                report(0, total)
            except GravelerError as error:
                failed.append(error)
                return

    thread = Thread(target=tell, name="graveler-gc-claim", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]
    report(total, total)
