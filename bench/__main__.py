"""``python -m bench``: measure, print a table, and (``--write``) put it into ``bench/RESULTS.md``."""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from shutil import copytree, rmtree
from statistics import median

from bench import keys, object_rows, rows  # noqa: F401 - object_rows registers its rows
from graveler.lake.folder import create_folder_lake, open_folder_lake

LIBRARIES = ("rocksdict", "xxhash", "zstandard", "msgspec")
RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--keys", default="debian", help="debian (1.6 M paths), debian-all (5.6 M), or hive:COUNT")
    parser.add_argument("--rows", default="", help="only rows whose title matches this regular expression")
    parser.add_argument("--repeat", type=int, default=5, help="timed calls of each row (default %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where lakes and keys go")
    parser.add_argument("--write", action="store_true", help="append the table to bench/RESULTS.md")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a row, in its own process
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments)))
        return
    keys_file = keys_of(arguments.keys, arguments.folder)
    base = arguments.folder / f"lake-{keys_file.stem}"
    made = prepare(base, keys_file)
    lines = [
        f"{made}.",
        "",
        "| what | median | per second | min to max | peak memory, + workers' | requests of one call, workers' included | |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for title in rows.ROWS:
        if not re.search(arguments.rows, title):
            continue
        folder = arguments.folder / "run"
        rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        copytree(base, folder / "lake", copy_function=os.link)
        # Tables change in place: they get a copy of their own.
        for file in base.glob("tables.sqlite*"):
            (folder / "lake" / file.name).unlink()
            (folder / "lake" / file.name).write_bytes(file.read_bytes())
        command = [sys.executable, "-m", "bench", "--one", title, "--keys", arguments.keys]
        command += ["--folder", str(arguments.folder), "--repeat", str(arguments.repeat)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"bench: row {title!r} failed\n{done.stderr}")
        lines.append(line(title, json.loads(done.stdout)))
        print(lines[-1], file=sys.stderr, flush=True)
    rmtree(arguments.folder / "run", ignore_errors=True)
    report = "\n".join([heading(arguments), *lines, ""])
    print(report)
    if arguments.write:
        with RESULTS.open("a") as file:
            file.write("\n" + report)


def keys_of(name: str, folder: Path) -> Path:
    """The file of keys that the argument names."""
    if name.startswith("hive:"):
        return keys.hive(folder, int(name.removeprefix("hive:")))
    return keys.debian(folder, "all" if name == "debian-all" else "amd64")


def prepare(base: Path, keys_file: Path) -> str:
    """Make the lake that rows begin with, unless it is there, and say what it is."""
    if not base.exists():
        repository = create_folder_lake(base).create_repository(rows.REPOSITORY, rows.NAMESPACE)
        rows.import_all(repository, keys_file)
    tree = open_folder_lake(base).repository(rows.REPOSITORY).tree("main")
    count = tree.count()
    size = rows.bytes_per_record(base, count)
    return f"{count:,} objects in {rows.tree_shape(tree)}; {size:.1f} bytes a record on disk, metarange included"


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    """Run one row in this process."""
    run = rows.Run(arguments.folder / "run" / "lake", keys_of(arguments.keys, arguments.folder), arguments.repeat)
    rows.ROWS[arguments.one](run)
    return {
        "seconds": run.seconds,
        "amount": run.amount,
        "requests": {name: count / len(run.seconds) for name, count in sorted(run.requests.items())},
        "note": run.note,
        "rss": rows.peak_memory(),
        "workers": list(run.workers.values()),
    }


def line(title: str, measured: dict[str, object]) -> str:
    """One row of the table."""
    seconds = measured["seconds"]
    amount, rss = measured["amount"], measured["rss"]
    assert isinstance(seconds, list)
    assert isinstance(amount, int)
    assert isinstance(rss, int)
    middle = median(seconds)
    span = f"{show(min(seconds))} to {show(max(seconds))}"
    requests = measured["requests"]
    assert isinstance(requests, dict)
    asked = ", ".join(f"{count:.3g} {name}" for name, count in requests.items())
    workers = measured["workers"]
    assert isinstance(workers, list)
    memory = f"{rss / 1e6:.0f}" + "".join(f" + {worker / 1e6:.0f}" for worker in workers)
    return (
        f"| {title} | {show(middle)} | {amount / middle:,.0f} | {span} | {memory} MB | {asked} | {measured['note']} |"
    )


def show(seconds: float) -> str:
    """A time with three digits."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def heading(arguments: argparse.Namespace) -> str:
    """When, where and with what this was measured."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    command = f"python -m bench --keys {arguments.keys}" + (f" --rows '{arguments.rows}'" if arguments.rows else "")
    return (
        f"## {datetime.now(UTC):%Y-%m-%d}, commit {commit.stdout.strip()}: `{command} --repeat {arguments.repeat}`\n\n"
        f"Python {platform.python_version()}, {libraries}; {os.cpu_count()} cores, {processor()}, {platform.system()} "
        f"{platform.release()}."
    )


def processor() -> str:
    """What the machine calls its processor."""
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1) if found else platform.machine()


if __name__ == "__main__":
    main()
