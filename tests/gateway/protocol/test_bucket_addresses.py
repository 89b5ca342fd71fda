"""Heads of requests, and the bucket and the key that they name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.protocol.bucket_addresses import bucket_and_key
from graveler.gateway.protocol.head import Head, join_headers
from graveler.gateway.protocol.s3_errors import S3Error

_DOMAINS = ("localhost", "s3.localhost", "s3.example.com")


@pytest.mark.parametrize(
    ("host", "path", "bucket", "key"),
    [
        ("localhost", "/", "", ""),
        ("localhost:9000", "/sales", "sales", ""),
        ("localhost:9000", "/sales/", "sales", ""),
        ("localhost:9000", "/sales/main/a.csv", "sales", "main/a.csv"),
        ("localhost", "/sales//a/../b/", "sales", "/a/../b/"),
        ("sales.localhost:9000", "/", "sales", ""),
        ("sales.localhost:9000", "/a/b", "sales", "a/b"),
        ("sales.localhost", "//a", "sales", "/a"),
        ("Sales.Example.s3.LOCALHOST", "/a", "sales.example", "a"),
        ("sales.s3.example.com", "/a", "sales", "a"),
        ("s3.localhost", "/sales/a", "sales", "a"),
        ("example.com", "/sales/a", "sales", "a"),
        ("127.0.0.1:9000", "/sales/a", "sales", "a"),
        ("127.0.0.1", "/sales/a", "sales", "a"),
        ("[::1]:9000", "/sales/a", "sales", "a"),
        ("[::1]", "/sales/a", "sales", "a"),
        ("", "/sales/a", "sales", "a"),
    ],
)
def test_bucket_and_key(host: str, path: str, bucket: str, key: str) -> None:
    assert bucket_and_key(Head("GET", path, "", {"host": host}), _DOMAINS) == (bucket, key)


def test_a_key_without_a_bucket() -> None:
    with pytest.raises(S3Error) as refusal:
        bucket_and_key(Head("GET", "//a", "", {"host": "localhost"}), _DOMAINS)
    assert refusal.value.code == "InvalidURI"


@given(st.from_regex(r"[a-z][a-z0-9-]{2,20}", fullmatch=True), st.text())
def test_both_styles_name_the_same(bucket: str, key: str) -> None:
    by_path = bucket_and_key(Head("GET", f"/{bucket}/{key}", "", {"host": "localhost:1"}), _DOMAINS)
    by_host = bucket_and_key(Head("GET", f"/{key}", "", {"host": f"{bucket}.localhost:1"}), _DOMAINS)
    assert by_path == by_host == (bucket, key)


def test_parameters() -> None:
    head = Head("GET", "/", "list-type=2&prefix=a%2Fb+c&uploads&prefix=x&empty=&&a=b=c", {})
    assert head.parameters == {"list-type": "2", "prefix": "a/b c", "uploads": "", "empty": "", "a": "b=c"}
    assert Head("GET", "/", "", {}).parameters == {}


def test_repeated_headers_are_joined() -> None:
    assert join_headers([("Host", "a"), ("X-A", "1"), ("x-a", "2")]) == {"host": "a", "x-a": "1,2"}
