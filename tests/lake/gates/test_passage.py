"""New commits pass the gate of a branch as candidates: merges, commits, reverts, imports."""

import pytest

from graveler.errors import CandidateEndedError, ChangesHeldError, CorruptError, InvalidError, NoChangesError, RuleError
from graveler.lake.gates.candidates import Candidates
from graveler.lake.repository import OpenRepository
from graveler.model import CandidateState, Commit, MergeStrategy, RequiredStatus, Rule, StatusState
from graveler.requests.merging import Merge
from graveler.requests.refs import DeleteTag, Undo
from tests.lake.gates.support import TESTED, by, candidates, guarded_world, post, set_rules
from tests.lake.support import Before, put


def refused(repository: OpenRepository, source: str = "dev") -> RuleError:
    with pytest.raises(RuleError) as error:
        repository.merge(source, "main")
    return error.value


def candidate_commit(repository: OpenRepository, error: RuleError) -> Commit:
    return repository.commit_of(error.candidate)


def test_a_merge_waits_for_its_status_and_is_published_by_the_same_request() -> None:
    world = guarded_world()
    before = world.main.branch("main").commit_id
    error = refused(world.main)
    assert [lack.name for lack in error.lacks] == ["test"]
    assert world.main.branch("main").commit_id == before
    commit = candidate_commit(world.main, error)
    assert [entry.path for entry in world.main.list_objects(commit.id).results] == ["a", "b"]
    [candidate] = candidates(world.main)
    assert (candidate.state, candidate.commit_id, candidate.head) == (CandidateState.OPEN, commit.id, before)
    post(world.main, commit)
    assert world.main.merge("dev", "main").id == commit.id == world.main.branch("main").commit_id
    [candidate] = candidates(world.main)
    assert candidate.state is CandidateState.PUBLISHED


def test_a_failed_status_refuses_and_the_candidate_ends() -> None:
    world = guarded_world()
    commit = candidate_commit(world.main, refused(world.main))
    post(world.main, commit, StatusState.FAILURE)
    assert not refused(world.main).lacks[0].passing
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.REFUSED]


def test_a_status_of_somebody_else_does_not_count() -> None:
    world = guarded_world()
    commit = candidate_commit(world.main, refused(world.main))
    post(world.main, commit, principal="etl")
    refused(world.main)


def test_a_status_that_is_there_lets_a_merge_pass_at_once() -> None:
    world = guarded_world()
    post(world.main, world.main.commit_of("dev"))  # the merge has this tree
    commit = world.main.merge("dev", "main")
    assert world.main.branch("main").commit_id == commit.id
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.PUBLISHED]


def test_a_moved_head_makes_a_new_candidate() -> None:
    world = guarded_world()
    first = candidate_commit(world.main, refused(world.main))
    set_rules(world.main)
    put(world.main, {"c": "3"})
    world.main.commit("main", "meanwhile")
    set_rules(world.main, TESTED)
    second = candidate_commit(world.main, refused(world.main))
    assert first.id != second.id
    states = {candidate.commit_id: candidate.state for candidate in candidates(world.main)}
    assert states == {first.id: CandidateState.SUPERSEDED, second.id: CandidateState.OPEN}
    post(world.main, first)
    refused(world.main)


def test_a_commit_keeps_its_changes_until_it_may_be_published() -> None:
    world = guarded_world()
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError) as error:
        world.main.commit("main", "third")
    put(world.main, {"d": "4"})
    assert [entry.path for entry in world.main.list_objects("main").results] == ["a", "c", "d"]
    with pytest.raises(ChangesHeldError, match=error.value.candidate[:16]):
        world.repository().commit("main", "another")
    with pytest.raises(ChangesHeldError):
        world.main.merge("dev", "main")
    commit = world.main.commit_of(error.value.candidate)
    post(world.main, commit)
    assert world.repository().commit("main", "third").id == commit.id
    assert [entry.path for entry in world.main.list_objects("main@").results] == ["a", "c"]
    assert [entry.path for entry in world.main.list_objects("main").results] == ["a", "c", "d"]


def test_a_refused_commit_gives_its_changes_back() -> None:
    world = guarded_world()
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError) as error:
        world.main.commit("main", "third")
    post(world.main, world.main.commit_of(error.value.candidate), StatusState.FAILURE)
    with pytest.raises(RuleError):
        world.main.commit("main", "third")
    set_rules(world.main)
    commit = world.main.commit("main", "again")
    assert [entry.path for entry in world.main.list_objects(commit.id).results] == ["a", "c"]


def test_a_candidate_that_holds_changes_ends_after_an_hour() -> None:
    world = guarded_world()
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError) as error:
        world.main.commit("main", "third")
    world.clock.time += 3_700
    with pytest.raises(RuleError) as later:
        world.main.commit("main", "another")
    assert later.value.candidate != error.value.candidate
    states = [candidate.state for candidate in candidates(world.main)]
    assert states == [CandidateState.EXPIRED, CandidateState.OPEN]


def test_a_reset_withdraws_the_candidate_that_holds_the_changes() -> None:
    world = guarded_world()
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError):
        world.main.commit("main", "third")
    world.main.reset("main")
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.WITHDRAWN]
    with pytest.raises(NoChangesError):
        world.main.commit("main", "third")


def test_a_rule_for_pull_requests_refuses_before_the_work() -> None:
    world = guarded_world(Rule(name="reviewed", branches=("main",), pull_requests_only=True))
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError, match="pull request"):
        world.main.commit("main", "third")
    with pytest.raises(RuleError, match="pull request"):
        world.main.merge("dev", "main")
    assert not candidates(world.main)
    assert not world.main.parts.branches.state("main").sealed


def test_a_source_that_was_deleted_ends_the_candidate() -> None:
    world = guarded_world()
    commit = candidate_commit(world.main, refused(world.main))
    post(world.main, commit)
    world.main.delete_branch("dev")
    world.main.create_branch("dev", commit.parents[1])
    assert world.main.merge("dev", "main").id != commit.id
    states = {candidate.commit_id: candidate.state for candidate in candidates(world.main)}
    assert states[commit.id] is CandidateState.SUPERSEDED


def test_other_branches_and_transactions_are_free() -> None:
    world = guarded_world(Rule(name="all", branches=("*",), statuses=(RequiredStatus("test", posters=("ci",)),)))
    hidden = "tx-12345678-1234-4123-8123-123456789abc"
    world.main.create_branch(hidden, "dev", hidden=True)
    put(world.main, {"c": "3"}, hidden)
    world.main.commit(hidden, "free")
    with pytest.raises(RuleError):
        world.main.create_branch("another", hidden)
    with pytest.raises(RuleError):
        world.main.create_branch("hidden", hidden, hidden=True)


def test_rules_are_in_force_when_the_call_returns() -> None:
    world = guarded_world()
    set_rules(world.main)
    set_once = Before("tables.transact", 1, lambda: set_rules(world.main, TESTED))
    refused(world.repository(set_once))
    assert set_once.reached


def test_an_earlier_version_finds_no_uid_and_a_later_format() -> None:
    world = guarded_world()
    key = world.main.parts.branches.keys("main")[1]
    set_rules(world.main)  # the format stays without rules
    item = world.tables.get(key)
    assert item is not None
    assert (item["format_version"], "uid" in item) == (2, False)


def test_a_tag_needs_what_its_rules_ask_for() -> None:
    world = guarded_world(Rule(name="releases", tags=("v*",), statuses=(RequiredStatus("test", posters=("ci",)),)))
    with pytest.raises(RuleError):
        world.main.create_tag("v1", "dev")
    world.main.create_tag("other", "dev")
    post(world.main, world.main.commit_of("dev"))
    world.main.create_tag("v1", "dev")
    with pytest.raises(RuleError, match="admin"):
        world.main.run(DeleteTag(name="v1"), by())
    world.main.delete_tag("v1")


def test_a_hard_reset_needs_a_commit_that_passes() -> None:
    world = guarded_world()
    with pytest.raises(RuleError):
        world.main.hard_reset("main", "dev")
    post(world.main, world.main.commit_of("dev"))
    world.main.hard_reset("main", "dev")
    with pytest.raises(RuleError):
        world.main.undo("main")
    set_rules(world.main, Rule(name="tested", branches=("main",), statuses=TESTED.statuses, rollback=("etl",)))
    with pytest.raises(RuleError):
        world.main.undo("main")
    world.main.run(Undo(branch="main"), by())


def test_a_strategy_that_is_not_allowed_is_refused_before_the_work() -> None:
    world = guarded_world(Rule(name="plain", branches=("main",), strategies=(MergeStrategy.NONE,)))
    with pytest.raises(RuleError, match="source-wins"):
        world.main.merge("dev", "main", strategy=MergeStrategy.SOURCE_WINS)
    world.main.merge("dev", "main")


def test_a_bypass_stands_in_the_log() -> None:
    world = guarded_world(Rule(name="tested", branches=("main",), statuses=TESTED.statuses, bypass=("etl",)))
    with pytest.raises(RuleError, match="may not bypass"):
        world.main.run(Merge(source="dev", destination="main", bypass="urgent"))
    world.main.run(Merge(source="dev", destination="main", bypass="urgent"), by())
    newest = world.main.parts.reflog.entries("branch", "main", 1)[0]
    assert newest.event.operation == "merge, bypassing tested: urgent"
    with pytest.raises(
        InvalidError, match="has 1,001 characters; it stands in the reference log, so give at most 1,000"
    ):
        Merge(source="dev", destination="main", bypass="x" * 1001)


def test_a_failure_that_is_posted_at_the_moment_of_publication_counts() -> None:
    world = guarded_world()
    tree = world.main.commit_of("dev")
    post(world.main, tree)
    fail = Before("tables.transact", 2, lambda: post(world.main, tree, StatusState.FAILURE))
    refused(world.repository(fail))
    assert fail.reached
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.REFUSED]


def test_a_candidate_that_was_withdrawn_is_not_published() -> None:
    world = guarded_world()
    post(world.main, world.main.commit_of("dev"))
    store = Candidates(world.tables, world.main.repository.uid)

    def withdraw() -> None:
        [row] = store.all()
        store.end(row, CandidateState.WITHDRAWN, "", world.clock.now())

    before = world.main.branch("main").commit_id
    with pytest.raises(CandidateEndedError):
        world.repository(Before("tables.transact", 2, withdraw)).merge("dev", "main")
    assert world.main.branch("main").commit_id == before


def test_a_rule_that_is_set_while_a_name_is_made_counts() -> None:
    world = guarded_world()
    rule = Rule(name="new", branches=("new",), tags=("new",), statuses=TESTED.statuses)
    for make in ("create_branch", "create_tag"):
        set_rules(world.main)
        set_once = Before("tables.transact", 1, lambda: set_rules(world.main, rule))
        with pytest.raises(RuleError):
            getattr(world.repository(set_once), make)("new", "dev")
        assert set_once.reached


def test_changes_are_held_no_longer_once_no_rule_guards_the_branch() -> None:
    world = guarded_world()
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError):
        world.main.commit("main", "third")
    set_rules(world.main)
    commit = world.repository().commit("main", "another")
    assert [entry.path for entry in world.main.list_objects(commit.id).results] == ["a", "c"]
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.WITHDRAWN]


def test_what_was_refused_is_refused_again_without_another_candidate() -> None:
    world = guarded_world()
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError) as error:
        world.main.commit("main", "third")
    tree = world.main.commit_of(error.value.candidate)
    post(world.main, tree, StatusState.FAILURE)
    for _ in range(3):
        with pytest.raises(RuleError, match="failed") as again:
            world.repository().commit("main", "third")
        assert again.value.candidate == tree.id
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.REFUSED]
    post(world.main, tree)
    commit = world.main.commit("main", "third")
    assert world.main.branch("main").commit_id == commit.id


def test_a_branch_that_is_newer_than_all_rules_is_damaged() -> None:
    world = guarded_world()
    key = world.main.parts.refs.branch_key("main")
    item = world.tables.get(key)
    assert item is not None
    world.tables.put(key, {**item, "rules": 99})
    with pytest.raises(CorruptError, match="restore the table from a copy"):
        world.main.branch("main")
