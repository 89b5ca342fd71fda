"""Buckets of S3 that a program reads beside its lake. The server beside it notes what arrives, and answers as a test says."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from graveler.errors import InvalidError
from graveler.gateway.control import Mount, S3Place, parse_s3_place
from graveler.lake.opening.folder import create_folder_lake
from tests.gateway.store.scripted_s3 import Answer, Request, ScriptedS3, refuse, scripted_s3
from tests.gateway.support import code_of, running_gateway
from tests.storage.adapters import CREDENTIALS
from tests.support.servers import ACCESS_KEY, REGION

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

DATA = os.urandom(3 << 20)
Get = Callable[["S3Client"], object]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedS3]:
    """A server of S3 in a thread."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def result(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    block = scripted_s3()
    yield result(block.__aenter__())
    result(block.__aexit__(None, None, None))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def client(server: ScriptedS3, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[S3Client]":
    folder = tmp_path_factory.mktemp("sources") / "lake"
    with create_folder_lake(folder) as lake:
        lake.create_repository("sales", "local://sales")
    environment = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL_S3": server.url, "AWS_REGION": REGION}
    mount = Mount(bucket="sales", repository="sales", ref="main")
    places = (S3Place("raw"), S3Place("half", "in/"), S3Place("half", "out/"))
    with running_gateway(folder, mount, environment=environment, also=places) as gateway:
        yield gateway.client()


@pytest.fixture
def s3(server: ScriptedS3, client: "S3Client") -> "S3Client":
    server.begin({})
    return client


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    """Send this response."""

    async def send(request: Request) -> None:
        length = int(headers.pop("length", len(body)))
        request.send(status, body if request.method != "HEAD" else b"", length=length, **headers)

    return send


def test_an_object_passes_as_it_is(s3: "S3Client", server: ScriptedS3) -> None:
    headers = {
        "etag": '"abc-3"',
        "last_modified": "Sat, 01 Aug 2026 10:00:00 GMT",
        "content_type": "text/csv",
        "content_encoding": "zstd",
        "x_amz_meta_job": "7",
        "x_amz_storage_class": "STANDARD_IA",
        "x_amz_request_id": "theirs",
    }
    server.will(answer(206, DATA, content_range=f"bytes 5-{len(DATA) + 4}/9000000", **headers))
    got = s3.get_object(Bucket="raw", Key="a b/ü", Range=f"bytes=5-{len(DATA) + 4}", IfMatch='"abc-3"', VersionId="v1")
    assert got["Body"].read() == DATA
    assert (got["ETag"], got["ContentType"], got["ContentEncoding"]) == ('"abc-3"', "text/csv", "zstd")
    assert (got["Metadata"], got["StorageClass"]) == ({"job": "7"}, "STANDARD_IA")
    assert got["LastModified"].isoformat() == "2026-08-01T10:00:00+00:00"
    assert got["ResponseMetadata"]["RequestId"] != "theirs"
    (request,) = server.requests
    assert (request.method, request.path) == ("GET", "/raw/a b/ü")
    assert request.target.endswith("?versionId=v1")
    assert (request.headers["range"], request.headers["if-match"]) == (f"bytes=5-{len(DATA) + 4}", '"abc-3"')
    assert f"Credential={ACCESS_KEY}/" in request.headers["authorization"]


def test_heads_have_no_body_and_keep_their_connection(s3: "S3Client", server: ScriptedS3) -> None:
    server.will(answer(200, length="9000000000", x_amz_checksum_crc32="AAAA"), answer(200, x_amz_bucket_region=REGION))
    assert s3.head_object(Bucket="raw", Key="a", ChecksumMode="ENABLED")["ContentLength"] == 9_000_000_000
    assert s3.head_bucket(Bucket="raw")["BucketRegion"] == REGION
    assert [(request.method, request.path) for request in server.requests] == [("HEAD", "/raw/a"), ("HEAD", "/raw/")]
    assert server.requests[0].headers["x-amz-checksum-mode"] == "ENABLED"
    assert server.connections <= 1


def test_listings_pass_with_their_parameters(s3: "S3Client", server: ScriptedS3) -> None:
    page = b"<ListBucketResult><Name>half</Name><KeyCount>1</KeyCount><Contents><Key>in/a</Key></Contents></ListBucketResult>"
    server.will(
        answer(200, page, content_type="application/xml"),
        answer(200, b"<LocationConstraint>eu-west-3</LocationConstraint>"),
    )
    listed = s3.list_objects_v2(Bucket="half", Prefix="in/", Delimiter="/", MaxKeys=5, StartAfter="in/0")
    assert [item["Key"] for item in listed["Contents"]] == ["in/a"]
    assert s3.get_bucket_location(Bucket="half")["LocationConstraint"] == "eu-west-3"
    queries = [sorted(request.target.partition("?")[2].split("&")) for request in server.requests]
    parameters = [
        "delimiter=%2F",
        "encoding-type=url",
        "list-type=2",
        "max-keys=5",
        "prefix=in%2F",
        "start-after=in%2F0",
    ]
    assert queries == [parameters, ["location="]]


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        (lambda s3: s3.get_object(Bucket="half", Key="other/a"), (403, "AccessDenied")),
        (lambda s3: s3.get_object(Bucket="half", Key="in"), (404, "NoSuchKey")),
        (lambda s3: s3.list_objects_v2(Bucket="half"), (403, "AccessDenied")),
        (lambda s3: s3.list_objects_v2(Bucket="half", Prefix="i"), (403, "AccessDenied")),
        (lambda s3: s3.put_object(Bucket="raw", Key="a", Body=DATA), (403, "AccessDenied")),
        (lambda s3: s3.delete_object(Bucket="raw", Key="a"), (403, "AccessDenied")),
        (lambda s3: s3.create_bucket(Bucket="raw"), (403, "AccessDenied")),
        (lambda s3: s3.create_multipart_upload(Bucket="raw", Key="a"), (403, "AccessDenied")),
        (lambda s3: s3.get_bucket_policy(Bucket="raw"), (403, "AccessDenied")),
        (lambda s3: s3.copy_object(Bucket="sales", Key="a", CopySource="raw/a"), (403, "AccessDenied")),
        (lambda s3: s3.get_object(Bucket="another", Key="a"), (404, "NoSuchBucket")),
    ],
)
def test_all_else_is_refused(s3: "S3Client", server: ScriptedS3, request_of: Get, code: tuple[int, str]) -> None:
    with pytest.raises(ClientError, match=r"--also|does not exist") as caught:
        request_of(s3)
    assert code_of(caught.value) == code
    assert not server.requests


@pytest.mark.parametrize(
    ("status", "code"), [(404, "NoSuchBucket"), (403, "AccessDenied"), (416, "InvalidRange"), (418, "New")]
)
def test_codes_of_s3_pass(s3: "S3Client", server: ScriptedS3, status: int, code: str) -> None:
    server.will(refuse(status, code), answer(status))
    with pytest.raises(ClientError, match='on "purpose"') as caught:
        s3.get_object(Bucket="raw", Key="a")
    assert code_of(caught.value) == (status, code)
    with pytest.raises(ClientError) as caught:
        s3.head_object(Bucket="raw", Key="a")
    assert code_of(caught.value) == (status, str(status))


def test_an_object_that_the_client_has_is_not_sent(s3: "S3Client", server: ScriptedS3) -> None:
    server.will(answer(304, etag='"a"'))
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket="raw", Key="a", IfNoneMatch='"a"')
    assert code_of(caught.value)[0] == 304


def test_a_bucket_of_another_region_is_asked_there(s3: "S3Client", server: ScriptedS3) -> None:
    server.will(refuse(301, "PermanentRedirect", x_amz_bucket_region="eu-west-3"), answer(200, b"1"), answer(200, b"2"))
    assert [s3.get_object(Bucket="raw", Key=key)["Body"].read() for key in "ab"] == [b"1", b"2"]
    scopes = [request.headers["authorization"].split("/")[2] for request in server.requests]
    assert scopes == [REGION, "eu-west-3", "eu-west-3"]


def test_a_read_that_is_cut_short_is_not_complete(s3: "S3Client", server: ScriptedS3) -> None:
    async def cut(request: Request) -> None:
        request.send(200, DATA[:100], length=len(DATA))
        await request.writer.drain()
        request.writer.close()

    server.will(cut)
    body = s3.get_object(Bucket="raw", Key="a")["Body"]
    with pytest.raises(Exception, match=r"(?i)incomplete|broken|reset"):
        body.read()


@pytest.mark.parametrize("text", ["raw", "s3://", "s3:///a", "s3://a b", "https://raw", "s3://-x/a"])
def test_what_names_no_bucket(text: str) -> None:
    with pytest.raises(InvalidError, match="names no bucket of S3"):
        parse_s3_place(text)


def test_a_prefix_is_a_folder() -> None:
    assert parse_s3_place("s3://raw/in") == parse_s3_place("s3://raw/in/") == S3Place("raw", "in/")
    assert parse_s3_place("s3://raw/") == S3Place("raw")
