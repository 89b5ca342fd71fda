"""Files of killed processes in temporary folders are removed at the next start; those of living ones stay."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import pytest

from graveler.cli.local_files import write_file
from graveler.runtime.local import ScratchFolder
from graveler.system import temporary_files
from graveler.system.temporary_files import own_folder
from graveler.tree.sstable import write_table
from tests.support.children import end_process

READY = """
def wait():
    print("ready", flush=True)
    sys.stdin.read()
"""
FOLDER = (
    """
import sys
from pathlib import Path
from graveler.system.temporary_files import own_folder
(own_folder(Path(sys.argv[1])) / "left").write_text("left")
"""
    + READY
    + "wait()"
)
TABLE = (
    """
import sys
from pathlib import Path
from graveler.runtime.local import ScratchFolder
from graveler.tree.sstable import write_table
"""
    + READY
    + """
def packed():
    yield b"first"
    wait()
write_table([b"a", b"b"], packed(), ScratchFolder(Path(sys.argv[1])))
"""
)
DOWNLOAD = (
    """
import sys
from pathlib import Path
from graveler.cli.local_files import write_file
"""
    + READY
    + """
def pieces():
    yield b"half"
    wait()
write_file(Path(sys.argv[1]) / "target", pieces())
"""
)
STANDARD_INPUT = (
    """
import io, os, sys
from pathlib import Path
os.environ["TMPDIR"] = sys.argv[1]
from graveler.cli.local_files import whole
"""
    + READY
    + """
terminal, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(bytes(9 << 20)))
with whole(Path("-")):
    sys.stdin = terminal
    wait()
"""
)


@contextmanager
def at_work(program: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in the midst of its work, which comes to its end when the block does, unless it is killed before."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield process
    finally:
        process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def left(folder: Path) -> set[Path]:
    return set(folder.iterdir())


def start(folder: Path) -> None:
    """What a process does that needs a temporary folder, from its start to its end."""
    with at_work(FOLDER, folder):
        pass


@pytest.mark.parametrize("program", [FOLDER, TABLE, STANDARD_INPUT], ids=["folder", "table", "standard input"])
def test_what_a_killed_process_left_goes_at_the_next_start_and_a_living_ones_stays(
    tmp_path: Path, program: str
) -> None:
    with at_work(program, tmp_path) as dead, at_work(program, tmp_path) as alive:
        assert len(left(tmp_path)) == 2
        kill(dead)
        start(tmp_path)
        [stays] = left(tmp_path)
        assert list(stays.iterdir())
        kill(alive)
        start(tmp_path)
        assert left(tmp_path) == set()


@pytest.mark.parametrize("program", [FOLDER, TABLE, STANDARD_INPUT], ids=["folder", "table", "standard input"])
def test_a_process_that_ends_leaves_nothing(tmp_path: Path, program: str) -> None:
    with at_work(program, tmp_path):
        assert left(tmp_path)
    assert left(tmp_path) == set()


def test_a_download_that_was_killed_goes_with_the_next_one_and_a_living_one_stays(tmp_path: Path) -> None:
    with at_work(DOWNLOAD, tmp_path) as dead, at_work(DOWNLOAD, tmp_path):
        assert len(left(tmp_path)) == 2
        kill(dead)
        assert write_file(tmp_path / "other", [b"other"]) == 5
        assert len(left(tmp_path)) == 2, "the other one, and the living one's"
    assert left(tmp_path) == {tmp_path / "other", tmp_path / "target"}
    assert (tmp_path / "target").read_bytes() == b"half"


def test_starts_at_once_are_in_nobodys_way(tmp_path: Path) -> None:
    for _ in range(3):
        with at_work(FOLDER, tmp_path) as dead:
            kill(dead)
    assert len(left(tmp_path)) >= 1
    command = [sys.executable, "-c", FOLDER, str(tmp_path)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in processes] == ["ready\n"] * 4
    assert [process.returncode for process in processes] == [0] * 4
    assert left(tmp_path) == set()


def name(user: int | None = None) -> str:
    return f"graveler-{os.geteuid() if user is None else user}-{token_hex(8)}"


def foreign(folder: Path, elsewhere: Path) -> None:
    """Things that look like what a killed process left, and are not."""
    (folder / name(os.geteuid() + 1)).mkdir()
    (folder / "graveler-gc-abcd_123").mkdir()
    (folder / "graveler-abcd_123").mkdir()
    (folder / name()).write_text("a file")
    (folder / name()).symlink_to(elsewhere)
    os.mkfifo(folder / name())


def test_what_is_not_a_killed_processs_stays(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("precious")
    foreign(here, elsewhere)
    inside = here / name()
    inside.mkdir()
    (inside / "link").symlink_to(elsewhere)
    before = left(here) - {inside}
    start(here)
    assert left(here) == before
    assert (elsewhere / "precious").read_text() == "precious"


def test_where_the_file_system_has_no_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    dead = tmp_path / name()
    dead.mkdir()
    mine = own_folder(tmp_path)
    assert left(tmp_path) == {dead, mine}
    assert write_file(tmp_path / "x", [b"x"]) == 1


@pytest.mark.parametrize("make", [own_folder, lambda folder: write_file(folder / "x", [b"x"])], ids=["folder", "file"])
def test_who_is_swept_before_it_could_lock_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    """Another process takes a new folder for a dead one's: between making and locking there is a moment."""
    lock = fcntl.flock
    swept: list[Path] = []

    def sweep_first(descriptor: int, operation: int) -> None:
        if not swept:
            swept.extend(left(tmp_path))
            [path] = swept
            path.rmdir() if path.is_dir() else path.unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    make(tmp_path)
    assert len(left(tmp_path) - set(swept)) == 1


def test_a_folder_that_somebody_removed_is_made_anew(tmp_path: Path) -> None:
    first = own_folder(tmp_path)
    assert own_folder(tmp_path) == first
    first.rmdir()
    write_table([b"a"], [b"1"], ScratchFolder(tmp_path))
    assert left(tmp_path) == {own_folder(tmp_path)} != {first}


def test_a_forked_child_has_a_folder_of_its_own_and_leaves_its_parents(tmp_path: Path) -> None:
    mine = own_folder(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            end_process(int(own_folder(tmp_path) == mine or not mine.is_dir()))
        finally:
            end_process(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    start(tmp_path)
    assert left(tmp_path) == {mine}, "the child's is gone, as it ended without tidying up"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """What this process knows of the test's folder, it forgets."""
    yield
    temporary_files._remove_all()
