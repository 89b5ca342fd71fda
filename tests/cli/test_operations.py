"""Operations on the command line."""

from pathlib import Path

import msgspec
import pytest

from graveler.lake.opening.folder import open_folder_lake
from graveler.operations.parts.division import Sizes
from graveler.operations.pinned_requests import COMMIT, IMPORT
from graveler.operations.steps import Steps
from graveler.operations.store import Operation, Operations, OperationState
from graveler.requests.importing import ImportChanges
from tests.cli.support import done, put, run
from tests.support.pinned import pinned_commit


@pytest.fixture
def waiting(lake: Path) -> str:
    """An operation that one of two parts is done of, by somebody who is going to claim it for an hour."""
    put("main", "a", "1")
    with open_folder_lake(lake) as opened:
        repository = opened.repository("lake")
        operations = Operations(opened.tables, repository.repository.uid)
        request = msgspec.json.encode(pinned_commit(branch="main", message="m"))
        now = repository.clock.now()
        operation = Operation(
            "abc", COMMIT, request, OperationState.RUNNING, now, now, seconds=3600.0, branch="main", attempt=1
        )
        operations.add(operation)
        steps = Steps(repository, operation, Sizes(1, 2))
        steps.plan(0)
        steps.run_part(0, 0)
        operations.add(Operation("old", "dump", b"", OperationState.FAILED, now - 5, now, error="the disk is full"))
    return "abc"


def test_operations_are_listed_by_age(waiting: str) -> None:
    shown = done("operations", "list", "lake").out.splitlines()
    assert [line.split()[0] for line in shown] == ["old", "abc"]
    assert shown[1].endswith("running  commit main")
    assert [line["id"] for line in done("operations", "list", "lakefs://lake", "--running", "--json").lines] == ["abc"]


def test_one_operation_is_shown_with_its_progress(waiting: str) -> None:
    found = done("operations", "show", "lake", waiting, "--json").json
    assert (found["state"], found["branch"], found["progress"]["parts_done"]) == ("running", "main", 1)
    shown = done("operations", "show", "lake", waiting).out
    assert "parts:      1 of 1" in shown
    assert "the disk is full" in done("operations", "show", "lake", "old").out


def test_an_operation_is_cancelled_once_it_has_not_ended(waiting: str) -> None:
    assert "nothing was changed" in done("operations", "cancel", "lake", waiting).out
    assert done("operations", "cancel", "lake", waiting, "--json").json["state"] == "cancelled"
    failed = run("operations", "cancel", "lake", "old")
    assert failed.code != 0
    assert "it failed" in failed.err
    unknown = run("operations", "show", "lake", "none")
    assert unknown.code != 0
    assert "'none' not found" in unknown.err


def test_it_is_shown_whether_the_commit_is_there(waiting: str, lake: Path) -> None:
    assert done("operations", "show", "lake", waiting, "--json").json["commit_id"] == ""
    assert "commit:     none\n" in done("operations", "show", "lake", waiting).out
    assert "commit" not in done("operations", "show", "lake", "old").out
    with open_folder_lake(lake) as opened:  # a worker publishes, and dies before it can tell
        repository = opened.repository("lake")
        operation = Operations(opened.tables, repository.repository.uid).get(waiting)
        assert Steps(repository, operation, Sizes(1, 2)).publish(0) is not None
        head = repository.branch("main").commit_id
    found = done("operations", "show", "lake", waiting, "--json").json
    assert (found["state"], found["commit_id"]) == ("running", head)
    assert f"commit:     {head}\n" in done("operations", "show", "lake", waiting).out
    refused = run("operations", "cancel", "lake", waiting)
    assert refused.code != 0
    assert f"it is completed, with commit {head}" in refused.err
    found = done("operations", "show", "lake", waiting, "--json").json
    assert (found["state"], found["result"], found["commit_id"]) == ("completed", head, head)


def test_what_is_cancelled_of_other_kinds_is_said_as_it_is(waiting: str, lake: Path) -> None:
    with open_folder_lake(lake) as opened:
        operations = Operations(opened.tables, opened.repository("lake").repository.uid)
        operations.add(Operation("gc", "collect-garbage", b"", OperationState.RUNNING, 1, 1))
    assert "what it had already done stays" in done("operations", "cancel", "lake", "gc").out
    assert "commit" not in done("operations", "show", "lake", "gc").out


def test_a_dry_run_of_an_import_is_shown_as_one(lake: Path) -> None:
    with open_folder_lake(lake) as opened:
        repository = opened.repository("lake")
        operations = Operations(opened.tables, repository.repository.uid)
        now = repository.clock.now()
        changes = ImportChanges(added=2, added_bytes=9)
        for name, result in (("dry", ""), ("real", repository.branch("main").commit_id)):
            operations.add(
                Operation(name, IMPORT, b"", OperationState.COMPLETED, now, now, result=result, changes=changes)
            )
    assert "  + 2 objects would be added, 9 B\n" in done("operations", "show", "lake", "dry").out
    assert "  + 2 objects added, 9 B\n" in done("operations", "show", "lake", "real").out
