"""Runs on a lake behind a server: the gateway has the rights of an access key."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from botocore.exceptions import ClientError

import graveler
from graveler.access.keys import Keys
from graveler.access.permissions import Role
from graveler.lake.opening.folder import open_folder_lake
from tests.gateway.run.support import Place, program
from tests.gateway.support import code_of
from tests.server.support import Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served")
    with graveler.create(folder / "lake", user="bob") as lake:
        main = lake.repository("sales").create().branch("main")
        main.object("seed").upload("1")
        main.commit("Seed")
    with running(folder, "--access-log", workers=1) as started:
        yield started


@pytest.fixture(scope="module")
def folder(server: Running) -> Place:
    """The lake itself."""
    return Place(server.lake, {})


def served(server: Running, key_id: str = "", secret: str = "") -> Place:
    """How runs on the lake behind the server are started, with a key."""
    keys = {
        "GRAVELER_ACCESS_KEY_ID": key_id or server.key_id,
        "GRAVELER_SECRET_ACCESS_KEY": secret or server.secret,
    }
    return Place(server.url, keys)


@pytest.fixture
def variables(server: Running) -> Iterator[None]:
    """The variables of this process name the server's admin."""
    with patch.dict(os.environ, served(server).environment):
        yield


LARGE = """
put("a", get("seed"))
s3.upload_fileobj(__import__("io").BytesIO(bytes(9 << 20)), "sales", "large")
print(s3.head_object(Bucket="sales", Key="large")["ContentLength"])
subprocess.run([sys.executable, "-m", "graveler", "put", "-", "by-command"], input=b"x", check=True)
"""


def test_a_run_is_published_once(server: Running, folder: Place) -> None:
    for attempt in ("published", "has this run already"):
        end = served(server).run("sales/main", "-m", "Nightly", "--once", "1", "--", *program(LARGE))
        assert end.code == 0, end.err
        assert attempt in end.err
    main = folder.sales.branch("main")
    assert main.get_commit().message == "Nightly"
    sizes = {path: main.object(path).stat().size for path in ("a", "by-command", "large")}
    assert sizes == {"a": 1, "by-command": 1, "large": 9 << 20}
    assert folder.branches() == ["main"]


@pytest.mark.ci
def test_a_run_that_fails_is_not_published(server: Running, folder: Place) -> None:
    before = folder.sales.branch("main").get_commit().id
    end = served(server).run("sales/main", "--", *program('put("a", "other")\nsys.exit(3)'))
    assert end.code == 3, end.err
    assert folder.sales.branch("main").get_commit().id == before
    assert folder.branches() == ["main"]


@pytest.mark.ci
def test_a_conflict_is_ours_and_the_branch_is_kept(server: Running, folder: Place) -> None:
    other = "import graveler; main = graveler.open().repository('sales').branch('main')\n"
    other += "main.object('c').upload('theirs'); main.commit('Theirs')"
    text = 'put("c", "mine")\nenv = {**os.environ, "GRAVELER_RUN": ""}\n'
    text += f"subprocess.run([sys.executable, '-c', {other!r}], env=env, check=True)"
    end = served(server).run("sales/main", "--", *program(text))
    assert end.code == 4, end.err
    assert folder.read("c") == "theirs"
    (kept,) = [branch for branch in folder.branches() if branch != "main"]
    assert kept in end.err
    folder.sales.branch(kept).delete()


@pytest.mark.ci
def test_a_ref_is_only_read(server: Running) -> None:
    text = "print(get('seed'))\ntry: put('x', '1')\nexcept Exception as error: print('AccessDenied' in str(error))"
    end = served(server).run("sales/main", "--ref", "main", "--", *program(text))
    assert (end.code, end.out) == (0, "1\nTrue\n"), end.err


@pytest.mark.ci
def test_the_rights_are_those_of_the_key(server: Running, tmp_path: Path) -> None:
    with open_folder_lake(server.lake) as lake:
        keys = Keys(lake.tables, lake.keyring)
        reader = keys.create("eve", Role.READER, now=0.0)
        writer = keys.create("ana", Role.WRITER, now=0.0)
    refused = served(server, reader.key.key_id, reader.secret)
    end = refused.run("sales/main", "--", "touch", str(tmp_path / "ran"))
    assert end.code == 6, end.err
    assert not (tmp_path / "ran").exists()
    assert refused.run("sales/main", "--read-only", "--", *program('get("seed")')).code == 0
    revoking = f"""
import time
from graveler.access.keys import Keys
from graveler.lake.opening.folder import open_folder_lake
with open_folder_lake(Path({str(server.lake)!r})) as lake:
    Keys(lake.tables, lake.keyring).revoke({writer.key.key_id!r}, now=time.time())
time.sleep(6)
try: put("d", "1")
except Exception as error: print("AccessDenied" in str(error))
"""
    end = served(server, writer.key.key_id, writer.secret).run("sales/main", "--", *program(revoking))
    assert end.out == "True\n", end.err
    assert end.code != 0


@pytest.mark.ci
def test_without_its_server_a_gateway_is_unavailable_and_nothing_is_published(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "lake", user="bob") as lake:
        lake.repository("sales").create()
    with running(tmp_path, workers=1) as server:
        text = f"""
from contextlib import suppress
put("a", "1")
os.kill({server.process.pid}, signal.SIGTERM)
import socket
with suppress(ConnectionRefusedError):
    while True:
        socket.create_connection(("127.0.0.1", {server.port})).close()
        time.sleep(0.1)
try: put("b", "2")
except Exception as error: print("ServiceUnavailable" in str(error), flush=True)
"""
        end = served(server).run("sales/main", "--", *program(text))
    assert end.out == "True\n", end.err
    assert end.code != 0
    assert not graveler.open(tmp_path / "lake").repository("sales").branch("main").object("a").exists()


@pytest.mark.ci
def test_a_block_serves_a_branch_a_transaction_and_a_ref(server: Running, folder: Place, variables: None) -> None:
    with graveler.open(server.url) as lake:
        main = lake.repository("sales").branch("main")
        with main.transaction("Block") as transaction, transaction.gateway() as gateway:
            subprocess.run(program('put("e", "one")'), env=gateway.environment, check=True)
            assert not main.object("e").exists()
        assert folder.read("e") == "one"
        with main.gateway() as gateway:
            s3 = boto3.client("s3", **gateway.client_options)
            s3.put_object(Bucket="sales", Key="f", Body=b"two")
        assert main.object("f").reader("r").read() == "two"
        main.commit("f")
        with lake.repository("sales").ref("main~1").gateway() as gateway:
            s3 = boto3.client("s3", **gateway.client_options)
            listed = s3.list_objects_v2(Bucket="sales", Prefix="f")
            assert listed["KeyCount"] == 0


def operations(server: Running, request: Callable[[], object]) -> list[str]:
    """The operations that a request of a client costs at the server. It serves bytes, too, since the lake is in a folder."""
    start = server.errors.stat().st_size
    request()
    with server.errors.open() as log:
        log.seek(start)
        lines = [json.loads(line) for line in log if line.startswith("{")]
    return [line["operation"] for line in lines if line.get("log") == "request"]


def test_each_request_costs_what_the_documents_say(server: Running, variables: None) -> None:
    with graveler.open(server.url) as lake, lake.repository("sales").branch("main").gateway() as gateway:
        s3 = boto3.client("s3", **gateway.client_options)
        place: Any = {"Bucket": "sales", "Key": "cost"}
        assert operations(server, lambda: s3.put_object(**place, Body=b"x")) == [
            "getPhysicalAddress",
            "putBytes",
            "linkPhysicalAddresses",
        ]
        for _ in range(2):
            assert operations(server, lambda: s3.get_object(**place)) == ["statObject", "getBytes"]
        assert operations(server, lambda: s3.head_object(**place)) == ["statObject"]
        assert operations(server, lambda: s3.list_objects_v2(Bucket="sales")) == ["listObjects"]
        copied = operations(server, lambda: s3.copy_object(Bucket="sales", Key="copy", CopySource=place))
        assert copied == ["statObject", "copyObject"]
        upload: Any = {**place, "UploadId": s3.create_multipart_upload(**place)["UploadId"]}
        assert operations(server, lambda: s3.upload_part(**upload, PartNumber=1, Body=b"x")) == [
            "getPartUrl",
            "putBytes",
        ]
        parts: Any = {"Parts": [{"PartNumber": 1, "ETag": "9dd4e461268c8034f5c8564e155c67a6"}]}
        completed = operations(server, lambda: s3.complete_multipart_upload(**upload, MultipartUpload=parts))
        assert completed == ["completeUpload"]
        assert operations(server, lambda: s3.delete_object(**place)) == ["deleteObjects"]
        s3.delete_object(Bucket="sales", Key="copy")


@pytest.mark.ci
def test_a_folder_is_filled_and_staged(server: Running, folder: Place, tmp_path: Path) -> None:
    main = folder.sales.branch("main")
    for number in range(3):
        main.object(f"tables/{number}").upload(str(number))
    main.commit("Tables")
    data = tmp_path / "data"
    work = f"cat {data}/0; rm {data}/1; touch {data}/2; echo new > {data}/0"
    end = served(server).run("sales/main", "--folder", f"{data}=tables", "--", "sh", "-c", work)
    assert (end.code, end.out) == (0, "0"), end.err
    assert folder.read("tables/0") == "new\n"
    assert [entry.path for entry in main.objects(prefix="tables/")] == ["tables/0", "tables/2"]
    assert main.get_commit().metadata["graveler.run.written_objects"] == "1"
    assert not data.exists()


@pytest.mark.ci
def test_bytes_that_are_gone_or_damaged_are_named_without_their_url(server: Running, variables: None) -> None:
    with graveler.open(server.url) as lake, lake.repository("sales").branch("main").gateway() as gateway:
        s3 = boto3.client("s3", **gateway.client_options)
        for key, status, code in (("lost", 403, "InvalidObjectState"), ("cut", 500, "InternalError")):
            s3.put_object(Bucket="sales", Key=key, Body=b"x" * 100)
            address = lake.repository("sales").branch("main").object(key).stat().address
            file = server.lake / "objects" / address.removeprefix("local://")
            if key == "lost":
                file.unlink()
            else:
                file.write_bytes(b"x")
            with pytest.raises(ClientError) as error:
                s3.get_object(Bucket="sales", Key=key)
            assert code_of(error.value) == (status, code)
            assert "Signature" not in str(error.value)
            s3.delete_object(Bucket="sales", Key=key)
