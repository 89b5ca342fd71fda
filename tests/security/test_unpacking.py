"""Small files that unpack to large ones: the memory that a listing takes is bounded."""

import gzip
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from graveler.errors import InvalidError
from graveler.lake.importing.object_listing import ObjectListing
from graveler.lake.importing.sent_listing import addresses

HEADER = b"path,physical_address,size,etag,mtime,content_type,metadata\n"
LONG = 64 << 20


def bomb(file: Path, begin: bytes, piece: bytes, size: int = LONG) -> Path:
    """A file of some kilobytes that unpacks to ``size`` bytes of the same."""
    with gzip.open(file, "wb", compresslevel=9) as packed:
        packed.write(begin)
        for _ in range(size // len(piece)):
            packed.write(piece)
    assert file.stat().st_size < 1 << 20
    return file


@pytest.mark.parametrize(
    "piece", [b"a" * 1024, b'"' + b"a" * 1022 + b'"', b"," * 1024], ids=["one field", "quotes", "fields"]
)
@pytest.mark.parametrize("reader", ["sent", "own"])
def test_a_line_of_a_listing_has_a_bound(tmp_path: Path, piece: bytes, reader: str) -> None:
    listing = bomb(tmp_path / "listing.csv.gz", HEADER, piece)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidError, match=r"has a line of more than|is not gzipped CSV|is not CSV|fields"):
            for _ in addresses(listing) if reader == "sent" else ObjectListing(listing, "local://r")():
                pass
        assert tracemalloc.get_traced_memory()[1] < LONG, "the line was read as a whole"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("reader", ["sent", "own"])
def test_gzip_unpacks_to_what_a_listing_can_be(tmp_path: Path, reader: str) -> None:
    """Short lines, which nobody keeps, but going through them would take hours; a table, which is unpacked to a file."""
    row = b'"","s3://b/k",0,e,0,,\n'
    file = bomb(
        tmp_path / "listing",
        *((HEADER, row * 64) if reader == "sent" else (b"PAR1", bytes(1024))),
        LONG + len(row) * 64,
    )
    with pytest.raises(InvalidError, match="unpacks to more than 300 times its size"):
        for _ in addresses(file) if reader == "sent" else ObjectListing(file, "local://r")():
            pass


def test_blank_lines_are_not_gone_through_for_ever(tmp_path: Path) -> None:
    file = bomb(tmp_path / "listing.csv.gz", HEADER, b"\n" * 1024, 1 << 20)
    with pytest.raises(InvalidError, match="blank lines in a row"):
        list(ObjectListing(file, "local://r")())


def test_a_listing_that_is_as_repetitive_as_listings_get_is_read(tmp_path: Path) -> None:
    file = tmp_path / "listing.csv.gz"
    folder = "/".join(["the same long folder"] * 20)
    with gzip.open(file, "wt", compresslevel=9) as packed:
        packed.write(HEADER.decode())
        packed.writelines(f"{folder}/{number:07},local://r/{folder}/{number:07},0,,0,,\n" for number in range(1 << 14))
    assert (1 << 14) * 900 / file.stat().st_size < 300 / 2
    assert sum(1 for _ in addresses(file)) == 1 << 14


READ = """
import resource, sys
from pathlib import Path
from graveler.errors import InvalidError
from graveler.lake.importing.object_listing import ObjectListing
import pyarrow.parquet
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    for _ in ObjectListing(Path(sys.argv[1]), "local://r")():
        pass
except InvalidError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize(
    ("how", "why"), [("one value", "has a page of"), ("one value for all rows", "has a value of 1,048,576 bytes")]
)
def test_a_page_of_parquet_has_a_bound(tmp_path: Path, how: str, why: str) -> None:
    """A file of some kilobytes: a page of zeros, and a dictionary's one long value, which each of a million rows names."""
    file = tmp_path / "listing.parquet"
    rows = 1 << 20
    key = pyarrow.array(map("k{:07}".format, range(rows)))
    if how == "one value":
        key, kind = pyarrow.array(["k"]), pyarrow.array(["x" * (130 << 20)])
    else:
        kind = pyarrow.DictionaryArray.from_arrays(pyarrow.repeat(0, rows).cast("int32"), ["x" * (1 << 20)])
    same = {name: pyarrow.repeat(value, len(key)) for name, value in (("bucket", "b"), ("size", 0), ("etag", ""))}
    table = pyarrow.table({"key": key, **same, "content_type": kind})
    parquet.write_table(table, file, compression="zstd", use_dictionary=["content_type"] if len(key) > 1 else False)
    assert file.stat().st_size < 4 << 20
    done = subprocess.run([sys.executable, "-c", READ, file], capture_output=True, text=True, check=True)
    said, grown = done.stdout.splitlines()
    assert why in said
    assert int(grown) < 100


@pytest.mark.parametrize("length", [1 << 16, (1 << 16) + 1])
@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_value_of_parquet_has_a_bound_however_it_is_written(
    tmp_path: Path, fixed: bool, compression: str, length: int
) -> None:
    """The dictionary's second value is the longest one."""
    file = tmp_path / "listing.parquet"
    rows = 20
    same = {name: pyarrow.repeat(value, rows) for name, value in (("bucket", "b"), ("size", 0), ("metadata", "{}"))}
    etags = pyarrow.array([b"x" * length if fixed else b"x" * 1000, b"y" * length] * (rows // 2))
    table = pyarrow.table({"key": [f"k{number:02}" for number in range(rows)], **same, "etag": etags})
    if fixed:
        table = table.set_column(table.num_columns - 1, "etag", etags.cast(pyarrow.binary(length)))
    parquet.write_table(table, file, compression=compression)
    told = f"has a value of {length:,} bytes in column 'etag'" if length > 1 << 16 else "is too long: "
    with pytest.raises(InvalidError, match=told):
        list(ObjectListing(file, "local://r")())
