"""Walks over the commit graph, compared with their definitions on random histories."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.errors import CorruptError, InvalidError, RefNotFoundError
from graveler.history.commits import CommitStore, encode_commit
from graveler.history.graph import (
    best_common_ancestors,
    divergences,
    first_parent_ancestor,
    log,
    log_page,
    merge_base,
)
from graveler.model import Commit, CommitID, Divergence
from tests.history.support import HISTORIES, Shape, World, ancestors, build, random_shape
from tests.support.campaigns import examples


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Histories that Hypothesis can shrink; up to three parents each, several roots."""
    size = draw(st.integers(1, 12))
    return [
        (draw(st.lists(st.integers(0, at - 1), max_size=3, unique=True)) if at else [], draw(st.integers(0, 5)))
        for at in range(size)
    ]


def random_size(random: Random) -> int:
    """Mostly small, so that there are many; sometimes longer than what a line or a request holds."""
    return random.randrange(1, 26) if random.random() < 0.98 else random.randrange(100, 300)


# --- merge base -----------------------------------------------------------------------------------------------------------


def best_by_definition(world: World, left: Commit, right: Commit) -> list[CommitID]:
    """Common ancestors that are no ancestors of another one; the highest generation first, then the smallest ID."""
    reach = ancestors(world)
    generation = {commit.id: commit.generation for commit in world.all}
    common = reach[left.id] & reach[right.id]
    best = [one for one in common if not any(one != other and one in reach[other] for other in common)]
    return sorted(best, key=lambda cid: (-generation[cid], cid))


def check_merge_base(world: World, store: CommitStore, left: Commit, right: Commit) -> None:
    expected = best_by_definition(world, left, right)
    assert best_common_ancestors(store, left.id, right.id) == expected
    assert merge_base(store, left.id, right.id) == (expected[0] if expected else None)


def test_merge_base_by_definition(seed: int) -> None:
    random = Random(seed)
    for _ in range(HISTORIES):
        world = build(random_shape(random, random_size(random)))
        store = world.cold(random.choice((1, 4, 1000)))
        for _ in range(4):
            check_merge_base(world, store, random.choice(world.all), random.choice(world.all))


@settings(max_examples=examples(200), deadline=None)
@given(shapes(), st.data())
def test_merge_base_by_definition_shrinking(shape: Shape, data: st.DataObject) -> None:
    world = build(shape)
    left, right = data.draw(st.sampled_from(world.all)), data.draw(st.sampled_from(world.all))
    check_merge_base(world, world.cold(), left, right)
    assert merge_base(world.cold(), left.id, right.id) == merge_base(world.cold(), right.id, left.id)


def test_a_commit_merged_into_both_sides_is_the_base() -> None:
    """main is P→B, and was merged into two branches that both began at P: their base is B, not P."""
    world = World()
    p = world.add()
    one, two = world.add(p), world.add(p)
    b = world.add(p)
    left, right = world.add(world.add(one, b)), world.add(two, b)
    assert best_common_ancestors(world.cold(), left.id, right.id) == [b.id]


def test_criss_cross_has_two_best_ancestors_and_one_base() -> None:
    world = World()
    root = world.add()
    a, b = world.add(root), world.add(root)
    left, right = world.add(a, b), world.add(b, a)
    assert best_common_ancestors(world.cold(), left.id, right.id) == sorted([a.id, b.id])
    assert merge_base(world.cold(), left.id, right.id) == min(a.id, b.id)
    higher = world.add(b)
    left, right = world.add(a, higher), world.add(higher, a)
    assert merge_base(world.cold(), left.id, right.id) == higher.id


def test_of_bases_with_one_generation_the_smallest_id_wins_however_they_are_reached() -> None:
    """x is met long before y, which hangs right above it: y must still be looked at before x is chosen."""
    world = World()
    root = world.add()
    y, x = sorted((world.add(root), world.add(root)), key=lambda commit: commit.id)
    tips = []
    for _ in range(2):
        early = world.add(world.line(2, root)[-1], x)
        tips.append(world.add(early, world.add(y)))
    check_merge_base(world, world.cold(), *tips)
    assert best_common_ancestors(world.cold(), tips[0].id, tips[1].id) == [y.id, x.id]


def test_no_shared_history_no_base() -> None:
    world = World()
    left, right = world.line(3)[-1], world.line(40)[-1]
    assert merge_base(world.cold(), left.id, right.id) is None
    assert best_common_ancestors(world.cold(), left.id, right.id) == []


def test_a_commit_is_its_own_base() -> None:
    world = World()
    below, tip = world.line(2)
    assert merge_base(world.cold(), tip.id, tip.id) == tip.id
    assert world.tables.requests == 1
    assert merge_base(world.cold(), below.id, tip.id) == merge_base(world.cold(), tip.id, below.id) == below.id


# --- divergences ----------------------------------------------------------------------------------------------------------


def check_divergences(world: World, store: CommitStore, base: Commit, tips: Sequence[Commit], limit: int) -> None:
    reach = ancestors(world)
    distances = divergences(store, base.id, [tip.id for tip in tips], limit)
    assert len(distances) == len(tips)
    for tip, distance in zip(tips, distances, strict=True):
        ahead, behind = len(reach[tip.id] - reach[base.id]), len(reach[base.id] - reach[tip.id])
        if distance.more:
            assert max(ahead, behind) > limit
            assert distance.ahead_count <= min(ahead, limit)
            assert distance.behind_count <= min(behind, limit)
            assert limit in (distance.ahead_count, distance.behind_count)
            assert distance.merged in (None, ahead == 0)
            assert distance.merged is False or not distance.ahead_count
        else:
            assert distance == Divergence(ahead, behind, more=False, merged=ahead == 0)
            assert max(ahead, behind) <= limit


def test_divergences_by_definition(seed: int) -> None:
    random = Random(seed)
    for _ in range(HISTORIES):
        world = build(random_shape(random, random_size(random)))
        store = world.cold(random.choice((1, 4, 1000)))
        tips = random.choices(world.all, k=random.randrange(0, 6))
        check_divergences(world, store, random.choice(world.all), tips, random.choice((0, 1, 3, 20, 1000)))


@settings(max_examples=examples(200), deadline=None)
@given(shapes(), st.data(), st.integers(0, 12))
def test_divergences_by_definition_shrinking(shape: Shape, data: st.DataObject, limit: int) -> None:
    world = build(shape)
    tips = data.draw(st.lists(st.sampled_from(world.all), max_size=5))
    check_divergences(world, world.cold(), data.draw(st.sampled_from(world.all)), tips, limit)


def test_distances_of_many_tips_are_one_walk() -> None:
    """A hundred branches that left main at its last hundred commits, each with three commits of its own."""
    world = World()
    main = world.line(1000)
    tips = [world.line(3, start)[-1] for start in main[-100:]]
    store = world.cold()
    world.tables.reset()
    distances = divergences(store, main[-1].id, [tip.id for tip in tips])
    assert distances == [Divergence(3, 99 - number, more=False, merged=False) for number in range(100)]
    assert world.tables.requests <= 10


def test_a_tip_far_behind_ends_the_walk_at_the_limit() -> None:
    world = World()
    main = world.line(3000)
    side_commit = world.add(main[0])
    store = world.cold()
    world.tables.reset()
    stale, new = divergences(store, main[-1].id, [main[0].id, side_commit.id])
    assert stale == new == Divergence(0, 1000, more=True, merged=None)
    assert world.tables.requests <= 1000 // 32 + 10


# --- log ------------------------------------------------------------------------------------------------------------------


def log_by_definition(
    world: World, start: Commit, first_parent: bool = False, since: int | None = None
) -> list[Commit]:
    """Show the youngest of those that wait; then its parents wait, unless they did before."""
    commits = {commit.id: commit for commit in world.all}
    waiting, met, shown = [start], {start.id}, []
    while waiting:
        waiting = [commit for commit in waiting if since is None or commit.created >= since]
        waiting.sort(
            key=lambda commit: (-commit.created, -commit.generation)
        )  # of equals the first to come stays first
        if not waiting:
            break
        shown.append(waiting.pop(0))
        for parent in shown[-1].parents[: 1 if first_parent else None]:
            if parent not in met:
                met.add(parent)
                waiting.append(commits[parent])
    return shown


def pages(
    store: CommitStore, start: CommitID, amount: int, first_parent: bool, since: int | None, stop_at: CommitID | None
) -> list[Commit]:
    found: list[Commit] = []
    after: str | None = None
    while True:
        page = log_page(store, start, after, amount, first_parent=first_parent, since=since, stop_at=stop_at)
        found += page.results
        if page.next_after is None:
            return found
        assert len(page.results) == amount
        after = page.next_after


def check_log(world: World, store: CommitStore, random: Random) -> None:
    start = random.choice(world.all)
    first_parent, since = random.random() < 0.3, random.choice((None, None, 3))
    expected = log_by_definition(world, start, first_parent, since)
    stop_at = random.choice([None, None, *(commit.id for commit in world.all)])
    if stop_at in [commit.id for commit in expected]:
        expected = expected[: [commit.id for commit in expected].index(stop_at) + 1]
    assert list(log(store, start.id, first_parent=first_parent, since=since, stop_at=stop_at)) == expected
    limit = random.randrange(len(expected) + 2)
    limited = log(store, start.id, first_parent=first_parent, since=since, stop_at=stop_at, limit=limit)
    assert list(limited) == expected[:limit]
    assert pages(store, start.id, random.randrange(1, 6), first_parent, since, stop_at) == expected
    if expected:
        at = random.randrange(len(expected))
        page = log_page(store, start.id, expected[at].id, 3, first_parent=first_parent, since=since, stop_at=stop_at)
        assert list(page.results) == expected[at + 1 : at + 4]


@pytest.mark.parametrize("skew", [False, True])
def test_log_by_definition(seed: int, skew: bool) -> None:
    random = Random(seed)
    for _ in range(HISTORIES // 2):
        world = build(random_shape(random, random_size(random), skew=skew))
        check_log(world, world.cold(random.choice((1, 4, 1000))), random)


@settings(max_examples=examples(200), deadline=None)
@given(shapes(), st.integers(0, 1 << 30))
def test_log_by_definition_shrinking(shape: Shape, choices: int) -> None:
    world = build(shape)
    check_log(world, world.cold(), Random(choices))


def test_a_log_with_time_in_order_is_sorted_and_complete(seed: int) -> None:
    world = build(random_shape(Random(seed), 200, roots=0.01, skew=False))
    shown = list(log(world.cold(), world.all[-1].id))
    assert {commit.id for commit in shown} == ancestors(world)[world.all[-1].id]
    assert all((-one.created, -one.generation) <= (-other.created, -other.generation) for one, other in pairwise(shown))


def test_of_commits_of_one_second_first_parents_come_first() -> None:
    """What was merged follows the commit that it was merged into, whatever their IDs."""
    world = World()
    root = world.add(created=1)
    ours, theirs = (world.add(root, created=2) for _ in range(2))
    for one, other in ((ours, theirs), (theirs, ours)):
        tip = world.add(one, other, created=2)
        assert list(log(world.cold(), tip.id)) == [tip, one, other, root]
        assert pages(world.cold(), tip.id, 1, False, None, None) == [tip, one, other, root]


@settings(max_examples=examples(100), deadline=None)
@given(shapes(), st.integers(1, 4), st.booleans(), st.data())
def test_pages_that_end_early_are_the_log_together(shape: Shape, amount: int, limit: bool, data: st.DataObject) -> None:
    """Wherever a page is stopped, it shows what it passed, and its position continues it; a stopped walk passes one at least."""
    world = build(shape)
    store, start = world.cold(), data.draw(st.sampled_from(world.all))
    chosen_ids = data.draw(st.sets(st.sampled_from([commit.id for commit in world.all])))
    whole = log_by_definition(world, start)
    collected: list[Commit] = []
    after: str | None = None
    for _ in range(len(whole) + 1):
        patience = data.draw(st.integers(1, 3))
        calls = iter(range(1, 1 << 30))
        page = log_page(
            store,
            start.id,
            after,
            amount,
            shows=lambda commit, _: commit.id in chosen_ids,
            stop=lambda patience=patience, calls=calls: next(calls) >= patience,  # type: ignore[misc]
        )
        assert len(page.results) <= amount
        collected += page.results
        after = page.next_after
        if after is None:
            break
    assert after is None
    assert collected == [commit for commit in whole if commit.id in chosen_ids]
    stopped = log_page(store, start.id, None, amount, limit=limit, stop=lambda: True)
    assert list(stopped.results) == whole[:1]
    assert (stopped.next_after is None) == (len(whole) == 1 or (limit and amount == 1))


def test_an_unordered_log_pages_as_well_as_an_ordered_one() -> None:
    """A child older than its parent: the walk from a frontier would show that parent twice, so it is not trusted."""
    world = World()
    root = world.add(created=10)
    late = world.add(root, created=9)
    tip = world.add(world.add(late, created=1), root, created=11)
    assert pages(world.cold(), tip.id, 1, False, None, None) == log_by_definition(world, tip)
    assert len(log_by_definition(world, tip)) == 4


def test_a_page_with_many_open_ends_is_continued_by_its_last_id_alone() -> None:
    """A position must fit a URL."""
    world = World()
    tip = world.add()
    for _ in range(80):
        tip = world.add(tip, world.add(created=-1))
    after: str | None = None
    lengths = []
    for _ in range(80):
        page = log_page(world.cold(), tip.id, after, 1)
        after = page.next_after
        assert after is not None
        lengths.append(len(after))
    assert max(lengths) == 64 + 64 * 65
    assert lengths[-1] == 64
    assert pages(world.cold(), tip.id, 4, False, None, None) == log_by_definition(world, tip)


def test_what_is_no_position_in_a_log() -> None:
    world = World()
    other, tip = world.add(), world.line(3)[-1]
    for after in ("", "main", tip.id + ".", tip.id + ".abc", tip.id.upper()):
        with pytest.raises(InvalidError):
            log_page(world.cold(), tip.id, after, 1)
    for after in (other.id, "0" * 64, f"{'0' * 64}.{tip.id}"):
        with pytest.raises(RefNotFoundError):
            log_page(world.cold(), tip.id, after, 1)
    with pytest.raises(InvalidError):
        log_page(world.cold(), tip.id, None, 0)


# --- first parents --------------------------------------------------------------------------------------------------------


def test_first_parent_ancestors() -> None:
    world = World()
    made = world.line(70)
    for distance in range(70):
        assert first_parent_ancestor(world.cold(), made[-1].id, distance) == (made[-1 - distance].id, distance + 1)
        requests = 0 if distance == 0 else 1 + -(-(distance - 1) // 32)
        assert world.tables.requests == requests
        assert world.tables.items["get_many"] <= distance + 1
    assert first_parent_ancestor(world.cold(), made[-1].id, 70) == (None, 70)
    assert first_parent_ancestor(world.cold(), made[-1].id, 10**9) == (None, 70)


# --- damage ---------------------------------------------------------------------------------------------------------------


def test_a_start_that_is_not_there_is_not_found() -> None:
    world = World()
    tip, nothing = world.add(), CommitID("0" * 64)
    with pytest.raises(RefNotFoundError):
        merge_base(world.cold(), tip.id, nothing)
    with pytest.raises(RefNotFoundError):
        first_parent_ancestor(world.cold(), nothing, 1)
    with pytest.raises(RefNotFoundError):
        next(log(world.cold(), nothing))


def test_a_missing_parent_is_damage_and_both_are_named() -> None:
    world = World()
    root, middle, tip = world.line(3)
    world.tables.delete(world.commits.key(root.id))
    with pytest.raises(CorruptError, match=root.id) as refused:
        list(log(world.cold(), tip.id))
    assert middle.id in str(refused.value)


def test_a_wrong_generation_is_damage_not_a_wrong_base() -> None:
    world = World()
    root, middle, tip = world.line(3)
    key = world.commits.key(middle.id)
    item = world.tables.get(key)
    assert item is not None
    world.tables.put(key, {**item, "record": encode_commit(replace(middle, generation=7))})
    with pytest.raises(CorruptError, match=middle.id):
        merge_base(world.cold(), tip.id, root.id)


@pytest.mark.parametrize("line", [b"", b"\xff" * 1024, b"x", b"\x00" * 33])
def test_a_line_is_never_believed(line: bytes) -> None:
    """Whatever the derived attribute says: the same answers, with more requests."""
    world = World()
    made = world.line(40)
    side = world.line(3, made[20])[-1]
    for commit in world.all:
        key = world.commits.key(commit.id)
        item = world.tables.get(key)
        assert item is not None
        world.tables.put(key, {**item, "line": line})
    assert merge_base(world.cold(), made[-1].id, side.id) == made[20].id
    assert list(log(world.cold(), made[-1].id)) == made[::-1]
    assert first_parent_ancestor(world.cold(), made[-1].id, 39) == (made[0].id, 40)


# --- requests -------------------------------------------------------------------------------------------------------------


def busy_history(length: int) -> tuple[World, list[Commit]]:
    """``length`` commits on main, each the merge of a branch of two commits."""
    world = World()
    main = [world.add()]
    for _ in range(length):
        main.append(world.add(main[-1], world.add(world.add(main[-1]))))
    return world, main


def requests(world: World) -> tuple[int, int]:
    return world.tables.requests, world.tables.items["get_many"]


def test_requests_of_neighbours_merge_base() -> None:
    world = World()
    main = world.line(500)
    side = world.line(3, main[-10])[-1]
    assert merge_base(world.cold(), main[-1].id, side.id) == main[-10].id
    assert world.tables.requests == 2
    assert world.tables.items["get_many"] <= 102
    far = world.add(main[100])
    assert merge_base(world.cold(), main[-1].id, far.id) == main[100].id
    assert world.tables.requests <= 2 + 400 / 32


def test_requests_of_a_linear_log() -> None:
    world = World()
    tip = world.line(1200)[-1]
    assert len(list(log(world.cold(), tip.id, limit=1000))) == 1000
    assert requests(world) == (33, 1000)


@pytest.mark.parametrize("limit", [1, 2, 33])
def test_a_short_log_reads_no_more_than_it_shows(limit: int) -> None:
    world = World()
    tip = world.line(100)[-1]
    assert len(list(log(world.cold(), tip.id, limit=limit))) == limit
    assert requests(world) == (1 if limit == 1 else 2, limit)


def test_requests_of_a_log_with_merges() -> None:
    world, main = busy_history(500)
    shown = list(log(world.cold(), main[-1].id, limit=1000))
    assert shown == log_by_definition(world, main[-1])[:1000]
    assert world.tables.requests <= 40
    assert world.tables.items["get_many"] <= 1200


def test_requests_of_the_pages_of_a_log() -> None:
    """The fifth page costs what the first one does."""
    world, main = busy_history(200)
    after: str | None = None
    for _ in range(5):
        page = log_page(world.cold(), main[-1].id, after, 100)
        assert world.tables.requests <= 6
        after = page.next_after


def answers(store: CommitStore, world: World) -> Sequence[object]:
    first, last = world.all[len(world.all) // 2].id, world.all[-1].id
    return merge_base(store, first, last), list(log(store, last))


def test_a_warm_store_asks_nothing(seed: int) -> None:
    world = build(random_shape(Random(seed), 150, roots=0.02))
    store = world.cold()
    before = answers(store, world)
    world.tables.reset()
    assert answers(store, world) == before
    assert world.tables.requests == 0
