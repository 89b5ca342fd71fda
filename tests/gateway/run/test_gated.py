"""Runs whose destination has rules."""

import pytest

from graveler.errors import RuleError
from graveler.gateway.run.publication import Publication, publish
from graveler.lake.refs.hidden_branch import hidden_branch
from graveler.model import Application, RequiredStatus, Rule
from graveler.requests.committing import PublishCandidate
from tests.lake.gates.support import by, guarded_world, post, set_rules
from tests.lake.support import World, put

NUMBERED = Application("run", 1)


def refused(world: World) -> RuleError:
    """The error of a run's publication."""
    terms = Publication(branch="main", message="Nightly", application=NUMBERED)

    def run() -> None:
        with hidden_branch(world.main, "main", "etl") as hidden:
            put(world.main, {"c": "3"}, hidden)
            publish(world.main, hidden, terms, "etl")

    with pytest.raises(RuleError) as error:
        run()
    return error.value


def test_a_run_that_waits_for_a_status_leaves_a_candidate_and_no_branch() -> None:
    world = guarded_world()
    error = refused(world)
    assert "graveler candidate publish" in str(error)
    assert [branch.name for branch in world.main.branches(show_hidden=True).results] == ["dev", "main"]
    post(world.main, world.main.commit_of(error.candidate))
    commit = world.main.run(PublishCandidate(candidate=error.candidate), by())
    assert (commit.message, world.main.branch("main").commit_id) == ("Nightly", commit.id)


def test_a_run_that_fails_a_check_leaves_its_branch() -> None:
    world = guarded_world()
    check = RequiredStatus("few", check={"kind": "limits", "most_objects": 1})
    set_rules(world.main, Rule(name="few", branches=("main",), statuses=(check,)))
    error = refused(world)
    assert error.kept in str(error)
    assert error.kept in {branch.name for branch in world.main.branches(show_hidden=True).results}
