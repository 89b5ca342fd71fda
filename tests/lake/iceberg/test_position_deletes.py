"""Position deletes of format version 2: they are read, damaged ones are refused, and both sides of a merge may have some."""

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from graveler.errors import CorruptError, MergeConflictError
from graveler.lake.iceberg.position_deletes import MAX_POSITIONS, missing_reader, position_reader
from tests.lake.iceberg.histories import KEY, Histories, Kind, Operation, Session, Side
from tests.lake.iceberg.row_reader import read_rows

PAIRS = [("file:///a", 3), ("file:///a", 5), ("file:///b", 3)]
POSITIONS = {"file:///a": {3, 5}, "file:///b": {3}}


def parquet(paths: list[Any], positions: list[Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    table = pa.table({"file_path": pa.array(paths, pa.string()), "pos": pa.array(positions, pa.int64())})
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def avro() -> bytes:
    stream = io.BytesIO()
    fields = [
        {"name": "file_path", "type": "string", "field-id": 2147483546},
        {"name": "pos", "type": "long", "field-id": 2147483545},
    ]
    records = [{"file_path": path, "pos": position} for path, position in PAIRS]
    fastavro.writer(stream, {"type": "record", "name": "deletes", "fields": fields}, records)
    return stream.getvalue()


def read(contents: bytes, file_format: str = "PARQUET", rows: int = 3) -> Any:
    read_positions = position_reader(lambda _: contents)
    return read_positions({"path": "file:///deletes", "format": file_format, "record_count": rows})


def test_positions_are_read_by_data_file() -> None:
    assert missing_reader() == ""
    paths, positions = map(list, zip(*PAIRS, strict=True))
    assert read(parquet(paths, positions)) == POSITIONS
    assert read(parquet(paths, positions, use_dictionary=False, compression="zstd", row_group_size=1)) == POSITIONS
    assert read(avro(), "avro") == POSITIONS
    assert read(parquet([], []), rows=0) == {}


def test_positions_in_orc_are_read() -> None:
    stream = io.BytesIO()
    paths, positions = map(list, zip(*PAIRS, strict=True))
    table = pa.table({"file_path": pa.array(paths, pa.string()), "pos": pa.array(positions, pa.int64())})
    orc.write_table(table, stream)
    assert read(stream.getvalue(), "orc") == POSITIONS
    for damaged in (b"", b"ORC", stream.getvalue()[:-9], parquet(paths, positions)):
        with pytest.raises(CorruptError, match="ORC file of positions"):
            read(damaged, "ORC")
    without_paths = io.BytesIO()
    orc.write_table(table.select(["pos"]), without_paths)
    with pytest.raises(CorruptError, match="ORC file of positions"):
        read(without_paths.getvalue(), "ORC")


def test_positions_of_other_and_of_huge_files_are_unknown() -> None:
    assert read(b"", "LANCE") is None
    assert read(b"", rows=MAX_POSITIONS + 1) is None


@pytest.mark.parametrize(
    "contents",
    [
        b"PAR1",
        parquet(["file:///a"], [3])[:-9],
        parquet(["file:///a"], [-1]),
        parquet(["file:///a"], [None]),
        parquet([None], [1]),
    ],
    ids=["no file", "cut", "negative", "no position", "no data file"],
)
def test_damaged_files_are_refused(contents: bytes) -> None:
    with pytest.raises(CorruptError, match="file:///deletes"):
        read(contents)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Histories]:
    folder: Path = tmp_path_factory.mktemp("positions") / "lake"
    with Histories(folder) as histories:
        yield histories


@pytest.mark.parametrize("seed", range(3))  # with a file of deletes for each data file, or for many
def test_both_sides_delete_rows_of_one_file_and_append(histories: Histories, seed: int) -> None:
    kind = Kind(partitioned=False, isolated=False)
    table = histories.begin(kind)
    random = Random(seed)

    def act(side: Side, *operations: Operation) -> None:
        for operation in operations:
            Session(histories, side, random, kind).act(operation)

    act(Side("main", "base", table), Operation("append", 0, 2))
    histories.fork("source")
    act(Side("source", "source", table), Operation("delete", 0, 1, "position"), Operation("append", 0, 3))
    act(Side("main", "main", table), Operation("delete", 0, 2, "position"), Operation("append", 0, 3))
    histories.repository.merge("source", "main")
    document = histories.load("main", table).document
    assert sorted(row[KEY] for row in read_rows(document)) == [1, 1, 3, 3]
    histories.check("main", table)
    histories.fork("source")
    act(Side("source", "source", table), Operation("update", 0, 3, "position"))
    act(Side("main", "main", table), Operation("update", 0, 3, "position"))
    with pytest.raises(MergeConflictError, match="have rows in common, and one side added rows"):
        histories.repository.merge("source", "main")
