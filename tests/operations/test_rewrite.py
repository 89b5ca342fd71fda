"""Rewriting a branch by other split parameters: the same objects, the tree of a fresh build, and every verb keeps the
parameters."""

from collections.abc import Callable
from random import Random

import pytest
from msgspec import to_builtins

from graveler.errors import DirtyBranchError, InvalidError, MergeConflictError, NoChangesError, TooMuchWorkError
from graveler.history.split_parameters import KEY
from graveler.lake.context import Context
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, MergeStrategy, SplitParameters
from graveler.operations.parts.rounds import Rounds, open_rounds
from graveler.requests.committing import Rewrite
from graveler.tree.store import TreeStore
from graveler.tree.writer import build
from tests.api.support import EventClient, make_world
from tests.lake.support import NAME, TINY, World, put
from tests.operations.support import SMALL, diverged
from tests.support.pinned import Asked, pinned_commit, pinned_merge, pinned_rewrite
from tests.support.trees import ALONE, MemoryFiles

WIDE = SplitParameters(min_size=600, max_size=3_000, raggedness=5)
NARROW = SplitParameters(min_size=40, max_size=300, raggedness=2)


def fresh(repository: OpenRepository, commit: Commit, split: SplitParameters) -> str:
    """The ID of the tree of the same records, built anew."""
    records = repository.parts.trees.load(commit.metarange).records()
    return build(TreeStore(MemoryFiles(), ALONE), split, records).id()


def expect_cut(repository: OpenRepository, branch: str, split: SplitParameters) -> None:
    head = repository.commit_of(branch)
    assert head.metarange_id == fresh(repository, head, split)


def expect_sound(world: World) -> None:
    """Nobody finds anything wrong, of any commit."""
    report = world.lake().fsck(NAME)
    assert report.findings == (), report.findings


@pytest.mark.parametrize("split", [WIDE, NARROW])
def test_the_objects_stay_and_the_tree_is_that_of_a_fresh_build(split: SplitParameters) -> None:
    world = World()
    put(world.main, {f"{number:03}": "1" for number in range(150)})
    before = world.main.commit("main", "base", metadata={"who": "me"})
    commit = world.repository().rewrite("main", split, committer="me", metadata={"why": "size"})
    assert commit.parents == (before.id,)
    assert commit.metarange_id != before.metarange_id
    assert commit.metarange_id == fresh(world.main, commit, split)
    assert commit.message == f"Rewrite with min_size={split.min_size}, max_size={split.max_size}, raggedness=" + str(
        split.raggedness
    )
    assert commit.metadata == {"why": "size", KEY: f"{split.min_size}/{split.max_size}/{split.raggedness}"}
    counted = world.counted()
    assert counted.repository.diff(before.id, commit.id).results == ()
    ranges = sum(len(world.main.parts.trees.load(one.metarange)) for one in (before, commit))
    assert counted.objects.calls["get"] <= ranges + 2, "each range once at most"
    with pytest.raises(NoChangesError, match="already has"):
        world.main.rewrite("main", split)
    back = world.main.rewrite("main", TINY)
    assert (back.metarange_id, back.metadata) == (before.metarange_id, {})
    expect_sound(world)


def test_what_cannot_be_rewritten_is_refused() -> None:
    world = World()
    put(world.main, {f"{number:03}": "1" for number in range(30)})
    with pytest.raises(DirtyBranchError):
        world.main.rewrite("main", WIDE)
    world.main.commit("main", "base")
    with pytest.raises(InvalidError, match="raggedness"):
        world.main.rewrite("main", SplitParameters(1, 2, 0))
    with pytest.raises(TooMuchWorkError, match="30 records"):
        world.main.run(Rewrite(branch="main", split=WIDE), Context(limit=29))
    world.main.protect(["main"])
    assert world.main.rewrite("main", WIDE, request_id="r") == world.main.rewrite("main", WIDE, request_id="r")


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_afterwards_is_cut_as_the_branch_is(seed: int) -> None:
    """Commits, merges of branches that are cut otherwise, reverts and picks of what was committed before."""
    world, random = World(), Random(seed)
    repository = world.main

    def change(branch: str) -> Commit:
        put(repository, {f"{number:03}": f"{random.random()}" for number in random.sample(range(160), 25)}, branch)
        repository.delete(branch, [f"{number:03}" for number in random.sample(range(160), 4)])
        return repository.commit(branch, "change")

    put(repository, {f"{number:03}": "1" for number in range(0, 160, 2)})
    repository.commit("main", "base")
    repository.create_branch("dev", "main")
    old = change("main")
    picked = change("dev")
    repository.rewrite("main", WIDE)
    cuts = {"main": WIDE, "dev": TINY}
    verbs: list[Callable[[], object]] = [
        lambda: change("main"),
        lambda: repository.merge("dev", "main", strategy=MergeStrategy.SOURCE_WINS),
        lambda: repository.cherry_pick("main", picked.id),
        lambda: repository.revert("main", old.id),
        lambda: change("dev"),
        lambda: repository.merge("main", "dev", strategy=MergeStrategy.SOURCE_WINS),
    ]
    for verb in [*verbs, *random.choices(verbs, k=8)]:
        try:
            verb()
        except (NoChangesError, MergeConflictError):
            continue
        for branch, split in cuts.items():
            expect_cut(repository, branch, split)
    expect_sound(world)


def in_parts(world: World, ask: Asked, number: str, between: Callable[[], object] = lambda: None) -> Commit:
    """An operation, each step by somebody who has just begun."""

    def steps() -> Rounds:
        return open_rounds(world.repository(), number, ask, began=world.clock.now(), sizes=SMALL)

    for round_number in range(3):
        planned = steps().plan(round_number)
        assert planned.parts > 2
        for part in range(planned.parts):
            steps().run_part(part, round_number)
        if round_number == 0:
            between()
        commit = steps().publish(round_number)
        if commit is not None:
            return commit
    raise AssertionError("it does not end")


@pytest.mark.parametrize("moves", [False, True])
def test_in_parts_it_is_the_tree_of_one_call_also_when_the_branch_moves(moves: bool) -> None:
    world = World()
    put(world.main, {f"{number:03}": "1" for number in range(150)})
    world.main.commit("main", "base")
    world.main.create_branch("alone", "main")

    def move() -> None:
        for branch in ("main", "alone"):
            put(world.main, {"0705": "new", "150": "new"}, branch)
            world.main.commit(branch, "meanwhile")

    commit = in_parts(world, pinned_rewrite(branch="main", split=WIDE), "op", move if moves else lambda: None)
    assert commit.metarange_id == world.main.rewrite("alone", WIDE).metarange_id == fresh(world.main, commit, WIDE)
    assert in_parts_again(world) == commit
    expect_sound(world)


def in_parts_again(world: World) -> Commit:
    """Somebody who has not heard that it is done."""
    steps = open_rounds(
        world.repository(), "op", pinned_rewrite(branch="main", split=WIDE), began=world.clock.now(), sizes=SMALL
    )
    assert steps.plan(0).parts > 0
    found = steps.publish(0)
    assert found is not None
    return found


def test_other_verbs_in_parts_go_on_as_the_branch_is_cut() -> None:
    world = World()
    repository = world.main
    diverged(repository)
    repository.rewrite("main", WIDE)
    repository.create_branch("alone", "main")
    merge = pinned_merge(source="dev", source_id=repository.commit_of("dev").id, destination="main", message="together")
    merged = in_parts(world, merge, "merge")
    assert merged.metarange_id == repository.merge("dev", "alone").metarange_id == fresh(repository, merged, WIDE)
    for branch in ("main", "alone"):
        put(repository, {f"{number:03}": "new" for number in range(0, 120, 4)}, branch)
    commit = in_parts(world, pinned_commit(branch="main", message="all"), "commit")
    assert commit.metarange_id == repository.commit("alone", "all").metarange_id == fresh(repository, commit, WIDE)
    expect_sound(world)


def test_over_http_it_is_a_commit_or_an_operation() -> None:
    world = make_world()
    call = EventClient(world)
    narrow, wide = SplitParameters(16 << 10, 64 << 10, 100), SplitParameters(32 << 10, 256 << 10, 100)
    repository = world.lake.create_repository("repo", "local://repo", split=narrow)
    put(repository, {f"{number:03}" * 300: "1" for number in range(50)})
    repository.commit("main", "base")
    path = "/repositories/repo/branches/main/rewrite"
    body = {**to_builtins(wide), "message": "m"}
    made = call("POST", path, (), body)
    assert (made.status, made.json()["message"], made.json()["metadata"].keys()) == (201, "m", {KEY})
    assert call("POST", path, (), body).status == 400  # it is cut so already
    assert call("POST", path, (), {**body, "min_size": 0}).status == 400
    assert call("POST", path, (), body, authorization=world.reader).status == 401
    accepted = call("POST", path, (), to_builtins(narrow), {"Prefer": "respond-async"})
    assert (accepted.status, accepted.json()["kind"]) == (202, "rewrite")
    operation = f"/repositories/repo/operations/{accepted.json()['id']}"
    while (told := call("GET", operation).json())["state"] == "running":
        repository.clock.sleep(0.01)
    assert (told["state"], told["commit_id"]) == ("completed", repository.commit_of("main").id)
    assert repository.commit_of("main").metadata == {}
    world.application.close()
