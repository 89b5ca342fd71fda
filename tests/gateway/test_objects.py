"""Objects through a gateway, as boto3 sees them."""

from collections.abc import Callable
from hashlib import md5
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError

from graveler.gateway.control import REGION
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from tests.gateway.support import GatewayProcess, code_of

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

KEYS = ["a", "a/", "a/b", "a//b", "/a", "ünï cödé/π", "a%2Fb", "a+b", "a b", "quote'\"<>&", "#?=;:@"]
KEYS += ["..", "./x", "\x01", "x" * 1024]


@pytest.mark.parametrize("key", KEYS)
def test_what_is_put_is_there_at_once_under_its_name(s3: "S3Client", repository: OpenRepository, key: str) -> None:
    body = key.encode() * 3
    put = s3.put_object(Bucket="sales", Key=key, Body=body, ContentType="text/x-test", Metadata={"origin": "here"})
    digest = md5(body).hexdigest()
    assert put["ETag"] == f'"{digest}"'
    got = s3.get_object(Bucket="sales", Key=key)
    assert got["Body"].read() == body
    assert (got["ETag"], got["ContentType"], got["Metadata"]) == (f'"{digest}"', "text/x-test", {"origin": "here"})
    entry = repository.stat("main", key)
    assert (entry.size, entry.checksum, entry.content_type) == (len(body), digest, "text/x-test")
    listed = s3.list_objects_v2(Bucket="sales", Prefix=key)["Contents"]
    assert key in [found.get("Key") for found in listed]
    s3.delete_object(Bucket="sales", Key=key)
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket="sales", Key=key)
    assert code_of(error.value) == (404, "NoSuchKey")
    with pytest.raises(ClientError) as error:
        s3.head_object(Bucket="sales", Key=key)
    assert code_of(error.value)[0] == 404


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 262_144, 1 << 20, 9_000_001])
def test_ranges_are_those_of_the_bytes(s3: "S3Client", size: int) -> None:
    body = bytes(i * 7 % 251 for i in range(min(size, 997))) * (size // 997 + 1)
    body = body[:size]
    put = s3.put_object(Bucket="sales", Key="ranged", Body=body)
    assert put["ETag"] == f'"{md5(body).hexdigest()}"'  # of large ones the store's, if it is that
    assert s3.get_object(Bucket="sales", Key="ranged")["Body"].read() == body
    for text, part in (
        ("bytes=0-0", body[:1]),
        ("bytes=1-", body[1:]),
        ("bytes=-3", body[-3:]),
        ("bytes=5-70000", body[5:70001]),
        (f"bytes=0-{size * 2}", body),
    ):
        if not part:
            with pytest.raises(ClientError) as error:
                s3.get_object(Bucket="sales", Key="ranged", Range=text)
            assert code_of(error.value) == (416, "InvalidRange")
            continue
        got = s3.get_object(Bucket="sales", Key="ranged", Range=text)
        assert got["Body"].read() == part
        assert got["ContentRange"].endswith(f"/{size}")


def test_conditions_of_reads(s3: "S3Client") -> None:
    etag = s3.put_object(Bucket="sales", Key="conditional", Body=b"x")["ETag"]
    assert s3.get_object(Bucket="sales", Key="conditional", IfMatch=etag)["Body"].read() == b"x"
    for arguments, expected in (
        ({"IfMatch": '"other"'}, (412, "PreconditionFailed")),
        ({"IfNoneMatch": etag}, (304, "304")),
    ):
        with pytest.raises(ClientError) as error:
            s3.get_object(Bucket="sales", Key="conditional", **arguments)  # type: ignore[arg-type]
        assert code_of(error.value) == expected


def test_conditions_of_writes(s3: "S3Client") -> None:
    etag = s3.put_object(Bucket="sales", Key="written", Body=b"1", IfNoneMatch="*")["ETag"]
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket="sales", Key="written", Body=b"2", IfNoneMatch="*")
    assert code_of(error.value) == (412, "PreconditionFailed")
    second = s3.put_object(Bucket="sales", Key="written", Body=b"2", IfMatch=etag)["ETag"]
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket="sales", Key="written", Body=b"3", IfMatch=etag)
    assert code_of(error.value) == (412, "PreconditionFailed")
    with pytest.raises(ClientError) as error:
        s3.delete_object(Bucket="sales", Key="written", IfMatch=etag)
    assert code_of(error.value) == (412, "PreconditionFailed")
    s3.delete_object(Bucket="sales", Key="written", IfMatch=second)


def test_many_are_deleted_at_once(s3: "S3Client") -> None:
    for key in ("many/1", "many/2"):
        s3.put_object(Bucket="sales", Key=key, Body=b"")
    deleted = s3.delete_objects(
        Bucket="sales", Delete={"Objects": [{"Key": "many/1"}, {"Key": "many/2"}, {"Key": "many/none"}]}
    )
    assert [item["Key"] for item in deleted["Deleted"]] == ["many/1", "many/2", "many/none"]
    assert "Contents" not in s3.list_objects_v2(Bucket="sales", Prefix="many/")


def test_listings_have_pages_and_folders(s3: "S3Client") -> None:
    keys = [f"listed/{day}/{part}" for day in range(7) for part in range(3)]
    for key in keys:
        s3.put_object(Bucket="sales", Key=key, Body=b"x")
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket="sales", Prefix="listed/", PaginationConfig={"PageSize": 4}
    )
    assert [item["Key"] for page in pages for item in page["Contents"]] == keys
    old = s3.get_paginator("list_objects").paginate(
        Bucket="sales", Prefix="listed/", Delimiter="/", PaginationConfig={"PageSize": 2}
    )
    assert [item["Prefix"] for page in old for item in page["CommonPrefixes"]] == [f"listed/{day}/" for day in range(7)]
    assert s3.list_objects_v2(Bucket="sales", Prefix="listed/", MaxKeys=0)["KeyCount"] == 0


def test_a_bucket_with_a_prefix_shows_the_branch_below_it(s3: "S3Client") -> None:
    s3.put_object(Bucket="company-lake", Key="warehouse/t/1", Body=b"x")
    assert s3.get_object(Bucket="sales", Key="t/1")["Body"].read() == b"x"
    for prefix, delimiter, keys, prefixes in (
        ("", "/", [], ["warehouse/"]),
        ("ware", "/", [], ["warehouse/"]),
        ("warehouse/t/", "", ["warehouse/t/1"], []),
        ("other", "", [], []),
    ):
        listed: Any = s3.list_objects_v2(Bucket="company-lake", Prefix=prefix, Delimiter=delimiter)
        assert [item["Key"] for item in listed.get("Contents", [])] == keys
        assert [item["Prefix"] for item in listed.get("CommonPrefixes", [])] == prefixes
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket="company-lake", Key="other/1", Body=b"")
    assert code_of(error.value) == (403, "AccessDenied")


def test_a_marker_of_the_branch_itself_is_taken_and_not_stored(s3: "S3Client") -> None:
    """pyarrow writes a marker for each folder above its files, and the uppermost may be the branch."""
    assert s3.put_object(Bucket="company-lake", Key="warehouse/", Body=b"")["ETag"] == f'"{md5().hexdigest()}"'
    s3.put_object(Bucket="company-lake", Key="warehouse/beside", Body=b"x")
    keys = {item["Key"] for item in s3.list_objects_v2(Bucket="company-lake")["Contents"]}
    assert "warehouse/beside" in keys
    assert "warehouse/" not in keys
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket="company-lake", Key="warehouse/", Body=b"x")
    assert code_of(error.value) == (400, "InvalidArgument")


def test_what_is_only_read_is_not_written(s3: "S3Client") -> None:
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket="archive", Key="x", Body=b"")
    assert code_of(error.value) == (403, "AccessDenied")


def test_buckets(s3: "S3Client") -> None:
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == [
        "sales",
        "company-lake",
        "archive",
        "other",
        "dev",
    ]
    s3.head_bucket(Bucket="sales")
    s3.create_bucket(Bucket="sales", CreateBucketConfiguration={"LocationConstraint": REGION})
    assert s3.get_bucket_location(Bucket="sales")["LocationConstraint"] == REGION
    with pytest.raises(ClientError) as error:
        s3.list_objects_v2(Bucket="unknown")
    assert code_of(error.value) == (404, "NoSuchBucket")


def test_copies_share_their_bytes_within_a_repository(s3: "S3Client", repository: OpenRepository) -> None:
    etag = s3.put_object(Bucket="sales", Key="copy/a b%2F", Body=b"x" * 70_000, Metadata={"a": "1"})["ETag"]
    source: Any = {"Bucket": "sales", "Key": "copy/a b%2F"}
    copied = s3.copy_object(Bucket="company-lake", Key="warehouse/copy/b", CopySource=source)
    assert copied["CopyObjectResult"]["ETag"] == etag
    assert repository.stat("main", "copy/b").address == repository.stat("main", "copy/a b%2F").address
    assert s3.head_object(Bucket="sales", Key="copy/b")["Metadata"] == {"a": "1"}
    s3.copy_object(
        Bucket="sales",
        Key="copy/b",
        CopySource=source,
        MetadataDirective="REPLACE",
        Metadata={"b": "2"},
        ContentType="text/csv",
        ContentEncoding="gzip",
        CopySourceIfMatch=etag,
    )
    head = s3.head_object(Bucket="sales", Key="copy/b")
    assert (head["Metadata"], head["ContentType"], head["ContentEncoding"]) == ({"b": "2"}, "text/csv", "gzip")
    for arguments in ({"CopySourceIfMatch": '"other"'}, {"IfNoneMatch": "*"}, {"IfMatch": '"other"'}):
        with pytest.raises(ClientError) as error:
            s3.copy_object(Bucket="sales", Key="copy/b", CopySource=source, **arguments)  # type: ignore[arg-type]
        assert code_of(error.value) == (412, "PreconditionFailed")


def test_a_copy_into_another_repository_has_bytes_of_its_own(s3: "S3Client", lake: Lake) -> None:
    etag = s3.put_object(Bucket="sales", Key="copy/c", Body=b"y" * 300_000, ContentType="text/csv")["ETag"]
    copied = s3.copy_object(Bucket="other", Key="c", CopySource={"Bucket": "sales", "Key": "copy/c"})
    assert copied["CopyObjectResult"]["ETag"] == etag
    got = s3.get_object(Bucket="other", Key="c")
    assert (got["ETag"], got["ContentType"], got["Body"].read()) == (etag, "text/csv", b"y" * 300_000)
    other, sales = lake.repository("other"), lake.repository("sales")
    assert other.stat("main", "c").address.startswith(other.repository.namespace)
    assert other.stat("main", "c").address != sales.stat("main", "copy/c").address


def test_an_upload_in_parts_is_an_object_at_its_end(s3: "S3Client", repository: OpenRepository) -> None:
    begun = s3.create_multipart_upload(Bucket="sales", Key="joined/1", ContentType="text/x-test", Metadata={"a": "1"})
    upload: Any = {"Bucket": "sales", "Key": "joined/1", "UploadId": begun["UploadId"]}
    bodies = [b"a" * (5 << 20), b"b" * (5 << 20), b"c"]
    parts: Any = [
        {"PartNumber": number, "ETag": s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"]}
        for number, body in reversed(list(enumerate(bodies, 1)))
    ][::-1]
    assert [part["ETag"].strip('"') for part in parts] == [md5(body).hexdigest() for body in bodies]
    listed = s3.list_parts(**upload)
    assert [(part["PartNumber"], part["Size"]) for part in listed["Parts"]] == [(1, 5 << 20), (2, 5 << 20), (3, 1)]
    uploads = s3.list_multipart_uploads(Bucket="sales", Prefix="joined/", Delimiter="/")["Uploads"]
    assert [(item["Key"], item["UploadId"]) for item in uploads] == [("joined/1", begun["UploadId"])]
    assert not repository.list_objects("main", prefix="joined/").results
    with pytest.raises(ClientError) as error:
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": '"wrong"'}]})
    assert code_of(error.value) == (400, "InvalidPart")
    assert "part 1 of the upload of 'joined/1' with ETag wrong does not exist: that part has the ETag" in str(
        error.value
    )
    with pytest.raises(ClientError, match=r"part 4 of the upload of 'joined/1' with ETag wrong .* was not uploaded"):
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 4, "ETag": '"wrong"'}]})
    etag = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})["ETag"]
    joined = md5(b"".join(md5(body).digest() for body in bodies)).hexdigest()
    assert etag == f'"{joined}-3"'
    assert s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})["ETag"] == etag
    got = s3.get_object(Bucket="sales", Key="joined/1")
    assert got["Body"].read() == b"".join(bodies)
    assert (got["ContentType"], got["Metadata"]) == ("text/x-test", {"a": "1"})
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="sales", Prefix="joined/")


def test_an_aborted_upload_is_gone(s3: "S3Client") -> None:
    begun = s3.create_multipart_upload(Bucket="sales", Key="parted/2")
    upload: Any = {"Bucket": "sales", "Key": "parted/2", "UploadId": begun["UploadId"]}
    s3.upload_part(**upload, PartNumber=1, Body=b"x")
    s3.abort_multipart_upload(**upload)
    requests: list[Callable[[], object]] = [
        lambda: s3.upload_part(**upload, PartNumber=2, Body=b"x"),
        lambda: s3.list_parts(**upload),
        lambda: s3.abort_multipart_upload(**upload),
        lambda: s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": "x"}]}),
    ]
    for request in requests:
        with pytest.raises(ClientError) as error:
            request()
        assert code_of(error.value) == (404, "NoSuchUpload")


def test_an_upload_waits_for_a_branch_of_its_name(gateway: GatewayProcess, repository: OpenRepository) -> None:
    """Of a branch that is gone a part is still taken, since looking would cost a request for each; nothing is lost."""
    repository.create_branch("dev", "main")
    client = gateway.client()
    upload: Any = {"Bucket": "dev", "Key": "parted/4"}
    upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
    repository.delete_branch("dev")
    parts: Any = [{"PartNumber": 1, "ETag": client.upload_part(**upload, PartNumber=1, Body=b"x")["ETag"]}]
    with pytest.raises(ClientError, match="branch 'dev' does not exist any more") as error:
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert code_of(error.value) == (404, "NoSuchUpload")
    repository.create_branch("dev", "main")
    client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert client.get_object(Bucket="dev", Key="parted/4")["Body"].read() == b"x"
    repository.delete_branch("dev")


def test_parts_are_copied_from_objects(s3: "S3Client") -> None:
    s3.put_object(Bucket="sales", Key="parted/source", Body=bytes(range(256)) * 100_000)
    begun = s3.create_multipart_upload(Bucket="sales", Key="parted/3")
    upload: Any = {"Bucket": "sales", "Key": "parted/3", "UploadId": begun["UploadId"]}
    source: Any = {"Bucket": "sales", "Key": "parted/source"}
    ranges = ("bytes=10-9999999", "bytes=0-255")
    parts: Any = [
        {
            "PartNumber": number,
            "ETag": s3.upload_part_copy(**upload, PartNumber=number, CopySource=source, CopySourceRange=part)[
                "CopyPartResult"
            ]["ETag"],
        }
        for number, part in enumerate(ranges, 1)
    ]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*")
    whole = bytes(range(256)) * 100_000
    assert s3.get_object(Bucket="sales", Key="parted/3")["Body"].read() == whole[10:10_000_000] + whole[:256]
    with pytest.raises(ClientError) as error:
        s3.upload_part_copy(**upload, PartNumber=1, CopySource=source, CopySourceRange="bytes=0-99999999999")
    assert code_of(error.value)[0] in (400, 404)


def test_a_plain_bucket_answers_for_what_a_lake_has_not(s3: "S3Client") -> None:
    assert s3.get_bucket_acl(Bucket="sales")["Grants"][0]["Permission"] == "FULL_CONTROL"
    assert "Status" not in s3.get_bucket_versioning(Bucket="sales")
    requests: list[tuple[Callable[[], object], tuple[int, str]]] = [
        (lambda: s3.get_bucket_policy(Bucket="sales"), (404, "NoSuchBucketPolicy")),
        (lambda: s3.put_bucket_versioning(Bucket="sales", VersioningConfiguration={}), (501, "NotImplemented")),
        (lambda: s3.put_object_tagging(Bucket="sales", Key="x", Tagging={"TagSet": []}), (501, "NotImplemented")),
        (lambda: s3.get_object(Bucket="sales", Key="x", VersionId="1"), (404, "NoSuchVersion")),
    ]
    for request, code in requests:
        with pytest.raises(ClientError) as error:
            request()
        assert code_of(error.value) == code


def test_presigned_requests(s3: "S3Client") -> None:
    put = s3.generate_presigned_url("put_object", {"Bucket": "sales", "Key": "signed é"}, 60)
    with urlopen(Request(put, data=b"bytes", method="PUT")) as response:
        assert response.status == 200
    with urlopen(s3.generate_presigned_url("get_object", {"Bucket": "sales", "Key": "signed é"}, 60)) as response:
        assert response.read() == b"bytes"
    with pytest.raises(HTTPError) as error, urlopen(put):  # signed for PUT
        pass
    with error.value:
        assert error.value.code == 403
