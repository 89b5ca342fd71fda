"""Transactions, reads and exports with a server beside the job: it keeps the refs, checks permissions, links and merges; files
go directly to the object store."""

import json
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import graveler.spark
from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.errors import (
    AlreadyExistsError,
    DirtyBranchError,
    ExpiredCommitError,
    ForbiddenError,
    GravelerError,
    NoChangesError,
    NotFoundError,
    RefNotFoundError,
    TouchedError,
)
from graveler.history.commits import CommitStore
from graveler.lake.exporting.export_folder import MARKER
from graveler.lake.merging.merge import STRATEGY_KEY
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.opening.location import AwsLake, open_at
from graveler.lake.repository import OpenRepository
from graveler.location.environment import ServedLake
from graveler.model import Commit
from graveler.remote.lake import RemoteLake
from graveler.remote.opening import connect
from graveler.remote.repository import RemoteRepository
from graveler.sdk.lake import Lake as LakeHandle
from graveler.spark.jobs.export import JOB
from graveler.spark.jobs.frame import run_job
from graveler.spark.linking import Mode
from tests.server.support import running, started
from tests.support.proxy import FaultyProxy, Reply
from tests.support.shell import Shell


class Scene(NamedTuple):
    """A server's URL, the repository ``repo`` as its own process sees it, access keys by their names."""

    url: str
    repository: OpenRepository
    keys: dict[str, tuple[str, str]]

    def place(self, key: str = "writer", url: str = "") -> ServedLake:
        key_id, secret = self.keys[key]
        return ServedLake(url=url or self.url, key_id=key_id, secret=secret)

    def branches(self) -> list[str]:
        return [branch.name for branch in self.repository.branches(show_hidden=True).results]


def make_keys(access: Access) -> dict[str, tuple[str, str]]:
    limits: dict[str, tuple[Role, tuple[str, ...]]] = {
        "writer": (Role.WRITER, ()),
        "reader": (Role.READER, ()),
        "no hidden ones": (Role.WRITER, ("main", "b-*")),
        "only hidden ones": (Role.WRITER, ("tx-*",)),
        "one branch": (Role.WRITER, ("limited", "tx-*")),
    }
    made = {name: access.create_key(name, role, (), branches) for name, (role, branches) in limits.items()}
    return {name: (one.key.key_id, one.secret) for name, one in made.items()}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("served")
    with create_folder_lake(folder / "lake") as lake:
        lake.create_repository("repo", f"file://{folder}/namespace")
        keys = make_keys(Access(lake.tables))
    with running(folder, workers=1, key=False) as server, open_folder_lake(folder / "lake") as lake:
        yield Scene(server.url, lake.repository("repo"), keys)


def events(spark: SparkSession, first: int, count: int) -> DataFrame:
    """Rows with a number and its rest by 2, in one task."""
    return spark.range(first, first + count, 1, 1).select("id", (sql.col("id") % 2).alias("p"))


def ids(spark: SparkSession, scene: Scene, ref: str, key: str = "reader") -> list[int]:
    frame = graveler.spark.read(spark, f"lakefs://repo/{ref}/tables/events", lake=scene.place(key))
    return sorted(row.id for row in frame.collect())


def test_what_a_transaction_writes_appears_at_once(
    spark: SparkSession, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graveler.remote.repository.PAGE", 2)  # so that few files take several requests
    repository = scene.repository
    repository.upload("main", "tables/events-old/x", b"not of this dataset")
    before = repository.commit("main", "a neighbour")
    shown = scene.branches()
    with graveler.spark.transaction(
        "repo", "main", message="Events", metadata={"k": "v"}, tag="v1", committer="ignored", lake=scene.place()
    ) as tx:
        written = tx.write(events(spark, 0, 6).repartition(2), "tables/events", partition_by="p")
        tx.write(events(spark, 0, 1), "tables/other")
        assert sorted(row.id for row in tx.read(spark, "tables/events").collect()) == list(range(6))
        assert repository.branch("main").commit_id == before.id
        assert [branch.name for branch in repository.branches().results] == shown
        assert scene.branches() == [*shown, tx.hidden]
        assert tx.delete("tables/other") == 1
    found = list(repository.objects("main", "tables/events/"))
    assert written.files == len(found) > 2
    for entry in found:
        data = repository.read("main", entry.path)
        assert (entry.size, entry.checksum) == (len(data), md5(data).hexdigest())
    merged = repository.commit_of("main")
    assert tx.merged == merged
    assert merged.parents[0] == before.id
    assert (merged.message, merged.committer, dict(merged.metadata)) == (
        "Events",
        "writer",
        {"k": "v", STRATEGY_KEY: "default"},
    )
    assert repository.tag("v1").commit_id == merged.id
    assert scene.branches() == shown

    def write(frame: DataFrame, mode: Mode) -> int:
        with graveler.spark.transaction("repo", "main", lake=scene.place()) as other:
            return other.write(frame, "tables/events", partition_by="p", mode=mode).removed

    assert write(events(spark, 11, 1), "append") == 0
    assert ids(spark, scene, "main") == [0, 1, 2, 3, 4, 5, 11]
    assert write(events(spark, 21, 1), "dynamic") > 1
    assert ids(spark, scene, "main") == [0, 2, 4, 21]
    assert write(events(spark, 31, 1), "overwrite") > 1
    assert ids(spark, scene, "main") == [31]
    assert ids(spark, scene, "v1") == list(range(6)), "the old version is there"
    assert repository.read("main", "tables/events-old/x") == b"not of this dataset"


def test_a_numbered_transaction_happens_once(spark: SparkSession, scene: Scene) -> None:
    repository = scene.repository
    repository.create_branch("b-numbered", "main")
    made: dict[int, Commit | None] = {}
    for version in (0, 1, 1, 0):
        with graveler.spark.transaction(
            "repo", "b-numbered", app_id="a/stream", version=version, lake=scene.place()
        ) as tx:
            tx.write(events(spark, version, 1), "tables/numbered")
        assert tx.repeated == (version in made)
        assert made.setdefault(version, tx.merged) == tx.merged
    assert made[1] == repository.commit_of("b-numbered")
    found = graveler.spark.read(spark, "lakefs://repo/b-numbered/tables/numbered", lake=scene.place("reader"))
    assert sorted(row.id for row in found.collect()) == [0, 1]


def test_of_two_who_replace_the_same_the_later_one_is_told(spark: SparkSession, scene: Scene) -> None:
    scene.repository.create_branch("b-two", "main")

    def both() -> None:
        with graveler.spark.transaction("repo", "b-two", lake=scene.place()) as slow:
            slow.write(events(spark, 1, 1), "tables/two", mode="overwrite")
            with graveler.spark.transaction(scene.repository, "b-two") as fast:
                fast.write(events(spark, 2, 1), "tables/two", mode="overwrite")

    with pytest.raises(TouchedError, match="below 'tables/two/' in 'b-two'") as told:
        both()
    assert told.value.prefix == "tables/two/"
    found = graveler.spark.read(spark, "lakefs://repo/b-two/tables/two", lake=scene.place("reader"))
    assert [row.id for row in found.collect()] == [2]
    assert [name for name in scene.branches() if name.startswith("tx-")] == [told.value.kept]
    with pytest.raises(TouchedError):
        graveler.spark.land("repo", told.value.kept, lake=scene.place())
    scene.repository.delete_branch(told.value.kept)


def test_uncommitted_changes_stand_in_the_way_only_of_what_changes_the_same(spark: SparkSession, scene: Scene) -> None:
    repository = scene.repository
    repository.create_branch("b-dirty", "main")
    repository.upload("b-dirty", "elsewhere", b"1")

    def write(staged: str) -> None:
        with graveler.spark.transaction("repo", "b-dirty", message="Mine", lake=scene.place()) as tx:
            tx.write(events(spark, 0, 3), "tables/dirty", mode="overwrite")
            repository.upload("b-dirty", staged, b"2")

    write("tables/dirt")
    with pytest.raises(DirtyBranchError, match="to objects that") as told:
        write("tables/dirty/stray")
    assert told.value.path == "tables/dirty/stray"
    repository.reset("b-dirty", prefix="tables/dirty/")
    merged = graveler.spark.land("repo", told.value.kept, lake=scene.place())
    assert (merged.id, merged.message) == (repository.branch("b-dirty").commit_id, "Mine")
    assert [one.path for one in repository.uncommitted("b-dirty").results] == ["elsewhere", "tables/dirt"]
    assert not [name for name in scene.branches() if name.startswith("tx-")]


def test_hundreds_of_partitions_that_were_kept_land_beside_others(spark: SparkSession, scene: Scene) -> None:
    """What lands later is the same request to the server as at the end."""
    repository = scene.repository
    repository.create_branch("b-partitions", "main")
    rows = spark.range(0, 150, 1, 1).select("id", sql.col("id").alias("p"))

    def write() -> None:
        with graveler.spark.transaction("repo", "b-partitions", lake=scene.place()) as tx:
            tx.write(rows, "tables/many", mode="dynamic", partition_by="p")
            repository.upload("b-partitions", "tables/many/p=7/stray", b"2")

    with pytest.raises(DirtyBranchError) as told:
        write()
    repository.reset("b-partitions")
    repository.upload("b-partitions", "tables/many/p=150/other", b"3")
    repository.commit("b-partitions", "another partition")
    merged = graveler.spark.land("repo", told.value.kept, lake=scene.place())
    assert merged.id == repository.branch("b-partitions").commit_id
    found = graveler.spark.read(spark, "lakefs://repo/b-partitions/tables/many/p=149", lake=scene.place("reader"))
    assert [row.id for row in found.collect()] == [149]
    assert repository.read("b-partitions", "tables/many/p=150/other") == b"3"


def test_several_steps_join_one_transaction(spark: SparkSession, scene: Scene) -> None:
    repository, place = scene.repository, scene.place()
    repository.create_branch("b-steps", "main")
    steps = graveler.spark.begin("repo", "b-steps", message="Nightly", lake=place)
    for number in range(2):
        with graveler.spark.transaction("repo", steps, lake=place) as tx:
            tx.write(events(spark, number, 1), f"tables/step-{number}", mode="overwrite")
    before = repository.branch("b-steps").commit_id
    merged = graveler.spark.land("repo", steps, lake=place)
    assert (merged.message, dict(merged.metadata)) == ("Nightly", {STRATEGY_KEY: "default"})
    assert merged.parents == (before,)
    found = {entry.path.rpartition("/")[0] for entry in repository.objects("b-steps", "tables/step-")}
    assert found == {"tables/step-0", "tables/step-1"}


def with_tag(scene: Scene, tag: str) -> None:
    with graveler.spark.transaction("repo", "main", tag=tag, lake=scene.place()):
        pass


def test_what_is_not_allowed_is_told_before_any_work_and_leaves_nothing(spark: SparkSession, scene: Scene) -> None:
    repository = scene.repository
    repository.create_branch("limited", "main")
    heads = {branch.name: branch.commit_id for branch in repository.branches(show_hidden=True).results}

    def refused(kind: type[GravelerError], match: str, branch: str = "main", key: str = "writer") -> None:
        with (
            pytest.raises(kind, match=match),
            graveler.spark.transaction("repo", branch, lake=scene.place(key)),
        ):
            raise AssertionError("not reached")

    refused(ForbiddenError, r"\(a reader\) may not change branch 'main'", key="reader")
    refused(ForbiddenError, "may not change branch 'tx-", key="no hidden ones")
    refused(ForbiddenError, "may not change branch 'main'", key="only hidden ones")
    refused(ForbiddenError, "may not change branch 'main'", key="one branch")
    refused(RefNotFoundError, "'nowhere'", branch="nowhere")
    with pytest.raises(NoChangesError), graveler.spark.transaction("repo", "limited", lake=scene.place("one branch")):
        pass
    repository.create_tag("taken", "main")
    with pytest.raises(AlreadyExistsError, match="'taken'"):
        with_tag(scene, "taken")
    with FaultyProxy(scene.url) as proxy:  # whose second POST is the one that links

        def end(operation: str, _: int) -> Reply | None:
            return refusal if operation == "POST" and proxy.seen.count("POST") == 2 else None

        refusal = Reply(401, b'{"message": "insufficient permissions", "detail": "ended"}')
        proxy.begin(end)
        lake = scene.place(url=proxy.url)
        with pytest.raises(ForbiddenError, match="ended"), graveler.spark.transaction("repo", "main", lake=lake) as tx:
            tx.write(events(spark, 0, 1), "tables/refused")
        assert proxy.seen.count("POST") == 2
    assert {branch.name: branch.commit_id for branch in repository.branches(show_hidden=True).results} == heads
    with pytest.raises(NotFoundError, match="no data files"):
        graveler.spark.read(spark, "lakefs://repo/main/tables/refused", lake=scene.place())


def test_handles_and_the_sessions_options_lead_to_the_server(spark: SparkSession, scene: Scene) -> None:
    scene.repository.create_branch("b-handles", "main")
    with LakeHandle(RemoteLake(connect(scene.place("writer"))), "") as lake:
        with graveler.spark.transaction(lake.repository("repo"), "b-handles") as tx:
            tx.write(events(spark, 0, 3), "tables/handles")
        uri = "lakefs://repo/b-handles/tables/handles"
        assert graveler.spark.read(spark, uri, lake=lake).count() == 3
        assert graveler.spark.read(spark, uri, lake=lake.repository("repo")).count() == 3
        assert lake.repository("repo").branch("b-handles").head.id, "its connection stays open"


def test_a_commit_that_has_expired_is_not_read(spark: SparkSession, scene: Scene) -> None:
    repository = scene.repository
    repository.create_branch("b-expired", "main")
    repository.upload("b-expired", "tables/events/x", b"1")
    old = repository.commit("b-expired", "old")
    repository.upload("b-expired", "tables/events/x", b"2")
    repository.commit("b-expired", "new")
    key = CommitStore(repository.tables, repository.repository.uid).key(old.id)
    repository.tables.put(key, {**(repository.tables.get(key) or {}), "expired": 1})
    with pytest.raises(ExpiredCommitError, match=f"commit {old.id[:16]} has expired"):
        graveler.spark.read(spark, f"lakefs://repo/{old.id}/tables/events", format="text", lake=scene.place("reader"))


def held_in(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_exports_and_manifests(
    spark: SparkSession,
    scene: Scene,
    tmp_path: Path,
    shell: Shell,
    capsys: pytest.CaptureFixture[str],
) -> None:
    repository, out = scene.repository, tmp_path / "out"
    repository.create_branch("b-export", repository.log("main").results[-1].id)
    for name in ("a", "b", "c"):
        repository.upload("b-export", f"x/{name}", name.encode())
    one = repository.commit("b-export", "one")
    report = graveler.spark.export(spark, "repo", one.id, f"file://{out}", prefix="x/", lake=scene.place("reader"))
    assert (report.written, report.commit_id) == (3, one.id)
    assert held_in(out) == {"a": b"a", "b": b"b", "c": b"c"}
    assert repository.export(one.id, out, prefix="x/").written == 0, "a lake that is open goes on with what was made"
    connection = connect(scene.place("reader"))
    RemoteRepository(connection, "repo").export(one.id, tmp_path / "by library", prefix="x/")
    connection.close()
    known = graveler.spark.export(
        spark, "repo", one.id, f"file://{tmp_path}/by library", prefix="x/", lake=scene.place("reader")
    )
    assert (known.written, known.removed, known.commit_id) == (0, 0, one.id)
    with pytest.raises(ForbiddenError, match="in the repository's own namespace"):
        graveler.spark.export(spark, "repo", one.id, f"{repository.repository.namespace}/x", lake=scene.place("reader"))
    with pytest.raises(RefNotFoundError, match="'nowhere'"):
        graveler.spark.export(spark, "repo", "nowhere", f"file://{out}", prefix="x/", lake=scene.place("reader"))

    made = graveler.spark.manifest(spark, "repo", "b-export", "x", f"file://{out}-manifest", lake=scene.place("reader"))
    assert (made.files, made.keys) == (3, ("symlink.txt",))
    urls = (tmp_path / "out-manifest" / "symlink.txt").read_text().splitlines()
    assert [Path(url.removeprefix("file://")).read_bytes() for url in urls] == [b"a", b"b", b"c"]

    repository.delete("b-export", ["x/a"])
    repository.upload("b-export", "x/c", b"changed")
    repository.commit("b-export", "two")
    key_id, secret = scene.keys["reader"]
    shell.export("GRAVELER_ACCESS_KEY_ID", key_id)
    shell.export("GRAVELER_SECRET_ACCESS_KEY", secret)
    said = ["--endpoint", scene.url, "--repository", "repo", "--ref", "b-export", "--destination", f"file://{out}"]
    assert run_job(JOB, [*said, "--prefix", "x/"], spark) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["written"], told["removed"]) == (1, 1)
    assert held_in(out) == {"b": b"b", "c": b"changed"}


def test_on_s3_the_job_needs_no_table(spark: SparkSession, aws: AwsLake, tmp_path: Path, shell: Shell) -> None:
    with open_at(aws) as lake:
        repository = lake.create_repository("served", f"{aws.objects}/served")
        keys = make_keys(Access(lake.tables))
        places = ["--objects", aws.objects, "--tables", aws.tables, "--region", str(aws.region)]
        places += ["--s3-endpoint-url", str(aws.s3_endpoint_url), "--cache", str(tmp_path / "cache")]
        places += ["--dynamodb-endpoint-url", str(aws.dynamodb_endpoint_url)]
        with started(tmp_path, *places, workers=1, key=False) as server:
            scene = Scene(server.url, repository, keys)
            shell.export("GRAVELER_ACCESS_KEY_ID", keys["writer"][0])
            shell.export("GRAVELER_SECRET_ACCESS_KEY", keys["writer"][1])
            spark.conf.set("spark.graveler.endpoint", server.url)
            spark.conf.set("spark.graveler.s3_endpoint_url", str(aws.s3_endpoint_url))
            spark.conf.set("spark.graveler.region", str(aws.region))
            try:
                with graveler.spark.transaction("served", "main") as tx:
                    tx.write(events(spark, 0, 4), "tables/events", partition_by="p")
                found = graveler.spark.read(spark, "lakefs://served/main/tables/events").where("p = 1")
                assert sorted(row.id for row in found.collect()) == [1, 3]
                urls = f"{aws.objects.removesuffix('/lake')}/manifest"
                assert graveler.spark.manifest(spark, "served", "main", "tables/events", urls).files == 2
            finally:
                for option in ("endpoint", "s3_endpoint_url", "region"):
                    spark.conf.unset(f"spark.graveler.{option}")
        assert scene.branches() == ["main"]
        stored = {one.key for one in repository.namespace.list("data/")}
        assert stored == {e.address.removeprefix(f"{aws.objects}/served/") for e in repository.objects("main")}
        assert repository.commit_of("main").committer == "writer"
