"""Deletion vectors: what is written is read, here and by PyIceberg; all kinds of Roaring containers are read."""

import zlib
from random import Random
from struct import pack

import pytest
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap, FrozenBitMap

from graveler.errors import CorruptError
from graveler.table_format.deletion_vectors import read_vector, write_vector

FILE = "file:///lake/data.parquet"
POSITIONS = {
    "none": frozenset[int](),
    "some": frozenset((0, 7, 65_535, 65_536, 2**31, 2**33 + 5)),
    "many": frozenset(Random(1).sample(range(100_000), 9_000)),
    "all": frozenset(range(70_000)),
}


def blob_of(positions: frozenset[int]) -> bytes:
    """Return a vector with runs, as other writers make it."""
    bitmap = BitMap(positions)
    bitmap.run_optimize()
    vector = b"\xd1\xd3\x39\x64" + pack("<QI", 1, 0) + bitmap.serialize()
    return pack(">I", len(vector)) + vector + pack(">I", zlib.crc32(vector))


@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_vector_is_read_as_it_was_written(positions: frozenset[int]) -> None:
    file = write_vector(positions, FILE)
    assert read_vector(file.contents, file.offset, file.size, FILE) == positions
    assert write_vector(positions, FILE) == file


@pytest.mark.parametrize("name", ["some", "many", "all"])
def test_pyiceberg_reads_a_written_vector(name: str) -> None:
    puffin = PuffinFile(write_vector(POSITIONS[name], FILE).contents)
    (vector,) = deletion_vectors_from_puffin_file(puffin)
    assert vector.referenced_data_file == FILE
    assert frozenset(vector.to_vector().to_pylist()) == POSITIONS[name]


@pytest.mark.parametrize("positions", [frozenset((1, 5)), frozenset(range(9, 50_000)), POSITIONS["many"]])
def test_vectors_of_other_writers_are_read(positions: frozenset[int]) -> None:
    blob = blob_of(positions)
    assert read_vector(b"PFA1" + blob, 4, len(blob), FILE) == positions == frozenset(FrozenBitMap(positions))


def test_damaged_vector_is_an_error() -> None:
    file = write_vector(POSITIONS["some"], FILE)
    for position in range(file.offset, file.offset + file.size):
        contents = bytearray(file.contents)
        contents[position] ^= 1
        with pytest.raises(CorruptError, match="deletion vector"):
            read_vector(bytes(contents), file.offset, file.size, FILE)
    for size in (0, file.size - 1, file.size + 1):
        with pytest.raises(CorruptError, match="deletion vector"):
            read_vector(file.contents, file.offset, size, FILE)
