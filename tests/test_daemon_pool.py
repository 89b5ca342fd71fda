"""Threads that are waited for, except after an exception."""

import subprocess
import sys
from concurrent.futures import Future
from threading import Event

import pytest

from graveler.system.daemon_pool import DaemonPool
from tests.support.patience import PATIENCE


def test_results_and_errors_come_from_the_futures() -> None:
    with DaemonPool(3, "pool") as pool:
        results = [pool.submit(pow, number, exp=2) for number in range(50)]
        wrong = pool.submit(int, "x")
    assert [future.result() for future in results] == [number**2 for number in range(50)]
    with pytest.raises(ValueError, match="invalid literal"):
        wrong.result()


def test_the_end_of_the_block_waits_for_the_work() -> None:
    done: list[int] = []
    with DaemonPool(2, "pool") as pool:
        for number in range(20):
            pool.submit(done.append, number)
    assert sorted(done) == list(range(20))


def test_after_an_exception_what_waits_is_cancelled_and_what_hangs_is_left() -> None:
    begun, never = Event(), Event()

    def hang() -> None:
        begun.set()
        never.wait()

    def interrupted() -> None:
        with DaemonPool(1, "pool") as pool:
            futures.extend(pool.submit(hang) for _ in range(4))
            assert begun.wait(PATIENCE)
            raise KeyboardInterrupt

    futures: list[Future[None]] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    hanging, *waiting = futures
    assert all(future.cancelled() for future in waiting)
    assert not hanging.done()
    never.set()
    hanging.result(PATIENCE)


def test_the_process_ends_although_a_thread_hangs() -> None:
    program = (
        "import threading\nfrom graveler.system.daemon_pool import DaemonPool\n"
        "with DaemonPool(1, 'pool') as pool:\n    pool.submit(threading.Event().wait)\n    raise SystemExit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=False).returncode == 7
