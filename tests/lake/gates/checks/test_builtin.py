"""Each built-in kind: what passes, what fails, what is an error, and the words."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graveler.model import ObjectEntry
from tests.lake.gates.checks.support import ERROR, FAILURE, SUCCESS, Checked


def parquet(**columns: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def test_limits_bound_changes_and_totals() -> None:
    checked = Checked().commit({"t/1": b"12345", "u/1": b"1"}).commit({"t/2": b"123", "t/3": b"123", "t/1": None})
    assert checked.status("limits", prefix="t/", most_changed=3, most_changed_bytes=6).state is SUCCESS
    assert checked.status("limits", most_objects=3, least_objects=3, least_bytes=7, most_bytes=7).state is SUCCESS
    changed = checked.status("limits", prefix="t/", most_changed=2, most_removed=0)
    assert changed.state is FAILURE
    assert changed.description == (
        "the candidate has below 't/' 3 changed objects, but at most 2 are allowed; 1 removed objects, but at most 0 are allowed"
    )
    totals = checked.status("limits", least_objects=4)
    assert totals.description == "the candidate has 3 objects, but at least 4 are allowed"


def test_nothing_is_removed_below_a_prefix() -> None:
    checked = Checked().commit({f"t/{n:02}": b"" for n in range(30)} | {"u": b""})
    checked.commit({"u": None, "t/01": b"changed"})
    assert checked.status("no-deletes", prefix="t/").state is SUCCESS
    checked.commit({f"t/{n:02}": None for n in range(12)})
    status = checked.status("no-deletes")
    assert status.state is FAILURE
    assert status.description.startswith("12 objects would be removed: 't/00'; 't/01'")
    assert status.description.endswith("; and 2 more")


def test_metadata_has_to_be_there_and_match() -> None:
    checked = Checked().commit({"a": b""}, {"ticket": "DATA-12", "owner": "ada"})
    assert checked.status("metadata", keys={"ticket": "DATA-[0-9]*"}).state is SUCCESS
    status = checked.status("metadata", keys={"ticket": "OPS-*", "reason": "*"})
    assert status.state is FAILURE
    assert status.description == (
        "of the commit, metadata 'reason' is missing; metadata 'ticket' is 'DATA-12', which does not match 'OPS-*'"
    )
    assert status.commit_id == checked.candidate.id


def test_keys_that_hide_others() -> None:
    checked = Checked().commit({"a": b"", "a-b": b"", "c/d": b"", "e/": b"", "old": b"", "old/1": b""})
    assert checked.status("hidden-keys").state is FAILURE
    checked.commit({"e/f": b"", "x": b""})
    assert checked.status("hidden-keys").state is SUCCESS, "what was there before is not the candidate's"
    checked.commit({"a/b/c": b"", "c": b""})
    status = checked.status("hidden-keys")
    assert status.state is FAILURE
    assert "'a/b/c': 'a' is an object, too" in status.description
    assert "'c': there are objects below 'c/', too" in status.description


def test_addresses_outside_of_the_namespace() -> None:
    checked = Checked()
    outside = checked.world.objects("mem://outside")
    outside.put("x", b"1")
    checked.world.main.link("main", ObjectEntry("t/x", "mem://outside/x", 1, "c" * 32, 1))
    checked.commit({"t/y": b""})
    assert checked.status("addresses", prefix="t/", allowed=["mem://outside/"]).state is SUCCESS
    status = checked.status("addresses")
    assert status.state is FAILURE
    assert status.description.endswith("'t/x': mem://outside/x")
    assert checked.commit({"t/z": b""}).status("addresses").state is SUCCESS, "only new objects count"


def test_upload_urls_that_still_live() -> None:
    checked = Checked().commit({"a": b"1"})
    world = checked.world
    live = checked.status("live-uploads", seconds=600)
    assert live.state is FAILURE
    assert "issued 0 seconds ago" in live.description
    world.clock.time += 500
    assert checked.status("live-uploads", seconds=600).state is FAILURE
    world.clock.time += 600 + world.main.parts.skew + 1
    assert checked.status("live-uploads", seconds=600).state is SUCCESS, "a failure is not used again"


def test_formats_are_those_of_their_suffixes() -> None:
    good = {
        "t/a.parquet": parquet(a=[1]), "t/b.csv": b"a,b\n", "t/c.json": b' {"a": 1}', "t/d.gz": b"\x1f\x8b\x08",
        "t/e.unknown": b"\0", "t/none": b"\0", "t/f.webp": b"RIFF1234WEBP", "t/g.PNG": b"\x89PNG\r\n\x1a\n",
    }  # fmt: skip
    checked = Checked().commit(good)
    assert checked.status("formats").state is SUCCESS
    bad = {
        "t/a.parquet": parquet(a=[1])[:-1],
        "t/b.csv": b"\0\1",
        "t/c.json": b"<xml>",
        "t/d.gz": b"",
        "x/e.zip": b"no",
    }
    checked.commit(bad)
    status = checked.status("formats", patterns=["t/**"])
    assert status.state is FAILURE
    assert status.description == (
        "4 objects would not have the format of their suffix: 't/a.parquet': is cut off; 't/b.csv': is not a text; "
        "'t/c.json': begins with b'<xml>'; 't/d.gz': is empty"
    )
    assert checked.status("formats", patterns=["**/*.zip"]).description.endswith("'x/e.zip': begins with 6e 6f")


def test_schemas_stay_or_grow() -> None:
    checked = Checked().commit({"t/1.parquet": parquet(a=[1], b=["x"], l=[[1.5]])})
    assert checked.status("schema", prefix="t/").state is SUCCESS, "a new table"
    checked.commit({"t/2.parquet": parquet(a=[2], b=["y"], l=[[2.5]], more=[True]), "u/3.parquet": b"no"})
    assert checked.status("schema", prefix="t/").state is SUCCESS
    unchanged = checked.status("schema", prefix="t/", mode="unchanged")
    assert unchanged.description == (
        "1 file would not have the columns of 't/1.parquet': 't/2.parquet': column 'more' is new"
    )
    checked.world.clock.time += 10
    checked.commit({"t/4.parquet": parquet(a=["1"], l=[[1]]), "t/5.parquet": b"PAR1nonsense", "t/_tmp.parquet": b"x"})
    status = checked.status("schema", prefix="t/")
    assert status.state is FAILURE
    assert "2 files would not have the columns of 't/2.parquet'" in status.description
    assert "column 'b' is missing" in status.description
    assert "column 'a' is string instead of int64, column 'l[]' is int64 instead of double" in status.description


def test_a_schema_that_cannot_be_compared_is_an_error() -> None:
    checked = (
        Checked().commit({"t/1.parquet": b"PAR1 nobody can read this PAR1"}).commit({"t/2.parquet": parquet(a=[1])})
    )
    status = checked.status("schema", prefix="t/")
    assert status.state is ERROR
    assert "'t/1.parquet'" in status.description


def test_bytes_that_are_gone_are_an_error() -> None:
    checked = Checked().commit({"a.png": b"\x89PNG\r\n\x1a\n"})
    address = checked.world.main.stat("main", "a.png").address
    checked.world.objects().delete(address.removeprefix("mem://repo/"))
    assert checked.status("formats").state is ERROR


@pytest.mark.parametrize(
    "kind", ["limits", "no-deletes", "addresses", "live-uploads", "hidden-keys", "formats", "schema"]
)
def test_a_first_commit_has_no_base(kind: str) -> None:
    checked = Checked().commit({"a": b"1"})
    checked.base = None
    checked.world.clock.time += 10_000
    all_fields: dict[str, dict[str, Any]] = {"limits": {"most_objects": 1}, "schema": {"prefix": "a"}}
    fields = all_fields.get(kind, {})
    assert checked.status(kind, **fields).state is SUCCESS
