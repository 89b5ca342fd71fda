"""One damaged operation does not make the others unreachable."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from graveler.errors import CorruptError
from graveler.lake.opening.folder import create_folder_lake
from graveler.operations.store import Operation, Operations, OperationState
from graveler.storage.tables.port import Key
from tests.api.support import Client
from tests.cli.support import run

OPERATIONS = "/repositories/repo/operations"


def smash(file: Path, key: Key) -> None:
    """Write bytes over an item that are none."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "UPDATE items SET body = x'c1c1c1' WHERE partition = ? AND sort = ?", (key.partition, key.sort)
        )


def add(operations: Operations, *names: str) -> None:
    for name in names:
        operations.add(Operation(name, "work", b"", OperationState.RUNNING, 0, 0))


def test_a_list_tells_which_cannot_be_read(call: Client) -> None:
    lake = call.world.lake
    operations = Operations(lake.tables, lake.repository("repo").repository.uid)
    add(operations, "a", "b", "c", "d")
    lake.tables.put(operations.running("b").key, {"operation": b"\xc1", "version": 1})
    whole = call("GET", OPERATIONS).json()
    assert [one["id"] for one in whole["results"]] == ["a", "c", "d"]
    [why] = whole["damaged"]
    assert "'b'" in why
    pages, after = [], ""
    while True:
        page = call("GET", OPERATIONS, {"amount": 1, "after": after}).json()
        pages.append([one["id"] for one in page["results"]] + page.get("damaged", []))
        after = page["pagination"]["next_offset"]
        if not page["pagination"]["has_more"]:
            break
    assert pages == [["a"], [why], ["c"], ["d"]]


@pytest.mark.parametrize("how", ["no operation", "smashed"])
def test_the_command_line_shows_the_others_and_fails(tmp_path: Path, how: str) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        operations = Operations(lake.tables, lake.create_repository("repo", "local://repo").repository.uid)
        add(operations, "a", "b", "c")
        lake.tables.put(operations.running("b").key, {"operation": b"\xc1", "version": 1})
        if how == "smashed":
            smash(tmp_path / "lake" / "tables.sqlite", operations.running("b").key)
        told: list[CorruptError] = []
        assert [one.id for one in operations.all(told.append)] == ["a", "c"]
        assert len(told) == len(operations.page("", 1000).damaged) == 1
    shown = run("--lake", tmp_path / "lake", "operations", "list", "repo", "--json")
    assert [line["id"] for line in shown.lines] == ["a", "c"]
    assert (shown.code != 0, "restore" in shown.err) == (True, True)
