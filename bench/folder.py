"""``python -m bench.folder --checkout PATH``: importing a local folder, beside another version of graveler, in the same run.

A folder of small files, read or trusted by size and time, and one of large files, beside a bare loop that reads and hashes them
in two threads. All of it is in the system's cache. Each import is a process's first one of more than a file, and goes into an
empty repository; the starting of processes that help is part of it. The versions, and the loop, take turns. CPU is that of all
processes.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from pathlib import Path
from random import Random
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp

from msgspec import Struct

from bench.lines import Goal, Line, show, table
from bench.servers import cpu_seconds, family, package_of

HERE = Path(__file__).resolve().parents[1]
SMALL_BYTES = 1024, 4096
A_FOLDER = 200
"""Files in each folder."""
PIECE = 1 << 20
CORES = 2

READ_FASTER, TRUSTED_FASTER, OF_BARE = 4, 12, 0.7
"""Goals: the rate of small files as a multiple of that before, the same with their times trusted, and that of large files as a
part of the bare loop's."""

_PROGRAM = """
import sys, time
from pathlib import Path
import graveler
from graveler.lake.opening.folder import create_folder_lake
package, lake, source, terms = sys.argv[1:]
assert graveler.__file__.startswith(package), f"{graveler.__file__} is not of {package}"
made = create_folder_lake(Path(lake))
repository = made.create_repository("bench", "local://bench")
terms = {terms: True} if terms else {}
(one := Path(lake).with_name("one")).mkdir(exist_ok=True)
(one / "file").write_bytes(b"1")
made.create_repository("first", "local://first").import_folder("main", one, **terms)
print("ready", flush=True)
sys.stdin.readline()
begin = time.perf_counter()
made = repository.import_folder("main", Path(source), "in/", **terms)
print(time.perf_counter() - begin, made.metarange, flush=True)
sys.stdin.readline()
"""


class Took(Struct, frozen=True):
    """One measurement: seconds by the clock and of CPU, and what it made."""

    seconds: float
    cpu: float
    made: str = ""


def main() -> None:
    print(table(lines(parser().parse_args())))


def parser() -> argparse.ArgumentParser:
    """What can be chosen."""
    made = argparse.ArgumentParser(prog="python -m bench.folder", description=__doc__)
    made.add_argument("--checkout", type=Path, help="of the version before; without it only this one is measured")
    made.add_argument("--files", type=int, default=20_000, help="small ones, of 1 to 4 KiB (default %(default)s)")
    made.add_argument("--large", type=int, default=3, help="large files (default %(default)s)")
    made.add_argument("--megabytes", type=int, default=300, help="of each large file (default %(default)s)")
    made.add_argument("--rounds", type=int, default=5, help="of which the median is taken (default %(default)s)")
    made.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where the files and the lakes go")
    return made


def lines(arguments: argparse.Namespace) -> list[Line]:
    """A line for small files that are read, one for those that are trusted, one for large files."""
    run = Path(mkdtemp(prefix="graveler-bench-", dir=made_folder(arguments.folder)))
    try:
        small, large = run / "small", run / "large"
        size = make_small(small, arguments.files)
        make_large(large, arguments.large, arguments.megabytes << 20)
        bare(small)
        ways: dict[str, Callable[[], Took]] = {
            "read": lambda: imported(HERE, run, small),
            "trusted": lambda: imported(HERE, run, small, "trust_mtime"),
            "large": lambda: imported(HERE, run, large),
            "bare": lambda: bare(large),
        }
        if arguments.checkout is not None:
            ways["before"] = lambda: imported(arguments.checkout.resolve(), run, small)
            ways["large before"] = lambda: imported(arguments.checkout.resolve(), run, large)
        took: dict[str, list[Took]] = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, way in ways.items():
                took[name].append(way())
        for one, other in (("read", "before"), ("large", "large before")):
            made = {each.made for name in (one, other) for each in took.get(name, ())}
            assert len(made) == 1, f"the versions make different trees of the {one} files"
    finally:
        rmtree(run)
    files = f"{arguments.files:,} files of 1 to 4 KiB"
    total = arguments.large * (arguments.megabytes << 20)
    return [
        line(f"import of a folder, {files}, read", took, "read", "before", arguments.files, READ_FASTER, size),
        line(
            f"import of a folder, {files}, by size and time", took, "trusted", "before", arguments.files, TRUSTED_FASTER
        ),
        large_line(f"import of a folder, {arguments.large} files of {arguments.megabytes} MiB", took, total),
    ]


def line(
    what: str, took: Mapping[str, list[Took]], name: str, beside: str, files: int, wanted: float, size: int = 0
) -> Line:
    """Of small files, with the version before beside them."""
    seconds, cpu = middle(took[name])
    before = middle(took[beside]) if beside in took else None
    said = f"{cpu / files * 1e6:.1f} µs of CPU a file" + (f", {size / files:,.0f} bytes each" if size else "")
    if before is not None:
        said += f"; before {before[1] / files * 1e6:.1f}, {before[1] / cpu:.1f} × as much"
    return Line(
        what=what,
        measured=show(seconds),
        rate=f"{files / seconds:,.0f}",
        spread=spread(took[name]),
        beside="" if before is None else f"the version before: {show(before[0])} ({spread(took[beside])})",
        goals=(Goal("rate ÷ before", None if before is None else before[0] / seconds, wanted, least=True),),
        notes=said,
    )


def large_line(what: str, took: Mapping[str, list[Took]], size: int) -> Line:
    """Of large files, with the bare loop beside them."""
    seconds, cpu = middle(took["large"])
    loop = middle(took["bare"])
    said = f"{size / seconds / 1e6:,.0f} MB a second; CPU {cpu:.2f} s, of the loop {loop[1]:.2f}"
    if "large before" in took:
        said += f"; the version before: {show(middle(took['large before'])[0])}"
    return Line(
        what=what,
        measured=show(seconds),
        spread=spread(took["large"]),
        beside=f"reading and hashing them in {CORES} threads: {show(loop[0])} ({spread(took['bare'])})",
        goals=(Goal("rate ÷ bare", loop[0] / seconds, OF_BARE, least=True),),
        notes=said,
    )


def middle(took: list[Took]) -> tuple[float, float]:
    """Medians of the clock and of CPU."""
    return median(each.seconds for each in took), median(each.cpu for each in took)


def spread(took: list[Took]) -> str:
    """From the least to the most by the clock."""
    seconds = [each.seconds for each in took]
    return f"{show(min(seconds))} to {show(max(seconds))}"


def imported(checkout: Path, run: Path, source: Path, terms: str = "") -> Took:
    """One import by the version in a checkout."""
    package = str(package_of(checkout))
    lake = run / "lake"
    arguments = [sys.executable, "-c", _PROGRAM, package, str(lake), str(source), terms]
    environment = {**os.environ, "PYTHONPATH": package}
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        before = sum(map(cpu_seconds, family(process.pid)))
        process.stdin.write("go\n")
        process.stdin.flush()
        seconds, made = process.stdout.readline().split()
        cpu = sum(map(cpu_seconds, family(process.pid))) - before
    rmtree(lake)
    return Took(float(seconds), cpu, made)


def bare(folder: Path) -> Took:
    """Reading and hashing all files, in as many threads as there are cores: hashing lets go of the interpreter's lock."""
    begin, before = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(hashed, [path for path in folder.rglob("*") if path.is_file()]))
    return Took(time.perf_counter() - begin, time.process_time() - before)


def hashed(path: Path) -> str:
    """The MD5 of a file."""
    digest = md5(usedforsecurity=False)
    piece = memoryview(bytearray(PIECE))
    with path.open("rb", buffering=0) as file:
        while length := file.readinto(piece):
            digest.update(piece[:length])
    return digest.hexdigest()


def make_small(folder: Path, files: int) -> int:
    """So many files of random bytes, some hundred in each folder; their bytes."""
    random = Random(1)
    total = 0
    for number in range(files):
        inner = folder / f"{number // A_FOLDER:05}"
        inner.mkdir(parents=True, exist_ok=True)
        data = random.randbytes(random.randint(*SMALL_BYTES))
        (inner / f"file-{number:07}.bin").write_bytes(data)
        total += len(data)
    return total


def make_large(folder: Path, files: int, size: int) -> None:
    folder.mkdir()
    random = Random(2)
    for number in range(files):
        with (folder / f"large-{number}.bin").open("wb") as file:
            for at in range(0, size, PIECE):
                file.write(random.randbytes(min(PIECE, size - at)))


def made_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


if __name__ == "__main__":
    main()
