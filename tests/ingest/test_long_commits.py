"""Commits of ingest that are too much for one call become operations, and any process may find their end."""

import pytest
from msgspec.structs import replace

from graveler.api.ingest_commits import OperationCommits
from graveler.ingest.autocommit import AutoCommitter
from graveler.ingest.ingester import Ingester
from graveler.ingest.results import Batch
from graveler.ingest.rules import CommitPolicy
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.machine import Machine, Next, Task
from graveler.operations.parts.division import Sizes
from graveler.operations.pinned_requests import COMMIT, decode_pinned
from graveler.operations.store import Operation, Operations, OperationState
from graveler.requests.committing import Commit
from tests.ingest.support import RULE, Shore
from tests.lake.gates.support import TESTED, candidates, post, set_rules


class Begun:
    """A starter that notes what it is told to begin, as a state machine would."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def begin(self, repository: str, operation: Operation) -> None:
        self.tasks.append(Task(repository, operation.id, operation.attempt))


class Waning:
    """Time that goes by as it is asked for: a second each time."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def __call__(self) -> float:
        self.left -= 1
        return self.left


class Tide:
    """A shore whose commits of more than ten records are worked on by a state machine; with ``seconds_left``, those that take too
    long."""

    def __init__(self, seconds_left: Waning | None = None) -> None:
        self.shore = Shore()
        self.seconds_left = seconds_left
        self.rule = self.shore.add(replace(RULE, commit=CommitPolicy(objects=20), message="{objects}"))
        self.begun = Begun()

    def long(self) -> OperationCommits:
        operator = Dispatcher(self.shore.tables, {COMMIT: self.begun}, clock=self.shore.clock)
        if self.seconds_left is None:
            return OperationCommits(operator, 10)
        return OperationCommits(operator, 1000, self.seconds_left)

    def ingester(self) -> Ingester:
        return Ingester(self.shore.lake(), self.shore.clock, self.long())

    def land(self, *numbers: int) -> list[str]:
        """Objects land; the messages of commits that are told of."""
        events = [self.shore.bucket.put(f"in/{number:03}") for number in numbers]
        batch = self.ingester().process(events)
        assert all(result.outcome.is_done for result in batch.results)
        return [made.commit.message for made in batch.commits]

    def machine(self) -> Machine:
        return Machine(self.shore.lake(), clock=self.shore.clock, sizes=Sizes(10, 3))

    def work(self) -> None:
        """The newest operation, to its end."""
        task = self.begun.tasks[-1]
        planned = self.machine().plan(task)
        for number in planned.numbers:
            self.machine().part(task, number)
        assert self.machine().publish(task).state is Next.ENDED

    def operations(self) -> list[Operation]:
        return list(Operations(self.shore.tables, self.shore.repository().repository.uid).all())


def test_it_is_handed_over_once_and_told_when_it_is_made() -> None:
    tide = Tide()
    assert tide.land(*range(25)) == []
    assert tide.land(30) == [], "events are staged all the while"
    assert [(one.kind, one.branch) for one in tide.operations()] == [(COMMIT, "main")]
    tide.work()
    due = tide.ingester().commit_due()
    assert [made.commit.message for made in due.commits] == ["25"]
    assert due.commits_failed == ()
    assert tide.shore.log() == ["25"]
    assert tide.shore.branch("main@").keys() == {f"data/{number:03}" for number in range(25)}
    assert tide.shore.branch().keys() == tide.shore.bucket.held().keys()
    assert tide.ingester().commit_due().commits == ()
    assert len(tide.begun.tasks) == 1


def test_one_that_uses_half_of_its_time_goes_on_as_an_operation_from_there() -> None:
    time = Waning(4)  # of which half is over at the end of the second range
    tide = Tide(time)
    assert tide.land(*range(25)) == []
    (operation,) = tide.operations()
    assert (operation.kind, operation.branch) == (COMMIT, "main")
    ask = decode_pinned(operation.request, Commit)
    assert ask.begun is not None
    assert ask.begun.upto < b"data/024", "some is left"
    assert time.left == 1
    tide.work()
    assert [made.commit.message for made in tide.ingester().commit_due().commits] == ["25"]
    assert tide.shore.branch("main@").keys() == tide.shore.bucket.held().keys()


def test_one_that_has_the_time_is_made_in_the_call_however_many_records_it_reads() -> None:
    tide = Tide(Waning(1000))
    assert tide.land(*range(25)) == ["25"]
    assert tide.operations() == []


def test_each_commit_has_half_of_the_time_that_is_left_when_it_begins() -> None:
    long = Tide(Waning(100)).long()
    first, left = long.stop(), 0
    assert first is not None
    while not first():
        left += 1
    second = long.stop()
    assert second is not None
    assert not second()
    assert left == 49


def test_one_that_fails_is_told_and_begins_anew() -> None:
    tide = Tide()
    tide.land(*range(25))
    tide.machine().fail(tide.begun.tasks[0], "nobody knows why")
    batch = tide.ingester().commit_due()
    assert [(failed.rule, failed.reason) for failed in batch.commits_failed] == [("r", "nobody knows why")]
    assert tide.ingester().commit_due().commits == ()
    first, second = sorted(tide.operations(), key=lambda one: one.state is OperationState.RUNNING)
    assert (first.state, second.state) == (OperationState.FAILED, OperationState.RUNNING)
    tide.work()
    assert [made.commit.message for made in tide.ingester().commit_due().commits] == ["25"]
    assert tide.shore.log() == ["25"]


def test_one_that_waits_for_its_status_has_not_failed_and_passes_later() -> None:
    tide = Tide()
    repository = tide.shore.repository()
    set_rules(repository, TESTED)
    tide.land(*range(25))
    for _ in range(2):
        tide.work()
        assert tide.ingester().commit_due() == Batch(())  # the operation has ended without a commit
        assert tide.ingester().commit_due() == Batch(())  # another one begins
    post(repository, repository.commit_of(candidates(repository)[-1].commit_id))
    tide.work()
    assert [result.commit.message for result in tide.ingester().commit_due().commits] == ["25"]
    assert tide.shore.log() == ["25"]


def test_whoever_dies_before_it_is_noted_leaves_one_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    tide = Tide()

    def dies(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(AutoCommitter, "_note", dies)
        with pytest.raises(KeyboardInterrupt):
            tide.land(*range(25))
    tide.shore.clock.time += 60
    tide.ingester().commit_due()
    assert len(tide.operations()) == 1
    tide.work()
    tide.ingester().commit_due()
    tide.shore.clock.time += 60
    tide.ingester().commit_due()
    assert tide.shore.log() == ["25"]
    assert tide.shore.branch("main@") == tide.shore.bucket.held()


def test_who_knows_of_no_operations_leaves_them_alone() -> None:
    tide = Tide()
    tide.land(*range(25))
    assert Ingester(tide.shore.lake(), tide.shore.clock).commit_due().commits == ()
    tide.work()
    assert [made.commit.message for made in tide.ingester().commit_due().commits] == ["25"]
