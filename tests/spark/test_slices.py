"""Tasks read everything once, and no range unnecessarily."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.spark.slices import KeyRanges, both, either, pairs, slices
from graveler.tree.diff import diff
from graveler.tree.key_range import KeyRange
from tests.lake.support import World
from tests.spark.histories import grow

BOUNDS = st.one_of(st.sampled_from([b"", b"a", b"a/", b"a/b/x", b"b", b"x", b"z", b"\xff"]), st.binary(max_size=3))


class Lake:
    """One history, with a few hundred objects in ranges of a few records."""

    def __init__(self) -> None:
        self.world = World()
        self.commits = grow(self.world.main, Random(1), commits=5, changes=80)
        self.trees = [self.world.main.tree(commit) for commit in self.commits]
        assert len(self.trees[-1]) > 30


@pytest.fixture(scope="module")
def lake() -> Lake:
    return Lake()


@settings(deadline=None)
@given(st.data())
def test_slices_hold_the_records_between_the_bounds_once(lake: Lake, data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(lake.trees))
    keys = KeyRange(data.draw(BOUNDS), data.draw(st.none() | BOUNDS))
    parts = slices(lake.world.main, tree, either(keys), data.draw(st.integers(1, 300)))
    found = [record for part in parts for record in part.tree.records(part.keys.start, part.keys.end)]
    assert found == ([] if keys.empty else list(tree.records(keys.start, keys.end)))


@settings(deadline=None)
@given(st.data())
def test_keys_in_several_places_are_read_and_no_ranges_between(lake: Lake, data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(lake.trees))
    ends = st.lists(st.builds(KeyRange, BOUNDS, st.none() | BOUNDS), max_size=4)
    one, other = either(*data.draw(ends)), either(*data.draw(ends))

    def lies_in(key: bytes, some: KeyRanges) -> bool:
        return any(keys.start <= key and (keys.end is None or key < keys.end) for keys in some)

    for keys, join in ((both(one, other), all), (either(*one, *other), any)):
        assert all(not each.empty for each in keys)
        assert all(left.end is not None and left.end < right.start for left, right in pairwise(keys))
        parts = slices(lake.world.main, tree, keys, data.draw(st.integers(1, 300)))
        found = [record for part in parts for record in part.tree.records(part.keys.start, part.keys.end)]
        meant = {key for key, _ in tree.records() if join(lies_in(key, some) for some in (one, other))}
        assert [record for record in found if record[0] in meant] == [r for r in tree.records() if r[0] in meant]
        opened = [part.tree.info(number) for part in parts for number in range(len(part.tree))]
        assert len({info.first for info in opened}) == len(opened)
        for info in opened:
            assert any(info.last >= each.start and (each.end is None or info.first < each.end) for each in keys)


@settings(deadline=None)
@given(st.data())
def test_pairs_hold_the_differences_between_the_bounds_once(lake: Lake, data: st.DataObject) -> None:
    choice = st.sampled_from([lake.world.main.tree(lake.world.main.log("main").results[-1].id), *lake.trees])
    left, right = data.draw(choice), data.draw(choice)
    keys = KeyRange(data.draw(BOUNDS), data.draw(st.none() | BOUNDS))
    parts = pairs(lake.world.main, left, right, keys, data.draw(st.integers(1, 300)))
    found = [change for part in parts for change in diff(part.left, part.right, part.keys.start, part.keys.end)]
    assert found == ([] if keys.empty else list(diff(left, right, keys.start, keys.end)))


def test_only_ranges_that_can_hold_such_keys_are_opened(lake: Lake) -> None:
    client = lake.world.counted()
    tree = client.repository.tree("main")
    numbers = KeyRange.of_prefix(b"a/b/").numbers(tree)
    assert 0 < len(numbers) < len(tree) / 2
    client.reset()
    parts = slices(client.repository, tree, (KeyRange.of_prefix(b"a/b/"),), 10)
    assert not client.objects.calls, "planning reads nothing"
    assert len(parts) > 1
    for part in parts:
        assert all(key.startswith(b"a/b/") for key, _ in part.tree.records(part.keys.start, part.keys.end))
    assert client.ranges_read() == len(numbers)
    assert not slices(client.repository, tree, either(KeyRange(b"b", b"a")))


def test_only_ranges_that_differ_are_opened(lake: Lake) -> None:
    main = lake.world.main
    main.create_branch("side", "main")
    main.delete("side", [entry.path for entry in main.objects("side", "a/b/")][:3])
    main.commit("side", "a small change")
    client = lake.world.counted()
    left, right = client.repository.tree("main"), client.repository.tree("side")
    differing = {left.range_id(n) for n in range(len(left))} ^ {right.range_id(n) for n in range(len(right))}
    client.reset()
    parts = pairs(client.repository, left, right, KeyRange())
    assert len(parts) == 1
    assert len(list(diff(parts[0].left, parts[0].right))) == 3
    assert client.ranges_read() == len(differing) < 10
    assert not pairs(client.repository, left, left, KeyRange())
    main.delete_branch("side")


def test_a_difference_with_nothing_is_shared_among_many_tasks(lake: Lake) -> None:
    main = lake.world.main
    full, empty = lake.trees[-1], main.tree(main.log("main").results[-1].id)
    for left, right in ((full, empty), (empty, full)):
        assert len(pairs(main, left, right, KeyRange(), 30)) > 5
