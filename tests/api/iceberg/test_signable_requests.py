"""Requests of S3 that may be signed: only those that read one file, or write a new one."""

import pytest

from graveler.api.iceberg.signable_requests import SignableRequest, SigningRequest, read_request
from graveler.errors import ForbiddenError

ENDPOINT = "http://127.0.0.1:9000"
HASH = "a" * 64


def read(
    uri: str, method: str = "GET", headers: dict[str, list[str]] | None = None, endpoint: str | None = ENDPOINT
) -> SignableRequest:
    return read_request(SigningRequest(method, uri, "us-east-1", headers or {}), endpoint)


@pytest.mark.parametrize(
    ("uri", "endpoint", "address"),
    [
        (f"{ENDPOINT}/lake/a/b", ENDPOINT, "s3://lake/a/b"),
        ("http://lake.127.0.0.1:9000/a/b", ENDPOINT, "s3://lake/a/b"),
        ("https://s3.eu-central-1.amazonaws.com/lake/a/b", None, "s3://lake/a/b"),
        ("https://lake.s3.eu-central-1.amazonaws.com/a/b", None, "s3://lake/a/b"),
        ("https://lake.s3.amazonaws.com/a/b", None, "s3://lake/a/b"),
        ("https://my.lake.s3.dualstack.us-gov-west-1.amazonaws.com/a", None, "s3://my.lake/a"),
        ("https://s3.cn-north-1.amazonaws.com.cn/lake/a", None, "s3://lake/a"),
        (f"{ENDPOINT}/lake/day=2020-01-01T00%253A00/%C3%BC%20x", ENDPOINT, "s3://lake/day=2020-01-01T00%3A00/ü x"),
    ],
)
def test_the_object_of_a_request(uri: str, endpoint: str | None, address: str) -> None:
    assert read(uri, endpoint=endpoint).address == address


@pytest.mark.parametrize(
    ("method", "query", "writes", "if_none_match"),
    [
        ("GET", "", False, None),
        ("HEAD", "", False, None),
        ("GET", "?partNumber=1&x-id=GetObject", False, None),
        ("PUT", "?x-id=PutObject", True, "*"),
        ("POST", "?uploads", True, None),
        ("PUT", "?partNumber=1&uploadId=u", True, None),
        ("POST", "?uploadId=u", True, "*"),
        ("DELETE", "?uploadId=u", True, None),
    ],
)
def test_what_is_written_replaces_nothing(method: str, query: str, writes: bool, if_none_match: str | None) -> None:
    request = read(f"{ENDPOINT}/lake/a{query}", method, {"If-None-Match": ["x"], "Range": ["bytes=0-1"]})
    assert request.writes is writes
    assert request.headers.get("if-none-match") == if_none_match
    assert "range" not in request.headers


@pytest.mark.parametrize(
    ("method", "query"),
    [
        ("DELETE", ""),
        ("DELETE", "?versionId=v"),
        ("POST", "?delete"),
        ("POST", ""),
        ("POST", "?restore"),
        ("POST", "?select&select-type=2"),
        ("GET", "?acl"),
        ("PUT", "?acl"),
        ("GET", "?uploadId=u"),
        ("GET", "?versionId=v"),
        ("GET", "?list-type=2&prefix="),
        ("GET", "?response-content-type=text%2Fhtml"),
        ("GET", "?X-Amz-Algorithm=AWS4-HMAC-SHA256"),
        ("PUT", "?tagging"),
        ("PUT", "?partNumber=1"),
        ("PUT", "?uploadId=u&uploadId=v&partNumber=1"),
        ("PUT", "?partNumber=1&uploadId=u&%61cl"),
        ("OPTIONS", ""),
        ("get", ""),
    ],
)
def test_nothing_else_is_signed(method: str, query: str) -> None:
    with pytest.raises(ForbiddenError, match="cannot be signed"):
        read(f"{ENDPOINT}/lake/a{query}", method)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/lake",
        "/lake/",
        "/lake?list-type=2",
        "//lake/a",
        "/lake//a",
        "/lake/a/",
        "/lake/a//b",
        "/lake/a/../b",
        "/lake/a/./b",
        "/lake/a/%2e%2e/b",
        "/lake/a/%2E./b",
        "/lake/a/%252e%252e/b",
        "/lake/a%2Fb",
        "/lake/a%2f..%2fb",
        "/lake%2Fa/b",
        "/lake/a+b",
        "/lake/%ff",
        "/lake/a%00b",
        "/lake/a%0Ab",
        "/lake/ü",
        "/lake/a#b",
        "/la/a",
        "/../a",
    ],
)
def test_paths_that_could_mean_another_object_are_refused(path: str) -> None:
    with pytest.raises(ForbiddenError, match="cannot be signed"):
        read(f"{ENDPOINT}{path}")


@pytest.mark.parametrize(
    ("uri", "endpoint"),
    [
        ("http://evil.example.org/lake/a", None),
        ("https://evil.example.org/lake/a", None),
        ("http://s3.us-east-1.amazonaws.com/lake/a", None),
        ("https://s3.us-east-1.amazonaws.com.evil.example.org/lake/a", None),
        ("https://s3.us-east-1.amazonaws.com@evil.example.org/lake/a", None),
        ("https://x@s3.us-east-1.amazonaws.com/lake/a", None),
        ("https://s3.us-east-1.amazonaws.com:444/lake/a", None),
        ("https://s3-website.us-east-1.amazonaws.com/lake/a", None),
        ("https://ap-1.s3-accesspoint.us-east-1.amazonaws.com/a", None),
        ("https://evil.amazonaws.com/lake/a", None),
        ("https://127.0.0.1:9000/lake/a", ENDPOINT),
        ("http://127.0.0.1:9001/lake/a", ENDPOINT),
        ("http://lake@127.0.0.1:9000/lake/a", ENDPOINT),
        ("http://a/lake.127.0.0.1:9000/a", ENDPOINT),
        ("http://[/a", ENDPOINT),
        ("s3://lake/a", ENDPOINT),
        ("", ENDPOINT),
        ("http://127.0.0.1:9000/" + "a" * 9000, ENDPOINT),
    ],
)
def test_other_hosts_are_refused(uri: str, endpoint: str | None) -> None:
    with pytest.raises(ForbiddenError, match="cannot be signed"):
        read(uri, endpoint=endpoint)


@pytest.mark.parametrize(
    "header",
    [
        "x-amz-copy-source",
        "X-Amz-Copy-Source-Range",
        "x-amz-acl",
        "x-amz-grant-read",
        "x-amz-tagging",
        "x-amz-object-lock-mode",
        "x-amz-website-redirect-location",
        "x-amz-security-token",
        "x-amz-server-side-encryption-customer-key",
        "x-amz-bypass-governance-retention",
        "x-amz-rename-source",
    ],
)
def test_headers_that_reach_elsewhere_are_refused(header: str) -> None:
    with pytest.raises(ForbiddenError, match="does more than"):
        read(f"{ENDPOINT}/lake/a", "PUT", {header: ["lake/b"]})


def test_headers_that_describe_the_bytes_are_signed() -> None:
    headers = {
        "X-Amz-Checksum-CRC32": ["AAAA"],
        "x-amz-meta-a": ["b   c"],
        "x-amz-content-sha256": [HASH],
        "X-Amz-Date": ["20200101T000000Z"],
        "Host": ["evil"],
        "Authorization": ["x"],
        "User-Agent": ["y"],
    }
    assert read(f"{ENDPOINT}/lake/a", "PUT", headers).headers == {
        "x-amz-checksum-crc32": "AAAA",
        "x-amz-meta-a": "b c",
        "x-amz-content-sha256": HASH,
        "if-none-match": "*",
        "host": "127.0.0.1:9000",
    }
    trailing = read(f"{ENDPOINT}/lake/a", "PUT", {"x-amz-trailer": ["x-amz-checksum-crc32"]})
    assert trailing.headers["x-amz-content-sha256"] == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    for wrong in (
        {"x-amz-content-sha256": ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD"]},
        {"x-amz-meta-a": ["b\r\nx-amz-acl:public-read"]},
        {"x-amz-meta-a": ["b"], "X-Amz-Meta-A": ["c"]},
        {"x-amz-meta-a\nx-amz-acl": ["b"]},
    ):
        with pytest.raises(ForbiddenError):
            read(f"{ENDPOINT}/lake/a", "PUT", wrong)
