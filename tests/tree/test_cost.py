"""Laws F3 and L5: cost follows the change. Every law here counts the files that a process opens which has none open yet."""

from bisect import bisect_left, bisect_right
from itertools import islice
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.model import SplitParameters
from graveler.tree.apply import apply, reapply
from graveler.tree.diff import diff
from graveler.tree.listing import list_page
from graveler.tree.merge import merge
from graveler.tree.split import cuts_after
from graveler.tree.summary import summarize
from graveler.tree.tree import Tree
from graveler.tree.writer import TreeWriter, build, join
from tests.support.campaigns import examples
from tests.support.trees import TINY, as_dict, build_tree, changes, packed
from tests.tree.support import (
    LAW,
    Contents,
    WatchedFiles,
    changes_between,
    cold,
    cut_by_the_rule,
    names,
    random_contents,
    same_tree,
    some_contents,
    some_split,
    watched,
    with_store,
)


def many(records: int = 1000, step: int = 1) -> Contents:
    return {b"key/%05d" % n: n % 3 for n in range(0, records * step, step)}


def opened_by_the_model(before: list[bytes], change: list[tuple[bytes, bytes | None]], split: SplitParameters) -> int:
    """``apply`` of the design's ``model/tree.py``: how many old ranges it opens."""
    tree = cut_by_the_rule(before, split)
    inserted = {key for key, value in change if value is not None}
    deleted = {key for key, value in change if value is None}
    changed = sorted(inserted | deleted)
    size = opened = n = at = 0
    while n < len(tree) or at < len(changed):
        mine: list[bytes] = []
        old: list[bytes] = []
        upto = None
        if n < len(tree):
            upto = tree[n][-1] if n < len(tree) - 1 else None
            if size == 0 and not (at < len(changed) and (upto is None or changed[at] <= upto)):
                n += 1
                continue
            opened += 1
            old, n = tree[n], n + 1
        while at < len(changed) and (upto is None or changed[at] <= upto):
            mine.append(changed[at])
            at += 1
        for key in sorted((set(old) - deleted) | (set(mine) & inserted)):
            size += len(key) + 32
            if cuts_after(split, size, key):
                size = 0
    return opened


# -- apply


@settings(LAW, max_examples=examples(300))
@given(some_contents, some_contents, some_split)
def test_apply_opens_no_more_than_the_model_and_writes_only_ranges_with_a_new_name(
    before: Contents, after: Contents, split: SplitParameters
) -> None:
    files, store = watched()
    tree = cold(build_tree(store, before, split), files)
    change = changes_between(before, after)
    result = apply(tree, change, split)
    assert files.requests["get ranges"] <= opened_by_the_model(sorted(before), change, split)
    assert sorted(files.written) == sorted(set(names(result)) - set(names(tree)))
    assert len(files.read) == len(set(files.read))


def test_apply_of_one_change_opens_only_its_range_and_those_it_takes_to_get_in_step(seed: int) -> None:
    files, store = watched()
    contents = many(1000, step=2)
    tree = build_tree(store, contents)
    assert len(tree) > 100
    random, opened = Random(seed), 0
    for _ in range(300):
        number = random.randrange(2000)
        key = b"key/%05d" % number
        change: list[tuple[bytes, bytes | None]] = [(key, None if key in contents else packed(7))]
        result = apply(cold(tree, files), change, TINY)
        touched = bisect_left(tree.lasts, key)
        first_opened = names(tree).index(files.read[0]) if files.read else touched
        assert files.read == names(tree)[first_opened : first_opened + len(files.read)]
        assert first_opened == min(touched, len(tree) - 1)
        assert len(files.read) <= opened_by_the_model(sorted(contents), change, TINY)
        # Behind the range where old and new cuts meet, everything is taken by reference.
        gone = set(names(tree)) - set(names(result))
        assert gone == set(files.read) or len(files.read) <= 1
        opened += len(files.read)
    assert opened / 300 < 2.5


def test_apply_of_a_change_of_value_opens_and_writes_one_range() -> None:
    files, store = watched()
    contents = many()
    tree = build_tree(store, contents)
    for key in list(contents)[::37]:
        result = apply(cold(tree, files), [(key, packed(99))], TINY)
        assert (len(files.read), len(files.written)) == (1, 1)
        assert len(set(names(result)) - set(names(tree))) == 1


def test_apply_of_nothing_opens_nothing() -> None:
    files, store = watched()
    tree = build_tree(store, many())
    assert same_tree(apply(cold(tree, files), [], TINY), tree)
    assert not files.requests


def test_apply_behind_the_end_opens_the_last_range_alone_or_none_if_the_rule_ended_it() -> None:
    files, store = watched()
    for records in range(40, 80):
        contents = many(records)
        tree = build_tree(store, contents)
        apply(cold(tree, files), [(b"z", packed(1))], TINY)
        whole = cuts_after(TINY, tree.info(len(tree) - 1).size, tree.lasts[-1])
        assert files.read == ([] if whole else names(tree)[-1:])


def test_apply_of_changes_to_every_range_opens_each_once() -> None:
    files, store = watched()
    tree = build_tree(store, many())
    firsts = [tree.info(n).first for n in range(len(tree))]
    apply(cold(tree, files), [(key, packed(99)) for key in firsts], TINY)
    assert files.read == names(tree)
    assert len(files.written) == len(tree)


# -- join and copy


def test_a_join_opens_under_two_ranges_a_seam_of_the_right_tree_on_average(seed: int) -> None:
    split = SplitParameters(min_size=400, max_size=3200, raggedness=10)
    files, store = watched()
    contents = many(2000)
    ordered = sorted(contents)
    whole = build_tree(store, contents, split)
    random, opened, seams = Random(seed), 0, 60
    for _ in range(seams):
        seam = random.randrange(1, 2000)
        left = build_tree(store, dict.fromkeys(ordered[:seam], 0) | {k: contents[k] for k in ordered[:seam]}, split)
        right = build_tree(store, {k: contents[k] for k in ordered[seam:]}, split)
        files.forget()
        fresh = cold(left, files).store
        result = join(fresh, split, [with_store(left, fresh), with_store(right, fresh)])
        assert same_tree(result, whole)
        assert set(files.read) <= {*names(left)[-1:], *names(right)[: len(files.read)]}
        assert set(files.written) <= set(names(result)) - set(names(left)) - set(names(right))
        opened += len(files.read)
    assert opened / seams < 3  # the left tree's last one, and under two of the right


@settings(LAW, max_examples=examples(200))
@given(some_contents, some_split, st.binary(max_size=4), st.binary(max_size=4))
def test_a_copy_opens_only_the_ranges_that_reach_over_its_bounds_and_what_it_takes_to_get_in_step(
    contents: Contents, split: SplitParameters, after: bytes, upto: bytes
) -> None:
    files, store = watched()
    tree = cold(build_tree(store, contents, split), files)
    writer = TreeWriter(tree.store, split, existing=(tree,))
    writer.copy(tree, after, upto)
    result = writer.finish()
    opened = set(files.read)
    assert as_dict(result) == {k: packed(v) for k, v in contents.items() if after < k <= upto}
    outside = [names(tree)[n] for n in range(len(tree)) if tree.lasts[n] <= after or tree.info(n).first > upto]
    assert not opened & set(outside)


# -- get and records


@settings(LAW, max_examples=examples(200))
@given(
    some_contents, some_split, st.one_of(st.binary(min_size=1, max_size=6), st.sampled_from([b"k07", b"a/", b"k08+"]))
)
def test_get_opens_one_range_and_none_between_ranges(contents: Contents, split: SplitParameters, key: bytes) -> None:
    files, store = watched()
    tree = cold(build_tree(store, contents, split), files)
    assert tree.get(key) == (packed(contents[key]) if key in contents else None)
    number = bisect_left(tree.lasts, key)
    inside = number < len(tree) and tree.info(number).first <= key
    assert files.read == (names(tree)[number : number + 1] if inside else [])


@settings(LAW, max_examples=examples(200))
@given(some_contents, some_split, st.binary(max_size=3), st.none() | st.binary(max_size=3))
def test_reading_an_interval_opens_the_ranges_that_reach_into_it(
    contents: Contents, split: SplitParameters, start: bytes, end: bytes | None
) -> None:
    files, store = watched()
    tree = cold(build_tree(store, contents, split), files)
    got = dict(tree.records(start, end))
    assert got == {k: packed(v) for k, v in contents.items() if k >= start and (end is None or k < end)}
    assert files.read == [
        names(tree)[n]
        for n in range(len(tree))
        if tree.lasts[n] >= start and (end is None or tree.info(n).first < end) and (end is None or start < end)
    ] or (end is not None and start >= end)


def test_naming_counting_and_loading_open_no_range() -> None:
    files, store = watched()
    tree = build_tree(store, many())
    name = tree.save()
    loaded = Tree.load(cold(tree, files).store, name)
    assert (loaded.name(), loaded.count()) == (name, 1000)
    assert files.requests == {"get metaranges": 1}


# -- diff


@settings(LAW, max_examples=examples(300))
@given(some_contents, some_contents, some_split, st.sampled_from([b"", b"a/", b"k", b"k17", b"long/04", b"z"]))
def test_diff_opens_only_ranges_whose_id_the_other_tree_has_not(
    one: Contents, other: Contents, split: SplitParameters, start: bytes
) -> None:
    files, store = watched()
    left, right = build_tree(store, one, split), build_tree(store, other, split)
    fresh = cold(left, files).store
    list(diff(with_store(left, fresh), with_store(right, fresh), start))
    assert set(files.read) <= set(names(left)) ^ set(names(right))
    assert len(files.read) == len(set(files.read))


def test_diff_and_summary_of_equal_trees_open_nothing_wherever_they_start() -> None:
    files, store = watched()
    tree = build_tree(store, many())
    for start in (b"", b"key/00000", b"key/00517", b"key/005", b"key/00999", b"z"):
        fresh = cold(tree, files)
        assert list(diff(fresh, with_store(tree, fresh.store), start)) == []
        assert list(summarize(fresh, with_store(tree, fresh.store), start)) == []
        assert not files.requests


def test_diff_after_one_change_opens_one_range_on_each_side() -> None:
    files, store = watched()
    contents = many()
    left = build_tree(store, contents)
    for key in list(contents)[::53]:
        right = build_tree(store, contents | {key: 99})
        for start in (b"", key, key[:-1]):
            fresh = cold(left, files)
            assert [k for k, _, _ in diff(fresh, with_store(right, fresh.store), start)] == [key]
            assert len(files.read) == 2


def test_a_page_of_a_diff_opens_the_ranges_that_it_shows_wherever_it_begins(seed: int) -> None:
    random = Random(seed)
    contents = many()
    changed = contents | dict.fromkeys(random.sample(sorted(contents), 400), 7)
    files, store = watched()
    left, right = build_tree(store, contents), build_tree(store, changed)
    assert min(len(left), len(right)) > 100
    whole = list(diff(left, right))
    for size in (1, 7, 50):
        for at in range(0, len(whole) - size, 29):
            start = whole[at - 1][0] + b"\0" if at else b""
            fresh = cold(left, files).store
            page = list(islice(diff(with_store(left, fresh), with_store(right, fresh), start), size))
            assert page == whole[at : at + size]
            # At most the ranges that hold a key from the first to the last that is shown, and those in which ``start`` lies.
            spanned = {
                tree.info(number).name
                for tree in (left, right)
                for number in range(bisect_left(tree.lasts, start), bisect_left(tree.lasts, page[-1][0]) + 1)
            }
            assert set(files.read) <= spanned
            assert len(files.read) == len(set(files.read))


def test_a_page_of_a_diff_reads_no_further_than_it_needs() -> None:
    files, store = watched()
    left = build_tree(store, many())
    right = build_tree(store, dict.fromkeys(many(), 9))
    fresh = cold(left, files)
    next(diff(fresh, with_store(right, fresh.store)))
    assert len(files.read) == 2
    fresh = cold(left, files)
    end = left.info(3).first
    assert len(list(diff(fresh, with_store(right, fresh.store), b"", end))) == bisect_left(sorted(many()), end)
    assert len(files.read) == 6


# -- merge


def merged_cold(files: WatchedFiles, base: Tree, source: Tree, destination: Tree) -> Tree:
    """Afterwards ``files`` knows what this merge read and wrote."""
    fresh = cold(base, files).store
    result = merge(with_store(base, fresh), with_store(source, fresh), with_store(destination, fresh), TINY)
    assert result.tree is not None
    return result.tree


def test_merge_of_changes_of_values_in_different_ranges_opens_and_writes_nothing(seed: int) -> None:
    files, store = watched()
    contents = many()
    base = build_tree(store, contents)
    random = Random(seed)
    for _ in range(20):
        numbers = random.sample(range(len(base)), 20)
        ours = {base.lasts[n]: 7 for n in numbers[:10]}
        theirs = {base.lasts[n]: 8 for n in numbers[10:]}
        source, destination = build_tree(store, contents | ours), build_tree(store, contents | theirs)
        result = merged_cold(files, base, source, destination)
        assert not files.requests
        assert same_tree(result, build_tree(store, contents | ours | theirs))


def test_merge_where_one_side_changed_nothing_opens_and_writes_nothing(seed: int) -> None:
    files, store = watched()
    random = Random(seed)
    for _ in range(50):
        base, other = (build_tree(store, random_contents(random)) for _ in range(2))
        for sides in ((base, other), (other, base), (other, other)):
            assert same_tree(merged_cold(files, base, *sides), other)
            assert not files.requests


def test_merge_of_inserts_and_deletes_in_different_places_opens_only_seams(seed: int) -> None:
    """Each place costs the few ranges that it takes to get in step again, however large the trees are."""
    files, store = watched()
    contents = many(2000, step=2)
    base = build_tree(store, contents)
    random, opened, rounds = Random(seed), 0, 60
    for _ in range(rounds):
        places = random.sample(range(0, 4000, 100), 6)
        sides = []
        for mine in (places[:3], places[3:]):
            side = dict(contents)
            for place in mine:
                for n in range(place, place + 5):
                    key = b"key/%05d" % n
                    if key in side:
                        del side[key]
                    else:
                        side[key] = 5
            sides.append(side)
        source, destination = (apply(base, changes_between(contents, side), TINY) for side in sides)
        wanted = {
            key: sides[1].get(key) if sides[0].get(key) == contents.get(key) else sides[0].get(key)
            for key in {*sides[0], *sides[1]}
        }
        expected = apply(base, changes_between(contents, {k: v for k, v in wanted.items() if v is not None}), TINY)
        result = merged_cold(files, base, source, destination)
        assert same_tree(result, expected)
        new = set(names(result)) - set(names(source)) - set(names(destination))
        assert len(files.written) == len(new)
        assert len(files.read) == len(set(files.read))
        opened += len(files.read)
    assert opened / rounds < 6 * 3  # six places, of some 360 ranges


def test_merge_takes_what_one_side_added_behind_the_end_or_removed_by_whole_ranges() -> None:
    files, store = watched()
    contents = many(300)
    base = build_tree(store, contents)
    added = contents | {b"new/%05d" % n: n for n in range(300)}
    changed = contents | {b"key/00000": 9}
    cut = bisect_right(sorted(contents), base.lasts[20])
    removed = dict(sorted(contents.items())[:cut])
    behind = dict(sorted(contents.items())[cut:])
    other_end = contents | {b"key/00299": 9}
    for one, other, result in (
        (added, changed, added | changed),
        (removed, changed, removed | {b"key/00000": 9}),
        (behind, other_end, behind | {b"key/00299": 9}),
    ):
        expected = build_tree(store, result)
        sides = build_tree(store, one), build_tree(store, other)
        for source, destination in (sides, sides[::-1]):
            assert same_tree(merged_cold(files, base, source, destination), expected)
            assert not files.requests


# -- reapply


def test_reapply_reads_nothing_where_both_heads_are_the_same() -> None:
    files, store = watched()
    contents = many(2000, step=2)
    old_head = build_tree(store, contents)
    change = [(b"key/%05d" % n, packed(8)) for n in range(1, 4000, 40)]
    old_result = apply(old_head, change, TINY)
    new_head = build_tree(store, contents | {b"key/02000": 9})
    asked: list[tuple[bytes | None, bytes | None]] = []

    def between(interval: tuple[bytes | None, bytes | None]) -> list[tuple[bytes, bytes | None]]:
        asked.append(interval)
        after, upto = interval
        return [c for c in change if (after is None or c[0] > after) and (upto is None or c[0] <= upto)]

    expected = apply(new_head, change, TINY)
    fresh = cold(new_head, files)
    old_head, old_result = with_store(old_head, fresh.store), with_store(old_result, fresh.store)
    assert same_tree(reapply(old_head, old_result, fresh, between, TINY), expected)
    assert len(asked) == 1
    after, upto = asked[0]
    assert after is not None
    assert upto is not None
    assert after < b"key/02000" <= upto
    # The range of the new head, the ranges of the finished tree that reach over the bounds, and what brings them in step.
    assert len(files.read) <= 6
    assert len(files.written) <= 3


def test_reapply_to_the_same_head_costs_nothing() -> None:
    files, store = watched()
    head = build_tree(store, many())
    done = apply(head, changes({b"key/00500+": 1, b"zz": 1}), TINY)
    fresh = cold(head, files)

    def nothing(interval: tuple[bytes | None, bytes | None]) -> list[tuple[bytes, bytes | None]]:
        raise AssertionError(f"asked for {interval}")

    assert same_tree(reapply(fresh, with_store(done, fresh.store), with_store(head, fresh.store), nothing, TINY), done)
    assert not files.requests


# -- listing


@settings(LAW, max_examples=examples(200))
@given(
    st.dictionaries(st.from_regex(rb"[ab/]{1,6}", fullmatch=True), st.just(0), max_size=60),
    st.sampled_from([b"", b"a", b"a/", b"b/a/"]),
    st.sampled_from([b"", b"/", b"ab"]),
    st.integers(1, 8),
)
def test_a_page_opens_only_ranges_that_hold_the_first_key_of_what_it_shows_or_an_end_of_it(
    contents: Contents, prefix: bytes, delimiter: bytes, amount: int
) -> None:
    files, store = watched()
    tree = cold(build_tree(store, contents), files)
    page = list_page(tree.run, prefix=prefix, delimiter=delimiter, amount=amount)
    ordered = sorted(contents)
    shown = [ordered[bisect_left(ordered, key)] for key in page.keys]
    beyond = [
        key
        for key in ordered
        if key.startswith(prefix)
        and shown
        and key > shown[-1]
        and not (page.packed[-1] is None and key.startswith(page.keys[-1]))
    ]
    needed = {names(tree)[bisect_left(tree.lasts, key)] for key in [*shown, *beyond[:1]]}
    # A range may begin before the interval's end and hold nothing behind the last thing shown: one more.
    assert len(set(files.read) - needed) <= 1
    if not delimiter:
        assert set(files.read) <= {names(tree)[n] for n in range(len(tree)) if tree.lasts[n] >= prefix}


def test_a_delimiter_jumps_over_whole_folders() -> None:
    files, store = watched()
    contents = {b"%s/%05d" % (folder, n): 0 for folder in (b"a", b"b", b"c") for n in range(500)}
    tree = cold(build(store, TINY, ((key, packed(0)) for key in sorted(contents))), files)
    page = list_page(tree.run, delimiter=b"/")
    assert page.keys == [b"a/", b"b/", b"c/"]
    assert len(tree) > 150
    assert len(files.read) == 3
