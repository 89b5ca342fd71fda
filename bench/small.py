"""``python -m bench.small``: how long a commit of one object takes on an empty branch of a folder lake, and a merge into a
destination that has not changed, in a process that is warm; and the first of each in a process that begins as a worker of the
server.

With ``--before FOLDER``, a checkout of another state of the code, a process of each state is asked by turns, so that both see the
same machine: ratios of the two travel, milliseconds do not.
"""

import argparse
import os
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.lines import Line
    from graveler.lake.repository import OpenRepository

PACKAGE = "layers/graveler/python"
VERBS = ("commit", "merge")
WHAT = {"commit": "commit of one object on an empty branch, warm", "merge": "merge into an unchanged destination, warm"}
BEFORE, NOW = "before", "now"
OF_BEFORE = {"commit": 0.5, "merge": 0.4}
"""What a call may take, as a multiple of what it took at the commit that these goals are from."""
FIRST_MS = 2.0
"""So much longer than the second may a process's first merge take."""
HERE = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure, and print a table."""
    arguments = parser().parse_args()
    if arguments.work:
        work(arguments.work)
        return
    # Imported here: the processes of another state of the code run this file, and not that state's bench.
    from bench.lines import table

    print(table(lines(arguments)))


def parser() -> argparse.ArgumentParser:
    """What can be chosen."""
    made = argparse.ArgumentParser(prog="python -m bench.small", description=__doc__)
    made.add_argument("--before", "--checkout", dest="checkout", type=Path, help="a checkout to compare with")
    made.add_argument("--calls", type=int, default=200, help="of each verb (default %(default)s)")
    made.add_argument("--starts", type=int, default=7, help="processes for the first call (default %(default)s)")
    made.add_argument("--in", dest="where", type=Path, help="folder for the lakes; else the one for temporary files")
    made.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    return made


def lines(arguments: argparse.Namespace) -> "list[Line]":
    """A line for each verb."""
    states = {NOW: HERE} if arguments.checkout is None else {BEFORE: arguments.checkout.resolve(), NOW: HERE}
    folder = Path(mkdtemp(prefix="graveler-bench-", dir=arguments.where))
    try:
        firsts: dict[tuple[str, str], list[float]] = {}
        seconds: dict[tuple[str, str], list[float]] = {}
        for _ in range(arguments.starts):
            for name, place in states.items():
                for verb in VERBS:
                    with Asked(place, folder / name) as asked:
                        firsts.setdefault((verb, name), []).append(asked.for_a(verb)[0])
                        seconds.setdefault((verb, name), []).append(asked.for_a(verb)[0])
        warm: dict[tuple[str, str], list[tuple[float, float]]] = {}
        processes = {name: Asked(place, folder / name) for name, place in states.items()}
        for verb in VERBS:
            for number in range(arguments.calls + 5):
                for name, asked in processes.items():
                    took = asked.for_a(verb)
                    if number >= 5:
                        warm.setdefault((verb, name), []).append(took)
        for asked in processes.values():
            asked.close()
    finally:
        rmtree(folder)
    return [
        line(verb, warm[verb, NOW], warm.get((verb, BEFORE), []), firsts[verb, NOW], seconds[verb, NOW])
        for verb in VERBS
    ]


def line(
    verb: str,
    warm: list[tuple[float, float]],
    before: list[tuple[float, float]],
    firsts: list[float],
    seconds: list[float],
) -> "Line":
    """A verb's warm calls, beside those before, and the first two calls of a process."""
    from bench.lines import Goal, Line, show

    walls = sorted(wall for wall, _ in warm)
    middle, earlier = median(walls), median(wall for wall, _ in before) if before else None
    first, second = median(firsts), median(seconds)
    goals = [Goal("time ÷ before", middle / earlier if earlier else None, OF_BEFORE[verb])]
    if verb == "merge":
        goals.append(Goal("ms of the first beyond the second", (first - second) * 1e3, FIRST_MS))
    return Line(
        what=WHAT[verb],
        measured=show(middle),
        rate=f"{1 / middle:,.0f}",
        spread=f"90 % {show(walls[len(walls) * 9 // 10])}",
        beside=f"before: {show(earlier)}" if earlier else "",
        goals=tuple(goals),
        notes=f"{show(median(cpu for _, cpu in warm))} of CPU; the first of a process {show(first)}, the second {show(second)}",
    )


class Asked:
    """A process of one state of the code, with a lake of its own in ``folder``, which is made if need be."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--work", str(folder)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(checkout / PACKAGE)},
        )

    def __enter__(self) -> "Asked":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def for_a(self, verb: str) -> tuple[float, float]:
        """Seconds that one call takes, and its seconds of CPU."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(verb + "\n")
        self._process.stdin.flush()
        wall, cpu = self._process.stdout.readline().split()
        return float(wall), float(cpu)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def work(folder: Path) -> None:
    """Make the calls that are asked for by lines of the standard input."""
    from graveler.lake.opening.folder import create_folder_lake, open_folder_lake

    if find_spec("graveler.lake.all_verbs") is not None:  # as a worker of the server begins
        import_module("graveler.lake.all_verbs").load_verbs()
    if not folder.exists():
        create_folder_lake(folder).create_repository("bench", "local://bench")
    repository = open_folder_lake(folder).repository("bench")
    for line in sys.stdin:
        verb = line.strip()
        name = f"{verb}-{time.time_ns()}"
        prepare(repository, verb, name)
        wall, cpu = time.perf_counter(), time.process_time()
        if verb == "commit":
            repository.commit(name, "one object")
        else:
            repository.merge(f"{name}-source", name)
        print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)


def prepare(repository: "OpenRepository", verb: str, name: str) -> None:
    """An empty branch on which one object is staged; of a merge a source of one commit more than its destination."""
    from graveler.model import ObjectEntry

    repository.create_branch(name, "main")
    branch = name if verb == "commit" else f"{name}-source"
    if verb == "merge":
        repository.create_branch(branch, "main")
    repository.link(branch, ObjectEntry("k", f"s3://elsewhere/{name}", 1000, name, 0))
    if verb == "merge":
        repository.commit(branch, "one object")


if __name__ == "__main__":
    main()
