"""Deleted files come back from a bucket that keeps versions: a drill of restoring a table from some days ago."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from moto import mock_aws

from graveler.errors import GravelerError, InvalidError
from graveler.lake.lake import Lake
from graveler.lake.opening.aws import open_lake
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import RetentionRules
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode
from graveler.retention.undelete import Undelete, Undeleted
from graveler.storage.aws_requests import send_or_explain
from graveler.storage.objects.port import ObjectMissingError
from graveler.storage.objects.s3 import S3Settings
from tests.cli.support import done, run
from tests.retention.support import AGE, SkippingClock
from tests.storage.adapters import CREDENTIALS
from tests.support.servers import REGION
from tests.support.shell import Shell

NAME = "sales"
WITHOUT = """
import sys
sys.modules["boto3"] = sys.modules["botocore"] = None
from graveler.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command where the libraries for AWS are not installed."""


@pytest.fixture
def bucket() -> Iterator[str]:
    with mock_aws(), patch.dict(os.environ, CREDENTIALS):
        name = f"undelete-{token_hex(4)}"
        s3 = boto3.client("s3", region_name=REGION)
        s3.create_bucket(Bucket=name)
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        yield name


def opened(bucket: str, table: str, *, create: bool = False, page: int = 1000) -> Lake:
    settings = S3Settings(REGION, list_page=page)
    return open_lake(f"s3://{bucket}/lake", f"dynamodb://{table}", s3=settings, region=REGION, create_table=create)


def filled(bucket: str) -> tuple[Lake, OpenRepository]:
    """A lake whose branch had objects that it has no more, which a tag had and has no more."""
    lake = opened(bucket, "now", create=True)
    repository = lake.create_repository(NAME, f"s3://{bucket}/lake/{NAME}")
    for number in range(5):
        repository.upload("main", f"old/{number}", b"old %d" % number)
    repository.upload("main", "kept", b"kept")
    repository.commit("main", "old")
    repository.create_branch("work", "main")
    repository.upload("work", "own", b"of no other branch")
    repository.commit("work", "own")
    return lake, repository


def restore_table(bucket: str) -> None:
    """What point-in-time recovery makes: another table with the items of that moment."""
    dynamodb = boto3.client("dynamodb", region_name=REGION)
    described = dynamodb.describe_table(TableName="now")["Table"]
    dynamodb.create_table(
        TableName="then",
        KeySchema=described["KeySchema"],
        AttributeDefinitions=described["AttributeDefinitions"],
        BillingMode="PAY_PER_REQUEST",
    )
    for page in dynamodb.get_paginator("scan").paginate(TableName="now"):
        for item in page["Items"]:
            dynamodb.put_item(TableName="then", Item=item)


def collect(bucket: str) -> None:
    """Everything that no ref needs goes: each round a commit is marked, a day later its files go."""
    for days in (1, 2, 3):
        lake = opened(bucket, "now")
        later = Lake(lake.tables, lake.store_of, clock=SkippingClock(days * (AGE + 86_400)))
        repository = later.repository(NAME)
        Garbage(repository, Options(Mode.DELETE, repository.grace, repository.skew)).run()


def contents(repository: OpenRepository, ref: str) -> dict[str, bytes]:
    return {entry.path: repository.read(ref, entry.path) for entry in repository.objects(ref)}


@pytest.mark.parametrize(("how", "page"), [("since", 3), ("ref", 1000)])
def test_a_table_of_some_days_ago_finds_its_files(bucket: str, how: str, page: int) -> None:
    _, repository = filled(bucket)
    restore_table(bucket)  # the moment before the accident
    before, of_main = contents(repository, "work"), contents(repository, "main")
    repository.delete_branch("work")
    repository.delete("main", [f"old/{number}" for number in range(5)])
    repository.commit("main", "all that is old is gone")
    repository.set_retention(RetentionRules(1, {}))
    collect(bucket)

    restored = opened(bucket, "then", page=page).repository(NAME)
    with pytest.raises(GravelerError):
        contents(restored, "work")
    undelete = Undelete(restored)
    done = undelete.of_commit("work") if how == "ref" else undelete.bring_back(undelete.deleted(0))
    assert done.files >= 5 + 1 + 2, "objects, and files of the tree"
    assert done.wrong == ()
    fresh = opened(bucket, "then").repository(NAME)
    assert contents(fresh, "work") == before
    assert contents(fresh, "main") == of_main
    again = undelete.of_commit("work") if how == "ref" else undelete.bring_back(undelete.deleted(0))
    assert again.files == 0


def test_only_what_was_deleted_since_comes_back_and_not_what_was_put_again(bucket: str) -> None:
    _, repository = filled(bucket)
    objects = repository.namespace
    for key in ("data/x", "data/y", "data/z"):
        objects.put(key, b"first")
        objects.delete(key)
    objects.put("data/y", b"again")
    undelete = Undelete(repository)
    deleted = list(undelete.deleted(0))
    assert [(each.key, each.size) for each in deleted] == [("data/x", 5), ("data/z", 5)]
    assert list(undelete.deleted(max(each.deleted for each in deleted) + 1)) == []
    assert undelete.bring_back(deleted).files == 2
    assert [objects.get(key) for key in ("data/x", "data/y", "data/z")] == [b"first", b"again", b"first"]


def test_what_has_no_version_left_is_named(bucket: str) -> None:
    _, repository = filled(bucket)
    objects = repository.namespace
    objects.put("data/x", b"first")
    s3 = boto3.client("s3", region_name=REGION)
    key = f"lake/{NAME}/data/x"
    (version,) = s3.list_object_versions(Bucket=bucket, Prefix=key)["Versions"]
    objects.delete("data/x")
    s3.delete_object(Bucket=bucket, Key=key, VersionId=version["VersionId"])  # its time was over
    undelete = Undelete(repository)
    done = undelete.bring_back(undelete.deleted(0))
    assert done.files == 0
    assert done.wrong == ("data/x: no version of it is left",)


def test_without_versions_it_is_refused(bucket: str, tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository(NAME, f"local://{NAME}")
        with pytest.raises(InvalidError, match="gc restore"):
            Undelete(repository)
    plain = f"plain-{token_hex(4)}"
    boto3.client("s3", region_name=REGION).create_bucket(Bucket=plain)
    repository = opened(plain, "plain", create=True).create_repository(NAME, f"s3://{plain}/lake/{NAME}")
    with pytest.raises(InvalidError, match="keeps no versions"):
        Undelete(repository)


def test_what_a_bucket_refuses_is_named_and_the_rest_comes_back(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, repository = filled(bucket)
    objects = repository.namespace
    for key in ("data/x", "data/y"):
        objects.put(key, b"first")
        objects.delete(key)
    undelete = Undelete(repository)

    def refusing(request: Callable[[], Any], *arguments: Any) -> Any:
        if "undelete" not in arguments[0]:
            return send_or_explain(request, *arguments)
        return {"Errors": [{"Key": f"lake/{NAME}/data/x", "Code": "AccessDenied", "Message": "no"}]}

    found = list(undelete.deleted(0))
    assert undelete.bring_back(found, dry_run=True) == Undeleted(2, 10)
    monkeypatch.setattr("graveler.storage.objects.s3_versions.send_or_explain", refusing)
    assert undelete.bring_back(found) == Undeleted(1, 5, ("data/x: AccessDenied no",))


def test_a_folder_is_refused_without_boto3(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository(NAME, f"local://{NAME}")
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT, "--lake", tmp_path / "lake", "gc", "undelete", NAME, "--since", "1d"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stdout) == (2, "")
    assert "keeps no versions" in said.stderr
    assert "Traceback" not in said.stderr


def test_the_command(bucket: str, tmp_path: Path, shell: Shell) -> None:
    _, repository = filled(bucket)
    objects = repository.namespace
    for name, value in (
        ("GRAVELER_TABLES", "dynamodb://now"),
        ("GRAVELER_OBJECTS", f"s3://{bucket}/lake"),
        ("AWS_DEFAULT_REGION", REGION),
        ("XDG_CACHE_HOME", str(tmp_path)),
    ):
        shell.export(name, value)
    objects.put("data/x", b"first")
    objects.delete("data/x")
    assert done("gc", "undelete", NAME, "--since", "1d", "--dry-run").out == "would bring back 1 file, 5 B\n"
    with pytest.raises(ObjectMissingError):
        objects.get("data/x")
    assert done("gc", "undelete", NAME, "--since", "1d").out == "brought back 1 file, 5 B\n"
    assert objects.get("data/x") == b"first"
    for ref in ("work", f"lakefs://{NAME}/work"):
        assert done("gc", "undelete", NAME, "--ref", ref, "--json").json == {"files": 0, "bytes": 0, "wrong": []}
    for arguments in ([], ["--since", "1d", "--ref", "main"], ["--ref", "main", "--dry-run"], ["--since", "soon"]):
        refused = run("gc", "undelete", NAME, *arguments)
        assert refused.code == 2, arguments
        assert "--" in refused.err
