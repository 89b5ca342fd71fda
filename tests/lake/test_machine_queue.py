"""The line of one machine's processes before a branch: they take turns without races or tickets, and nobody gets stuck."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from graveler.errors import BusyError, DirtyBranchError
from graveler.lake.importing.importer import ImportSource
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.lake.turns import TURN, Turn
from graveler.storage.file_locks import AVAILABLE
from graveler.storage.file_modes import PRIVATE
from graveler.storage.machine_queue import MachineQueue
from tests.lake.interleaving import entry
from tests.lake.support import FakeClock

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this system has no locks of open files")


class Processes:
    """One folder lake as several processes have it open, with one clock that goes on by what they sleep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.mine = create_folder_lake(folder, clock=self.clock).create_repository("lake", "local://lake")

    def other(self) -> OpenRepository:
        """The repository as another process has it."""
        return open_folder_lake(self.folder, clock=self.clock).repository("lake")

    def side(self, name: str) -> str:
        """A branch with something to merge."""
        self.mine.create_branch(name, "main")
        self.mine.link(name, entry(name, 1))
        self.mine.commit(name, name)
        return name

    def tickets(self) -> int:
        """How many items the table has of lines and tickets."""
        return len(self.mine.tables.query(f"{self.mine.repository.uid}/turns").items)

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Have this called when that much time has gone by."""
        at = self.clock.monotonic() + seconds

        def look() -> None:
            if self.clock.monotonic() >= at:
                self.clock.on_sleep = None
                call()

        self.clock.on_sleep = look


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path / "lake")


def first_in_line(repository: OpenRepository) -> Turn:
    turn = repository.parts.turns.at("main")
    turn.state()
    return turn


def test_a_process_waits_for_the_one_before_it_without_a_ticket_or_a_lost_race(processes: Processes) -> None:
    side = processes.side("side")
    before = first_in_line(processes.other())
    head = processes.mine.branch("main").commit_id
    seen: list[object] = []

    def leave() -> None:
        seen.extend((processes.tickets(), processes.mine.branch("main").commit_id))
        before.mark_released()

    processes.after(1.0, leave)
    processes.mine.merge(side, "main")
    assert seen == [0, head], "it neither took a ticket nor published before its turn"
    assert processes.tickets() == 0


def test_one_that_works_for_long_is_passed_over_once_for_all(processes: Processes) -> None:
    sides = [processes.side("one"), processes.side("two")]
    stuck = first_in_line(processes.other())
    began = processes.clock.monotonic()
    processes.mine.merge(sides[0], "main")
    assert TURN <= processes.clock.monotonic() - began < TURN + 1
    passed = processes.clock.monotonic()
    processes.other().merge(sides[1], "main")
    assert processes.clock.monotonic() == passed, "nobody waits for it again"
    stuck.state()
    assert processes.clock.monotonic() == passed, "it goes on, and may lose a race"
    stuck.mark_released()


def test_who_has_waited_for_its_patience_is_told_that_the_branch_is_busy(processes: Processes) -> None:
    side = processes.side("side")
    queue = MachineQueue(processes.folder / "turns", PRIVATE)
    before = [queue.enter(f"{processes.mine.repository.uid}/main") for _ in range(20)]
    slots = (slot for slot in before if slot is not None)

    def next_leaves() -> None:
        next(slots).leave()
        processes.after(TURN - 0.5, next_leaves)

    processes.after(TURN - 0.5, next_leaves)
    with pytest.raises(BusyError):
        processes.mine.merge(side, "main")
    processes.clock.on_sleep = None
    for slot in slots:
        slot.leave()
    processes.mine.merge(side, "main")


def test_threads_of_one_process_take_turns_without_a_ticket_or_a_lost_race(tmp_path: Path) -> None:
    repository = create_folder_lake(tmp_path / "lake").create_repository("lake", "local://lake")
    names = [f"side-{number}" for number in range(6)]
    for name in names:
        repository.create_branch(name, "main")
        repository.link(name, entry(name, 1))
        repository.commit(name, name)
    before = len(repository.reflog("main"))
    threads = [Thread(target=repository.merge, args=(name, "main")) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(repository.reflog("main")) == before + len(names)
    assert not repository.tables.query(f"{repository.repository.uid}/turns").items


def test_an_import_lists_while_it_waits(processes: Processes) -> None:
    before = first_in_line(processes.other())
    listed: list[str] = []

    def records() -> Iterator[tuple[bytes, bytes]]:
        listed.append("before its turn")
        before.mark_released()
        yield b"imported/x", processes.mine.codec.encode(entry("imported/x", 1))

    processes.mine.import_sources("main", [ImportSource(b"imported/", True, records)], "imported")
    assert listed == ["before its turn"]
    assert processes.mine.stat("main", "imported/x").path == "imported/x"


def test_whoever_is_refused_leaves_the_line(processes: Processes) -> None:
    side = processes.side("side")
    processes.mine.link("main", entry("uncommitted", 1))
    with pytest.raises(DirtyBranchError):
        processes.mine.merge(side, "main")
    began = processes.clock.monotonic()
    processes.other().commit("main", "now")
    assert processes.clock.monotonic() == began


def test_a_lake_whose_queue_cannot_be_used_takes_tickets(processes: Processes) -> None:
    side = processes.side("side")
    (processes.folder / "turns").unlink(missing_ok=True)
    (processes.folder / "turns").mkdir()
    with processes.other().parts.turns.at("main") as before:
        before.state()
        before.wait()
        before.state()
        assert processes.tickets() == 2
        processes.after(1.0, before.mark_released)
        processes.mine.merge(side, "main")
    assert processes.tickets() == 0
