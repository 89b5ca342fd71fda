"""Turns: a waiting verb is not overtaken for ever, and one that died in line delays others for one turn at most."""

import os
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from threading import Event, Thread

import pytest

from graveler.errors import BusyError, DirtyBranchError, NoChangesError, UnavailableError
from graveler.lake import turns
from graveler.lake.clock import Polls
from graveler.lake.importing.importer import ImportSource
from graveler.lake.leases import LeaseWatch
from graveler.lake.turns import TURN, Turn, Turns
from graveler.storage.tables.port import Key
from tests.lake.interleaving import Client, Scheduler, entry
from tests.lake.support import (
    Before,
    DieAt,
    FakeClock,
    World,
    commit,
    died,
    diverged,
    messages,
    paths,
    put,
)
from tests.support.instruments import Fault

CLIENTS, CALLS = 8, 6
SEEDS = (1, 2)


class Parallel(FakeClock):
    """Several sleep at the same time."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds / CLIENTS)


class Changer(Client):
    """A client that changes ``main`` again and again, in one way."""

    def merge_mine(self, message: str) -> None:
        self.repository.merge(f"side-{message}", "main", message=message)

    def commit_mine(self, message: str) -> None:
        self.repository.link("main", entry(message, self.scheduler.fresh()))
        with suppress(NoChangesError):  # another one took it along
            self.repository.commit("main", message)

    def import_mine(self, message: str) -> None:
        record = self.repository.codec.encode(entry(f"{message}/x", 1))
        source = ImportSource(f"{message}/".encode(), True, lambda: iter([(f"{message}/x".encode(), record)]))
        self.repository.import_sources("main", [source], message)


class Watched:
    """Counts, for each turn that had to wait, how many others had theirs before it did, newcomers included."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ended = 0
        self.since: dict[int, int] = {}
        self.overtaken: list[int] = []
        wait, join, left = Turn.wait, Turn._join, Turn.left

        def waits(turn: Turn, *, ticket: bool = True) -> None:
            self.since.setdefault(id(turn), self.ended)
            wait(turn, ticket=ticket)

        def joins(turn: Turn, waiting: dict[str, int]) -> bool:
            self.since.setdefault(id(turn), self.ended)
            return join(turn, waiting)

        def leaves(turn: Turn) -> None:
            if turn._event is not None:
                if id(turn) in self.since:
                    self.overtaken.append(self.ended - self.since.pop(id(turn)))
                self.ended += 1
            left(turn)

        patch.setattr(Turn, "wait", waits)
        patch.setattr(Turn, "_join", joins)
        patch.setattr(Turn, "left", leaves)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kinds", [("merge",), ("import",), ("commit",), ("merge", "commit", "import")], ids="-".join)
def test_nobody_who_waits_is_overtaken_more_often_than_others_were_there(
    seed: int, kinds: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it go those who were in line, and once each those who were at work when it came."""
    scheduler = Scheduler(seed)
    scheduler._kill = scheduler._fault = scheduler._time = scheduler._age = 0.0
    world = scheduler.world = World(clock=Parallel())
    world.clock.on_sleep = scheduler.hand_over
    for number in range(CLIENTS):
        operations = [f"{kinds[number % len(kinds)]}_mine"] * CALLS
        client = Changer(scheduler, f"c{number}", operations)
        for call, operation in enumerate(operations):
            if operation == "merge_mine":
                branch = f"side-{client.name}-{call}"
                world.main.create_branch(branch, "main")
                commit(world.main, {f"merged {client.name}-{call}": "x"}, branch)
    watched = Watched(monkeypatch)
    scheduler.run()
    assert watched.overtaken, "nobody had to wait"
    assert max(watched.overtaken) <= 2 * (CLIENTS - 1)
    if kinds in (("merge",), ("import",)):
        assert watched.ended >= CLIENTS * CALLS


def in_line(world: World) -> list[Key]:
    """What the table has of lines and tickets."""
    partition = f"{world.main.repository.uid}/turns"
    return [Key(partition, sort) for sort, _ in world.tables.query(partition).items]


def lose_once(world: World) -> Before:
    """Just before the client publishes, somebody else commits."""
    return Before("tables.transact", act=lambda: commit(world.main, {"faster": "x"}))


def test_who_loses_takes_a_ticket_and_leaves_nothing_behind() -> None:
    world = diverged()
    tickets: list[int] = []

    def lose(request: str, number: int) -> None:
        if request == "tables.transact":
            tickets.append(len(in_line(world)))
            if len(tickets) == 1:
                commit(world.main, {"faster": "x"})

    world.repository(lose).merge("side", "main")
    assert tickets == [0, 0, 2], "the first try, the ticket, the second try"
    assert in_line(world) == []
    assert messages(world.main)[0] == "Merge 'side' into 'main'"


def test_who_comes_while_somebody_waits_goes_after_it() -> None:
    """The loser has its ticket and is about to build again; a commit that comes now waits until it has published."""
    world = diverged()
    put(world.main, {"later": "x"}, "side")
    seen, published = Event(), Event()
    later: list[Thread] = []
    transactions: Counter[str] = Counter()

    def step_in(request: str, _: int) -> None:
        if request != "tables.transact":
            return
        transactions[request] += 1
        if transactions[request] == 1:
            commit(world.main, {"faster": "x"})
        elif transactions[request] == 3:  # publishes for the second time
            world.clock.on_sleep = stand_by
            thread = Thread(target=lambda: world.main.import_sources("main", [source], "later"))
            later.append(thread)
            thread.start()
            assert seen.wait(60), "it did not wait"
            world.clock.on_sleep = None

    def stand_by() -> None:
        seen.set()
        assert published.wait(60)

    record = world.main.codec.encode(entry("later/x", 1))
    source = ImportSource(b"later/", True, lambda: iter([(b"later/x", record)]))
    world.repository(step_in).merge("side", "main")
    published.set()
    later[0].join(60)
    assert messages(world.main)[:3] == ["later", "Merge 'side' into 'main'", "m"]
    assert in_line(world) == []


def test_those_who_died_in_line_hold_the_next_one_up_for_one_turn() -> None:
    """However many they are."""
    world = diverged()
    lost, killer = lose_once(world), DieAt("tables.transact", 3)
    first = world.repository(lambda request, number: lost(request, number) or killer(request, number))
    assert died(partial(first.merge, "side", "main"))
    for _ in range(5):
        killer = DieAt("tables.transact", 2)
        killed_waiting = world.repository(killer)
        world.clock.on_sleep = partial(setattr, killer, "dead", True)
        assert died(partial(killed_waiting.merge, "side", "main"))
        world.clock.on_sleep = None
    assert len(in_line(world)) == 1 + 6
    start = world.clock.time
    world.repository().merge("side", "main")
    assert TURN <= world.clock.time - start < TURN + 1
    assert in_line(world) == []
    put(world.main, {"next": "x"})
    start = world.clock.time
    world.main.commit("main", "next")
    assert world.clock.time == start


def test_a_turn_that_takes_long_is_passed_over_and_still_succeeds() -> None:
    """A ticket does not stop others for longer than a turn, whatever its owner works on, and the owner loses nothing but time."""
    world = diverged()
    steps: Counter[str] = Counter()

    def work_for_long(request: str, _: int) -> None:
        if request == "tables.transact":
            steps[request] += 1
            if steps[request] == 1:
                commit(world.main, {"faster": "x"})
            elif steps[request] == 3:  # has its ticket, and does not renew it while it works
                start = world.clock.time
                commit(world.main, {"quick": "x"}, message="quick")
                assert TURN <= world.clock.time - start < TURN + 1

    world.repository(work_for_long).merge("side", "main")
    assert messages(world.main)[:2] == ["Merge 'side' into 'main'", "quick"]
    assert paths(world.main, "main@") == ["a", "faster", "m", "quick", "s"]
    assert in_line(world) == []


@pytest.mark.parametrize("again", [False, True], ids=["before", "after others waited"])
def test_who_does_not_wait_makes_no_request_for_it(again: bool) -> None:
    world = diverged()
    if again:
        world.repository(lose_once(world)).merge("side", "main")
    for branch in ("one", "other"):
        world.main.create_branch(branch, "main")
        commit(world.main, {branch: "x"}, branch)
    counted = world.counted()
    counted.repository.merge("one", "main")
    first = counted.tables.calls.copy()
    assert first["transact"] == 1
    assert not first["put"]
    assert not first["delete"]
    counted.reset()
    counted.repository.merge("other", "main")
    assert counted.tables.calls["transact"] == 1
    assert counted.tables.calls["get_many"] <= first["get_many"]


@pytest.mark.parametrize("error", [BusyError, UnavailableError, DirtyBranchError])
def test_a_verb_that_fails_leaves_its_place(error: type[Exception]) -> None:
    world = diverged()
    taken = Event()

    def fail(request: str, _: int) -> Fault:
        if request == "tables.transact" and not taken.is_set():
            commit(world.main, {"faster": "x"})
            taken.set()
        elif request == "objects.put" and taken.is_set() and in_line(world):
            if error is DirtyBranchError:
                raise error("main", "merging")
            return "refuse" if error is BusyError else "fail_before"
        return None

    with pytest.raises(error):
        world.repository(fail).merge("side", "main")
    assert taken.is_set()
    assert in_line(world) == []


# Threads of one process


def line_up(line: turns._Threads, ended: list[int], amount: int) -> list[Thread]:
    """Threads that come one after the other, while the first of them has its turn."""
    first = line.wait("b", None)
    threads = []
    for number in range(amount):

        def run(number: int = number) -> None:
            mine = line.wait("b", None)
            ended.append(number)
            line.leave("b", mine)

        threads.append(Thread(target=run, daemon=True))
        threads[-1].start()
        while len(line._lines["b"]) < number + 2:
            pass
    line.leave("b", first)
    return threads


def test_threads_of_one_process_go_in_the_order_in_which_they_came() -> None:
    line, ended = turns._Threads(), list[int]()
    for thread in line_up(line, ended, 12):
        thread.join(60)
    assert ended == list(range(12))
    assert not line._lines


def test_a_thread_that_works_for_long_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN", 0.01)
    line = turns._Threads()
    first = line.wait("b", None)
    second = line.wait("b", None)
    assert second is not first
    line.leave("b", first)  # not there any more
    assert line.wait("b", second) is second
    line.leave("b", second)
    assert not line._lines


def test_a_thread_that_was_passed_over_before_it_woke_up_stands_in_line_again() -> None:
    line, ended = turns._Threads(), list[int]()
    first = line.wait("b", None)

    def run() -> None:
        mine = line.wait("b", None)
        ended.append(1)
        line.leave("b", mine)

    thread = Thread(target=run, daemon=True)
    thread.start()
    while len(line._lines["b"]) < 2:
        pass
    with line._lock:
        second = line._lines["b"].pop()
    second.set()
    line.leave("b", first)
    thread.join(60)
    assert ended == [1]
    assert not line._lines


def test_a_forked_process_does_not_wait_for_the_threads_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them were in line, and one held the lock."""
    monkeypatch.setattr(turns, "TURN", 1e6)
    threads = turns._Threads()
    threads.wait("main", None)
    with threads._lock:
        child = os.fork()
        if not child:
            signal.alarm(60)  # instead of hanging
            threads.leave("main", threads.wait("main", None))
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_another_branch_has_another_line() -> None:
    line = turns._Threads()
    one, other = line.wait("one", None), line.wait("other", None)
    line.leave("one", one)
    line.leave("other", other)
    assert not line._lines


def test_who_goes_away_leaves_those_before_it_in_line() -> None:
    """Others who come then still wait for them."""
    world = diverged()
    first, second = turns_of(world), turns_of(world)
    with first.at("main", "kept", keep=True) as kept:
        kept.state()
    assert len(in_line(world)) == 2
    for _ in range(2):
        with second.at("main") as turn:
            turn._polls = Polls(world.clock, patience=1.0)
            with pytest.raises(BusyError):
                turn.state()
        assert len(in_line(world)) == 2, "the line, and the ticket before it"
    for process, ticket in ((first, "kept"), (second, "")):
        with process.at("main", ticket) as turn:
            turn.state()
    assert in_line(world) == []


def turns_of(world: World) -> Turns:
    """Those of another process."""
    return world.repository().parts.turns


def test_a_ticket_that_others_removed_is_taken_anew() -> None:
    """Its owner was stopped for a while, and waits behind those who came meanwhile."""
    world = World()
    clock = FakeClock()
    line = Turns(world.main.repository.uid, world.tables, world.main._branches, clock, LeaseWatch(clock))
    with line.at("main") as first, line.at("main") as second:
        first.wait()
        first.state()
        ticket = first._ticket
        assert ticket
        second._event = Event()  # a thread of another process
        clock.on_sleep = lambda: setattr(clock, "time", clock.time + TURN)
        second.state()
        clock.on_sleep = None
        first.state()
        assert first._ticket != ticket
    assert in_line(world) == []
