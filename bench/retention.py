"""``python -m bench.retention``: what collecting garbage costs: marking, marking again after one commit, comparing, sweeping.

Trees and files lie in a folder; the listing that is compared is made up, since making millions of objects would take longer than
what is measured. Each step runs in a process of its own, whose CPU time and peak of memory are told; requests are those of the
object store. With ``--s3``, objects are removed from a server that speaks S3's protocol on this machine (s3proxy), a thousand
with each request: what the collector can do, if not what S3 does.

``--notes`` measures the saved notes of a long history instead, with descriptions that are made up: 10,000 ranges (10^8 objects),
of which each commit changes one; 100 commits beside 50,000. Takes a minute.
"""

import argparse
import multiprocessing
import os
import resource
import time
import tracemalloc
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from secrets import token_hex
from shutil import rmtree
from tempfile import mkdtemp

from msgspec import Struct
from tests.retention.made_trees import MadeTrees, described
from tests.support.instruments import CountingObjects

from graveler.lake.clock import SystemClock
from graveler.model import CommitID, MetarangeName, ObjectEntry, SplitParameters
from graveler.retention.comparison import Listed, unneeded
from graveler.retention.engine import InProcess
from graveler.retention.mark_state import STATE, MarkState, save_state
from graveler.retention.marks import Marks
from graveler.retention.packed_numbers import raw_name
from graveler.retention.range_numbers import RangeNumbers
from graveler.retention.range_table import RangeTable
from graveler.retention.rate_limit import Pace
from graveler.retention.rowfiles import read_rows
from graveler.retention.rules import KnownCommit
from graveler.retention.runs import Candidate, Kind, Mode
from graveler.retention.succession import Succession
from graveler.retention.sweeper import Sweeper
from graveler.runtime.local import LocalRuntime
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.tree.apply import apply
from graveler.tree.record import RecordCodec, data_name, data_path
from graveler.tree.store import TreeStore
from graveler.tree.writer import build

NAMESPACE = "local://retention"
SPLIT = SplitParameters()
CHUNK = 5_000
SHORT = 100
"""Commits of the short history whose notes are compared with those of the long one."""
FRESH = 51
"""New commits of a run."""
ROUNDS = 5


class Cost(Struct, frozen=True):
    """What a step took: seconds by the wall clock and of the CPU, peak of memory in MB, and what the step says."""

    seconds: float
    cpu: float
    memory: int
    said: Mapping[str, int]


def main() -> None:
    """Measure, and print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--swept", type=int, default=20_000)
    parser.add_argument("--s3", action="store_true", help="remove objects from s3proxy, too")
    parser.add_argument("--notes", action="store_true", help="measure the notes of a long history instead")
    parser.add_argument("--ranges", type=int, default=10_000, help="ranges of each metarange of that history")
    parser.add_argument("--long", type=int, default=50_000, help="its commits")
    arguments = parser.parse_args()
    folder = Path(mkdtemp(prefix="graveler-bench-"))
    try:
        if arguments.notes:
            measure_notes(folder, arguments.ranges, (SHORT, arguments.long))
            return
        measure(folder, arguments.objects, arguments.commits)
        sweep("a folder", FolderObjects(folder / "swept", "local://swept"), arguments.swept)
        if arguments.s3:
            sweep("s3proxy", s3_objects(), arguments.swept)
    finally:
        rmtree(folder)


def apart(step: Callable[[], Mapping[str, int]]) -> Cost:
    """Run a step in a new process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_timed, args=(step, sender))
    process.start()
    sender.close()
    found: Cost = receiver.recv()
    process.join()
    return found


def _timed(step: Callable[[], Mapping[str, int]], sender: Connection) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    said = step()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    sender.send(Cost(seconds, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, said))


def name_of(number: int) -> bytes:
    """A data name; sorted like the numbers, and spread."""
    return number.to_bytes(6, "big") + (number * 2654435761 % (1 << 152)).to_bytes(19, "big")


def record(codec: RecordCodec, number: int, name: int) -> tuple[bytes, bytes]:
    """The object ``number``, with the name of that number."""
    path = f"dir{number // 5000:05}/part-{number:09}.parquet"
    address = f"{NAMESPACE}/data/{data_path(name_of(name))}"
    return path.encode(), codec.encode(ObjectEntry(path, address, number, f"{name:032x}", 1_700_000_000))


def measure(folder: Path, count: int, commits: int) -> None:
    """Build a history, mark it, mark it again after one commit, and compare it with a listing."""
    objects = FolderObjects(folder / "objects", NAMESPACE)
    store = TreeStore(ImmutableFiles(objects, None), LocalRuntime())
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
    first = show("mark, first run", apart(partial(mark, objects, names)))
    tree = apply(tree, [record(codec, 7, made)], SPLIT)
    names.append(tree.save())
    again = show("mark, after one commit more", apart(partial(mark, objects, names)))
    print(f"the second run takes {again.cpu / first.cpu:.1%} of the first one's CPU time")
    show(f"compare with a listing of {made * 11 // 10:,} objects", apart(partial(compare, objects, names, made)))


def show(what: str, cost: Cost) -> Cost:
    """Print a line."""
    said = ", ".join(f"{name} {number:,}" for name, number in cost.said.items())
    print(f"{what}: {cost.seconds:.2f} s, {cost.cpu:.2f} s of CPU, {cost.memory:,} MB at most; {said}")
    return cost


def history_of(names: Sequence[MetarangeName]) -> dict[CommitID, KnownCommit]:
    """Commits of these metaranges, each the parent of the next one."""
    ids = [CommitID(f"{number:064x}") for number in range(len(names))]
    commits = (
        KnownCommit(cid, tuple(ids[number - 1 : number] if number else ()), name, number)
        for number, (cid, name) in enumerate(zip(ids, names, strict=True))
    )
    return {commit.id: commit for commit in commits}


def mark(objects: Objects, names: list[MetarangeName]) -> Mapping[str, int]:
    """Mark everything, as a run does."""
    counted, engine = CountingObjects(objects), InProcess(SystemClock())
    marks = Marks(counted)
    marks.read(dict.fromkeys(map(str, names), 1), history_of(names), tell_nobody)
    numbers = marks.ranges_with(1)
    unread = marks.unread(numbers)
    if unread:
        marks.add(unread, engine.mark(counted, unread, tell_nobody))
    marks.save(numbers, partial(engine.merge, progress=tell_nobody))
    return {"metaranges read": marks.metaranges_read, "ranges read": marks.ranges_read, **counted.calls}


def tell_nobody(_done: int, _total: int) -> None:
    """Nothing."""


def compare(objects: Objects, names: list[MetarangeName], made: int) -> Mapping[str, int]:
    """Compare with a listing in which every tenth object is not needed."""
    marks = Marks(objects)
    marks.read(dict.fromkeys(map(str, names), 1), history_of(names), tell_nobody)
    numbers = marks.ranges_with(1)

    def listing() -> Iterator[Listed]:
        for number in range(made):
            yield Listed(name_of(number), "", 1, "", 0.0)
            if number % 10 == 0:
                yield Listed(name_of(number)[:24] + b"\xff", "", 1, "", 0.0)

    rows = [read_rows(objects, key) for key in marks.files]
    found = sum(1 for _ in unneeded(listing(), rows, marks.alive(numbers), iter(())))
    return {"not needed": found}


class MadeNotes(Struct, frozen=True):
    """Saved notes of a history: its commits, the names of all ranges, and new commits that no run has read."""

    objects: FolderObjects
    commits: dict[CommitID, KnownCommit]
    ranges: list[str]
    fresh: dict[CommitID, KnownCommit]


def make_notes(folder: Path, ranges: int, count: int) -> MadeNotes:
    """Save the notes of ``count`` commits, each of which changes one of ``ranges``; and files of a few metaranges more."""
    objects = FolderObjects(folder / f"notes-{count}", NAMESPACE)
    infos = [described(position, 0) for position in range(ranges)]
    latest, contents = list(range(ranges)), dict.fromkeys(range(ranges), 0)
    counts, changes = array("I", [ranges]), array("I", range(ranges))
    for number in range(1, count):
        position = number * 7919 % ranges
        counts.append(2)
        changes.extend((latest[position], len(infos)))
        latest[position] = len(infos)
        contents[position] = number
        infos.append(described(position, number))
    names = [MetarangeName(described(number, -1).name) for number in range(count)]
    packed = bytearray(b"".join([info.id + info.suffix for info in infos]))
    numbers = range(len(infos))
    table = RangeTable(packed, array("I", numbers), RangeNumbers(numbers), len(infos))
    succession = Succession(bytearray(b"".join(map(raw_name, names))), counts, changes)
    save_state(objects, MarkState(table, succession, []))
    trees = MadeTrees(objects)
    for position in range(FRESH):  # each lacks one range more, so that only metaranges are new
        del contents[position]
        names.append(MetarangeName(trees.save(contents)))
    commits = history_of(names)
    known = dict(islice(commits.items(), count))
    fresh = {cid: commit for cid, commit in commits.items() if cid not in known}
    return MadeNotes(objects, known, [info.name for info in infos], fresh)


def use_notes(notes: MadeNotes, fresh: int, traced: bool) -> Mapping[str, int]:
    """Do with notes what a run does: read ``fresh`` new metaranges, judge every other commit dead, make the unions, save, and
    ask for each range's file whether it is needed. ``traced`` counts the bytes that this takes at most."""
    commits = {**notes.commits, **dict(islice(notes.fresh.items(), fresh))}
    needs: dict[str, int] = {commit.metarange: 1 + number % 2 for number, commit in enumerate(commits.values())}
    counted = CountingObjects(notes.objects)
    if traced:
        tracemalloc.start()
    cpu = time.process_time()
    marks = Marks(counted)
    marks.read(needs, commits, tell_nobody)
    data, everything = marks.ranges_with(1), marks.ranges_with(3)
    assert not marks.unread(data)
    marks.save(everything, no_merge)
    unneeded_files = sum(not marks.is_in(name, everything) for name in notes.ranges)
    cpu = time.process_time() - cpu
    memory = tracemalloc.get_traced_memory()[1] if traced else 0
    assert (unneeded_files, marks.metaranges_read) == (0, fresh)
    return {"CPU µs": int(cpu * 1e6), "bytes": memory, "ranges": len(data), "requests": counted.requests}


def no_merge(_objects: Objects, files: Sequence[str], _alive: bytes) -> list[str]:
    """Made notes have no rows."""
    return list(files)


def measure_notes(folder: Path, ranges: int, counts: tuple[int, int]) -> None:
    """Print what the notes of a short and of a long history take: stored, in memory, and of the CPU."""
    costs: list[dict[str, float]] = []
    for count in counts:
        notes = make_notes(folder, ranges, count)
        stored = notes.objects.head(STATE).size
        initial = notes.objects.get(STATE)

        def least(fresh: int, notes: MadeNotes = notes, initial: bytes = initial) -> float:
            taken = []
            for _ in range(ROUNDS):
                notes.objects.put(STATE, initial)
                taken.append(apart(partial(use_notes, notes, fresh, False)).said["CPU µs"] / 1000)
            return min(taken)

        unchanged, once, often = least(0), least(1), least(FRESH)
        memory = apart(partial(use_notes, notes, 0, True)).said["bytes"]
        costs.append({"stored": stored, "memory": memory, "unchanged": unchanged, "once": once})
        print(
            f"{count:,} commits of {ranges:,} ranges: {stored / 1e6:.2f} MB stored, {memory / 1e6:.1f} MB in memory at most, "
            f"{unchanged:.1f} ms of CPU a run, {once:.1f} ms with one new commit, {(often - once) / (FRESH - 1):.1f} ms for each "
            "further one"
        )
    short, long = costs
    more = counts[1] - counts[0]
    print(
        f"a commit more: {(long['stored'] - short['stored']) / more:.0f} bytes stored, "
        f"{(long['memory'] - short['memory']) / more:.0f} bytes in memory; the long history takes "
        f"{long['unchanged'] / short['unchanged']:.1f} × the CPU, {long['once'] / short['once']:.1f} × with one new commit"
    )


def s3_objects() -> Objects:
    """A namespace in a fresh bucket of s3proxy, which this process starts if it is not running."""
    from tests.storage.adapters import CREDENTIALS, make_bucket, s3_settings

    from graveler.storage.objects.s3 import S3Objects

    os.environ.update(CREDENTIALS)
    bucket = f"bench-{token_hex(8)}"
    make_bucket(bucket, s3_settings())
    return S3Objects(bucket, "lake", s3_settings())


def sweep(where: str, objects: Objects, count: int) -> None:
    """Make small objects, and delete them as a run does."""
    candidates = []
    for number in range(count):
        stored = objects.put(f"data/{data_path(name_of(number))}", b"x")
        assert data_name(stored.key.removeprefix("data/")) is not None
        candidates.append(Candidate(Kind.OBJECT, stored.key, 1, stored.etag, stored.modified, ""))
    counted = CountingObjects(objects)
    sweeper = Sweeper(counted, SystemClock(), 16, Pace(SystemClock(), 1e6))
    began, cpu = time.perf_counter(), time.process_time()
    for at in range(0, count, CHUNK):
        sweeper.sweep("run", Mode.DELETE, candidates[at : at + CHUNK], lambda: None)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"sweep {count:,} objects of {where}: {took:.2f} s, {count / took:,.0f} a second, {cpu:.2f} s of CPU of the collector; "
        f"{sum(counted.calls.values()):,} requests"
    )


if __name__ == "__main__":
    main()
