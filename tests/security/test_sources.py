"""A writer who is limited to one repository tries to read other data through the server, by linking and importing it."""

import contextlib
import json
import os
import re
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from graveler.functions.deployment_settings import Configuration
from tests.cli.support import done
from tests.server.support import Running, running

SYSTEM = ("/proc/self/environ", "/proc/1/cmdline", "/sys/kernel/uevent_seqnum", "/dev/zero")


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Running]:
    """A server with two repositories."""
    with running(folder, *options, workers=1) as started:
        for name in ("team-data", "hr-private"):
            made = {"name": name, "storage_namespace": f"local://{name}"}
            assert started.ask_json("POST", "/api/v1/repositories", made).status == 201
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One whose sources could not be wider."""
    with serving(tmp_path_factory.mktemp("sources"), "--import-source", "file:///") as started:
        yield started


@pytest.fixture(scope="module")
def writer(server: Running) -> str:
    """The header of a key that is for ``team-*`` alone."""
    return limited(server)


def limited(server: Running) -> str:
    """The header of a new key for ``team-*`` alone."""
    made = done(
        "--lake", server.lake, "keys", "create", "ann", "--role", "writer", "--repository", "team-*", "--json"
    ).json
    key = f"{made['access_key_id']}:{made['secret_access_key']}"
    return "Basic " + b64encode(key.encode()).decode()


def linked(server: Running, writer: str, address: str) -> int:
    """The status of linking the object at an address, and if that is done, of reading it."""
    link = {
        "staging": {"physical_address": address},
        "checksum": "0" * 32,
        "size_bytes": 1,
        "physical_address": address,
    }
    headers = {"authorization": writer, "content-type": "application/json"}

    for target in ("staging/backing?path=stolen", "objects?path=stolen"):
        status = server.ask(
            "PUT",
            f"/api/v1/repositories/team-data/branches/main/{target}",
            json.dumps(link).encode(),
            headers,
            authorised=False,
        ).status
        if status < 300:
            read = server.ask(
                "GET", "/api/v1/repositories/team-data/refs/main/objects?path=stolen", headers=headers, authorised=False
            )
            return read.status
    return status


@pytest.mark.parametrize("file", SYSTEM)
@pytest.mark.parametrize("through", ["itself", "a link to it", "a folder that links there"])
def test_nobody_reads_a_view_of_the_system(
    server: Running, writer: str, tmp_path: Path, file: str, through: str
) -> None:
    path = Path(file)
    if through == "a link to it":
        (tmp_path / "link").symlink_to(file)
        path = tmp_path / "link"
    elif through == "a folder that links there":
        (tmp_path / "folder").symlink_to(path.parent)
        path = tmp_path / "folder" / path.name
    assert linked(server, writer, f"file://{path}") in (400, 403)


def test_nobody_reads_the_lake_itself(server: Running, writer: str, tmp_path: Path) -> None:
    (tmp_path / "lake").symlink_to(server.lake)
    for folder in (server.lake, tmp_path / "lake"):
        for name in ("tables.sqlite", "graveler.json", "objects/hr-private/_graveler/repository.json"):
            assert linked(server, writer, f"file://{folder}/{name}") in (400, 403)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_what_is_no_file_is_no_object(server: Running, writer: str, tmp_path: Path, kind: str) -> None:
    """.. and keeps nobody waiting."""
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with closing(socket.socket(socket.AF_UNIX)) as bound, contextlib.chdir(tmp_path):
            bound.bind(kind)
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("making a device needs root")
        os.mknod(path, 0o20666, os.makedev(1, 5))
    else:
        path.mkdir()
    assert linked(server, writer, f"file://{path}") == 410


@pytest.mark.parametrize("name", ["x" * 256, "x/" + "y" * 300])
def test_a_namespace_that_no_folder_can_have_is_refused(server: Running, name: str) -> None:
    made = {"name": "team-long", "storage_namespace": f"local://{name}"}
    refused = server.ask_json("POST", "/api/v1/repositories", made)
    assert (refused.status, "shorter" in refused.json()["message"]) == (400, True)


def test_what_is_a_file_is_linked(server: Running, writer: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"x")
    assert linked(server, writer, f"file://{tmp_path}/plain") == 200


def test_nothing_is_a_source_unless_it_is_named(tmp_path: Path) -> None:
    """On the machine's own address, too: whoever asks there may be another user, or limited to other repositories."""
    (tmp_path / "given").mkdir()
    for file in (tmp_path / "plain", tmp_path / "given" / "plain"):
        file.write_bytes(b"x")
    with serving(tmp_path, "--import-source", f"file://{tmp_path}/given/") as server:
        writer = limited(server)
        assert linked(server, writer, f"file://{tmp_path}/given/plain") == 200
        assert linked(server, writer, f"file://{tmp_path}/plain") == 403
    folder = tmp_path / "closed"
    folder.mkdir()
    with serving(folder) as server:
        headers = {"authorization": limited(server), "content-type": "application/json"}
        branch = "/api/v1/repositories/team-data/branches/main"
        for address in (f"file://{tmp_path}/given/plain", "s3://bucket/plain"):
            assert linked(server, headers["authorization"], address) == 403
            above = address.removesuffix("plain")
            for path in (
                {"type": "object", "path": address, "destination": "x"},
                {"type": "common_prefix", "path": above, "destination": "x"},
            ):
                body = json.dumps({"paths": [path], "commit": {"message": "m"}}).encode()
                refused = server.ask("POST", f"{branch}/import", body, headers, authorised=False)
                assert refused.status == 403
                assert "--import-source" in refused.json()["message"]
        elsewhere = {"name": "team-there", "storage_namespace": f"file://{tmp_path}/there"}
        assert server.ask_json("POST", "/api/v1/repositories", elsewhere).status == 400


def test_a_deployment_has_no_sources_but_its_data_buckets() -> None:
    closed = Configuration(objects="s3://own/lake", tables="dynamodb://lake").api_settings()
    for sources in (closed.import_sources, closed.ingest_sources):
        assert sources is not None
        assert not any(
            sources.allows(address) for address in ("s3://own/x", "s3://own/lake/x", "s3://raw/x", "file:///etc/x")
        )
    named = Configuration(objects="s3://own/lake", tables="dynamodb://lake", data_buckets=("raw",)).api_settings()
    assert named.import_sources.allows("s3://raw/x")
    assert not named.import_sources.allows("s3://raw-2/x")
    folders = Configuration(
        objects="s3://own/lake", tables="dynamodb://lake", data_buckets=("b/lake/",), import_buckets=("b/raw/", "c")
    ).api_settings()
    sources = folders.import_sources
    assert sources is not None
    assert [sources.allows(f"s3://b/{key}") for key in ("raw/x", "lake/x", "raws/x", "x")] == [True, True, False, False]
    assert sources.allows("s3://c/x")
    assert folders.ingest_sources is not None
    assert not folders.ingest_sources.allows("s3://c/x")
    for namespace, allowed in (("b/lake/r", True), ("own/r", True), ("b/raw/r", False), ("c/r", False), ("b/r", False)):
        assert bool(re.match(folders.namespace_pattern, f"s3://{namespace}")) is allowed
