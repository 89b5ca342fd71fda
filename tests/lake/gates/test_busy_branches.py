"""Branches that move while a candidate is checked: it is checked again, may keep the turn once, and others are told."""

from collections.abc import Callable

import pytest

from graveler.errors import BusyError, NoChangesError, TurnKeptError
from graveler.lake.gates.candidates import Candidates
from graveler.lake.gates.reports import reports
from graveler.model import CandidateState, Commit, RequiredStatus, Rule
from graveler.storage.tables.port import Key
from tests.lake.gates.support import candidates, guarded_world
from tests.lake.support import DieAt, World, died, put
from tests.support.instruments import Fault

LIMITED = Rule(
    name="limited", branches=("main",), statuses=(RequiredStatus("size", check={"kind": "limits", "most_objects": 99}),)
)


def limited_world() -> World:
    """A world whose main branch has a check of graveler's own, and more branches to merge."""
    world = guarded_world(LIMITED)
    for number in range(3):
        world.main.create_branch(f"dev{number}", "dev")
        put(world.main, {f"dev{number}": "1"}, f"dev{number}")
        world.main.commit(f"dev{number}", "more")
    return world


class When:
    """Calls each act at the first write to the table at which its condition holds, in their order."""

    def __init__(self, *steps: tuple[Callable[[], bool], Callable[[], object]]) -> None:
        self._steps = list(steps)
        self._is_acting = False

    def __call__(self, request: str, number: int) -> Fault:
        if request == "tables.put" and self._steps and not self._is_acting:
            condition, act = self._steps[0]
            self._is_acting = True
            if condition():
                del self._steps[0]
                act()
            self._is_acting = False
        return None


def is_open(world: World) -> bool:
    """Whether a candidate is open."""
    return any(candidate.state is CandidateState.OPEN for candidate in candidates(world.main))


def is_kept(world: World) -> bool:
    """Whether a candidate keeps the branch's turn."""
    partition = f"{world.main.repository.uid}/turns"
    return any("until" in item for _, item in world.tables.query(partition).items)


def test_a_check_of_gravelers_own_runs_in_the_call() -> None:
    world = limited_world()
    commit = world.main.merge("dev", "main")
    assert world.main.branch("main").commit_id == commit.id


def test_a_candidate_that_lost_its_branch_is_checked_again_and_keeps_the_turn() -> None:
    world = limited_world()
    other = world.repository()
    refusals: list[TurnKeptError] = []

    def try_another() -> None:
        with pytest.raises(TurnKeptError) as error:
            other.merge("dev1", "main")
        refusals.append(error.value)

    slow = world.repository(
        When(
            (lambda: is_open(world), lambda: other.merge("dev0", "main")),
            (lambda: is_kept(world), try_another),
        )
    )
    commit = slow.merge("dev", "main", allow_empty=True)
    assert world.main.branch("main").commit_id == commit.id
    assert refusals[0].branch == "main"
    other.merge("dev1", "main")


def test_a_verb_that_overtakes_a_kept_turn_does_not_end_it() -> None:
    """One that was being checked when the turn was kept has no place in the queue."""
    world = limited_world()
    other = world.repository()

    overtaking: list[Commit] = []

    def overtake() -> None:
        partition = f"{world.main.repository.uid}/turns"
        for sort, _ in world.tables.query(partition).items:
            world.tables.delete(Key(partition, sort))
        overtaking.append(other.merge("dev1", "main"))

    slow = world.repository(
        When(
            (lambda: is_open(world), lambda: other.merge("dev0", "main")),
            (lambda: is_kept(world), overtake),
        )
    )
    commit = slow.merge("dev", "main", allow_empty=True)
    assert commit.parents[0] == overtaking[0].id
    assert world.main.branch("main").commit_id == commit.id


def test_a_second_round_that_fails_leaves_no_ticket() -> None:
    world = limited_world()
    other = world.repository()
    slow = world.repository(When((lambda: is_open(world), lambda: other.merge("dev", "main", message="faster"))))
    with pytest.raises(NoChangesError):
        slow.merge("dev", "main")
    slept = world.clock.slept
    other.merge("dev1", "main")
    assert world.clock.slept == slept


def test_a_branch_that_never_rests_ends_with_a_sentence() -> None:
    world = limited_world()
    other = world.repository()

    def later() -> None:
        world.clock.time += LIMITED.hold + 60  # the turn is not kept for longer
        other.merge("dev1", "main")

    slow = world.repository(
        When(
            (lambda: is_open(world), lambda: other.merge("dev0", "main")),
            (lambda: is_kept(world), later),
        )
    )
    with pytest.raises(BusyError, match="moved each time while the change was checked"):
        slow.merge("dev", "main", allow_empty=True)


def test_the_same_request_does_not_begin_its_checks_a_second_time() -> None:
    world = limited_world()
    twin = world.repository()
    store = Candidates(world.tables, world.main.repository.uid)

    def give_a_sign_of_life() -> None:
        for row in store.all():
            if row.in_progress:
                store.note_work(row, at_work=True)

    def repeat() -> None:
        world.clock.on_sleep = give_a_sign_of_life
        with pytest.raises(BusyError, match="the same request is being checked"):
            twin.merge("dev", "main")
        world.clock.on_sleep = None
        repeated.append(True)

    repeated: list[bool] = []
    commit = world.repository(When((lambda: is_open(world), repeat))).merge("dev", "main")
    assert repeated
    assert world.main.branch("main").commit_id == commit.id
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.PUBLISHED]


def test_a_request_whose_process_died_in_its_checks_is_made_again() -> None:
    world = limited_world()
    assert died(lambda: world.repository(DieAt("tables.put", 2)).merge("dev", "main"))
    [left] = candidates(world.main)
    assert left.state is CandidateState.OPEN
    commit = world.repository().merge("dev", "main")
    states = {candidate.commit_id: candidate.state for candidate in candidates(world.main)}
    assert states == {left.commit_id: CandidateState.SUPERSEDED, commit.id: CandidateState.PUBLISHED}


@pytest.mark.parametrize(("most", "states"), [(99, []), (1, ["failure"])])
def test_a_rule_that_observes_runs_its_checks_after_the_publication(most: int, states: list[str]) -> None:
    check = RequiredStatus("size", check={"kind": "limits", "most_objects": most})
    world = guarded_world(Rule(name="observing", branches=("main",), statuses=(check,), observe=True))
    commit = world.main.merge("dev", "main")
    assert world.main.branch("main").commit_id == commit.id
    lacks = [lack for report in reports(world.main.parts).results for lack in report.lacks]
    assert [lack.state for lack in lacks] == states
