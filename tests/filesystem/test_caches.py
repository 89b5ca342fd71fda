"""fsspec's caches in front of the filesystem: ``blockcache::``, ``filecache::`` and ``simplecache::``."""

import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

from graveler.filesystem.filesystem import GravelerFileSystem
from tests.filesystem.conftest import new_repository

pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed file:ResourceWarning"
)  # fsspec maps a file, and leaves it open

CACHES = ["blockcache", "filecache", "simplecache"]


@pytest.fixture(params=["folder", "served"])
def storage_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.getfixturevalue(f"{request.param}_options")
    return {**found, "user": "ada"}


@pytest.mark.parametrize("cache", CACHES)
def test_a_cache_reads_what_the_lake_has_and_then_its_own_copy(
    fs: GravelerFileSystem, branch: str, storage_options: dict[str, Any], cache: str, tmp_path: Path
) -> None:
    data = os.urandom(300_000)
    fs.pipe({f"{branch}/x": data, f"{branch}/empty": b""})
    options = {"graveler": storage_options, cache: {"cache_storage": str(tmp_path / "cache")}}

    def read(path: str, start: int = 0, length: int = -1) -> bytes:
        with fsspec.open(f"{cache}::graveler://{branch}/{path}", **options) as file:
            file.seek(start)
            found: bytes = file.read(length)
            return found

    assert read("x", 200_000, 10) == data[200_000:200_010]
    assert read("x", 1) == data[1:]
    assert (read("x"), read("empty")) == (data, b"")
    fs.rm([f"{branch}/x", f"{branch}/empty"])
    assert read("x") == data  # it is not asked whether the object is still there
    with pytest.raises(FileNotFoundError):
        read("none")


def test_blocks_are_all_of_the_object_that_was_opened(
    fs: GravelerFileSystem, branch: str, storage_options: dict[str, Any], tmp_path: Path
) -> None:
    size = 3 << 20  # several blocks, wherever the bytes are
    fs.pipe_file(f"{branch}/x", b"1" * size)
    cached = fsspec.filesystem(
        "blockcache", target_protocol="graveler", target_options=storage_options, cache_storage=str(tmp_path), check_files=True
    )  # fmt: skip
    with cached.open(f"{branch}/x") as file:
        assert file.read(1) == b"1"
        fs.pipe_file(f"{branch}/x", b"2" * size)
        assert file.read() == b"1" * (size - 1)
    assert file.closed
    with cached.open(f"{branch}/x") as file:
        assert file.read() == b"2" * size


def test_blocks_that_did_not_arrive_are_not_taken_for_zeros(folder_options: dict[str, Any], tmp_path: Path) -> None:
    branch = f"{new_repository(folder_options)}/main"
    fs = GravelerFileSystem(**folder_options, skip_instance_cache=True)
    fs.pipe_file(f"{branch}/x", os.urandom(300_000))
    [place] = fs.places(f"{branch}/x")
    cached = fsspec.filesystem(
        "blockcache", target_protocol="graveler", target_options=folder_options, cache_storage=str(tmp_path)
    )
    with cached.open(f"{branch}/x") as file:
        os.truncate(place[1].removeprefix("file://"), 100_000)
        for _ in range(2):
            file.seek(200_000)
            with pytest.raises(OSError, match="bytes"):
                file.read(10)
