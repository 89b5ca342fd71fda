"""What gates cost: nothing without rules; a transaction to prepare and one to publish where the statuses are there."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from graveler.errors import PreconditionError, RuleError
from graveler.lake.gates.candidates import CandidateRow, Candidates
from graveler.lake.repository import OpenRepository
from graveler.model import Candidate, CandidateState, CommitID
from tests.lake.gates.support import guarded_world, post, set_rules
from tests.lake.support import World, put

VERBS: dict[str, Callable[[OpenRepository], object]] = {
    "merge": lambda repository: repository.merge("dev", "main"),
    "hard reset": lambda repository: repository.hard_reset("main", "dev"),
    "create branch": lambda repository: repository.create_branch("new", "dev"),
    "create tag": lambda repository: repository.create_tag("new", "dev"),
    "rename": lambda repository: repository.rename_branch("dev", "renamed"),
    "delete branch": lambda repository: repository.delete_branch("dev"),
    "commit": lambda repository: repository.commit("dev", "message", allow_empty=True),
}


def calls(world: World, verb: Callable[[OpenRepository], object]) -> tuple[dict[str, int], dict[str, int]]:
    """The requests of a verb to the table, and their items, by kind."""
    counted = world.counted()
    verb(counted.repository)
    return dict(counted.tables.calls), dict(counted.tables.items)


def test_a_merge_whose_statuses_are_there_prepares_and_publishes() -> None:
    free, guarded = guarded_world(), guarded_world()
    set_rules(free.main)
    post(guarded.main, guarded.main.commit_of("dev"))
    without, _ = calls(free, VERBS["merge"])
    with_rules, _ = calls(guarded, VERBS["merge"])
    assert with_rules.pop("transact") == without.pop("transact") + 1
    assert with_rules.pop("get_many") == without.pop("get_many") + 1
    assert with_rules == without


@pytest.mark.parametrize("verb", VERBS)
def test_rules_about_other_names_cost_nothing(verb: str) -> None:
    plain, ruled = World(), World()
    for world in (plain, ruled):
        put(world.main, {"a": "1"})
        world.main.commit("main", "first")
        world.main.create_branch("dev", "main")
        put(world.main, {"b": "2"}, "dev")
        world.main.commit("dev", "second")
    set_rules(ruled.main)
    assert calls(plain, VERBS[verb]) == calls(ruled, VERBS[verb])


def test_a_refused_merge_makes_no_second_candidate() -> None:
    world = guarded_world()
    for _ in range(2):
        with pytest.raises(RuleError):
            world.main.merge("dev", "main")
    counted = world.counted()
    with pytest.raises(RuleError):
        counted.repository.merge("dev", "main")
    assert "transact" not in counted.tables.calls


def test_a_principal_has_a_bounded_number_of_open_candidates() -> None:
    world = guarded_world()
    store = Candidates(world.main.tables, world.main.repository.uid)
    template = Candidate(id="", state=CandidateState.OPEN, verb="merge", destination="main", head=CommitID(""))
    rows = [CandidateRow(replace(template, id=f"{number:032x}", principal="etl")) for number in range(2_000)]
    for row in rows:
        world.tables.transact(store.open_writes(row, row.candidate.id, "", None))
    counted = replace(template, id="0" * 8 + "f" * 24)
    store.check_room(counted)
    with pytest.raises(PreconditionError, match="'etl' has 2,000 open candidates"):
        store.check_room(replace(counted, principal="etl"))
    store.check_room(replace(counted, id="1" + "f" * 31, principal="etl"))  # not counted
