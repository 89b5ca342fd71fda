"""A little that unpacks to a lot: what a listing makes somebody keep in memory has a bound."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from graveler.errors import InvalidError
from graveler.lake.importing.object_listing import ObjectListing
from graveler.lake.importing.sent_listing import addresses

HEADER = b"path,physical_address,size,etag,mtime,content_type,metadata\n"
LONG = 64 << 20


def bomb(file: Path, begin: bytes, piece: bytes) -> Path:
    """A file of some kilobytes that unpacks to 64 MB without the end of a line."""
    with gzip.open(file, "wb", compresslevel=9) as packed:
        packed.write(begin)
        for _ in range(LONG // len(piece)):
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
        with pytest.raises(InvalidError, match=r"has a line of more than|is no CSV|is not CSV|fields"):
            for _ in addresses(listing) if reader == "sent" else ObjectListing(listing, "local://r")():
                pass
        assert tracemalloc.get_traced_memory()[1] < LONG, "the line was read as a whole"
    finally:
        tracemalloc.stop()
