"""The plot with tables: a load that is wrong, a conflict, the way back. It needs DuckDB; with PyIceberg, two branches also
append to one table."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graveler.cli.demo.append_visits import TABLE
from graveler.cli.demo.stage import Stage
from graveler.cli.demo.story import REPOSITORY, Plan, begin

if TYPE_CHECKING:
    from graveler.lake.repository import OpenRepository

_URI: Final = f"lakefs://{REPOSITORY}"
_FILES: Final = f"graveler://{REPOSITORY}"
_LOAD: Final = "load"
_VISITS: Final = "visits"
_SIX_ROWS: Final = re.compile(r"^rows: +6$", re.MULTILINE)
_APPEND: Final = "graveler.cli.demo.append_visits"
_OCTOBER: Final = "orders/2026-10.parquet"
_NOVEMBER: Final = "orders/2026-11.parquet"
_ROWS: Final = 10_000
_RIGHT: Final = sum(number * 37 % 500 + 1 for number in range(_ROWS))
"""November's total, computed here and not by DuckDB."""
_TOTALS: Final = (
    "SELECT month(day) AS month, count(*) AS orders, sum(amount) AS total "
    f"FROM '{_FILES}/{{}}/orders/*.parquet' GROUP BY ALL ORDER BY ALL"
)
_COMPARED: Final = (
    f"SELECT count(*) AS changed, sum(new.amount) - sum(old.amount) AS more FROM '{_FILES}/main/{_NOVEMBER}' old "
    f"JOIN '{_FILES}/{_LOAD}/{_NOVEMBER}' new USING (id) WHERE old.amount <> new.amount"
)


def can_query() -> bool:
    """Return whether the libraries for SQL are installed."""
    return all(find_spec(name) is not None for name in ("duckdb", "fsspec"))


def play_tables(stage: Stage, plan: Plan, lake: Path, typed_lake: str) -> None:
    """Run the whole story. ``typed_lake`` is the lake's folder as a user would type it."""
    repository, _ = begin(stage, plan, lake, typed_lake)

    with stage.step("Write a table", "DuckDB writes Parquet straight to the branch; nobody sees it before the commit."):
        stage.run("sql", f"COPY ({_orders('2026-10-01', 31)}) TO '{_FILES}/main/{_OCTOBER}'")
        stage.run("sql", f"COPY ({_orders('2026-11-01', 30)}) TO '{_FILES}/main/{_NOVEMBER}'")
        stage.run("commit", f"{_URI}/main", "-m", "Orders of October and November")
        stage.run("sql", _TOTALS.format("main"))
        stage.check(_total(stage, "main") == _RIGHT, "November's total is wrong")

    with stage.step("Load on a branch", "A branch costs one row in a table. This load takes cents for euros."):
        stage.run("branch", "create", f"{_URI}/{_LOAD}", "--source", "main")
        bad = f"SELECT id, day, amount * 100 AS amount FROM '{_FILES}/main/{_NOVEMBER}'"
        stage.run("sql", f"COPY ({bad}) TO '{_FILES}/{_LOAD}/{_NOVEMBER}'")
        stage.run("commit", f"{_URI}/{_LOAD}", "-m", "Load November again")

    with stage.step("Query both states at once", "Readers of main see nothing of it."):
        stage.run("sql", _COMPARED)
        stage.run("diff", f"{_URI}/main..{_LOAD}")
        stage.check(_total(stage, "main") == _RIGHT, "main changed with the branch")
        stage.check(_total(stage, _LOAD) == 100 * _RIGHT, "the load is not what it should be")

    with stage.step("Meanwhile, someone corrects an order on main"):
        fix = f"SELECT id, day, if(id = 7, 1, amount) AS amount FROM '{_FILES}/main/{_NOVEMBER}'"
        stage.run("sql", f"COPY ({fix}) TO '{_FILES}/main/{_NOVEMBER}'")
        stage.run("commit", f"{_URI}/main", "-m", "Correct order 7")
    before, corrected = repository.commit_of("main").id, _total(stage, "main")

    with stage.step(
        "Merge: a conflict", "Both sides changed the table, so nothing is merged and the conflict is reported."
    ):
        output = stage.run("merge", f"{_URI}/{_LOAD}", "main", fails_with=4)
        stage.check(_NOVEMBER in output, "the conflict was not reported")
        stage.check(repository.commit_of("main").id == before, "main moved despite the conflict")

    with stage.step("Merge all the same", "Somebody is in a hurry, and lets the load win. Now main is wrong."):
        stage.run("merge", f"{_URI}/{_LOAD}", "main", "--strategy", "source-wins", "-m", "Take the load")
        stage.run("sql", _TOTALS.format("main"))
        stage.check(_total(stage, "main") == 100 * _RIGHT, "the load did not win")

    with stage.step("Blame", "Which commit made this file what it is?"):
        output = stage.run("blame", f"{_URI}/main/{_NOVEMBER}")
        stage.check("Take the load" in output or "Load November again" in output, "the load was not found")

    with stage.step("Travel in time, and take it back", "Every state is still there. A revert is a new commit."):
        stage.run("sql", _TOTALS.format("main~1"))
        stage.run("revert", f"{_URI}/main", "main", "--parent", "1", "-m", "Take the load back")
        stage.run("sql", _TOTALS.format("main"))
        stage.check(_total(stage, "main") == corrected, "the revert did not bring the corrected table back")

    if can_append():
        _merge_tables(stage)

    with stage.step("Tag it, and look at the graph"):
        _tag(stage, repository)


def can_append() -> bool:
    """Return whether the libraries for Iceberg tables are installed."""
    return all(find_spec(name) is not None for name in ("pyiceberg", "pyarrow"))


def _merge_tables(stage: Stage) -> None:
    with stage.step("Append to an Iceberg table on two branches", "To PyIceberg each branch is a catalog."):
        stage.run_program(_APPEND, "main", "1", "2")
        stage.run("branch", "create", f"{_URI}/{_VISITS}", "--source", "main")
        stage.run_program(_APPEND, _VISITS, "3", "4", "5")
        stage.run_program(_APPEND, "main", "6")

    with stage.step("Merge the table by its rows", "Both sides changed it. One new snapshot has the rows of both."):
        output = stage.run("merge", f"{_URI}/{_VISITS}", "main", "--dry-run")
        stage.check("both, in one new snapshot" in output, "the dry run does not say what becomes of the table")
        stage.run("merge", f"{_URI}/{_VISITS}", "main", "-m", "Take the visits")
        output = stage.run("table", "show", f"{_URI}/main", TABLE)
        stage.check(_SIX_ROWS.search(output) is not None, "the table lacks rows")
        stage.run("table", "history", f"{_URI}/main", TABLE)


def _tag(stage: Stage, repository: "OpenRepository") -> None:
    stage.run("tag", "create", f"{_URI}/v1", "main")
    graph = stage.run("log", f"{_URI}/main", "--graph", "--oneline", shown=40)
    stage.check(repository.tag("v1").commit_id == repository.commit_of("main").id, "the tag names another commit")
    stage.check("tag: v1" in graph and _LOAD in graph, "the graph does not show the tag and the branch")


def next_with_tables() -> list[str]:
    """Return command lines to try afterwards."""
    query = f"FROM '{_FILES}/v1/{_NOVEMBER}' LIMIT 5"
    return [
        f'graveler sql "{query}"',
        f"graveler log {_URI}/main --graph",
        f"graveler ls -l {_URI}/main/orders/",
        f"graveler reflog {_URI}/main",
        f"graveler branch create {_URI}/mine --source v1",
    ]


def _orders(first_day: str, days: int) -> str:
    """Return the query for a month of orders."""
    day = f"DATE '{first_day}' + (range % {days})::INT"
    return f"SELECT range AS id, {day} AS day, range * 37 % 500 + 1 AS amount FROM range({_ROWS})"


def _total(stage: Stage, ref: str) -> int:
    """Return the sum of November's amounts at a ref, without showing the query."""
    query = f"SELECT sum(amount)::BIGINT AS total FROM '{_FILES}/{ref}/{_NOVEMBER}'"
    return int(json.loads(stage.ask("sql", query, "--format", "json"))["total"])
