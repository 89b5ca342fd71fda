"""``diff --rows``: differences of rows as lines and as JSON, and every refusal in words."""

import json
from pathlib import Path

import pytest

from tests.cli.support import done, put, run

PATH = "lakefs://lake/main"


@pytest.fixture
def sales(lake: Path) -> None:
    for text in ("id,amount\n1,100\n2,7\n", "id,amount,by\n1,250,\n3,9,\x1b[31m\n"):
        put("main", "t/a.csv", text)
        done("commit", PATH, "-m", "Next")


@pytest.mark.usefixtures("sales")
def test_rows_as_lines() -> None:
    assert done("diff", f"{PATH}~1..main", "--rows", "t/a.csv", "--key", "id").out.splitlines() == [
        "+ column by VARCHAR",
        "~ id=1  amount: 100 -> 250",
        "- id=2  amount=7  by=NULL",
        "+ id=3  amount=9  by=\\x1b[31m",
        "rows: 1 added, 1 removed, 1 changed",
    ]
    assert done("diff", f"{PATH}~1", "main", "--rows", "t").out.splitlines()[-1] == "rows: 2 added, 2 removed"
    assert done("diff", f"{PATH}..main", "--rows", "t").out == "no differences between rows\n"
    assert done("diff", f"{PATH}...main~1", "--rows", "t").out == "no differences between rows\n"


@pytest.mark.usefixtures("sales")
def test_rows_as_json() -> None:
    out = done("diff", f"{PATH}~1..main", "--rows", "t/*.csv", "--key", "id", "--json").out
    column, *rows = map(json.loads, out.splitlines())
    assert column == {"type": "column_added", "column": "by", "before": None, "after": "VARCHAR"}
    assert rows[0] == {
        "type": "changed",
        "key": {"id": "1"},
        "before": {"id": "1", "amount": "100", "by": None},
        "after": {"id": "1", "amount": "250", "by": None},
    }
    assert [row["type"] for row in rows] == ["changed", "removed", "added"]


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rows", "t", "--summary"], "leave out --prefix, --folders and --summary"),
        (["--rows", "t", "--folders"], "leave out --prefix, --folders and --summary"),
        (["--key", "id"], "--key is for --rows"),
        (["--rows", "none"], "no table at 'none'"),
        (["--rows", "t", "--key", "x"], "no column 'x'"),
    ],
)
def test_refusals(arguments: list[str], words: str) -> None:
    refused = run("diff", f"{PATH}~1..main", *arguments)
    assert refused.code != 0
    assert words in refused.err
