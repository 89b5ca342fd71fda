"""Metadata of objects as headers, in both directions, and other headers about the object that a request writes."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.protocol.object_headers import (
    copy_source,
    expect_no_version,
    expect_supported,
    object_headers,
    object_metadata,
    replaces_metadata,
    response_overrides,
)
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry

_MD5 = "5d41402abc4b2a76b9719d911017c592"


def _entry(metadata: Mapping[str, str], content_type: str = "text/csv", checksum: str = _MD5) -> ObjectEntry:
    return ObjectEntry("a/b", "mem://x/y", 5, checksum, 1369353600, content_type, metadata)


def _refused(work: Callable[[], object], code: str) -> S3Error:
    with pytest.raises(S3Error) as refusal:
        work()
    assert refusal.value.code == code
    return refusal.value


def test_headers_of_an_object() -> None:
    assert object_headers(_entry({"Colour": "blue", "http:cache-control": "no-cache"})) == {
        "etag": f'"{_MD5}"',
        "last-modified": "Fri, 24 May 2013 00:00:00 GMT",
        "accept-ranges": "bytes",
        "content-type": "text/csv",
        "x-amz-meta-colour": "blue",
        "cache-control": "no-cache",
    }


def test_metadata_that_is_no_header() -> None:
    headers = object_headers(_entry({"::lakefs::a": "b", "a b": "c", "": "d", "http:host": "e", "a": "f"}))
    assert headers["x-amz-missing-meta"] == "4"
    assert headers["x-amz-meta-a"] == "f"


def test_values_that_no_header_can_have() -> None:
    headers = object_headers(_entry({"a": "b\r\nset-cookie: c", "http:expires": "\n"}, "text/html\r\n", 'a"b'))
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    assert headers["content-type"] == DEFAULT_CONTENT_TYPE
    assert "etag" not in headers


_SYSTEM = {
    "cache-control": "max-age=5",
    "content-disposition": 'attachment; filename="a.csv"',
    "content-encoding": "gzip",
    "content-language": "de, fr",
    "expires": "Fri, 24 May 2013 00:00:00 GMT",
}
_NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,10}", fullmatch=True)
_VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(str.strip)


@given(st.dictionaries(_NAMES, _VALUES, max_size=5), st.sets(st.sampled_from(sorted(_SYSTEM))))
def test_metadata_comes_back(metadata: Mapping[str, str], names: set[str]) -> None:
    """Of any text: its headers are those that the client sent, or mean the same."""
    system = {f"http:{name}": _SYSTEM[name] for name in names}
    headers = object_headers(_entry({**metadata, **system}))
    content_type, again = object_metadata(headers)
    assert content_type == "text/csv"
    assert again == {**metadata, **system}
    assert object_headers(_entry(again)) == headers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ("=?UTF-8?Q?caf=C3=A9?=", "café"),
        ("=?utf-8?b?Y2Fmw6k=?=", "café"),
        ("=?ISO-8859-1?Q?caf=E9?=", "café"),
        ("=?UTF-8?B?Y2Fmw6k?=", "café"),
        ("=?none-such?Q?caf=E9?=", "=?none-such?Q?caf=E9?="),
        ("1=?2", "1=?2"),
    ],
)
def test_values_encoded_by_rfc_2047(value: str, text: str) -> None:
    assert object_metadata({"x-amz-meta-a": value}) == (DEFAULT_CONTENT_TYPE, {"a": text})


def test_a_lonely_prefix_is_no_metadata() -> None:
    assert object_metadata({"x-amz-meta-": "a", "content-type": ""}) == (DEFAULT_CONTENT_TYPE, {})


@pytest.mark.parametrize(
    ("encoding", "rest"),
    [("aws-chunked", None), ("gzip,aws-chunked", "gzip"), ("AWS-Chunked, zstd", "zstd"), ("gzip, br", "gzip, br")],
)
def test_the_encoding_of_the_request_is_none_of_the_object(encoding: str, rest: str | None) -> None:
    _, metadata = object_metadata({"content-encoding": encoding})
    assert metadata == ({} if rest is None else {"http:content-encoding": rest})


def test_metadata_is_bounded() -> None:
    assert object_metadata({"x-amz-meta-ab": "c" * 2046})[1] == {"ab": "c" * 2046}
    error = _refused(lambda: object_metadata({"x-amz-meta-ab": "c" * 2047}), "MetadataTooLarge")
    assert (error.status, error.fields) == (400, {"Size": "2049", "MaxSizeAllowed": "2048"})


def test_overrides_of_a_response() -> None:
    parameters = {
        "response-content-type": "text/plain",
        "response-content-disposition": "attachment",
        "response-content-encoding": "gzip",
        "response-content-language": "de",
        "response-cache-control": "no-store",
        "response-expires": "0",
        "response-host": "a",
    }
    assert response_overrides(parameters) == {
        "content-type": "text/plain",
        "content-disposition": "attachment",
        "content-encoding": "gzip",
        "content-language": "de",
        "cache-control": "no-store",
        "expires": "0",
    }
    for value in ("a\r\nb: c", "café"):
        _refused(lambda value=value: response_overrides({"response-expires": value}), "InvalidArgument")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("source", "bucket", "key"),
    [
        ("sales/main/a", "sales", "main/a"),
        ("/sales/main/a", "sales", "main/a"),
        ("sales/main/a%20b%2Bc+d", "sales", "main/a b+c+d"),
        ("sales%2Fmain%2Fa", "sales", "main/a"),
        ("sales/a%3FversionId=b", "sales", "a?versionId=b"),
        ("sales/a?versionId=null", "sales", "a"),
        ("sales//a", "sales", "/a"),
    ],
)
def test_sources_of_copies(source: str, bucket: str, key: str) -> None:
    assert copy_source({"x-amz-copy-source": source}) == (bucket, key)


@pytest.mark.parametrize(
    "source", ["", "/", "sales", "sales/", "/sales/", "arn:aws:s3:eu-west-1:1:accesspoint/a/object/b"]
)
def test_sources_that_name_no_object(source: str) -> None:
    _refused(lambda: copy_source({"x-amz-copy-source": source}), "InvalidArgument")


def test_versions() -> None:
    expect_no_version({})
    expect_no_version({"versionId": "null"})
    assert _refused(lambda: expect_no_version({"versionId": "abc"}), "NoSuchVersion").status == 404
    _refused(lambda: copy_source({"x-amz-copy-source": "sales/a?versionId=abc"}), "NoSuchVersion")


def test_directives() -> None:
    assert not replaces_metadata({})
    assert not replaces_metadata({"x-amz-metadata-directive": "COPY"})
    assert replaces_metadata({"x-amz-metadata-directive": "REPLACE"})
    _refused(lambda: replaces_metadata({"x-amz-metadata-directive": "MERGE"}), "InvalidArgument")


@pytest.mark.parametrize(
    "name",
    [
        "x-amz-server-side-encryption-customer-algorithm",
        "x-amz-copy-source-server-side-encryption-customer-key",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-tagging",
        "x-amz-grant-read",
        "x-amz-object-lock-mode",
        "x-amz-website-redirect-location",
        "x-amz-write-offset-bytes",
        "x-amz-if-match-size",
    ],
)
def test_headers_that_must_not_be_ignored(name: str) -> None:
    error = _refused(lambda: expect_supported({"host": "localhost", name: "1"}), "NotImplemented")
    assert (error.status, error.fields) == (501, {"Header": name})


def test_headers_that_may_be_ignored() -> None:
    expect_supported(
        {
            "x-amz-acl": "bucket-owner-full-control",
            "x-amz-storage-class": "STANDARD_IA",
            "x-amz-server-side-encryption": "AES256",
            "x-amz-tagging": "",
            "x-amz-tagging-directive": "COPY",
            "x-amz-checksum-crc32": "AAAAAA==",
            "x-amz-meta-object-lock-mode": "a",
        }
    )
    _refused(lambda: expect_supported({"x-amz-acl": "public-read"}), "NotImplemented")
    _refused(lambda: expect_supported({"x-amz-server-side-encryption": "aws:kms"}), "NotImplemented")
