"""Real disk errors: a process whose reads, writes and syncs of chosen files fail or wait, also those that SQLite makes.

``brittle.c`` is compiled once per run and loaded before the C library. The code under test knows nothing of it.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from enum import IntFlag
from functools import cache
from pathlib import Path
from typing import Any

import pytest


class Kind(IntFlag):
    """System calls that can fail."""

    SYNC = 1
    WRITE = 2
    READ = 4


def begin(kind: Kind, named: str, first: int, last: int, error: int) -> None:
    """In a brittle process: from now on count the calls of these kinds for files whose path holds ``named``, the first is 0, and
    fail those from ``first`` to ``last`` with the number ``error``."""
    _library().brittle_begin(int(kind), named.encode(), ctypes.c_long(first), ctypes.c_long(last), error)


def hold(tell: int, go_on: int) -> None:
    """In a brittle process: each call that is counted writes a byte to the descriptor ``tell`` from now on, and waits for one
    from ``go_on`` before it is made."""
    _library().brittle_hold(tell, go_on)


def seen() -> int:
    """Calls counted since :func:`begin`."""
    return int(_library().brittle_seen())


def paths() -> list[str]:
    """The paths of the files of these calls, in the order in which they began."""
    found: bytes = _library().brittle_paths()
    return os.fsdecode(found).splitlines()


def run(program: str, *arguments: str) -> str:
    """Run a program in Python where :func:`begin` works. What it prints; AssertionError if it fails. Skips without a compiler."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "LD_PRELOAD": str(_compiled()), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def _library() -> Any:
    library = ctypes.CDLL(None)
    library.brittle_seen.restype = ctypes.c_long
    library.brittle_paths.restype = ctypes.c_char_p
    return library


@cache
def _compiled() -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("to make single system calls fail takes Linux and a C compiler")
    library = Path(tempfile.mkdtemp(prefix="graveler-brittle-")) / "brittle.so"
    source = Path(__file__).with_name("brittle.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library
