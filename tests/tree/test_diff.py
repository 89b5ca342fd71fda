"""Two-way difference against dictionaries, and the cursor that walks trees."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.model import SplitParameters
from graveler.tree.cursor import Cursor
from graveler.tree.diff import Difference, diff
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.support.campaigns import examples
from tests.support.trees import TINY, build_tree, new_store, packed
from tests.tree.support import (
    EVERY,
    LAW,
    UNIVERSE,
    Contents,
    identity_of,
    random_contents,
    some_contents,
    some_split,
    tables_written_once,
)

some_bound = st.one_of(
    st.sampled_from(UNIVERSE), st.binary(max_size=3), st.sampled_from([b"k17+", b"long", b"z" * 1025])
)


def diff_of_dicts(left: Contents, right: Contents, start: bytes = b"", end: bytes | None = None) -> list[Difference]:
    return [
        (key, packed(left[key]) if key in left else None, packed(right[key]) if key in right else None)
        for key in sorted({*left, *right})
        if left.get(key) != right.get(key) and key >= start and (end is None or key < end)
    ]


@settings(LAW, max_examples=examples(400))
@given(some_contents, some_contents, some_split, some_bound, st.none() | some_bound)
def test_diff_equals_the_difference_of_dictionaries(
    one: Contents, other: Contents, split: SplitParameters, start: bytes, end: bytes | None
) -> None:
    store = new_store()
    left, right = build_tree(store, one, split), build_tree(store, other, split)
    assert list(diff(left, right)) == diff_of_dicts(one, other)
    assert list(diff(left, right, start, end)) == diff_of_dicts(one, other, start, end)


def test_diff_equals_the_difference_of_dictionaries_for_a_few_changes(seed: int) -> None:
    """Trees that share most of their ranges."""
    random = Random(seed)
    with tables_written_once():
        for _ in range(400):
            one = random_contents(random)
            other = dict(one)
            for key in random.sample(UNIVERSE, random.randint(0, 3)):
                if other.pop(key, None) is None or random.random() < 0.5:
                    other[key] = random.randrange(3)
            start = random.choice(UNIVERSE)
            store = new_store()
            left, right = build_tree(store, one), build_tree(store, other)
            assert list(diff(left, right)) == diff_of_dicts(one, other)
            assert list(diff(left, right, start)) == diff_of_dicts(one, other, start)


@settings(LAW, max_examples=examples(100))
@given(some_contents, some_contents, some_split)
def test_pages_of_a_diff_put_together_are_the_whole(one: Contents, other: Contents, split: SplitParameters) -> None:
    store = new_store()
    left, right = build_tree(store, one, split), build_tree(store, other, split)
    whole, start, pages = list(diff(left, right)), b"", []
    while page := next(diff(left, right, start), None):
        pages.append(page)
        start = page[0] + b"\0"
    assert pages == whole


def test_addresses_and_times_are_no_difference() -> None:
    store = new_store()
    left = build(store, TINY, [(key, packed(1)) for key in UNIVERSE])
    right = build(store, TINY, [(key, packed(1, mtime=5, address="mem://test/y")) for key in UNIVERSE])
    assert list(diff(left, right)) == []
    mixed = build(store, TINY, [(key, packed(1 + (key == b"k10"), mtime=5)) for key in UNIVERSE])
    assert [(k, identity_of(x or b""), identity_of(y or b"")) for k, x, y in diff(left, mixed)] == [
        (b"k10", identity_of(packed(1)), identity_of(packed(2)))
    ]


def test_equal_contents_under_another_key_are_a_difference() -> None:
    store = new_store()
    for split in (TINY, EVERY):
        left, right = build_tree(store, {b"a": 1, b"b": 1}, split), build_tree(store, {b"a": 1, b"c": 1}, split)
        assert list(diff(left, right)) == [(b"b", packed(1), None), (b"c", None, packed(1))]


# -- cursor


def walk(cursor: Cursor) -> list[bytes]:
    found = []
    while (key := cursor.key) is not None:
        cursor.load()
        assert cursor.keys[cursor.position] == key
        found.append(key)
        cursor.advance(1)
    return found


def tree_of_many_blocks() -> Tree:
    """Ranges of several blocks: long values, some 40 of which fill one."""
    value = packed(1, address="s3://elsewhere/" + "x" * 400)
    split = SplitParameters(min_size=2_000, max_size=10_000, raggedness=40)
    return build(new_store(), split, [(b"%04d" % n, value) for n in range(400)])


def test_skip_upto_passes_over_what_is_not_above_from_every_position_to_every_other() -> None:
    store = new_store()
    trees = [(build_tree(store, {b"%02d" % n: n for n in range(0, 24, 2)}, split)) for split in (TINY, EVERY)]
    targets = [b"", *(b"%02d" % n for n in range(-1, 26)), b"z"]
    for tree in trees:
        every = [key for key, _ in tree.records()]
        for consumed in range(len(every) + 1):
            for load in (False, True):
                for target in targets:
                    cursor = Cursor(tree)
                    for _ in range(consumed):
                        cursor.load()
                        cursor.advance(1)
                    if load:
                        cursor.load()
                    cursor.skip_upto(target)
                    assert walk(cursor) == [key for key in every[consumed:] if key > target], (consumed, load, target)


def test_skip_upto_works_across_blocks_and_twice() -> None:
    tree = tree_of_many_blocks()
    assert len(tree) > 3
    assert sum(1 for _ in tree.range_blocks(0)) > 1
    every = [key for key, _ in tree.records()]
    for consumed in range(0, 400, 23):
        for target in range(0, 400, 7):
            for second in (target - 5, target, target + 3, target + 60):
                cursor = Cursor(tree)
                while cursor.key is not None and cursor.key < b"%04d" % consumed:
                    cursor.load()
                    cursor.advance(1)
                cursor.skip_upto(b"%04d" % target)
                cursor.skip_upto(b"%04d" % max(second, 0))
                assert cursor.key == next((k for k in every[consumed:] if k > b"%04d" % max(target, second, 0)), None)


def walk_ends(cursor: Cursor) -> bytes | None:
    return cursor.key


@settings(LAW, max_examples=examples(200))
@given(some_contents, some_split, some_bound)
def test_a_cursor_begins_at_its_start(contents: Contents, split: SplitParameters, start: bytes) -> None:
    tree = build_tree(new_store(), contents, split)
    assert walk(Cursor(tree, start)) == [key for key in sorted(contents) if key >= start]
    cursor = Cursor(tree, start)
    cursor.skip_rest()
    assert cursor.key is None
    cursor.load()
    assert not cursor.keys
