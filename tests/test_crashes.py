"""The report of a test whose worker crashed says how the process ended, and where."""

import subprocess
import sys
from pathlib import Path

_CONFTEST = """
from tests.support.crashes import Crashes

def pytest_configure(config):
    config.pluginmanager.register(Crashes(config))
"""
_TESTS = """
import ctypes, os, signal, threading
from tests.support.children import end_process

def test_address():
    ready, never = threading.Semaphore(0), threading.Lock()
    never.acquire()
    def wait(): never.acquire(timeout=60) if ready.release() is None else None  # one line, so all of them have one stack
    for _ in range(3):
        threading.Thread(target=wait, daemon=True).start()
        ready.acquire()
    ctypes.string_at(0)

def test_signal():
    os.kill(os.getpid(), signal.SIGKILL)

def test_status():
    end_process(3)
"""


def test_crashes_are_reported_with_their_end_and_stacks(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_crashes.py").write_text(_TESTS)
    options = ["-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "--rootdir"]
    command = [sys.executable, *options, str(tmp_path), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    report, _, summary = run.stdout.partition("= short test summary")
    reports = dict(crash.split("'\n", 1) for crash in report.split("crashed while running 'test_crashes.py::")[1:])
    assert "its process was ended by SIGSEGV" in reports["test_address"]
    stacks = reports["test_address"].split("\n\n")
    (crashed,) = [place for place, stack in enumerate(stacks) if "in test_address" in stack]
    (waiting,) = [
        place for place, stack in enumerate(stacks) if stack.rstrip().endswith("in _bootstrap") and "in wait" in stack
    ]
    assert stacks[crashed].startswith("Current thread ")
    assert crashed < waiting
    assert stacks[waiting].count("Thread 0x") == 3
    assert reports["test_signal"].startswith("its process was ended by SIGKILL\nit wrote no stacks")
    assert reports["test_status"].startswith("its process ended with status 3\nit wrote no stacks")
    assert "3 failed" in summary
