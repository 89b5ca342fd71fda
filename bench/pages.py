"""``python -m bench.pages``: all pages of a diff over HTTP, beside the whole diff in the library, in the same run.

The changes are spread over everything. Both are warm, ask one after the other in turns, and a figure is the median of the rounds.
Pages have 1,000 changes, and come over one connection. What a page costs should not depend on where it begins, so the last tenth
of the pages is compared with the first.
"""

import argparse
import os
import time
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree
from statistics import median

from msgspec import Struct
from msgspec.json import Decoder

from bench import keys, rows
from bench.lakes import keys_of, lake_copy, prepare
from bench.lines import Goal, Line, show, table
from bench.servers import REQUESTS, answered, connected, cpu_seconds, family, graveler, resident
from graveler.lake.opening.folder import open_folder_lake

CHANGES = (20_000, 100_000)
PAGE = 1000
MOST = 1.5
"""What all pages may take, as a multiple of the library's whole diff; and the last pages, as one of the first."""


class _Position(Struct):
    has_more: bool
    next_offset: str


class _Page(Struct):
    """What a client has to read of a page to ask for the next one."""

    pagination: _Position


def main() -> None:
    print(table(lines(parser().parse_args())))


def parser() -> argparse.ArgumentParser:
    """What can be chosen."""
    made = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    made.add_argument("--keys", default="debian", help="debian (1.6 M paths), debian-all (5.6 M), or hive:COUNT")
    made.add_argument(
        "--changes", default=",".join(map(str, CHANGES)), help="with commas between (default %(default)s)"
    )
    made.add_argument("--rounds", type=int, default=3, help="of which the median is taken (default %(default)s)")
    made.add_argument("--workers", type=int, default=2, help="processes of the server (default %(default)s)")
    made.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where lakes and keys go")
    return made


def lines(arguments: argparse.Namespace) -> list[Line]:
    """A line for each number of changes."""
    keys_file = keys_of(arguments.keys, arguments.folder)
    base = arguments.folder / f"lake-{keys_file.stem}"
    prepare(base, keys_file)
    run = arguments.folder / "run" / f"pages-{os.getpid()}"
    run.mkdir(parents=True)
    try:
        lake_copy(base, run / "lake")
        amounts = [int(amount) for amount in arguments.changes.split(",")]
        for amount in amounts:
            change(run / "lake", keys_file, amount)
        with graveler(("--lake", str(run / "lake")), arguments.workers, source="s3://nothing/") as server:
            return [line(run / "lake", server.process, server.port, amount, arguments.rounds) for amount in amounts]
    finally:
        rmtree(run)


def branch_of(amount: int) -> str:
    return f"changed-{amount}"


def change(lake: Path, keys_file: Path, amount: int) -> None:
    """Commit so many spread changes on a branch of their own."""
    repository = open_folder_lake(lake).repository(rows.REPOSITORY)
    repository.create_branch(branch_of(amount), "main")
    count = sum(1 for _ in keys.read(keys_file))
    wanted = set(Random(7).sample(range(count), amount))
    changed = [key for number, key in enumerate(keys.read(keys_file)) if number in wanted]
    rows.change(repository, branch_of(amount), changed, 1)
    repository.commit(branch_of(amount), "change")


def line(lake: Path, process: int, port: int, amount: int, rounds: int) -> Line:
    """All pages and the whole diff in turns; the first of each is to warm up."""
    repository = open_folder_lake(lake).repository(rows.REPOSITORY)
    whole = partial(repository.diff, "main", branch_of(amount), amount=amount + 1)
    taken: list[list[float]] = []
    library: list[float] = []
    used: list[float] = []
    for number in range(rounds + 1):
        before = sum(map(cpu_seconds, family(process)))
        seconds = pages(port, amount)
        cpu = sum(map(cpu_seconds, family(process))) - before
        begin = time.perf_counter()
        assert len(whole().results) == amount
        if number:
            taken.append(seconds)
            used.append(cpu)
            library.append(time.perf_counter() - begin)
    served, beside = median(map(sum, taken)), median(library)
    tenth = max(1, len(taken[0]) // 10)
    first = median(median(seconds[:tenth]) for seconds in taken)
    last = median(median(seconds[-tenth:]) for seconds in taken)
    return Line(
        what=f"diff of {amount:,} spread changes, all pages, HTTP",
        measured=show(served),
        rate=f"{amount / served:,.0f}",
        spread=f"{show(min(map(sum, taken)))} to {show(max(map(sum, taken)))}",
        memory=f"{max(map(resident, family(process))) / 1e6:.0f} MB a worker",
        beside=f"the library's whole diff: {show(beside)}",
        goals=(Goal("time ÷ library", served / beside, MOST), Goal("last pages ÷ first", last / first, MOST)),
        notes=f"{median(used):.2f} s of CPU in {len(taken[0])} pages; the first {show(first)}, the last {show(last)}",
    )


def pages(port: int, amount: int) -> list[float]:
    """Seconds of each page."""
    decode = Decoder(_Page).decode
    found: list[float] = []
    position = _Position(has_more=True, next_offset="")
    with connected(port) as connection:
        while position.has_more:
            begin = time.perf_counter()
            path, after = f"/refs/main/diff/{branch_of(amount)}", position.next_offset
            body = answered(connection, REQUESTS.get(path, type="two_dot", amount=str(PAGE), after=after))
            position = decode(body).pagination
            found.append(time.perf_counter() - begin)
    assert len(found) == -(-amount // PAGE)
    return found


if __name__ == "__main__":
    main()
