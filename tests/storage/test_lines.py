"""Lines of the processes of one machine: in order, left at a process's death, passed over, and never a reason to fail."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from graveler.storage.file_locks import AVAILABLE
from graveler.storage.file_modes import PRIVATE
from graveler.storage.machine_queue import Lines, Place
from graveler.system import pauses

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this system has no locks of open files")

_STANDS = """
import sys
from pathlib import Path
from graveler.storage.machine_queue import Lines
from graveler.storage.file_modes import PRIVATE
place = Lines(Path(sys.argv[1]), PRIVATE).enter("main")
print(place.number, flush=True)
sys.stdin.read()
"""


def enter(path: Path, name: str = "main") -> Place:
    place = Lines(path, PRIVATE).enter(name)
    assert place is not None
    return place


def test_whoever_came_first_goes_first(tmp_path: Path) -> None:
    one, two, three = (enter(tmp_path / "turns") for _ in range(3))
    assert (one.ahead(), two.ahead(), three.ahead()) == (None, one.number, one.number)
    two.leave()  # gave up: nobody goes before the first for that
    assert three.ahead() == one.number
    one.leave()
    assert three.ahead() is None
    late = enter(tmp_path / "turns")
    assert late.ahead() == three.number
    three.leave()
    late.leave()


def test_lines_of_other_names_do_not_wait_for_each_other(tmp_path: Path) -> None:
    one, other = enter(tmp_path / "turns", "main"), enter(tmp_path / "turns", "dev")
    assert other.ahead() is None
    one.leave()
    other.leave()


def test_a_process_that_is_killed_is_out_of_line_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _STANDS, str(tmp_path / "turns")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        mine = enter(tmp_path / "turns")
        assert mine.ahead() == number
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert mine.ahead() is None
        mine.leave()


def test_a_forked_child_does_not_keep_the_place_that_its_parent_leaves(tmp_path: Path) -> None:
    first, second = enter(tmp_path / "turns"), enter(tmp_path / "turns")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    first.leave()
    assert second.ahead() is None
    os.close(writer)
    os.waitpid(child, 0)
    second.leave()


def test_one_who_stays_too_long_is_passed_over_by_all(tmp_path: Path) -> None:
    stuck, two = enter(tmp_path / "turns"), enter(tmp_path / "turns")
    ahead = two.ahead()
    assert ahead == stuck.number
    two.pass_over(ahead)
    assert two.ahead() is None
    assert (stuck.is_passed_over(), two.is_passed_over()) == (True, False)
    newcomer = enter(tmp_path / "turns")
    assert newcomer.ahead() == two.number
    two.leave()
    assert newcomer.ahead() is None
    stuck.leave()
    newcomer.leave()


@pytest.mark.parametrize("content", [b"\xff" * 32_768, b"", b"\x01"])
def test_damaged_counters_cost_no_more_than_a_turn(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "turns").write_bytes(content)
    one, two = enter(tmp_path / "turns"), enter(tmp_path / "turns")
    assert (one.ahead(), two.ahead()) == (None, one.number)
    one.leave()
    two.leave()


def test_a_file_that_cannot_be_used_gives_no_place(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert Lines(tmp_path / "link", PRIVATE).enter("main") is None
    assert Lines(tmp_path, PRIVATE).enter("main") is None
    assert not (tmp_path / "elsewhere").exists()


def test_a_process_that_was_stopped_in_the_middle_of_coming_keeps_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(pauses, "sleep", slept.append)
    stopped = enter(tmp_path / "turns")
    stopped._counters_lock.lock(stopped._descriptor)
    before = len([*Path("/proc/self/fd").iterdir()])
    assert Lines(tmp_path / "turns", PRIVATE).enter("main") is None
    assert len(slept) == 50
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    stopped.leave()
