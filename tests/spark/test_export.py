"""Exports: a bucket or folder that holds what a commit has, kept up to date by what differs; manifests for other engines."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Barrier
from typing import Any, cast
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import graveler.spark
from graveler.errors import (
    BusyError,
    CorruptError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)
from graveler.lake.exporting.export_folder import MARKER, ExportFolder, ExportFolderError
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.location import AwsLake, open_at
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.spark import exports, leases
from graveler.spark.destinations import Destination
from graveler.spark.export_tasks import LEASE
from graveler.spark.jobs.export import JOB
from graveler.spark.jobs.frame import run_job
from graveler.spark.leases import held
from graveler.spark.slices import TwoSlices
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects, Sent, StoredObject
from tests.spark.listings import TINY


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[OpenRepository]:
    with create_folder_lake(tmp_path / "lake") as lake:
        yield fill(lake.create_repository("repo", "local://repo", split=TINY))


def fill(repository: OpenRepository) -> OpenRepository:
    """Forty objects, of which v2 has changed one, removed one, and added one."""
    for number in range(40):
        repository.upload("main", f"{'ab'[number % 2]}/{number:02}", f"object {number}".encode())
    repository.commit("main", "one")
    repository.create_tag("v1", "main")
    repository.upload("main", "a/00", b"changed")
    repository.delete("main", ["a/02"])
    repository.upload("main", "a/100", b"added")
    repository.commit("main", "two")
    repository.create_tag("v2", "main")
    return repository


def contents(repository: OpenRepository, ref: str, prefix: str = "") -> dict[str, bytes]:
    commit = repository.commit_of(ref).id
    return {e.path[len(prefix) :]: repository.read(commit, e.path) for e in repository.objects(commit, prefix)}


def held_in(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_an_export_follows_the_ref_by_what_differs(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    url = f"file://{out}"
    first = graveler.spark.export(spark, repository, "v1", url, objects_per_task=7)
    assert held_in(out) == contents(repository, "v1")
    size = sum(map(len, contents(repository, "v1").values()))
    assert (first.written, first.removed, first.kept, first.size) == (40, 0, 0, size)
    second = graveler.spark.export(spark, repository, "v2", url)
    assert held_in(out) == contents(repository, "v2")
    assert (second.written, second.removed, second.size) == (2, 1, len(b"changedadded"))
    assert second.commit_id == repository.commit_of("v2").id
    assert graveler.spark.export(spark, repository, "v2", url).written == 0
    assert repository.export("v1", out).written == 2, "the library goes on with what Spark made"
    assert held_in(out) == contents(repository, "v1")


def test_what_was_interrupted_is_finished_and_what_is_there_is_not_written_again(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    entry = repository.stat("v1", "b/39")
    (lost,) = [entry.address.removeprefix("local://repo/")]
    data = repository.namespace.get(lost)
    repository.namespace.delete(lost)
    with pytest.raises(UnavailableError, match=r"1 objects failed: 'b/39': .*does not exist.*only missing objects"):
        graveler.spark.export(spark, repository, "v1", f"file://{out}", objects_per_task=5)
    assert '"started"' in (out / MARKER).read_text()
    assert len(held_in(out)) == 39
    repository.namespace.put(lost, b"something else")
    with pytest.raises(CorruptError, match=r"'b/39': the bytes of 'b/39' are not the ones"):
        graveler.spark.export(spark, repository, "v2", f"file://{out}")
    repository.namespace.put(lost, data)
    (out / "a/04").write_bytes(b"damaged by somebody")
    report = graveler.spark.export(spark, repository, "v2", f"file://{out}")
    assert held_in(out) == contents(repository, "v2")
    assert (report.written, report.removed) == (2, 0)
    assert report.kept >= 38


def test_an_attempt_of_a_task_that_goes_on_behind_its_export_changes_nothing(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    url = f"file://{out}"
    late: list[tuple[Callable[[TwoSlices], object], TwoSlices]] = []
    run = exports._run

    def noted(session: SparkSession, parts: Sequence[TwoSlices], work: Any, doing: str, destination: str) -> Any:
        if not doing.startswith("looking"):
            late.extend((work, part) for part in parts)
        return run(session, parts, work, doing, destination)

    monkeypatch.setattr(exports, "_run", noted)

    def come_late() -> None:
        """Let each task that there was do its work again."""
        refused = 0
        for work, part in late:
            try:
                list(cast(Iterator[object], work(part)))
            except BusyError:
                refused += 1
        assert refused

    def cancelled(_: object) -> None:
        raise UnavailableError("the job was cancelled")

    graveler.spark.export(spark, repository, "v1", url)
    come_late()
    graveler.spark.export(spark, repository, "v2", url)
    graveler.spark.export(spark, repository, "v1", url)
    come_late()
    assert held_in(out) == contents(repository, "v1")
    with monkeypatch.context() as patch:
        patch.setattr(exports, "expect_turn", cancelled)
        with pytest.raises(UnavailableError, match="cancelled"):
            graveler.spark.export(spark, repository, "v2", url)
    repository.export("v1", out)
    come_late()
    assert held_in(out) == contents(repository, "v1")


def test_objects_of_which_nobody_knows_a_checksum_are_written_again(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for number in range(2):
        (tmp_path / f"{number}").write_text(f"bytes {number}")
        repository.link("main", ObjectEntry("a/linked", f"file://{tmp_path}/{number}", 7, "", 5))
        repository.commit("main", "linked")
        graveler.spark.export(spark, repository, "main", f"file://{out}", prefix="a/")
        assert (out / "linked").read_text() == f"bytes {number}"


def test_two_exports_at_once_to_one_place(spark: SparkSession, repository: OpenRepository, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/out"
    with (
        ExportFolder(tmp_path / "out").claimed(),
        pytest.raises(BusyError, match=r"another export to .* is in progress"),
    ):
        graveler.spark.export(spark, repository, "v1", url)
    assert held_in(tmp_path / "out") == {}
    assert graveler.spark.export(spark, repository, "v1", url).written == 40


def test_verify_mends_what_was_changed_there(spark: SparkSession, repository: OpenRepository, tmp_path: Path) -> None:
    out = tmp_path / "out"
    graveler.spark.export(spark, repository, "v1", f"file://{out}", prefix="a/")
    assert held_in(out) == contents(repository, "v1", "a/")
    (out / "04").write_bytes(b"damaged!")
    (out / "06").unlink()
    (out / "not of the export").write_bytes(b"mine")
    assert graveler.spark.export(spark, repository, "v1", f"file://{out}", prefix="a/").written == 0
    report = graveler.spark.export(spark, repository, "v1", f"file://{out}", prefix="a/", verify=True)
    assert (report.written, report.kept) == (2, 18)
    assert held_in(out) == contents(repository, "v1", "a/") | {"not of the export": b"mine"}


def test_places_that_are_something_else_are_refused(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    url = f"file://{out}"

    def refused(kind: type[Exception], match: str, ref: str = "v1", place: str = url, prefix: str = "") -> None:
        with pytest.raises(kind, match=match):
            graveler.spark.export(spark, repository, ref, place, prefix=prefix)

    out.mkdir()
    (out / "mine").write_bytes(b"mine")
    refused(ExportFolderError, "is neither empty nor an export")
    (out / "mine").unlink()
    graveler.spark.export(spark, repository, "v1", url, prefix="a/")
    refused(ExportFolderError, "contains an export of 'a/', not of 'all objects'")
    refused(InvalidError, "empty or end with '/'", prefix="a")
    refused(NotFoundError, "'nowhere'", ref="nowhere")
    refused(InvalidError, "ftp", place="ftp://x/y")
    refused(ForbiddenError, "the lake's own folder", place=f"file://{tmp_path}/lake/x")
    marker = out / MARKER
    marker.write_text(marker.read_text().replace(repository.commit_of("v1").id, "0" * 64))
    refused(PreconditionError, "which is gone", prefix="a/")
    repository.link("main", ObjectEntry("a/x//y", "s3://elsewhere/x", 1, "", 0))
    repository.commit("main", "a name that no file can have")
    refused(
        InvalidError, r"1 objects failed: 'a/x//y': .*Nothing was changed", ref="main", place=f"file://{tmp_path}/new"
    )
    assert not (tmp_path / "new" / MARKER).exists()


def test_names_that_a_folder_cannot_have_are_told_before_anything_is_changed(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    graveler.spark.export(spark, repository, "v1", f"file://{out}", prefix="a/")

    def refused(match: str, *paths: str, place: Path = out) -> None:
        for path in paths:
            repository.upload("main", path, b"")
        commit = repository.commit("main", "odd names").id
        with pytest.raises(InvalidError, match=rf"{match}.*Nothing was changed"):
            graveler.spark.export(spark, repository, commit, f"file://{place}", prefix="a/")
        repository.delete("main", paths)

    refused(r"1 objects failed: 'a/x{256}': is too long", f"a/{256 * 'x'}")
    refused("1 objects failed: 'a/04': is also a folder of another object", "a/04/x/y")
    refused("2 objects failed: .*is also a folder", "a/04/x/y", "a/04/x", place=tmp_path / "new")
    assert held_in(out) == contents(repository, "v1", "a/")
    assert held_in(tmp_path / "new") == {}


def test_an_export_to_a_bucket(spark: SparkSession, aws: AwsLake) -> None:
    with open_at(aws) as lake:
        repository = fill(lake.create_repository("export", f"{aws.objects}/export", split=TINY))
        bucket = aws.objects.removeprefix("s3://").partition("/")[0]
        url = f"s3://{bucket}/exported/here"

        def there() -> dict[str, bytes]:
            objects: Objects = repository.store_at(f"{url}/x")[0]
            keys = [one.key for one in objects.list("exported/here/") if not one.key.endswith(MARKER)]
            return {key.removeprefix("exported/here/"): objects.get(key) for key in keys}

        assert graveler.spark.export(spark, repository, "v1", url, objects_per_task=20).written == 40
        assert there() == contents(repository, "v1")
        assert graveler.spark.export(spark, repository, "v2", url).written == 2
        assert there() == contents(repository, "v2")
        report = graveler.spark.export(spark, repository, "v2", url, verify=True)
        assert (report.written, report.kept) == (0, 40), "ETags tell"
        store = repository.store_at(f"{url}/x")[0]
        with (
            patch.object(leases, "SECONDS", 5.0),  # and so a sign of life each second
            held(store, f"exported/here/{LEASE}", repository.clock, "test"),
            pytest.raises(BusyError, match=f"another export to '{url}' is in progress"),
        ):
            graveler.spark.export(spark, repository, "v1", url)
        assert there() == contents(repository, "v2"), "nothing was changed"
        assert graveler.spark.export(spark, repository, "v1", url).written == 2


class TwoAtOnce(FolderObjects):
    """A folder in which nothing is put or deleted alone."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, f"file://{root}")
        self._others = Barrier(2)

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        self._others.wait(60)
        return super().put(key, data, if_absent=if_absent, sent=sent)

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        self._others.wait(60)
        super().delete(key, if_match=if_match)


def test_files_of_a_manifest_are_written_several_at_once(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(spark.range(8).selectExpr("id", "id as p"), "t", partition_by="p")
    with graveler.spark.transaction(repository, "main") as tx:
        for p in range(2):
            tx.delete(f"t/p={p}")
    out = tmp_path / "manifest"
    place = Destination(TwoAtOnce(out), "")
    monkeypatch.setattr("graveler.spark.manifests.destination_at", lambda *_: place)
    made = graveler.spark.manifest(spark, repository, "main~1", "t", "file:///elsewhere")
    assert sorted(held_in(out)) == list(made.keys) == [f"p={p}/symlink.txt" for p in range(8)]
    made = graveler.spark.manifest(spark, repository, "main", "t", "file:///elsewhere")
    assert sorted(held_in(out)) == list(made.keys) == [f"p={p}/symlink.txt" for p in range(2, 8)]


def test_manifests_name_the_files_where_they_lie(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    frame = spark.range(10).selectExpr("id", "id % 2 as p")
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(frame, "t", partition_by="p")
    out = tmp_path / "manifest"
    made = graveler.spark.manifest(spark, repository, "main", "t", f"file://{out}")
    assert sorted(held_in(out)) == sorted(made.keys) == ["p=0/symlink.txt", "p=1/symlink.txt"]
    urls = (out / "p=0" / "symlink.txt").read_text().splitlines()
    assert len(urls) == sum(e.path.startswith("t/p=0/") for e in repository.objects("main"))
    assert spark.read.parquet(*urls).count() == 5
    with graveler.spark.transaction(repository, "main") as tx:
        tx.delete("t/p=1")
    assert graveler.spark.manifest(spark, repository, "main", "t", f"file://{out}").keys == ("p=0/symlink.txt",)
    assert sorted(held_in(out)) == ["p=0/symlink.txt"]
    table = graveler.spark.manifest(spark, repository, "main~1", "t/", f"file://{out}/table", format="parquet")
    rows = spark.read.parquet(f"{out}/table/manifest.parquet").collect()
    assert {row.path: row["size"] for row in rows} == {e.path: e.size for e in repository.objects("main~1", "t/")}
    assert (table.files, table.size) == (len(rows), sum(row["size"] for row in rows))
    assert spark.read.parquet(*(row.url for row in rows)).count() == 10
    with pytest.raises(NotFoundError, match="no data files"):
        graveler.spark.manifest(spark, repository, "main", "nothing", f"file://{out}")
    with pytest.raises(InvalidError, match="neither 'symlink' nor 'parquet'"):
        graveler.spark.manifest(spark, repository, "main", "t", f"file://{out}", format="delta")  # type: ignore[arg-type]


def test_the_job(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    where = ["--lake", str(tmp_path / "lake"), "--repository", "repo", "--destination", f"file://{out}"]
    assert run_job(JOB, [*where, "--ref", "v1", "--prefix", "a/"], spark) == 0
    assert held_in(out) == contents(repository, "v1", "a/")
    told = capfd.readouterr()
    assert "export: wrote 20 objects (" in told.err
    figures = json.loads(told.out.splitlines()[-1])
    assert (figures["written"], figures["commit_id"]) == (20, repository.commit_of("v1").id)
    assert run_job(JOB, [*where, "--ref", "v1"], spark) == 4
    assert "error: export: " in capfd.readouterr().err
    manifest = [*where[:-1], f"file://{out}-manifest", "--ref", "v1", "--prefix", "a", "--manifest", "parquet"]
    assert run_job(JOB, manifest, spark) == 0
    assert "20 files (" in capfd.readouterr().err
    assert run_job(JOB, [*manifest, "--verify"], spark) == 2
