"""``python -m bench.spark``: what the data pipeline costs: an import beside the bare sort of the same rows, reading, differences.

Needs ``.venv-spark`` (`make spark-tools`). Everything runs in Spark's local mode on two cores. The bare sort is the same job
without what graveler does: the same columns of the listing, partitioned by ranges of the keys and sorted within, and thrown away,
by Java, or by the Python workers that an import's rows go to.
Seconds are of the clock; CPU is that of Spark's JVM and its Python workers, which other programs on the machine do not disturb.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import graveler.spark
from graveler.lake.importing.gate import Gate
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.requests.importing import ListingOptions
from graveler.spark.importing import ImportReport, import_listing, partitions_of
from graveler.spark.listing_frames import canonical
from graveler.spark.session import local_session
from graveler.storage.objects.namespaces import locate

OPTIONS = ListingOptions(base="s3://warehouse/")
MORE_TASKS = 64
_TICK = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Seconds of the clock and of processors."""

    seconds: float
    cpu: float


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--objects", type=int, default=1_000_000, help="rows of the listing (default %(default)s)")
    parser.add_argument("--partitions", type=int, help="tasks (default: those of an import)")
    parser.add_argument("--repeat", type=int, default=3, help="timed runs of each (default %(default)s)")
    parser.add_argument("--changes", type=int, default=1_000_000, help="differing objects (default %(default)s)")
    parser.add_argument("--import-only", action="store_true", help="neither the bare sort, nor reading and comparing")
    parser.add_argument("--memory", default="4g", help="of Spark's JVM (default %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where listings and lakes go")
    arguments = parser.parse_args()
    spark = local_session(
        "graveler bench", cores=2, spark__driver__memory=arguments.memory, spark__ui__showConsoleProgress="false"
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        measure(spark, arguments)
    finally:
        spark.stop()


def measure(spark: SparkSession, arguments: argparse.Namespace) -> None:
    """Print a line for each thing measured."""
    count: int = arguments.objects
    partitions: int = arguments.partitions or partitions_of(count, spark.sparkContext.defaultParallelism)
    listing = listing_of(spark, arguments.folder, count)
    folder = arguments.folder / "spark-lake"
    rmtree(folder, ignore_errors=True)
    repository = create_folder_lake(folder).create_repository("bench", "local://bench")
    small = listing_of(spark, arguments.folder, 50_000)
    bare(small, 2)
    for branch in ("parts", "small"):
        repository.create_branch(branch, "main")
    import_listing(spark, repository, "small", small, OPTIONS, partitions=2)  # what starts once has started
    print(f"{count:,} rows in Parquet, {partitions} partitions, medians of {arguments.repeat} runs, two cores.\n")
    print("| what | seconds | CPU seconds | a second | CPU µs each | |")
    print("|---|---:|---:|---:|---:|---|")
    files = range_files(repository)
    jobs: dict[str, Callable[[], object]] = {
        "bare range partition and sort": lambda: bare(listing, partitions),
        "the same, its rows handed to Python workers": lambda: handed_over(listing, partitions),
    }
    in_parts = listing.withColumn("etag", sql.concat("etag", sql.lit("-12")))
    jobs["import of ETags of uploads in parts"] = lambda: import_listing(
        spark, repository, "parts", in_parts, OPTIONS, partitions=partitions
    )
    reports: list[ImportReport] = []
    jobs["import, from the listing to the commit"] = lambda: reports.append(
        import_listing(spark, repository, "main", listing, OPTIONS, partitions=partitions)
    )
    if arguments.import_only:
        jobs = dict([jobs.popitem()])
    costs: dict[str, list[Cost]] = {what: [] for what in jobs}
    for _ in range(arguments.repeat):  # by turns, so that what disturbs one disturbs the other
        for what, job in jobs.items():
            costs[what].append(timed(job))
    *others, (what, whole) = ((what, middle(cost)) for what, cost in costs.items())
    sorts = others[:2]
    for name, cost in others:
        line(name, cost, count)
    ratios = (f"{cost.seconds / whole.seconds:.2f} ({cost.cpu / whole.cpu:.2f} by CPU)" for _, cost in sorts)
    line(what, whole, count, " and ".join(ratios) + " × the speed of these" if sorts else "")
    built = reports[-1].built
    assert built is not None
    joins = median(report.built.join_seconds for report in reports if report.built is not None)
    share = joins / whole.seconds
    print(f"| joining {partitions} subtrees | {joins:.2f} | | | | {share:.1%} of the import; {built.ranges} ranges |")
    written = range_files(repository) - files  # the repetitions write the same ones
    few, many = (
        middle(
            timed(lambda: import_listing(spark, repository, "small", small, OPTIONS, partitions=tasks))  # noqa: B023
            for _ in range(arguments.repeat)
        )
        for tasks in (2, 2 + MORE_TASKS)
    )
    print(f"| each task more, of {MORE_TASKS} | | {(many.cpu - few.cpu) / MORE_TASKS:.3f} | | | its seam included |")
    print(f"| range files written | | | | | {written}: those of the tree, and {written - built.ranges} at seams |")
    print(f"| Python workers | | | | | at most {peak_of_workers() >> 20} MiB each |", flush=True)
    if not arguments.import_only:
        read_and_compare(spark, repository, listing, arguments)


def range_files(repository: OpenRepository) -> int:
    """How many there are."""
    return sum(1 for _ in repository.namespace.list("_graveler/ranges/"))


def listing_of(spark: SparkSession, folder: Path, count: int) -> DataFrame:
    """A listing in no order, with keys like a hive table's; made once."""
    path = folder / f"listing-{count}.parquet"
    if not (path / "_SUCCESS").exists():
        number = sql.col("id")
        day = sql.expr("date_add(date'2016-01-01', cast((id * 7919) % 2000 as int))")
        frame = spark.range(count).select(
            sql.format_string(
                "table%05d/dt=%s/part-%09d.snappy.parquet", number % 17, day.cast("string"), number
            ).alias("key"),
            ((number * 31) % 100_000).alias("size"),
            sql.md5(number.cast("string")).alias("etag"),
            sql.timestamp_seconds(number % 10_000_000 + 1_700_000_000).alias("last_modified_date"),
        )
        frame.repartition(max(2, count // 2_000_000), sql.xxhash64("key")).write.mode("overwrite").parquet(str(path))
    return spark.read.parquet(str(path))


def bare(listing: DataFrame, partitions: int) -> None:
    """The same rows, partitioned by ranges of keys and sorted, and thrown away."""
    rows, columns = canonical(listing, OPTIONS, Gate("local://bench", locate), "listing", 0)
    ordered = rows.repartitionByRange(partitions, columns.name).sortWithinPartitions(columns.name)
    ordered.write.format("noop").mode("overwrite").save()


def handed_over(listing: DataFrame, partitions: int) -> None:
    """As :func:`bare`, but the rows go where an import's go, and are thrown away there."""
    rows, columns = canonical(listing, OPTIONS, Gate("local://bench", locate), "listing", 0)
    ordered = rows.repartitionByRange(partitions, columns.name).sortWithinPartitions(columns.name)

    def throw_away(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})

    assert sum(row.rows for row in ordered.mapInArrow(throw_away, "rows long").collect()) > 0


def read_and_compare(
    spark: SparkSession, repository: OpenRepository, listing: DataFrame, arguments: argparse.Namespace
) -> None:
    """Reading all rows of a ref, and the same rows from Parquet, by turns; the difference of two commits."""
    count, changes, repeat = arguments.objects, arguments.changes, arguments.repeat
    before = repository.commit_of("main")
    # One object in so many gets another size, all over the lake.
    step = max(1, count // changes)
    changed = listing.withColumn("size", sql.col("size") + sql.when(sql.xxhash64("key") % step == 0, 1).otherwise(0))
    after = import_listing(spark, repository, "main", changed, OPTIONS).commit
    objects = graveler.spark.objects(spark, repository, before.id)
    rows = objects.count()
    if rows != count:
        raise AssertionError(f"{rows:,} rows were imported, and not {count:,}")
    path = str(arguments.folder / "spark-rows.parquet")
    objects.write.mode("overwrite").parquet(path)
    written = spark.read.parquet(path)
    turns = [(timed(lambda: consume(objects)), timed(lambda: consume(written))) for _ in range(repeat)]
    ours, parquet = (middle(costs) for costs in zip(*turns, strict=True))
    line("reading the same rows from Parquet", parquet, count)
    ratio = f"{ours.seconds / parquet.seconds:.2f} ({ours.cpu / parquet.cpu:.2f} by CPU) × Parquet"
    line("reading all rows", ours, count, ratio)
    differences = graveler.spark.diff(spark, repository, before.id, after.id)
    found = differences.count()
    cost = middle([timed(lambda: consume(differences)) for _ in range(repeat)])
    line("differences of two commits", cost, found, f"{found:,} changes")


def consume(frame: DataFrame) -> None:
    """Make all rows."""
    frame.write.format("noop").mode("overwrite").save()


def timed(run: Callable[[], object]) -> Cost:
    """What a call costs."""
    cpu, began = cpu_seconds(), time.perf_counter()
    run()
    return Cost(time.perf_counter() - began, cpu_seconds() - cpu)


def middle(costs: Iterable[Cost]) -> Cost:
    """The medians."""
    seconds, cpu = zip(*costs, strict=True)
    return Cost(median(seconds), median(cpu))


def line(what: str, cost: Cost, count: int, note: str = "") -> None:
    """Print a row of the table."""
    each = cost.cpu / count * 1e6
    print(
        f"| {what} | {cost.seconds:.1f} | {cost.cpu:.1f} | {count / cost.seconds:,.0f} | {each:.1f} | {note} |",
        flush=True,
    )


def processes() -> dict[int, list[str]]:
    """What /proc says of this process and all below it: the fields behind the program's name."""
    every: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                every[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
    mine = {os.getpid()}
    while below := {pid for pid, fields in every.items() if int(fields[1]) in mine} - mine:
        mine |= below
    return {pid: every[pid] for pid in mine}


def cpu_seconds() -> float:
    """Processor time of this process, of Spark's JVM, and of its workers, those that have ended included."""
    return sum(sum(map(int, fields[11:15])) for fields in processes().values()) / _TICK


def peak_of_workers() -> int:
    """The most memory (bytes) that one of Spark's Python workers has had."""
    peaks = [0]
    for pid in processes():
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"pyspark.daemon" in command:
                status = Path(f"/proc/{pid}/status").read_text()
                peaks += [int(row.split()[1]) * 1024 for row in status.splitlines() if row.startswith("VmHWM")]
    return max(peaks)


if __name__ == "__main__":
    main()
