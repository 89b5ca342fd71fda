"""Trying rules, before they are set and afterwards."""

import pytest
from msgspec.structs import replace

from graveler.errors import InvalidError, RefNotFoundError
from graveler.lake.gates.statuses import Statuses
from graveler.lake.repository import OpenRepository
from graveler.model import RequiredApprovals, RequiredStatus, Rule, Status, StatusState
from graveler.requests.setting_changes import SetRules
from tests.lake.support import World, put

QUALITY = RequiredStatus("quality", posters=("ci",), paths=("gold/",))
RULE = Rule(name="r", branches=("main", "release-*"), tags=("v*",), statuses=(QUALITY,))


@pytest.fixture
def world() -> World:
    world = World()
    world.main.create_branch("dev", "main")
    put(world.main, {"gold/a": "1"}, "dev")
    world.main.commit("dev", "gold")
    return world


@pytest.fixture
def repository(world: World) -> OpenRepository:
    return world.main


def test_a_commit_is_tried_for_a_branch_a_tag_and_a_new_name(repository: OpenRepository) -> None:
    repository.run(SetRules(rules=(RULE, replace(RULE, name="o", observe=True))))
    trial = repository.gates.try_rules("dev", "main")
    assert trial.rules == ("r", "o")
    assert [(lack.rule, lack.name) for lack in trial.lacks] == [("r", "quality")]
    assert [(lack.rule, lack.name) for lack in trial.observed] == [("o", "quality")]
    assert repository.gates.try_rules("main", "main").lacks == (), "nothing below gold/ changes"
    for name, kind in (("release-1", "branch"), ("v1", "tag")):
        assert repository.gates.try_rules("main", name, kind).lacks, "a new name has no earlier state"  # type: ignore[arg-type]
    assert repository.gates.try_rules("dev", "dev").rules == ()
    with pytest.raises(RefNotFoundError):
        repository.gates.try_rules("nope", "main")


def test_statuses_count(repository: OpenRepository) -> None:
    repository.run(SetRules(rules=(RULE,)))
    commit = repository.commit_of("dev")
    status = Status("quality", StatusState.SUCCESS, principal="ci", created=1)
    Statuses(repository.parts.tables, repository.parts.uid).post(commit.metarange, [status])
    assert repository.gates.try_rules("dev", "main").lacks == ()


def test_rules_are_tried_before_they_are_set(repository: OpenRepository) -> None:
    rule = Rule(name="new", branches=("main",), approvals=(RequiredApprovals(2),))
    assert [lack.words for lack in repository.gates.try_rules("dev", "main", rules=[rule]).lacks] == [
        "it has 0 of 2 approvals; ask for more"
    ]
    with pytest.raises(InvalidError, match="guards nothing"):
        repository.gates.try_rules("dev", "main", rules=[replace(rule, branches=())])
    assert repository.rules().version == 0
