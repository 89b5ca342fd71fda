"""A writer of one repository tries to read another one through sources and namespaces that hold it."""

import json
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.access.sources import ImportSources
from graveler.api.settings import Settings
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.repositories import namespace_key, repository_key
from tests.api.support import Client, EventClient, basic, make_world
from tests.api.test_listing_imports import packed, row
from tests.cli.support import run
from tests.server.support import Answered, Running, running

TEAM = "/repositories/team-data/branches/main"


@pytest.fixture(scope="module", params=["file", "s3"])
def deployment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[EventClient, str]:
    """The API with a source, ``data/``, in which a repository has its namespace: ``data/ext``. As of a folder, and as of a
    deployment in which that is a data bucket."""
    source = "s3://data/" if request.param == "s3" else f"file://{tmp_path_factory.mktemp('sources')}/data/"
    world = make_world(Settings(import_sources=ImportSources([source])))
    world.lake.create_repository("team-data", "mem://team-data")
    world.lake.create_repository("hr-private", f"{source}ext")
    return EventClient(world), source


def key(client: EventClient, *patterns: str) -> str:
    return basic(client.world.access.create_key("ann", Role.WRITER, patterns))


def statuses(client: Client, authorization: str, address: str) -> set[int]:
    """Of linking, staging and importing an object."""
    said = {"checksum": "00" * 16, "size_bytes": 1}
    staging = {**said, "staging": {"physical_address": address}}
    path = {"type": "object", "path": address, "destination": "x"}
    return {
        client("PUT", f"{TEAM}/staging/backing", {"path": "a"}, staging, authorization=authorization).status,
        client(
            "POST", f"{TEAM}/staging/links", (), {"objects": [{**staging, "path": "a"}]}, authorization=authorization
        ).status,
        client(
            "PUT", f"{TEAM}/objects", {"path": "a"}, {**said, "physical_address": address}, authorization=authorization
        ).status,
        client("POST", f"{TEAM}/import", (), {"paths": [path]}, authorization=authorization).status,
    }


def test_anothers_namespace_in_a_source_is_none(deployment: tuple[EventClient, str]) -> None:
    client, source = deployment
    team, both, every = key(client, "team-*"), key(client, "team-*", "hr-*"), key(client)
    inside = f"{source}ext/data/x"
    assert statuses(client, team, inside) == {403}
    assert statuses(client, team, f"{source}external/x") == {200, 201, 202}
    for readable in (both, every):
        assert statuses(client, readable, inside) == {200, 201, 202}


@pytest.mark.parametrize(
    ("prefix", "status"),
    [("ext/", 403), ("ext/data/", 403), ("ext", 403), ("ex", 403), ("", 403), ("external/", 202), ("ext/data/x", 403)],
)
def test_a_prefix_that_meets_anothers_namespace_is_refused(
    deployment: tuple[EventClient, str], prefix: str, status: int
) -> None:
    client, source = deployment
    path = {"type": "common_prefix", "path": f"{source}{prefix}", "destination": "y"}
    answer = client("POST", f"{TEAM}/import", (), {"paths": [path]}, authorization=key(client, "team-*"))
    assert answer.status == status
    assert "hr-private" not in answer.body.decode(), "a key that sees no others learns no names"
    assert client("POST", f"{TEAM}/import", (), {"paths": [path]}, authorization=key(client)).status == 202


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str, Path]]:
    """A server, an admin's key for ``team-*`` alone, and its import source, in which ``hr-private`` lies, behind a link."""
    folder = tmp_path_factory.mktemp("neighbours")
    (folder / "data").mkdir()
    (folder / "alias").symlink_to("data")
    with create_folder_lake(folder / "lake") as lake:
        lake.create_repository("team-data", "local://team-data")
        lake.create_repository("hr-private", f"file://{folder}/alias/ext").upload("main", "salaries", b"secret")
        made = Access(lake.tables).create_key("ann", Role.ADMIN, ("team-*",), ())
    with running(folder, "--import-source", f"file://{folder}/data/", workers=2) as server:
        word = b64encode(f"{made.key.key_id}:{made.secret}".encode()).decode()
        yield server, f"Basic {word}", folder


def ask(scene: tuple[Running, str, Path], method: str, path: str, body: object) -> Answered:
    server, authorization, _ = scene
    headers = {"authorization": authorization, "content-type": "application/json"}
    return server.ask(method, f"/api/v1{path}", json.dumps(body).encode(), headers, authorised=False)


def test_a_real_server_reads_nothing_of_anothers_namespace(scene: tuple[Running, str, Path]) -> None:
    server, _, folder = scene
    [salaries] = [path for path in (folder / "data" / "ext" / "data").rglob("*") if path.is_file()]
    said = {"checksum": "00" * 16, "size_bytes": 6, "staging": {"physical_address": f"file://{salaries}"}}
    assert ask(scene, "PUT", f"{TEAM}/staging/backing?path=a", said).status == 403
    for prefix in ("data/", "data/ext/", "data/ext/data/"):
        path = {"type": "common_prefix", "path": f"file://{folder}/{prefix}", "destination": "y"}
        assert ask(scene, "POST", f"{TEAM}/import", {"paths": [path], "commit": {"message": "m"}}).status == 403
    every = server.ask_json("PUT", f"/api/v1{TEAM}/staging/backing?path=a", said)
    assert every.status == 200, "who may read all repositories may link"


def test_an_uploaded_listing_names_nothing_of_anothers_namespace(scene: tuple[Running, str, Path]) -> None:
    _, _, folder = scene
    for name, fine in (("ext/data/x", False), ("external", True)):
        listing = packed([row("x", f"file://{folder}/data/{name}")])
        where = ask(scene, "GET", f"{TEAM}/staging/backing?path=listing&presign=true", None).json()
        assert scene[0].ask("PUT", where["presigned_url"], listing, authorised=False).status == 200
        asked = {
            "path": "listing",
            "physical_address": where["physical_address"],
            "destination": "in/",
            "commit": {"message": "m"},
            "dry_run": True,
        }
        begun = ask(scene, "POST", f"{TEAM}/import/listing", asked)
        assert begun.status == 202, begun
        path = f"/repositories/team-data/operations/{begun.json()['id']}"
        while (operation := ask(scene, "GET", path, None).json())["state"] == "running":
            pass
        assert ("may not read" in json.dumps(operation)) is not fine, operation


@pytest.mark.parametrize("namespace", ["local://hr-private-2/x/y", "local://team-nest/a", "local://team-nest/a/b/c"])
def test_no_namespace_is_made_in_another_one(scene: tuple[Running, str, Path], namespace: str) -> None:
    server, _, _ = scene
    first = {"name": "hr-nest", "storage_namespace": "local://team-nest/a/b"}
    assert server.ask_json("POST", "/api/v1/repositories", first).status in (201, 409)
    made = server.ask_json(
        "POST", "/api/v1/repositories", {"name": f"new-{len(namespace)}", "storage_namespace": namespace}
    )
    assert made.status == (201 if "hr-private-2" in namespace else 400), made


def test_of_many_who_create_in_one_another_at_once_one_is_there(scene: tuple[Running, str, Path]) -> None:
    server, _, _ = scene
    depths = [f"local://race/{'/'.join('abcdef'[:depth])}" for depth in range(1, 7)]

    def create(number: int) -> int:
        body = {"name": f"team-race-{number}", "storage_namespace": depths[number]}
        return server.ask_json("POST", "/api/v1/repositories", body).status

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(create, range(6))) == [201, 400, 400, 400, 400, 400]


def test_fsck_finds_namespaces_that_were_nested_before(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("outer", f"file://{tmp_path}/data")
        inner = lake.create_repository("inner", f"file://{tmp_path}/other").repository
        assert lake.repository("outer").fsck().findings == ()
        item = {**(lake.tables.get(repository_key("inner")) or {}), "namespace": f"file://{tmp_path}/data/in"}
        lake.tables.put(repository_key("inner"), item)
        lake.tables.put(
            namespace_key(f"file://{tmp_path}/data/in"),
            {"namespace": f"file://{tmp_path}/data/in", "repository": "inner", "uid": inner.uid},
        )
        for repository in ("outer", "inner"):
            found = [finding for finding in lake.repository(repository).fsck().findings if finding.kind == "nested"]
            assert len(found) == 1
            assert ("'inner'" if repository == "outer" else "'outer'") in found[0].why
    listed = run("--lake", tmp_path / "lake", "fsck", "lakefs://outer", "--json").json["findings"]
    assert [finding["kind"] for finding in listed] == ["nested"]
