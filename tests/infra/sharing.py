"""Things made once for all workers of a test run, by the first one that needs them."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run, the same one for all its workers."""
    base = factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """No other worker is in such a block with this file."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def made_once(folder: Path, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that ``make`` fills, once for all workers. Who comes second waits; if ``make`` fails, the next one tries."""
    made = folder / name
    done = folder / f"{name}.made"
    with alone(folder / f"{name}.lock"):
        if not done.exists():
            make(made)
            done.touch()
    return made


@contextmanager
def held(
    folder: Path, name: str, start: Callable[[], dict[str, Any]], stop: Callable[[dict[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """What ``start`` starts, for as long as any worker is in this block: the first one starts it, the last one stops it. What it
    gives must be JSON, since workers are processes."""
    file = folder / f"{name}.json"
    lock = folder / f"{name}.lock"
    with alone(lock):
        state = msgspec.json.decode(file.read_bytes(), type=_State) if file.exists() else _State(0, start())
        file.write_bytes(msgspec.json.encode(_State(state.users + 1, state.told)))
    try:
        yield state.told
    finally:
        with alone(lock):
            state = msgspec.json.decode(file.read_bytes(), type=_State)
            if state.users > 1:
                file.write_bytes(msgspec.json.encode(_State(state.users - 1, state.told)))
            else:
                file.unlink()
                stop(state.told)


class _State(msgspec.Struct, frozen=True):
    users: int
    told: dict[str, Any]
