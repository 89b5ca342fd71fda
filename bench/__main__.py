"""``python -m bench``: measure, print a table, and (``--write``) put it into ``bench/RESULTS.md``.

The parts are the rows of the library (``library``), the server under load (``load``), also on AWS' stand-ins (``aws``), the
import of a folder (``folder``), pages of diffs (``pages``), small commits and merges (``small``) and many at once on one branch
(``contention``). All lines of a run are one table.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import Protocol

import msgspec
from msgspec import Struct

from bench import aws, contention, folder, load, object_rows, pages, results, rows, small  # noqa: F401 - object_rows registers its rows
from bench.lakes import keys_of, lake_copy, prepare
from bench.lines import HEAD, Goal, Line, show
from bench.servers import package_of

Part = Callable[[argparse.Namespace], Iterable[Line]]

ROUNDS = 2
"""Of a row's process, where it is compared with that of another checkout."""
AS_BEFORE = {
    "commit of 100,000 spread changes": 0.65,
    "diff, 100,000 spread changes": 0.65,
}
"""What rows may take, as multiples of what they took at the commit that their goals are from, which ``--checkout`` brings."""


class Said(Struct):
    """What the process of a row tells. Times in seconds, memory in bytes."""

    seconds: list[float]
    amount: int
    requests: dict[str, float]
    note: str
    rss: int
    workers: list[int]


def main() -> None:
    arguments = parser().parse_args()
    if arguments.one:
        print(msgspec.json.encode(measure(arguments)).decode())
        return
    chosen = arguments.parts.split(",")
    if unknown := set(chosen) - set(PARTS):
        raise SystemExit(f"bench: no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    keys_file = keys_of(arguments.keys, arguments.folder)
    made = prepare(arguments.folder / f"lake-{keys_file.stem}", keys_file)
    found: list[Line] = []
    for part in chosen:
        for line in PARTS[part](arguments):
            found.append(line)
            print(line, file=sys.stderr, flush=True)
    report = "\n".join([results.about(), f"{made}.", "", HEAD, *map(str, found), ""])
    title = results.title(command(arguments))
    print(f"## {title}\n\n{report}")
    if arguments.write:
        results.keep("python -m bench", title, report)
    if any(line.failed for line in found):
        raise SystemExit("bench: requests failed")


def parser() -> argparse.ArgumentParser:
    """What can be chosen."""
    made = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    made.add_argument("--keys", default="debian", help="debian (1.6 M paths), debian-all (5.6 M), or hive:COUNT")
    made.add_argument("--parts", default=",".join(PARTS), help="with commas between (default %(default)s)")
    made.add_argument(
        "--rows", default="", help="of the library, only rows whose title matches this regular expression"
    )
    made.add_argument(
        "--repeat", type=int, default=5, help="timed calls of each row of the library (default %(default)s)"
    )
    made.add_argument(
        "--checkout", type=Path, help="another checkout of graveler, which is measured beside where it can be"
    )
    made.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where lakes and keys go")
    made.add_argument(
        "--write", action="store_true", help="put the table into bench/RESULTS.md in place of the one before"
    )
    made.add_argument("--one", help=argparse.SUPPRESS)  # a row, in its own process
    return made


def library(arguments: argparse.Namespace) -> Iterator[Line]:
    """The rows of the library."""
    for title in rows.ROWS:
        if re.search(arguments.rows, title):
            ours: list[Said] = []
            before: list[Said] = []
            for _ in range(ROUNDS if arguments.checkout else 1):
                ours.append(in_process(arguments, title, None))
                if arguments.checkout:
                    before.append(in_process(arguments, title, arguments.checkout))
            yield library_line(title, ours, before)
    rmtree(arguments.folder / "run", ignore_errors=True)


def in_process(arguments: argparse.Namespace, title: str, checkout: Path | None) -> Said:
    """Run a row in a process of its own, on a copy of the lake. Another checkout's own bench runs it there, as the modules that
    this one imports may have other names there."""
    run = arguments.folder / "run"
    rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    lake_copy(arguments.folder / f"lake-{keys_of(arguments.keys, arguments.folder).stem}", run / "lake")
    command = [sys.executable, "-m", "bench", "--one", title, "--keys", arguments.keys]
    command += ["--folder", str(arguments.folder.resolve()), "--repeat", str(arguments.repeat)]
    environment = os.environ | ({"PYTHONPATH": str(package_of(checkout))} if checkout else {})
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=checkout)
    if done.returncode:
        raise SystemExit(f"bench: row {title!r} failed\n{done.stderr}")
    return msgspec.json.decode(done.stdout, type=Said)


class Module(Protocol):
    """A part of the bench that is a module of its own."""

    def parser(self) -> argparse.ArgumentParser: ...

    def lines(self, arguments: argparse.Namespace, /) -> list[Line]: ...


def part(module: Module, *shared: str) -> Part:
    """The lines of a module of the bench, with the named options of this run and else its own defaults."""

    def lines(arguments: argparse.Namespace) -> list[Line]:
        chosen = module.parser().parse_args([])
        for name in shared:
            setattr(chosen, name, getattr(arguments, name))
        return module.lines(chosen)

    return lines


def measure(arguments: argparse.Namespace) -> Said:
    """Run one row in this process."""
    run = rows.Run(arguments.folder / "run" / "lake", keys_of(arguments.keys, arguments.folder), arguments.repeat)
    rows.ROWS[arguments.one](run)
    requests = {name: count / len(run.seconds) for name, count in sorted(run.requests.items())}
    memory = rows.peak_memory()
    return Said(run.seconds, run.amount, requests, run.note, memory, list(run.workers.values()))


def library_line(title: str, ours: list[Said], before: list[Said]) -> Line:
    """One row of the table, from what its processes said."""
    last = ours[-1]
    seconds = [each for said in ours for each in said.seconds]
    middle = median(seconds)
    earlier = median(each for said in before for each in said.seconds) if before else None
    as_before = Goal("time ÷ before", middle / earlier if earlier else None, AS_BEFORE.get(title, 1))
    return Line(
        what=title,
        measured=show(middle),
        rate=f"{last.amount / middle:,.0f}",
        spread=f"{show(min(seconds))} to {show(max(seconds))}",
        memory=f"{last.rss / 1e6:.0f}" + "".join(f" + {worker / 1e6:.0f}" for worker in last.workers) + " MB",
        beside=f"before: {show(earlier)}, so {middle / earlier:.2f} ×" if earlier else "",
        goals=(as_before,) if title in AS_BEFORE else (),
        notes="; ".join(
            filter(None, (", ".join(f"{count:.3g} {name}" for name, count in last.requests.items()), last.note))
        ),
    )


def command(arguments: argparse.Namespace) -> str:
    """What was asked for."""
    said = f"python -m bench --keys {arguments.keys} --repeat {arguments.repeat}"
    if arguments.parts != ",".join(PARTS):
        said += f" --parts {arguments.parts}"
    return said + (f" --rows '{arguments.rows}'" if arguments.rows else "")


PARTS: Mapping[str, Part] = {
    "library": library,
    "load": part(load, "keys", "folder", "checkout"),
    "pages": part(pages, "keys", "folder"),
    "small": part(small, "checkout"),
    "contention": part(contention),
    "aws": part(aws, "folder"),
    "folder": part(folder, "folder", "checkout"),
}


if __name__ == "__main__":
    main()
