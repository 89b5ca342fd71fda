"""``python -m bench.filesystem``: what reading through ``graveler://`` takes, beside the same files without a lake, in turns.

The same Parquet files are in a folder and on a branch of a lake in a folder, committed. Each is read through fsspec (graveler's
filesystem, and a ``DirFileSystem`` over the local one, which passes everything through), and by an engine's own reader (the
places that ``fs.native`` returns, and the files). Ratios travel, milliseconds do not.

With ``--store-ms``, they are read in the same ways from S3 (s3proxy, through a proxy that lets each request take so much longer;
the lake's table is in DynamoDB Local): beside graveler's filesystem, Arrow's S3 client, passed through fsspec.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from secrets import token_hex
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest.mock import patch

import duckdb
import fsspec
import polars
import pyarrow
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow import dataset, parquet
from pyarrow.fs import FSSpecHandler, PyFileSystem, S3FileSystem
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.proxy import FaultyProxy
from tests.support.servers import REGION, dynamodb_local, s3proxy

import graveler
from bench.lines import Goal, Line, show, table
from graveler.filesystem import GravelerFileSystem
from graveler.sdk.branch import Branch
from graveler.sdk.lake import create_lake
from graveler.sdk.reference import Reference
from graveler.storage.objects.s3 import S3Objects, S3Settings

BRANCH = "bench/main"
GROUP = 125_000
MOST = 1.1
"""A read may take so many times as long as without a lake."""
OPENING_MS = 0.3
STATS = 5000
PINNED, MOVING = 50_000, 20_000
"""Stats a second at a commit or a tag, and on a branch, where each sees what another process wrote."""

FILES = (("one file of 8 columns, 2 of them", "large.parquet"), ("many small files", "small"))

Reading = Callable[[], object]


def main() -> None:
    """Measure, and print a table."""
    made = argparse.ArgumentParser(prog="python -m bench.filesystem", description=__doc__)
    made.add_argument("--rows", type=int, default=2_000_000, help="of the large file (default %(default)s)")
    made.add_argument("--files", type=int, default=2000, help="small ones (default %(default)s)")
    made.add_argument("--repeat", type=int, default=7, help="readings of each kind (default %(default)s)")
    made.add_argument("--store-ms", type=float, help="read from S3, with so much added to each request to it")
    arguments = made.parse_args()
    with TemporaryDirectory(prefix="graveler-bench-") as name:
        folder = Path(name)
        write(folder / "files", arguments.rows, arguments.files)
        if arguments.store_ms is not None:
            print(table([*lines_on_s3(folder / "files", arguments.store_ms / 1000, arguments.repeat)]))
            return
        fs = in_a_lake(folder / "lake", folder / "files")
        print(table([*lines(fs, folder / "files", arguments.repeat), *stats(folder / "lake", arguments.repeat)]))


def write(folder: Path, rows: int, files: int) -> None:
    """Write a large Parquet file of 8 columns, and many of 10 rows."""
    (folder / "small").mkdir(parents=True)
    columns = {f"c{n}": [(row * (2 * n + 7919)) % 1_000_003 for row in range(rows)] for n in range(8)}
    large = pyarrow.table(columns)
    parquet.write_table(large, folder / "large.parquet", row_group_size=GROUP)
    for number in range(files):
        parquet.write_table(large.slice(number * 10, 10), folder / "small" / f"{number:05}.parquet")


def in_a_lake(lake: Path, files: Path) -> GravelerFileSystem:
    """Return a filesystem whose branch has these files, committed."""
    with create_lake(lake, user="bench") as made:
        main = made.repository("bench").create().branch("main")
        main.import_data().prefix(files).run()
        made.repository("bench").tag("v1").create("main")
    fs: GravelerFileSystem = fsspec.filesystem("graveler", lake=str(lake), user="bench")
    return fs


def lines(fs: GravelerFileSystem, files: Path, repeat: int) -> "list[Line]":
    """Return a line for each kind of reading."""
    through = fsspec.filesystem("dir", path=str(files), fs=fsspec.filesystem("local"))
    found = []
    for what, path in FILES:
        ours, theirs = partial(scan, fs, f"{BRANCH}/{path}"), partial(scan, through, path)
        found.append(line(f"pyarrow through fsspec, {what}", ours, theirs, repeat))
        pattern = "small/*.parquet" if path == "small" else path
        places, direct = fs.native(f"{BRANCH}/{pattern}"), sorted(map(str, files.glob(pattern)))
        for engine, read in (("Polars", with_polars), ("DuckDB", with_duckdb)):
            found.append(
                line(f"{engine} by native places, {what}", partial(read, places), partial(read, direct), repeat)
            )
    names = fs.glob(f"{BRANCH}/small/*")[:1000]
    local = sorted(map(str, files.glob("small/*")))[:1000]
    opened, beside = in_turns(partial(each, fs, names), partial(each, fsspec.filesystem("local"), local), repeat)
    found.append(
        Line(
            f"open and read {len(names)} small files, one after another, each",
            show(median(opened) / len(names)),
            beside=f"local {show(median(beside) / len(local))}",
            goals=(Goal("ms", median(opened) / len(names) * 1e3, OPENING_MS),),
        )
    )
    return found


def lines_on_s3(files: Path, delay: float, repeat: int) -> Iterator[Line]:
    """Yield a line for each kind of reading from S3, where each request takes ``delay`` seconds longer."""
    bucket = f"bench-{token_hex(6)}"
    with (
        patch.dict(os.environ, {**CREDENTIALS, "XDG_CACHE_HOME": str(files.parent / "cache")}),
        FaultyProxy(s3proxy()) as proxy,
    ):
        settings = S3Settings(REGION, s3proxy())
        make_bucket(bucket, settings)
        store = S3Objects(bucket, settings=settings)
        for file in sorted(files.rglob("*.parquet")):
            store.put(file.relative_to(files).as_posix(), file.read_bytes())
        options = {"objects": f"s3://{bucket}-lake/lake", "region": REGION, "dynamodb_endpoint_url": dynamodb_local()}
        make_bucket(f"{bucket}-lake", settings)
        options["s3_endpoint_url"] = proxy.url
        with create_lake(f"dynamodb://{bucket}", create_table=True, user="bench", **options) as made:
            main = made.repository("bench").create().branch("main")
            main.import_data().prefix(f"s3://{bucket}/").run()
        fs = fsspec.filesystem("graveler", lake=f"dynamodb://{bucket}", user="bench", **options)
        own = {"key": CREDENTIALS["AWS_ACCESS_KEY_ID"], "secret": CREDENTIALS["AWS_SECRET_ACCESS_KEY"]}
        client = S3FileSystem(
            access_key=own["key"], secret_key=own["secret"], region=REGION, endpoint_override=proxy.url
        )
        through = ArrowFSWrapper(client)
        proxy.answered = lambda *_: time.sleep(delay)
        storage = {
            "aws_access_key_id": own["key"],
            "aws_secret_access_key": own["secret"],
            "aws_region": REGION,
            "aws_endpoint_url": proxy.url,
            "aws_allow_http": "true",
        }
        for what, path in FILES:
            ours, theirs = partial(scan, fs, f"{BRANCH}/{path}"), partial(scan, through, f"{bucket}/{path}")
            yield line(f"S3, pyarrow through fsspec, {what}", ours, theirs, repeat)
            names = sorted(file.relative_to(files).as_posix() for file in files.rglob("*.parquet") if path in str(file))
            places = fs.native(f"{BRANCH}/small/*.parquet" if path == "small" else f"{BRANCH}/{path}")
            read = partial(with_polars, storage=storage)
            direct = partial(read, [f"s3://{bucket}/{name}" for name in names])
            yield line(f"S3, Polars by native places, {what}", partial(read, places), direct, repeat)
        names = fs.glob(f"{BRANCH}/small/*")[:100]
        opened, beside = in_turns(
            partial(each, fs, names),
            partial(each, through, [f"{bucket}/{name[len(BRANCH) + 1 :]}" for name in names]),
            repeat,
        )
        yield Line(
            f"S3, open and read {len(names)} small files, one after another, each",
            show(median(opened) / len(names)),
            beside=f"without a lake {show(median(beside) / len(names))}",
        )


def stats(lake: Path, repeat: int) -> "list[Line]":
    """Return a line for each kind of ref: stats of random objects through handles of the SDK, one thread."""
    with graveler.open(lake, user="bench") as opened:
        repo = opened.repository("bench")
        main = repo.branch("main")
        paths = Random(1).choices([found.path for found in main.objects(prefix="small/")], k=STATS)
        found = []
        for what, ref, wanted in (
            ("at a commit", repo.ref(main.head.id), PINNED),
            ("at a tag", repo.ref("v1"), PINNED),
            ("on a branch", main, MOVING),
        ):
            times, _ = in_turns(partial(stat_each, ref, paths), int, repeat)
            rate = STATS / median(times)
            found.append(
                Line(
                    f"stat {what}",
                    show(median(times) / STATS),
                    rate=f"{rate:,.0f}",
                    spread=f"{show(min(times) / STATS)} to {show(max(times) / STATS)}",
                    goals=(Goal("per second", rate, wanted, least=True),),
                )
            )
    return found


def stat_each(ref: Reference | Branch, paths: Sequence[str]) -> None:
    """Look up objects, one after another."""
    for path in paths:
        ref.object(path).stat()


def line(what: str, ours: Reading, theirs: Reading, repeat: int) -> Line:
    """Measure two readings in turns."""
    first, second = in_turns(ours, theirs, repeat)
    ratio = median(mine / other for mine, other in zip(first, second, strict=True))
    return Line(
        what,
        show(median(first)),
        spread=f"{show(min(first))} to {show(max(first))}",
        beside=f"without a lake {show(median(second))}",
        goals=(Goal("×", ratio, MOST),),
    )


def in_turns(ours: Reading, theirs: Reading, repeat: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each reading, after one of each that does not count."""
    ours(), theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for read, seconds in zip((ours, theirs), times, strict=True):
            began = perf_counter()
            read()
            seconds.append(perf_counter() - began)
    return times


def scan(fs: Any, path: str) -> object:
    """Read two columns of all files with pyarrow."""
    found = dataset.dataset(path, filesystem=PyFileSystem(FSSpecHandler(fs)), format="parquet")
    return found.to_table(columns=["c0", "c5"])


def with_polars(places: Sequence[str], storage: "dict[str, str] | None" = None) -> object:
    """Sum two columns."""
    return polars.scan_parquet(list(places), storage_options=storage).select(polars.col("c0", "c5").sum()).collect()


def with_duckdb(places: Sequence[str]) -> object:
    """Sum two columns."""
    return duckdb.connect().execute("SELECT sum(c0), sum(c5) FROM read_parquet(?)", [list(places)]).fetchall()


def each(fs: Any, names: Sequence[str]) -> None:
    """Open and read files."""
    for name in names:
        with fs.open(name) as file:
            file.read()


if __name__ == "__main__":
    main()
