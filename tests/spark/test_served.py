"""Imports and reads with a server of the HTTP API beside the job: it keeps the refs, checks permissions, and makes the commit."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

import graveler.spark
from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.errors import (
    DirtyBranchError,
    EmptySourceError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.location.environment import ServedLake
from graveler.model import SplitParameters
from graveler.remote.connection import Connection, ServerRetries
from graveler.requests.importing import ImportChanges, ListingOptions
from graveler.spark import joining
from graveler.spark.importing import ImportReport, import_listing
from graveler.spark.jobs.frame import run_job
from graveler.spark.jobs.import_ import JOB
from graveler.spark.served import ServedRepository
from graveler.storage.objects.port import Objects
from graveler.tree.writer import join
from tests.server.support import Running, running
from tests.spark.listings import BASE, Row, frame_of, import_here, latest, rows_of
from tests.spark.test_import import never
from tests.support.proxy import FaultyProxy, Reply
from tests.support.shell import Shell

OPTIONS = ListingOptions(base=BASE, destination="in/")


class Scene(NamedTuple):
    """A server, the repository ``repo`` as its own process sees it, keys by role."""

    server: Running
    repository: OpenRepository
    keys: dict[str, tuple[str, str]]

    def place(self, role: str = "writer") -> ServedLake:
        key_id, secret = self.keys[role]
        return ServedLake(url=self.server.url, key_id=key_id, secret=secret)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("served")
    with create_folder_lake(folder / "lake") as lake:
        lake.create_repository("repo", f"file://{folder}/namespace")
        lake.create_repository("inside", "local://inside")
        access = Access(lake.tables)
        roles = {"writer": Role.WRITER, "reader": Role.READER, "gone": Role.WRITER}
        keys = {name: access.create_key(name, role, (), ()) for name, role in roles.items()}
    with running(folder, workers=1, key=False) as server, open_folder_lake(folder / "lake") as lake:
        yield Scene(server, lake.repository("repo"), {name: (one.key.key_id, one.secret) for name, one in keys.items()})


def run(spark: SparkSession, scene: Scene, listing: DataFrame, branch: str = "main", role: str = "writer") -> object:
    return import_listing(
        spark, "repo", branch, listing, OPTIONS, partitions=2, message="By a job", lake=scene.place(role)
    )


def test_the_commit_is_the_one_that_an_import_here_makes(spark: SparkSession, scene: Scene) -> None:
    repository = scene.repository
    import_here(repository, "main", [Row("k", 1, "02", 1 << 20)], "outside/")
    import_here(repository, "main", [Row("old", 1, "02", 1 << 20)], "in/")
    repository.create_branch("here", "main")
    rows = rows_of(Random(1), 90, duplicates=0.1)
    report = import_listing(
        spark, "repo", "main", frame_of(spark, rows), OPTIONS, partitions=3, message="By a job", lake=scene.place()
    )
    assert report.commit == repository.commit_of("main")
    assert (report.commit.message, report.commit.committer) == ("By a job", "writer")
    assert report.commit.metarange_id == import_here(repository, "here", rows, "in/")
    assert report.built is not None
    assert report.built.objects == len(latest(rows))
    read = graveler.spark.objects(spark, "repo", "main", prefix="in/", lake=scene.place("reader"))
    assert {row.path for row in read.collect()} == {e.path for e in repository.objects("main", "in/")}
    changes = graveler.spark.diff(spark, "repo", "main~1", "main", lake=scene.place("reader"))
    assert changes.where("type = 'removed'").collect()[0].path == "in/old"
    assert graveler.spark.commits(spark, "repo", "main", lake=scene.place("reader")).count() == 4


def test_a_branch_that_is_cut_otherwise_gets_a_tree_that_is_cut_so(spark: SparkSession, scene: Scene) -> None:
    """And the server need not read it: the metarange says how it is cut."""
    repository = scene.repository
    split = SplitParameters(min_size=200, max_size=2_000, raggedness=3)
    for branch in ("cut", "cut-here"):
        repository.create_branch(branch, "main")
        import_here(repository, branch, [Row(f"{number:03}", 1, "02", 1 << 20) for number in range(60)], "outside/")
        repository.rewrite(branch, split)
    rows = rows_of(Random(5), 50)
    run(spark, scene, frame_of(spark, rows), "cut")
    head = repository.commit_of("cut")
    assert head.metarange_id == import_here(repository, "cut-here", rows, "in/")
    assert repository.tree("cut").cut_by == split


def test_an_import_of_nothing_is_refused_and_a_dry_run_tells(spark: SparkSession, scene: Scene) -> None:
    scene.repository.create_branch("empty", "main")
    import_here(scene.repository, "empty", [Row("a", 1, "03", 1 << 20), Row("b", 2, "04", 1 << 20)], "in/")
    head = scene.repository.branch("empty")
    frame = frame_of(spark, [Row("b", 3, "05", 1 << 20), Row("c", 4, "06", 1 << 20)])

    def again(listing: DataFrame, *, allow_empty: bool = False, dry_run: bool = False) -> ImportReport:
        return import_listing(
            spark,
            "repo",
            "empty",
            listing,
            OPTIONS,
            partitions=1,
            allow_empty=allow_empty,
            dry_run=dry_run,
            lake=scene.place(),
        )

    for dry_run in (False, True):
        with pytest.raises(EmptySourceError, match="lists no objects for 'in/'"):
            again(frame.limit(0), dry_run=dry_run)
    planned = again(frame, dry_run=True)
    assert (planned.commit.id, planned.commit.parents) == ("", (head.commit_id,))
    assert scene.repository.branch("empty") == head
    made = again(frame)
    assert made.changes == planned.changes == ImportChanges(1, 4, 1, 2, 3, 1, 1)
    assert again(frame.limit(0), allow_empty=True).changes == ImportChanges(removed=2, removed_bytes=7)


def test_a_branch_that_moved_meanwhile_keeps_what_it_got(
    spark: SparkSession, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.repository.create_branch("moving", "main")
    kept = {entry.path for entry in scene.repository.objects("moving") if not entry.path.startswith("in/")}
    moved: list[str] = []

    def join_and_move(*arguments: object) -> object:
        if not moved:
            moved.append(import_here(scene.repository, "moving", [Row("x", 1, "03", 1 << 20)], "elsewhere/"))
            import_here(scene.repository, "moving", [Row("x", 1, "03", 1 << 20)], "in/")
        return join(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(joining, "join", join_and_move)
    tries: list[str] = []
    commit = ServedRepository._commit

    def commit_and_move(self: ServedRepository, branch: str, *arguments: object) -> object:
        tries.append(branch)
        if len(tries) == 2:  # between the look at the branch and the commit; the first was the question whether it may
            import_here(scene.repository, "moving", [Row("y", 1, "03", 1 << 20)], "late/")
        return commit(self, branch, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ServedRepository, "_commit", commit_and_move)
    rows = rows_of(Random(2), 20)
    run(spark, scene, frame_of(spark, rows), "moving")
    assert len(tries) == 3
    found = {entry.path for entry in scene.repository.objects("moving")}
    assert found == kept | {"elsewhere/x", "late/y"} | {f"in/{row.key}" for row in rows}


def test_what_is_not_allowed_is_told_before_the_listing_is_read(spark: SparkSession, scene: Scene) -> None:
    repository = scene.repository

    def refused(kind: type[Exception], match: str, branch: str = "main", role: str = "writer") -> None:
        with pytest.raises(kind, match=match):
            run(spark, scene, never(spark), branch, role)

    refused(ForbiddenError, "reader", role="reader")
    refused(RefNotFoundError, "'nowhere'", branch="nowhere")
    repository.set_protection(["guarded"])
    repository.create_branch("guarded", "main")
    refused(ForbiddenError, "'guarded' is protected", branch="guarded")
    repository.create_branch("dirty", "main")
    repository.upload("dirty", "x", b"1")
    refused(DirtyBranchError, "'dirty' has uncommitted changes", branch="dirty")
    Access(repository.tables).revoke(scene.keys["gone"][0])
    refused(ForbiddenError, "authenticating", role="gone")
    with pytest.raises(InvalidError, match=r"is in the server's own folder \(local://inside\)"):
        graveler.spark.objects(spark, "inside", "main", lake=scene.place())
    with pytest.raises(NotFoundError, match="'other' does not exist"):
        graveler.spark.objects(spark, "other", "main", lake=scene.place())
    with pytest.raises(InvalidError, match="request ID"):
        import_listing(spark, "repo", "main", never(spark), OPTIONS, request_id="r", lake=scene.place())


def test_a_metarange_that_has_expired_before_the_commit_is_told(
    spark: SparkSession, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.repository.create_branch("slow", "main")
    commit = ServedRepository._commit
    names: list[str] = []

    def half_a_day_later(self: ServedRepository, branch: str, head: object, name: str, *rest: object) -> object:
        names.append(name)
        if len(names) == 2:
            age = Path(path_of(self.namespace, name)).stat().st_mtime - 50_000
            os.utime(path_of(self.namespace, name), (age, age))
        return commit(self, branch, head, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ServedRepository, "_commit", half_a_day_later)
    before = scene.repository.branch("slow").commit_id
    with pytest.raises(
        PreconditionError, match=r"was written 14 hours ago and may be garbage-collected; write it again"
    ):
        run(spark, scene, frame_of(spark, rows_of(Random(3), 5)), "slow")
    assert scene.repository.branch("slow").commit_id == before
    run(spark, scene, frame_of(spark, rows_of(Random(3), 5)), "slow")
    assert scene.repository.branch("slow").commit_id != before, "the same file, written again, is young"


def path_of(objects: Objects, name: str) -> str:
    return f"{objects.namespace.removeprefix('file://')}/_graveler/metaranges/{name}"


def test_a_key_that_ends_while_tasks_are_at_work(spark: SparkSession, scene: Scene) -> None:
    """The server's own sentence, given by a proxy from the second question on: a server learns of a key's end in some seconds."""
    before = scene.repository.branch("main").commit_id
    refused = scene.server.ask("GET", "/api/v1/repositories/repo", authorised=False)
    assert refused.status == 401
    with FaultyProxy(scene.server.url) as proxy:
        asked = [0]

        def end(operation: str, _: int) -> Reply | None:
            asked[0] += operation == "POST"
            return Reply(401, refused.body, {"Content-Type": "application/json"}) if asked[0] > 1 else None

        proxy.begin(end)
        key_id, secret = scene.keys["writer"]
        lake = ServedLake(url=proxy.url, key_id=key_id, secret=secret)
        with pytest.raises(ForbiddenError, match=refused.json()["message"]):
            import_listing(spark, "repo", "main", frame_of(spark, rows_of(Random(4), 5)), OPTIONS, lake=lake)
        assert asked[0] == 2
    assert scene.repository.branch("main").commit_id == before


def test_the_job_through_a_server(
    spark: SparkSession,
    scene: Scene,
    tmp_path: Path,
    shell: Shell,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key_id, secret = scene.keys["writer"]
    shell.export("GRAVELER_ACCESS_KEY_ID", key_id)
    shell.export("GRAVELER_SECRET_ACCESS_KEY", secret)
    (tmp_path / "listing.csv").write_text("key,size,etag\na,1,00\n")
    said = ["--repository", "repo", "--branch", "main", "--listing", str(tmp_path / "listing.csv"), "--base", BASE]
    arguments = ["--endpoint", scene.server.url, *said, "--destination", "by-job/", "--partitions", "1"]
    assert run_job(JOB, arguments, spark) == 0
    told = capsys.readouterr()
    assert json.loads(told.out.splitlines()[-1])["commit"] == scene.repository.branch("main").commit_id
    assert [entry.path for entry in scene.repository.objects("main", "by-job/")] == ["by-job/a"]
    shell.export("GRAVELER_SECRET_ACCESS_KEY", "wrong")
    assert run_job(JOB, arguments, spark) == 6
    assert capsys.readouterr().err.startswith("error: import: ")
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1"):
        ServedRepository(Connection("http://127.0.0.1:1", "k", "s", retries=ServerRetries(attempts=1)), "repo")
