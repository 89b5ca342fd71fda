"""Queues of the processes of one machine: in order, left at a process's death, passed over, and never a reason to fail."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from graveler.storage.file_locks import AVAILABLE
from graveler.storage.file_modes import PRIVATE
from graveler.storage.machine_queue import MachineQueue, QueueSlot
from graveler.system import pauses
from tests.support.children import end_process

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this system has no locks of open files")

_STANDS = """
import sys
from pathlib import Path
from graveler.storage.machine_queue import MachineQueue
from graveler.storage.file_modes import PRIVATE
place = MachineQueue(Path(sys.argv[1]), PRIVATE).enter("main")
print(place.number, flush=True)
sys.stdin.read()
"""


def enter(path: Path, name: str = "main") -> QueueSlot:
    place = MachineQueue(path, PRIVATE).enter(name)
    assert place is not None
    return place


def test_whoever_came_first_goes_first(tmp_path: Path) -> None:
    one, two, three = (enter(tmp_path / "turns") for _ in range(3))
    assert (one.predecessor(), two.predecessor(), three.predecessor()) == (None, one.number, one.number)
    two.leave()  # gave up: nobody goes before the first for that
    assert three.predecessor() == one.number
    one.leave()
    assert three.predecessor() is None
    late = enter(tmp_path / "turns")
    assert late.predecessor() == three.number
    three.leave()
    late.leave()


def test_threads_of_one_process_queue_like_processes(tmp_path: Path) -> None:
    queue, ended = MachineQueue(tmp_path / "turns", PRIVATE), list[int]()
    first = queue.enter("main")
    assert first is not None
    threads = []
    for number in range(8):
        slot = queue.enter("main")
        assert slot is not None

        def run(number: int = number, slot: QueueSlot = slot) -> None:
            while slot.predecessor() is not None:
                pauses.sleep(0.0005)
            ended.append(number)
            slot.leave()

        threads.append(Thread(target=run, daemon=True))
    for thread in reversed(threads):
        thread.start()
    first.leave()
    for thread in threads:
        thread.join(60)
    assert ended == [*range(8)]


def test_lines_of_other_names_do_not_wait_for_each_other(tmp_path: Path) -> None:
    one, other = enter(tmp_path / "turns", "main"), enter(tmp_path / "turns", "dev")
    assert other.predecessor() is None
    one.leave()
    other.leave()


def test_a_process_that_is_killed_is_out_of_line_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _STANDS, str(tmp_path / "turns")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        mine = enter(tmp_path / "turns")
        assert mine.predecessor() == number
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert mine.predecessor() is None
        mine.leave()


def test_a_forked_child_does_not_keep_the_place_that_its_parent_leaves(tmp_path: Path) -> None:
    first, second = enter(tmp_path / "turns"), enter(tmp_path / "turns")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        end_process(0)
    os.close(reader)
    first.leave()
    assert second.predecessor() is None
    os.close(writer)
    os.waitpid(child, 0)
    second.leave()


def test_one_who_stays_too_long_is_passed_over_by_all(tmp_path: Path) -> None:
    stuck, two = enter(tmp_path / "turns"), enter(tmp_path / "turns")
    ahead = two.predecessor()
    assert ahead == stuck.number
    two.pass_over(ahead)
    assert two.predecessor() is None
    newcomer = enter(tmp_path / "turns")
    assert newcomer.predecessor() == two.number
    two.leave()
    assert newcomer.predecessor() is None
    stuck.leave()
    newcomer.leave()


@pytest.mark.parametrize("content", [b"\xff" * 32_768, b"", b"\x01"])
def test_damaged_counters_cost_no_more_than_a_turn(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "turns").write_bytes(content)
    one, two = enter(tmp_path / "turns"), enter(tmp_path / "turns")
    assert (one.predecessor(), two.predecessor()) == (None, one.number)
    one.leave()
    two.leave()


def test_a_file_that_cannot_be_used_gives_no_place(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert MachineQueue(tmp_path / "link", PRIVATE).enter("main") is None
    assert MachineQueue(tmp_path, PRIVATE).enter("main") is None
    assert not (tmp_path / "elsewhere").exists()


def test_a_process_that_was_stopped_in_the_middle_of_coming_keeps_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(pauses, "sleep", slept.append)
    stopped = enter(tmp_path / "turns")
    stopped._counters_lock.lock(stopped._descriptor)
    before = len([*Path("/proc/self/fd").iterdir()])
    assert MachineQueue(tmp_path / "turns", PRIVATE).enter("main") is None
    assert len(slept) == 50
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    stopped.leave()
