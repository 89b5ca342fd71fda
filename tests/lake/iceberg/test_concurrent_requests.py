"""Work of which several tasks run at a time on S3: results and errors come in order of the tasks."""

from pathlib import Path
from threading import Barrier, Event, current_thread

import pytest

from graveler.lake.iceberg.concurrent_requests import concurrent_results
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.memory import MemoryObjects
from tests.support.patience import PATIENCE

STORE = MemoryObjects("mem://repo")


def test_so_many_tasks_run_at_a_time_and_results_are_in_order() -> None:
    meeting = Barrier(3)

    def work(task: int) -> int:
        meeting.wait(PATIENCE)
        return task * task

    assert list(concurrent_results((STORE,), work, range(9), 3)) == [task * task for task in range(9)]


def test_the_error_of_the_task_that_comes_before_is_raised_though_it_happens_later() -> None:
    failed = Event()

    def work(task: int) -> None:
        if task == 1:
            failed.set()
        assert failed.wait(PATIENCE)
        raise ValueError(task)

    with pytest.raises(ValueError, match="0"):
        list(concurrent_results((STORE,), work, range(2)))


def test_tasks_in_folders_and_single_ones_run_in_the_thread_of_the_caller(tmp_path: Path) -> None:
    caller = current_thread().name
    folder = FolderObjects(tmp_path, "local://repo")
    assert set(concurrent_results((folder,), lambda _: current_thread().name, range(3))) == {caller}
    assert set(concurrent_results((STORE,), lambda _: current_thread().name, range(1))) == {caller}
    assert caller not in set(concurrent_results((STORE,), lambda _: current_thread().name, range(3)))
