"""``python -m bench.retention``: what collecting garbage costs: marking, marking again after one commit, comparing, sweeping.

Trees and files lie in a folder; the listing that is compared is made up, since making millions of objects would take longer than
what is measured. Requests are those of the object store.
"""

import argparse
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp

from tests.support.instruments import CountingObjects

from graveler.lake.clock import SystemClock
from graveler.model import MetarangeName, ObjectEntry, SplitParameters
from graveler.retention.comparing import Listed, unneeded
from graveler.retention.engine import InProcess
from graveler.retention.marking import Marks
from graveler.retention.runs import Candidate, Kind, Mode
from graveler.retention.sweeping import Sweeper
from graveler.storage.files import ImmutableFiles
from graveler.storage.folder_objects import FolderObjects
from graveler.tree.apply import apply
from graveler.tree.files import TreeStore
from graveler.tree.record import RecordCodec, data_name, data_path
from graveler.tree.writer import build

NAMESPACE = "local://retention"
SPLIT = SplitParameters()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--swept", type=int, default=5_000)
    arguments = parser.parse_args()
    folder = Path(mkdtemp(prefix="graveler-bench-"))
    try:
        measure(folder, arguments.objects, arguments.commits, arguments.swept)
    finally:
        rmtree(folder)


def name_of(number: int) -> bytes:
    """A data name; sorted like the numbers, and spread."""
    return number.to_bytes(6, "big") + (number * 2654435761 % (1 << 152)).to_bytes(19, "big")


def record(codec: RecordCodec, number: int, name: int) -> tuple[bytes, bytes]:
    """The object ``number``, with the name of that number."""
    path = f"dir{number // 5000:05}/part-{number:09}.parquet"
    address = f"{NAMESPACE}/data/{data_path(name_of(name))}"
    return path.encode(), codec.encode(ObjectEntry(path, address, number, f"{name:032x}", 1_700_000_000))


def measure(folder: Path, count: int, commits: int, swept: int) -> None:
    """Build a history, and print a line for each thing measured."""
    objects = FolderObjects(folder / "objects", NAMESPACE)
    store = TreeStore(ImmutableFiles(objects, None))
    codec, random = RecordCodec(NAMESPACE), Random(1)
    tree = build(store, SPLIT, (record(codec, number, number) for number in range(count)))
    names = [tree.save()]
    made = count
    for _ in range(commits):
        first_one = random.randrange(count - 100)
        changed = range(first_one, first_one + 100)
        tree = apply(tree, [record(codec, number, made + at) for at, number in enumerate(changed)], SPLIT)
        made += len(changed)
        names.append(tree.save())
    print(f"{count:,} objects in {len(tree)} ranges, {commits} commits of 100 adjacent changes")
    first = mark(objects, names, "mark, first run")
    tree = apply(tree, [record(codec, 7, made)], SPLIT)
    again = mark(objects, [*names, tree.save()], "mark, after one commit more")
    print(f"the second run takes {again / first:.1%} of the first")
    compare(objects, names, made)
    sweep(objects, swept)


def mark(objects: FolderObjects, names: list[MetarangeName], what: str) -> float:
    """Mark everything; seconds."""
    counted = CountingObjects(objects)
    began = time.perf_counter()
    marks = Marks(counted)
    numbers = {number for name in names for number in marks.ranges_of(name)}
    unread = marks.unread(numbers)
    if unread:
        marks.add(unread, InProcess(SystemClock()).mark(counted, unread, lambda _done, _total: None))
    marks.save(names, numbers)
    took = time.perf_counter() - began
    print(
        f"{what}: {took:.2f} s, {marks.metaranges_read} metaranges and {marks.ranges_read} ranges read, {dict(counted.calls)}"
    )
    print(f"    {peak()} MB at most")
    return took


def compare(objects: FolderObjects, names: list[MetarangeName], made: int) -> None:
    """Compare with a listing in which every tenth object is not needed."""
    marks = Marks(objects)
    numbers = {number for name in names for number in marks.ranges_of(name)}

    def listing() -> Iterator[Listed]:
        for number in range(made):
            yield Listed(name_of(number), "", 1, "", 0.0)
            if number % 10 == 0:
                yield Listed(name_of(number)[:24] + b"\xff", "", 1, "", 0.0)

    began = time.perf_counter()
    found = sum(1 for _ in unneeded(listing(), marks.rows(), marks.alive(numbers), iter(())))
    took = time.perf_counter() - began
    print(f"compare {made * 11 // 10:,} objects: {took:.2f} s, {found:,} are not needed, {peak()} MB at most")


def sweep(objects: FolderObjects, count: int) -> None:
    """Delete small objects."""
    candidates = []
    for number in range(count):
        stored = objects.put(f"data/{data_path(name_of(number))}", b"x")
        assert data_name(stored.key.removeprefix("data/")) is not None
        candidates.append(Candidate(Kind.OBJECT, stored.key, 1, stored.etag, stored.modified, ""))
    began = time.perf_counter()
    Sweeper(objects, SystemClock(), 16).sweep("run", Mode.DELETE, candidates, lambda: None)
    took = time.perf_counter() - began
    print(f"sweep {count:,} objects of a folder: {took:.2f} s, {count / took:,.0f} a second")


def peak() -> int:
    """Peak memory of this process, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
