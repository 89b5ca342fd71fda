"""Tables in folders, and the files that other programs leave in such folders."""

import io
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq


@cache
def parquet(*numbers: int) -> bytes:
    """Return a Parquet file with the column ``id``."""
    file = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(numbers, pa.int64())}), file)
    return file.getvalue()


class Layout(NamedTuple):
    """A table: its files by their paths in its folder, and its rows."""

    files: Mapping[str, bytes]
    rows: list[tuple[object, ...]]


PLAIN: Final = Layout({"part-1.parquet": parquet(1, 2)}, [(1,), (2,)])
PARTITIONED: Final = Layout(
    {"k=a/part-1.parquet": parquet(1, 2), "k=b/part-1.parquet": parquet(3)}, [(1, "a"), (2, "a"), (3, "b")]
)
LAYOUTS: Final = {"plain": PLAIN, "partitioned": PARTITIONED}

MARKERS: Final[Mapping[str, bytes]] = dict.fromkeys(
    ("", "d/", "d/e/", "k=a/", "k=z/", "d/k=z/", "k=z_$folder$", "d_$folder$", "k=a/d_$folder$", "d.parquet/"), b""
)
"""Objects that stand for folders, which S3's console and Hadoop's s3a (``/``), EMR and Hadoop's s3n (``_$folder$``) make."""
EMPTY: Final[Mapping[str, bytes]] = dict.fromkeys(
    (
        "part-7.parquet",
        "0.parquet",
        "k=a/0.parquet",
        "k=z/0.parquet",
        "d/0.parquet",
        "_SUCCESS",
        "k=a/_SUCCESS",
        "_temporary/0/_temporary/",
    ),
    b"",
)
HIDDEN: Final[Mapping[str, bytes]] = {
    "_hidden.parquet": parquet(99),
    ".hidden.parquet": parquet(99),
    "_temporary/0/part-9.parquet": parquet(99),
    ".staging/k=a/part-9.parquet": parquet(99),
    "_metadata": parquet(99),
    "_common_metadata": parquet(99),
    "_committed_1": b"{}",
    ".part-1.parquet.crc": b"crc",
    ".DS_Store": b"Bud1",
    "part-8.parquet._COPYING_": b"PAR1",
}
"""Files of jobs that run or failed, and what tools keep for themselves."""
STRAYS: Final[Mapping[str, bytes]] = {**MARKERS, **EMPTY, **HIDDEN}


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder; a path that ends with a slash is a folder."""
    for path, content in files.items():
        file = folder / path
        if path.endswith("/") or not path:
            file.mkdir(parents=True, exist_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
