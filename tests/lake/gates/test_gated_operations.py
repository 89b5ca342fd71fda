"""Operations in parts pass the gate of their branch, as the actor who asked for them."""

import pytest
from msgspec.structs import replace

from graveler.errors import RuleError
from graveler.model import CandidateState, Rule
from tests.lake.gates.support import ETL, TESTED, candidates, guarded_world, post
from tests.lake.support import put
from tests.lake.test_in_parts import ask_merge, rounds
from tests.support.pinned import pinned_commit

BYPASSED = Rule(name="bypassed", branches=("main",), statuses=TESTED.statuses, bypass=("etl",))


def test_a_merge_in_parts_waits_for_its_status() -> None:
    world = guarded_world()
    before = world.main.branch("main").commit_id
    with pytest.raises(RuleError) as error:
        rounds(world, ask_merge(world.main))
    assert world.main.branch("main").commit_id == before
    post(world.main, world.main.commit_of(error.value.candidate))
    commit = rounds(world, ask_merge(world.main), "again")
    assert world.main.branch("main").commit_id == commit.id == error.value.candidate


def test_a_commit_in_parts_keeps_its_changes_until_its_status_is_there() -> None:
    world = guarded_world()
    put(world.main, {f"{number:02}": "1" for number in range(40)})
    with pytest.raises(RuleError) as error:
        rounds(world, pinned_commit(branch="main", message="many"))
    post(world.main, world.main.commit_of(error.value.candidate))
    assert world.main.commit("main", "many").id == error.value.candidate
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.PUBLISHED]


def test_an_operation_has_the_rights_of_its_actor() -> None:
    world = guarded_world(BYPASSED)
    ask = ask_merge(world.main)
    urgent = replace(ask, request=replace(ask.request, bypass="urgent"))
    with pytest.raises(RuleError, match="may not bypass"):
        rounds(world, urgent)
    rounds(world, replace(urgent, actor=ETL), "again")
