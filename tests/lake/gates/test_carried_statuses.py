"""Statuses that stay although the branch moved."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from graveler.errors import RuleError
from graveler.lake.gates.carried_statuses import carry_statuses
from graveler.lake.gates.judgement import Gate
from graveler.lake.gates.statuses import Statuses
from graveler.lake.gates.touched import touched
from graveler.lake.repository import OpenRepository
from graveler.model import (
    Candidate,
    CandidateState,
    Commit,
    CommitID,
    MergeStrategy,
    MovedHead,
    RequiredStatus,
    Rule,
    Status,
    StatusState,
)
from tests.lake.gates.support import set_rules
from tests.lake.support import World, put

QUALITY = RequiredStatus("quality", posters=("ci",), paths=("gold/", "silver/x"))
APART = Rule(name="r", branches=("main",), statuses=(QUALITY,), moved_head=MovedHead.APART)
VERDICT = Status("quality", StatusState.SUCCESS, principal="ci", created=1)


def candidate(repository: OpenRepository, branch: str) -> tuple[Candidate, Commit]:
    """A candidate with what dev changed, on the head of main; its commit is that of a new branch."""
    head = repository.branch("main").commit_id
    repository.create_branch(branch, "main")
    commit = repository.merge("dev", branch, strategy=MergeStrategy.SOURCE_WINS)
    return (
        Candidate(
            id=commit.operation,
            state=CandidateState.OPEN,
            verb="merge",
            destination="main",
            head=CommitID(head),
            commit_id=commit.id,
            metarange=commit.metarange,
        ),
        commit,
    )


def carried(
    move: Mapping[str, str],
    *rules: Rule,
    change: Mapping[str, str] | None = None,
    verdict: Status = VERDICT,
    newer: Status | None = None,
) -> list[StatusState]:
    """The states of the statuses of a change that is built anew after a move of main."""
    world = World()
    repository = world.main
    put(repository, {"gold/a": "1", "silver/x": "1", "raw/a": "1", "raw/b": "1"})
    repository.commit("main", "base")
    statuses = Statuses(repository.parts.tables, repository.parts.uid)
    repository.create_branch("dev", "main")
    put(repository, dict(change or {"gold/a": "2"}), "dev")
    repository.commit("dev", "change")
    earlier, commit = candidate(repository, "one")
    statuses.post(commit.metarange, [verdict])
    put(repository, dict(move))
    repository.commit("main", "move")
    later, commit = candidate(repository, "two")
    if newer is not None:
        statuses.post(commit.metarange, [newer])
    trees = repository.parts.trees.load_many([repository.commit_of("main").metarange, later.metarange])
    carry_statuses(repository.parts, Gate(1, rules or (APART,)), earlier, commit, (trees[0], trees[1]))
    return [status.state for status in statuses.read(later.metarange).statuses]


@pytest.mark.parametrize("state", StatusState)
def test_a_verdict_stays_if_the_move_is_elsewhere(state: StatusState) -> None:
    assert carried({"raw/c": "1", "gol": "1"}, verdict=replace(VERDICT, state=state)) == [state]


@pytest.mark.parametrize("path", ["gold/b", "silver/x", "silver/xy", "gold/a"])
def test_a_move_below_the_paths_of_a_status_ends_it(path: str) -> None:
    assert carried({path: "3", "raw/c": "1"}) == []


def test_the_same_checksum_at_another_address_is_a_change() -> None:
    """Whoever links an object states its checksum."""
    world = World()
    repository = world.main
    put(repository, {"gold/a": "1", "raw/a": "1"})
    before = repository.commit("main", "base")
    repository.delete("main", ["gold/a"])
    repository.commit("main", "deleted")
    put(repository, {"gold/a": "1", "silver": "1"})
    after = repository.commit("main", "another address")
    trees = repository.parts.trees.load_many([before.metarange, after.metarange])
    assert touched(trees[0], trees[1], ["gold/"])
    assert not touched(trees[0], trees[1], ["raw/"])


def test_a_move_of_what_the_change_touches_ends_it() -> None:
    assert carried({"raw/a": "3", "raw/c": "1"}, change={"gold/a": "2", "raw/a": "2"}) == []
    assert carried({"raw/b": "3"}, change={"gold/a": "2", "raw/a": "2"}) == [StatusState.SUCCESS]


@pytest.mark.parametrize(
    "rules",
    [
        [replace(APART, moved_head=MovedHead.EXACT)],
        [APART, replace(APART, name="s", moved_head=MovedHead.EXACT)],
        [replace(APART, statuses=(replace(QUALITY, paths=()),))],
        [replace(APART, statuses=(replace(QUALITY, posters=("bot",)),))],
        [replace(APART, statuses=(replace(QUALITY, name="other"),))],
    ],
)
def test_it_stays_only_by_a_rule_that_says_so(rules: list[Rule]) -> None:
    assert carried({"raw/c": "1"}, *rules) == []


def test_a_rule_that_only_observes_does_not_keep_it_from_staying() -> None:
    watching = replace(APART, name="s", moved_head=MovedHead.EXACT, observe=True)
    assert carried({"raw/c": "1"}, APART, watching) == [StatusState.SUCCESS]


def test_a_verdict_about_a_commit_does_not_stay() -> None:
    assert carried({"raw/c": "1"}, verdict=replace(VERDICT, commit_id=CommitID("c" * 64))) == []


def test_a_newer_verdict_of_the_same_poster_is_not_replaced() -> None:
    newer = replace(VERDICT, state=StatusState.FAILURE, created=2)
    assert carried({"raw/c": "1"}, newer=newer) == [StatusState.FAILURE]


def test_a_name_that_gets_another_address_below_the_paths_of_a_status_needs_it() -> None:
    world = World()
    repository = world.main
    put(repository, {"gold/a": "1"})
    repository.commit("main", "base")
    repository.create_branch("dev", "main")
    repository.delete("dev", ["gold/a"])
    repository.commit("dev", "deleted")
    put(repository, {"gold/a": "1"}, "dev")
    repository.commit("dev", "another address")
    set_rules(repository, APART)
    with pytest.raises(RuleError, match="'quality' is missing"):
        repository.hard_reset("main", "dev")
