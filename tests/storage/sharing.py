"""Programs that fork while they have a table open, or read its files, beside another process that opens and closes it.

Run as ``python -m tests.storage.sharing <program> <folder> [<argument> …]``. A program ends with an error if anything is missing
that was acknowledged to anybody. Each write is noted in a journal when it was acknowledged.
"""

import ctypes
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dis import get_instructions
from functools import cache
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from threading import Event, Thread
from types import CodeType, FrameType
from weakref import WeakSet

import pytest

from graveler.errors import BusyError, UnavailableError
from graveler.storage import file_locks
from graveler.storage.tables import sqlite_files
from graveler.storage.tables.port import Key
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.sqlite_transactions import TableWrites
from tests.support.children import end_process
from tests.support.patience import PATIENCE

WRITES = 4


def note(journal: Path, name: str) -> None:
    with journal.open("a") as file:
        file.write(f"{name}\n")


def names_in(journal: Path) -> list[str]:
    return journal.read_text().split() if journal.exists() else []


def put(tables: SqliteTables, journal: Path, name: str) -> None:
    tables.put(Key("p", name.encode()), {"name": name})
    note(journal, name)


def visit(folder: Path) -> None:
    """Open the table, write, and close it, again and again, until standard input ends."""
    over = Event()

    def await_end() -> None:
        sys.stdin.read()
        over.set()

    Thread(target=await_end, daemon=True).start()
    number = 0
    while not over.is_set():
        with SqliteTables(folder / "t.db") as tables:
            put(tables, folder / "visitor", f"visitor-{number}")
        number += 1


@contextmanager
def visitors(folder: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.storage.sharing", "visit", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        await_visit(folder)
        try:
            yield
        finally:
            process.communicate()
    assert process.returncode == 0


def await_visit(folder: Path) -> None:
    """Wait until the visitor has opened the table and closed it again since this call."""
    before, deadline = len(names_in(folder / "visitor")), time.monotonic() + PATIENCE
    while len(names_in(folder / "visitor")) < before + 2:
        assert time.monotonic() < deadline, "the visitor waits for ever"
        time.sleep(0.001)


def check(folder: Path) -> None:
    """Compare the table with all journals."""
    expected = {name for file in ("visitor", "program", "child") for name in names_in(folder / file)}
    with SqliteTables(folder / "t.db") as tables:
        page = tables.query("p", limit=100_000)
        assert tables.integrity_errors() == []
    missing = expected - {key.decode() for key, _ in page.items}
    assert not missing, f"acknowledged and lost: {sorted(missing)}"


def work(tables: SqliteTables, folder: Path, name: str) -> None:
    """Write beside the visitor, in a child."""
    for number in range(WRITES):
        put(tables, folder / "child", f"{name}-{number}")
        assert tables.get(Key("p", f"{name}-{number}".encode())) is not None
        await_visit(folder)
    tables.close()


def work_with_its_own(folder: Path, name: str) -> None:
    work(SqliteTables(folder / "t.db"), folder, name)


@contextmanager
def busy(tables: SqliteTables, folder: Path, state: str) -> Iterator[None]:
    """Be in a state of the program in which it may fork."""
    over = Event()

    def read() -> None:
        while not over.is_set():
            tables.query("p", limit=1000)

    def write() -> None:
        number = 0
        while not over.is_set():
            put(tables, folder / "program", f"{state}-{os.getpid()}-{number}")
            number += 1

    threads = {"closed": [], "idle": [], "reading": [read, read], "writing": [write], "together": [write, write, read]}
    if state == "together":
        tables.write_together()
    if state == "closed":
        tables.close()
    running = [Thread(target=target, daemon=True) for target in threads[state]]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in running:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in running)


def start(method: str, target: Callable[..., None], arguments: tuple[object, ...]) -> BaseProcess:
    context = multiprocessing.get_context(method)
    child: BaseProcess = getattr(context, "Process")(target=target, args=arguments)  # noqa: B009 - typeshed lacks it
    child.start()
    return child


def fork(folder: Path, method: str, *states: str) -> None:
    """Start children in each state; they use the program's handle or one of their own, while the program closes its."""
    for state in states:
        tables = SqliteTables(folder / "t.db")
        put(tables, folder / "program", f"before-{state}")
        with busy(tables, folder, state), visitors(folder):
            targets: list[tuple[Callable[..., None], tuple[object, ...]]] = [
                (work, (tables, folder, f"{state}-inherited")),
                (work_with_its_own, (folder, f"{state}-own")),
            ]
            children = [start(method, target, arguments) for target, arguments in targets]
            if state in ("closed", "idle"):  # the children have the table to themselves, but for the visitor
                tables.close()
            for child in children:
                child.join(PATIENCE)
            assert [child.exitcode for child in children] == [0, 0], state
            put(tables, folder / "program", f"after-{state}")
        tables.close()
        check(folder)


def load(folder: Path) -> None:
    """Read with a pool of forked workers that stay, as loaders of training data do, while the program writes."""
    tables = SqliteTables(folder / "t.db")
    for number in range(WRITES):
        put(tables, folder / "program", f"row-{number}")
    context = multiprocessing.get_context("fork")
    with visitors(folder), ProcessPoolExecutor(2, context, initializer=keep, initargs=(tables,)) as pool:
        for number in range(WRITES):
            rows = list(pool.map(read_row, [f"row-{index}" for index in range(WRITES + number)]))
            assert None not in rows
            put(tables, folder / "program", f"row-{WRITES + number}")
            await_visit(folder)
    tables.close()
    check(folder)


_tables: list[SqliteTables] = []


def keep(tables: SqliteTables) -> None:
    _tables.append(tables)


def read_row(name: str) -> object:
    return _tables[0].get(Key("p", name.encode()))


def read_files(folder: Path, way: str) -> None:
    """Open and close the table's files in the program that has it open."""
    tables = SqliteTables(folder / "t.db")
    put(tables, folder / "program", "before")
    files = [folder / f"t.db{ending}" for ending in ("", "-wal", "-shm")]
    with visitors(folder):
        for number in range(WRITES):
            if way == "copy":
                shutil.copytree(folder, folder.parent / f"copy-{number}")
            elif way == "links":
                for position, file in enumerate(files):
                    link = folder / f"link-{number}-{position}"
                    with suppress(FileNotFoundError):
                        os.link(file, link) if position % 2 else link.symlink_to(file)
                        link.read_bytes()
            else:
                for file in files:
                    os.close(os.open(file, os.O_RDWR))
            await_visit(folder)
            put(tables, folder / "program", f"{way}-{number}")
            assert tables.get(Key("p", f"{way}-{number}".encode())) is not None
            assert tables.get(Key("p", names_in(folder / "visitor")[-1].encode())) is not None
        tables.close()
        await_visit(folder)
    check(folder)


def read_files_amid_writes(folder: Path, seconds: str) -> None:
    """Open and close the files all the time while several threads write, and the visitor, too."""
    tables = SqliteTables(folder / "t.db")
    files = [folder / f"t.db{ending}" for ending in ("", "-wal", "-shm")]
    deadline = time.monotonic() + float(seconds)
    with busy(tables, folder, "together"), visitors(folder):
        while time.monotonic() < deadline:
            for file in files:
                with suppress(FileNotFoundError):
                    os.close(os.open(file, os.O_RDONLY))
    tables.close()
    check(folder)


def fork_in_c(folder: Path, state: str) -> None:
    """Fork as a C library does, of which Python is not told."""
    tables = SqliteTables(folder / "t.db", busy_seconds=2)
    put(tables, folder / "program", "before")
    inside, go_on = Event(), Event()

    def stay() -> None:
        with tables.writes.transaction():
            inside.set()
            go_on.wait()

    thread = Thread(target=stay)
    if state == "in use":
        thread.start()
        inside.wait()
    child = ctypes.PyDLL(None).fork()
    if not child:
        code = 1
        try:
            for handle in (tables, SqliteTables(folder / "t.db", busy_seconds=2)):
                with pytest.raises(UnavailableError, match="spawn"):
                    handle.put(Key("p", b"child"), {})
            code = 0
        finally:
            end_process(code)
    if state == "in use":
        assert os.waitpid(child, 0)[1] == 0
        go_on.set()
        thread.join()
    else:
        with visitors(folder):
            tables.close()
            assert os.waitpid(child, 0)[1] == 0
    tables.close()
    check(folder)


def die_in_a_write(folder: Path) -> None:
    """Fork while a thread writes, for which the fork waits in vain; then die, while the child lives."""
    reader, writer = os.pipe()
    parent = os.fork()
    if not parent:
        sqlite_files._PATIENCE = 0.01  # type: ignore[misc]
        tables = SqliteTables(folder / "t.db")
        inside = Event()

        def stay() -> None:
            with tables.writes.transaction():
                inside.set()
                Event().wait()

        Thread(target=stay, daemon=True).start()
        inside.wait()
        if os.fork():
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(writer)
        os.read(reader, 1)
        end_process(0)
    os.waitpid(parent, 0)
    with SqliteTables(folder / "t.db", busy_seconds=1) as tables:
        put(tables, folder / "program", "after")
    os.close(writer)
    check(folder)


def fork_in_handlers(folder: Path) -> None:
    """Fork at each of the steps at which a signal handler can run while a connection is opened."""

    sqlite_files._PATIENCE = 0.01  # type: ignore[misc] # some forks wait in vain: this thread has a connection
    codes = sqlite_files.opening.__wrapped__.__code__, WeakSet.add.__code__  # type: ignore[attr-defined]

    def fork_here(frame: FrameType, event: str, _: object) -> object:
        if event == "opcode" and frame.f_code in codes and frame.f_lasti in offsets_behind_calls(frame.f_code):
            child = os.fork()
            if not child:
                end_process(0)
            assert os.waitpid(child, 0)[1] == 0
        frame.f_trace_opcodes = True
        return fork_here

    sys.settrace(fork_here)  # type: ignore[arg-type]
    tables = SqliteTables(folder / "t.db")
    tables.get(Key("p", b"0"))
    sys.settrace(None)
    put(tables, folder / "program", "after")
    tables.close()
    check(folder)


class _StopError(Exception):
    pass


def interrupt(folder: Path) -> None:
    """Raise an exception at each step of a write at which a signal handler can run."""
    tables = SqliteTables(folder / "t.db", busy_seconds=1)
    put(tables, folder / "program", "before")
    codes = {
        TableWrites.transaction.__wrapped__.__code__,  # type: ignore[attr-defined]
        TableWrites.begin.__code__,
        sqlite_files.TableFile.lock_writes.__code__,
        file_locks.ByteRange.lock.__code__,
    }
    with (folder / "t.db").open("rb+") as stream:
        for step in range(10_000):
            left = step

            def stop(frame: FrameType, event: str, _: object) -> object:
                nonlocal left
                if event == "opcode" and frame.f_code in codes and frame.f_lasti in offsets_behind_calls(frame.f_code):
                    left -= 1
                    if left < 0:
                        raise _StopError
                frame.f_trace_opcodes = True
                return stop

            sys.settrace(stop)  # type: ignore[arg-type]
            try:
                tables.put(Key("p", b"before"), {})
            except _StopError:
                pass
            finally:
                sys.settrace(None)
            assert sqlite_files._WRITING.blocker(stream.fileno()) is None, step
            assert not tables.handle.connections.writing._is_owned(), step  # type: ignore[attr-defined]
            if left >= 0:
                break
    assert step > 10
    tables.close()
    check(folder)


@cache
def offsets_behind_calls(code: CodeType) -> frozenset[int]:
    """Return the offsets of the instructions before which the interpreter looks for signals."""
    instructions = list(get_instructions(code))
    return frozenset(
        following.offset for instruction, following in pairwise(instructions) if instruction.opname.startswith("CALL")
    )


def fork_often(folder: Path) -> None:
    """Use a handle after each of many forks."""
    tables = SqliteTables(folder / "t.db")
    put(tables, folder / "program", "before")
    for _ in range(20):
        child = os.fork()
        if not child:
            end_process(0)
        os.waitpid(child, 0)
        assert tables.get(Key("p", b"before")) is not None
    assert len(sqlite_files._pools) == 1
    tables.close()
    check(folder)


def campaign(folder: Path, seconds: str) -> None:
    """Fork, copy and close at random, with children that are killed."""
    random, deadline = Random(os.environ.get("GRAVELER_SEED", "1")), time.monotonic() + float(seconds)
    number = 0
    while time.monotonic() < deadline:
        number += 1
        state = random.choice(("closed", "idle", "reading", "writing", "together"))
        tables = SqliteTables(folder / "t.db")
        with busy(tables, folder, state), visitors(folder):
            children: list[BaseProcess] = []
            for index in range(2):
                children.append(start("fork", work, (tables, folder, f"{number}-{index}")))
                children.append(start("fork", work_with_its_own, (folder, f"{number}-{index}-own")))
                if random.random() < 0.5:
                    with suppress(shutil.Error):  # while it is open nowhere, the visitor removes log and index
                        shutil.copytree(folder, folder.parent / "copy", dirs_exist_ok=True)
            killed = [child for child in children if random.random() < 0.3]
            for child in killed:
                await_visit(folder)
                child.kill()
            for child in children:
                child.join(PATIENCE)
                assert child.exitcode == 0 or child in killed, (state, child.exitcode)
        with suppress(BusyError):
            tables.close()
        check(folder)
    sys.stdout.write(f"{number} rounds, {len(names_in(folder / 'visitor')):,} visits")


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]] = {
        "visit": visit,
        "fork": fork,
        "load": load,
        "read_files": read_files,
        "read_files_amid_writes": read_files_amid_writes,
        "fork_in_c": fork_in_c,
        "die_in_a_write": die_in_a_write,
        "fork_in_handlers": fork_in_handlers,
        "interrupt": interrupt,
        "fork_often": fork_often,
        "campaign": campaign,
    }
    programs[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
