"""A process that is forked beside threads at work: the child never waits for a lock that one of them held."""

import os
import signal
import traceback
import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest

from graveler import forks
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from tests.lake.support import NAME, commit, put, texts
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
            locks = list(forks._locks)
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
                os._exit(code)
            assert os.waitpid(child, 0)[1] == 0, "see the child's error above"
        assert texts(repository, "main") == {"a": "1", "b": "2", "c": "3"}
