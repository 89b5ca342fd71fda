"""Sources from which objects may be linked, staged and imported: those that both the deployment and the repository allow."""

from pathlib import Path

import pytest

from graveler.access.sources import ImportSources
from graveler.api.settings import Settings
from tests.api.support import Client, EventClient, make_world

REPO = "/repositories/repo"
SOURCES = f"{REPO}/settings/import_sources"
BRANCH = f"{REPO}/branches/main"


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """A client of a deployment that allows one folder; two folders in it have an object each."""
    for folder in ("raw", "private"):
        (tmp_path / "given" / folder).mkdir(parents=True)
        (tmp_path / "given" / folder / "a").write_text("1")
    world = make_world(Settings(import_sources=ImportSources([f"file://{tmp_path}/given/"])))
    world.lake.create_repository("repo", "local://repo")
    return EventClient(world)


def statuses(client: Client, address: str) -> set[int]:
    """Of link, several links, stage, and import of an object and of its folder."""
    said = {"checksum": "00" * 16, "size_bytes": 1}
    staging = {**said, "staging": {"physical_address": address}}
    folder = address.rpartition("/")[0] + "/"
    paths = [
        {"type": "object", "path": address, "destination": "x"},
        {"type": "common_prefix", "path": folder, "destination": "y"},
    ]
    return {
        client("PUT", f"{BRANCH}/staging/backing", {"path": "a"}, staging).status,
        client("POST", f"{BRANCH}/staging/links", (), {"objects": [{**staging, "path": "a"}]}).status,
        client("PUT", f"{BRANCH}/objects", {"path": "a"}, {**said, "physical_address": address}).status,
        *(client("POST", f"{BRANCH}/import", (), {"paths": [path]}).status for path in paths),
    }


def test_a_repository_narrows_what_its_deployment_allows(client: Client, tmp_path: Path) -> None:
    raw, private = (f"file://{tmp_path}/given/{folder}/a" for folder in ("raw", "private"))
    outside = f"file://{tmp_path}/a"
    assert client("GET", SOURCES).json() == {"prefixes": None}
    assert statuses(client, raw) == statuses(client, private) == {200, 201, 202}
    assert statuses(client, outside) == {403}
    narrowed = [f"file://{tmp_path}/given/raw", f"file://{tmp_path}/"]
    assert client("PUT", SOURCES, (), {"prefixes": narrowed[:1]}).status == 204
    assert client("GET", SOURCES).json() == {"prefixes": narrowed[:1]}
    assert (statuses(client, raw), statuses(client, private)) == ({200, 201, 202}, {403})
    assert client("PUT", SOURCES, (), {"prefixes": narrowed}).status == 204
    assert statuses(client, outside) == {403}  # no list of a repository widens its deployment's
    assert client("PUT", SOURCES, (), {"prefixes": []}).status == 204
    assert statuses(client, raw) == {403}
    assert client("PUT", SOURCES, (), {"prefixes": None}).status == 204
    assert statuses(client, private) == {200, 201, 202}


@pytest.mark.parametrize("prefix", ["", "raw/", "file:///a/../b/", "file:///%2e%2e/", "s3://a\n", "s3://" + "x" * 2000])
def test_what_is_no_plain_address_is_refused(client: Client, prefix: str) -> None:
    assert client("PUT", SOURCES, (), {"prefixes": [prefix]}).status == 400
    assert client("GET", SOURCES).json() == {"prefixes": None}


def test_only_an_admin_narrows(client: Client) -> None:
    assert client("PUT", SOURCES, (), {"prefixes": []}, authorization=client.world.reader).status == 401


def test_the_own_namespace_is_no_source_and_its_neighbours_are(client: Client, tmp_path: Path) -> None:
    inside = f"file://{tmp_path}/given/raw"
    client.world.lake.create_repository("own", inside)
    start = "/repositories/own/branches/main/import"
    for address, status in (
        (f"{inside}/", 400),
        (f"{inside}/data/", 400),
        (inside, 400),
        (f"file://{tmp_path}/given/", 400),
        (f"{inside}2/", 202),
    ):
        path = {"type": "common_prefix", "path": address, "destination": "x"}
        assert client("POST", start, (), {"paths": [path]}).status == status, address


@pytest.mark.parametrize(
    ("kind", "address", "refused"),
    [
        ("common_prefix", "{namespace}/", True),
        ("common_prefix", "{namespace}", True),
        ("common_prefix", "{namespace}/data/", True),
        ("common_prefix", "{above}/", True),
        ("common_prefix", "{above}/re", True),
        ("object", "{namespace}/data/x", True),
        ("object", "{namespace}-other/x", False),
        ("object", "{above}/re", False),
        ("common_prefix", "{namespace}-other/", False),
    ],
)
def test_the_repository_s_own_namespace_is_no_source(kind: str, address: str, *, refused: bool, tmp_path: Path) -> None:
    above = f"file://{tmp_path}/given"
    for name in ("re", "repo-other/x"):
        file = tmp_path / "given" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    world = make_world(Settings(import_sources=ImportSources([f"{above}/"])))
    world.lake.create_repository("repo", f"{above}/repo")
    client = EventClient(world)
    path = {
        "type": kind,
        "path": address.format(namespace=f"{above}/repo", above=above),
        "destination": "x" if kind == "object" else "x/",
    }
    response = client("POST", f"{BRANCH}/import", (), {"paths": [path]})
    assert response.status == (400 if refused else 202)
    assert ("invalid import source" in response.text) == refused


def test_files_may_be_named_as_lakefs_names_them(client: Client, tmp_path: Path) -> None:
    assert statuses(client, f"file://{tmp_path}/given/raw/a") == {200, 201, 202}
    path = {"type": "common_prefix", "path": f"local://{tmp_path}/given/raw/", "destination": "in/"}
    begun = client("POST", f"{BRANCH}/import", (), {"paths": [path]})
    assert begun.status == 202
    path["path"] = f"local://{tmp_path}/"
    assert client("POST", f"{BRANCH}/import", (), {"paths": [path]}).status == 403
