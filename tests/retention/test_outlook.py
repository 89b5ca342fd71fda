"""What a plan says about commits that a run does not free yet: what keeps them, and from when a later run can free them."""

import pytest

from graveler.lake.clock import GRACE
from graveler.lake.deadline import SKEW
from graveler.model import RetentionRules
from graveler.retention.forecast import Outlook
from graveler.retention.rules import DAY
from graveler.retention.runs import Mode
from tests.lake.support import World
from tests.retention.support import AGE, collect, write

WAIT = GRACE + SKEW


@pytest.fixture
def world() -> World:
    return World()


def plan(world: World) -> Outlook:
    summary = collect(world, Mode.DRY_RUN)
    assert not summary.plan.found
    assert summary.plan.outlook is not None
    return summary.plan.outlook


def test_without_rules_a_plan_names_what_a_rule_could_free(world: World) -> None:
    for number in range(3):
        write(world.main, "main", a=f"text {number}")
    world.main.create_tag("v1", "main~1")
    world.clock.time += AGE
    assert plan(world) == Outlook(1, 1, 2, has_rules=False, to_mark=0, releases=(), later=0)


def test_rules_say_when_they_free_what(world: World) -> None:
    write(world.main, "main", a="one")
    world.clock.time += 3 * DAY
    write(world.main, "main", a="two")
    replaced = world.main.commit_of("main").created
    world.clock.time += 3 * DAY
    world.main.set_retention(RetentionRules(30, {}))
    found = plan(world)
    assert (found.heads, found.pinned, found.replaced, found.has_rules, found.to_mark) == (1, 0, 2, True, 0)
    # The first commit of all was replaced three days earlier.
    assert [release.commits for release in found.releases] == [1, 1]
    assert found.releases[1].at == pytest.approx(replaced + 30 * DAY + WAIT, abs=1)
    # What the plan foretold happens: the rules' days, then a mark, then its grace.
    world.clock.time = found.releases[1].at - WAIT + 1
    assert collect(world).plan.expired == 2
    world.clock.time += WAIT + 1
    assert collect(world).plan.found


def test_what_nothing_keeps_waits_for_its_mark_and_its_grace(world: World) -> None:
    world.main.create_branch("side", "main")
    write(world.main, "side", a="side")
    world.main.delete_branch("side")
    world.clock.time += AGE
    now = world.clock.time
    found = plan(world)
    assert found.to_mark == 1
    (release,) = found.releases
    assert release.commits == 1
    assert release.at == pytest.approx(now + WAIT, abs=2)
    assert collect(world).plan.expired == 1
    marked = plan(world)
    assert (marked.to_mark, marked.releases[0].commits) == (0, 1)
    world.clock.time = marked.releases[0].at + 1
    assert collect(world).plan.found


def test_days_with_releases_are_bounded(world: World) -> None:
    for number in range(15):
        write(world.main, "main", a=f"text {number}")
        world.clock.time += 2 * DAY
    world.main.set_retention(RetentionRules(60, {}))
    found = plan(world)
    assert len(found.releases) == 10
    assert sum(release.commits for release in found.releases) + found.later == found.replaced == 15


def test_a_run_has_no_outlook(world: World) -> None:
    write(world.main, "main", a="text")
    assert collect(world).plan.outlook is None
