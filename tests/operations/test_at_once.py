"""Parts that one process works on at the same time, with worker processes that are killed: the result is the commit of one
call."""

import os
import signal
from pathlib import Path
from threading import Barrier, Lock
from typing import IO

import msgspec
import pytest

from graveler.errors import InvalidError
from graveler.lake.opening.folder import create_folder_lake
from graveler.operations import one_process
from graveler.operations.kinds import KINDS
from graveler.operations.one_process import AT_ONCE, do_in_parts
from graveler.operations.parts.rounds import PartDone
from graveler.operations.pinned_requests import MERGE
from graveler.operations.runner import Runner
from graveler.operations.steps import Steps
from graveler.operations.store import Operation, OperationState
from graveler.operations.work import CancelledError, Report
from graveler.runtime import crew as crews
from graveler.tree import stretches as sharing
from tests.lake.support import TINY, World
from tests.operations.support import SMALL, alone, diverged, merge_ask, operations, write_down
from tests.support.patience import PATIENCE
from tests.support.shell import Shell

pytestmark = pytest.mark.usefixtures("small_parts")


def begun() -> tuple[World, str]:
    """A merge that waits to be worked on, and the tree that one call makes."""
    world = World()
    diverged(world.main)
    ask = merge_ask(world.main)
    tree = alone(world.main, ask)
    write_down(world, ask)
    return world, tree


def test_parts_are_worked_on_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world, tree = begun()
    meeting = Barrier(AT_ONCE)
    run = Steps.run_part

    def together(self: Steps, number: int, *arguments: object) -> PartDone:
        meeting.wait(PATIENCE)  # nobody works alone: there are six
        return run(self, number, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Steps, "run_part", together)
    commit = do_in_parts(world.repository(), "op", b"", Report())
    assert world.main.commit_of(commit).metarange_id == tree
    assert operations(world).progress(operations(world).get("op")).parts == SMALL.parts


def test_a_part_that_fails_keeps_others_from_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = begun()
    head = world.main.branch("main").commit_id
    worked: list[int] = []
    meeting = Barrier(AT_ONCE)

    def fails(self: Steps, number: int, *arguments: object) -> PartDone:
        worked.append(number)
        meeting.wait(PATIENCE)
        raise InvalidError(f"part {number} cannot be")

    monkeypatch.setattr(Steps, "run_part", fails)
    with pytest.raises(InvalidError, match=r"part \d cannot be"):
        do_in_parts(world.repository(), "op", b"", Report())
    assert len(worked) == AT_ONCE < SMALL.parts
    assert world.main.branch("main").commit_id == head


def test_cancelling_ends_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = begun()
    report, worked = Report(), Lock()
    run = Steps.run_part

    def cancels(self: Steps, number: int, *arguments: object) -> PartDone:
        if not worked.acquire(blocking=False):
            report.cancelled.set()  # by the second of them
        return run(self, number, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Steps, "run_part", cancels)
    with pytest.raises(CancelledError):
        do_in_parts(world.repository(), "op", b"", report)
    assert operations(world).progress(operations(world).get("op")).parts < SMALL.parts


@pytest.fixture
def two_workers(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    """Two workers, and what is worth sharing is little."""
    shell.export("GRAVELER_WORKERS", "2")
    for name, value in (("ENOUGH", 30), ("TASK", 10)):
        monkeypatch.setattr(sharing, name, value)


class Killer:
    """Kills the process that a task was just sent to, before it answers: for so many tasks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kills: int) -> None:
        self.killed: list[int] = []
        self._left = kills
        self._lock = Lock()
        self._receive = crews._receive
        monkeypatch.setattr(crews, "_receive", self.receive)

    def receive(self, pipe: IO[bytes]) -> bytes | None:
        with self._lock:
            kills, self._left = self._left > 0, self._left - 1
        if kills:
            workers = [worker for crew in crews._crews.values() for worker in crew._workers]
            (process,) = [worker._process for worker in workers if worker._process and worker._process.stdout is pipe]
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            self.killed.append(process.pid)
        return self._receive(pipe)


@pytest.mark.usefixtures("two_workers")
def test_worker_processes_that_are_killed_cost_time_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice over one task, so that its part is begun again, and once more."""
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("repo", "local://repo", split=TINY)
        diverged(repository, 300)
        ask = merge_ask(repository)
        tree = alone(repository, ask)
        killer = Killer(monkeypatch, kills=5)
        runner = Runner(lake.tables, KINDS, heartbeat=0.05)
        try:
            operation = runner.start(repository, MERGE, msgspec.json.encode(ask), "op", branch="main")
            while not (operation := runner.look(repository, "op")).is_finished:
                repository.clock.sleep(0.02)
        finally:
            runner.close()
        assert (operation.state, operation.error, operation.attempt) == (OperationState.COMPLETED, "", 1)
        assert repository.commit_of("main").id == operation.result
        assert repository.commit_of("main").metarange_id == tree
        assert len(set(killer.killed)) == 5


@pytest.mark.usefixtures("two_workers")
def test_a_part_that_kills_every_worker_process_ends_its_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that needs more memory than there is: it is given up after some tries, the process lives, and so do its others."""
    monkeypatch.setattr(one_process, "_PAUSES", (0.0, 0.0))
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("repo", "local://repo", split=TINY)
        diverged(repository, 300)
        ask = merge_ask(repository)
        tree, head = alone(repository, ask), repository.commit_of("main")
        runner = Runner(lake.tables, KINDS, heartbeat=0.05)

        def run(name: str) -> Operation:
            operation = runner.start(repository, MERGE, msgspec.json.encode(ask), name, branch="main")
            while not (operation := runner.look(repository, name)).is_finished:
                repository.clock.sleep(0.02)
            return operation

        try:
            with monkeypatch.context() as patch:
                killer = Killer(patch, kills=1_000)
                failed = run("op")
            assert (failed.state, failed.attempt) == (OperationState.FAILED, 1)
            assert "a worker process ended before its task was done (out of memory?)" in failed.error
            assert failed.error_kind == "UnavailableError"
            assert repository.commit_of("main") == head
            assert 4 <= len(killer.killed) < 100
            done = run("again")
        finally:
            runner.close()
        assert (done.state, done.error) == (OperationState.COMPLETED, "")
        assert repository.commit_of("main").metarange_id == tree
