"""Avro files: against another reader and writer, and bytes that are none."""

import json
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import CorruptError
from graveler.table_format.avro_files import read_avro_file, write_avro_file
from graveler.table_format.avro_types import (
    decimal_bytes,
    parse_type,
    read_long,
    reader,
    skipper,
    write_bytes,
    write_long,
    writer,
)

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": LONGS,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=200),
    "string": st.text(max_size=100),
}
Typed = tuple[Any, st.SearchStrategy[Any]]


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 3) -> Typed:
    """A schema, and a strategy of its values."""
    names = iter(f"n{number}" for number in range(draw(st.integers(0, 1 << 30)), 1 << 62))

    def build(depth: int) -> Typed:
        compound = ["fixed", "enum", "record", "array", "map", "union"] if depth else []
        kind = draw(st.sampled_from([*PRIMITIVES, *compound]))
        if kind in PRIMITIVES:
            return kind, PRIMITIVES[kind]
        if kind == "fixed":
            size = draw(st.integers(1, 20))
            return {"type": "fixed", "name": next(names), "size": size}, st.binary(min_size=size, max_size=size)
        if kind == "enum":
            return {"type": "enum", "name": next(names), "symbols": ["A", "B"]}, st.sampled_from(["A", "B"])
        if kind == "record":
            parts = {f"f{index}": build(depth - 1) for index in range(draw(st.integers(1, 3)))}
            fields = [{"name": name, "type": part[0]} for name, part in parts.items()]
            values = st.fixed_dictionaries({name: part[1] for name, part in parts.items()})
            return {"type": "record", "name": next(names), "fields": fields}, values
        schema, values = build(depth - 1)
        if kind == "array":
            item = {
                "type": "record",
                "name": next(names),
                "fields": [{"name": "n", "type": "int"}, {"name": "v", "type": schema}],
            }
            pair = st.fixed_dictionaries({"n": PRIMITIVES["int"], "v": values})
            return {"type": "array", "items": item}, st.lists(pair, max_size=3)
        if kind == "map":
            return {"type": "map", "values": schema}, st.dictionaries(st.text(max_size=5), values, max_size=3)
        if isinstance(schema, list) or schema == "null":
            return schema, values
        return draw(st.sampled_from([["null", schema], [schema, "null"]])), st.none() | values

    return build(depth)


@settings(max_examples=60)
@given(st.data())
def test_values_are_those_of_another_library(data: st.DataObject) -> None:
    schema, values = data.draw(typed_values())
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}, {"name": "v", "type": schema}]}
    records = [{"n": data.draw(LONGS), "v": value} for value in data.draw(st.lists(values, max_size=5))]
    stream = BytesIO()
    fastavro.writer(stream, schema, records, codec=data.draw(st.sampled_from(["null", "deflate"])))
    avro_file = read_avro_file(stream.getvalue(), "file")
    assert avro_file.records() == records
    skip = skipper(avro_file.type)
    assert avro_file.records(lambda block, position: (None, skip(block, position))) == [None] * len(records)
    written = write_avro_file({"key": "vålue"}, avro_file.schema, map(writer(avro_file.type), records))
    read = fastavro.reader(BytesIO(written))
    assert list(read) == records
    assert read.metadata["key"] == "vålue"
    assert written == write_avro_file({"key": "vålue"}, avro_file.schema, map(writer(avro_file.type), records))


@given(LONGS)
def test_numbers(number: int) -> None:
    assert read_long(write_long(number), 0) == (number, len(write_long(number)))
    assert int.from_bytes(decimal_bytes(number), "big", signed=True) == number


def test_many_records_are_in_several_blocks() -> None:
    records = [{"v": "x" * 80_000, "m": [{"k": index, "n": index}] * 700} for index in range(5)]
    pair = {"type": "record", "name": "p", "fields": [{"name": "k", "type": "int"}, {"name": "n", "type": "long"}]}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "v", "type": "string"}, {"name": "m", "type": {"type": "array", "items": pair}}],
    }
    avro_type = parse_type(json.dumps(schema))
    written = write_avro_file({}, json.dumps(schema), map(writer(avro_type), records))
    avro_file = read_avro_file(written, "file")
    assert len(avro_file.blocks) > 2
    assert avro_file.records() == records
    skip = skipper(avro_type)
    assert len(avro_file.records(lambda block, position: (None, skip(block, position)))) == 5


def test_blocks_of_arrays_may_say_their_size() -> None:
    avro_type = parse_type(json.dumps({"type": "array", "items": "long"}))
    encoded = write_long(-2) + write_long(2) + b"\x02\x04" + write_long(1) + b"\x06" + b"\0"
    assert reader(avro_type)(encoded, 0) == ([1, 2, 3], len(encoded))
    assert skipper(avro_type)(encoded, 0) == len(encoded)


RECORD = {"type": "record", "name": "r", "fields": [{"name": "v", "type": "long"}]}


def _nested(depth: int) -> Any:
    schema: Any = "long"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def _record(*types: Any, name: str = "r") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{index}", "type": part} for index, part in enumerate(types)],
    }


def _doubled() -> Any:
    schema = _record("long", name="d0")
    for index in range(1, 20):
        schema = _record(schema, f"d{index - 1}", name=f"d{index}")
    return schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (_record("r"), "contains itself"),
        (_record({"type": "array", "items": "r"}), "contains itself"),
        (_record("unknown"), "unknown type"),
        (_nested(30), "nested deeper"),
        (_record({"type": "array", "items": "null"}), "have no bytes"),
        (_record({"type": "array", "items": _record(name="empty")}), "have no bytes"),
        (_record({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}), "have no bytes"),
        (_record(*["null"] * 20, "long"), "types without bytes"),
        (_record(*["long"] * 3000), "more than 2,000 types"),
        (_doubled(), "more than 2,000 types"),
        (_record(["null", ["null", "long"]]), "union"),
        (_record([]), "union"),
        (_record({"type": "fixed", "name": "f", "size": -1}), "size"),
        (_record({"type": "fixed", "name": "f", "size": True}), "size"),
        (_record({"type": "enum", "name": "e", "symbols": []}), "symbols"),
        (_record({"type": "enum", "name": "e"}), "symbols"),
        (_record({"type": "record", "name": "x"}), "no fields"),
        (_record({"type": "record", "name": "x", "namespace": {}, "fields": []}), "namespace"),
        (_record({"type": "record", "fields": []}), "name"),
        (_record({"name": "x"}), "type"),
        (_record(_record("long")), "twice"),
        (_record({"type": "array"}), "type"),
        (_record("array"), "type"),
        (_record(7), "type"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}] * 2}, "one name"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int", "field-id": "1"}]}, "ID"),
        ({"type": "record", "name": "r", "fields": ["a"]}, "without a type"),
        ({"type": "record", "name": "r", "fields": []}, "no bytes"),
        ("null", "no bytes"),
        (None, "type"),
    ],
)
def test_schemas_that_are_refused(schema: Any, reason: str) -> None:
    with pytest.raises(CorruptError, match=reason):
        read_avro_file(write_avro_file({}, json.dumps(schema), [b"\2"]), "s3://bucket/file.avro").records()


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '"' + "x" * 5000 + '"'], ids=["none", "half", "deep", "long"])
def test_schemas_that_are_no_json(text: str) -> None:
    with pytest.raises(CorruptError, match="header"):
        read_avro_file(write_avro_file({}, text, [b"\2"]), "file")


def _container(codec: str, *blocks: bytes, count: int = 1) -> bytes:
    header = {"avro.schema": json.dumps(RECORD), "avro.codec": codec}
    parts = [b"Obj\x01", write_long(len(header))]
    parts += [write_bytes(key.encode()) + write_bytes(value.encode()) for key, value in header.items()]
    parts += [b"\0", b"s" * 16]
    parts += [write_long(count) + write_bytes(block) + b"s" * 16 for block in blocks]
    return b"".join(parts)


def _deflated(data: bytes) -> bytes:
    return zlib.compress(data)[2:-1]  # as some writers do it, with bytes behind the end


PACKED: dict[str, Callable[[bytes], bytes]] = {"deflate": _deflated, "zstandard": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("codec", PACKED)
def test_bombs(codec: str) -> None:
    zeros = bytes(12 << 20)
    for blocks in ([zeros + zeros], [zeros, zeros]):
        with pytest.raises(CorruptError, match="decompressed, it has more than"):
            read_avro_file(_container(codec, *map(PACKED[codec], blocks), count=1), "file")


@pytest.mark.parametrize("codec", PACKED)
def test_compressed_blocks(codec: str) -> None:
    assert read_avro_file(_container(codec, PACKED[codec](b"\2")), "file").records() == [{"v": 1}]


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"", "not an Avro file"),
        (b"PAR1", "not an Avro file"),
        (_container("snappy", b"x"), "'snappy', and only null, deflate and zstandard"),
        (_container("null", b"\2\2"), "1 bytes follow record 1"),
        (_container("null", b"\2", count=2), "1 bytes for 2 records"),
        (_container("null", b"\2", count=-1), "1 bytes for -1 records"),
        (_container("null", b"\xff" * 10 + b"\1"), "ten bytes"),
        (_container("null", b"\xff" * 9 + b"\2"), "64 bits"),
        (_container("null", b"\xff"), "record 0 is damaged"),
        (_container("deflate", b"\2"), "blocks is damaged"),
        (_container("deflate", _deflated(b"\2")[:2]), "blocks is damaged"),
        (_container("zstandard", b"\2"), "blocks is damaged"),
        (_container("null", b"\2")[:-1], "marker"),
        (_container("null", b"\2")[:-1] + b"x", "marker"),
        (_container("null", b"\2") + b"\2", "blocks is damaged"),
        (b"Obj\x01" + write_long(1 << 40), "header"),
        (b"Obj\x01" + write_long(-(1 << 40)) + write_long(1), "header"),
        (b"Obj\x01\2" + write_long(-5), "header"),
        (b"Obj\x01\2" + write_long(1 << 62), "header"),
        (b"Obj\x01\2\2\xff\2x\0", "header"),
    ],
)
def test_damaged_files(contents: bytes, reason: str) -> None:
    with pytest.raises(CorruptError, match=reason) as raised:
        read_avro_file(contents, "s3://bucket/file.avro").records()
    assert str(raised.value).startswith("s3://bucket/file.avro: ")


def test_a_file_without_records() -> None:
    assert read_avro_file(_container("null"), "file").records() == []


def test_values_that_are_not_of_a_type() -> None:
    avro_type = parse_type(json.dumps(_record("long", ["null", "int"], {"type": "fixed", "name": "f", "size": 2})))
    write = writer(avro_type)
    assert write({"f0": 1, "f1": None, "f2": b"ab"}) == b"\2\0ab"
    for record in ({"f0": 1 << 64, "f2": b"ab"}, {"f0": 1, "f2": b"abc"}):
        with pytest.raises(ValueError, match=r"bits|bytes"):
            write(record)
