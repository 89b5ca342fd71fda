"""Three-way merge against the table, written with dictionaries. ``GRAVELER_MERGE_CASES`` says how many cases (default 4,000)."""

import os
from random import Random
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.model import MergeStrategy, SplitParameters
from graveler.tree.merge import MergeResult, TreeConflict, merge
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.support.campaigns import examples
from tests.support.trees import TINY, as_dict, build_tree, new_store, packed
from tests.tree.support import (
    BY_SIZE,
    EVERY,
    LAW,
    RAGGED,
    Contents,
    identity_of,
    same_tree,
    tables_written_once,
)

CASES = int(os.environ.get("GRAVELER_MERGE_CASES", "2000"))

KEYS = [b"%s/%d" % (folder, n) for folder in (b"a", b"b", b"c", b"d") for n in range(7)]
"""Few keys, so that whole ranges are often equal, inserted or gone; see the splits: one to some six keys a range."""

SPLITS = [SplitParameters(min_size=70, max_size=210, raggedness=3), RAGGED, BY_SIZE, EVERY, TINY]

some_side = st.dictionaries(st.sampled_from(KEYS[:16]), st.integers(0, 1))

Conflicts = list[tuple[bytes, int | None, int | None, int | None]]


def merged_by_the_table(
    base: Contents, source: Contents, destination: Contents, strategy: MergeStrategy
) -> tuple[Contents, Conflicts]:
    result, conflicts = Contents(), Conflicts()
    for key in sorted({*base, *source, *destination}):
        b, s, d = base.get(key), source.get(key), destination.get(key)
        if s in (d, b):
            value = d
        elif d == b or strategy is MergeStrategy.SOURCE_WINS:
            value = s
        else:
            value = d
            if strategy is MergeStrategy.NONE:
                conflicts.append((key, b, s, d))
        if value is not None:
            result[key] = value
    return result, conflicts


def packed_conflicts(conflicts: Conflicts) -> tuple[TreeConflict, ...]:
    return tuple(
        TreeConflict(key, *(None if value is None else packed(value) for value in values)) for key, *values in conflicts
    )


def check(
    base: Contents, source: Contents, destination: Contents, split: SplitParameters, strategy: MergeStrategy
) -> MergeResult:
    store = new_store()
    b, s, d = (build_tree(store, side, split) for side in (base, source, destination))
    wanted, conflicts = merged_by_the_table(base, source, destination, strategy)
    result = merge(b, s, d, split, strategy)
    assert result.conflicts == packed_conflicts(conflicts)
    if conflicts:
        assert result.tree is None
        return result
    assert result.tree is not None
    assert same_tree(result.tree, build_tree(store, wanted, split))
    return result


def random_side(random: Random, base: Contents, values: int) -> Contents:
    """What one side made of the base: a few changes, some of them of whole stretches of keys."""
    side = dict(base)
    for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
        kind = random.randrange(6)
        at = random.randrange(len(KEYS))
        stretch = KEYS[at : at + random.choice((1, 1, 1, 4, 12, 40))]
        for key in stretch:
            if kind == 0:
                side.pop(key, None)
            elif kind == 1:
                side[key] = random.randrange(values)
            elif kind == 2:
                side.setdefault(key, random.randrange(values))
            elif kind == 3 and key in side:
                side[key] = random.randrange(values)
            elif kind == 4 and random.random() < 0.5:
                side.pop(key, None)
            elif kind == 5 and random.random() < 0.5:
                side[key] = 0
    return side


def test_merge_equals_the_table_in_thousands_of_random_cases(seed: int) -> None:
    print(f"seed {seed}, {CASES} cases")  # noqa: T201
    random, began = Random(seed), perf_counter()
    strategies = list(MergeStrategy)
    with tables_written_once():
        for case in range(CASES):
            values = random.choice((1, 2, 2, 3))
            density = random.choice((0.0, 0.3, 0.8, 1.0))
            base = {key: random.randrange(values) for key in KEYS if random.random() < density}
            source = random_side(random, base, values)
            destination = random_side(random, source if random.random() < 0.1 else base, values)
            split, strategy = random.choice(SPLITS), random.choice(strategies)
            try:
                check(base, source, destination, split, strategy)
            except AssertionError:
                raise AssertionError(
                    f"case {case} of seed {seed}: {base=} {source=} {destination=} {split=} {strategy=}"
                ) from None
    print(f"{CASES / (perf_counter() - began):.0f} cases/s")  # noqa: T201


@settings(LAW, max_examples=examples(400))
@given(some_side, some_side, some_side, st.sampled_from(SPLITS), st.sampled_from(list(MergeStrategy)))
def test_merge_equals_the_table(
    base: Contents, source: Contents, destination: Contents, split: SplitParameters, strategy: MergeStrategy
) -> None:
    check(base, source, destination, split, strategy)


@settings(LAW, max_examples=examples(200))
@given(some_side, some_side, some_side, st.sampled_from(SPLITS))
def test_source_wins_is_dest_wins_with_sides_exchanged(
    base: Contents, one: Contents, other: Contents, split: SplitParameters
) -> None:
    store = new_store()
    b, x, y = (build_tree(store, side, split) for side in (base, one, other))
    forth = merge(b, x, y, split, MergeStrategy.SOURCE_WINS).tree
    back = merge(b, y, x, split, MergeStrategy.DEST_WINS).tree
    assert forth is not None
    assert back is not None
    assert same_tree(forth, back)


@settings(LAW, max_examples=examples(200))
@given(some_side, some_side, some_side, st.sampled_from(SPLITS), st.sampled_from(list(MergeStrategy)))
def test_merging_again_is_no_change(
    base: Contents, source: Contents, destination: Contents, split: SplitParameters, strategy: MergeStrategy
) -> None:
    """After a merge the source itself is the best common ancestor; and with the old base too, the table gives the same again."""
    store = new_store()
    b, s, d = (build_tree(store, side, split) for side in (base, source, destination))
    once = merge(b, s, d, split, strategy).tree
    if once is None:
        return
    again = merge(s, s, once, split, strategy).tree
    assert again is not None
    assert same_tree(again, once)
    if strategy is MergeStrategy.SOURCE_WINS:
        by_old_base = merge(b, s, once, split, strategy).tree
        assert by_old_base is not None
        assert same_tree(by_old_base, once)


@settings(LAW, max_examples=examples(100))
@given(some_side, some_side, st.sampled_from(SPLITS), st.sampled_from(list(MergeStrategy)))
def test_equal_sides_and_one_unchanged_side_never_conflict(
    base: Contents, side: Contents, split: SplitParameters, strategy: MergeStrategy
) -> None:
    for source, destination in ((side, side), (base, side), (side, base)):
        assert not check(base, source, destination, split, strategy).conflicts


@settings(LAW, max_examples=examples(100))
@given(some_side, some_side, st.sampled_from(SPLITS))
def test_with_an_empty_base_equal_additions_agree_and_different_ones_conflict(
    one: Contents, other: Contents, split: SplitParameters
) -> None:
    result = check({}, one, other, split, MergeStrategy.NONE)
    assert [c.key for c in result.conflicts] == sorted(k for k in one if other.get(k, one[k]) != one[k])
    assert all(c.base is None for c in result.conflicts)


@pytest.mark.parametrize("split", SPLITS)
def test_one_side_empties_everything(split: SplitParameters) -> None:
    base = dict.fromkeys(KEYS, 0)
    assert not check(base, {}, base, split, MergeStrategy.NONE).conflicts
    assert not check(base, base, {}, split, MergeStrategy.NONE).conflicts
    changed = base | {KEYS[7]: 1}
    assert [c.key for c in check(base, {}, changed, split, MergeStrategy.NONE).conflicts] == [KEYS[7]]
    assert [c.key for c in check(base, changed, {}, split, MergeStrategy.NONE).conflicts] == [KEYS[7]]
    for strategy in (MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS):
        check(base, {}, changed, split, strategy)
        check(base, changed, {}, split, strategy)


def test_equal_contents_under_different_keys_are_different_objects() -> None:
    """Comparing identities without their keys would lose a copy, a rename, or one of many empty ``_SUCCESS`` files."""
    base = {b"a/_SUCCESS": 0, b"b/_SUCCESS": 0, b"b/part": 1}
    copied = {**base, b"c/part": 1}
    renamed = {b"a/_SUCCESS": 0, b"c/_SUCCESS": 0, b"b/part": 1}
    for split in SPLITS:
        for strategy in MergeStrategy:
            check(base, copied, renamed, split, strategy)
            check(base, renamed, copied, split, strategy)


@pytest.mark.parametrize("split", SPLITS)
def test_a_cut_key_deleted_on_one_side_while_the_other_changes_its_neighbour(split: SplitParameters) -> None:
    with tables_written_once():
        base = dict.fromkeys(KEYS, 0)
        for cut in build_tree(new_store(), base, split).lasts:
            at = KEYS.index(cut)
            deleted = {k: v for k, v in base.items() if k != cut}
            for neighbour in KEYS[max(0, at - 1) : at] + KEYS[at + 1 : at + 2]:
                for change in ({neighbour: 1}, {neighbour + b"+": 1}):
                    assert not check(base, deleted, base | change, split, MergeStrategy.NONE).conflicts
                    assert not check(base, base | change, deleted, split, MergeStrategy.NONE).conflicts
                without = {k: v for k, v in base.items() if k != neighbour}
                assert not check(base, deleted, without, split, MergeStrategy.NONE).conflicts
            assert check(base, deleted, base | {cut: 1}, split, MergeStrategy.NONE).conflicts


@pytest.mark.parametrize("split", SPLITS)
def test_whole_ranges_inserted_or_removed_on_one_side_or_on_both(split: SplitParameters) -> None:
    with tables_written_once():
        for low in range(0, len(KEYS), 5):
            for high in range(low, len(KEYS) + 1, 7):
                inside = dict.fromkeys(KEYS[low:high], 0)
                outside = {k: 0 for k in KEYS if k not in inside}
                everything = inside | outside
                changed = everything | dict.fromkeys(KEYS[:low], 1)
                for sides in (
                    (outside, everything, outside),
                    (outside, everything, everything),
                    (everything, outside, everything),
                    (everything, outside, changed),
                    (everything, outside, inside),
                    ({}, inside, outside),
                    (inside, outside, everything),
                ):
                    check(*sides, split, MergeStrategy.NONE)
                    check(sides[0], sides[2], sides[1], split, MergeStrategy.NONE)


def test_conflicts_are_complete_and_in_key_order_with_all_three_records() -> None:
    store = new_store()
    base = {b"%05d" % n: 0 for n in range(3000)}
    source = {k: 1 for n, k in enumerate(base) if n % 3}
    destination = {k: 2 for n, k in enumerate(base) if n % 5} | {b"new": 1}
    b, s, d = (build_tree(store, side) for side in (base, source, destination))
    result = merge(b, s, d, TINY)
    assert result.tree is None
    assert [c.key for c in result.conflicts] == [k for n, k in enumerate(base) if n % 3 or n % 5]
    assert result.conflicts == packed_conflicts(
        [(k, 0, source.get(k), destination.get(k)) for n, k in enumerate(base) if n % 3 or n % 5]
    )


def test_where_both_sides_have_the_same_object_the_destination_s_record_stays() -> None:
    """Equal identities with other addresses and times are no conflict, and what the destination has is kept."""
    store = new_store()
    for split in (TINY, EVERY):
        ours = {key: packed(1, mtime=1) for key in KEYS}
        theirs = {key: packed(1, mtime=2) for key in KEYS}
        base, source, destination = (
            _tree_of(store, records, split) for records in ({k: packed(0) for k in KEYS}, ours, theirs)
        )
        for b in (base, _tree_of(store, {}, split), source, destination):
            result = merge(b, source, destination, split)
            assert result.tree is not None
            assert as_dict(result.tree) == theirs
        conflict = merge(base, source, _tree_of(store, {KEYS[0]: packed(5, mtime=9)}, split), split).conflicts[0]
        assert conflict.destination == packed(5, mtime=9)
        assert identity_of(packed(5)) == identity_of(conflict.destination or b"")


def _tree_of(store: TreeStore, records: dict[bytes, bytes], split: SplitParameters) -> Tree:
    return build(store, split, sorted(records.items()))
