"""Repositories that begin with sample data."""

import gzip
import io
import zlib
from struct import unpack

import pyarrow.parquet as pq
import pytest

from graveler.api.sample import add_sample
from graveler.api.sample.contents import TABLE, sample_files
from graveler.api.sample.png import bar_chart
from graveler.model import Actor
from tests.api.support import Client
from tests.make_sample import table

SAMPLED = {"name": "lakes", "storage_namespace": "mem://lakes", "sample_data": True}
OBJECTS = "/repositories/lakes/refs/main/objects"


@pytest.mark.parametrize("read_only", [False, True])
def test_the_sample_is_the_second_commit(call: Client, read_only: bool) -> None:
    made = call("POST", "/repositories", body={**SAMPLED, "read_only": read_only})
    assert (made.status, made.json()["id"], made.json()["read_only"]) == (201, "lakes", read_only)
    log = call("GET", "/repositories/lakes/refs/main/commits").json()["results"]
    assert [commit["message"] for commit in log] == ["Add sample data", "Repository created"]
    root = call("GET", f"{OBJECTS}/ls", {"delimiter": "/"}).json()["results"]
    assert [item["path"] for item in root] == ["README.md", "data/", "images/", "lakes.parquet"]
    listed = call("GET", f"{OBJECTS}/ls", {"amount": 1000}).json()["results"]
    assert len([item for item in listed if item["path"].startswith("images/")]) == 29
    assert sum(item["size_bytes"] for item in listed) > 1 << 20
    kinds = {"md": "text/markdown", "png": "image/png", "parquet": "application/vnd.apache.parquet"}
    assert all(item["content_type"] == kinds[item["path"].rpartition(".")[2]] for item in listed)
    assert "lakefs://lakes/main/lakes.parquet" in call("GET", OBJECTS, {"path": "README.md"}).text


def test_the_table_is_one_that_others_can_read() -> None:
    (data,) = (file.data for file in sample_files("r", "main") if file.path == "lakes.parquet")
    found = pq.read_table(io.BytesIO(data))
    assert found.column_names == ["Hylak_id", "Lake_name", "Country", "Depth_m"]
    assert found.column("Hylak_id").to_pylist() == list(range(1, 24_001))
    assert len(set(found.column("Country").to_pylist())) == 29
    assert min(found.column("Depth_m").to_pylist()) > 0
    assert all(name.startswith("Lake ") for name in found.column("Lake_name").to_pylist())


def test_the_table_in_the_package_has_the_rows_that_are_drawn() -> None:
    with gzip.open(TABLE) as file:
        assert pq.read_table(file).equals(table()), "run `python -m tests.make_sample`"


def test_a_chart_is_a_picture() -> None:
    data = bar_chart([1, 0, 4])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, found = 8, {}
    while at < len(data):
        size, kind = unpack(">I4s", data[at : at + 8])
        found[kind] = data[at + 8 : at + 8 + size]
        assert unpack(">I", data[at + 8 + size : at + 12 + size]) == (zlib.crc32(kind + found[kind]),)
        at += 12 + size
    assert list(found) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    width, height = unpack(">II", found[b"IHDR"][:8])
    pixels = zlib.decompress(found[b"IDAT"])
    rows = [pixels[y * (width + 1) + 1 : (y + 1) * (width + 1)] for y in range(height)]
    assert len(pixels) == height * (width + 1)
    bars = [sum(row[x] == 1 for row in rows) for x in (width // 6, width // 2, 5 * width // 6)]
    assert bars == [height // 4, 0, height]


def test_what_was_cut_off_is_done_again(call: Client) -> None:
    key = {"idempotency-key": "k"}
    assert call("POST", "/repositories", (), SAMPLED, key).status == 201
    opened = call.world.lake.repository("lakes")
    before = opened.commit_of("main")
    add_sample(opened, actor=Actor("somebody", "somebody"))
    assert opened.commit_of("main") == before
    assert call("POST", "/repositories", (), SAMPLED, key).status == 201
    assert call("POST", "/repositories", (), SAMPLED).status == 409
