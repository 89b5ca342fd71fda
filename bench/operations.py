"""``python -m bench.operations``: a merge as an operation in parts: plan, parts, publish, each in a process of its own.

A lake in a folder gets two branches, each with changes spread evenly over all its objects, none the same. Each step then runs in
a fresh process with nothing near and one processor, as a function of AWS does. Time is the processor's, so that others at work
on the machine do not count; memory is the process's peak; requests are those of the object store and the table; a payload is the
JSON that passes from step to step. The commit must have the tree that one call makes, which runs in a process of its own, too: a
second table has what the operation takes over it. A third one says, from what was measured, what 1,000,000,000 objects with
100,000,000 changes on each side would take.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from tests.support.instruments import CountingObjects, CountingTables
from tests.support.pinned import pinned_merge

from bench.keys import entry, hive, read
from bench.keys import parts as cut_file
from bench.rows import records
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, folder_store
from graveler.lake.opening.lake_parts import Surroundings, TreeSettings
from graveler.lake.repository import OpenRepository
from graveler.operations.machine import LEASE, Machine, Next, Planned, Task
from graveler.operations.parts.division import Sizes
from graveler.operations.parts.part_files import PartFiles
from graveler.operations.pinned_requests import MERGE
from graveler.operations.store import Operation, Operations, OperationState
from graveler.storage.objects.port import Objects
from graveler.storage.tables.sqlite import SqliteTables
from graveler.tree.apply import apply
from graveler.tree.parallel_build import build_parallel
from graveler.tree.record import RecordCodec

NAMESPACE: Final = "local://bench"
TASK: Final = Task("bench", "merge", 1)
LAMBDA_MB: Final = 1_769
"""Memory with which a function has one processor."""

PAPER_OBJECTS: Final = 1_000_000_000
PAPER_CHANGES: Final = 100_000_000
PAPER_PARTS: Final = 1_000
RANGE_BYTES: Final = 350
"""What the description of a range takes in memory, about."""

EMPTY_PLAN: Final = Planned(Next.PARTS, "bench", "0" * 32, 1)


class Measured(msgspec.Struct, frozen=True):
    """What one step took: seconds of the processor and of the clock, MB at most, requests, bytes read, bytes of its payload."""

    cpu: float
    wall: float
    peak: int
    objects: dict[str, int]
    tables: int
    read: int
    payload: int
    records: int = 0


def main() -> None:
    """Measure, and print two tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=7_000_000)
    parser.add_argument("--changes", type=int, default=1_000_000, help="on each side")
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="where to work, and what stays there; else a temporary folder")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(msgspec.json.encode(step(arguments.folder, arguments.step, arguments.parts)).decode())
        return
    folder = arguments.folder or Path(mkdtemp(prefix="graveler-bench-"))
    try:
        measure(folder, arguments.objects, arguments.changes, arguments.parts)
    finally:
        if arguments.folder is None:
            rmtree(folder)


def measure(folder: Path, objects: int, changes: int, parts: int) -> None:
    """All steps, one after the other."""
    prepare(folder / "lake", hive(folder, objects), objects, changes)
    plan = run(folder, "plan", parts)
    numbers = range(parts_of(folder))
    done = [run(folder, f"part:{number}", parts) for number in numbers]
    publish = run(folder, "publish", parts)
    alone = run(folder, "alone", parts)
    with opened(folder / "lake") as lake:
        repository = lake.repository("bench")
        operation = Operations(lake.tables, repository.repository.uid).get(TASK.operation)
        assert operation.state is OperationState.COMPLETED, operation.error
        tree = repository.commit_of("alone").metarange_id
        assert repository.commit_of("main").metarange_id == tree, "the parts make another tree than one call"
        ranges = len(repository._trees.load(repository.commit_of("main").metarange))
        stored = [found.size for found in repository.namespace.list("_graveler/operations/")]
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    print(
        f"Merge of {changes:,} changes with {changes:,} others over {objects:,} objects, in {len(done)} parts, {machine}."
    )
    print(f"The tree is that of one call, which takes {alone.cpu:.1f} s of one processor.\n")
    print("| step | processor s | clock s | MB at most | object requests | read MB | table requests | payload B |")
    print("|---|---|---|---|---|---|---|---|")
    for name, one in [
        ("plan", plan),
        *((f"part {number}", found) for number, found in enumerate(done)),
        ("publish", publish),
    ]:
        requests = ", ".join(f"{count} {method}" for method, count in sorted(one.objects.items()))
        print(
            f"| {name} | {one.cpu:.2f} | {one.wall:.2f} | {one.peak:,} | {requests} | {one.read / 1e6:.1f} | {one.tables} "
            f"| {one.payload:,} |"
        )
    steps = [plan, *done, publish]
    print(
        f"\nLargest memory {max(one.peak for one in steps):,} MB of {LAMBDA_MB:,}; largest payload "
        f"{max(one.payload for one in steps):,} B of 262,144; files of the operation {sum(stored) / 1e6:.2f} MB in "
        f"{len(stored)}; with all parts at once {plan.cpu + max(one.cpu for one in done) + publish.cpu:.1f} s.\n"
    )
    over_one_call(alone, plan, done, publish)
    on_paper(objects, changes, ranges, plan, done, publish, sum(stored))


def over_one_call(alone: Measured, plan: Measured, done: list[Measured], publish: Measured) -> None:
    """What the operation takes, and one call."""
    steps = [plan, *done, publish]
    rows: list[tuple[str, float, float]] = [
        ("processor s", alone.cpu, sum(one.cpu for one in steps)),
        ("clock s, one part after the other", alone.wall, sum(one.wall for one in steps)),
        ("clock s, all parts at once", alone.wall, plan.wall + max(one.wall for one in done) + publish.wall),
        ("object reads", alone.objects.get("get", 0), sum(one.objects.get("get", 0) for one in steps)),
        ("object writes", alone.objects.get("put", 0), sum(one.objects.get("put", 0) for one in steps)),
        ("table requests", alone.tables, sum(one.tables for one in steps)),
        ("MB at most, in one process", alone.peak, max(one.peak for one in steps)),
    ]
    print("| what | one call | operation | operation / call |")
    print("|---|---:|---:|---:|")
    for name, call, operation in rows:
        print(f"| {name} | {call:,.5g} | {operation:,.5g} | {operation / call:.2f} |")
    print()


def on_paper(
    objects: int, changes: int, ranges: int, plan: Measured, done: list[Measured], publish: Measured, stored: int
) -> None:
    """What was measured, scaled: parts by records, plan and publish by ranges."""
    scale = PAPER_OBJECTS / objects
    records = sum(one.records for one in done)
    each = sum(one.cpu for one in done) / max(records, 1)
    gets = sum(one.objects.get("get", 0) for one in done)
    puts = sum(one.objects.get("put", 0) for one in done)
    metaranges = 3 * ranges * scale * RANGE_BYTES / 1e6
    part, ends = each * records * scale / PAPER_PARTS, (plan.cpu + publish.cpu) * scale
    payload = len(msgspec.json.encode(replace(EMPTY_PLAN, numbers=tuple(range(PAPER_PARTS)))))
    rows = [
        ("records to read", f"{records * scale:,.0f}", "each range has changes on both sides"),
        ("a part", f"{part:,.0f} s of one processor", f"{each * 1e6:.2f} µs a record"),
        ("requests of a part", f"{gets * scale / PAPER_PARTS:,.0f} get, {puts * scale / PAPER_PARTS:,.0f} put", ""),
        ("plan", f"{plan.cpu * scale:,.0f} s", "by the number of ranges"),
        ("publish", f"{publish.cpu * scale:,.0f} s", "by the number of ranges"),
        ("metaranges in memory, in each step", f"{metaranges:,.0f} MB", f"3 × {ranges * scale:,.0f} ranges"),
        ("results of all parts", f"{stored * scale / 1e6:,.0f} MB", "read by publish"),
        ("all of it, 1,000 parts at once", f"{part + ends:,.0f} s", ""),
        ("all of it, 40 at once", f"{part * PAPER_PARTS / 40 + ends:,.0f} s", "an inline map"),
        ("largest payload", f"{payload:,} B", "the numbers of the parts"),
    ]
    print(f"On paper: {PAPER_OBJECTS:,} objects, {PAPER_CHANGES:,} changes on each side, {PAPER_PARTS:,} parts.")
    print(
        f"Here every {objects // changes}th object is changed on a side, there every {PAPER_OBJECTS // PAPER_CHANGES}th.\n"
    )
    print("| what | figure | from |")
    print("|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def run(folder: Path, name: str, parts: int) -> Measured:
    """A step in a process of its own."""
    command = [sys.executable, "-m", "bench.operations", "--step", name, "--folder", str(folder), "--parts", str(parts)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(answer.stdout, type=Measured)


def step(folder: Path, name: str, parts: int) -> Measured:
    """What such a process does."""
    tables = CountingTables(SqliteTables(folder / "lake" / "tables.sqlite", create=False))
    counted: list[CountingObjects] = []

    def objects(namespace: str) -> Objects:
        counted.append(CountingObjects(folder_store(folder / "lake", namespace)))
        return counted[-1]

    lake = Lake(tables, objects, trees=TreeSettings(memory=256 << 20))
    began, cpu = time.perf_counter(), time.process_time()
    # As many records in a part as make so many parts of all: what the plan is asked for, not what it finds.
    machine = Machine(lake, sizes=Sizes(records=1, parts=parts))
    verb, _, number = name.partition(":")
    records = 0
    if verb == "plan":
        sent: Any = machine.plan(TASK)
    elif verb == "alone":
        sent = lake.repository("bench").merge("dev", "alone").id
    elif verb == "part":
        sent = machine.part(TASK, int(number))
        records = sent.records
    else:
        sent = machine.publish(TASK)
    calls = {method: count for one in counted for method, count in one.calls.items()}
    return Measured(
        time.process_time() - cpu,
        time.perf_counter() - began,
        peak(),
        calls,
        tables.requests,
        sum(one.bytes_read for one in counted),
        len(msgspec.json.encode(sent)),
        records,
    )


def peak() -> int:
    """Peak memory of this process since its program began, MB. (``getrusage`` would also know what it was forked from.)"""
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(found.split()[1]) // 1024


def parts_of(folder: Path) -> int:
    """Into how many parts the plan has cut the work."""
    objects = folder_store(folder / "lake", NAMESPACE)
    return len(PartFiles(objects, TASK.operation).expect_plan(0).parts)


def prepare(folder: Path, keys: Path, count: int, changes: int) -> None:
    """A lake with branches main, dev and (as main) alone, and an operation that nobody works on yet."""
    with create_folder_lake(folder) as lake:
        repository = lake.create_repository("bench", NAMESPACE)
        split, store = repository.repository.split, repository._trees.empty().store
        base = build_parallel(store, split, [partial(records, keys, start, stop) for start, stop in cut_file(keys, 16)])
        repository.commit_metarange("main", base.save(), "base")
        repository.create_branch("dev", "main")
        every = max(2, count // changes)
        for branch, first in (("dev", 0), ("main", every // 2)):
            changed = apply(base, spread(keys, first, every, branch), split)
            repository.commit_metarange(branch, changed.save(), branch)
        repository.create_branch("alone", "main")
        write_down(lake, repository)


def write_down(lake: Lake, repository: OpenRepository) -> None:
    """An operation that waits to be worked on."""
    source = repository.commit_of("dev").id
    request = msgspec.json.encode(pinned_merge(source="dev", source_id=source, destination="main"))
    now = time.time()
    operation = Operation(TASK.operation, MERGE, request, OperationState.RUNNING, now, now, attempt=1, branch="main")
    Operations(lake.tables, repository.repository.uid).add(replace(operation, lease=now + LEASE))


def opened(folder: Path) -> Lake:
    """The lake as a function sees it: one processor, nothing near."""
    tables = SqliteTables(folder / "tables.sqlite", create=False)
    return Lake(
        tables,
        lambda namespace: folder_store(folder, namespace),
        trees=TreeSettings(memory=256 << 20),
        surroundings=Surroundings(close=tables.close),
    )


def spread(keys: Path, first: int, every: int, what: str) -> Iterator[tuple[bytes, bytes | None]]:
    """A change of every so many objects."""
    codec = RecordCodec(NAMESPACE)
    version = 1 + len(what)
    for key in islice(read(keys), first, None, every):
        yield key, codec.encode(entry(key, version))


if __name__ == "__main__":
    main()
