"""Ranges of copied blocks: the same records, IDs, names and notes as of ranges written anew, through any history.

``GRAVELER_PATCH_COMMITS`` says how long the longest one is (default 200).
"""

import os
from collections.abc import Callable, Mapping
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from graveler.errors import DamagedFileError
from graveler.model import MergeStrategy, ObjectEntry, SplitParameters
from graveler.tree.apply import apply
from graveler.tree.assembler import Assembler, table_file
from graveler.tree.block import BLOCK_SIZE, decompress_block
from graveler.tree.cursor import Cursor
from graveler.tree.diff import diff
from graveler.tree.merge import merge
from graveler.tree.patch import Patch
from graveler.tree.range_notes import MemoryNotes
from graveler.tree.split import cuts_after, is_candidate, slack
from graveler.tree.sstable import Table
from graveler.tree.store import RANGES, TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import TreeWriter, build
from tests.support.trees import ALONE, CODEC, MemoryFiles, packed
from tests.tree.support import LAW, same_tree
from tests.tree.support import watched as watched_store

SPLIT = SplitParameters(min_size=100_000, max_size=800_000, raggedness=1000)
"""Ranges of some 2,000 records, in 20 blocks."""
KEYS = [b"warehouse/table/day=%02d/part-%05d.parquet" % (n // 300, n) for n in range(5000)]
COMMITS = int(os.environ.get("GRAVELER_PATCH_COMMITS", "200"))

Contents = dict[bytes, int]


def new(number: int, mtime: int = 0) -> bytes:
    """Some 200 bytes."""
    return packed(number, mtime=mtime, address="s3://another/bucket/" + "and a long prefix/" * 5)


def tree_of(store: TreeStore, contents: Contents) -> Tree:
    return build(store, SPLIT, ((key, new(contents[key])) for key in sorted(contents)))


def next_contents(contents: Contents, random: Random) -> Contents:
    """A few changes of any kind: one after another, or spread."""
    after = dict(contents)
    ordered = sorted(contents)
    begin = random.randrange(len(ordered))
    amount = random.choice((1, 1, 2, 5, 20))
    near = ordered[begin : begin + amount]
    kind = random.choice(("change", "remove", "add", "add before", "spread", "all", "replace keys"))
    if kind == "change":
        after.update((key, random.randrange(10**6)) for key in near)
    elif kind == "remove":
        for key in near:
            del after[key]
    elif kind == "add":
        after.update((key + b"+%d" % random.randrange(1000), random.randrange(10)) for key in near)
    elif kind == "add before":
        after.update((key[:-8] + b"%d" % random.randrange(1000), random.randrange(10)) for key in near)
    elif kind == "spread":
        after.update((key, random.randrange(10**6)) for key in random.sample(ordered, 3))
    elif kind == "replace keys":
        for key in near:
            del after[key]
            after[key + b"'"] = random.randrange(10)
    else:
        for key in random.sample(ordered, 2):
            del after[key]
        after.update((key + b"x", 1) for key in random.sample(ordered, 2))
    return after


def changes(items: Mapping[bytes, int | None]) -> list[tuple[bytes, bytes | None]]:
    return [(key, None if (value := items[key]) is None else new(value)) for key in sorted(items)]


def between(before: Contents, after: Contents) -> list[tuple[bytes, bytes | None]]:
    return changes({key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)})


class Watched:
    """Counts how many ranges were made by copying, and how many by writing all records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patched = self.written = 0
        assemble = Patch.assemble

        def counted(patch: Patch) -> object:
            self.patched += 1
            return assemble(patch)

        def write(*args: object) -> bytes:
            self.written += 1
            return table_file(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(Patch, "assemble", counted)
        monkeypatch.setattr("graveler.tree.writer.table_file", write)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_a_long_history_of_few_changes_ends_in_the_tree_that_is_built_at_once(watched: Watched, seed: int) -> None:
    """Names, descriptions, notes, and blocks that are neither too many nor too large."""
    random = Random(seed)
    store, contents = TreeStore(MemoryFiles(), ALONE), dict.fromkeys(KEYS, 0)
    tree = tree_of(store, contents)
    watched.written = 0
    for commit in range(COMMITS):
        after = next_contents(contents, random)
        tree, contents = apply(tree, between(contents, after), SPLIT), after
        if commit % 40 == 0 or commit == COMMITS - 1:
            check(tree, contents)
    assert watched.patched > 3 * watched.written
    sizes = [size for number in range(len(tree)) for size in block_sizes(tree.open(number))[:-1]]
    assert min(sizes) >= BLOCK_SIZE // 2
    assert max(sizes) <= BLOCK_SIZE * 3 // 2 + 200
    fresh = tree_of(TreeStore(MemoryFiles(), ALONE), contents)
    worn, ideal = (sum(t.open(n).size for n in range(len(t))) for t in (tree, fresh))
    assert worn < 1.1 * ideal


def check(tree: Tree, contents: Contents, *, layouts: bool = True) -> None:
    store = TreeStore(MemoryFiles(), ALONE)
    fresh = tree_of(store, contents)
    assert same_tree(tree, fresh)
    assert list(tree.records()) == list(fresh.records())
    for number in range(len(tree)):
        note, of_fresh = tree.note(number), fresh.note(number)
        assert note is not None
        assert of_fresh is not None
        assert (note.ids, note.digests, note.split) == (of_fresh.ids, of_fresh.digests, of_fresh.split)
        assert note.slack <= of_fresh.slack
        table = tree.open(number)
        if not layouts:
            continue
        assert note.layout == table.layout
        assert note.counts == [len(table.read(block)[0]) for block in range(len(table))]
        assert table.value_bytes == sum(len(value) for _, values in table.blocks() for value in values)


def block_sizes(table: Table) -> list[int]:
    return [len(decompress_block(raw, 0, len(raw) - 1)) for raw in map(table.raw, range(len(table)))]


@settings(LAW, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_any_few_changes_give_the_tree_that_is_built_at_once(seed: int, steps: int) -> None:
    random = Random(seed)
    contents = dict.fromkeys(random.sample(KEYS, random.choice((300, 1500))), 0)
    tree = tree_of(TreeStore(MemoryFiles(), ALONE), contents)
    for _ in range(steps):
        after = next_contents(contents, random)
        tree, contents = apply(tree, between(contents, after), SPLIT), after
    check(tree, contents)


def test_blocks_without_a_change_are_copied_to_the_byte(watched: Watched) -> None:
    store = TreeStore(MemoryFiles(), ALONE)
    tree = tree_of(store, dict.fromkeys(KEYS, 0))
    key = KEYS[700]
    for change in ((key, new(1)), (key, None), (key + b"+", new(1))):
        changed = apply(tree, [change], SPLIT)
        old, made = ([t.open(0).raw(n) for n in range(len(t.open(0)))] for t in (tree, changed))
        assert len(old) == len(made) > 10
        assert sum(a != b for a, b in zip(old, made, strict=True)) == 1
    assert watched.patched == 3


def test_an_addition_or_removal_makes_no_other_block_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    store = TreeStore(MemoryFiles(), ALONE)
    tree = tree_of(store, dict.fromkeys(KEYS, 0))
    changed = apply(tree, changes({KEYS[500]: None, KEYS[1000] + b"+": 3}), SPLIT)
    read: list[int] = []
    original = Table.read

    def counted(table: Table, number: int) -> object:
        read.append(number)
        return original(table, number)

    monkeypatch.setattr(Table, "read", counted)
    assert [key for key, _, _ in diff(tree, changed)] == [KEYS[500], KEYS[1000] + b"+"]
    assert len(read) == 4


def test_differences_of_files_of_many_blocks_are_those_of_their_contents(seed: int) -> None:
    """Of copied blocks or all anew, with few changes or many, from any key on."""
    random = Random(seed)
    store, before = TreeStore(MemoryFiles(), ALONE), dict.fromkeys(KEYS, 0)
    for share in (0.001, 0.02, 0.3):
        after = next_contents(before, random) | {key: 7 for key in KEYS if random.random() < share}
        trees = [
            tree_of(store, before),
            tree_of(store, after),
            apply(tree_of(store, before), between(before, after), SPLIT),
        ]
        for left, right in ((trees[0], trees[1]), (trees[0], trees[2]), (trees[2], trees[0])):
            one, other = (before, after) if left is trees[0] else (after, before)
            keys = [key for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key)]
            for start in (b"", random.choice(KEYS), random.choice(keys)):
                found = list(diff(left, right, start))
                assert [key for key, _, _ in found] == [key for key in keys if key >= start]
                for key, a, b in found:
                    assert a == (new(one[key]) if key in one else None)
                    assert b == (new(other[key]) if key in other else None)


def test_a_change_that_changes_nothing_writes_nothing(watched: Watched) -> None:
    files = MemoryFiles()
    tree = tree_of(TreeStore(files, ALONE), dict.fromkeys(KEYS, 0))
    before = len(files.files)
    again = [(KEYS[5], new(0, 9)), (KEYS[5] + b"+", None), (KEYS[900], new(0))]
    assert same_tree(apply(tree, again, SPLIT), tree)
    assert len(files.files) == before
    assert watched.patched == 0


def test_a_range_that_changes_again_and_again_is_not_read_again() -> None:
    files, store = watched_store()
    tree = tree_of(store, dict.fromkeys(KEYS, 0))
    apply(tree, [(KEYS[0], new(1))], SPLIT)
    files.forget()
    contents = dict.fromkeys(KEYS, 0)
    for number in range(1, 10):
        contents[KEYS[number]] = number
        tree = apply(tree, [(KEYS[number], new(number))], SPLIT)
    assert not files.read
    assert same_tree(tree, tree_of(TreeStore(MemoryFiles(), ALONE), contents))


def test_what_comes_back_is_not_written_again(watched: Watched) -> None:
    tree = tree_of(TreeStore(MemoryFiles(), ALONE), dict.fromkeys(KEYS, 0))
    changed = apply(tree, [(KEYS[5], new(1))], SPLIT)
    writer = TreeWriter(tree.store, SPLIT, existing=(tree,))
    assert writer.patch(changed, 0, [(KEYS[5], new(0))])
    writer.take(tree, 1)
    assert same_tree(writer.finish(), tree)
    assert watched.patched == 1


def test_where_the_keys_of_many_blocks_change_rocksdb_writes(watched: Watched) -> None:
    tree = tree_of(TreeStore(MemoryFiles(), ALONE), dict.fromkeys(KEYS, 0))
    for change in (
        {key + b"+": 1 for key in KEYS[::50]},
        dict.fromkeys(KEYS[::50]),
        {key + b"+" * (n % 2): 1 for n, key in enumerate(KEYS[::20])},
    ):
        watched.written = 0
        contents = dict.fromkeys(KEYS, 0) | change
        check(
            apply(tree, changes(change), SPLIT),
            {key: value for key, value in contents.items() if value is not None},
        )
        assert watched.patched == 0
        assert watched.written


@pytest.mark.parametrize("step", [5, 17, 50])
def test_other_values_in_all_blocks_are_spliced_in(watched: Watched, step: int, seed: int) -> None:
    """Values as long as the old ones, longer and shorter, and a key or two that come or go."""
    random = Random(seed)
    store = TreeStore(MemoryFiles(), ALONE)
    contents = dict.fromkeys(KEYS, new(0))
    tree = build(store, SPLIT, sorted(contents.items()))
    watched.written = 0
    for longest in (0, 0, 30, 1500, 1):
        values = [packed(random.randrange(9), address=f"s3://b/{'x' * random.randint(0, longest)}") for _ in range(40)]
        change: dict[bytes, bytes | None] = {key: random.choice(values) for key in KEYS[random.randrange(step) :: step]}
        change |= {random.choice(KEYS): None, random.choice(KEYS) + b"+": values[0]}
        contents = {key: value for key, value in (contents | change).items() if value is not None}
        tree = apply(tree, sorted(change.items()), SPLIT)
        fresh = build(TreeStore(MemoryFiles(), ALONE), SPLIT, sorted(contents.items()))
        assert same_tree(tree, fresh)
        assert list(tree.records()) == sorted(contents.items())
        sizes = [size for number in range(len(tree)) for size in block_sizes(tree.open(number))[:-1]]
        assert min(sizes) >= BLOCK_SIZE // 2
        assert max(sizes) <= BLOCK_SIZE * 3 // 2 + 2000
    assert watched.patched >= 5


# -- merging


def merged(
    base: Contents, source: Contents, destination: Contents, *, source_wins: bool
) -> tuple[Contents, list[bytes]]:
    """The table of the format, word by word; and the conflicts."""
    result: Contents = {}
    conflicts = []
    for key in sorted(base.keys() | source.keys() | destination.keys()):
        b, s, d = base.get(key), source.get(key), destination.get(key)
        if s not in (d, b) and b != d:
            conflicts.append(key)
        value = d if s in (d, b) or (b != d and not source_wins) else s
        if value is not None:
            result[key] = value
    return result, conflicts


@pytest.mark.parametrize("strategy", MergeStrategy)
def test_merges_of_few_changes_copy_blocks_and_follow_the_table(
    strategy: MergeStrategy, watched: Watched, seed: int
) -> None:
    random = Random(seed)
    store, base = TreeStore(MemoryFiles(), ALONE), dict.fromkeys(KEYS, 0)
    tree = tree_of(store, base)
    merges = conflicting = 0
    for number in range(15):
        sides: list[Contents] = []
        for _ in range(2):
            contents = base
            for _ in range(random.choice((1, 3, 8))):
                contents = next_contents(contents, random)
            sides.append(contents | {KEYS[1700 + random.randrange(2) * (number % 3)]: len(sides) + 1})
        source, destination = (apply(tree, between(base, contents), SPLIT) for contents in sides)
        before = watched.patched
        result = merge(tree, source, destination, SPLIT, strategy)
        merges += watched.patched > before
        wanted, conflicts = merged(base, *sides, source_wins=strategy is MergeStrategy.SOURCE_WINS)
        conflicting += bool(conflicts)
        if conflicts and strategy is MergeStrategy.NONE:
            assert result.tree is None
            assert [conflict.key for conflict in result.conflicts] == conflicts
        else:
            assert result.tree is not None
            assert same_tree(result.tree, tree_of(TreeStore(MemoryFiles(), ALONE), wanted))
    assert merges >= 5
    assert conflicting >= 5


def test_a_merge_keeps_the_destinations_address_of_what_both_have(watched: Watched) -> None:
    """Also where blocks are copied: the same object, stored twice, is no change."""
    store = TreeStore(MemoryFiles(), ALONE)
    base = tree_of(store, dict.fromkeys(KEYS, 0))
    source = apply(base, [(KEYS[10], new(1, 1)), (KEYS[600], new(2))], SPLIT)
    destination = apply(base, [(KEYS[10], new(1, 2)), (KEYS[900], new(3))], SPLIT)
    result = merge(base, source, destination, SPLIT).tree
    assert result is not None
    assert watched.patched == 3
    assert [result.get(KEYS[n]) for n in (10, 600, 900)] == [new(1, 2), new(2), new(3)]


def test_a_merge_changes_the_range_of_the_side_that_changed_more(watched: Watched) -> None:
    """What few changes on either side cost does not depend on how many the other side made."""
    store = TreeStore(MemoryFiles(), ALONE)
    base = tree_of(store, dict.fromkeys(KEYS, 0))
    many = dict.fromkeys(KEYS[::3], 1)
    few: dict[bytes, int | None] = {KEYS[1]: 2, KEYS[700]: 2, KEYS[701]: None}
    sides = [apply(base, changes(side), SPLIT) for side in (many, few)]
    copied = {checksum for number in range(len(sides[0])) for checksum in sides[0].open(number).checksums()}
    expected = tree_of(
        TreeStore(MemoryFiles(), ALONE),
        {key: value for key, value in (dict.fromkeys(KEYS, 0) | many | few).items() if value is not None},
    )
    for source, destination in (sides, sides[::-1]):
        before, written = watched.patched, watched.written
        result = merge(base, source, destination, SPLIT).tree
        assert result is not None
        assert same_tree(result, expected)
        assert watched.patched > before
        assert watched.written == written
        checksums = [checksum for number in range(len(result)) for checksum in result.open(number).checksums()]
        assert 0 < sum(checksum not in copied for checksum in checksums) <= len(few)


def test_a_merge_into_few_changes_keeps_their_addresses(watched: Watched) -> None:
    """Also where the source changed more, and its range is the one with copied blocks."""
    store = TreeStore(MemoryFiles(), ALONE)
    base = tree_of(store, dict.fromkeys(KEYS, 0))
    source = apply(base, [(key, new(1, 1)) for key in KEYS[10::100]], SPLIT)
    destination = apply(base, [(KEYS[10], new(1, 2)), (KEYS[900], new(3))], SPLIT)
    result = merge(base, source, destination, SPLIT).tree
    assert result is not None
    assert [result.get(KEYS[n]) for n in (10, 110, 900)] == [new(1, 2), new(1, 1), new(3)]


# -- where the rule may cut otherwise


def candidates(begin: bytes, count: int) -> list[bytes]:
    """Keys behind ``begin`` that the hash would make cuts."""
    found: list[bytes] = []
    number = 0
    while len(found) < count:
        key = begin + b"-%d" % number
        if is_candidate(SPLIT, key):
            found.append(key)
        number += 1
    return found


@pytest.mark.parametrize("place", [0, 300, 1000, 1100, 1200, 1290, 1300])
def test_a_key_that_the_rule_would_cut_at_is_looked_at_closely(place: int) -> None:
    contents = dict.fromkeys(KEYS, 0)
    tree = tree_of(TreeStore(MemoryFiles(), ALONE), contents)
    for key in candidates(KEYS[place], 2):
        check(apply(tree, [(key, new(1))], SPLIT), contents | {key: 1})


def test_keys_before_an_old_candidate_may_make_it_a_cut(seed: int) -> None:
    """Around the smallest size, by every amount: the tree is the one that the rule makes."""
    random = Random(seed)
    first = tree_of(TreeStore(MemoryFiles(), ALONE), dict.fromkeys(KEYS, 0)).info(0).count
    assert first > 1200
    closest = 100_000 // (len(KEYS[0]) + 32)
    cuts = set()
    for back in (1, 2, 3, 5, 20, 100):
        contents = dict.fromkeys(KEYS, 0)
        contents[candidates(KEYS[closest - back - 1], 1)[0]] = 5
        tree = tree_of(TreeStore(MemoryFiles(), ALONE), contents)
        for added in (1, 2, 3, 5, 21, 110):
            after = contents | {key + b"'": 1 for key in random.sample(KEYS[:900], added)}
            changed = apply(tree, between(contents, after), SPLIT)
            check(changed, after)
            cuts.add(changed.lasts[0])
    assert len(cuts) > 3


def test_slack_is_what_may_be_added_before_a_key_becomes_a_cut(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        split = SplitParameters(random.randrange(300, 3000), 10**6, random.choice((1, 2, 5, 30)))
        keys = sorted({b"%d" % random.randrange(10**9) for _ in range(80)})
        sizes = [sum(len(key) + 32 for key in keys[: n + 1]) for n in range(len(keys))]
        stop = next((n for n, key in enumerate(keys) if cuts_after(split, sizes[n], key)), len(keys) - 1)
        keys, sizes = keys[: stop + 1], sizes[: stop + 1]
        room = slack(split, keys)
        assert 0 < room <= max(1, split.min_size // 8) or split.min_size < 8
        assert not any(cuts_after(split, size + room - 1, key) for key, size in zip(keys[:-1], sizes[:-1], strict=True))
        begin = sum(size <= split.min_size - split.min_size // 8 for size in sizes)
        assert slack(split, keys, begin, sizes[begin - 1] if begin else 0) == room


def test_a_range_of_other_parameters_is_looked_at_closely() -> None:
    """Two repositories with the same objects and other parameters share notes."""
    store = TreeStore(MemoryFiles(), ALONE)
    contents = dict.fromkeys(KEYS[:900], 0)
    tree = tree_of(store, contents)
    other = SplitParameters(min_size=60_000, max_size=800_000, raggedness=10**9)
    assert len(tree) == len(build(store, other, tree.records())) == 1
    after = contents | {KEYS[5] + b"+": 1}
    assert same_tree(
        apply(tree, between(contents, after), other),
        build(TreeStore(MemoryFiles(), ALONE), other, ((key, new(after[key])) for key in sorted(after))),
    )


def test_sums_that_a_description_cannot_say_are_added_up_again() -> None:
    huge = CODEC.encode(ObjectEntry("x", "mem://test/huge", 1 << 62, "00", 0))
    store = TreeStore(MemoryFiles(), ALONE)
    records = {key: huge if n < 6 else new(0) for n, key in enumerate(KEYS[:500])}
    tree = build(store, SPLIT, sorted(records.items()))
    for amount in (1, 2, 3, 4, 5):
        for value in (None, new(1)):
            after = {**records, **dict.fromkeys(KEYS[:amount], value)}
            left = sorted((key, packed) for key, packed in after.items() if packed is not None)
            changed = apply(tree, [(key, value) for key in KEYS[:amount]], SPLIT)
            assert same_tree(changed, build(TreeStore(MemoryFiles(), ALONE), SPLIT, left))
            assert same_tree(apply(changed, [(key, huge) for key in KEYS[:amount]], SPLIT), tree)


# -- what is noted and what is stored may not fit together


def other_blocks(data: bytes) -> bytes:
    """The same records, cut into other blocks."""
    keys, values = (
        [item for block in Table(data).blocks() for item in block[0]],
        [item for block in Table(data).blocks() for item in block[1]],
    )
    made = Assembler()
    for at in range(0, len(keys), 77):
        made.add(keys[at : at + 77], values[at : at + 77])
    return made.finish(sum(map(len, keys)), sum(map(len, values)))[0]


def test_a_file_that_another_writer_put_first_has_other_blocks() -> None:
    files, notes = MemoryFiles(), MemoryNotes()
    contents = dict.fromkeys(KEYS, 0)
    tree = tree_of(TreeStore(files, ALONE, notes=notes), contents)
    for place, data in files.files.items():
        files.files[place] = other_blocks(data)
    tree = Tree(TreeStore(files, ALONE, notes=notes), tree.lasts, tree.packed)
    after = contents | {KEYS[700]: 4, KEYS[1100] + b"+": 7}
    del after[KEYS[900]]
    changed = apply(tree, between(contents, after), SPLIT)
    check(changed, after, layouts=False)
    assert changed.open(0).raw(0) == tree.open(0).raw(0)


class Wrong(MemoryNotes):
    """Notes of the right form that say what is not so, under right checksums; of what digests do not tell."""

    def __init__(self, change: Callable[[list[int]], list[int]]) -> None:
        super().__init__()
        self.change = change

    def put(self, name: str, data: bytes) -> None:
        ids, digests, layout, counts, *rest = msgspec.msgpack.decode(data[16:])
        body = msgspec.msgpack.encode([ids, digests, layout, self.change(counts), *rest])
        super().put(name, xxh3_128_digest(body) + body)


@pytest.mark.parametrize(
    "change",
    [
        lambda counts: [counts[0] + 1, *counts[1:-1], counts[-1] - 1],
        lambda counts: counts[::-1],
        lambda counts: counts[:-1],
    ],
    ids=["shifted", "reversed", "one less"],
)
def test_counts_of_blocks_that_are_not_so_are_found_out(change: Callable[[list[int]], list[int]]) -> None:
    """By the record IDs at the places of what changes."""
    contents = dict.fromkeys(KEYS, 0)
    tree = tree_of(TreeStore(MemoryFiles(), ALONE, notes=Wrong(change)), contents)
    after = contents | {KEYS[700]: 4}
    changed = apply(tree, between(contents, after), SPLIT)
    assert same_tree(changed, tree_of(TreeStore(MemoryFiles(), ALONE), after))


def test_a_damaged_block_is_not_copied() -> None:
    files = MemoryFiles()
    tree = tree_of(TreeStore(files, ALONE), dict.fromkeys(KEYS, 0))
    name = tree.info(0).name
    data = bytearray(files.files[RANGES, name])
    data[1000] ^= 4
    files.files[RANGES, name] = bytes(data)
    notes = tree.store.notes.notes
    damaged = Tree(TreeStore(files, ALONE, notes=notes), tree.lasts, tree.packed)
    with pytest.raises(DamagedFileError):
        apply(damaged, [(KEYS[1000], new(1))], SPLIT)


def test_cursors_find_record_ids_in_files_of_copied_blocks() -> None:
    """By the counts that are noted, and by counting."""
    tree = tree_of(TreeStore(MemoryFiles(), ALONE), dict.fromkeys(KEYS, 0))
    changed = apply(tree, [(KEYS[700] + b"+", new(1))], SPLIT)
    plain = Tree(TreeStore(changed.store.files, ALONE, notes=changed.store.notes.notes), changed.lasts, changed.packed)
    for each in (changed, plain):
        note = each.note(0)
        assert note is not None
        for start in (KEYS[600], KEYS[700], KEYS[701], KEYS[1100]):
            cursor = Cursor(each, start)
            cursor.load()
            place = sorted([*KEYS, KEYS[700] + b"+"]).index(start) * 32
            assert cursor.ids(cursor.position + 1) == note.ids[place : place + 32]
