"""From URLs to adapters."""

from pathlib import Path

import pytest

from graveler.errors import InvalidError
from graveler.storage.namespaces import locate, open_namespace


def test_a_namespace_is_opened_by_its_url(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/a b%20ü"
    objects = open_namespace(url + "/")
    objects.put("k", b"x")
    assert (tmp_path / "a b%20ü" / "k").read_bytes() == b"x"
    assert objects.namespace == url
    assert open_namespace(objects.namespace).get("k") == b"x"
    assert open_namespace("file:///").namespace == "file://"


def test_an_address_anywhere_is_located(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "c%20d ü").write_bytes(b"x")
    address = f"file://{tmp_path}/a b/c%20d ü"
    objects, key = locate(address)
    assert objects.get(key) == b"x"
    assert f"{objects.namespace}/{key}" == address


def test_s3_is_opened_by_its_url() -> None:
    assert open_namespace("s3://bucket/").namespace == "s3://bucket"
    assert open_namespace("s3://bucket/a b%20ü/").namespace == "s3://bucket/a b%20ü"
    objects, key = locate("s3://bucket/a b/c%20d ü")
    assert (objects.namespace, key) == ("s3://bucket", "a b/c%20d ü")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/data",
        "file:/data",
        "file://host/x",
        "file://",
        "ftp://x/y",
        "file:///a/../b",
        "file:///a//b",
        "s3://bucket",
        "s3://b/x",
        "s3:///x",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidError):
        locate(url)


@pytest.mark.parametrize(
    "url", ["", "/data", "file://host/x", "gs://x", "file:///a/../b", "s3://", "s3:///x", "s3://bucket/a//b"]
)
def test_other_namespaces_are_refused(url: str) -> None:
    with pytest.raises(InvalidError):
        open_namespace(url)


@pytest.mark.parametrize("address", ["file:///", "file:///a/"])
def test_a_folder_is_no_address(address: str) -> None:
    with pytest.raises(InvalidError):
        locate(address)
