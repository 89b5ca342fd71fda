"""Writes the table of the sample data into the package: ``python -m tests.make_sample``. A test holds the file to its rows."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq

from graveler.api.sample.contents import TABLE, draw_lakes

SCHEMA = pa.schema(
    [
        pa.field("Hylak_id", pa.int64(), nullable=False),
        pa.field("Lake_name", pa.string(), nullable=False),
        pa.field("Country", pa.string(), nullable=False),
        pa.field("Depth_m", pa.float64(), nullable=False),
    ]
)


def table() -> pa.Table:
    """The lakes that the package draws."""
    return pa.table(list(draw_lakes()), schema=SCHEMA)


if __name__ == "__main__":
    # Plain, so that each reader can read it, and of a size that shows in a listing.
    with gzip.GzipFile(TABLE, "wb", mtime=0) as file:  # the same bytes each time
        pq.write_table(
            table(), file, compression="none", use_dictionary=False, store_schema=False, data_page_size=16 << 20
        )
