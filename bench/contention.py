"""``python -m bench.contention``: many at once on one branch of a folder lake, as threads of one process or as processes: how
long each of their calls takes, from its beginning to its answer, and how many there are in a second.

Merges bring a branch of one commit each. Imports replace a prefix of their own by one object. Committers stage one object and
commit; a commit that finds its object in another one has ended too. What is staged refuses a merge or an import, which is an
answer and no wait: in ``mixed`` such calls are made again, each is a call of its own, and the table says how many were refused.
The median is that of the calls that were done. Beside them stand the same calls, one after the other: of one process beside
threads, and beside processes of as many processes, which take turns. Each worker makes one call to a branch of its own before,
so that what a process does once (loading code, opening the table) is on neither side.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from threading import Barrier, Lock, Thread
from typing import Any, TypeAlias

from bench.lines import Goal, Line, table
from graveler.errors import BusyError, DirtyBranchError, NoChangesError
from graveler.lake.importing.importer import ImportSource
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry

NAME = "bench"
Call: TypeAlias = Callable[..., None]
"""Makes the call of this number of a worker to a repository, on a branch (main)."""
KINDS = ("merge", "commit", "import")
MIXES = (*KINDS, "mixed")


def main() -> None:
    """Measure, and print a table."""
    arguments = parser().parse_args()
    if arguments.work:
        folder, kind, number = arguments.work
        serve(Path(folder), kind, int(number))
        return
    print(table(lines(arguments)))


def parser() -> argparse.ArgumentParser:
    """What can be chosen."""
    made = argparse.ArgumentParser(prog="python -m bench.contention", description=__doc__)
    made.add_argument("--kinds", default=",".join(MIXES), help="which, with commas between (default %(default)s)")
    made.add_argument("--workers", default="8,16", help="how many at once (default %(default)s)")
    made.add_argument("--as", dest="how", default="threads,processes", help="default %(default)s")
    made.add_argument("--calls", type=int, default=20, help="of each worker (default %(default)s)")
    made.add_argument("--objects", type=int, default=20_000, help="in the lake before (default %(default)s)")
    made.add_argument("--work", nargs=3, metavar=("FOLDER", "KIND", "NUMBER"), help=argparse.SUPPRESS)
    return made


def lines(arguments: argparse.Namespace) -> list[Line]:
    """A line for each kind, number of workers and way to be many."""
    found = []
    for kind, workers in product(arguments.kinds.split(","), map(int, arguments.workers.split(","))):
        for how in arguments.how.split(","):
            alone = measure(how, kind, workers, arguments, in_turn=True)
            found.append(line(how, kind, workers, measure(how, kind, workers, arguments), alone))
            print(f"{found[-1].what}: {found[-1].measured}", file=sys.stderr)
    return found


def measure(
    how: str, kind: str, workers: int, arguments: argparse.Namespace, *, in_turn: bool = False
) -> list[tuple[float, float, str]]:
    """Beginning, end and outcome of each call of all workers."""
    folder = Path(mkdtemp(prefix="graveler-bench-"))
    try:
        prepare(folder / "lake", kind, workers, arguments.calls, arguments.objects)
        if how == "processes":
            return by_processes(folder / "lake", kind, workers, arguments.calls, in_turn=in_turn)
        return by_threads(folder / "lake", kind, workers, arguments.calls, in_turn=in_turn)
    finally:
        rmtree(folder)


def prepare(folder: Path, kind: str, workers: int, calls: int, objects: int) -> None:
    """The lake, and a branch for each merge."""
    repository = create_folder_lake(folder).create_repository(NAME, "local://bench")
    encode = repository.codec.encode
    records = [(path.encode(), encode(entry(path))) for path in (f"before/{n:09}" for n in range(objects))]
    repository.import_sources("main", [ImportSource(b"before/", True, lambda: iter(records))], "before")
    for number in range(workers):
        for call in range(calls if kind_of(kind, number) == "merge" else 0):
            repository.create_branch(f"side-{number}-{call}", "main")
            repository.link(
                f"side-{number}-{call}", entry(f"before/{(number * calls + call) * 37 % objects:09}-merged")
            )
            repository.commit(f"side-{number}-{call}", "side")


def by_threads(
    folder: Path, kind: str, workers: int, calls: int, *, in_turn: bool = False
) -> list[tuple[float, float, str]]:
    """What the workers do as threads of this process; ``in_turn``, in one of them."""
    repository = open_folder_lake(folder).repository(NAME)
    for number in range(workers):
        warm_up(repository, kind, number)
    found: list[tuple[float, float, str]] = []
    if in_turn:
        for call, number in product(range(calls), range(workers)):
            found += until_done(CALLS[kind_of(kind, number)], repository, number, call)
        return found
    barrier = Barrier(workers)
    lock = Lock()

    def run(number: int) -> None:
        barrier.wait()
        for call in range(calls):
            mine = until_done(CALLS[kind_of(kind, number)], repository, number, call)
            with lock:
                found.extend(mine)

    threads = [Thread(target=run, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def by_processes(
    folder: Path, kind: str, workers: int, calls: int, *, in_turn: bool = False
) -> list[tuple[float, float, str]]:
    """What the workers do as a process each; ``in_turn``, one call of one of them at a time."""
    command = [sys.executable, "-m", "bench.contention", "--work", str(folder), kind]
    started = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(workers)
    ]
    try:
        for process in started:
            answer(process)
        found: list[tuple[float, float, str]] = []
        if in_turn:
            for call, process in product(range(calls), started):
                ask(process, [call])
                found += map(tuple, answer(process))
            return found
        for process in started:
            ask(process, [*range(calls)])
        return [tuple(each) for process in started for each in answer(process)]
    finally:
        for process in started:
            process.communicate()


def ask(process: subprocess.Popen[str], calls: list[int]) -> None:
    """Have a worker make these calls."""
    assert process.stdin is not None
    process.stdin.write(f"{json.dumps(calls)}\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> list[list[Any]]:
    """What came of them; of nothing, once it is ready."""
    assert process.stdout is not None
    made: list[list[Any]] = json.loads(process.stdout.readline())
    return made


def serve(folder: Path, kind: str, number: int) -> None:
    """A worker that is a process: makes the calls that each line of its input names."""
    repository = open_folder_lake(folder).repository(NAME)
    warm_up(repository, kind, number)
    print("[]", flush=True)
    for line in sys.stdin:
        calls = json.loads(line)
        made = [each for call in calls for each in until_done(CALLS[kind_of(kind, number)], repository, number, call)]
        print(json.dumps(made), flush=True)


def warm_up(repository: OpenRepository, kind: str, number: int) -> None:
    """Make one of a worker's calls on a branch of its own."""
    repository.create_branch(f"warm-{number}", "main")
    CALLS[kind_of(kind, number)](repository, number, 0, f"warm-{number}")


def until_done(do: Call, repository: OpenRepository, number: int, call: int) -> list[tuple[float, float, str]]:
    """Make a call until it is not refused; each time that it was made."""
    found: list[tuple[float, float, str]] = []
    while not found or found[-1][2] != "done":
        begin = time.time()
        outcome = tried(do, repository, number, call)
        found.append((begin, time.time(), outcome))
    return found


def tried(do: Call, repository: OpenRepository, number: int, call: int) -> str:
    """Make a call; what came of it."""
    try:
        do(repository, number, call)
    except NoChangesError:
        return "done"
    except DirtyBranchError:
        return "refused"
    except BusyError:
        return "busy"
    return "done"


def kind_of(kind: str, number: int) -> str:
    """What a worker does."""
    return KINDS[number % len(KINDS)] if kind == "mixed" else kind


def entry(path: str) -> ObjectEntry:
    """An object that is somewhere else."""
    return ObjectEntry(path, f"s3://elsewhere/{path}", 1000, f"{hash(path) & (1 << 128) - 1:032x}", 0)


def merge(repository: OpenRepository, number: int, call: int, branch: str = "main") -> None:
    """One merge."""
    repository.merge(f"side-{number}-{call}", branch)


def commit(repository: OpenRepository, number: int, call: int, branch: str = "main") -> None:
    """One staged object, and its commit."""
    repository.link(branch, entry(f"committed/{number:03}/{call:06}"))
    repository.commit(branch, "committed")


def take(repository: OpenRepository, number: int, call: int, branch: str = "main") -> None:
    """One import."""
    path = f"imported/{number:03}/{call:06}"
    record = repository.codec.encode(entry(path))
    source = ImportSource(f"imported/{number:03}/".encode(), True, lambda: iter([(path.encode(), record)]))
    repository.import_sources(branch, [source], "imported")


CALLS: dict[str, Call] = {"merge": merge, "commit": commit, "import": take}


def line(
    how: str, kind: str, workers: int, found: list[tuple[float, float, str]], alone: list[tuple[float, float, str]]
) -> Line:
    """A row of the table."""
    ended = [outcome for _, _, outcome in found]
    seconds = sorted(end - begin for begin, end, _ in found)
    # What is refused is refused at once, and would make the median nothing.
    middle, worst = median(end - begin for begin, end, outcome in found if outcome == "done"), seconds[-1]
    late = seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)]
    return Line(
        what=f"{workers} {how} at once: {kind}",
        measured=f"{middle * 1000:.0f} ms",
        rate=f"{a_second(found):.1f}",
        spread=f"p99 {late * 1000:.0f} ms, worst {worst * 1000:.0f}",
        beside=f"one after the other: {median(end - begin for begin, end, _ in alone) * 1000:.0f} ms, {a_second(alone):.1f}/s",
        goals=(
            Goal("worst s", worst, round(4 * middle + 1, 2)),
            Goal("rate ÷ one after the other", a_second(found) / a_second(alone), 1, least=True),
        ),
        notes=f"{ended.count('refused')} refused, {ended.count('busy')} busy",
    )


def a_second(found: list[tuple[float, float, str]]) -> float:
    """Calls that were done in a second."""
    whole = max(end for _, end, _ in found) - min(begin for begin, _, _ in found)
    return sum(outcome == "done" for _, _, outcome in found) / whole


if __name__ == "__main__":
    main()
