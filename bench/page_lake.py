"""The lake of the measurements of the web page: a folder of many objects, a long history, and a large Parquet file."""

from hashlib import md5
from pathlib import Path
from typing import Final

import numpy
import pyarrow
from pyarrow import parquet

from graveler.history.commits import new_commit
from graveler.lake.opening.folder import open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, ObjectEntry
from graveler.sdk.lake import Lake, create_lake
from graveler.storage.tables.port import Put

FLAT: Final = "flat"
LONG: Final = "long"
TABLES: Final = "tables"
TABLE: Final = "table.parquet"
_GROUP: Final = 1 << 20
_MERGE_EVERY: Final = 10
_AT_ONCE: Final = 80
"""Commits of a transaction."""


def create_page_lake(folder: Path, objects: int, commits: int, parquet_bytes: int) -> None:
    """Create ``lake`` in the folder, and the table beside it; with 100,000 commits and 1 GiB, in some minutes."""
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    write_table(folder / "tables" / TABLE, parquet_bytes)
    with create_lake(folder / "lake") as lake:
        for name in (FLAT, LONG, TABLES):
            lake.repository(name).create()
        lake.repository(TABLES).branch("main").import_data("tables").prefix(
            (folder / "tables").as_uri() + "/", destination=""
        ).run()
    with open_folder_lake(folder / "lake") as opened:
        opened.repository(FLAT).link_many("main", map(_entry, range(objects)))
        _create_history(opened.repository(LONG), commits)
    with Lake(open_folder_lake(folder / "lake"), "bench") as lake:
        lake.repository(FLAT).branch("main").commit("Load the parts")


def _entry(number: int) -> ObjectEntry:
    path = f"data/part-{number:06}.parquet"
    digest = md5(path.encode(), usedforsecurity=False).hexdigest()
    return ObjectEntry(path, f"s3://warehouse/{path}", 1_000_000 + number * 37, digest, 1_790_000_000 + number)


def _create_history(repository: OpenRepository, count: int) -> None:
    """Write commits in large transactions, and move ``main`` there. Every tenth is a merge of a branch of one commit."""
    store = repository.parts.commits
    first = repository.commit_of("main")
    metarange, tip = first.metarange, first
    pending: list[Put] = []

    def add(message: str, *parents: Commit) -> Commit:
        number = len(pending) + done
        commit = new_commit(
            parents=parents,
            metarange=metarange,
            committer="etl",
            message=message,
            created=first.created + number,
            metadata={},
            operation=f"bench-{number}",
        )
        pending.append(store.put_write(commit, commit.created))
        store.remember(commit, pending[-1])
        return commit

    done = 0
    while done < count:
        base = tip
        for number in range(_MERGE_EVERY - 2):
            tip = add(f"Load hour {done + len(pending) + number}", tip)
        tip = add("Merge a correction", tip, add("Correct", base))
        if len(pending) >= _AT_ONCE or done + len(pending) >= count:
            repository.tables.transact(pending)
            done += len(pending)
            pending.clear()
    repository.hard_reset("main", tip.id)


def write_table(file: Path, least_bytes: int) -> None:
    """Write ten columns of orders as pyarrow does by default: row groups of a million rows, dictionaries, Snappy."""
    random = numpy.random.default_rng(1)
    writer: parquet.ParquetWriter | None = None
    start = 0
    while writer is None or file.stat().st_size < least_bytes:
        ids = numpy.arange(start, start + _GROUP)
        cities = numpy.array([f"city {number}" for number in range(412)])
        table = pyarrow.table(
            {
                "id": pyarrow.array(ids),
                "at": pyarrow.array(1_790_000_000_000_000 + ids * 1000, pyarrow.timestamp("us", "UTC")),
                "user": pyarrow.array([f"{number:016x}" for number in random.integers(0, 2**63, _GROUP)]),
                "amount": pyarrow.array(random.gamma(2, 50, _GROUP)),
                "price": pyarrow.array(numpy.round(random.gamma(2, 50, _GROUP), 2)),
                "latitude": pyarrow.array(random.uniform(-90, 90, _GROUP)),
                "longitude": pyarrow.array(random.uniform(-180, 180, _GROUP)),
                "city": pyarrow.array(cities[random.integers(0, len(cities), _GROUP)]),
                "quantity": pyarrow.array(random.integers(1, 100, _GROUP).astype("int32")),
                "paid": pyarrow.array(random.random(_GROUP) < 0.9),
            }
        )
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
        start += _GROUP
    writer.close()
