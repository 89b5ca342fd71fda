"""Turns: a waiting verb is not overtaken for ever, and one that died in line delays others for one turn at most."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread, current_thread

import pytest

from graveler.errors import BusyError, DirtyBranchError, NoChangesError, UnavailableError
from graveler.lake.importing.importer import ImportSource
from graveler.lake.leases import LeaseWatch
from graveler.lake.turns import TURN, Turns
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

    watched: "Watched"

    def merge_mine(self, message: str) -> None:
        with self.watched.call():
            self.repository.merge(f"side-{message}", "main", message=message)

    def commit_mine(self, message: str) -> None:
        self.repository.link("main", entry(message, self.scheduler.fresh()))
        with self.watched.call(), suppress(NoChangesError):  # another one took it along
            self.repository.commit("main", message)

    def import_mine(self, message: str) -> None:
        record = self.repository.codec.encode(entry(f"{message}/x", 1))
        source = ImportSource(f"{message}/".encode(), True, lambda: iter([(f"{message}/x".encode(), record)]))
        with self.watched.call():
            self.repository.import_sources("main", [source], message)


class Watched:
    """Counts, for each call that had to wait, how many others ended while it did, newcomers included."""

    def __init__(self) -> None:
        self.ended = 0
        self.since: dict[Thread, int] = {}
        self.overtaken: list[int] = []

    def waits(self) -> None:
        self.since.setdefault(current_thread(), self.ended)

    @contextmanager
    def call(self) -> Iterator[None]:
        self.since.pop(current_thread(), None)
        yield
        if current_thread() in self.since:
            self.overtaken.append(self.ended - self.since.pop(current_thread()))
        self.ended += 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kinds", [("merge",), ("import",), ("commit",), ("merge", "commit", "import")], ids="-".join)
def test_nobody_who_waits_is_overtaken_more_often_than_others_were_there(seed: int, kinds: Sequence[str]) -> None:
    """Before it go those who were in line, and once each those who were at work when it came."""
    scheduler = Scheduler(seed)
    scheduler.kill_nobody()
    world = scheduler.world = World(clock=Parallel())
    watched = Watched()

    def sleep() -> None:
        watched.waits()
        scheduler.hand_over()

    world.clock.on_sleep = sleep
    for number in range(CLIENTS):
        operations = [f"{kinds[number % len(kinds)]}_mine"] * CALLS
        client = Changer(scheduler, f"c{number}", operations)
        client.watched = watched
        for call, operation in enumerate(operations):
            if operation == "merge_mine":
                branch = f"side-{client.name}-{call}"
                world.main.create_branch(branch, "main")
                commit(world.main, {f"merged {client.name}-{call}": "x"}, branch)
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


def test_who_goes_away_leaves_those_before_it_in_line() -> None:
    """Others who come then still wait for them."""
    world = diverged()
    first, second = turns_of(world), turns_of(world)
    with first.at("main", "kept", keep=True) as kept:
        kept.state()
    assert len(in_line(world)) == 2
    world.clock.on_sleep = lambda: first.renew("main", "kept")
    for _ in range(2):
        with second.at("main") as turn, pytest.raises(BusyError):
            turn.state()
        assert len(in_line(world)) == 2, "the line, and the ticket before it"
    world.clock.on_sleep = None
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
    line = Turns(world.main.repository.uid, world.tables, world.main.parts.branches, clock, LeaseWatch(clock))
    with line.at("main") as first, line.at("main") as second:
        first.wait()
        first.state()
        tickets = in_line(world)
        assert len(tickets) == 2
        clock.on_sleep = lambda: setattr(clock, "time", clock.time + TURN)
        second.state()
        clock.on_sleep = None
        assert tickets[1] not in in_line(world)
        first.state()
        assert in_line(world)
        assert tickets[1] not in in_line(world)
    assert in_line(world) == []
