"""Several processes and one gated branch: no two candidates hold the same changes, and no old process passes by."""

import pytest

from graveler.errors import ChangesHeldError, CorruptError, RuleError
from graveler.history.refs import Refs
from graveler.model import CandidateState
from tests.lake.gates.support import candidates, guarded_world, post
from tests.lake.support import NAME, Before, put


@pytest.mark.parametrize(("request_", "number"), [("objects.put", 1), ("tables.transact", 2)])
def test_a_commit_that_was_overtaken_takes_no_changes_from_the_candidate_of_another(request_: str, number: int) -> None:
    world = guarded_world()
    put(world.main, {"c": "3"})

    def overtake() -> None:
        world.clock.time += 7  # the lease of the slow commit runs out
        with pytest.raises(RuleError):
            world.repository().commit("main", "other")

    before = Before(request_, number, overtake)
    with pytest.raises(ChangesHeldError):
        world.repository(before).commit("main", "slow")
    assert before.reached
    [candidate] = candidates(world.main)
    assert (candidate.message, candidate.state) == ("other", CandidateState.OPEN)


def test_a_merge_beside_what_is_staged_does_not_wait_for_changes_that_a_candidate_holds() -> None:
    world = guarded_world()
    post(world.main, world.main.commit_of("dev"))  # the merge has this tree
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError):
        world.main.commit("main", "third")
    world.main.merge("dev", "main", beside_uncommitted=True)
    with pytest.raises(RuleError) as error:
        world.main.commit("main", "third")  # built anew on the new head
    post(world.main, world.main.commit_of(error.value.candidate))
    assert world.main.commit("main", "third").id == error.value.candidate
    assert [entry.path for entry in world.main.list_objects("main@").results] == ["a", "b", "c"]
    ends = [candidate.state for candidate in candidates(world.main) if candidate.verb == "commit"]
    assert sorted(ends) == [CandidateState.PUBLISHED, CandidateState.SUPERSEDED]


def test_a_version_before_rules_cannot_read_a_branch_with_rules() -> None:
    world = guarded_world()
    refs = Refs(world.tables, world.main.repository.uid)
    item = world.tables.get(refs.branch_key("main"))
    assert item is not None
    earlier = {name: value for name, value in item.items() if name != "rules"}
    with pytest.raises(CorruptError):
        refs.decode_branch("main", earlier)
    assert world.main.parts.branches.state("main").moves > 0


def test_a_restored_repository_has_its_rules_and_its_branches_can_change() -> None:
    world = guarded_world()
    dumped = world.main.dump()
    world.lake().delete_repository(NAME)
    world.lake().restore(dumped.namespace, dumped.id, NAME)
    restored = world.lake().repository(NAME)
    with pytest.raises(RuleError) as error:
        restored.merge("dev", "main")
    post(restored, restored.commit_of(error.value.candidate))
    assert restored.merge("dev", "main").id == error.value.candidate
