"""Differences of two refs as a data frame."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import Row, SparkSession

import graveler.spark
from graveler.errors import InvalidError, RefNotFoundError
from graveler.lake.repository import OpenRepository
from graveler.model import Change, ChangeType, ObjectEntry
from tests.spark.histories import entry_of, grow, stage
from tests.spark.listings import make_repository


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> OpenRepository:
    made = make_repository(tmp_path_factory.mktemp("diff") / "lake")
    grow(made, Random(11), commits=3, changes=100)
    made.create_branch("side", "main~1")
    made.delete("side", [entry.path for entry in made.objects("side", "a/")])
    made.commit("side", "without a/")
    return made


def changes(frame_rows: list[Row]) -> list[Change]:
    def side(path: str, value: Row | None) -> ObjectEntry | None:
        return None if value is None else ObjectEntry(path=path, **value.asDict())

    found = [Change(ChangeType(r.type), r.path, side(r.path, r.before), side(r.path, r.after)) for r in frame_rows]
    return sorted(found, key=lambda change: change.path.encode())


def test_the_frame_has_what_the_library_finds(spark: SparkSession, repository: OpenRepository) -> None:
    root = repository.log("main", amount=100).results[-1].id
    random = Random(2)
    for left, right in (("main~1", "main"), ("main", "side"), (root, "main"), ("main", root), ("main", "main")):
        prefix, tasks = random.choice(["", "a/", "x"]), random.choice([1, 30, 100_000])
        frame = graveler.spark.diff(spark, repository, left, right, prefix=prefix, rows_per_task=tasks)
        wanted = repository.diff(left, right, prefix=prefix, amount=10_000).results
        assert changes(frame.collect()) == list(wanted), (left, right, prefix, tasks)


def test_three_dots(spark: SparkSession, repository: OpenRepository) -> None:
    frame = graveler.spark.diff(spark, repository, "main", "side", from_base=True)
    assert changes(frame.collect()) == list(repository.compare("main", "side", amount=10_000).results)
    assert {change.type for change in changes(frame.collect())} == {ChangeType.REMOVED}


def test_ranges_that_do_not_differ_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "lake")
    random = Random(4)
    grow(repository, random, commits=1, changes=300)
    changed = [entry.path for entry in repository.objects("main", "a/b/")][:2]
    stage(repository, (entry_of(random, path, "s3://elsewhere") for path in changed))
    repository.commit("main", "two changes")
    before, after = repository.tree("main~1"), repository.tree("main")
    common = {before.info(n).name for n in range(len(before))} & {after.info(n).name for n in range(len(after))}
    assert len(common) > 20
    for name in common:
        repository.namespace.delete(f"_graveler/ranges/{name}")
    frame = graveler.spark.diff(spark, repository, "main~1", "main")
    assert sorted(row.path for row in frame.collect()) == sorted(changed)


def test_what_is_wrong_is_told_by_the_driver(spark: SparkSession, repository: OpenRepository) -> None:
    with pytest.raises(RefNotFoundError, match="'nowhere'"):
        graveler.spark.diff(spark, repository, "main", "nowhere")
    other = repository.diff("main", "side", amount=1).commits
    assert len(other) == 2
    with pytest.raises(InvalidError, match="rows"):
        graveler.spark.diff(spark, repository, "main", "side", rows_per_task=0)
