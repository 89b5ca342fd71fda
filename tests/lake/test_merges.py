"""Three-way merges of a lake compared with dicts, and the choice of the base on histories of real merges.

``GRAVELER_MERGES=n`` makes n random merges instead of the short form.
"""

import os
from contextlib import suppress
from random import Random
from threading import Event, Thread

import pytest

from graveler.errors import (
    DirtyBranchError,
    InvalidError,
    MergeConflictError,
    NoChangesError,
    RefNotFoundError,
    TouchedError,
    UnexpectedHeadError,
)
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID, MergeStrategy, ObjectEntry
from tests.lake import oracles
from tests.lake.support import TINY, Before, DieAt, World, commit, died, diverged, messages, put, texts
from tests.support.instruments import Fault

MERGES = int(os.environ.get("GRAVELER_MERGES", "240"))

State = dict[str, int]
STRATEGIES = list(MergeStrategy)


def entry(path: str, content: int) -> ObjectEntry:
    """Equal contents are equal whatever the key: copies, markers, empty files."""
    return ObjectEntry(path, f"mem://o/{content}", content, f"{content:032x}", 0)


def change(repository: OpenRepository, branch: str, before: State, after: State) -> None:
    repository.link_many(branch, [entry(p, c) for p, c in after.items() if before.get(p) != c])
    repository.delete(branch, [p for p in before if p not in after])
    with suppress(NoChangesError):
        repository.commit(branch, "m", allow_empty=True)


def state_of(repository: OpenRepository, ref: str) -> State:
    return {e.path: e.size for e in repository.objects(ref)}


def changed(random: Random, state: State, keys: list[str], share: float) -> State:
    result = dict(state)
    for key in keys:
        if random.random() < share:
            choice = random.random()
            if choice < 0.3:
                result.pop(key, None)
            elif choice < 0.5 and state:  # a copy, or a rename, of another object
                result[key] = random.choice(list(state.values()))
            else:
                result[key] = random.choice((0, 0, 1, 2))
    return result


@pytest.mark.search
@pytest.mark.parametrize("chunk", range(6))
def test_random_merges_agree_with_the_oracle(chunk: int) -> None:
    random = Random(chunk)
    world = World()
    world.main.commit("main", "root", allow_empty=True)
    wanted = {"clean": 0, "conflicts": 0}
    for number in range(MERGES // 6):
        size = random.choice((4, 30, 120))
        keys = [f"t{random.randrange(9)}/{name}{n}" for n in range(size) for name in ("_SUCCESS", "part-")]
        base = changed(random, {}, keys, 0.7)
        world.main.create_branch(f"d{number}", "main~0")
        change(world.main, f"d{number}", {}, base)
        world.main.create_branch(f"s{number}", f"d{number}")
        share = random.choice((0.02, 0.1, 0.5))
        source, destination = changed(random, base, keys, share), changed(random, base, keys, share)
        change(world.main, f"s{number}", base, source)
        change(world.main, f"d{number}", base, destination)
        strategy = random.choice(STRATEGIES)
        expected, conflicts = oracles.three_way(base, source, destination, strategy.value)
        repository = world.repository()
        if conflicts:
            wanted["conflicts"] += 1
            head = repository.branch(f"d{number}")
            with pytest.raises(MergeConflictError) as caught:
                repository.merge(f"s{number}", f"d{number}", strategy=strategy)
            assert [c.path for c in caught.value.conflicts] == conflicts
            for found in caught.value.conflicts:
                sizes = [None if e is None else e.size for e in (found.base, found.source, found.destination)]
                assert sizes == [state.get(found.path) for state in (base, source, destination)]
            assert repository.branch(f"d{number}") == head
            assert state_of(repository, f"d{number}") == destination
        else:
            wanted["clean"] += 1
            merged = repository.merge(f"s{number}", f"d{number}", strategy=strategy)
            assert state_of(repository, merged.id) == expected
            # F1: the same tree as one commit of the result makes.
            world.main.create_branch(f"x{number}", "main~0")
            change(world.main, f"x{number}", {}, expected)
            assert world.main.commit_of(f"x{number}").metarange_id == merged.metarange_id
    assert min(wanted.values()) >= 2, wanted


@pytest.mark.parametrize("seed", range(25))
def test_the_base_of_real_histories_with_criss_crosses_is_gits(seed: int) -> None:
    random = Random(seed)
    world = World()
    repository = world.main
    names = ["main", "b1", "b2", "b3"]
    for name in names[1:]:
        repository.create_branch(name, "main")
    parents: dict[str, tuple[str, ...]] = {}
    states: dict[str, State] = {}

    def note(commit_id: CommitID, state: State) -> None:
        parents[commit_id] = repository.commit_of(commit_id).parents
        states[commit_id] = state

    note(repository.branch("main").commit_id, {})
    for number in range(25):
        one, other = random.sample(names, 2)
        heads = [repository.branch(name).commit_id for name in (one, other)]
        base = oracles.merge_base(parents, heads[0], heads[1])
        assert base is not None
        found = repository.merge_base(one, other)
        assert found is not None
        assert found.id == base
        if random.random() < 0.5:
            repository.link(one, entry(f"k{random.randrange(4)}", number))
            made = repository.commit(one, str(number))
            note(made.id, state_of(repository, made.id))
            continue
        strategy = random.choice(STRATEGIES)
        expected, conflicts = oracles.three_way(states[base], states[heads[1]], states[heads[0]], strategy.value)
        try:
            made = repository.merge(other, one, strategy=strategy)
        except NoChangesError:
            assert base == heads[1]
        except MergeConflictError as error:
            assert [c.path for c in error.conflicts] == conflicts  # noqa: PT017
        else:
            assert not conflicts
            assert state_of(repository, made.id) == expected
            note(made.id, expected)


def test_the_base_after_a_criss_cross_is_a_best_one() -> None:
    """Two branches merge each other's same commits; both are best common ancestors then."""
    world = World()
    commit(world.main, {"a": "0"})
    world.main.create_branch("b", "main")
    one = commit(world.main, {"one": "1"})
    other = commit(world.main, {"other": "1"}, "b")
    world.main.merge(other, "main")
    world.main.merge(one, "b")
    found = world.main.merge_base("main", "b")
    assert found is not None
    assert found.id == min(one, other)
    commit(world.main, {"a": "main"})
    commit(world.main, {"b": "b"}, "b")
    world.main.merge("b", "main")
    assert texts(world.main, "main@") == {"a": "main", "b": "b", "one": "1", "other": "1"}


def test_the_base_of_two_branches_that_merged_the_same_commit_is_that_commit() -> None:
    world = World()
    commit(world.main, {"x": "0"})
    for name in ("left", "right"):
        world.main.create_branch(name, "main")
        commit(world.main, {name: "1"}, name)
    base = commit(world.main, {"x": "1"})
    for name in ("left", "right"):
        world.main.merge("main", name)
    found = world.main.merge_base("left", "right")
    assert found is not None
    assert found.id == base


def test_a_merge_of_a_ref_without_common_history_is_refused() -> None:
    world = World()
    other = world.lake().create_repository("other", "mem://other", split=TINY)
    root = other.commit_of("main")
    # A commit of another history, put beside ours.
    world.tables.transact([world.main.parts.commits.put_write(root, root.created)])
    with pytest.raises(InvalidError, match="no common history"):
        world.main.merge(root.id, "main")
    with pytest.raises(InvalidError, match="no common history"):
        world.main.compare(root.id, "main")
    assert world.main.merge_base(root.id, "main") is None


def test_merging_what_is_there_already_is_no_change() -> None:
    world = World()
    commit(world.main, {"a": "1"})
    world.main.create_branch("b", "main")
    commit(world.main, {"a": "2"})
    for source in ("b", "main", "main~1"):
        with pytest.raises(NoChangesError, match=source):
            world.main.merge(source, "main")


def test_uncommitted_changes_of_the_source_stay_out() -> None:
    world = World()
    world.main.create_branch("b", "main")
    commit(world.main, {"a": "1"}, "b")
    put(world.main, {"a": "2", "c": "1"}, "b")
    world.main.merge("b", "main")
    assert texts(world.main) == {"a": "1"}
    assert texts(world.main, "b") == {"a": "2", "c": "1"}


def test_merging_into_a_missing_or_dirty_branch_or_from_nothing_is_refused() -> None:
    world = World()
    commit(world.main, {"a": "1"})
    for source, destination in (("main", "none"), ("none", "main"), ("main", "v1")):
        with pytest.raises(RefNotFoundError):
            world.main.merge(source, destination)
    world.main.create_branch("b", "main~1")
    put(world.main, {"x": "1"}, "b")
    with pytest.raises(DirtyBranchError, match="merging 'main' into it"):
        world.main.merge("main", "b")


def dirty() -> World:
    """``dev`` replaced all below t/ by t/b, and has another u/a than ``main``."""
    world = World()
    commit(world.main, {"t/a": "1", "t0": "1", "u/a": "1", "v": "1"})
    world.main.create_branch("dev", "main")
    world.main.delete("dev", ["t/a"])
    commit(world.main, {"t/b": "2", "u/a": "2"}, branch="dev")
    return world


def merge_beside(world: World, repository: OpenRepository | None = None) -> str:
    return (repository or world.main).merge("dev", "main", unchanged_prefixes=["t/"], beside_uncommitted=True).id


MERGED = {"t/b": "2", "t0": "1", "u/a": "2", "v": "1"}


def test_a_merge_leaves_uncommitted_changes_of_other_objects_where_they_are() -> None:
    world = dirty()
    put(world.main, {"t0": "mine", "u/b": "mine", "v": None, "nothing": None})
    died(lambda: world.repository(DieAt("tables.transact", 2)).commit("main", "dies"))
    put(world.main, {"w": "mine"})
    world.wait_for_leases()
    with pytest.raises(DirtyBranchError, match="merging 'dev' into it is refused"):
        world.main.merge("dev", "main")
    merge_beside(world)
    assert texts(world.main, "main@") == MERGED
    mine = {"t/b": "2", "t0": "mine", "u/a": "2", "u/b": "mine", "w": "mine"}
    assert texts(world.main) == mine
    assert {one.path for one in world.main.uncommitted("main").results} == {"t0", "u/b", "v", "w"}
    world.main.commit("main", "mine")
    assert texts(world.main, "main@") == mine


@pytest.mark.parametrize(
    ("path", "text"), [("u/a", "mine"), ("u/a", None), ("t/b", "mine"), ("t/c", "mine"), ("t/a", None)]
)
@pytest.mark.parametrize("sealed", [False, True])
def test_an_uncommitted_change_where_the_merge_changes_something_refuses_it(
    path: str, text: str | None, sealed: bool
) -> None:
    world = dirty()
    put(world.main, {"v": "mine", path: text})
    if sealed:
        died(lambda: world.repository(DieAt("tables.transact", 2)).commit("main", "dies"))
        world.wait_for_leases()
    with pytest.raises(DirtyBranchError, match="to objects that") as told:
        merge_beside(world)
    assert told.value.path == path
    assert len(messages(world.main)) == 2
    world.main.reset("main", prefix=path)
    merge_beside(world)
    assert texts(world.main, "main@") == MERGED
    assert texts(world.main) == {**MERGED, "v": "mine"}


@pytest.mark.parametrize("value", ["1", None])
def test_what_is_staged_and_changes_nothing_does_not_hide_the_merge(value: str | None) -> None:
    """Put aside where nothing else is staged; and named, not merged over, where something is."""
    path = "u/a" if value else "t/b"
    for others in ({}, {"v": "mine"}):
        world = dirty()
        put(world.main, {path: value, **others})
        if others:
            with pytest.raises(DirtyBranchError, match=f"to objects that .*'{path}'"):
                merge_beside(world)
        else:
            merge_beside(world)
            assert texts(world.main) == texts(world.main, "main@") == MERGED


@pytest.mark.parametrize("moment", range(11))
def test_a_change_staged_while_the_merge_is_at_work_stays_on_top_of_it(moment: int) -> None:
    world = dirty()
    put(world.main, {"v": "mine"})

    def schedule(_: str, number: int) -> Fault:
        if number == moment:
            put(world.main, {"u/a": "later"})
        return None

    try:
        merge_beside(world, world.repository(schedule))
    except DirtyBranchError:
        assert texts(world.main, "main@")["u/a"] == "1"
    else:
        assert texts(world.main, "main@") == MERGED
    assert texts(world.main)["u/a"] == "later"
    world.main.commit("main", "later")
    assert texts(world.main, "main@")["u/a"] == "later"


def test_what_has_to_be_untouched_is_looked_at_on_each_head() -> None:
    world = World()
    commit(world.main, {"t/a": "1", "t0": "1", "u/a": "1"})
    world.main.create_branch("dev", "main")
    world.main.delete("dev", ["t/a"])
    commit(world.main, {"t/b": "2"}, branch="dev")
    commit(world.main, {"t0": "3", "u/a": "3"})
    before = world.main.commit_of("main").id
    with pytest.raises(TouchedError, match="below 'u/' in 'main'"):
        world.main.merge("dev", "main", unchanged_prefixes=["t/", "u/"])
    assert world.main.commit_of("main").id == before

    def touch() -> None:
        commit(world.repository(), {"t/c": "4"})

    late = Before("objects.put", 1, touch)  # behind the first look at the head, before the commit is published
    with pytest.raises(TouchedError, match="below 't/'"):
        world.repository(late).merge("dev", "main", unchanged_prefixes=["t/"])
    assert late.reached
    assert set(texts(world.main, "main")) == {"t/a", "t/c", "t0", "u/a"}
    world.main.merge("dev", "main", unchanged_prefixes=["nothing/"])
    assert set(texts(world.main, "main")) == {"t/b", "t/c", "t0", "u/a"}


def test_a_merge_brings_the_commit_that_is_expected_of_its_source_or_nothing() -> None:
    world = diverged()
    audited, head = world.main.branch("side").commit_id, world.main.branch("main").commit_id
    later = commit(world.main, {"s": "unchecked"}, "side")
    for source in ("side", "side@", later):
        with pytest.raises(UnexpectedHeadError, match=f"{source!r} is at commit {later[:16]} now") as told:
            world.main.merge(source, "main", expected_head=audited)
        assert (told.value.ref, told.value.wanted, told.value.found) == (source, audited, later)
    assert world.main.branch("main").commit_id == head
    put(world.main, {"s": "uncommitted"}, "side")
    merged = world.main.merge("side", "main", expected_head=CommitID(later))
    assert merged.parents == (head, later)
    assert texts(world.main) == {"a": "1", "m": "1", "s": "unchecked"}


def test_a_merge_lands_on_the_head_that_is_expected_of_its_destination_or_not_at_all() -> None:
    world = diverged()
    before = world.main.branch("main").commit_id
    checked = world.main.branch("side").commit_id

    def merge(onto: CommitID, repository: OpenRepository = world.main) -> tuple[CommitID, ...]:
        return repository.merge("side", "main", expected_head=checked, expected_destination=onto).parents

    def move() -> None:
        commit(world.repository(), {"m": "later"})

    late = Before("tables.transact", 1, move)  # the head was read, and the merge is about to be published on it
    with pytest.raises(UnexpectedHeadError, match="'main' is at commit") as told:
        merge(before, world.repository(late))
    assert late.reached
    moved = world.main.branch("main").commit_id
    assert (told.value.wanted, told.value.found) == (before, moved)
    with pytest.raises(UnexpectedHeadError):
        merge(before)
    assert world.main.branch("main").commit_id == moved
    assert merge(moved) == (moved, checked)


@pytest.mark.parametrize("moment", range(12))
def test_a_source_that_moves_while_its_expected_commit_is_merged_changes_nothing_about_it(moment: int) -> None:
    world = diverged()
    audited = world.main.branch("side").commit_id

    def schedule(_: str, number: int) -> Fault:
        if number == moment:
            commit(world.main, {"s": "unchecked"}, "side")
        return None

    try:
        merged = world.repository(schedule).merge("side", "main", expected_head=audited)
    except UnexpectedHeadError:
        assert "s" not in texts(world.main)
    else:
        assert merged.parents[1] == audited
        assert texts(world.main)["s"] == "1"


@pytest.mark.parametrize("expected", ["side", "v1", "", "c" * 12, "C" * 64])
def test_what_is_no_commit_id_cannot_be_expected(expected: str) -> None:
    world = diverged()
    with pytest.raises(InvalidError, match="is not a whole commit ID"):
        world.main.merge("side", "main", expected_head=CommitID(expected))
    with pytest.raises(InvalidError, match="is not a whole commit ID"):
        world.main.merge("side", "main", expected_destination=CommitID(expected))


def test_a_repeated_merge_of_an_expected_commit_returns_the_first_one() -> None:
    world = diverged()
    audited, before = world.main.branch("side").commit_id, world.main.branch("main").commit_id

    def merge() -> CommitID:
        return world.main.merge(
            "side", "main", request_id="once", expected_head=audited, expected_destination=before
        ).id

    first = merge()
    commit(world.main, {"s": "2"}, "side")
    commit(world.main, {"m": "2"})
    assert merge() == first


def test_a_publisher_beside_a_writer_never_publishes_what_it_did_not_check() -> None:
    """One thread commits to a branch, and each good state follows a bad one. The other publishes what it finds good."""
    world = diverged()
    done = Event()
    published: list[CommitID] = []

    def write() -> None:
        repository = world.repository()
        for number in range(25):
            commit(repository, {"s": f"bad {number}"}, "side")
            commit(repository, {"s": f"good {number}"}, "side")
        done.set()

    def publish(repository: OpenRepository) -> None:
        checked = repository.branch("side").commit_id
        if texts(repository, checked)["s"].startswith("good"):
            with suppress(UnexpectedHeadError, NoChangesError):
                published.append(repository.merge("side", "main", expected_head=checked).id)

    writer = Thread(target=write)
    writer.start()
    repository = world.repository()
    while not done.is_set():
        publish(repository)
    writer.join()
    publish(repository)
    assert published
    for merged in published:
        assert texts(world.main, merged)["s"].startswith("good")
        assert texts(world.main, f"{merged}^2") == {
            key: text for key, text in texts(world.main, merged).items() if key != "m"
        }


def test_a_merge_commit_tells_what_it_did() -> None:
    world = World()
    world.main.create_branch("b", "main")
    source = commit(world.main, {"a": "1"}, "b")
    head = world.main.branch("main").commit_id
    world.clock.sleep(1)
    merged = world.main.merge("b", "main", committer="ann", metadata={"k": "v"})
    assert merged.parents == (head, source)
    assert (merged.message, merged.committer, merged.metadata) == (
        "Merge 'b' into 'main'",
        "ann",
        {"k": "v", ".lakefs.merge.strategy": "default"},
    )
    assert messages(world.main)[0] == merged.message
    assert world.main.reflog("main")[0].event.operation == "merge"
