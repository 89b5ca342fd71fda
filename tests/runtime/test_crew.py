"""Worker processes: answers come in order, errors arrive, processes end with their crew."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.errors import UnavailableError
from graveler.runtime import crew as crews
from graveler.runtime.crew import Crew
from graveler.runtime.local import LocalRuntime, processors
from tests.support.children import end_process
from tests.support.shell import Shell


def test_a_worker_that_was_killed_is_replaced() -> None:
    crew = Crew(1)
    try:
        (first,) = crew.run(os.getpid, [()])
        os.kill(first, signal.SIGKILL)
        (second,) = crew.run(os.getpid, [()])
        assert len({first, second, os.getpid()}) == 3
        with pytest.raises(UnavailableError, match="GRAVELER_WORKERS"):
            list(crew.run(end_process, [(1,)]))
        assert list(crew.run(len, [("abc",), ("",)])) == [3, 0]
    finally:
        crew.end()


def test_a_crew_runs_from_its_first_tasks_until_it_ends() -> None:
    crew = Crew(1)
    try:
        assert not crew.is_running
        (worker,) = crew.run(os.getpid, [()])
        assert crew.is_running
        os.kill(worker, signal.SIGKILL)
        os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
        assert not crew.is_running
        assert list(crew.run(len, [("abc",)])) == [3]
        assert crew.is_running
    finally:
        crew.end()
    assert not crew.is_running


def test_asking_whether_a_crew_runs_starts_none() -> None:
    size = 7  # nobody else's
    assert not LocalRuntime(workers=size).has_crew
    assert not LocalRuntime(workers=1).has_crew
    assert not crews.is_running(size)
    try:
        assert list(LocalRuntime(workers=size).crew().run(abs, [(-n,) for n in range(50)])) == list(range(50))
        assert LocalRuntime(workers=size).has_crew
    finally:
        crews.crew(size).end()


def test_answers_come_in_order_and_tasks_are_drawn_a_few_ahead() -> None:
    drawn: list[int] = []

    def tasks() -> Iterator[tuple[object, ...]]:
        for n in range(50):
            drawn.append(n)
            yield (n,)

    crew = Crew(2)
    try:
        answers = crew.run(abs, tasks())
        assert next(answers) == 0
        assert len(drawn) <= 6
        assert list(answers) == list(range(1, 50))
    finally:
        crew.end()


def test_workers_end_with_their_crew_and_print_nothing_into_the_answers() -> None:
    crew = Crew(1)
    assert list(crew.run(print, [("not an answer",)])) == [None]
    (worker,) = crew.run(os.getpid, [()])
    crew.end()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_the_number_of_workers_can_be_said(shell: Shell) -> None:
    shell.export("GRAVELER_WORKERS", "3")
    assert processors() == 3
    shell.export("GRAVELER_WORKERS", "0")
    assert processors() == 1
    shell.unset("GRAVELER_WORKERS")
    assert 1 <= processors() <= 8


def test_a_forked_child_has_a_crew_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = crews.crew(2)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    theirs = crews.crew(2)
    assert theirs is not ours
    theirs.end()


def test_relative_paths_mean_in_a_worker_what_they_mean_here(tmp_path: Path, shell: Shell) -> None:
    workers = crews.crew(2)
    assert list(workers.run(os.getcwd, [()])) == [str(Path.cwd())]
    shell.cd(tmp_path)
    assert list(workers.run(os.getcwd, [()])) == [str(tmp_path)]
