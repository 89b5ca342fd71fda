"""Verbs in parts: whatever the cuts, whoever works on them, however often, the commit has the tree of one call."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from graveler.errors import (
    CorruptError,
    DirtyBranchError,
    ForbiddenError,
    InvalidError,
    MergeConflictError,
    NoChangesError,
    NotFoundError,
    TooLateError,
    TooMuchWorkError,
    TouchedError,
    UnexpectedHeadError,
)
from graveler.lake.committing.sealing import take_sealed
from graveler.lake.context import Context
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import Application, Commit, MergeStrategies, MergeStrategy
from graveler.operations.parts.commit_work import HANDOVER, sample
from graveler.operations.parts.division import Sizes
from graveler.operations.parts.part_files import OPERATIONS
from graveler.operations.parts.rounds import Rounds, open_rounds
from graveler.requests import committing
from graveler.requests.base import CommitInfo
from graveler.requests.importing import AddressType, ImportAddress
from graveler.requests.merging import CherryPick, Merge, Revert
from graveler.staging.tokens import new_token
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Objects
from graveler.tree.parts import Load, apply_points, total_load
from tests.lake.support import NAME, DieAt, World, changes, died, messages, paths, put, texts
from tests.support.pinned import Asked, pinned_cherry_pick, pinned_commit, pinned_import, pinned_merge, pinned_revert

SMALL = Sizes(records=10, parts=8)
"""So that a hundred small records make several parts."""


def ask_merge(repository: OpenRepository, source: str = "dev", **changes: object) -> Asked:
    return pinned_merge(source=source, source_id=repository.commit_of(source).id, destination="main", **changes)  # type: ignore[arg-type]


def opened(world: World, ask: Asked, operation: str = "op", sizes: Sizes = SMALL, request: str = "") -> Rounds:
    """As another process would: with empty caches."""
    return open_rounds(world.repository(), operation, ask, request_id=request, began=world.clock.now(), sizes=sizes)


def rounds(world: World, ask: Asked, operation: str = "op", sizes: Sizes = SMALL, request: str = "") -> Commit:
    """All steps, each in a process of its own."""
    for number in range(20):
        planned = opened(world, ask, operation, sizes, request).plan(number)
        for part in reversed(range(planned.parts)):
            opened(world, ask, operation, sizes, request).run_part(part, number)
        commit = opened(world, ask, operation, sizes, request).publish(number)
        if commit is not None:
            return commit
    raise AssertionError("no end")


def diverged(world: World, count: int = 150) -> None:
    """Two branches that both changed every seventh object, or every fifth."""
    put(world.main, {f"{number:04}": "base" for number in range(count)})
    world.main.commit("main", "base")
    world.main.create_branch("dev", "main")
    put(world.main, {f"{number:04}": "dev" for number in range(0, count, 7)}, branch="dev")
    put(world.main, {f"new/{number:04}": "dev" for number in range(20)}, branch="dev")
    world.main.commit("dev", "dev")
    put(world.main, {f"{number:04}": "main" for number in range(1, count, 7)})
    world.main.commit("main", "main")


def as_one_call(world: World, make: Callable[[OpenRepository, str], Commit]) -> str:
    """ID of the tree that one call makes, on a branch of its own with the head of main."""
    world.main.create_branch("alone", "main")
    return make(world.main, "alone").metarange_id


def test_a_merge_in_parts_is_the_merge_of_one_call() -> None:
    world = World()
    diverged(world)
    ask = ask_merge(world.main, message="together", committer="me", metadata={"k": "v"})
    alone = as_one_call(world, lambda repository, branch: repository.merge("dev", branch))
    head = world.main.branch("main").commit_id
    planned = opened(world, ask).plan()
    assert planned.parts > 3
    assert planned.load.records > 100
    commit = rounds(world, ask)
    assert commit.metarange_id == alone
    assert (commit.message, commit.committer) == ("together", "me")
    assert commit.metadata == {"k": "v", ".lakefs.merge.strategy": "default"}
    assert commit.parents == (head, ask.refs["source"])
    assert world.main.branch("main").commit_id == commit.id


@pytest.mark.parametrize("squash", [True, False])
def test_a_numbered_merge_in_parts_happens_once_and_leaves_what_is_staged_beside_it(squash: bool) -> None:
    world = World()
    diverged(world)
    repository = world.repository()
    put(repository, {"beside": "1"})
    ask = ask_merge(repository, squash=squash, application=Application("app", 3), beside_uncommitted=True)
    done = rounds(world, ask)
    assert texts(world.repository())["beside"] == "1"
    assert world.repository().written_by("main", Application("app", 3)) == done
    for number, version in enumerate((3, 2)):
        request = structs.replace(ask.request, application=Application("app", version))
        repeated = structs.replace(ask, request=request)
        assert rounds(world, repeated, operation=f"again-{number}") == done
    assert world.repository().commit_of("main") == done


def test_a_revert_and_a_cherry_pick_in_parts_are_those_of_one_call() -> None:
    world = World()
    diverged(world)
    picked = world.main.branch("dev").commit_id
    alone = as_one_call(world, lambda repository, branch: repository.cherry_pick(branch, "dev"))
    commit = rounds(world, pinned_cherry_pick(branch="main", ref="dev", ref_id=picked), "pick")
    assert (commit.metarange_id, commit.message, commit.metadata["cherry-pick-origin"]) == (alone, "dev", picked)

    world.main.create_branch("undone", "main")
    one_call = world.main.revert("undone", "main").metarange_id
    assert rounds(world, pinned_revert(branch="main", ref="main", ref_id=commit.id), "back").metarange_id == one_call


@pytest.mark.parametrize("sizes", [SMALL, Sizes(records=1, parts=1000), Sizes()])
def test_a_commit_in_parts_is_the_commit_of_one_call(sizes: Sizes) -> None:
    world = World()
    diverged(world)
    edits: dict[str, str | None] = {f"{number:04}": "new" for number in range(0, 150, 3)}
    edits |= {f"{number:04}": None for number in range(1, 150, 9)} | {f"zz/{number}": "tail" for number in range(30)}
    world.main.create_branch("alone", "main")
    put(world.main, edits, "alone")
    put(world.main, edits)
    commit = rounds(world, pinned_commit(branch="main", message="many", committer="me"), sizes=sizes)
    assert commit.metarange_id == world.main.commit("alone", "many").metarange_id
    assert not world.main.uncommitted("main").results
    assert world.main.branch("main").commit_id == commit.id


def test_a_commit_into_an_empty_branch_and_of_many_shards() -> None:
    world = World()
    tokens = [new_token(4)]
    staged = world.staged()
    staged.put_many(tokens[0], [(b"%05d" % number, b"x") for number in range(3000)])
    tree = world.main.parts.trees.empty()
    found = sample(staged, tokens, tree)
    assert found == sorted(found)
    assert 2000 <= sum(weight for _, weight in found) <= 4000
    put(world.main, {f"{number:03}": "new" for number in range(60)})
    commit = rounds(world, pinned_commit(branch="main", message="first"))
    assert len(paths(world.main)) == 60
    assert commit.message == "first"


def test_a_sample_tells_where_changes_are_and_about_how_many() -> None:
    world = World()
    put(world.main, {f"{number:04}": "x" for number in range(300)})
    world.main.commit("main", "base")
    tree = world.main.parts.trees.load(world.main.commit_of("main").metarange)
    token = new_token(1)
    world.staged().put_many(token, [(b"0100x%05d" % number, b"x") for number in range(5000)])
    load = total_load(apply_points(tree, sample(world.staged(), [token], tree)))
    assert 1000 <= load.records <= 10_000
    assert world.staged().sample(token, [(b"0101", None)]) == [([], False)]


def test_an_import_in_parts_is_the_import_of_one_call(tmp_path: Path) -> None:
    world = World()
    diverged(world)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for number in range(15):
            (tmp_path / folder / f"{number:02}").write_text(f"{folder}{number}")
    sources = tuple(
        ImportAddress(AddressType.COMMON_PREFIX, f"file://{tmp_path}/{name}/", where)
        for name, where in (("b", "new"), ("a", "0005/in"))
    )
    world.main.create_branch("alone", "main")
    alone = world.main.import_addresses("alone", sources)
    ask = pinned_import("main", sources, "take over", "me", {"k": "v"})
    assert opened(world, ask).plan().parts == 2
    commit = rounds(world, ask)
    assert (commit.metarange_id, commit.message) == (alone.metarange_id, "take over")
    nothing = rounds(world, pinned_import("main", (), "nothing"), "other")
    assert nothing.metarange_id == commit.metarange_id


def test_a_part_of_an_import_opens_its_own_source_only() -> None:
    world, opened_at = World(), Counter[str]()
    landed = MemoryObjects("s3://landing", world.clock.now, foreign=True)
    names = [f"{number:02}" for number in range(12)]
    for name in names:
        landed.put(f"{name}/a", name.encode())

    def outside(address: str) -> tuple[Objects, str]:
        opened_at[address.split("/")[3]] += 1
        return landed, address.removeprefix("s3://landing/")

    lake = Lake(world.tables, world.objects, clock=world.clock, outside=outside)
    sources = tuple(
        ImportAddress(AddressType.OBJECT, f"s3://landing/{name}/a", f"{name}0")
        if int(name) % 3
        else ImportAddress(AddressType.COMMON_PREFIX, f"s3://landing/{name}/", f"{name}0")
        for name in reversed(names)
    )
    steps = open_rounds(lake.repository(NAME), "op", pinned_import("main", sources), began=world.clock.now())
    assert steps.plan().parts == len(sources)
    for number, name in enumerate(names):
        opened_at.clear()
        steps.run_part(number)
        assert set(opened_at) == {name}
    commit = steps.publish()
    assert commit is not None
    assert paths(world.main) == [f"{name}0" if int(name) % 3 else f"{name}0/a" for name in names]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.dictionaries(st.integers(0, 60), st.sampled_from(["a", "b", None]), max_size=30),
    st.dictionaries(st.integers(0, 60), st.sampled_from(["a", "b", None]), max_size=30),
    st.integers(1, 40),
)
def test_any_merge_in_any_parts(here: Mapping[int, str | None], there: Mapping[int, str | None], records: int) -> None:
    world = World()
    put(world.main, {f"{number:02}": "base" for number in range(0, 60, 2)})
    world.main.commit("main", "base")
    world.main.create_branch("dev", "main")
    for branch, edits in (("main", here), ("dev", there)):
        put(world.main, {f"{number:02}": text for number, text in edits.items()}, branch)
        world.main.commit(branch, "edits", allow_empty=True)
    strategies = MergeStrategies(MergeStrategy.SOURCE_WINS, (("0", MergeStrategy.DEST_WINS),))
    alone = as_one_call(world, lambda repository, branch: repository.merge("dev", branch, strategy=strategies))
    ask = ask_merge(world.main, strategies=strategies)
    assert rounds(world, ask, sizes=Sizes(records, 50)).metarange_id == alone


def test_every_step_may_run_twice_and_leaves_what_the_first_run_left() -> None:
    world = World()
    diverged(world)
    ask = ask_merge(world.main)
    assert opened(world, ask).plan() == opened(world, ask).plan()
    planned = opened(world, ask).plan()
    for part in range(planned.parts):
        done = opened(world, ask).run_part(part)
        stored = {name: world.objects().head(name).etag for name in files(world)}
        assert opened(world, ask).run_part(part) == done
        assert stored == {name: world.objects().head(name).etag for name in files(world)}
    commit = opened(world, ask).publish()
    assert commit is not None
    assert opened(world, ask).publish() == commit
    again = opened(world, ask).plan()
    assert (again.parts, again.load, again.left) == (planned.parts, planned.load, ())
    assert total_of(again.done.values()) == planned.load
    assert world.main.branch("main").commit_id == commit.id


def total_of(loads: Iterable[Load]) -> Load:
    total = Load()
    for load in loads:
        total += load
    return total


def files(world: World) -> list[str]:
    return [found.key for found in world.objects().list(f"{OPERATIONS}/op/")]


@pytest.mark.parametrize("kind", ["merge", "commit"])
def test_a_head_that_moves_costs_only_the_parts_in_which_it_moved(kind: str) -> None:
    world = World()
    diverged(world)
    ask: Asked = ask_merge(world.main)
    if kind == "commit":
        put(world.main, {f"{number:04}": "new" for number in range(0, 150, 3)})
        ask = pinned_commit(branch="main", message="mine")
    sizes = structs.replace(SMALL, in_place=0)
    planned = opened(world, ask).plan()
    for part in range(planned.parts):
        opened(world, ask).run_part(part)
    before = set(files(world))
    world.main.create_branch("side", "main")
    put(world.main, {"0071": "side"}, "side")
    side = world.main.commit("side", "side")
    if kind == "merge":
        world.main.merge("side", "main")
    else:  # nobody but a committer ahead of it could, and it has waited for those
        state = world.main.parts.branches.state("main")
        moved = structs.replace(state, commit_id=side.id)
        world.tables.transact(
            world.main.parts.refs.move_branch_writes(state, moved, world.main.parts.branches.event("merge", ""))
        )
    assert opened(world, ask, sizes=sizes).publish() is None
    second = opened(world, ask).plan(1)
    assert second.parts == planned.parts
    assert 1 <= len(second.left) <= 2 < planned.parts
    for part in second.left:
        opened(world, ask).run_part(part, 1)
    again = {name for name in files(world) if "/parts/" in name} - before
    assert len(again) == len(second.left)
    commit = opened(world, ask).publish(1)
    assert commit is not None
    assert texts(world.main)["0071"] == "side"
    assert texts(world.main)["0070" if kind == "merge" else "0072"] == ("dev" if kind == "merge" else "new")
    assert not world.main.uncommitted("main").results


def test_conflicts_are_those_of_one_call_and_change_nothing() -> None:
    world = World()
    diverged(world)
    put(world.main, {"0007": "main", "0140": "main"})
    head = world.main.commit("main", "the same objects")
    ask = ask_merge(world.main)
    with pytest.raises(MergeConflictError) as one_call:
        world.main.merge("dev", "main")
    with pytest.raises(MergeConflictError) as in_parts:
        rounds(world, ask)
    assert in_parts.value.conflicts == one_call.value.conflicts
    assert str(in_parts.value) == str(one_call.value)
    assert [conflict.path for conflict in in_parts.value.conflicts] == ["0007", "0140"]
    assert world.main.branch("main").commit_id == head.id


def test_refusals_are_those_of_one_call() -> None:
    world = World()
    diverged(world)
    ask = ask_merge(world.main)
    put(world.main, {"staged": "x"})
    with pytest.raises(DirtyBranchError):
        opened(world, ask).plan()
    world.main.reset("main")
    with pytest.raises(TouchedError, match="below '0001' in 'main'"):
        opened(world, ask_merge(world.main, unchanged_prefixes=("9", "0001"))).plan()
    main, dev = world.main.branch("main").commit_id, world.main.branch("dev").commit_id
    for expects in ({"expected_head": main}, {"expected_head": dev, "expected_destination": dev}):
        with pytest.raises(UnexpectedHeadError, match="now, but the merge expected commit"):
            opened(world, ask_merge(world.main, **expects)).plan()
    world.main.merge("dev", "main")
    with pytest.raises(NoChangesError, match="already has all commits"):
        opened(world, ask).plan()
    with pytest.raises(NoChangesError, match="nothing to commit"):
        opened(world, pinned_commit(branch="main", message="m"), "commit").plan()
    world.main.protect(["main"])
    with pytest.raises(ForbiddenError):
        opened(world, pinned_commit(branch="main", message="m"), "commit").plan()
    with pytest.raises(NotFoundError, match="no branch"):
        opened(world, pinned_commit(branch="none", message="m"), "commit").plan()
    with pytest.raises(InvalidError):
        opened(world, pinned_commit(branch="main", message="m", committer="x" * 500_000), "commit").plan()
    head = world.main.branch("main").commit_id
    back = pinned_revert(branch="main", ref="main", ref_id=head, parent_number=1)
    rounds(world, back, "back")
    with pytest.raises(NoChangesError, match="nothing to revert"):
        rounds(world, back, "back again")


def test_an_empty_commit_if_it_is_allowed() -> None:
    world = World()
    ask = pinned_commit(branch="main", message="nothing", allow_empty=True)
    assert rounds(world, ask).message == "nothing"


def test_steps_out_of_order_say_what_comes_first() -> None:
    world = World()
    diverged(world)
    ask = ask_merge(world.main)
    with pytest.raises(NotFoundError, match="plan the operation first, round 0"):
        opened(world, ask).run_part(0)
    opened(world, ask).plan()
    with pytest.raises(NotFoundError, match="run this part"):
        opened(world, ask).publish()
    for bad in ("", "a/b"):
        with pytest.raises(InvalidError):
            opened(world, ask, bad)
    (plan,) = files(world)
    world.objects().put(plan, b"no plan")
    with pytest.raises(CorruptError, match="start the operation again"):
        opened(world, ask).publish()


def test_what_took_longer_than_half_the_grace_is_not_published() -> None:
    world = World()
    diverged(world)
    ask = ask_merge(world.main)
    began = world.clock.now()
    operation = open_rounds(world.repository(), "op", ask, began=began, sizes=SMALL)
    for part in range(operation.plan().parts):
        operation.run_part(part)
    head = world.main.branch("main").commit_id
    world.clock.time += 43_200
    late = open_rounds(world.repository(), "op", ask, began=began, sizes=SMALL)
    with pytest.raises(TooLateError, match="half the grace"):
        late.publish()
    with pytest.raises(TooLateError, match="the operation took 43,200 s"):
        late.plan()
    with pytest.raises(TooLateError, match="half the grace"):
        late.run_part(0)
    assert world.main.branch("main").commit_id == head


def test_changes_stay_claimed_between_the_steps_of_a_commit() -> None:
    world = World()
    diverged(world)
    put(world.main, {"0001": "mine"})
    ask = pinned_commit(branch="main", message="mine")
    opened(world, ask).plan()
    sealed = world.main.parts.branches.state("main").sealed
    for _ in range(3):  # much longer than one lease altogether
        world.clock.time += HANDOVER - 1
        assert take_sealed(world.main.parts, sealed) is None
        opened(world, ask).run_part(0)
        world.objects().delete(next(name for name in files(world) if "/parts/" in name))
    opened(world, ask).run_part(0)
    world.clock.time += HANDOVER - 1
    put(world.repository(), {"0002": "other"})
    commit = opened(world, ask).publish()
    assert commit is not None
    assert world.main.commit("main", "other").parents == (commit.id,)


def test_another_commit_adopts_what_a_dead_operation_sealed_and_the_operation_returns_it() -> None:
    world = World()
    diverged(world)
    put(world.main, {"0001": "mine"})
    ask = pinned_commit(branch="main", message="mine")
    opened(world, ask).plan()
    world.clock.time += HANDOVER + 1
    other = world.repository().commit("main", "other")
    opened(world, ask).run_part(0)
    assert opened(world, ask).publish() == other
    assert opened(world, ask, "op").plan(0).parts == 1  # as it was planned
    assert rounds(world, ask, "op") == other


def test_who_gives_up_lets_others_take_the_changes_at_once() -> None:
    world = World()
    put(world.main, {"0001": "mine"})
    ask = pinned_commit(branch="main", message="mine")
    opened(world, ask).plan()
    opened(world, ask).give_up()
    slept = world.clock.slept
    world.repository().commit("main", "other")
    assert world.clock.slept == slept
    opened(world, ask_merge(world.main, "main")).give_up()


LITTLE = Context(limit=50)


def test_one_call_that_may_read_only_so_much_hands_its_changes_over() -> None:
    world = World()
    diverged(world)
    with pytest.raises(TooMuchWorkError) as merge:
        world.main.run(Merge(source="dev", destination="main"), LITTLE)
    assert merge.value.records > 50
    head = world.main.branch("main").commit_id
    with pytest.raises(TooMuchWorkError):
        world.main.run(CherryPick(branch="main", ref="dev"), LITTLE)
    world.main.create_branch("undo", "main")
    put(world.main, {f"{number:04}": "undo" for number in range(150)}, "undo")
    world.main.commit("undo", "undo")
    with pytest.raises(TooMuchWorkError):
        world.main.run(Revert(branch="undo", ref="main"), LITTLE)
    put(world.main, {f"{number:04}": "new" for number in range(0, 150, 3)})
    with pytest.raises(TooMuchWorkError) as commit:
        world.main.run(committing.Commit(branch="main", info=CommitInfo("mine")), LITTLE)
    assert world.main.branch("main").commit_id == head
    assert commit.value.operation
    put(world.repository(), {"0001": "later"})
    ask = pinned_commit(branch="main", message="mine", owner=commit.value.operation)
    rounds(world, ask)
    assert changes(world.main) == {"0001": "changed"}, "what was staged later is not in it"
    later = committing.Commit(branch="main", info=CommitInfo("later"))
    assert world.main.run(later, LITTLE).message == "later"


@pytest.mark.parametrize("late", [False, True])
def test_more_sealed_changes_than_one_transaction_takes_are_one_commit(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    world = World()
    monkeypatch.setattr("graveler.lake.committing.sealing.MAX_SEALED", 1)
    put(world.main, {"0001": "of the dead"})
    victim = world.repository(DieAt("objects.put", 1))
    assert died(lambda: victim.commit("main", "of the dead"))
    world.wait_for_leases()
    # Who knows the token from before puts under it first, so that the dead one's changes hold this one too.
    put(world.main if late else world.repository(), {"0002": "mine"})
    commit = rounds(world, pinned_commit(branch="main", message="mine"), request="id")
    assert texts(world.main, "main@") == {"0001": "of the dead", "0002": "mine"}
    assert messages(world.main) == ["mine", "Repository created"]
    assert rounds(world, pinned_commit(branch="main", message="mine"), request="id") == commit


def test_steps_cost_what_they_say() -> None:
    world = World()
    diverged(world)
    ask = ask_merge(world.main)
    planning = world.counted()
    operation = open_rounds(planning.repository, "op", ask, began=world.clock.now(), sizes=SMALL)
    planned = operation.plan()
    assert planning.metaranges_read() == 3
    assert (planning.ranges_read(), planning.ranges_written()) == (0, 0)
    assert sum(method == "put" for method, _ in planning.objects.keys) == 1
    assert planning.tables.requests <= 8
    for number in range(planned.parts):
        working = world.counted()
        part = open_rounds(working.repository, "op", ask, began=world.clock.now(), sizes=SMALL)
        part.run_part(number)
        own = [(method, key) for method, key in working.objects.keys if OPERATIONS in key]
        assert [method for method, _ in own] == ["get", "get", "put"]
        assert working.metaranges_read() == 3
        assert working.tables.requests == 0
        working.reset()
        part.run_part(number)
        assert [method for method, _ in working.objects.keys] == ["get", "get"], "done is done"
    publishing = world.counted()
    commit = open_rounds(publishing.repository, "op", ask, began=world.clock.now(), sizes=SMALL).publish()
    assert commit is not None
    assert sum(OPERATIONS in key for _, key in publishing.objects.keys) == 1 + planned.parts
    assert publishing.metaranges_written() == 1
    assert publishing.ranges_read() <= 6 * planned.parts
