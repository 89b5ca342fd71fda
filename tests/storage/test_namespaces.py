"""From URLs to adapters."""

import pickle
from pathlib import Path

import pytest

from graveler.errors import InvalidError
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.namespaces import locate, open_namespace
from graveler.storage.objects.port import Objects
from graveler.storage.objects.s3 import S3Settings
from tests.storage.adapters import PAGE, aws, make_bucket
from tests.support.servers import REGION


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


FOREIGN = ["/a", "a//b", "a/./b", "a/../b", "../x", ".", "..", "//", "a/", "in/..", " ", "é" * 512]
"""Keys that S3 has, and no key of ours is."""


def odd(objects: Objects) -> None:
    for key in FOREIGN:
        objects.put(key, key.encode())
    assert [stored.key for stored in objects.list()] == sorted(FOREIGN, key=str.encode)
    for key in FOREIGN:
        assert (objects.get(key), objects.head(key).key) == (key.encode(), key)
        assert b"".join(objects.stream(key)) == key.encode()
    for bad in ("", "a\0b", "\ud800", "x" * 1025):
        with pytest.raises(InvalidError):
            objects.head(bad)


def test_whatever_key_s3_has_is_located() -> None:
    with aws():
        settings = S3Settings(REGION, list_page=PAGE)
        make_bucket("landing", settings)
        for key in FOREIGN:
            objects, found = locate(f"s3://landing/{key}", s3=settings)
            assert found == key
        odd(pickle.loads(pickle.dumps(objects)))
    odd(MemoryObjects("s3://landing", foreign=True))


def test_a_listing_of_others_files_tells_of_those_that_can_be_no_keys(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(b"1")
    (tmp_path / "bad\udcff").write_bytes(b"1")
    objects, key = locate(f"file://{tmp_path}/good")
    folder = key.removesuffix("good")
    for each in (objects, pickle.loads(pickle.dumps(objects))):
        assert [stored.key for stored in each.list(folder)] == [f"{folder}bad\udcff", f"{folder}good"]
    with pytest.raises(InvalidError):
        list(open_namespace(f"file://{tmp_path}").list())


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
