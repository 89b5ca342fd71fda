"""Operations outlive the processes that work on them, wherever these are killed: others finish them, as one commit."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import msgspec
import pytest

from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.operations.machine import Machine, Next, Task
from graveler.operations.one_process import do_in_parts
from graveler.operations.pinned_requests import IMPORT, KINDS
from graveler.operations.runner import Runner
from graveler.operations.store import Operation, Operations, OperationState
from graveler.requests.importing import AddressType, ImportAddress
from tests.lake.support import TINY
from tests.operations.step_worker import POINTS as STEP_POINTS
from tests.operations.support import SMALL, alone, commit_ask, diverged, merge_ask
from tests.operations.worker import POINTS
from tests.support.patience import PATIENCE
from tests.support.pinned import Asked, pinned_import

ROOT = Path(__file__).parents[2]
LEASE = 0.5


@pytest.mark.parametrize("point", POINTS)
def test_another_process_ends_what_a_killed_one_began(tmp_path: Path, point: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(10):
        (source / f"{number}").write_text("x")
    lake = create_folder_lake(tmp_path / "lake")
    opened = lake.create_repository("repo", "local://repo")
    opened.upload("main", "in/old", b"1")
    opened.commit("main", "before")
    address = ImportAddress(AddressType.COMMON_PREFIX, f"file://{source}/", "in")
    request = msgspec.json.encode(pinned_import("main", (address,), "take over", "me")).decode()
    command = [sys.executable, "-m", "tests.operations.worker", str(tmp_path / "lake"), "repo", "id", request]
    with subprocess.Popen([*command, point, str(LEASE)], stdout=subprocess.PIPE, cwd=ROOT) as worker:
        assert worker.stdout is not None
        try:
            assert worker.stdout.readline() == b"there\n"
            runner = Runner(lake.tables, {IMPORT: do_in_parts}, heartbeat=LEASE / 10, lease=LEASE)
            assert runner.look(opened, "id").attempt == 1, "who works is left alone, however long it takes"
        finally:
            worker.kill()  # SIGKILL: it can tell nobody
    never = Event()
    for _ in range(int(PATIENCE / 0.01)):
        operation = runner.look(opened, "id")
        if operation.is_finished:
            break
        never.wait(0.01)
    runner.close()
    assert (operation.state, operation.attempt) == (OperationState.COMPLETED, 2)
    assert operation.result == opened.branch("main").commit_id
    assert [entry.path for entry in opened.objects("main")] == [f"in/{number}" for number in range(10)]
    assert [commit.message for commit in opened.log("main").results][:2] == ["take over", "before"]
    lake.close()


@pytest.mark.parametrize("point", STEP_POINTS)
@pytest.mark.parametrize("make_ask", [merge_ask, commit_ask])
def test_another_execution_ends_what_a_killed_step_began(
    tmp_path: Path, point: str, make_ask: Callable[[OpenRepository], Asked]
) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        opened = lake.create_repository("repo", "local://repo", split=TINY)
        diverged(opened, 40)
        ask = make_ask(opened)
        tree = alone(opened, ask)
        operations = Operations(lake.tables, opened.repository.uid)
        kind = KINDS[type(ask.request)]
        now = opened.clock.now()
        operations.add(Operation("op", kind, msgspec.json.encode(ask), OperationState.RUNNING, now, now, attempt=1))
        command = [sys.executable, "-m", "tests.operations.step_worker", str(tmp_path / "lake"), "repo", "op", point]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as worker:
            assert worker.stdout is not None
            try:
                assert worker.stdout.readline() == b"there\n"
            finally:
                worker.kill()  # SIGKILL: it can tell nobody
        machine, task = Machine(lake, sizes=SMALL), Task("repo", "op", 1)
        planned = machine.plan(task)
        for number in planned.numbers:
            machine.part(task, number)
        assert machine.publish(task).state is Next.ENDED
        done = operations.get("op")
        assert (done.state, done.error) == (OperationState.COMPLETED, "")
        assert opened.branch("main").commit_id == done.result
        assert opened.commit_of("main").metarange_id == tree
        assert [commit.message for commit in opened.log("main").results].count("together") == 1
        assert not opened.uncommitted("main").results
