"""``python -m bench.spark_paper``: what an import on Spark takes that is too large for this machine, in minutes and dollars.

Requests are those that the tasks' own code makes, counted on a small import (:func:`count`); processor time is what
``python -m bench.spark`` measures, doubled for spills, a remote shuffle and slower cores; prices are of ``infra/prices.py``.
"""

import argparse
from hashlib import md5
from math import ceil, isqrt
from sys import getsizeof
from typing import Any, Final, NamedTuple, cast

import pyarrow as arrow
from pyspark import cloudpickle
from tests.spark import buckets

from graveler.lake.importing.gate import Gate
from graveler.lake.importing.listing_rows import RowRules
from graveler.lake.importing.listing_tables import CHECKSUM, KEY, MTIME, SIZE
from graveler.model import SplitParameters
from graveler.runtime.local import LocalRuntime
from graveler.spark.checkpoints import Checkpoint
from graveler.spark.cutting import cut_points
from graveler.spark.importing import partitions_of
from graveler.spark.listing_frames import Columns
from graveler.spark.results import pack
from graveler.spark.subtrees import SubtreeTask
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.namespaces import locate
from graveler.storage.objects.port import PAGE, Objects, StoredObject
from graveler.storage.objects.s3 import S3Objects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.tree.range_notes import NoNotes
from graveler.tree.store import TreeStore
from graveler.tree.writer import join
from infra import prices

CPU_MICROSECONDS: Final = 6.3
"""Of processors for each object, measured with ten million of them."""
SLOWER: Final = 2.0
SEAM_SECONDS: Final = 0.3
"""One seam on a cluster: 65 ms of a processor here, doubled, and four requests of S3 one after another."""
START_MINUTES: Final = 2.0
"""Until the application's processors are there, and Spark has planned and sampled."""
LISTING_BYTES: Final = 40
"""Of Parquet for each object of an inventory; S3 gives them in requests of some MiB each."""
REQUEST_BYTES: Final = 8 << 20
PASSES: Final = 2
"""Readings of the listing: to sample the keys, and to sort them. The number of partitions is given."""
EXECUTOR_GB: Final = 18
DRIVER_CORES: Final = 2
DRIVER_GB: Final = 16

LIST_SECONDS: Final = 0.06
PARTS: Final = 64
"""Of a bucket whose cutting is counted; each part takes as many looks whatever there is of them."""
POINTER_BYTES: Final = 8
_BATCH: Final = 10_000
_NAMESPACE: Final = "mem://bench"


class Requests(NamedTuple):
    """Object requests of an import of ``objects`` that become ``ranges``: reads at each seam, writes there beyond those of the
    ranges, and notes of each task. Bytes of what is ``sent`` to a task, and of what tasks answer and the driver keeps for each
    range. ``looks`` are the listings that cutting a bucket takes, for each part."""

    objects: int
    ranges: int
    seam_gets: float
    seam_puts: float
    notes: float
    sent: int
    answered: float
    kept: float
    looks: float


class CountedObjects(MemoryObjects):
    """Objects in memory, which count the requests."""

    def __init__(self) -> None:
        super().__init__(_NAMESPACE)
        self.gets = self.puts = 0

    def get(self, key: str, *arguments: Any, **options: Any) -> bytes:
        self.gets += 1
        return super().get(key, *arguments, **options)

    def put(self, key: str, *arguments: Any, **options: Any) -> StoredObject:
        self.puts += 1
        return super().put(key, *arguments, **options)


def count(objects: int = 240_000, parts: int = 6) -> Requests:
    """Build the subtrees of so many objects and join them, by the code of the tasks and of the driver. 3 s of a processor."""
    store_objects = CountedObjects()
    split = SplitParameters()
    names = {KEY: "key", SIZE: "size", CHECKSUM: "etag", MTIME: "mtime"}
    columns = Columns(names, RowRules("", "", "s3://warehouse/", False, False), "listing", 0, Gate(_NAMESPACE, locate))
    note = Checkpoint(store_objects, ["listing"])
    store = TreeStore(ImmutableFiles(store_objects, None), LocalRuntime(), notes=NoNotes())
    answers = []
    each = objects // parts
    for part in range(parts):
        batches = (_batch(part, at, min(_BATCH, each - at)) for at in range(0, each, _BATCH))
        answers.append(SubtreeTask(store, split, columns, "run", (), note).build(batches, part))
    subtrees = [tree for answer in answers for tree in answer.trees]
    sent = SubtreeTask(
        TreeStore(ImmutableFiles(S3Objects("bucket", "lake"), None), LocalRuntime(), notes=NoNotes()),
        split,
        columns,
        "run",
    )
    notes = sum(1 for _ in store_objects.list("_graveler/imports/"))
    store_objects.gets = 0
    cold = TreeStore(ImmutableFiles(store_objects, None), LocalRuntime(), notes=NoNotes())
    tree = join(cold, split, [subtree.tree(cold) for subtree in subtrees])
    seams = parts - 1
    beyond = store_objects.puts - notes - len(tree)
    kept = sum(getsizeof(text) + POINTER_BYTES for text in (*tree.lasts, *tree.packed)) / len(tree)
    return Requests(
        each * parts,
        len(tree),
        store_objects.gets / seams,
        beyond / seams,
        notes / parts,
        len(cloudpickle.dumps(sent)),  # type: ignore[no-untyped-call]
        sum(len(pack(answer)) for answer in answers) / len(tree),
        kept,
        looks(),
    )


def looks() -> float:
    """Listings that it takes to cut a bucket, for each part: a flat one, or one of folders, whichever takes more."""
    found = []
    for bucket in (buckets.flat(4_000_000), buckets.hashed_folders(4_000_000, 40_000)):
        cut_points(cast(Objects, bucket), "p/", PARTS)
        found.append(bucket.requests / PARTS)
    return max(found)


def _batch(part: int, first: int, rows: int) -> arrow.RecordBatch:
    """Rows like those of ``bench.spark``, in order."""
    keys = [
        f"table{part:05}/dt=2016-01-{1 + first // _BATCH:02}/part-{first + n:09}.snappy.parquet" for n in range(rows)
    ]
    etags = [md5(key.encode(), usedforsecurity=False).hexdigest() for key in keys]
    arrays = {
        KEY: arrow.array([key.encode() for key in keys], arrow.binary()),
        SIZE: arrow.array([(first + n) * 31 % 100_000 for n in range(rows)], arrow.int64()),
        CHECKSUM: arrow.array(etags, arrow.string()),
        MTIME: arrow.array([1_700_000_000 + first + n for n in range(rows)], arrow.int64()),
    }
    return arrow.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def paper(objects: int, executors: int, cores: int, counted: Requests) -> list[str]:
    """The lines of a table: what, how many, dollars; and one that sums up."""
    partitions = partitions_of(objects, executors * cores)
    ranges = round(objects * counted.ranges / counted.objects)
    seams = partitions - 1
    groups = isqrt(partitions - 1) + 1
    joins = (ceil(partitions / groups) + groups) * SEAM_SECONDS / 60
    work = objects * CPU_MICROSECONDS * SLOWER / 1e6
    minutes = START_MINUTES + work / (executors * cores) / 60 + joins
    hours = minutes / 60
    processors, memory = executors * cores + DRIVER_CORES, executors * EXECUTOR_GB + DRIVER_GB
    puts, gets = ranges + round(counted.seam_puts * seams), round(counted.seam_gets * seams)
    notes = round(counted.notes * partitions)
    reads = PASSES * ceil(objects * LISTING_BYTES / REQUEST_BYTES)
    lines = [
        (
            f"ranges written: {ranges:,}, and {counted.seam_puts:.1f} more at each of {seams:,} seams",
            f"{puts:,} PUT",
            prices.S3_PUT * puts,
        ),
        (f"joins: {counted.seam_gets:.1f} ranges at each seam", f"{gets:,} GET", prices.S3_GET * gets),
        ("notes of the tasks, which are deleted at the end", f"{notes:,} PUT", prices.S3_PUT * notes),
        (
            f"the inventory, {objects * LISTING_BYTES / 1e9:.0f} GB of Parquet, read {PASSES} times",
            f"{reads:,} GET",
            prices.S3_GET * reads,
        ),
        (
            f"{processors} processors and {memory} GB for {minutes:.1f} minutes, arm64",
            f"{processors * hours:.1f} vCPU hours, {memory * hours:.0f} GB hours",
            processors * hours * prices.JOB_CPU_HOUR + memory * hours * prices.JOB_GB_HOUR,
        ),
    ]
    total = sum(dollars for *_, dollars in lines)
    cutting = round(counted.looks * 4 * executors * cores)
    lists = ceil(objects / PAGE) + cutting
    list_minutes = lists * LIST_SECONDS / (executors * cores) / 60
    return [
        "| | number | dollars |",
        "|---|---:|---:|",
        *(f"| {what} | {number} | {dollars:.2f} |" for what, number, dollars in lines),
        f"| **together, {minutes:.0f} minutes** | | **{total:.2f}** |",
        "",
        "| | bytes |",
        "|---|---:|",
        f"| sent to a task, at most: its function, and which partition | {ceil(counted.sent / 100) * 100:,} |",
        f"| the results of all tasks, to the driver | {round(counted.answered * ranges):,} |",
        f"| the tree, in the driver's memory: {counted.kept:.0f} for each range | {round(counted.kept * ranges):,} |",
        "",
        (
            f"Listing a prefix instead of reading an inventory takes {lists:,} more LIST requests, {prices.S3_PUT * lists:.2f} "
            f"dollars, of which {cutting:,} cut it: {list_minutes:.1f} minutes at 60 ms each."
        ),
    ]


def main() -> None:
    """Count, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_paper", description=__doc__)
    parser.add_argument("--objects", type=int, default=1_000_000_000, help="(default %(default)s)")
    parser.add_argument("--executors", type=int, default=100, help="(default %(default)s)")
    parser.add_argument("--cores", type=int, default=4, help="of an executor (default %(default)s)")
    arguments = parser.parse_args()
    print("\n".join(paper(arguments.objects, arguments.executors, arguments.cores, count())))


if __name__ == "__main__":
    main()
