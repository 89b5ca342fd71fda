"""The publisher applies concurrent changes of a branch: the tree is that of one call on the branch's head at that time, at the
cost of the changes, without another round."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from graveler.errors import MergeConflictError, NoChangesError
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID, MergeStrategies, MergeStrategy, SplitParameters
from graveler.operations.parts.division import Sizes
from graveler.operations.parts.rounds import open_rounds
from tests.lake.support import Before, World, put, texts
from tests.support.campaigns import examples
from tests.support.pinned import Asked, pinned_cherry_pick, pinned_commit, pinned_merge, pinned_revert, pinned_rewrite

SMALL = Sizes(records=10, parts=8)
NONE = Sizes(records=10, parts=8, in_place=0)
COARSE = SplitParameters(min_size=400, max_size=3_000, raggedness=6)


def diverged() -> World:
    """``dev`` and ``main`` have both changed a hundred and fifty objects here and there."""
    world = World()
    put(world.main, {f"{number:04}": "base" for number in range(150)})
    world.main.commit("main", "base")
    world.main.create_branch("dev", "main")
    put(world.main, {f"{number:04}": "dev" for number in range(0, 150, 7)}, branch="dev")
    world.main.commit("dev", "dev")
    put(world.main, {f"{number:04}": "main" for number in range(1, 150, 7)})
    world.main.commit("main", "main")
    return world


class Kind:
    """A verb: what is asked for, and the same in one call on another branch, whose head has what main's has."""

    def __init__(self, ask: Callable[[OpenRepository], Asked], alone: Callable[[OpenRepository, str], Commit]) -> None:
        self.ask, self.alone = ask, alone


def _id(repository: OpenRepository, ref: str) -> CommitID:
    return repository.commit_of(ref).id


def _merge_ask(repository: OpenRepository, **more: Any) -> Asked:
    return pinned_merge(source="dev", source_id=_id(repository, "dev"), destination="main", message="together", **more)


KINDS: Mapping[str, Kind] = {
    "merge": Kind(_merge_ask, lambda repository, branch: repository.merge("dev", branch)),
    "cherry-pick": Kind(
        lambda repository: pinned_cherry_pick(branch="main", ref="dev", ref_id=_id(repository, "dev")),
        lambda repository, branch: repository.cherry_pick(branch, "dev"),
    ),
    "revert": Kind(
        lambda repository: pinned_revert(branch="main", ref="main", ref_id=_id(repository, "main")),
        lambda repository, branch: repository.revert(branch, "main-then"),
    ),
    "rewrite": Kind(
        lambda _: pinned_rewrite(branch="main", split=COARSE),
        lambda repository, branch: repository.rewrite(branch, COARSE),
    ),
}


def by_others(world: World, files: Mapping[str, str | None]) -> None:
    """Somebody else merges a change into main."""
    repository = world.repository()
    name = f"side-{len(repository.log('main', amount=1000).results)}"
    repository.create_branch(name, "main")
    put(repository, files, name)
    repository.commit(name, name)
    repository.merge(name, "main")


def worked_on(
    world: World, ask: Asked, sizes: Sizes = SMALL, *, between: Callable[[int], object] = lambda _: None
) -> int:
    """Plan and parts, each by another process; ``between`` is called after each. How many parts there are."""

    def opened() -> OpenRepository:
        return world.repository()

    parts = open_rounds(opened(), "op", ask, began=world.clock.now(), sizes=sizes).plan().parts
    between(0)
    for number in range(parts):
        open_rounds(opened(), "op", ask, began=world.clock.now(), sizes=sizes).run_part(number)
        between(number + 1)
    return parts


def published(world: World, ask: Asked, sizes: Sizes = SMALL, schedule: Before | None = None) -> Commit | None:
    operation = open_rounds(world.repository(schedule), "op", ask, began=world.clock.now(), sizes=sizes)
    return operation.publish()


def check_as_alone(world: World, kind: str, commit: Commit | None) -> None:
    assert commit is not None, "in the same step"
    head = commit.parents[0]
    world.main.create_branch("alone", head)
    assert commit.metarange_id == KINDS[kind].alone(world.main, "alone").metarange_id
    assert world.main.branch("main").commit_id == commit.id


MOVES: Sequence[Mapping[str, str | None]] = (
    {"0072": "side"},
    {"0000x": "first", "zzz": "last"},
    {"0009": None, "0010": None},
    {"0003": "side", "0079": "side", "0142": "side"},
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", range(len(MOVES)))
def test_a_head_that_moves_at_any_step_is_followed(kind: str, change: int) -> None:
    for step in range(4):
        world = diverged()
        world.main.create_tag("main-then", "main")
        ask = KINDS[kind].ask(world.main)

        def moves(done: int, step: int = step, world: World = world) -> None:
            if done == step:
                by_others(world, MOVES[change])

        if worked_on(world, ask, between=moves) < step:
            break
        check_as_alone(world, kind, published(world, ask))
        for path, text in MOVES[change].items():
            assert texts(world.main).get(path) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [(1,), (2,), (1, 2), (1, 2, 3)])
def test_a_head_that_moves_while_it_is_published_is_followed(kind: str, times: Sequence[int]) -> None:
    """Just before so many of the publishing transactions, of which the first loses, and the next ones."""
    world = diverged()
    world.main.create_tag("main-then", "main")
    ask = KINDS[kind].ask(world.main)
    worked_on(world, ask)
    seen = 0

    def moves(request: str, number: int) -> None:
        nonlocal seen
        if request == "tables.transact":
            seen += 1
            if seen in times:
                by_others(world, MOVES[seen])

    operation = open_rounds(world.repository(moves), "op", ask, began=world.clock.now(), sizes=SMALL)
    check_as_alone(world, kind, operation.publish())


def test_a_head_that_is_turned_back_while_it_is_published_is_followed() -> None:
    world = diverged()
    ask = _merge_ask(world.main)
    worked_on(world, ask)
    planned_on = world.main.branch("main").commit_id
    by_others(world, {"0072": "side"})

    def back() -> None:
        world.repository().hard_reset("main", planned_on)

    check_as_alone(world, "merge", published(world, ask, schedule=Before("tables.transact", act=back)))
    assert texts(world.main)["0072"] == "base"


def test_what_moved_costs_what_it_changed_and_no_part() -> None:
    costs = []
    changes: Sequence[Mapping[str, str]] = ({}, {"0072": "side"}, {"0072": "side", "0074": "side"})
    for change in changes:
        world = diverged()
        ask = _merge_ask(world.main)
        worked_on(world, ask)
        if change:
            by_others(world, change)
        counted = world.counted()
        assert open_rounds(counted.repository, "op", ask, began=world.clock.now(), sizes=SMALL).publish() is not None
        costs.append(counted.ranges_read())
    assert costs[1] - costs[0] <= 12
    assert costs[2] - costs[0] <= 12


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_too_much_for_one_step_is_another_round(kind: str) -> None:
    world = diverged()
    world.main.create_tag("main-then", "main")
    ask = KINDS[kind].ask(world.main)
    worked_on(world, ask, NONE)
    by_others(world, {"0072": "side"})
    assert published(world, ask, NONE) is None
    assert world.main.commit_of("main").message != "together"


@pytest.mark.parametrize(("mine", "theirs"), list(product(["side", None], ["side", "dev"])))
def test_a_conflict_with_what_moved_is_that_of_one_call(mine: str | None, theirs: str) -> None:
    world = diverged()
    ask = _merge_ask(world.main)
    worked_on(world, ask)
    by_others(world, {"0007": mine, "0140": theirs})
    conflicts = ["0007", "0140"] if theirs == "side" else ["0007"]
    world.main.create_branch("alone", "main")
    with pytest.raises(MergeConflictError) as alone:
        world.main.merge("dev", "alone")
    with pytest.raises(MergeConflictError) as found:
        published(world, ask)
    assert [one.path for one in found.value.conflicts] == conflicts
    assert found.value.conflicts == alone.value.conflicts


def test_a_conflict_that_was_there_and_has_gone_is_looked_at_in_another_round() -> None:
    world = diverged()
    put(world.main, {"0007": "main"})
    world.main.commit("main", "against dev")
    ask = _merge_ask(world.main)
    worked_on(world, ask)
    by_others(world, {"0007": "dev"})
    assert published(world, ask) is None


def test_what_was_merged_by_others_meanwhile_is_no_change() -> None:
    world = diverged()
    ask = _merge_ask(world.main)
    worked_on(world, ask)
    world.repository().merge("dev", "main")
    with pytest.raises(NoChangesError, match="already has all commits"):
        published(world, ask)


def test_a_branch_that_was_rewritten_meanwhile_is_another_round() -> None:
    world = diverged()
    ask = _merge_ask(world.main)
    worked_on(world, ask)
    world.repository().rewrite("main", COARSE)
    assert published(world, ask) is None


EDITS = st.dictionaries(st.integers(0, 60), st.sampled_from(["a", "b", None]), max_size=20)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(EDITS, EDITS, st.lists(EDITS, min_size=1, max_size=3), st.integers(1, 40), st.sampled_from(["merge", "commit"]))
def test_any_change_meanwhile_gives_the_tree_of_one_call(
    here: Mapping[int, str | None],
    there: Mapping[int, str | None],
    meanwhile: Sequence[Mapping[int, str | None]],
    records: int,
    kind: str,
) -> None:
    world = World()
    put(world.main, {f"{number:02}": "base" for number in range(0, 60, 2)})
    world.main.commit("main", "base")
    world.main.create_branch("dev", "main")
    put(world.main, {f"{number:02}": text for number, text in there.items()}, "dev")
    world.main.commit("dev", "edits", allow_empty=True)
    put(world.main, {f"{number:02}": text for number, text in here.items()})
    strategies = MergeStrategies(MergeStrategy.SOURCE_WINS, (("0", MergeStrategy.DEST_WINS),))
    ask: Asked
    if kind == "merge":
        world.main.commit("main", "edits", allow_empty=True)
        ask = _merge_ask(world.main, strategies=strategies)
    else:
        ask = pinned_commit(branch="main", message="together", allow_empty=True)
    sizes = Sizes(records, 50)
    worked_on(world, ask, sizes)
    for edits in meanwhile:
        moved_by_force(world, {f"{number:02}": text for number, text in edits.items()})
    moved = world.main.branch("main").commit_id
    commit = published(world, ask, sizes)
    assert commit is not None
    assert commit.parents[0] == moved
    world.main.create_branch("alone", moved)
    if kind == "merge":
        alone = world.main.merge("dev", "alone", strategy=strategies, allow_empty=True)
    else:
        put(world.main, {f"{number:02}": text for number, text in here.items()}, "alone")
        alone = world.main.commit("alone", "alone", allow_empty=True)
    assert commit.metarange_id == alone.metarange_id


def moved_by_force(world: World, files: Mapping[str, str | None]) -> None:
    """As :func:`by_others`, whatever is staged or sealed on main: as a committer ahead of it could."""
    repository = world.repository()
    name = f"side-{len(repository.log('main', amount=1000).results)}"
    repository.create_branch(name, "main")
    put(repository, files, name)
    commit = repository.commit(name, name, allow_empty=True)
    state = repository.parts.branches.state("main")
    after = structs.replace(state, commit_id=commit.id)
    event = repository.parts.branches.event("merge", "")
    world.tables.transact(repository.parts.refs.move_branch_writes(state, after, event))
