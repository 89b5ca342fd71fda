"""A branch as a stream of its commits: each change once, whatever is killed, reset or restarted in between."""

import datetime
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import graveler.spark
from graveler.errors import InvalidError, PreconditionError, RefNotFoundError
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import ChangeType, Commit, CommitID, ObjectEntry
from graveler.spark import feed_rows
from graveler.spark.change_feed import FeedOptions
from graveler.spark.feed_line import BEGINNING, Line
from graveler.spark.partition_names import values_of
from graveler.storage.objects.folder import FolderObjects


@pytest.fixture(autouse=True)
def quiet(spark: SparkSession) -> Iterator[None]:
    """Without Spark's words on queries that fail, as many here do."""
    spark.sparkContext.setLogLevel("OFF")
    yield
    spark.sparkContext.setLogLevel("ERROR")


class Place:
    """A lake in a folder, and its repository ``repo``."""

    def __init__(self, folder: Path, repository: OpenRepository) -> None:
        self.folder, self.repository = folder, repository

    def commit(self, *put: str, delete: tuple[str, ...] = (), branch: str = "main", text: str = "") -> Commit:
        for path in put:
            self.repository.upload(branch, path, (text or path).encode())
        self.repository.delete(branch, delete)
        return self.repository.commit(branch, "a change")

    def stream(self, spark: SparkSession, **options: str) -> DataFrame:
        given = {"lake": str(self.folder), "repository": "repo", "ref": "main", "readChangeFeed": "true", **options}
        return spark.readStream.format("graveler").options(**given).load()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with create_folder_lake(tmp_path / "lake") as lake:
        yield Place(tmp_path / "lake", lake.create_repository("repo", "local://repo"))


class Query:
    """A stream whose batches are collected, each as a list of rows."""

    def __init__(self, frame: DataFrame, checkpoint: Path) -> None:
        self.frame, self.checkpoint = frame, checkpoint
        self.batches: list[list[Row]] = []
        self.fail = False

    def run(self, *, available_now: bool = True) -> list[list[Row]]:
        """The batches of one run."""
        self.batches = []
        patiently(lambda: self._run(available_now=available_now))
        return self.batches

    def failing(self, match: str) -> None:
        """A run that fails with these words."""
        with pytest.raises(StreamingQueryException, match=match):
            self.run()

    def _run(self, *, available_now: bool) -> None:
        writer = self.frame.writeStream.option("checkpointLocation", str(self.checkpoint)).foreachBatch(self._each)
        if available_now:
            writer = writer.trigger(availableNow=True)
        query = writer.start()
        try:
            if available_now:
                query.awaitTermination()
            else:
                query.processAllAvailable()
        finally:
            query.stop()

    def _each(self, frame: DataFrame, _: int) -> None:
        self.batches.append(frame.collect())
        if self.fail:
            raise RuntimeError("behind the batch")


def patiently(run: Callable[[], None]) -> None:
    """Again, if the machine was too busy for Spark, which gives a stream's Python process ten seconds to start."""
    for _ in range(10):
        try:
            run()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return
    run()


def line_of(repository: OpenRepository, ref: str = "main") -> list[CommitID]:
    """The first parents, the oldest first."""
    found: list[CommitID] = []
    at: CommitID | None = repository.commit_of(ref).id
    while at is not None:
        found.append(at)
        at = next(iter(repository.commit_of(at).parents), None)
    return found[::-1]


def expected(repository: OpenRepository, after: CommitID, upto: str = "main") -> list[tuple[str, str, str]]:
    """Commit, kind and path of each change after a commit, in order."""
    line = line_of(repository, upto)
    found: list[tuple[str, str, str]] = []
    for before, commit in pairwise(line):
        if line.index(commit) > line.index(after):
            found += [
                (commit, change.type.value, change.path)
                for change in repository.diff(before, commit, amount=1000).results
            ]
    return found


def seen(batches: list[list[Row]]) -> list[tuple[str, str, str]]:
    return [(row.commit_id, row.type, row.path) for batch in batches for row in batch]


# The line of commits


def test_the_line_is_that_of_first_parents(place: Place) -> None:
    repository, random = place.repository, Random(5)
    for number in range(40):
        if number % 7 == 3:
            repository.create_branch(f"side{number}", "main")
            for step in range(random.randrange(1, 4)):
                place.commit(f"side/{number}/{step}", branch=f"side{number}")
        place.commit(f"file{number}")
        if number % 7 == 3:
            repository.merge(f"side{number}", "main", message="merge")
    line = line_of(repository)
    assert len(line) > 41, "some of them merges"
    reader = Line(repository, "main")
    for _ in range(20):
        first = random.randrange(len(line))
        last = random.randrange(first, len(line))
        found = [commit.id for commit in reader.between(line[first], line[last])]
        assert found == line[first + 1 : last + 1]
    assert [commit.id for commit in reader.between(BEGINNING, line[-1])] == line
    at, taken = BEGINNING, 0
    while (end := reader.upto(at, 7)) != at:
        taken = min(taken + 7, len(line))
        assert end == line[taken - 1]
        at = end
    assert taken == len(line)
    assert reader.start("latest") == line[-1]
    assert reader.start("earliest") == BEGINNING
    assert reader.start("main~3") == line[-4]
    with pytest.raises(PreconditionError, match="not among the first parents of branch 'main'"):
        reader.start("side3")
    with pytest.raises(RefNotFoundError):
        reader.start("nothing")


def test_a_branch_that_was_moved_is_told_only_where_it_matters(place: Place) -> None:
    repository = place.repository
    read = place.commit("a").id
    reader = Line(repository, "main")
    assert reader.upto(read, None) == read
    for name in "bcd":
        place.commit(name)
    ahead = line_of(repository)
    assert reader.upto(read, 2) == ahead[-2]
    repository.hard_reset("main", ahead[-3])
    other = place.commit("e")
    assert reader.upto(read, None) == other.id, "what was not read yet may go"
    assert [commit.id for commit in reader.between(read, other.id)] == [ahead[-3], other.id]
    repository.hard_reset("main", ahead[0])
    with pytest.raises(
        PreconditionError, match=r"was reset or moved.*the last commit that both have is.*checkpointLocation"
    ):
        reader.upto(read, None)
    aside = place.commit("f")
    with pytest.raises(PreconditionError, match=f"commit {read[:16]}.*both have is {ahead[0][:16]}"):
        reader.upto(read, None)
    with pytest.raises(PreconditionError, match="not among the first parents"):
        reader.between(CommitID("0" * 64), aside.id)


# The feed of paths


def test_a_stream_has_each_commit_once(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    graveler.spark.register(spark)
    repository = place.repository
    start = place.commit("a", "b", "kept/x").id
    query = Query(place.stream(spark, startingRef=start), tmp_path / "checkpoint")
    place.commit("c", delete=("a",))
    place.commit("b", text="another")
    repository.upload("main", "uncommitted", b"not seen")
    query.fail = True
    query.failing("behind the batch")
    first = seen(query.batches)
    assert first == expected(repository, start)
    query.fail = False
    repository.reset("main")
    later = repository.commit_of("main").id
    repository.create_branch("side", "main")
    place.commit("side1", branch="side")
    place.commit("side2", branch="side")
    place.commit("d")
    merged = repository.merge("side", "main", message="merge")
    assert seen(query.run()) == first, "the batch is the same, whatever was committed meanwhile"
    rows = query.run()
    assert seen(rows) == expected(repository, later)
    assert [row.path for batch in rows for row in batch if row.commit_id == merged.id] == ["side1", "side2"]
    assert query.run() == []
    for row in (row for batch in rows for row in batch):
        assert row.type == ChangeType.ADDED.value
        assert row.before is None
        assert row.after.address == repository.stat(row.commit_id, row.path).address
        moment = repository.commit_of(row.commit_id).created
        assert row.commit_timestamp.timestamp() == moment
    # In parts, from the first commit on, below a prefix; by a query that waits for more.
    parts = Query(place.stream(spark, startingRef="earliest", maxCommitsPerTrigger="2", prefix="k"), tmp_path / "parts")
    assert [row.path for batch in parts.run(available_now=False) for row in batch] == ["kept/x"]
    assert len(parts.batches) >= 3, "some of them without rows"
    # Begun again behind a reset.
    repository.hard_reset("main", start)
    query.failing(
        "(?s)PreconditionError: commit .* is not among the first parents of branch 'main'.*start a new stream"
    )


@pytest.mark.ci
def test_what_is_wrong_with_the_options_of_a_stream_is_told(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    graveler.spark.register(spark)
    given = {"lake": str(place.folder), "repository": "repo", "ref": "main"}

    def start(*, schema: str = "", **options: str) -> None:
        reader = spark.readStream.format("graveler").options(**{**given, **options})
        frame = (reader.schema(schema) if schema else reader).load()
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
        writer.foreachBatch(lambda *_: None).start().awaitTermination()

    cases: list[tuple[dict[str, str], str]] = [
        ({"startingReff": "main"}, "no option 'startingreff'; is 'startingRef' meant"),
        ({"startingRef": "earliest", "columns": "path"}, "no option 'columns'"),
        ({"maxCommitsPerTrigger": "0"}, "'maxCommitsPerTrigger' is '0'"),
        ({"readChangeFeed": "perhaps"}, "give one of true, false"),
        ({"readChangeFeed": "false"}, "leave it out"),
        ({"path": "events"}, "has no files on branch 'main' yet.*schema"),
        ({"path": "../events"}, "not the path of a dataset"),
        ({"path": "events", "schema": "id long"}, "no column _change_type"),
        ({"path": "events", "schema": "id long, _change_type int"}, "_change_type is a string"),
        ({"path": "events", "prefix": "x"}, "option 'prefix' is for a feed of paths"),
        ({}, "say so with an option: readChangeFeed=true"),
        ({"readChangeFeed": "true", "schema": "id long"}, "has its own schema"),
        ({"startingRef": "nothing"}, "RefNotFoundError"),
        ({"ref": "main~0", "startingRef": "latest"}, "main~0"),
    ]
    for options, message in cases:
        with pytest.raises(PySparkException, match=f"(?s){message}"):
            patiently(partial(start, **options))
    with pytest.raises(AnalysisException, match="make a stream of changes"):
        spark.read.format("graveler").options(**given, startingRef="main").load().collect()


# The feed of rows


def test_the_rows_that_came_less_those_that_went_are_the_dataset(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    graveler.spark.register(spark)
    repository = place.repository
    every = (
        "id, cast(id % 3 as int) part, if(id % 5 = 0, null, concat('n:', id)) name, cast(id as decimal(20, 3)) amount, "
        "timestamp_micros(id * 1000001) at, cast('2026-01-01 00:00:00' as timestamp_ntz) local, date_add(date'1500-01-01', "
        "cast(id as int)) day, array(id, null) many, named_struct('x', id, 'y', map('k', id)) one, id / 7 fraction, "
        "cast(cast(id as string) as binary) raw"
    )

    def write(low: int, high: int, mode: Any) -> str:
        with graveler.spark.transaction(repository, "main") as tx:
            tx.write(spark.range(low, high).selectExpr(*_split(every)), "events", partition_by="part", mode=mode)
        return repository.commit_of("main").id

    write(0, 9, "append")
    frame = place.stream(spark, path="events", startingRef="earliest", maxCommitsPerTrigger="1")
    table = graveler.spark.read(spark, "lakefs://repo/main/events", lake=repository)
    data = [name for name in frame.columns if not name.startswith("_")]
    assert {field.name: field.dataType for field in frame.schema if field.name in data} == {
        field.name: field.dataType for field in table.schema
    }
    assert frame.columns[-3:] == ["_change_type", "_commit_id", "_commit_timestamp"]
    commits = [write(9, 12, "append"), write(100, 106, "dynamic"), write(30, 40, "overwrite")]
    place.commit("events/_SUCCESS", "other/file")
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(spark.range(500, 501).selectExpr("id", "'2' part", "id as extra"), "events", partition_by="part")
    query = Query(frame, tmp_path / "checkpoint")
    query.run(available_now=False)
    now: Counter[str] = Counter()
    for batch in query.batches:
        for row in batch:
            values = repr([row[name] for name in data])
            now[values] += 1 if row["_change_type"] == "insert" else -1
        assert min(now.values(), default=1) >= 0, "nothing goes that was not there"
    read = graveler.spark.read(spark, "lakefs://repo/main/events", lake=repository, schema=table.schema)
    assert now.total() == 11
    assert +now == Counter(repr([row[name] for name in data]) for row in read.collect())
    by_commit = Counter((row["_commit_id"], row["_change_type"]) for batch in query.batches for row in batch)
    assert by_commit[commits[0], "insert"] == 3
    assert by_commit[commits[0], "delete"] == 0
    assert by_commit[commits[1], "delete"] == 12
    assert by_commit[commits[2], "delete"] == 6


def _split(columns: str) -> list[str]:
    """At commas that are in no brackets."""
    found, depth = [""], 0
    for char in columns:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return found


def rows_of(file: feed_rows._File, schema: StructType) -> list[pa.RecordBatch]:
    """The rows of one file of the dataset ``t``, as a task reads them."""
    options = {"lake": "lake", "repository": "repo", "ref": "main"}
    feed = feed_rows.RowsFeed({"path": "t"}, FeedOptions(options))
    return list(feed.read(("t", (file,)), schema))


def test_large_files_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FolderObjects(tmp_path, "local://x")
    pq.write_table(
        pa.table({"id": range(1000), "name": [str(n) for n in range(1000)]}), tmp_path / "file", row_group_size=100
    )
    entry = ObjectEntry("t/p=7/file", "local://x/file", (tmp_path / "file").stat().st_size, "", 0)
    file = feed_rows._File("insert", CommitID("c"), 1, objects, "file", entry)
    schema = StructType.fromDDL(
        "name string, p int, id int, _change_type string, _commit_timestamp timestamp, more date"
    )
    assert isinstance(schema, StructType)
    whole = rows_of(file, schema)
    monkeypatch.setattr(feed_rows, "_WHOLE_BYTES", 0)
    assert rows_of(file, schema) == whole
    table = pa.Table.from_batches(whole)
    assert table.column("id").to_pylist() == list(range(1000))
    assert set(table.drop_columns(["id", "name"]).to_pylist()[9].items()) == {
        ("p", 7),
        ("_change_type", "insert"),
        ("_commit_timestamp", datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)),
        ("more", None),
    }


VALUES: Final[dict[str, list[Any]]] = {
    "byte": [-128, 127],
    "int": [-(1 << 31), (1 << 24) + 1],
    "long": [(1 << 53) + 1, -(1 << 63)],
    "float": [0.5, 3.4028234663852886e38],
    "double": [0.1, 1e300],
    "decimal(10,2)": [Decimal("0.25"), Decimal("-99999999.99")],
    "decimal(38,18)": [Decimal("0.123456789012345678"), Decimal("12345678901234567890")],
    "boolean": [True, False],
    "string": ["1", "true", "2026-01-01"],
    "binary": [b"1", b"\xff"],
    "date": [datetime.date(2026, 1, 1), datetime.date(1, 1, 1)],
    "timestamp": [datetime.datetime(2026, 1, 1, 12, 0, 0, 1, datetime.UTC)],
    "timestamp_ntz": [datetime.datetime(2026, 1, 1, 12, 0, 0, 1, datetime.UTC).replace(tzinfo=None)],
    "array<int>": [[1], []],
    "array<boolean>": [[True], []],
    "struct<a:int,b:string>": [{"a": 1, "b": "x"}],
    "struct<b:string,a:long>": [{"b": "x", "a": 1}],
    "struct<a:boolean>": [{"a": True}],
    "map<string,int>": [[("a", 1)]],
    "map<string,boolean>": [[("a", True)]],
}


WIDER: Final = {
    "byte": {"int", "long", "float", "double", "decimal(10,2)"},
    "int": {"long", "double", "decimal(38,18)"},
    "float": {"double"},
    "decimal(10,2)": {"decimal(38,18)"},
    "date": {"timestamp_ntz"},
    "timestamp": {"timestamp_ntz"},
    "string": {"binary"},
    "struct<a:int,b:string>": {"struct<b:string,a:long>"},
}


def meaning(value: Any) -> Any:
    """A value, told from those that are equal to it in Python and mean something else."""
    if isinstance(value, bool) or value is None:
        return value is not None, "truth", value
    if isinstance(value, int | float | Decimal):
        return "number", Fraction(value)
    if isinstance(value, str | bytes):
        return "text", value.encode() if isinstance(value, str) else value
    if isinstance(value, datetime.datetime):
        return "time", value.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return "time", datetime.datetime.combine(value, datetime.time())
    if isinstance(value, dict):
        return {name: meaning(one) for name, one in value.items() if one is not None}
    if isinstance(value, tuple):
        return tuple(map(meaning, value))
    return [meaning(one) for one in value]


@pytest.mark.parametrize("there", VALUES)
def test_a_value_of_another_type_means_the_same_or_is_refused(there: str, tmp_path: Path) -> None:
    """A dataset that was replaced by one of another schema."""

    def schema(kind: str) -> StructType:
        found = StructType.fromDDL(f"v {kind}")
        assert isinstance(found, StructType)
        return found

    objects = FolderObjects(tmp_path, "local://x")
    fits = set()
    for number, value in enumerate(VALUES[there]):
        table = pa.Table.from_pylist([{"v": value}, {"v": None}], to_arrow_schema(schema(there)))
        pq.write_table(table, tmp_path / f"{number}")
        entry = ObjectEntry(f"t/{number}", f"local://x/{number}", (tmp_path / f"{number}").stat().st_size, "", 0)
        file = feed_rows._File("insert", CommitID("c"), 1, objects, f"{number}", entry)
        for wanted in VALUES:
            try:
                (batch,) = rows_of(file, schema(wanted))
            except InvalidError:
                continue
            kept, nothing = batch.column("v").to_pylist()
            assert nothing is None
            if isinstance(kept, dict) and isinstance(value, dict):
                value = {name: value.get(name) for name in kept}
            assert meaning(kept) == meaning(value), (value, wanted)
            fits.add(wanted)
    assert there in fits
    assert fits >= WIDER.get(there, set())


def test_columns_that_may_be_any_of_several_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ID": [1], "iD": [2]}), tmp_path / "file")
    entry = ObjectEntry("t/file", "local://x/file", (tmp_path / "file").stat().st_size, "", 0)
    file = feed_rows._File("insert", CommitID("c"), 1, FolderObjects(tmp_path, "local://x"), "file", entry)
    schema = StructType.fromDDL("id long")
    assert isinstance(schema, StructType)
    with pytest.raises(InvalidError, match="column 'id' is ambiguous: it could be ID, iD"):
        rows_of(file, schema)


@pytest.mark.parametrize(
    ("folders", "wanted"),
    [
        (["p=1", "p=007", "p=-3"], "int"),
        (["p=1", "p=12345678901"], "bigint"),
        (["p=1", "p=123456789012345678901234567890"], "decimal(38,0)"),
        (["p=1", "p=1.5"], "double"),
        (["p=1", "p=1_0"], "string"),
        (["p=1", "p=+1"], "string"),
        (["p=1", "p=\uff11"], "string"),
        (["p=2026-01-01", "p=2026-02-01"], "date"),
        (["p=2026-01-01", "p=20260201"], "string"),
        (["p=__HIVE_DEFAULT_PARTITION__"], "string"),
    ],
)
def test_types_of_partition_columns_hold_what_the_folders_say(folders: list[str], wanted: str) -> None:
    (column,) = feed_rows._partition_columns(map(values_of, folders))
    assert column.dataType.simpleString() == wanted
    field = to_arrow_schema(StructType([column])).field(0)
    for folder in folders:
        text = values_of(folder)["p"]
        (found,) = feed_rows._cast(pa.array([text], pa.string()), field, folder).to_pylist()
        assert (
            str(found) == (str(int(text)) if wanted in ("int", "bigint") and text else str(text)) or wanted == "double"
        )


@pytest.mark.ci
def test_files_that_are_no_tables_of_the_stream_are_told(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    graveler.spark.register(spark)
    schema = "id long, more string, Day date, _change_type string"
    given = {"lake": str(place.folder), "repository": "repo", "ref": "main", "path": "t", "startingRef": "main"}
    frame = spark.readStream.format("graveler").schema(schema).options(**given).load()
    query = Query(frame, tmp_path / "checkpoint")
    with graveler.spark.transaction(place.repository, "main") as tx:
        rows = spark.createDataFrame([(1, datetime.date(2026, 1, 1)), (2, None)], "ID int, day date")
        tx.write(rows, "t", partition_by="day")
    query.run()
    with graveler.spark.transaction(place.repository, "main") as tx:
        tx.write(spark.range(2).select((sql.col("id") + sql.lit(Decimal("0.5"))).alias("id")), "t", mode="overwrite")
    query.failing("column 'id' of 't/.*' is decimal.* does not fit the stream's int64")
    query = Query(frame, tmp_path / "another")
    query.run()
    place.commit("t/readme.txt")
    query.failing("'t/readme.txt' is not a Parquet file.*feed of paths")


@pytest.mark.ci
def test_a_driver_killed_at_any_moment_copies_each_commit_once(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    """SIGKILL to driver, JVM and workers of a stream that notes each commit of ``main`` in a dataset of ``log``.
    ``GRAVELER_FEED_KILLS=n`` for n kills."""
    kills, moments = int(os.environ.get("GRAVELER_FEED_KILLS", "1")), 40
    place.repository.create_branch("log", "main")
    start = place.repository.commit_of("main").id
    for number in range(kills + 4):
        place.commit(f"file{number}")

    def run(moment: int) -> int:
        command = [
            sys.executable,
            "-m",
            "tests.spark.feed_driver",
            str(place.folder),
            str(tmp_path / "c"),
            start,
            str(moment),
        ]
        return subprocess.run(command, start_new_session=True, stderr=subprocess.DEVNULL, check=False).returncode

    died = []
    for number in range(kills):
        died.append(run(1 + number * moments // kills))
        place.commit(f"later{number}")
    # A run that had little left to do may end before its moment.
    assert died[0] == -signal.SIGKILL
    assert set(died) <= {-signal.SIGKILL, 0}
    while run(0) == 0:
        noted = graveler.spark.read(spark, "lakefs://repo/log/noted", lake=place.repository).collect()
        if len(noted) >= 2 * kills + 4:
            break
    assert Counter((row.commit_id, row.path) for row in noted) == Counter(
        (commit, path) for commit, _, path in expected(place.repository, start)
    )
