"""One ``Idempotency-Key`` from two clients at once: one effect, and both get the same response, however their requests to the
ports interleave. With two different bodies under one key, one takes effect and the other one is refused.

The clients are two processes (an application, a lake and its caches each) over one storage, and run one at a time. In the short
form the first one stands still after each number of requests to a port in turn, while the other one works. If that one has to
wait, the first goes on; or it stands still for so long that the other one takes it for dead, and goes on when that one is done.
``GRAVELER_REQUESTS_AT_ONCE=n`` tries every moment of each verb, and n random schedules besides.
"""

import os
import sys
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from random import seed as seed_global
from threading import Thread, current_thread
from typing import Any, Final

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.api.application import Application
from graveler.api.idempotency import LEASE
from graveler.api.settings import Settings
from graveler.ingest.rules import RuleStore
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.store import Operation, Operations
from graveler.retention.operation import ALL_KINDS
from graveler.storage.tables.memory import MemoryTables
from tests.api.support import ANYWHERE, BASE, Answer, as_answer, basic, make_event
from tests.lake.support import NAME, Died, FakeClock, World
from tests.support.instruments import Fault, fail_nth
from tests.support.keyrings import keyring
from tests.support.patience import PATIENCE

SCHEDULES: Final = int(os.environ.get("GRAVELER_REQUESTS_AT_ONCE", "0"))

REPO: Final = f"/repositories/{NAME}"
MAIN: Final = f"{REPO}/branches/main"
MERGE: Final = f"{REPO}/refs/dev/merge/main"
RULE: Final = {"name": "r", "source": "s3://landing/in/", "branch": "main", "destination": "data/"}


@dataclass(frozen=True)
class Verb:
    """A request, and another one of the same operation: ``other`` is its body, ``other_path`` its path if that differs."""

    path: str
    body: object = None
    other: object = None
    other_path: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    other_query: Mapping[str, str] | None = None
    method: str = "POST"


def creation(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "storage_namespace": f"local://{name}", **more}


VERBS: Final[Mapping[str, Verb]] = {
    "branch": Verb(f"{REPO}/branches", {"name": "x", "source": "main"}, {"name": "y", "source": "main"}),
    "branch at another commit": Verb(
        f"{REPO}/branches", {"name": "x", "source": "main"}, {"name": "x", "source": "main~1"}
    ),
    "hidden branch": Verb(
        f"{REPO}/branches",
        {"name": "x", "source": "main", "hidden": True, "owner": "tx"},
        {"name": "y", "source": "main", "hidden": True, "owner": "tx"},
    ),
    "tag": Verb(f"{REPO}/tags", {"id": "x", "ref": "main"}, {"id": "y", "ref": "main"}),
    "repository": Verb("/repositories", creation("xyz"), creation("zyx")),
    "rename": Verb(f"{REPO}/branches/dev/rename", {"name": "x"}, {"name": "y"}),
    "undo": Verb(f"{MAIN}/undo", other_path=f"{REPO}/branches/dev/undo"),
    "hard reset": Verb(f"{MAIN}/hard_reset", query={"ref": "main~1"}, other_query={"ref": "main~2"}, method="PUT"),
    "commit": Verb(f"{REPO}/branches/staged/commits", {"message": "a"}, {"message": "b"}),
    "empty commit": Verb(
        f"{MAIN}/commits", {"message": "a", "allow_empty": True}, {"message": "b", "allow_empty": True}
    ),
    "merge": Verb(MERGE, {"message": "a"}, {"message": "b"}),
    "cherry-pick": Verb(f"{MAIN}/cherry-pick", {"ref": "dev"}, {"ref": "dev~1"}),
    "revert": Verb(f"{MAIN}/revert", {"ref": "main", "parent_number": 0}, {"ref": "main~1", "parent_number": 0}),
    "rewrite": Verb(
        f"{MAIN}/rewrite",
        {"min_size": 1 << 16, "max_size": 1 << 20, "raggedness": 10},
        {"min_size": 1 << 17, "max_size": 1 << 20, "raggedness": 10},
    ),
    "import": Verb(f"{MAIN}/import", {"paths": []}, {"paths": [], "commit": {"message": "b"}}),
    "rule of ingest": Verb(
        f"{REPO}/ingest/rules",
        RULE,
        {**RULE, "name": "q", "source": "s3://landing/out/", "destination": "other/"},
    ),
    "dump": Verb(f"{REPO}/dump", other_path="/repositories/second/dump"),
    "check": Verb(f"{REPO}/checks", {"objects": True}, {"objects": False}),
    "garbage collection": Verb(f"{REPO}/gc/runs", {"mode": "quarantine"}, {"mode": "delete"}),
}


class Copy(World):
    """A world that begins as a copy of another one. Files are immutable, so both have the same stores."""

    def __init__(self, original: World) -> None:
        assert isinstance(original.tables, MemoryTables)
        tables = MemoryTables()
        tables.partitions = {
            name: (list(keys), dict(items)) for name, (keys, items) in original.tables.partitions.items()
        }
        self.clock = FakeClock()
        self.tables = tables
        self.stores = dict(original.stores)
        self.split = original.split


@cache
def original() -> tuple[World, str]:
    """A world with something for each verb to do, and the credentials of an admin."""
    world = World()
    for repository in (world.main, world.lake().create_repository("second", "local://second")):
        for number in range(3):
            repository.upload("main", f"m{number}", b"1")
            repository.commit("main", f"m{number}")
    world.main.create_branch("dev", "main~2")
    world.main.create_branch("staged", "main")
    for number in range(2):
        world.main.upload("dev", f"d{number}", b"1")
        world.main.commit("dev", f"d{number}")
    world.main.upload("staged", "s", b"1")
    return world, basic(Access(world.tables, keyring(world.tables)).create_key("somebody", Role.ADMIN))


class Schedule:
    """Lets one client run at a time, until its next request to a port."""

    def __init__(self) -> None:
        world, self.admin = original()
        self.world = Copy(world)
        self.world.clock.on_sleep = partial(self.hand_over, sleeps=True)
        self.access = Access(self.world.tables, keyring(self.world.tables))
        self.clients: list[Client] = []
        self._back = allocate_lock()
        self._back.acquire()

    def next(self, alive: "Sequence[Client]", current: "Client | None") -> "Client":
        """The client that goes on."""
        return alive[0]

    def hand_over(self, *, sleeps: bool = False) -> None:
        for client in self.clients:
            if client.thread is current_thread():
                client.sleeps = sleeps
                self._back.release()
                client.go.acquire()

    def finish(self, client: "Client") -> None:
        client.finished = True
        self._back.release()

    def run(self) -> None:
        for client in self.clients:
            client.thread.start()
        current: Client | None = None
        while alive := [client for client in self.clients if not client.finished]:
            current = self.next(alive, current)
            current.go.release()
            assert self._back.acquire(timeout=PATIENCE), "a client waits for another one that stands still"
        for client in self.clients:
            client.thread.join()


class OneSwitch(Schedule):
    """The first client stands still after ``moment`` requests. It goes on when the other one sleeps, or, if that one
    ``overtakes``, when it is done."""

    def __init__(self, moment: int, *, overtakes: bool) -> None:
        super().__init__()
        self._moment = moment
        self._overtakes = overtakes

    def next(self, alive: "Sequence[Client]", current: "Client | None") -> "Client":
        first = self.clients[0]
        if first.finished or (first.requests >= self._moment and current is not first and self._overtakes):
            return alive[-1]
        if first.requests < self._moment or (current is not None and current is not first and current.sleeps):
            self._moment = self._moment if first.requests < self._moment else sys.maxsize
            return first
        return alive[-1]


class AtRandom(Schedule):
    """Everything follows from the seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        seed_global(seed)  # the jitter of pauses
        self._random = Random(seed)
        self._stay = self._random.choice((0.0, 0.3, 0.6, 0.9, 0.97))

    def next(self, alive: "Sequence[Client]", current: "Client | None") -> "Client":
        if current in alive and self._random.random() < self._stay:
            assert current is not None
            return current
        return self._random.choice(alive)


class Nobody:
    """Begins no operation: a test is about the request for one."""

    def begin(self, repository: str, operation: Operation) -> None:
        pass


class Client:
    """A process that sends one request. With ``dies_at`` it is killed at that request to a port; ``fault`` tells what happens to
    each."""

    def __init__(
        self,
        schedule: Schedule,
        event: Mapping[str, Any],
        dies_at: int | None = None,
        fault: Callable[[str, int], Fault] = lambda _, __: None,
    ) -> None:
        self._schedule = schedule
        self._event = event
        self._dies_at = dies_at
        self._fault = fault
        self.requests = 0
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.finished = False
        self.sleeps = False
        self.go = allocate_lock()
        self.go.acquire()
        self.thread = Thread(target=self._run, daemon=True)
        lake = schedule.world.lake(self._request)
        runner = Dispatcher(lake.tables, dict.fromkeys(ALL_KINDS, Nobody()), clock=lake.clock)
        self.application = Application(lake, schedule.access, Settings(import_sources=ANYWHERE), runner)
        schedule.clients.append(self)

    def _request(self, method: str, _: int) -> Fault:
        if current_thread() is not self.thread:
            return None
        if self._dies_at is not None and self.requests >= self._dies_at:
            raise Died
        self.requests += 1
        self._schedule.hand_over()
        return self._fault(method, self.requests - 1)

    def _run(self) -> None:
        self.go.acquire()
        try:
            self.answer = as_answer(self.application(self._event))
        except Died:
            pass
        except BaseException as error:  # noqa: BLE001 - shown by the test's thread
            self.error = error
        self._schedule.finish(self)


def event(schedule: Schedule, verb: Verb, *, other: bool = False, key: str = "k") -> dict[str, Any]:
    path, body, query = verb.path, verb.body, verb.query
    if other:
        path = verb.other_path or path
        body = verb.other
        query = verb.query if verb.other_query is None else verb.other_query
    headers = {"authorization": schedule.admin, "idempotency-key": key}
    return make_event(verb.method, BASE + path, query, body, headers)


def state(lake: Lake) -> dict[str, object]:
    """What requests may change, without what is random: names, heads as the messages below them, and numbers."""
    repositories = [found.name for found in lake.repositories().results]
    found: dict[str, object] = {"repositories": repositories}
    for name in repositories:
        opened = lake.repository(name)
        branches = opened.branches(show_hidden=True).results
        found[name] = (
            {branch.name: [commit.message for commit in opened.log(branch.name).results] for branch in branches},
            {branch.name: len(opened.reflog(branch.name)) for branch in branches},
            {tag.name: opened.commit_of(tag.name).message for tag in opened.tags().results},
            [rule.name for rule in RuleStore(lake.tables).of(opened.repository).rules],
            sum(1 for _ in opened.objects("main")),
            [(operation.kind, operation.request) for operation in Operations(lake.tables, opened.repository.uid).all()],
        )
    return found


def effect(verb: Verb, *, other: bool = False) -> tuple[int, dict[str, object]]:
    """The number of requests to the ports that the request makes alone, and the state after it."""
    schedule = Schedule()
    before = state(schedule.world.lake())
    client = Client(schedule, event(schedule, verb, other=other))
    schedule.run()
    assert result(client)[0] < 300, result(client)
    after = state(schedule.world.lake())
    assert after != before
    return client.requests, after


def moments(requests: int) -> Sequence[int]:
    """The moments at which something happens to a client. The lake's own tests go through all moments of the long verbs."""
    return range(0, requests, 1 if SCHEDULES else 1 + requests // 13)


def schedules(requests: int, first_seed: int, *, both: bool) -> Iterator[Schedule]:
    for moment in moments(requests + 1):
        for overtakes in (False, True) if both else (moment % 2 == 1,):
            yield OneSwitch(moment, overtakes=overtakes)
    for number in range(SCHEDULES):
        yield AtRandom(first_seed + number)


def result(client: Client) -> tuple[int, str, bytes]:
    if client.error is not None:
        raise client.error
    assert client.answer is not None
    return client.answer.status, client.answer.headers.get("content-type", ""), client.answer.body


@pytest.fixture
def first_seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("hypothesis_seed", None)
    return (int(given) if given is not None else 20260101) * 1_000_003


@pytest.mark.parametrize("name", VERBS)
def test_two_clients_with_one_key_get_one_response_and_have_one_effect(name: str, first_seed: int) -> None:
    verb = VERBS[name]
    requests, after = effect(verb)
    for number, schedule in enumerate(schedules(requests, first_seed, both=True)):
        clients = [Client(schedule, event(schedule, verb)) for _ in range(2)]
        schedule.run()
        first, second = map(result, clients)
        assert first[0] < 300, (number, first, second)
        assert second == first, number
        assert state(schedule.world.lake()) == after, number


@pytest.mark.parametrize("name", VERBS)
def test_of_two_bodies_under_one_key_one_takes_effect_and_the_other_is_refused(name: str, first_seed: int) -> None:
    verb = VERBS[name]
    requests, after = effect(verb)
    _, after_other = effect(verb, other=True)
    assert after != after_other
    for number, schedule in enumerate(schedules(requests, first_seed, both=bool(SCHEDULES))):
        clients = [Client(schedule, event(schedule, verb, other=other)) for other in (False, True)]
        schedule.run()
        answers = [*map(result, clients)]
        winner = 0 if answers[0][0] < 300 else 1
        assert answers[winner][0] < 300, (number, answers)
        assert answers[1 - winner][0] == 400, (number, answers)
        assert b"Idempotency-Key" in answers[1 - winner][2], (number, answers)
        assert state(schedule.world.lake()) == (after, after_other)[winner], number


class Overtaken(OneSwitch):
    """The first client stands still until the other one is done and somebody has deleted what that one created."""

    def __init__(self, moment: int, delete: Callable[[OpenRepository], None]) -> None:
        super().__init__(moment, overtakes=True)
        self._delete = delete
        self.after_deletion: dict[str, object] | None = None

    def finish(self, client: "Client") -> None:
        if client is not self.clients[0] and not self.clients[0].finished:
            lake = self.world.lake()
            self._delete(lake.repository(NAME))
            self.after_deletion = state(lake)
        super().finish(client)


@pytest.mark.parametrize(
    ("name", "delete"),
    [
        ("branch", lambda repository: repository.delete_branch("x")),
        ("hidden branch", lambda repository: repository.delete_branch("x")),
        ("tag", lambda repository: repository.delete_tag("x")),
    ],
    ids=["branch", "hidden branch", "tag"],
)
def test_an_attempt_that_was_overtaken_does_not_create_again_what_was_deleted_since(
    name: str, delete: Callable[[OpenRepository], None]
) -> None:
    verb = VERBS[name]
    requests, _ = effect(verb)
    overtaken = 0
    for moment in range(requests + 1):
        schedule = Overtaken(moment, delete)
        clients = [Client(schedule, event(schedule, verb)) for _ in range(2)]
        schedule.run()
        first, second = map(result, clients)
        assert first == second, moment
        if schedule.after_deletion is not None:
            overtaken += 1
            assert state(schedule.world.lake()) == schedule.after_deletion, moment
    assert overtaken > 2


@pytest.mark.parametrize("name", VERBS)
def test_a_request_whose_process_died_anywhere_is_done_once_by_its_repetition(name: str) -> None:
    verb = VERBS[name]
    requests, after = effect(verb)
    for moment in moments(requests):
        schedule = Schedule()
        clients = [
            Client(schedule, event(schedule, verb), dies_at=moment),
            Client(schedule, event(schedule, verb)),
        ]
        schedule.run()
        assert clients[0].answer is None, moment
        assert result(clients[1])[0] < 300, (moment, result(clients[1]))
        assert state(schedule.world.lake()) == after, moment


@pytest.mark.parametrize("name", VERBS)
def test_a_request_whose_writes_all_arrive_twice_succeeds(name: str) -> None:
    """An adapter repeats a write whose response was lost, and the repetition finds the effect of the first one."""
    verb = VERBS[name]
    _, after = effect(verb)
    schedule = Schedule()

    def fault(method: str, _: int) -> Fault:
        return "repeat" if method in ("tables.put", "tables.transact", "tables.delete") else None

    client = Client(schedule, event(schedule, verb), fault=fault)
    schedule.run()
    assert result(client)[0] < 300, result(client)
    assert state(schedule.world.lake()) == after


@pytest.mark.parametrize("name", VERBS)
def test_a_request_that_lost_a_response_anywhere_is_done_once_by_its_repetition(name: str) -> None:
    verb = VERBS[name]
    requests, after = effect(verb)
    for moment in moments(requests):
        schedule = Schedule()
        Client(schedule, event(schedule, verb), fault=fail_nth(moment, "fail_after"))
        again = Client(schedule, event(schedule, verb))
        schedule.run()
        assert result(again)[0] < 300, (moment, result(again))
        assert state(schedule.world.lake()) == after, moment


class Beating(FakeClock):
    """A clock whose repeated work the test calls."""

    work: Callable[[], None] | None = None
    seconds = 0.0

    @contextmanager
    def repeating(self, seconds: float, work: Callable[[], None]) -> Iterator[None]:
        self.seconds, self.work = seconds, work
        yield
        self.work = None


def test_a_request_that_takes_long_keeps_its_key_as_long_as_it_lives() -> None:
    schedule = Schedule()
    world, clock = schedule.world, Beating()
    request = event(schedule, VERBS["repository"])
    waiting: list[Answer] = []

    def application(slow: bool) -> Application:
        lake = world.lake(meanwhile if slow else None, clock=clock)
        return Application(lake, schedule.access, Settings(request_seconds=20.0 if slow else 0.0))

    hurried = application(slow=False)

    def meanwhile(method: str, _: int) -> Fault:
        if method == "objects.put" and not waiting:
            for _ in range(10):
                waiting.append(as_answer(hurried(request)))
                clock.time += clock.seconds
                assert clock.work is not None
                clock.work()
        return None

    first = as_answer(application(slow=True)(request))
    assert first.status == 201, first
    assert len(waiting) == 10
    assert 10 * clock.seconds > LEASE
    assert {(answer.status, answer.headers["retry-after"]) for answer in waiting} == {(429, "1")}
    assert as_answer(hurried(request)).body == first.body
