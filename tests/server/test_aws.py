"""`graveler serve` on S3 and DynamoDB, asked by the published client."""

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from unittest.mock import patch

import lakefs
import pytest
from lakefs.client import Client
from lakefs.exceptions import LakeFSException

from graveler.storage.objects.s3 import S3Settings
from tests.cli.support import done, run, write_tree
from tests.server.support import KEY_ID, SECRET, Running, started
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.servers import REGION, dynamodb_local, s3proxy
from tests.support.shell import Shell


@pytest.fixture(scope="module")
def name() -> Iterator[str]:
    """Of an empty bucket, and of a table that is not there."""
    made = f"serve-{token_hex(6)}"
    with patch.dict(os.environ, CREDENTIALS):
        make_bucket(made, S3Settings(REGION, s3proxy()))
        yield made


def options(name: str) -> list[str]:
    places = ["--objects", f"s3://{name}/lake", "--tables", f"dynamodb://{name}", "--region", REGION]
    return [*places, "--s3-endpoint-url", s3proxy(), "--dynamodb-endpoint-url", dynamodb_local()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve-aws")


@pytest.fixture(scope="module")
def server(name: str, folder: Path) -> Iterator[Running]:
    chosen = ("--create-table", "--cache", str(folder / "cache"), "--import-source", f"s3://{name}/raw/")
    with started(folder, *options(name), *chosen) as running_server:
        yield running_server


@pytest.fixture(scope="module")
def client(server: Running) -> Client:
    return Client(host=server.url, username=KEY_ID, password=SECRET)


@pytest.fixture(scope="module")
def repository(client: Client) -> lakefs.Repository:
    """Where the server says that repositories lie."""
    return lakefs.Repository("rep", client=client).create(f"{client.storage_config.default_namespace_prefix}/rep")


def test_the_flow_of_the_published_client(repository: lakefs.Repository, folder: Path) -> None:
    main = repository.branch("main")
    main.object("a/b").upload(b"first", pre_sign=True)
    main.object("a/c").upload(b"through the server", pre_sign=False)
    first = main.commit("first").get_commit()
    side = repository.branch("side").create("main")
    side.object("a/b").upload(b"second", pre_sign=True)
    assert [change.path for change in side.uncommitted()] == ["a/b"]
    side.commit("second")
    assert main.object("a/b").reader(pre_sign=True).read() == b"first"
    side.merge_into(main)
    for pre_sign in (True, False):
        assert main.object("a/b").reader(pre_sign=pre_sign).read() == b"second"
    assert repository.ref(first.id).object("a/c").reader().read() == b"through the server"
    assert first.id in [commit.id for commit in main.log()]
    assert list((folder / "cache").iterdir()), "files of trees are kept near"


def test_bytes_go_to_s3_by_its_own_urls(server: Running, repository: lakefs.Repository) -> None:
    repository.branch("main").object("direct").upload(b"bytes", pre_sign=True)
    stat = server.ask("GET", "/api/v1/repositories/rep/refs/main/objects/stat?path=direct&presign=true").json()
    assert stat["physical_address"].startswith(f"{s3proxy()}/")
    with urllib.request.urlopen(stat["physical_address"]) as answer:
        assert answer.read() == b"bytes"
    assert server.data_url is None
    assert server.ask("GET", "/objects/rep/direct", authorised=False).status == 404


def test_clients_learn_that_bytes_are_in_s3(server: Running, name: str) -> None:
    storage = server.ask("GET", "/api/v1/config").json()["storage_config"]
    assert storage["blockstore_type"] == "s3"
    assert storage["default_namespace_prefix"] == f"s3://{name}/lake"


def test_with_import_sources_repositories_are_below_the_lakes_own_place(client: Client, name: str) -> None:
    for namespace in ("local://x", f"s3://{name}/raw/x", f"s3://{name}/lake", "s3://other/lake/x"):
        with pytest.raises(LakeFSException, match="must match"):
            lakefs.Repository("other", client=client).create(namespace)


def test_a_second_server_serves_the_same_lake(
    server: Running, repository: lakefs.Repository, name: str, tmp_path: Path
) -> None:
    repository.branch("main").object("shared").upload(b"x")
    with started(tmp_path, *options(name), "--cache", str(tmp_path / "cache"), workers=1) as second:
        again = Client(host=second.url, username=KEY_ID, password=SECRET)
        assert lakefs.Repository("rep", client=again).branch("main").object("shared").reader().read() == b"x"


def test_a_table_that_is_not_there_is_told(name: str) -> None:
    chosen = [part.replace(f"dynamodb://{name}", "dynamodb://nothing") for part in options(name)]
    refused = run("serve", *chosen, "--port", "0")
    assert refused.code != 0
    assert "'nothing'" in refused.err
    assert "or create it" in refused.err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--objects", "s3://bucket/p"], "--objects needs --tables"),
        (["--tables", "dynamodb://t"], "--tables needs --objects"),
        (["--lake", "x", "--objects", "s3://bucket/p", "--tables", "dynamodb://t"], "name only one"),
        (["--lake", "x", "--tables", "dynamodb://t"], "name only one"),
        (["--region", "eu-west-1"], "--region is only for a lake on AWS"),
        (["--create-table"], "--create-table is for a lake on AWS"),
        (["--objects", "s3://bucket/p", "--tables", "dynamodb://t", "--data-url", "http://x"], "--data-url"),
        (["--objects", "file:///p", "--tables", "dynamodb://t"], "not a place in S3"),
        (["--objects", "s3://bucket/p", "--tables", "t"], "does not name a table"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given: list[str], told: str) -> None:
    refused = run("serve", *given, "--port", "0")
    assert refused.code != 0
    assert told in " ".join(refused.err.split())


def test_the_command_line_on_the_servers_address(
    server: Running, client: Client, name: str, tmp_path: Path, shell: Shell
) -> None:
    """It needs the address and a key, and nothing of AWS; bytes go by URLs of S3."""
    shell.unset(*CREDENTIALS)
    for variable, value in (("ENDPOINT", server.url), ("ACCESS_KEY_ID", KEY_ID), ("SECRET_ACCESS_KEY", SECRET)):
        shell.export(f"GRAVELER_{variable}", value)
    shown = done("repo", "create", "told", "--json").json
    assert shown["namespace"].startswith(f"s3://{name}/lake/")
    folder = write_tree(tmp_path / "in", {"a": "1", "b/c": "two"})
    done("put", "-r", folder, "lakefs://told/main/")
    first = done("commit", "lakefs://told/main", "-m", "First", "--json").json["id"]
    done("branch", "create", "lakefs://told/dev")
    done("put", "-", "lakefs://told/dev/a", stdin=b"dev's")
    done("commit", "lakefs://told/dev", "-m", "On dev")
    done("merge", "lakefs://told/dev", "main")
    assert done("cat", "lakefs://told/main/a").out == "dev's"
    assert done("cat", f"lakefs://told/{first}/a").out == "1"
    assert [change["path"] for change in done("diff", f"lakefs://told/{first}", "main", "--json").lines] == ["a"]
    assert lakefs.Repository("told", client=client).branch("main").object("b/c").reader().read() == b"two"
    missing = run("cat", "lakefs://told/main/none")
    assert missing.code != 0
    assert "'none'" in missing.err
