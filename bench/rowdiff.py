"""``python -m bench.rowdiff``: what a diff of rows takes, of a table of Parquet files of which two differ, on a folder.

Each is measured in a process of its own, for its peak of memory; beside it, DuckDB alone compares the rows of all files of
both sides, as somebody does who has two copies of the table.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

import duckdb
import pyarrow
from pyarrow import parquet

import graveler
from bench.lines import Line, show, table
from bench.rows import peak_memory
from graveler.sdk.lake import create_lake

FILES, DIFFERING = 20, 2
EACH = 10
"""Of the rows of a file that differs, one of so many is another."""


def main() -> None:
    """Measure, and print a table."""
    made = argparse.ArgumentParser(prog="python -m bench.rowdiff", description=__doc__)
    made.add_argument("--rows", type=int, default=5_000_000, help="of the table (default %(default)s)")
    made.add_argument("--repeat", type=int, default=3, help="comparisons of each kind (default %(default)s)")
    made.add_argument("--memory-limit", default="1GB", help="of DuckDB (default %(default)s)")
    made.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    arguments = made.parse_args()
    if arguments.work:
        folder, kind = arguments.work
        print(json.dumps(one(Path(folder), kind, arguments.memory_limit)))
        return
    with TemporaryDirectory(prefix="graveler-bench-") as name:
        folder = Path(name)
        write(folder, arguments.rows // FILES)
        print(table(lines(folder, arguments)))


def write(folder: Path, rows: int) -> None:
    """Write two states of the table, and commit them."""
    random = Random(1)
    for side in ("before", "after"):
        (folder / side / "t").mkdir(parents=True)
    for number in range(FILES):
        numbers = [random.getrandbits(62) for _ in range(rows)]
        columns = {
            "id": range(number * rows, (number + 1) * rows),
            "a": numbers,
            "b": [value % 1000 / 8 for value in numbers],
            "c": [f"customer {value % 100_003}" for value in numbers],
        }
        state = pyarrow.table(columns)
        parquet.write_table(state, folder / "before" / "t" / f"{number:02}.parquet")
        if number < DIFFERING:
            columns["a"] = [value + (at % EACH == 0) for at, value in enumerate(numbers)]
            state = pyarrow.table(columns)
        parquet.write_table(state, folder / "after" / "t" / f"{number:02}.parquet")
    with create_lake(folder / "lake", user="bench") as lake:
        main = lake.repository("bench").create().branch("main")
        for side in ("before", "after"):
            for file in sorted((folder / side / "t").iterdir())[: None if side == "before" else DIFFERING]:
                main.object(f"t/{file.name}").upload(file.read_bytes())
            main.commit(side)


def lines(folder: Path, arguments: argparse.Namespace) -> list[Line]:
    """Return a line for each kind of comparison."""
    found = []
    for kind in ("whole rows", "key"):
        ours, theirs = [], []
        for _ in range(arguments.repeat):
            ours.append(worked(folder, kind, arguments.memory_limit))
            theirs.append(worked(folder, f"{kind}, DuckDB", arguments.memory_limit))
        assert {taken["differences"] for taken in (*ours, *theirs)} == {ours[0]["differences"]}
        seconds, beside = (median(taken["seconds"] for taken in some) for some in (ours, theirs))
        found.append(
            Line(
                f"diff of rows by {kind}, {arguments.rows:,} in {FILES} files of which {DIFFERING} differ",
                show(seconds),
                rate=f"{arguments.rows / seconds:,.0f}",
                memory=f"{max(taken['memory'] for taken in ours):.0f} MB",
                beside=f"DuckDB, all files {show(beside)}, {max(taken['memory'] for taken in theirs):.0f} MB",
                notes=f"{ours[0]['differences']:,} differences",
            )
        )
    return found


def worked(folder: Path, kind: str, limit: str) -> dict[str, float]:
    """Return what :func:`one` returns, of another process."""
    command = [sys.executable, "-m", "bench.rowdiff", "--memory-limit", limit, "--work", str(folder), kind]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def one(folder: Path, kind: str, limit: str) -> dict[str, float]:
    """Compare once. Return seconds, the peak of memory in MB, and the number of differences."""
    began = time.perf_counter()
    amount = alone(folder, kind, limit) if kind.endswith("DuckDB") else through_graveler(folder, kind, limit)
    seconds = time.perf_counter() - began
    memory = peak_memory() / 1e6
    return {"seconds": seconds, "memory": memory, "differences": amount}


def through_graveler(folder: Path, kind: str, limit: str) -> int:
    """Compare the two commits."""
    keys: Sequence[str] = ["id"] if kind == "key" else []
    with graveler.open(folder / "lake", user="bench") as lake:
        before = lake.repository("bench").ref("main~1")
        with before.diff_rows("main", "t", keys=keys, memory_limit=limit) as found:
            return found.added + found.removed + found.changed


def alone(folder: Path, kind: str, limit: str) -> int:
    """Compare the two folders."""
    connection = duckdb.connect(config={"memory_limit": limit, "temp_directory": str(folder / "spilled")})
    left, right = (f"read_parquet('{folder / side}/t/*.parquet')" for side in ("before", "after"))
    if kind.startswith("key"):
        query = f"""SELECT count(*) FROM {left} l FULL JOIN {right} r USING (id)
            WHERE (l.a, l.b, l.c) IS DISTINCT FROM (r.a, r.b, r.c)"""
    else:
        query = f"""SELECT sum(abs(surplus)) FROM (SELECT sum(one) AS surplus FROM
            (SELECT *, -1 AS one FROM {left} UNION ALL SELECT *, 1 FROM {right}) GROUP BY id, a, b, c)"""
    (found,) = connection.execute(query).fetchall()
    return int(found[0])


if __name__ == "__main__":
    main()
