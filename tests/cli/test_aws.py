"""The command line on a lake on AWS: DynamoDB Local and s3proxy, the environment as a person has it."""

import os
from pathlib import Path
from secrets import token_hex

import pytest

from graveler.storage.objects.s3 import S3Settings
from tests.cli.support import done, run, write_tree
from tests.storage.adapters import CREDENTIALS, make_bucket, s3_settings
from tests.support.servers import REGION, dynamodb_local, s3proxy
from tests.support.shell import Shell


@pytest.fixture(scope="module")
def bucket() -> str:
    """An empty one."""
    name = f"cli-{token_hex(6)}"
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in CREDENTIALS.items():
            patch.setenv(variable, value)
        make_bucket(name, S3Settings(REGION, s3proxy()))
    return name


@pytest.fixture
def table(bucket: str, shell: Shell, tmp_path: Path) -> str:
    """The URL of a table that is not there; the environment names it, and the bucket."""
    url = f"dynamodb://cli-{token_hex(6)}"
    environment = CREDENTIALS | {
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": s3proxy(),
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb_local(),
        "GRAVELER_TABLES": url,
        "GRAVELER_OBJECTS": f"s3://{bucket}/{url.removeprefix('dynamodb://')}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    shell.export_all(environment)
    return url


@pytest.fixture
def lake(table: str) -> str:
    """A lake on AWS with the repository ``lake``; the objects' place."""
    assert done("init", "--create-table").out == f"created an empty lake in {table}\n"
    done("repo", "create", "lake")
    return os.environ["GRAVELER_OBJECTS"]


def test_the_main_job(lake: str, table: str, working_folder: Path) -> None:
    shown = done("repo", "show", "lake", "--json").json
    assert shown["namespace"] == f"{lake}/lake"
    assert f"lake:            {table}" in done("repo", "show", "lake").out
    folder = write_tree(Path("in"), {"a.csv": "1", "b/c.csv": "two"})
    assert done("put", "-r", folder, "lakefs://lake/main/d/").out.startswith("uploaded 2 files")
    first = done("commit", "lakefs://lake/main", "-m", "First", "--json").json["id"]
    done("branch", "create", "lakefs://lake/dev")
    done("put", "-", "lakefs://lake/dev/d/a.csv", stdin=b"dev's")
    done("commit", "lakefs://lake/dev", "-m", "On dev")
    done("merge", "lakefs://lake/dev", "main")
    assert done("cat", "lakefs://lake/main/d/a.csv").out == "dev's"
    assert done("cat", f"lakefs://lake/{first}/d/a.csv").out == "1"
    done("get", "-r", "lakefs://lake/main/d/", "out")
    assert (working_folder / "out/b/c.csv").read_text() == "two"
    done("export", "lakefs://lake/main/", "exported")
    assert (working_folder / "exported/d/a.csv").read_text() == "dev's"
    assert done("fsck", "lakefs://lake", "--all-objects", "--json").json["clean"]
    assert len(done("log", "lakefs://lake/main", "--json").lines) == 4
    assert done("gc", "plan", "lake", "--json").json["commits"] == 4
    assert done("ingest", "rules", "list", "lake").out == ""
    assert list((Path(os.environ["XDG_CACHE_HOME"]) / "graveler").iterdir()), "files of trees are kept near"


def test_options_name_it_as_well_as_the_environment(lake: str, table: str, shell: Shell) -> None:
    shell.unset("GRAVELER_TABLES", "GRAVELER_OBJECTS", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_DYNAMODB")
    endpoints = ("--s3-endpoint-url", s3proxy(), "--dynamodb-endpoint-url", dynamodb_local(), "--region", REGION)
    assert done("--tables", table, "--objects", lake, *endpoints, "repo", "list", "--json").json["name"] == "lake"
    assert done("--objects", lake, *endpoints, "repo", "list", "--lake", table, "--json").json["name"] == "lake"
    shell.export("GRAVELER_LAKE", table)
    shell.export("GRAVELER_OBJECTS", lake)
    assert done(*endpoints, "branch", "list", "lake", "--json").json["name"] == "main"


def test_objects_in_s3_are_taken_over_and_files_are_not(lake: str, bucket: str, working_folder: Path) -> None:
    from graveler.storage.objects.s3 import S3Objects

    raw = S3Objects(bucket, f"raw-{token_hex(4)}", s3_settings())
    raw.put("2026/a", b"1")
    raw.put("2026/b/c", b"22")
    made = done("import", f"{raw.namespace}/2026/", "lakefs://lake/main/in/", "--json").json
    assert (made["objects"], made["bytes"]) == (2, 3)
    assert done("cat", "lakefs://lake/main/in/b/c").out == "22"
    files = write_tree(working_folder / "files", {"x": "1"})
    for source in (files, f"file://{files}"):
        refused = run("import", source, "lakefs://lake/main/in/")
        assert (refused.code, "graveler put -r" in refused.err) == (2, True), refused
    assert run("ingest", "rules", "add", "drop", files, "lakefs://lake/main/drop/").code == 2
    assert run("ingest", "watch", files, "--once").code == 2


def test_the_operator_makes_the_first_key_before_anybody_serves_the_lake(lake: str) -> None:
    made = done("keys", "create", "admin", "--role", "admin", "--json").json
    assert done("keys", "list", "--json").json["access_key_id"] == made["access_key_id"]
    from graveler.access.authentication import Access
    from graveler.cli.locations import open_own_lake

    with open_own_lake(None) as opened:
        access = Access(opened.tables)
        assert access.ensure_first_key(None, None, name="anybody") is None, "nobody else can make it any more"


def test_a_lake_that_is_there_is_not_made_again(lake: str) -> None:
    refused = run("init", "--create-table")
    assert (refused.code, "already exists" in refused.err) == (4, True)


def test_what_is_missing_or_wrong_is_told(table: str, shell: Shell) -> None:
    missing = run("repo", "list")
    assert (missing.code, missing.err.count("\n")) == (9, 1)
    assert "or create it" in missing.err
    assert "or create it" in run("init").err
    shell.export("GRAVELER_OBJECTS", "s3://no-such-bucket/x")
    no_bucket = run("init", "--create-table")
    assert (no_bucket.code, "there is no such bucket" in no_bucket.err) == (9, True), no_bucket
    shell.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    shell.export("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1")  # else this process has a client by now
    nobody = run("repo", "list")
    assert (nobody.code, "no AWS credentials" in nobody.err) == (9, True), nobody


def test_no_region_is_told(table: str, shell: Shell) -> None:
    shell.unset("AWS_REGION", "AWS_DEFAULT_REGION")
    shell.export("AWS_ENDPOINT_URL_DYNAMODB", f"{dynamodb_local()}/x")
    refused = run("repo", "list")
    assert (refused.code, "no AWS region is configured" in refused.err) == (9, True), refused
