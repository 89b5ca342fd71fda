"""Law F1: the same contents make the same tree, whatever their history. Law F2: cuts and IDs follow the written rule alone."""

import os
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidError
from graveler.model import MergeStrategy, ObjectEntry, SplitParameters
from graveler.runtime.local import LocalRuntime
from graveler.tree.apply import apply, apply_between, reapply
from graveler.tree.merge import merge
from graveler.tree.parallel_build import Part, build_parallel
from graveler.tree.range_notes import NoNotes
from graveler.tree.split import cuts_after, validate_split
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import TreeWriter, build, join
from tests.support.campaigns import examples
from tests.support.trees import (
    ALONE,
    CODEC,
    TINY,
    MemoryFiles,
    as_dict,
    build_tree,
    changes,
    new_store,
    packed,
    packed_dict,
)
from tests.tree.support import (
    BY_SIZE,
    EVERY,
    LAW,
    RAGGED,
    UNIVERSE,
    Contents,
    Way,
    changes_between,
    cut_by_the_rule,
    cut_points,
    id_by_the_formula,
    identity_of,
    names,
    random_contents,
    ranges_of,
    same_tree,
    slices,
    some_contents,
    some_split,
    suffix_by_chunks,
    suffix_by_the_formula,
    watched,
)


def one_apply_on_the_empty_tree(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    return apply(Tree(store), changes(contents), split)


def many_applies(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    """Through random states, some of them empty or full."""
    tree, state = Tree(store), Contents()
    for _ in range(random.randint(1, 6)):
        after = random_contents(random)
        tree, state = apply(tree, changes_between(state, after), split), after
    return apply(tree, changes_between(state, contents), split)


def one_key_at_a_time_in_any_order(
    store: TreeStore, contents: Contents, split: SplitParameters, random: Random
) -> Tree:
    tree = Tree(store)
    for key in random.sample(sorted(contents), len(contents)):
        tree = apply(tree, [(key, packed(contents[key]))], split)
    return tree


def one_key_at_a_time_at_the_end(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    tree = Tree(store)
    for key in sorted(contents):
        tree = apply(tree, [(key, packed(contents[key]))], split)
    return tree


def deleting_from_more(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    """One key at a time, so that each cut key is met alone."""
    more = dict.fromkeys(UNIVERSE, 9) | contents
    tree = build_tree(store, more, split)
    for key in random.sample(UNIVERSE, len(UNIVERSE)):
        if key not in contents:
            tree = apply(tree, [(key, None)], split)
    return tree


def joined(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    ordered = sorted(contents)
    parts = slices(ordered, cut_points(random, len(ordered), random.choice((2, 3, 10, len(ordered) + 1))))
    return join(store, split, [build_tree(store, {k: contents[k] for k in part}, split) for part in parts])


def joined_at_every_key(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    return join(store, split, [build_tree(store, {k: contents[k]}, split) for k in sorted(contents)])


def joined_of_joined(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    ordered = sorted(contents)
    middle = random.randint(0, len(ordered))
    halves = [{k: contents[k] for k in half} for half in (ordered[:middle], ordered[middle:])]
    return join(store, split, [joined(store, half, split, random) for half in halves])


def merged(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    """Each change between a random base and the contents is made on one side, or on both."""
    base = random_contents(random)
    source, destination = dict(base), dict(base)
    for key, value in changes_between(base, contents):
        for side in random.choice(((source,), (destination,), (source, destination))):
            if value is None:
                side.pop(key, None)
            else:
                side[key] = contents[key]
    b, s, d = (build_tree(store, side, split) for side in (base, source, destination))
    result = merge(b, s, d, split, random.choice(list(MergeStrategy)))
    assert result.tree is not None
    return result.tree


def reapplied(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    """The head moves while a change is being applied to it."""
    old, keys_of_change = random_contents(random), [key for key in UNIVERSE if random.random() < 0.3]
    new = {k: v for k, v in contents.items() if k not in keys_of_change}
    new |= {k: old[k] for k in keys_of_change if k in old}
    if random.random() < 0.5:  # a head that differs in one place only
        old = dict(new)
        old.pop(random.choice(UNIVERSE), None)
    change = changes({key: contents.get(key) for key in keys_of_change})
    old_head, new_head = build_tree(store, old, split), build_tree(store, new, split)

    def between(interval: tuple[bytes | None, bytes | None]) -> Iterable[tuple[bytes, bytes | None]]:
        after, upto = interval
        return [c for c in change if (after is None or c[0] > after) and (upto is None or c[0] <= upto)]

    return reapply(old_head, apply(old_head, change, split), new_head, between, split)


def copied_in_pieces(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    tree = build_tree(store, contents, split)
    bounds = [None, *sorted(random.sample(UNIVERSE, random.randint(0, 6))), None]
    writer = TreeWriter(store, split)
    for after, upto in pairwise(bounds):
        writer.copy(tree, after, upto)
    return writer.finish()


def applied_in_intervals(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    before = random_contents(random)
    tree = build_tree(store, before, split)
    change = changes_between(before, contents)
    bounds = [None, *sorted(random.sample(UNIVERSE, random.randint(0, 6))), None]
    writer = TreeWriter(store, split)
    for after, upto in pairwise(bounds):
        mine = [c for c in change if (after is None or c[0] > after) and (upto is None or c[0] <= upto)]
        apply_between(writer, tree, mine, (after, upto))
    return writer.finish()


def in_parts(store: TreeStore, contents: Contents, split: SplitParameters, random: Random) -> Tree:
    ordered = sorted(contents)
    parts = slices(ordered, cut_points(random, len(ordered), random.randint(1, 6)))
    records: list[Part] = [partial(list, [(key, packed(contents[key])) for key in part]) for part in parts]
    return build_parallel(store, split, records)


WAYS: list[Way] = [
    one_apply_on_the_empty_tree,
    many_applies,
    one_key_at_a_time_in_any_order,
    one_key_at_a_time_at_the_end,
    deleting_from_more,
    joined,
    joined_at_every_key,
    joined_of_joined,
    merged,
    reapplied,
    copied_in_pieces,
    applied_in_intervals,
    in_parts,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@settings(LAW, max_examples=examples(60))
@given(some_contents, some_split, st.randoms(use_true_random=False))
def test_same_contents_same_metarange_whatever_way_they_took(
    way: Way, contents: Contents, split: SplitParameters, random: Random
) -> None:
    store = new_store()
    tree = way(store, contents, split, random)
    assert same_tree(tree, build_tree(store, contents, split))
    assert as_dict(tree) == packed_dict(contents)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_full_and_empty_and_single_record_trees_are_the_same_whatever_way_they_took(way: Way, seed: int) -> None:
    random = Random(seed)
    for contents in (Contents(), {UNIVERSE[0]: 1}, {UNIVERSE[-1]: 1}, dict.fromkeys(UNIVERSE, 1)):
        for split in (TINY, BY_SIZE, RAGGED):
            store = new_store()
            assert same_tree(way(store, contents, split, random), build_tree(store, contents, split))


def test_deleting_every_record_leaves_the_empty_tree() -> None:
    store = new_store()
    tree = build_tree(store, dict.fromkeys(UNIVERSE, 1))
    empty = apply(tree, [(key, None) for key in UNIVERSE], TINY)
    assert (len(empty), empty.id(), empty.name(), empty.save()) == (0, "", "", "")
    assert same_tree(Tree.load(store, empty.name()), empty)


def test_deleting_a_cut_key_joins_ranges_as_if_the_key_had_never_been() -> None:
    store = new_store()
    contents = {b"key/%05d" % n: n for n in range(300)}
    tree = build_tree(store, contents)
    assert len(tree) > 20
    for cut in tree.lasts:
        rest = {k: v for k, v in contents.items() if k != cut}
        assert same_tree(apply(tree, [(cut, None)], TINY), build_tree(store, rest))
    without_cuts = {k: v for k, v in contents.items() if k not in tree.lasts}
    assert same_tree(apply(tree, [(cut, None) for cut in tree.lasts], TINY), build_tree(store, without_cuts))


@pytest.mark.parametrize(
    "split",
    [
        SplitParameters(min_size=512, max_size=4096, raggedness=5),
        SplitParameters(min_size=5_000, max_size=40_000, raggedness=50),
        SplitParameters(min_size=100_000, max_size=800_000, raggedness=1_000),
        SplitParameters(),
    ],
    ids=lambda split: f"{split.min_size}",
)
def test_300_appends_leave_as_many_ranges_as_one_build(split: SplitParameters) -> None:
    """From ranges of ten records to the default, where all fit into one."""
    store = new_store()
    contents = {b"day=%03d/part-%05d" % (n // 7, n): n for n in range(2100)}
    ordered = sorted(contents)
    tree = Tree(store)
    for n in range(300):
        tree = apply(tree, changes({k: contents[k] for k in ordered[7 * n : 7 * n + 7]}), split)
    assert same_tree(tree, build_tree(store, contents, split))


def test_applying_in_another_order_gives_the_same_tree(seed: int) -> None:
    """Changes of different keys commute."""
    random, store = Random(seed), new_store()
    base = random_contents(random)
    tree = build_tree(store, base)
    change = changes({key: random.choice((None, 7)) for key in random.sample(UNIVERSE, 20)})
    results = set()
    for _ in range(30):
        shuffled, result = random.sample(change, len(change)), tree
        while shuffled:
            size = random.randint(1, len(shuffled))
            batch, shuffled = sorted(shuffled[:size]), shuffled[size:]
            result = apply(result, batch, TINY)
        results.add(result.name())
    assert len(results) == 1


@pytest.mark.parametrize("seed", range(8))
def test_ranges_of_several_blocks_are_cut_by_the_rule_where_keys_stay_come_and_go(seed: int) -> None:
    """Where keys stay, nobody looks for cuts; one that comes or goes in the first block may make one in the last. No block is
    copied, since nothing is noted."""
    random = Random(seed)
    split = SplitParameters(min_size=10_000, max_size=60_000, raggedness=300)
    store = TreeStore(MemoryFiles(), ALONE, notes=NoNotes())
    contents: Contents = {b"%05d/" % n + b"x" * 30: n for n in range(0, 9000, 2)}
    tree = build_tree(store, contents, split)
    assert len(tree) > 5
    assert max(len(tree.open(number)) for number in range(len(tree))) > 3, "blocks"
    for step in range(6):
        every = [b"%05d/" % n + b"x" * 30 for n in range(9000)]
        staying = random.sample(sorted(contents), 300)
        moving = random.sample(every, random.choice((0, 5, 50, 300)))
        news: dict[bytes, int | None] = dict.fromkeys(staying, -step - 1)
        news |= {key: None if key in contents else 7 for key in moving}
        tree = apply(tree, changes(news), split)
        contents = {key: value for key, value in {**contents, **news}.items() if value is not None}
        assert tree.name() == build_tree(new_store(), contents, split).name()


def test_keys_that_are_never_cut_candidates_are_cut_by_size_whatever_way_they_took(seed: int) -> None:
    """A skewed world: no key's hash ends a range, so a change moves every cut behind it."""
    split = SplitParameters(min_size=1, max_size=200, raggedness=1_000_003)
    universe = [key for key in UNIVERSE if not cuts_after(split, 32, key)]
    random, store = Random(seed), new_store()
    for _ in range(40):
        contents = random_contents(random, universe)
        tree = many_applies(store, contents, split, random)
        assert same_tree(tree, build_tree(store, contents, split))
        assert all(tree.info(n).size >= split.max_size for n in range(len(tree) - 1))


def test_long_keys_fill_ranges_by_their_length() -> None:
    split = SplitParameters(min_size=2_000, max_size=5_000, raggedness=10**9)
    contents = {b"%04d" % n + b"x" * 1020: n for n in range(64)}
    tree = build_tree(new_store(), contents, split)
    assert [tree.info(n).count for n in range(len(tree))] == [5] * 12 + [4]


def _records(start: int, stop: int) -> list[tuple[bytes, bytes]]:
    return [(b"key/%06d" % n, packed(n % 5)) for n in range(start, stop)]


class FolderFiles:
    """Files that several processes share."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def _path(self, kind: str, name: str) -> str:
        return os.path.join(self.folder, f"{kind}-{name}")  # noqa: PTH118

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        with open(self._path(kind, name), "rb") as file:  # noqa: PTH123
            return file.read()

    def put(self, kind: str, name: str, data: bytes) -> None:
        with open(self._path(kind, name), "wb") as file:  # noqa: PTH123
            file.write(data)


def test_several_processes_build_the_same_tree_at_any_cuts(tmp_path: os.PathLike[str], seed: int) -> None:
    random, store = Random(seed), TreeStore(FolderFiles(str(tmp_path)), LocalRuntime(workers=2))
    expected = build(store, TINY, _records(0, 2000))
    cuts = [0, *sorted(random.randint(0, 2000) for _ in range(7)), 2000]
    parts = [partial(_records, a, b) for a, b in pairwise(cuts)]
    assert same_tree(build_parallel(store, TINY, parts), expected)


def _broken() -> list[tuple[bytes, bytes]]:
    raise OSError("the source went away")


def test_an_error_in_one_process_is_raised_in_the_caller(tmp_path: os.PathLike[str]) -> None:
    store = TreeStore(FolderFiles(str(tmp_path)), LocalRuntime(workers=2))
    with pytest.raises(OSError, match="the source went away"):
        build_parallel(store, TINY, [partial(_records, 0, 10), _broken, partial(_records, 10, 20)])


# -- cuts


@settings(LAW, max_examples=examples(300))
@given(some_contents, some_split)
def test_ranges_end_where_the_written_rule_ends_them(contents: Contents, split: SplitParameters) -> None:
    tree = build_tree(new_store(), contents, split)
    assert ranges_of(tree) == cut_by_the_rule(sorted(contents), split)


@settings(LAW, max_examples=examples(100))
@given(some_contents, some_contents, some_split)
def test_a_change_of_values_moves_no_cut(contents: Contents, others: Contents, split: SplitParameters) -> None:
    changed = {key: others.get(key, value) for key, value in contents.items()}
    store = new_store()
    assert build_tree(store, contents, split).lasts == build_tree(store, changed, split).lasts


def test_the_rule_counts_from_the_last_cut_and_includes_the_key_that_ends_a_range() -> None:
    split = SplitParameters(min_size=66, max_size=99, raggedness=10**9)
    assert [len(r) for r in ranges_of(build_tree(new_store(), {b"%d" % n: 0 for n in range(9)}, split))] == [3, 3, 3]
    assert not cuts_after(split, 98, b"x")
    assert cuts_after(split, 99, b"x")


@pytest.mark.parametrize(
    ("smallest", "largest", "raggedness"), [(0, 10, 1), (11, 10, 1), (-1, -1, 1), (1, 1, 0), (1, 1, -3)]
)
def test_split_parameters_that_make_no_sense_are_refused(smallest: int, largest: int, raggedness: int) -> None:
    split = SplitParameters(min_size=smallest, max_size=largest, raggedness=raggedness)
    with pytest.raises(InvalidError):
        validate_split(split)
    with pytest.raises(InvalidError):
        TreeWriter(new_store(), split)


# -- IDs and names


@settings(LAW, max_examples=examples(100))
@given(some_contents, some_split)
def test_ids_and_names_follow_the_written_formula(contents: Contents, split: SplitParameters) -> None:
    tree = build_tree(new_store(), contents, split)
    records = packed_dict(contents)
    descriptions = []
    for number, part in enumerate(cut_by_the_rule(sorted(contents), split)):
        info = tree.info(number)
        assert info.id == id_by_the_formula((key, identity_of(records[key])) for key in part)
        assert info.name == f"{info.id.hex()}-{suffix_by_chunks((key, records[key]) for key in part)}"
        assert (info.first, info.last, info.count) == (part[0], part[-1], len(part))
        assert info.size == sum(len(key) + 32 for key in part)
        assert info.total == sum(len(str(contents[key])) for key in part)
        assert identity_of(tree.packed[number]) == info.id
        descriptions.append((info.last, info.id))
    if contents:
        assert tree.id() == id_by_the_formula(descriptions).hex()
        assert tree.name() == f"{tree.id()}-{suffix_by_the_formula(tree.packed)}"
    assert tree.count() == len(contents)


@settings(LAW, max_examples=examples(100))
@given(some_contents, some_contents, some_split)
def test_different_contents_have_different_ids(one: Contents, other: Contents, split: SplitParameters) -> None:
    store = new_store()
    assert (build_tree(store, one, split).id() == build_tree(store, other, split).id()) == (one == other)


def test_the_id_ignores_addresses_and_times_and_the_name_pins_them() -> None:
    store = new_store()
    ordered = [b"key/%03d" % n for n in range(100)]
    plain = build(store, TINY, [(key, packed(1)) for key in ordered])
    later = build(store, TINY, [(key, packed(1, mtime=99)) for key in ordered])
    moved = build(store, TINY, [(key, packed(1, address="mem://test/elsewhere")) for key in ordered])
    assert plain.id() == later.id() == moved.id()
    assert len({plain.name(), later.name(), moved.name()}) == 3
    assert not set(names(plain)) & set(names(later))
    for tree, value in ((plain, packed(1)), (later, packed(1, mtime=99))):
        assert set(as_dict(Tree.load(store, tree.save())).values()) == {value}


def test_an_address_outside_the_namespace_is_part_of_the_id() -> None:
    store = new_store()
    trees = [build(store, TINY, [(b"k", packed(1, address=a))]) for a in ("s3://a/x", "s3://a/y", "mem://test/x")]
    assert len({tree.id() for tree in trees}) == 3


def test_a_change_that_brings_the_same_identity_leaves_record_and_file_as_they_were() -> None:
    files, store = watched()
    ordered = [b"key/%03d" % n for n in range(100)]
    tree = build(store, TINY, [(key, packed(1)) for key in ordered])
    files.forget()
    again = apply(tree, [(key, packed(1, mtime=99)) for key in ordered], TINY)
    assert same_tree(again, tree)
    assert files.written == []
    mixed = apply(tree, [(ordered[0], packed(1, mtime=99)), (ordered[1], packed(2, mtime=99))], TINY)
    assert as_dict(mixed)[ordered[0]] == packed(1)
    assert as_dict(mixed)[ordered[1]] == packed(2, mtime=99)


@pytest.mark.parametrize("number", [0, 3, 99])
def test_removing_what_is_absent_is_no_change(number: int) -> None:
    files, store = watched()
    tree = build_tree(store, {b"key/%03d" % n: n for n in range(100)})
    files.forget()
    assert same_tree(apply(tree, [(b"key/%03d+" % number, None)], TINY), tree)
    assert files.written == []


def test_a_saved_tree_is_loaded_as_it_was() -> None:
    files = MemoryFiles()
    tree = build_tree(new_store(files), dict.fromkeys(UNIVERSE, 1))
    name = tree.save()
    loaded = Tree.load(new_store(files), name)
    assert same_tree(loaded, tree)
    assert loaded.name() == name


def test_objects_of_any_size_are_counted_without_overflow() -> None:
    huge = CODEC.encode(ObjectEntry("x", "mem://test/x", 2**63 - 1, "00", 0))
    tree = build(new_store(), SplitParameters(), [(b"%d" % n, huge) for n in range(4)])
    assert tree.info(0).total == 2**64 - 1


# -- order


@pytest.mark.parametrize(
    "wrong", [["b", "a"], ["a", "a"], ["a", "c", "b"], ["a", "b", "b"], ["z" * 900, "a"]], ids=lambda w: "-".join(w)[:9]
)
@pytest.mark.parametrize("split", [TINY, RAGGED, BY_SIZE], ids=["tiny", "ragged", "by-size"])
def test_records_out_of_order_are_refused(wrong: list[str], split: SplitParameters) -> None:
    with pytest.raises(InvalidError, match="order"):
        build(new_store(), split, [(key.encode(), packed(1)) for key in wrong])


@pytest.mark.parametrize("split", [TINY, EVERY], ids=["tiny", "every"])
def test_trees_out_of_order_are_not_joined(split: SplitParameters) -> None:
    store = new_store()
    one, other = (build_tree(store, {b"%s%03d" % (letter, n): n for n in range(60)}, split) for letter in (b"a", b"b"))
    middle = build_tree(store, {b"a030+": 1}, split)
    for trees in ((other, one), (one, one), (one, middle), (one, other, one)):
        with pytest.raises(InvalidError, match="order"):
            join(store, split, trees)


@pytest.mark.parametrize("wrong", [[b"k2", b"k1"], [b"k1", b"k1"], [b"k3", b"k1"], [b"x1", b"x1"], [b"x2", b"x1"]])
@pytest.mark.parametrize("value", [None, 7])
def test_changes_out_of_order_are_refused(wrong: list[bytes], value: int | None) -> None:
    tree = build_tree(new_store(), {b"k%d" % n: n for n in range(4)})
    for split in (TINY, RAGGED):
        with pytest.raises(InvalidError, match="order"):
            apply(tree, [(key, None if value is None else packed(value)) for key in wrong], split)
