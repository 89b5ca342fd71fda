"""Ctrl-C while bytes come through a network that has gone silent: the command ends soon, and its message is true."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.server.support import KEY_ID, SECRET, Running, started
from tests.support.patience import PATIENCE

COMMAND = [sys.executable, "-m", "graveler.cli"]
LARGE = bytes(8 << 20)
PASSES = 1 << 20
"""Bytes of an answer that come through before the line is dead."""


class Line:
    """A line to a server, by a port of its own. While it is ``dead``, nothing comes back beyond the first bytes."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.to = 0
        self._sockets: list[socket.socket] = []
        self.stuck, self.alive = Event(), Event()
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
                self._sockets += [client, server]
                Thread(target=self._pass, args=(client, server, False), daemon=True).start()
                Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, giver: socket.socket, taker: socket.socket, back: bool) -> None:
        passed = 0
        with suppress(OSError):
            while piece := giver.recv(1 << 16):
                passed += len(piece)
                if back and passed > PASSES and not self.alive.is_set():
                    self.stuck.set()
                    self.alive.wait()
                taker.sendall(piece)
            taker.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.alive.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._listener.join()
        self._socket.close()
        for one in self._sockets:
            one.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


@pytest.fixture
def server(tmp_path: Path, line: Line) -> Iterator[Running]:
    with started(tmp_path, "--lake", str(tmp_path / "lake"), "--data-url", line.url, workers=1) as made:
        line.to = made.port
        yield made


def test_ctrl_c_ends_transfers_that_hang(server: Running, line: Line, tmp_path: Path) -> None:
    environment = os.environ | {
        "GRAVELER_ENDPOINT": server.url,
        "GRAVELER_ACCESS_KEY_ID": KEY_ID,
        "GRAVELER_SECRET_ACCESS_KEY": SECRET,
    }

    def begin(*arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*COMMAND, *arguments], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
        )

    def done(*arguments: str) -> None:
        process = begin(*arguments)
        assert (process.communicate(timeout=PATIENCE)[1], process.returncode) == ("", 0)

    def held(folder: str) -> dict[str, int]:
        return {
            path.name: path.stat().st_size for path in (tmp_path / folder).iterdir() if path.name[:10] != ".graveler-"
        }

    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "a").write_bytes(b"x")
    (tmp_path / "up" / "b").write_bytes(LARGE)
    done("repo", "create", "lake")
    done("put", "-r", "up", "lakefs://lake/main/d/")
    done("commit", "lakefs://lake/main", "-m", "m")
    for verb, told in (
        (("export", "lakefs://lake/main/d/", "out"), "run the export again to finish it"),
        (("get", "-r", "lakefs://lake/main/d/", "got"), "all of them complete"),
    ):
        line.stuck.clear()
        process = begin(*verb)
        assert line.stuck.wait(PATIENCE)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)  # the line is dead all the time
        assert (process.returncode, told in err) == (130, True), err
        left = sorted(path.name for path in (tmp_path / verb[-1]).iterdir())
        assert left in ([".graveler-export.json", "a"], [".graveler-export.json"], ["a"], []), left
    line.alive.set()
    for again in ("export", "lakefs://lake/main/d/", "out"), ("get", "-r", "lakefs://lake/main/d/", "got"):
        done(*again)
        assert held(again[-1]).items() >= {"a": 1, "b": len(LARGE)}.items()
