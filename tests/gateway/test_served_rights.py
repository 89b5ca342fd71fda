"""The S3 port of ``graveler serve``: what each access key sees and may do."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from graveler.access.failure_limits import MOST
from graveler.access.keys import Keys
from graveler.access.permissions import Role
from graveler.lake.lake import Lake
from graveler.lake.objects.recorded_uploads import create_upload
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from tests.gateway.support import code_of
from tests.server.support import Running, running
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("served")
    with create_folder_lake(folder / "lake") as lake:
        for name in ("sales", "secret"):
            repository = lake.create_repository(name, f"local://{name}")
            repository.upload("main", "a", b"x")
            repository.commit("main", "First")
            repository.create_tag("rel/1", "main")
        lake.repository("sales").create_branch("dev", "main")
    with running(folder, "--s3-port", "0", workers=1) as started:
        yield started


@pytest.fixture(scope="module")
def lake(server: Running) -> Iterator[Lake]:
    with open_folder_lake(server.lake) as opened:
        yield opened


def client(server: Running, key_id: str, secret: str) -> "S3Client":
    return boto3.client(
        "s3",
        endpoint_url=server.s3_url,
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        region_name="eu-central-1",
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture(scope="module")
def limited(server: Running, lake: Lake) -> "S3Client":
    """Of a writer who sees one repository, and may change one branch of it."""
    key = Keys(lake.tables, lake.keyring).create("ana", Role.WRITER, ["sales"], ["dev"], s3=True, now=0.0)
    return client(server, key.key.key_id, key.secret)


def test_a_limited_key_sees_its_buckets_only(limited: "S3Client") -> None:
    assert [bucket["Name"] for bucket in limited.list_buckets()["Buckets"]] == ["sales"]


@pytest.mark.parametrize("bucket", ["secret", "missing"])
def test_a_limited_key_does_not_learn_which_other_repositories_there_are(limited: "S3Client", bucket: str) -> None:
    for refused in (
        lambda: limited.get_object(Bucket=bucket, Key="main/a"),
        lambda: limited.put_object(Bucket=bucket, Key="dev/a"),
        lambda: limited.list_objects_v2(Bucket=bucket, Prefix="main/"),
        lambda: limited.list_multipart_uploads(Bucket=bucket, Prefix="main/"),
        lambda: limited.copy_object(Bucket="sales", Key="dev/b", CopySource=f"{bucket}/main/a"),
        lambda: limited.create_multipart_upload(Bucket=bucket, Key="dev/a"),
    ):
        with pytest.raises(ClientError) as caught:
            refused()
        assert code_of(caught.value) == (403, "AccessDenied")


def test_a_limited_key_changes_its_branches_only(limited: "S3Client") -> None:
    limited.put_object(Bucket="sales", Key="dev/b", Body=b"y")
    deleted = limited.delete_objects(
        Bucket="sales", Delete={"Objects": [{"Key": key} for key in ("main/a", "dev/b", "rel/1/a", "dev~0/a")]}
    )
    assert [item["Key"] for item in deleted["Deleted"]] == ["dev/b"]
    assert {(item["Key"], item["Code"]) for item in deleted["Errors"]} == {
        (key, "AccessDenied") for key in ("main/a", "rel/1/a", "dev~0/a")
    }
    assert limited.get_object(Bucket="sales", Key="main/a")["Body"].read() == b"x"


def test_tags_with_slashes_are_found_level_by_level(limited: "S3Client") -> None:
    def below(prefix: str) -> list[str]:
        page = limited.list_objects_v2(Bucket="sales", Prefix=prefix, Delimiter="/")
        return [item["Prefix"] for item in page.get("CommonPrefixes", ())] + [
            item["Key"] for item in page.get("Contents", ())
        ]

    assert below("") == ["dev/", "main/", "rel/"]
    assert below("rel") == ["rel/"]
    assert below("rel/") == ["rel/1/"]
    assert below("rel/1/") == ["rel/1/a"]
    with pytest.raises(ClientError, match="no branch, tag or commit has this name"):
        below("missing/")


def test_uploads_of_all_branches_are_listed_by_key(limited: "S3Client", lake: Lake) -> None:
    sales = lake.repository("sales")
    for branch in ("dev", "dev-2", "main"):
        if branch == "dev-2":
            sales.create_branch(branch, "main")
        for path in ("a", "b/c"):
            create_upload(sales.parts, branch, path)
    keys = [f"{branch}/{path}" for branch in ("dev-2", "dev", "main") for path in ("a", "b/c")]

    def listed(**options: Any) -> tuple[list[str], list[str]]:
        pages = list(limited.get_paginator("list_multipart_uploads").paginate(Bucket="sales", **options))
        uploads = [item["Key"] for page in pages for item in page.get("Uploads", ())]
        return uploads, [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", ())]

    assert listed() == (keys, [])
    assert listed(PaginationConfig={"PageSize": 2}) == (keys, [])
    assert listed(Delimiter="/") == ([], ["dev-2/", "dev/", "main/"])
    assert listed(Prefix="dev", Delimiter="/", PaginationConfig={"PageSize": 1}) == ([], ["dev-2/", "dev/"])
    assert listed(Prefix="dev/", Delimiter="/") == (["dev/a"], ["dev/b/"])
    assert listed(Prefix="/d") == listed(Prefix="rel/1/") == ([], [])
    sales.delete_branch("dev-2")  # other tests list the branches


def test_deletions_and_refused_signatures_are_lines_of_the_audit_log(
    server: Running, lake: Lake, limited: "S3Client"
) -> None:
    limited.delete_objects(Bucket="sales", Delete={"Objects": [{"Key": "dev/1"}, {"Key": "dev/2"}]})
    long = [{"Key": f"dev/{number:0<1000}"} for number in range(20)]
    limited.delete_objects(Bucket="sales", Delete={"Objects": long})  # type: ignore[typeddict-item]
    key = Keys(lake.tables, lake.keyring).create("eve", Role.WRITER, ["sales"], s3=True, now=0.0).key.key_id
    with pytest.raises(ClientError):
        client(server, key, "wrong").put_object(Bucket="sales", Key="dev/3")
    lines = [json.loads(line) for line in server.errors.read_text().splitlines() if line.startswith("{")]
    first, second = [
        line for line in lines if "paths" in line and not {"dev/1", long[0]["Key"]}.isdisjoint(line["paths"])
    ]
    assert (first["paths"], first.get("omitted"), first["name"]) == (["dev/1", "dev/2"], None, "ana")
    assert (len(second["paths"]), second["omitted"]) == (16, 4)
    [refused] = [line for line in lines if line.get("key_id") == key]
    assert (refused["outcome"], refused["key_id"], refused["path"]) == ("SignatureDoesNotMatch", key, "dev/3")
    assert refused["action"] == "PutObject"


def test_failures_are_counted_by_address(server: Running) -> None:
    assert server.s3_url is not None
    claim = "Credential=AKIAUNKNOWN/20261128/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    headers = {
        "authorization": f"AWS4-HMAC-SHA256 {claim}",
        "x-amz-date": "20261128T000000Z",
        "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
    }
    statuses = []
    for _ in range(MOST + 1):
        with closing(HTTPConnection(urlsplit(server.s3_url).netloc, timeout=PATIENCE)) as connection:
            connection.request("GET", "/", headers=headers)
            statuses.append(connection.getresponse().status)
    assert statuses == [403] * MOST + [503]
    lines = [json.loads(line) for line in server.errors.read_text().splitlines() if "AKIAUNKNOWN" in line]
    assert [line["outcome"] for line in lines] == ["InvalidAccessKeyId"] * MOST
