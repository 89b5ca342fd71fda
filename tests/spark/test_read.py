"""A lake's contents as rows in Spark: the data source, and data frames of objects, ranges, commits, branches, tags."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import graveler.spark
from graveler.errors import InvalidError, NotFoundError, RefNotFoundError, RepositoryNotFoundError
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.spark.columns import OBJECT
from graveler.spark.conditions import keys_of, keys_where
from graveler.spark.frames import _packed, in_tasks
from graveler.tree.key_range import KeyRange
from tests.spark.conftest import SPARK_4
from tests.spark.histories import grow
from tests.spark.listings import make_repository
from tests.support.campaigns import share
from tests.support.shell import Shell

data_source = pytest.mark.skipif(not SPARK_4, reason="Spark 3.5 has no Python data sources")


class Place:
    """A folder with a lake, and the repository ``repo`` with a history in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = make_repository(folder)
        self.commits = grow(self.repository, Random(3), commits=3, changes=100)
        self.repository.create_tag("v1", self.commits[0])
        self.repository.create_branch("side", "v1")

    def load(self, spark: SparkSession, ref: str = "main", **options: str) -> DataFrame:
        given = {"lake": str(self.folder), "repository": "repo", "ref": ref, **options}
        return spark.read.format("graveler").options(**given).load()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("read") / "lake")


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    if SPARK_4:
        graveler.spark.register(spark)


@pytest.fixture
def lake(place: Place) -> Iterator[Lake]:
    with open_folder_lake(place.folder) as lake:
        yield lake


def rows(frame: DataFrame) -> list[ObjectEntry]:
    """The rows, in the order of their paths, as the library's entries."""
    found = [ObjectEntry(**{name: row[name] for name in ObjectEntry.__struct_fields__}) for row in frame.collect()]
    return sorted(found, key=lambda entry: entry.path.encode())


def listed(repository: OpenRepository, ref: str, keys: KeyRange = KeyRange()) -> list[ObjectEntry]:  # noqa: B008
    commit = repository.commit_of(ref).id
    return [
        entry
        for entry in repository.objects(commit)
        if entry.path.encode() >= keys.start and (keys.end is None or entry.path.encode() < keys.end)
    ]


@data_source
def test_the_data_source_reads_what_the_library_lists(spark: SparkSession, place: Place) -> None:
    repository = place.repository
    for ref in ("main", "side", f"{place.commits[1][:12]}~1"):
        assert rows(place.load(spark, ref)) == listed(repository, ref), ref


@data_source
def test_random_bounds_and_sizes_of_tasks(spark: SparkSession, place: Place) -> None:
    random, repository = Random(7), place.repository
    tree = repository.tree("main")
    for _ in range(4):
        paths = [entry.path for entry in listed(repository, "main")]
        start, end = sorted(random.sample([*paths, "a", "a/", "b/", "zz"], 2))
        prefix = random.choice(["", "a", "a/b/", "é/", "nowhere/"])
        wanted = KeyRange.of_prefix(prefix.encode()) & KeyRange(start.encode(), end.encode())
        tasks = random.choice([1, 20, 1000])
        frame = place.load(spark, prefix=prefix, **{"from": start, "to": end, "rows_per_task": str(tasks)})
        assert rows(frame) == listed(repository, "main", wanted)
        if tasks == 1:
            assert frame.rdd.getNumPartitions() == max(1, len(wanted.numbers(tree)))


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("path >= 'a/' and path < 'a0'", [KeyRange(b"a/", b"a0")]),
        ("path > 'a/' and size > 100", [KeyRange(b"a/\0")]),
        ("'b' >= path", [KeyRange(b"", b"b\0")]),
        ("path like 'a/b/%'", [KeyRange(b"a/b/", b"a/b0")]),
        ("startswith(path, 'a/b/')", [KeyRange(b"a/b/", b"a/b0")]),
        ("path between 'a' and concat('b', 'c')", [KeyRange(b"a", b"bc\0")]),
        ("path = 'z' or path in ('b/2', 'b/1')", [KeyRange(key, key + b"\0") for key in (b"b/1", b"b/2", b"z")]),
        ("path in ('a', 'z', 'm') and path < 'y'", [KeyRange(b"a", b"a\0"), KeyRange(b"m", b"m\0")]),
        ("path like 'a/%' or path between 'a/z' and 'b'", [KeyRange(b"a/", b"b\0")]),
        ("path = 'a' and path = 'b'", []),
        ("path like '%x%' or size = 1", [KeyRange()]),
        ("path = checksum", [KeyRange()]),
        ("not (path > 'b')", [KeyRange()]),
        ("path > cast(current_date() as string) and path < 'b'", [KeyRange(b"", b"b")]),
        ("path > array('a')[1] and path < 'b'", [KeyRange(b"", b"b")]),
    ],
)
def test_conditions_bound_the_keys(spark: SparkSession, place: Place, condition: str, keys: list[KeyRange]) -> None:
    assert keys_where(spark, condition, OBJECT) == tuple(keys)
    assert keys_where(spark, sql.expr(condition), OBJECT) == tuple(keys)


def test_frames_take_conditions_and_columns(spark: SparkSession, place: Place) -> None:
    repository = place.repository
    everything = graveler.spark.objects(spark, repository, "main", rows_per_task=40)
    assert rows(everything) == listed(repository, "main")
    assert everything.rdd.getNumPartitions() > 3
    some = graveler.spark.objects(
        spark, repository, "main", where=sql.col("path").startswith("a/") & (sql.col("size") % 2 == 0), rows_per_task=1
    )
    wanted = [e for e in listed(repository, "main", KeyRange.of_prefix(b"a/")) if e.size % 2 == 0]
    assert rows(some) == wanted
    assert some.rdd.getNumPartitions() == len(KeyRange.of_prefix(b"a/").numbers(repository.tree("main")))
    sizes = graveler.spark.objects(spark, repository, "main", where="size % 2 = 0", prefix="a/", columns=["path"])
    assert sorted(row.path.encode() for row in sizes.collect()) == [e.path.encode() for e in wanted]
    with pytest.raises(InvalidError, match=r"no column 'etag'.*path, size"):
        graveler.spark.objects(spark, repository, "main", columns=["etag"])
    with pytest.raises(InvalidError, match="nowhere"):
        graveler.spark.objects(spark, repository, "main", where="nowhere = 1")


@data_source
def test_a_frame_stays_what_it_was_when_the_branch_moves(spark: SparkSession, place: Place) -> None:
    repository = place.repository
    repository.create_branch("moving", "v1")
    frame, also = place.load(spark, "moving"), graveler.spark.objects(spark, repository, "moving")
    repository.hard_reset("moving", "main")
    repository.upload("moving", "uncommitted", b"not shown")
    assert frame.count() == also.count() == len(listed(repository, "v1"))
    assert rows(place.load(spark, "moving")) == listed(repository, "main")
    repository.delete_branch("moving")


def test_ranges_that_cannot_hold_such_keys_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "lake")
    grow(repository, Random(5), commits=1, changes=200)
    tree, keys = repository.tree("main"), KeyRange.of_prefix(b"a/b/")
    for number in set(range(len(tree))) - set(keys.numbers(tree)):
        repository.namespace.delete(f"_graveler/ranges/{tree.info(number).name}")
    frame = graveler.spark.objects(spark, "repo", "main", prefix="a/b/", lake=tmp_path / "lake")
    assert 0 < frame.count() == len(frame.where("path like 'a/b/%'").collect())
    with pytest.raises(PySparkException, match="is missing from the object store"):
        graveler.spark.objects(spark, repository, "main").count()


def test_ranges_between_paths_that_are_asked_for_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "lake")
    grow(repository, Random(5), commits=1, changes=200)
    tree = repository.tree("main")
    for number in range(1, len(tree) - 1):
        repository.namespace.delete(f"_graveler/ranges/{tree.info(number).name}")
    first, last = tree.info(0).first.decode(), tree.info(len(tree) - 1).last.decode()
    found = graveler.spark.objects(spark, repository, "main", where=sql.col("path").isin(last, first), columns=["path"])
    assert {row.path for row in found.collect()} == {first, last}
    nothing = graveler.spark.objects(spark, repository, "main", where="path = 'a' and path = 'b'")
    assert nothing.collect() == []


@data_source
def test_filters_that_spark_tells_a_data_source_leave_ranges_out(spark: SparkSession, tmp_path: Path) -> None:
    """Spark 4.0 tells of none: then the rows are right and all ranges are opened."""
    repository = make_repository(tmp_path / "lake")
    grow(repository, Random(5), commits=1, changes=200)
    tree = repository.tree("main")
    paths = [entry.path for entry in repository.objects("main")]
    given = {"lake": str(tmp_path / "lake"), "repository": "repo", "ref": "main", "rows_per_task": "1"}
    frame = spark.read.format("graveler").options(**given).load()
    told = spark.version >= "4.1"
    path = sql.col("path")
    for condition, wanted in (
        (path == paths[7], paths[7:8]),
        (path.isin(paths[-1], paths[0]), [paths[0], paths[-1]]),
        ((path >= paths[3]) & (path < paths[9]) & (sql.col("size") >= 0), paths[3:9]),
        (path.startswith("a/b/"), [one for one in paths if one.startswith("a/b/")]),
        ((path == paths[1]) & (path == paths[2]), []),
        (path.isNotNull() & ~(path == paths[5]), [one for one in paths if one != paths[5]]),
    ):
        some = frame.where(condition)
        assert [row.path for row in some.collect()] == wanted
        if told and 0 < len(wanted) < 10:
            assert some.rdd.getNumPartitions() < len(tree) / 3


@data_source
def test_what_spark_tells_of_filters_bounds_the_keys() -> None:
    """In the shape of ``pyspark.sql.datasource`` of Spark 4.1."""

    def told(kind: str, *values: object, attribute: tuple[str, ...] = ("path",)) -> object:
        return type(kind, (), {"attribute": attribute, **({"value": values[0]} if values else {})})()

    everything = (KeyRange(),)
    assert keys_of(told("EqualTo", "a")) == (KeyRange(b"a", b"a\0"),)
    assert keys_of(told("LessThan", "é")) == (KeyRange(b"", "é".encode()),)
    assert keys_of(told("GreaterThanOrEqual", "a")) == (KeyRange(b"a"),)
    assert keys_of(told("StringStartsWith", "a/")) == (KeyRange(b"a/", b"a0"),)
    assert keys_of(told("In", ("z", None, "a"))) == (KeyRange(b"a", b"a\0"), KeyRange(b"z", b"z\0"))
    assert keys_of(told("EqualNullSafe", None)) == everything
    assert keys_of(told("StringContains", "a")) == everything
    assert keys_of(told("IsNotNull")) == everything
    assert keys_of(told("EqualTo", "a", attribute=("checksum",))) == everything
    assert keys_of(told("EqualTo", "a", attribute=("metadata", "path"))) == everything
    assert keys_of(type("Not", (), {"child": told("EqualTo", "a")})()) == everything


def test_a_task_is_sent_some_of_the_parts(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a function, with which come all parts of the tasks that share it."""

    def read(part: tuple[int, bytes]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"number": [part[0]]})

    def sizes(frame: DataFrame) -> list[int]:
        """Bytes of the functions of a frame's plan."""
        left, found = [frame._jdf.queryExecution().analyzed()], []
        while left:
            plan: Any = left.pop()
            if plan.nodeName() in ("MapInArrow", "PythonMapInArrow"):  # the latter on Spark 3.5
                found.append(plan.functionExpr().func().command().size())
            left += [plan.children().apply(at) for at in range(plan.children().size())]
        return found

    monkeypatch.setattr("graveler.spark.frames.SENT_BYTES", 25_000)
    schema, parts = pa.schema([("number", pa.int64())]), [(at, Random(at).randbytes(10_000)) for at in range(8)]
    frame = in_tasks(spark, parts, read, schema)
    assert [row.number for row in frame.collect()] == list(range(8))
    assert frame.rdd.getNumPartitions() == 8
    assert sorted(len(found) for found in _packed(parts)) == [2, 3, 3]
    assert max(sizes(frame)) < 40_000 < sum(sizes(frame))


def test_commits_branches_tags_ranges(spark: SparkSession, place: Place, lake: Lake) -> None:
    repository = lake.repository("repo")
    log = repository.log("main", amount=100).results
    found = graveler.spark.commits(spark, repository, "main").collect()
    assert [(c.id, tuple(c.parents), c.message, c.created, c.generation, c.metarange_id) for c in found] == [
        (c.id, c.parents, c.message, c.created, c.generation, c.metarange_id) for c in log
    ]
    repository.create_branch("hidden", "v1", hidden=True)
    names = {row.name: row.commit_id for row in graveler.spark.branches(spark, repository).collect()}
    assert names == {"main": place.commits[-1], "side": place.commits[0]}
    shown = graveler.spark.branches(spark, repository, show_hidden=True)
    assert {row.name for row in shown.collect()} == {*names, "hidden"}
    repository.delete_branch("hidden")
    assert graveler.spark.tags(spark, "repo", lake=lake).collect() == [("v1", place.commits[0])]
    tree = repository.tree("main")
    ranges = graveler.spark.ranges(spark, repository, "main").collect()
    infos = [tree.info(number) for number in range(len(tree))]
    assert [(r.name, r.first, r.last, r.objects, r.bytes) for r in ranges] == [
        (i.name, i.first.decode(), i.last.decode(), i.count, i.total) for i in infos
    ]
    assert sum(r.objects for r in ranges) == len(listed(repository, "main"))


@data_source
def test_an_empty_commit_has_no_rows(spark: SparkSession, place: Place) -> None:
    root = f"{place.commits[0]}~1"
    assert rows(place.load(spark, root)) == []
    assert graveler.spark.objects(spark, place.repository, root).count() == 0
    assert graveler.spark.ranges(spark, place.repository, root).count() == 0


def test_where_the_lake_is(spark: SparkSession, place: Place, shell: Shell, tmp_path: Path) -> None:
    shell.cd(tmp_path)
    with pytest.raises(NotFoundError, match="there is no lake"):
        graveler.spark.tags(spark, "repo")
    spark.conf.set("spark.graveler.lake", str(place.folder))
    try:
        assert graveler.spark.tags(spark, "repo").count() == 1
    finally:
        spark.conf.unset("spark.graveler.lake")
    shell.export("GRAVELER_LAKE", str(place.folder))
    assert graveler.spark.tags(spark, "repo").count() == 1


def test_what_is_wrong_is_told_by_the_driver(spark: SparkSession, place: Place) -> None:
    with pytest.raises(RefNotFoundError, match="'nowhere' not found"):
        graveler.spark.objects(spark, place.repository, "nowhere")
    with pytest.raises(RepositoryNotFoundError, match="'nothing' does not exist"):
        graveler.spark.objects(spark, "nothing", "main", lake=place.folder)


@pytest.mark.skipif(SPARK_4, reason="there is a data source")
def test_without_data_sources_it_is_said_what_to_do(spark: SparkSession) -> None:
    with pytest.raises(InvalidError, match=r"Spark 3\.5\.\d+ has no Python data sources.*graveler\.spark\.objects"):
        graveler.spark.register(spark)


@data_source
def test_what_is_wrong_with_options_is_told(spark: SparkSession, place: Place) -> None:
    assert place.load(spark, columns="size, path").columns == ["size", "path"]
    refusals: list[tuple[dict[str, str], str]] = [
        ({"ref": "nowhere"}, "ref 'nowhere' not found"),
        ({"repository": "nothing"}, "repository 'nothing' does not exist"),
        ({"lake": str(place.folder / "nowhere")}, "there is no lake"),
        ({"ref": ""}, "needs the option 'ref'"),
        ({"rows_per_task": "none"}, "give a number"),
        ({"columns": "etag"}, "no column 'etag'"),
        ({"prefx": "a/"}, "no option 'prefx'; is 'prefix' meant"),
        ({"timestampAsOf": "soon"}, "a number, a time such as 2026-06-01"),
        ({"snapshot": "1"}, "no option 'snapshot'. It has lake, .*, rows_per_task"),
    ]
    for options, message in share(refusals, 3, "refusals of reads"):
        with pytest.raises(AnalysisException, match=message):
            place.load(spark, **options)
