"""A gateway that has joined a run acknowledges what the run publishes, and nothing else, wherever it meets the publication."""

import pytest

from graveler.errors import GravelerError, RuleError
from graveler.gateway.control import Mount
from graveler.gateway.joined_run import JoinedRun
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.run.publication import Publication, publish
from graveler.history.owners import LEASE
from graveler.lake.repository import OpenRepository
from graveler.requests.committing import PublishCandidate
from tests.access.support import HandClock
from tests.lake.gates.support import TESTED, by, post, set_rules
from tests.lake.support import NAME, Schedule, World, texts
from tests.support.instruments import Fault

HIDDEN = "tx-run"
TERMS = Publication(branch="main", message="Nightly")


class Joined:
    """A gateway that has joined a run; ``acknowledged`` are the paths of its writes that it acknowledged, ``refused`` the number
    of others."""

    def __init__(self, world: World, schedule: Schedule | None = None) -> None:
        self.token = world.main.parts.branches.state(HIDDEN).open
        self.repository = world.repository(schedule)
        self.run = JoinedRun(world.lake(), Mount(bucket=NAME, repository=NAME, ref=HIDDEN), self.token)
        self.acknowledged: list[str] = []
        self.refused = 0

    def write(self, path: str) -> None:
        """Write an object."""
        upload = self.run.confirmed(lambda opened: opened.upload(HIDDEN, path, b"late"))
        try:
            upload(self.repository)
        except (S3Error, GravelerError):
            self.refused += 1
        else:
            self.acknowledged.append(path)


def started(world: World, texts_before: dict[str, str]) -> None:
    """Begin a run, whose own gateway has written these objects."""
    world.main.create_branch(HIDDEN, "main", hidden=True, owner="me")
    for path, text in texts_before.items():
        world.main.upload(HIDDEN, path, text.encode())


def published(world: World, runner: OpenRepository) -> dict[str, str]:
    """End the run, as its runner does; return what is published."""
    publish(runner, HIDDEN, TERMS, "ada", may_be_joined=True)
    world.main.delete_branch(HIDDEN)
    return texts(world.main)


@pytest.mark.parametrize("before", [{}, {"a": "1"}], ids=["nothing written", "written"])
def test_writes_before_each_step_of_the_publication(before: dict[str, str]) -> None:
    outcomes = set()
    moment = steps = 0
    while moment <= steps:
        world = World()
        started(world, before)
        joined = Joined(world)
        steps = 0

        def step_in(request: str, number: int, joined: Joined = joined, moment: int = moment) -> Fault:
            nonlocal steps
            if steps == moment:
                joined.write("late")
            steps += 1
            return None

        runner = world.repository(step_in)
        objects = published(world, runner)
        joined.write("too late")
        assert objects.keys() >= {*before, *joined.acknowledged}, moment
        assert "too late" not in joined.acknowledged
        outcomes.add(joined.refused)
        moment += 1
    assert steps > 4
    assert outcomes == {1, 2}  # some of them came in time


@pytest.mark.parametrize("before", [{}, {"a": "1"}], ids=["nothing written", "written"])
def test_the_publication_before_each_step_of_a_write(before: dict[str, str]) -> None:
    outcomes = set()
    moment = steps = 0
    while moment <= steps:
        world = World()
        started(world, before)
        steps = 0
        objects: dict[str, str] = {}

        def step_in(
            request: str, number: int, world: World = world, objects: dict[str, str] = objects, moment: int = moment
        ) -> Fault:
            nonlocal steps
            if steps == moment:
                objects |= published(world, world.repository())
            steps += 1
            return None

        joined = Joined(world, step_in)
        joined.write("late")
        if moment < steps:
            assert objects.keys() >= {*before, *joined.acknowledged}, moment
            outcomes.add(joined.refused)
        moment += 1
    assert steps > 2
    assert outcomes == {1}  # the last step sees the publication


@pytest.fixture
def world() -> World:
    world = World()
    started(world, {"a": "1"})
    return world


def test_what_a_joined_gateway_wrote_passes_no_rule_unchecked(world: World) -> None:
    set_rules(world.main, TESTED)
    head = world.main.branch("main").commit_id
    joined = Joined(world)
    joined.write("b")
    with pytest.raises(RuleError) as refused:
        publish(world.main, HIDDEN, TERMS, "ada", may_be_joined=True)
    joined.write("too late")
    assert (joined.acknowledged, world.main.branch("main").commit_id) == (["b"], head)
    candidate = refused.value.candidate
    post(world.main, world.main.commit_of(candidate))
    world.main.run(PublishCandidate(candidate=candidate), by())
    assert texts(world.main).keys() == {"a", "b"}


def test_a_run_is_over_once_its_branch_is_committed_or_gone(world: World) -> None:
    joined = Joined(world)
    assert not joined.run.is_over()
    world.main.commit(HIDDEN, "Done")
    assert joined.run.is_over()
    world.main.delete_branch(HIDDEN)
    assert joined.run.is_over()


def test_a_run_is_over_once_its_lease_is_released_or_is_not_renewed(world: World) -> None:
    clock = HandClock()
    run = JoinedRun(world.lake(), Mount(bucket=NAME, repository=NAME, ref=HIDDEN), Joined(world).token, clock)
    assert not run.is_over()
    clock.now += LEASE
    assert not run.is_over()
    world.main.renew_branch(HIDDEN, "me")
    clock.now += 1
    assert not run.is_over()
    clock.now += LEASE + 1
    assert run.is_over()
    world.main.release_branch(HIDDEN, "me")
    assert Joined(world).run.is_over()
