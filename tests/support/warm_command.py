"""The command ``graveler`` for sessions of many commands: each runs in a child of one process that has loaded the command before.

Most of the time of a short command goes into loading modules. Here a process loads them once (:func:`serve`), and forks for each
command. The ``graveler`` that a shell finds in :func:`warm_command`'s folder is a small program: it hands its arguments, folder,
environment and standard streams over, and ends with the command's exit status. How the command starts by itself is tested in
``tests/cli``.
"""

import gc
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import msgspec

_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = ("graveler.cli", "graveler.lake", "graveler.location", "graveler.storage")
"""The packages whose modules most commands load."""
_LEFT_OUT = ("__main__", "sql_process")
"""Modules that no command loads: what runs by itself, and the process of SQL, whose database makes each fork slow."""

_CLIENT = """#!{python} -IS
import _socket, os, sys
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect({address!r})
parts = [os.getcwd(), str(len(sys.argv)), *sys.argv, *(name + "=" + value for name, value in os.environ.items())]
document = os.fsencode("\\0".join(parts))
streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
connection.sendmsg([len(document).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
connection.sendall(document)
status = connection.recv(1)
sys.exit(status[0] if status else "the process of the commands has ended")
"""


class Call(msgspec.Struct, frozen=True):
    """A command: its arguments, its folder, its environment and its standard streams."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    streams: list[int]


@contextmanager
def warm_command() -> Iterator[str]:
    """Yield a value for ``PATH`` whose ``graveler`` is the warm one."""
    with TemporaryDirectory() as name:  # not pytest's own, whose paths are too long for a socket
        folder = Path(name)
        client = folder / "graveler"
        client.write_text(_CLIENT.format(python=sys.executable, address=f"{folder}/socket"))
        client.chmod(0o755)
        command = [sys.executable, "-m", __name__, f"{folder}/socket"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_ROOT) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield os.pathsep.join((name, str(Path(sys.executable).parent), os.environ["PATH"]))
            process.kill()


def serve(address: str) -> None:
    """Load the command, and run it for everybody who connects, each in a process of its own."""
    for name in _ROOMS:
        for module in pkgutil.walk_packages(import_module(name).__path__, f"{name}."):
            if not module.name.endswith(_LEFT_OUT):
                import_module(module.name)
    gc.collect()
    gc.freeze()  # no child copies the pages of all modules by looking for garbage, or in its end
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> NoReturn:
    """Run a command, and answer with its exit status as a shell has it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    call = _received(connection)
    process = os.fork()
    if not process:
        connection.close()
        _run(call)
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    connection.send(bytes([code if code >= 0 else 128 - code]))
    os.kill(os.getpid(), signal.SIGKILL)  # at once: an interpreter's end takes as long as a command
    raise AssertionError("a process goes on after it was killed")


def _received(connection: socket.socket) -> Call:
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    document = bytearray()
    while len(document) < int.from_bytes(size, "big"):
        document += connection.recv(1 << 16)
    folder, amount, *texts = os.fsdecode(bytes(document)).split("\0")
    environment = dict(text.split("=", 1) for text in texts[int(amount) :])
    return Call(texts[: int(amount)], folder, environment, streams)


def _run(call: Call) -> NoReturn:
    from graveler.cli.main import main

    for target, stream in enumerate(call.streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(call.folder)
    os.environ.clear()
    os.environ.update(call.environment)
    sys.argv = call.arguments
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    sys.exit(main())


if __name__ == "__main__":
    serve(sys.argv[1])
