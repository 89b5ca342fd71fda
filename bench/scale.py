"""``python -m bench.scale``: what verbs cost in lakes of 1.5 million to a billion objects: CPU, memory, and bytes of metaranges.

A lake is a folder (in memory, where the system has such a one) with one real range; the descriptions of its other ranges are made
up, which no verb notices that does not open them. For warm rows a process is asked again and again; with ``--bare`` its table and
objects are in its own memory, so that what grows with the lake stands out. For the other rows a new process does one thing, and
counts from when its modules are loaded. Times are CPU time of the process, so that other work on the machine matters little.

With ``--checkout FOLDER``, another state of the code, a process of each state is asked by turns. ``--write`` keeps the figures,
from which :mod:`bench.chart` draws.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import md5
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from shutil import copytree, rmtree
from statistics import median
from tempfile import mkdtemp
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from bench.lines import Goal, Line
    from graveler.lake.lake import Lake
    from graveler.lake.repository import OpenRepository
    from graveler.model import ObjectEntry

PACKAGE = "layers/graveler/python"
HERE = Path(__file__).resolve().parent.parent
MEMORY = Path("/dev/shm")
SIZES = (1_500_000, 10_000_000, 100_000_000, 1_000_000_000)
BEFORE, NOW = "before", "now"
WARM_UP = 2
"""Calls of a verb in a process that are not counted."""

REPOSITORY, NAMESPACE = "bench", "local://bench"
RECORDS = 9_914
"""Of the real range, which is the first that a lake of :func:`path` has: a test holds that it ends there."""
MADE_RECORDS = (9_300, 10_000)
"""The fewest and the most of a made range."""
STATS = 1_000
"""Objects that a warm process looks up for one figure."""
COMMITS = 10
LEFT_CHANGED, RIGHT_CHANGED = 100, 5_000
"""Objects of the real range: the one that one side of a merge changes, and the first that others do."""


def main() -> None:
    """Measure, and print a table."""
    arguments = parser().parse_args()
    if arguments.work:
        work(Worker(arguments.objects[0], arguments.work, bare=arguments.bare))
        return
    # Imported here: the processes of another state of the code run this file, and not that state's bench.
    from bench import results
    from bench.lines import HEAD

    measured = Measured()
    lines = []
    for line in measure(arguments, measured):
        lines.append(line)
        print(line, file=sys.stderr, flush=True)
    command = "python -m bench.scale" + " --bare" * arguments.bare + " --checkout BEFORE" * bool(arguments.checkout)
    title = results.title(command)
    report = "\n".join([results.about(), "", HEAD, *map(str, lines), *measured.remarks, ""])
    print(f"## {title}\n\n{report}")
    if arguments.write:
        keep(title, report, measured, arguments.checkout)


def parser() -> argparse.ArgumentParser:
    """What can be chosen."""
    made = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    made.add_argument("--objects", type=int, nargs="+", default=SIZES, help="of each lake (default %(default)s)")
    made.add_argument("--before", "--checkout", dest="checkout", type=Path, help="a checkout to compare with")
    made.add_argument("--calls", type=int, default=9, help="of each verb in a warm process (default %(default)s)")
    made.add_argument("--starts", type=int, default=5, help="of each cold process (default %(default)s)")
    made.add_argument("--in", dest="where", type=Path, help=f"folder for the lakes; else {MEMORY}, if it is there")
    made.add_argument(
        "--bare", action="store_true", help="without the cost of a folder's table and files, in warm rows"
    )
    made.add_argument("--write", action="store_true", help="keep the figures, the tables and the chart")
    made.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    return made


# The process that measures


def path(number: int, table: str = "invoices") -> str:
    """The path of an object, as Spark calls its files. The real range has those of the table in the middle, from 0 on."""
    unique = UUID(bytes=md5(f"{table} {number}".encode(), usedforsecurity=False).digest())
    return f"warehouse/{table}/day={number // 1000:06}/part-{number % 1000:05}-{unique}-c000.snappy.parquet"


def entry(number: int, version: int = 0) -> "ObjectEntry":
    """An object of the real range. Each version has other contents."""
    from graveler.model import ObjectEntry

    checksum = f"{Random(number << 20 | version).getrandbits(128):032x}"
    return ObjectEntry(path(number), f"s3://warehouse/{checksum}", 1_000_000, checksum, 1_700_000_000)


def fill(repository: "OpenRepository", objects: int) -> int:
    """Make so many objects the first commit of ``main``, and return the size of the metarange in bytes."""
    from graveler.model import SplitParameters
    from graveler.tree.range_info import RangeInfo
    from graveler.tree.record import RecordCodec
    from graveler.tree.tree import Tree
    from graveler.tree.writer import build

    split, chance, trees = SplitParameters(), Random(1), repository.parts.trees
    store, encode = trees.empty().store, RecordCodec(NAMESPACE).encode
    real = build(store, split, ((path(number).encode(), encode(entry(number))) for number in range(RECORDS)))
    lasts, packed = list[bytes](), list[bytes]()

    def make(table: str, records: int) -> None:
        first = 0
        while first < records:
            count = chance.randint(*MADE_RECORDS)
            begin, last = (path(number, table).encode() for number in (first, first + count - 1))
            # As long as the rule allows at most, so that it ends there whatever its last key is.
            made = RangeInfo(
                last, chance.randbytes(32), begin, count, split.max_size, count * 1_000_000, chance.randbytes(16)
            )
            lasts.append(last)
            packed.append(made.pack())
            first += count

    make("early", (objects - RECORDS) // 2)
    lasts += real.lasts
    packed += real.packed
    make("late", (objects - RECORDS) // 2)
    tree = Tree(store, lasts, packed, split)
    name = trees.save(tree)
    repository.commit_metarange("main", name, "made")
    return len(tree.file())


class Worker:
    """What a process answers about a lake of so many objects in ``folder``; ``bare``: a warm process about one in its memory."""

    def __init__(self, objects: int, folder: Path, *, bare: bool = False) -> None:
        self._objects = objects
        self._folder = folder
        self._bare = bare
        self._version = 0

    def answer(self, request: str) -> Mapping[str, float]:
        """What was measured: seconds of CPU, bytes."""
        kind, _, verb = request.partition(" ")
        if kind == "make":
            return {"metarange": self.make()}
        if kind == "warm":
            return {"cpu": getattr(self, f"warm_{verb}")()}
        return self.cold(verb)

    def make(self) -> int:
        """Make the lake in the folder, and stage a change. The size of its metarange."""
        with create_lake(self._folder) as lake:
            repository = lake.create_repository(REPOSITORY, NAMESPACE)
            size = fill(repository, self._objects)
            repository.link("main", entry(RIGHT_CHANGED, 1))
        return size

    def cold(self, verb: str) -> Mapping[str, float]:
        """Open the lake in the folder and do something there, for the first time in this process."""
        open_lake = load()
        read = count_metaranges()
        peak = peak_memory()
        cpu = time.process_time()
        repository = open_lake(self._folder).repository(REPOSITORY)
        if verb == "stat":
            repository.stat("main", path(LEFT_CHANGED))
        else:
            repository.commit("main", "cold")
        cpu = time.process_time() - cpu
        if verb == "commits":
            for number in range(1, COMMITS):
                repository.link("main", entry(RIGHT_CHANGED + number, 1))
                repository.commit("main", "and again")
        return {"cpu": cpu, "memory": peak_memory() - peak, "read": sum(read)}

    @cached_property
    def _repository(self) -> "OpenRepository":
        """That of a new lake: ``base`` is as ``main`` was at first, ``left`` has a change of its own."""
        load()
        lake = bare_lake() if self._bare else create_lake(self._folder)
        repository = lake.create_repository(REPOSITORY, NAMESPACE)
        fill(repository, self._objects)
        repository.create_branch("base", "main")
        repository.create_branch("left", "base")
        repository.link("left", entry(LEFT_CHANGED, 1))
        repository.commit("left", "left")
        return repository

    def _change(self, branch: str) -> None:
        """Stage a change of one object, another one each time."""
        self._version += 1
        self._repository.link(branch, entry(RIGHT_CHANGED + self._version, self._version))

    def warm_commit(self) -> float:
        """Commit a change of one object."""
        self._change("main")
        return cpu_of(partial(self._repository.commit, "main", "one change"))

    def warm_merge(self) -> float:
        """Merge a change of one object into a branch that has changed another one since."""
        repository = self._repository
        source, destination = f"source-{self._version}", f"destination-{self._version}"
        repository.create_branch(source, "base")
        repository.create_branch(destination, "left")
        self._change(source)
        repository.commit(source, "right")
        return cpu_of(partial(repository.merge, source, destination))

    def warm_diff(self) -> float:
        """Compare two commits that differ in one object."""
        return cpu_of(partial(self._repository.diff, "base", "left"))

    def warm_stat(self) -> float:
        """Look up an object on a branch."""
        stat = self._repository.stat
        paths = [path(number) for number in Random(2).sample(range(RECORDS), STATS)]
        return cpu_of(lambda: [stat("main", each) for each in paths]) / STATS

    def warm_page(self) -> float:
        """List a thousand objects somewhere in the real range."""
        self._version += 1
        after = path(Random(self._version).randrange(RECORDS - 1_000))
        return cpu_of(partial(self._repository.list_objects, "main", after=after, amount=1_000))


def load() -> "Callable[[Path], Lake]":
    """Load the modules that verbs need, as a worker of the server begins; what opens a lake in a folder."""
    from graveler.lake.opening.folder import open_folder_lake

    if find_spec("graveler.lake.all_verbs") is not None:
        import_module("graveler.lake.all_verbs").load_verbs()
    return open_folder_lake


def create_lake(folder: Path) -> "Lake":
    """An empty lake in a folder."""
    from graveler.lake.opening.folder import create_folder_lake

    return create_folder_lake(folder)


def bare_lake() -> "Lake":
    """An empty lake in the memory of this process."""
    from graveler.lake.lake import Lake
    from graveler.storage.objects.memory import MemoryObjects
    from graveler.storage.tables.memory import MemoryTables

    objects = MemoryObjects(NAMESPACE)
    return Lake(MemoryTables(), lambda _: objects)


def cpu_of(call: Callable[[], object]) -> float:
    """Seconds of CPU, of all threads."""
    began = time.process_time()
    call()
    return time.process_time() - began


def peak_memory() -> int:
    """Bytes of this process at its largest. (``ru_maxrss`` would be those of the process that started it, if it was larger.)"""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found, "the system does not tell the peak of memory"
    return int(found.group(1)) * 1024


def count_metaranges() -> list[int]:
    """A list to which the size of whatever is read of metaranges is added, from now on."""
    from graveler.storage.objects.folder import FolderObjects

    sizes: list[int] = []
    get, get_range = FolderObjects.get, FolderObjects.get_range

    def counted(key: str, data: bytes) -> bytes:
        if "/metaranges/" in key:
            sizes.append(len(data))
        return data

    FolderObjects.get = lambda self, key: counted(key, get(self, key))  # type: ignore[method-assign]
    FolderObjects.get_range = lambda self, key, start, length: counted(  # type: ignore[method-assign]
        key, get_range(self, key, start, length)
    )
    return sizes


def work(worker: Worker) -> None:
    """Answer requests, which are lines of the standard input."""
    for line in sys.stdin:
        answer: Mapping[str, float | str]
        try:
            answer = worker.answer(line.strip())
        except (AttributeError, ImportError, TypeError) as error:  # another state of the code has no such thing
            answer = {"lacks": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


# The process that asks


class LackingError(Exception):
    """The state of the code has not what a row takes."""


class Asked:
    """A process of the state of the code in ``checkout``. :class:`LackingError` for what that cannot do."""

    def __init__(self, checkout: Path, objects: int, folder: Path, *, bare: bool = False) -> None:
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--work", str(folder)]
        self._process = subprocess.Popen(
            [*command, "--objects", str(objects), *(["--bare"] if bare else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(checkout / PACKAGE)},
        )

    def __enter__(self) -> "Asked":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, request: str) -> dict[str, float]:
        """What the process measured."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "lacks" in answer:
            raise LackingError(answer["lacks"])
        return {what: float(figure) for what, figure in answer.items()}


@dataclass
class Measured:
    """All figures of a run, in seconds and bytes: by row, state and number of objects."""

    figures: dict[tuple[str, str, int], list[float]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, row: str, state: str, objects: int, value: float) -> None:
        self.figures.setdefault((row, state, objects), []).append(value)

    def median(self, row: str, state: str, objects: int) -> float | None:
        """None if it was not measured."""
        values = self.figures.get((row, state, objects))
        return median(values) if values else None

    def lacks(self, what: str, state: str, objects: int, error: LackingError) -> None:
        """Note what another state cannot do. This one has to be able to."""
        if state == NOW:
            raise SystemExit(f"bench: {what}: {error}")
        self.remarks.append(f"\nNot measured before: {what} at {objects:,} objects, since it lacks something: {error}.")


@dataclass(frozen=True)
class Row:
    """What is measured, how it is shown, and what it may be: as multiples of the smallest lake's, or in its unit."""

    title: str
    show: Callable[[float], str]
    multiples: Mapping[int, float] = field(default_factory=dict)
    most: Mapping[int, float] = field(default_factory=dict)
    unit: str = ""

    def goals(self, objects: int, value: float, ratio: float | None) -> "tuple[Goal, ...]":
        """Those of a lake of this size."""
        from bench.lines import Goal

        goals = []
        if objects in self.multiples:
            goals.append(Goal("× the smallest lake's", ratio, self.multiples[objects]))
        if objects in self.most:
            goals.append(Goal(self.unit, value / _UNITS[self.unit], self.most[objects]))
        return tuple(goals)


_UNITS = {"seconds": 1, "KiB": 1 << 10, "MB": 1e6}


def _seconds(value: float) -> str:
    from bench.chart import shown

    return shown(value)


def _size(value: float) -> str:
    return f"{value / 1e3:.3g} KB" if value < 1e6 else f"{value / 1e6:.3g} MB"


LARGE, BILLION = SIZES[2], SIZES[3]
ROWS = {
    "commit": Row("commit of 1 change, warm", _seconds, {LARGE: 1.8, BILLION: 8}),
    "merge": Row("merge of 1 change against 1, warm", _seconds, {LARGE: 2.3, BILLION: 12}),
    "diff": Row("diff of 1 change, warm", _seconds, {LARGE: 2, BILLION: 10}),
    "stat": Row("stat, warm", _seconds),
    "page": Row("page of 1,000, warm", _seconds),
    "cold commit": Row("commit of 1 change, cold process, empty caches", _seconds, most={BILLION: 0.7}, unit="seconds"),
    "noted commit": Row("commit of 1 change, cold process, with notes", _seconds, most={BILLION: 0.4}, unit="seconds"),
    "cold stat": Row("stat, cold process", _seconds, {BILLION: 2}),
    "read": Row("bytes of metaranges, stat in a cold process", _size, most={BILLION: 256}, unit="KiB"),
    "memory": Row("memory of a cold commit", _size, most={BILLION: 130}, unit="MB"),
    "ten": Row(f"memory of {COMMITS} commits", _size, most={BILLION: 200}, unit="MB"),
    "metarange": Row("size of the metarange", _size),
}
WARM = ("commit", "merge", "diff", "stat", "page")


def measure(arguments: argparse.Namespace, measured: Measured) -> "Iterator[Line]":
    """Measure one lake after another, and yield the lines of each."""
    states = {NOW: HERE} if arguments.checkout is None else {BEFORE: arguments.checkout.resolve(), NOW: HERE}
    where = arguments.where or (MEMORY if MEMORY.is_dir() else None)
    smallest = min(arguments.objects)
    for objects in sorted(arguments.objects):
        folder = Path(mkdtemp(prefix="graveler-bench-", dir=where))
        try:
            warm(states, objects, arguments.calls, measured, folder, bare=arguments.bare)
            cold(states, objects, arguments.starts, measured, folder)
        finally:
            rmtree(folder)
        yield from (line(row, objects, smallest, measured) for row in ROWS)


def warm(states: Mapping[str, Path], objects: int, calls: int, measured: Measured, folder: Path, *, bare: bool) -> None:
    """Ask a process of each state for each verb, by turns."""
    asked = {state: Asked(checkout, objects, folder / f"warm-{state}", bare=bare) for state, checkout in states.items()}
    for verb in WARM:
        able = list(asked)
        for number in range(calls + WARM_UP):
            for state in tuple(able):
                try:
                    cpu = asked[state].ask(f"warm {verb}")["cpu"]
                except LackingError as error:
                    measured.lacks(ROWS[verb].title, state, objects, error)
                    able.remove(state)
                    continue
                if number >= WARM_UP:
                    measured.add(verb, state, objects, cpu)
    for state, process in asked.items():
        process.__exit__()
        rmtree(folder / f"warm-{state}", ignore_errors=True)  # there is none of a bare lake


def cold(states: Mapping[str, Path], objects: int, starts: int, measured: Measured, folder: Path) -> None:
    """Begin processes of each state, by turns, each with a copy of a lake that its state has made."""
    for state, checkout in states.items():
        with Asked(checkout, objects, folder / state) as asked:
            try:
                measured.add("metarange", state, objects, asked.ask("make")["metarange"])
            except LackingError as error:
                measured.lacks("a lake in a folder", state, objects, error)
    rows = {
        "cold commit": {"cpu": "cold commit"},
        "noted commit": {"cpu": "noted commit", "memory": "memory"},
        "cold stat": {"cpu": "cold stat", "read": "read"},
        "ten commits": {"memory": "ten"},
    }
    """What is done, and the row of each figure of it."""
    for number in range(starts):
        for what, kept in rows.items():
            if what == "ten commits" and number >= max(1, starts // 2):
                continue
            for state in states:
                if measured.median("metarange", state, objects) is None:
                    continue
                copy = folder / "copy"
                copytree(folder / state, copy)
                if what == "cold commit":
                    rmtree(copy / "cache")
                try:
                    with Asked(states[state], objects, copy) as asked:
                        answer = asked.ask(f"cold {what.rpartition(' ')[2]}")
                    for figure, row in kept.items():
                        measured.add(row, state, objects, answer[figure])
                except LackingError as error:
                    measured.lacks(what, state, objects, error)
                finally:
                    rmtree(copy)


def line(name: str, objects: int, smallest: int, measured: Measured) -> "Line":
    """A row's line for a lake of this size."""
    from bench.lines import Line, digits

    row, values = ROWS[name], measured.figures[name, NOW, objects]
    value, least = median(values), measured.median(name, NOW, smallest)
    ratio = value / least if least else None
    before = measured.median(name, BEFORE, objects)
    beside = ""
    if before is not None:
        beside = f"before: {row.show(before)}" + (f", {digits(before / value)} × as much" if value else "")
    return Line(
        what=f"{row.title}, {objects:,} objects",
        measured=row.show(value),
        spread=f"{row.show(min(values))} to {row.show(max(values))}" if len(values) > 1 else "",
        beside=beside,
        goals=row.goals(objects, value, ratio),
        notes="" if ratio is None or objects == smallest else f"{digits(ratio)} × the smallest lake's",
    )


# What is kept


def keep(title: str, report: str, measured: Measured, checkout: Path | None) -> None:
    """Put the figures where the chart and the documents have them."""
    from bench import chart, results

    before = ""
    if checkout is not None:
        command = ["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"]
        before = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    figures = chart.Figures(title, before, {})
    for (name, state, objects), values in measured.figures.items():
        figures.medians.setdefault(state, {}).setdefault(name, {})[objects] = float(f"{median(values):.4g}")
    results.keep("python -m bench.scale", title, report)
    results.show(HERE / "docs" / "performance.md", "scale", summary(figures.medians))
    chart.keep(figures)


def summary(medians: Mapping[str, Mapping[str, Mapping[int, float]]]) -> str:
    """The table of ``docs/performance.md``: this state's figures, and in the last column those before of the largest lake."""
    sizes = sorted({size for figures in medians[NOW].values() for size in figures})
    columns = [(f"{size:,} objects", NOW, size) for size in sizes]
    if BEFORE in medians:
        columns.append(("before", BEFORE, sizes[-1]))
    lines = ["| | " + " | ".join(head for head, _, _ in columns) + " |", "|---|" + "--:|" * len(columns)]
    for name, row in ROWS.items():
        figures = [medians[state].get(name, {}).get(size) for _, state, size in columns]
        shown = ("" if figure is None else row.show(figure) for figure in figures)
        lines.append(f"| {row.title} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
