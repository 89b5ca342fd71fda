"""Work that one thread repeats while something else runs, and never afterwards."""

import os
from threading import Event, Thread
from threading import enumerate as threads

import pytest

from graveler.lake import repetition as module
from graveler.lake.clock import SystemClock
from tests.support.children import end_process
from tests.support.patience import PATIENCE


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEP", 0.001)
    monkeypatch.setattr(module, "_repeaters", {})


def test_all_work_of_a_process_is_repeated_by_one_thread() -> None:
    repeated = [Event(), Event(), Event()]
    before = {each for each in threads() if each.name == "graveler-repeat"}
    with (
        SystemClock().repeating(0.0, repeated[0].set),
        SystemClock().repeating(0.0, repeated[1].set),
        SystemClock().repeating(0.0, repeated[2].set),
    ):
        for each in repeated:
            assert each.wait(PATIENCE)
            each.clear()
            assert each.wait(PATIENCE), "again and again"
        assert len({each for each in threads() if each.name == "graveler-repeat"} - before) == 1


def test_nothing_is_under_way_when_it_has_ended() -> None:
    begun, go_on = Event(), Event()
    calls = []

    def work() -> None:
        begun.set()
        go_on.wait(PATIENCE)
        calls.append("ended")

    def hold() -> None:
        with SystemClock().repeating(0.0, work):
            assert begun.wait(PATIENCE)

    holder = Thread(target=hold)
    holder.start()
    assert begun.wait(PATIENCE)
    go_on.set()
    holder.join()
    seen = len(calls)
    assert seen >= 1
    other = Event()
    with SystemClock().repeating(0.0, other.set):  # the thread has gone round since
        assert other.wait(PATIENCE)
    assert len(calls) == seen


def test_the_thread_ends_when_there_is_nothing_to_do_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE", 0.0)
    for _ in range(2):
        done = Event()
        with SystemClock().repeating(0.0, done.set):
            assert done.wait(PATIENCE)
            mine = [each for each in threads() if each.name == "graveler-repeat"]
        for each in mine:
            each.join(PATIENCE)
            assert not each.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_that_fails_by_mistake_ends_the_thread_and_the_next_one_begins_another() -> None:
    tried, done = Event(), Event()

    def fail() -> None:
        tried.set()
        raise RuntimeError("on purpose")

    with SystemClock().repeating(0.0, fail):
        assert tried.wait(PATIENCE)
        for each in threads():
            if each.name == "graveler-repeat":
                each.join(PATIENCE)
    with SystemClock().repeating(0.0, done.set):
        assert done.wait(PATIENCE)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own() -> None:
    done = Event()
    with SystemClock().repeating(0.0, done.set):
        assert done.wait(PATIENCE)
        child = os.fork()
        if child == 0:
            mine = Event()
            with SystemClock().repeating(0.0, mine.set):
                end_process(0 if mine.wait(PATIENCE) else 1)
        assert os.waitpid(child, 0)[1] == 0
