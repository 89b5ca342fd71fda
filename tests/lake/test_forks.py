"""A process that is forked beside threads at work: the child never waits for a lock that one of them held."""

import os
import signal
import subprocess
import sys
import traceback
import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest

from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.system import forks
from tests.lake.support import NAME, commit, put, texts
from tests.support.children import end_process
from tests.support.patience import PATIENCE


def every_verb(repository: OpenRepository) -> None:
    put(repository, {"b": "2"})
    repository.create_branch("side", "main")
    commit(repository, {"c": "3"}, "side", "side")
    repository.commit("main", "here")
    repository.merge("side", "main")
    assert texts(repository, "main") == {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize("new_handle", [False, True])
def test_a_child_works_whatever_lock_a_thread_of_its_parent_held(tmp_path: Path, new_handle: bool) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository(NAME, (tmp_path / "objects").as_uri())
        commit(repository, {"a": "1"}, message="base")
        assert texts(repository, "main") == {"a": "1"}
        with ExitStack() as held, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads: that is what this is about
            locks = list(forks.locks)
            assert len(locks) >= 5
            for lock in locks:
                held.enter_context(lock)
            child = os.fork()
            if not child:
                code = 1
                try:
                    signal.alarm(int(PATIENCE))  # instead of hanging
                    every_verb(lake.repository(NAME) if new_handle else repository)
                    code = 0
                except BaseException:  # noqa: BLE001 - the parent only sees the code
                    traceback.print_exc()
                end_process(code)
            assert os.waitpid(child, 0)[1] == 0, "see the child's error above"
        assert texts(repository, "main") == {"a": "1", "b": "2", "c": "3"}


def test_a_worker_that_outlives_its_parents_lake_loses_no_upload_to_commands(tmp_path: Path) -> None:
    """A program starts a process that uploads, and closes the lake; meanwhile somebody works on the command line."""
    program = """
import multiprocessing, subprocess, sys
from pathlib import Path
from graveler.lake.opening.folder import open_folder_lake
from tests.lake.support import put

def upload(repository):
    for number in range(4):
        put(repository, {f"worker/{number}": "x"})
        command = ["-c", "from graveler.cli.main import main; main()", "--lake", sys.argv[1], "put", "-", f"lakefs://repo/main/command/{number}"]
        subprocess.run([sys.executable, *command], input=b"x", check=True, capture_output=True)

lake = open_folder_lake(Path(sys.argv[1]))
repository = lake.repository("repo")
repository.stat("main", "there")
worker = multiprocessing.get_context("fork").Process(target=upload, args=(repository,))
worker.start()
lake.close()
worker.join()
sys.exit(worker.exitcode)
"""
    folder = tmp_path / "lake"
    with create_folder_lake(folder) as lake:
        put(lake.create_repository("repo", (tmp_path / "objects").as_uri()), {"there": "1"})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program, str(folder)], env=environment, timeout=PATIENCE, check=True)
    with open_folder_lake(folder) as lake:
        paths = {entry.path for entry in lake.repository("repo").list_objects("main").results}
    assert paths == {"there", *(f"{side}/{number}" for side in ("worker", "command") for number in range(4))}
