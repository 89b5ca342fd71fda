"""Jobs of Spark that are killed at many moments, and whose requests and answers are lost: each statement is in the table whole or
not at all, and once; the table goes on.

A job is a list of statements on one of several tables. The next Spark finishes the job of the killed one, as far as it was not
done, and begins its own. ``GRAVELER_SPARK_KILLS=n`` kills n jobs, and loses a request or an answer of twice as many. The seed of
``--hypothesis-seed`` decides when.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from graveler.requests.iceberg import Identifier
from graveler.sdk.iceberg_tables import Tables
from tests.clients.support import Served, serving
from tests.lake.iceberg.histories import Histories
from tests.lake.iceberg.row_reader import multiset
from tests.spark.spark_sql import SparkSql, StatementError
from tests.support.campaigns import seed
from tests.support.iceberg_spark import iceberg_spark_jars
from tests.support.proxy import Dropped, FaultyProxy, Lost, Schedule, Trouble

KILLS: Final = int(os.environ.get("GRAVELER_SPARK_KILLS", "2"))
TABLES: Final = {
    f"v{version}_{mode.replace('-', '_')}": (version, mode)
    for version in (2, 3)
    for mode in ("copy-on-write", "merge-on-read")
}
FEW: Final = 10
"""The number of kills above which an archive of classes is worth the time that it takes."""
WINDOW: Final = 0.5
"""Seconds within which a Spark is killed after a request: meanwhile it plans, writes files and sends the next ones."""
REWRITE: Final = "options => map('rewrite-all', 'true')"

Rows = Counter[Any]


def steps_of(table: str, job: int) -> list[tuple[str, dict[int, str]]]:
    """The statements of a job, each with the values by ID that its partition has afterwards."""
    fresh = dict.fromkeys(range(6), "new")
    updated = fresh | dict.fromkeys(range(2), "updated")
    merged = updated | dict.fromkeys(range(4, 8), "merged")
    rest = {number: value for number, value in merged.items() if number not in (0, 5)}
    rows = f"SELECT {job} AS job, CAST(id AS INT) AS id"
    name = f"main.shop.{table}"
    merge = (
        f"MERGE INTO {name} t USING ({rows}, 'merged' AS value FROM range(4, 8)) s ON t.job = s.job AND t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET value = s.value WHEN NOT MATCHED THEN INSERT *"
    )
    return [
        (f"INSERT INTO {name} {rows}, 'new' AS value FROM range(0, 6, 1, 2)", fresh),
        (f"UPDATE {name} SET value = 'updated' WHERE job = {job} AND id < 2", updated),
        (merge, merged),
        (f"DELETE FROM {name} WHERE job = {job} AND id IN (0, 5)", rest),
        (f"CALL main.system.rewrite_data_files(table => 'shop.{table}', where => 'job = {job}', {REWRITE})", rest),
        (f"INSERT OVERWRITE {name} PARTITION (job = {job}) SELECT 9, 'last'", {9: "last"}),
    ]


class Table:
    """A table on main, in which each job has a partition. ``expected`` are the rows of the jobs that ended."""

    def __init__(self, histories: Histories, name: str) -> None:
        self._histories = histories
        self.name = name
        self.identifier = Identifier(("shop",), name)
        self.expected: Rows = Counter()

    @property
    def snapshots(self) -> int:
        """The number of its snapshots."""
        return len(self._histories.load("main", self.identifier).document["snapshots"])

    def check(self, rows: Rows) -> None:
        """Check that the table has these rows, that nothing is wrong with it, and that each of its commits is one snapshot."""
        assert multiset(self._histories.load("main", self.identifier).document) == rows
        self._histories.check("main", self.identifier)
        self._histories.check_links("main", self.identifier)
        *changes, creation = Tables(self._histories.repository, "main").history(str(self.identifier))
        assert {len(version.snapshots) for version in changes} <= {1}
        assert (len(changes), creation.snapshots) == (self.snapshots, ())


class Job:
    """A job on a table, of which ``done`` statements are in the table."""

    def __init__(self, table: Table, number: int) -> None:
        self.table, self.number, self.done = table, number, 0
        self.steps = steps_of(table.name, number)
        self.snapshots = table.snapshots

    @property
    def rows(self) -> Rows:
        """The rows of the table after the statements that are done."""
        values = self.steps[self.done - 1][1] if self.done else {}
        added = ((("id", number), ("job", self.number), ("value", value)) for number, value in values.items())
        return self.table.expected + Counter(added)

    def run(self, spark: SparkSql) -> None:
        """Run the statements that are not done. Once one fails, nobody knows whether it is: see :meth:`look`."""
        while self.done < len(self.steps):
            spark.rows(self.steps[self.done][0])
            self.done += 1

    def look(self) -> int:
        """Look at the table after a failure: the statement that failed is in it, whole, or not. Return the statements that turn
        out to be done."""
        done = self.table.snapshots - self.snapshots
        assert done in (self.done, self.done + 1), (self.steps, self.done, done)
        hidden = done - self.done
        self.done = done
        self.table.check(self.rows)
        return hidden

    def end(self) -> None:
        """Check the table after the last statement."""
        assert self.done == len(self.steps)
        self.table.check(self.rows)
        assert self.table.snapshots == self.snapshots + len(self.steps), "each statement is one commit"
        self.table.expected = self.rows


class Lake:
    """A lake in a folder, and its server."""

    def __init__(self, histories: Histories, served: Served, log: Path) -> None:
        self.histories, self.served, self.log = histories, served, log
        self.tables = [Table(histories, name) for name in TABLES]
        self._numbers = count()

    def create_tables(self, spark: SparkSql) -> None:
        """Create the tables, empty."""
        for name, (version, mode) in TABLES.items():
            modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
            spark.rows(
                f"CREATE TABLE main.shop.{name} (job INT, id INT, value STRING) USING iceberg PARTITIONED BY (job) "
                f"TBLPROPERTIES ('format-version' = '{version}', {modes})"
            )

    def requests_of_a_job(self, spark: SparkSql, proxy: FaultyProxy) -> int:
        """Run a job that nothing happens to, and return the number of its requests."""
        proxy.begin(lambda *_: None)
        job = self.next_job()
        job.run(spark)
        job.end()
        return len(proxy.seen)

    def next_job(self) -> Job:
        """A job on the next table."""
        number = next(self._numbers)
        return Job(self.tables[number % len(self.tables)], number)

    @contextmanager
    def spark(self) -> Iterator[tuple[SparkSql, FaultyProxy]]:
        """A Spark whose requests go through a proxy. After the block, none of them is on its way. In a long run, the first Spark
        leaves an archive of its classes, with which the others start in half the time."""
        archive = self.log.with_suffix(".jsa")
        java_options = f"-XX:{'SharedArchiveFile' if archive.exists() else 'ArchiveClassesAtExit'}={archive}"
        with FaultyProxy(self.served.url) as proxy, ExitStack() as stack:
            served = Served(proxy.url, self.served.key_id, self.served.secret)
            options = java_options if KILLS > FEW else ""
            yield stack.enter_context(SparkSql(served, "sales", "main", log=self.log, java_options=options)), proxy

    def check(self) -> None:
        """Check the whole repository."""
        assert not self.histories.repository.fsck(committed_objects=True).remaining


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    if not iceberg_spark_jars():
        pytest.skip("no Maven here, which fetches Iceberg's runtime for Spark")
    with Histories(tmp_path / "lake") as histories, serving(tmp_path / "lake") as served:
        yield Lake(histories, served, tmp_path / "spark.log")


def killed(spark: SparkSql, proxy: FaultyProxy, job: Job, moment: tuple[int, float]) -> None:
    """Run a job, and kill its Spark at one of its requests, which still has its effect, or some seconds after it."""
    ordinal, delay = moment
    timer = threading.Timer(delay, spark.kill)

    def schedule(_: str, position: int) -> Trouble:
        if position == ordinal:
            timer.start() if delay else spark.kill()
        return None

    proxy.begin(schedule)
    with suppress(EOFError):
        job.run(spark)
    if timer.is_alive():
        timer.cancel()
        timer.join()


@pytest.mark.ci
def test_killed_jobs_are_in_the_table_by_whole_statements(
    lake: Lake, record_property: Callable[[str, object], None]
) -> None:
    random = Random(seed())
    outcomes = Counter[str]()
    with lake.spark() as (spark, proxy):
        lake.create_tables(spark)
        job, requests = lake.next_job(), lake.requests_of_a_job(spark, proxy)
    for number in range(KILLS):
        moment = random.randrange(requests), random.uniform(0, WINDOW) if number % 2 else 0.0
        with lake.spark() as (spark, proxy):
            job.run(spark)
            job.end()
            job = lake.next_job()
            killed(spark, proxy, job, moment)
        outcomes["done, but not answered" if job.look() else f"{job.done} of {len(job.steps)} done"] += 1
        lake.check()
    with lake.spark() as (spark, _):
        job.run(spark)
        job.end()
    record_property("outcomes", dict(outcomes))


def with_trouble(ordinal: int, trouble: Trouble) -> Schedule:
    """A schedule with trouble at one request."""
    return lambda _, position: trouble if position == ordinal else None


@pytest.mark.ci
def test_statements_whose_answer_is_lost_are_in_the_table_once(
    lake: Lake, record_property: Callable[[str, object], None]
) -> None:
    random = Random(seed())
    outcomes = Counter[str]()
    with lake.spark() as (spark, proxy):
        lake.create_tables(spark)
        requests = lake.requests_of_a_job(spark, proxy)
        for _ in range(KILLS * 2):
            ordinal, trouble = random.randrange(requests), random.choice((Lost(), Dropped()))
            job = lake.next_job()
            proxy.begin(with_trouble(ordinal, trouble))
            try:
                job.run(spark)
                outcomes["nothing failed"] += 1
            except StatementError:
                outcomes["done, but not answered" if job.look() else "failed"] += 1
                job.run(spark)
            job.end()
    lake.check()
    record_property("outcomes", dict(outcomes))
