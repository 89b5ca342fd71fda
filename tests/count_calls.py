"""Counts of the functions of the package that a verb runs, for ``tests.count_house``."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final

import graveler

PACKAGE: Final = str(Path(graveler.__file__).parent)
REPOSITORY: Final = "sales"
END: Final = ("lake/committing/commit.py", "commit")
"""The function that makes a commit: a file and a name."""


class Calls:
    """The functions of the package that were called, by file and line, in threads that started since, and in this one.

    Neither bodies of modules and what runs for them count, nor comprehensions and lambdas.
    """

    def __init__(self, end: tuple[str, str] | None = None) -> None:
        self.functions: set[tuple[str, int]] = set()
        self.ended = False
        self._end = end
        self._thread = threading.local()

    def clear(self) -> None:
        """Forget the calls until now."""
        self.functions.clear()
        self.ended = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_name == "<module>":
            self._thread.imports = getattr(self._thread, "imports", 0) + (1 if event == "call" else -1)
        elif event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            if self._end is not None and code.co_name == self._end[1] and code.co_filename.endswith(self._end[0]):
                self.ended = True
            if not self.ended and not getattr(self._thread, "imports", 0):
                self.functions.add((code.co_filename, code.co_firstlineno))

    def __str__(self) -> str:
        return f"{len(self.functions)} ({len({file for file, _ in self.functions})})"


@contextmanager
def counting(end: tuple[str, str] | None = None) -> Iterator[Calls]:
    """Count calls, until the first one of the function ``end``."""
    calls = Calls(end)
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def count_put(folder: Path) -> Calls:
    """Open a lake, and upload an object, in a process that has loaded the Python API."""
    with counting() as calls, graveler.open(folder, user="ada") as lake:
        lake.repository(REPOSITORY).branch("main").object("a/b").upload(b"x")
    return calls


def count_commit(folder: Path) -> Calls:
    """Open a lake, and commit an object, in a process that has loaded the Python API."""
    with counting() as calls, graveler.open(folder, user="ada") as lake:
        lake.repository(REPOSITORY).branch("main").commit("a message")
    return calls


def count_request(folder: Path) -> Calls:
    """Send a request for a commit to a server that has answered one, and count to the lake's function."""
    from graveler.access.authentication import Access
    from graveler.access.permissions import Role
    from graveler.lake.opening.location import FolderLake, open_at
    from graveler.server.configuration import ServerSettings
    from graveler.server.worker import build_gateway
    from tests.api.support import basic
    from tests.server.support import arriving
    from tests.support.keyrings import keyring

    with open_at(FolderLake(folder)) as lake:
        key = basic(Access(lake.tables, keyring(lake.tables)).create_key("ada", Role.ADMIN))
    metrics = folder / "metrics"
    metrics.mkdir()
    body = b'{"message": "m", "allow_empty": true}'
    headers = {"authorization": key, "content-type": "application/json", "content-length": str(len(body))}
    scope = {
        "method": "POST",
        "raw_path": f"/api/v1/repositories/{REPOSITORY}/branches/main/commits".encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", "1"),
        "http_version": "1.1",
    }

    async def send(message: Mapping[str, object]) -> None:
        assert message.get("status", 201) == 201, message

    async def commit_twice() -> None:
        gateway = build_gateway(ServerSettings(lake=FolderLake(folder), metrics=metrics, audit_log=folder / "audit"))
        await gateway(scope, arriving(body), send)
        calls.clear()
        await gateway(scope, arriving(body), send)

    with counting(END) as calls:
        asyncio.run(commit_twice())
    assert calls.ended
    return calls


COUNTS: Final[Mapping[str, Callable[[Path], Calls]]] = {
    "put": count_put,
    "commit": count_commit,
    "request": count_request,
}


def counted() -> Mapping[str, str]:
    """Return what each of the counts is, as functions and, in brackets, files, each in a lake and a process of its own."""
    return {name: _in_a_process(name) for name in COUNTS}


def _in_a_process(name: str) -> str:
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "lake"
        with graveler.create(folder, user="ada") as lake:
            branch = lake.repository(REPOSITORY).create().branch("main")
            if name == "commit":
                branch.object("a/b").upload(b"x")
        command = [sys.executable, "-m", "tests.count_calls", name, str(folder)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main() -> None:
    graveler.open  # noqa: B018 - loads the Python API
    name, folder = sys.argv[1:]
    sys.stdout.write(f"{COUNTS[name](Path(folder))}\n")


if __name__ == "__main__":
    main()
