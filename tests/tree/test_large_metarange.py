"""Large metaranges cost what changes: names, files and lookups are those of metaranges that were made as a whole, and unchanged
parts are neither packed, nor hashed, nor read again."""

from bisect import bisect_left
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import DamagedFileError
from graveler.model import MetarangeName, SplitParameters
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.tree.block import END_SIZE, checksum, compress_block, encode
from graveler.tree.common_run import equal_contents, shared_runs
from graveler.tree.metarange_file import LARGE, spliced_record_ids
from graveler.tree.metarange_lookup import END_BYTES, MetarangeLookup
from graveler.tree.range_info import RangeInfo
from graveler.tree.range_notes import ID_BYTES
from graveler.tree.record import record_ids
from graveler.tree.sstable import MalformedTableError, Table, write_table
from graveler.tree.store import METARANGES, RANGES, TreeStore
from graveler.tree.tail import FOOTER_SIZE, Label, footer, packed_handle
from graveler.tree.tree import Tree, Trees
from graveler.tree.writer import build
from tests.support.campaigns import examples
from tests.support.trees import ALONE, MemoryFiles, StoredNotes, new_store, packed
from tests.tree.support import LAW, MemoryParts, described

SIZE = LARGE + 500
LASTS, DESCRIPTIONS = described(SIZE)
FOR_SCATTERED = 12_000
"""So many ranges make a file that is not read whole."""


def edited(
    lasts: list[bytes], descriptions: list[bytes], edits: list[tuple[int, str]]
) -> tuple[list[bytes], list[bytes]]:
    """The descriptions after edits at some places: replaced, removed, another one put before, or the same with another name."""
    table = dict(zip(lasts, descriptions, strict=True))
    for number, (place, kind) in enumerate(edits):
        last = lasts[place % len(lasts)]
        description = table.get(last)
        if kind == "remove":
            table.pop(last, None)
        elif kind == "insert":
            (_,), (other,) = described(1, seed=number + 1)
            table[b"%s%08d/part-9" % (last[:17], int(last[17:25]) + 1)] = other
        elif kind == "rename" and description is not None:
            info = RangeInfo.unpack(last, description)
            table[last] = RangeInfo(
                last, info.id, info.first, info.count, info.size, info.total, b"%016d" % number
            ).pack()
        elif description is not None:
            (_,), (table[last],) = described(1, seed=number + 1)
    return sorted(table), [table[last] for last in sorted(table)]


edit = st.tuples(st.integers(0, SIZE - 1), st.sampled_from(["replace", "remove", "insert", "rename"]))
near_each_other = st.tuples(st.integers(0, SIZE - 1), st.lists(st.integers(0, 90), max_size=40)).flatmap(
    lambda chosen: st.tuples(
        *[st.tuples(st.just(chosen[0] + step), st.sampled_from(["replace", "remove", "insert"])) for step in chosen[1]]
    ).map(list)
)
some_edits = st.lists(edit, max_size=12) | near_each_other


@settings(LAW, max_examples=examples(60))
@given(st.lists(some_edits, min_size=1, max_size=4))
def test_a_metarange_made_of_another_one_is_the_one_made_as_a_whole(history: list[list[tuple[int, str]]]) -> None:
    files = MemoryFiles()
    store = new_store(files)
    tree = Tree(store, LASTS, DESCRIPTIONS)
    relative = Tree.load(store, tree.save())
    for edits in history:
        tree = Tree(store, *edited(tree.lasts, tree.packed, edits), made_of=(tree,))
        name = tree.save()
        assert name == Tree(store, tree.lasts, tree.packed).name()
        table = Table(files.files[METARANGES, name])
        records = [record for block in table.blocks() for record in zip(*block, strict=True)]
        assert records == list(zip(tree.lasts, tree.packed, strict=True))
        assert [table.get(last) for last in tree.lasts[::37]] == tree.packed[::37]
        assert table.measures() == (len(tree), sum(map(len, tree.lasts)))
        for number in range(1, len(table)):
            assert table.bounds[number - 1] < table.read(number)[0][0], (
                "a block's bound is below the next one's first key"
            )
        alone, relative = Tree.load(store, name), Tree.load(store, name, relative)
        assert (relative.lasts, relative.packed) == (alone.lasts, alone.packed) == (tree.lasts, tree.packed)
        assert relative.stored_blocks == alone.stored_blocks == tree.stored_blocks
        assert not tree.made_of, "what a tree was made of may be forgotten once it is saved"


def test_trees_that_are_read_apart_hold_the_same_objects() -> None:
    files = MemoryFiles()
    before = Tree(new_store(files), LASTS, DESCRIPTIONS)
    before.save()
    after = Tree(before.store, *edited(LASTS, DESCRIPTIONS, [(700, "replace")]), made_of=(before,))
    after.save()
    trees = Trees(new_store(files))
    first, second = trees.load(before.name()), trees.load(after.name())
    shared = sum(x is y for x, y in zip(first.packed, second.packed, strict=True))
    assert first.stored_blocks is not None
    assert SIZE > shared >= SIZE - max(b - a for a, b in pairwise(first.stored_blocks.starts))


def test_trees_that_share_their_descriptions_are_kept_together_and_others_are_not() -> None:
    files = MemoryFiles()
    tree = Tree(new_store(files), LASTS, DESCRIPTIONS)
    names = [tree.save()]
    for number in range(4):
        tree = Tree(tree.store, *edited(tree.lasts, tree.packed, [(700 + number, "replace")]), made_of=(tree,))
        names.append(tree.save())
    unrelated_names = [Tree(tree.store, *described(SIZE, seed=seed)).save() for seed in (7, 8)]
    trees = Trees(new_store(files), max_ranges=2 * SIZE)
    for chosen, kept in ((names, len(names)), (unrelated_names, 1)):
        for name in chosen:
            trees.load(name)
        files.requests.clear()
        for name in reversed(chosen):
            trees.load(name)
        assert len(chosen) - files.requests["get metaranges"] == kept


def test_a_range_that_comes_between_two_blocks_is_found() -> None:
    """The index of the old file may have a key for the first block that is behind the new range."""
    files = MemoryFiles()
    store = new_store(files)
    before = Tree(store, LASTS, DESCRIPTIONS)
    blocks = Table(files.files[METARANGES, before.save()])
    for number in range(len(blocks) - 1):
        place = LASTS.index(blocks.read(number)[0][-1])
        tree = Tree(store, *edited(LASTS, DESCRIPTIONS, [(place, "insert")]), made_of=(before,))
        table = Table(files.files[METARANGES, tree.save()])
        assert table.get(tree.lasts[place + 1]) == tree.packed[place + 1]


def test_of_a_metarange_that_was_saved_one_change_packs_a_block_and_hashes_a_description() -> None:
    store = new_store(MemoryFiles())
    before = Tree(store, LASTS, DESCRIPTIONS)
    before.save()
    tree = Tree(store, *edited(LASTS, DESCRIPTIONS, [(700, "replace")]), made_of=(before,))
    marks = b"".join(b"%032d" % number for number in range(SIZE))
    spliced = spliced_record_ids(tree, [(before, marks)], shared_runs(tree, before))
    computed = [n for n in range(SIZE) if spliced[n * ID_BYTES : (n + 1) * ID_BYTES] != b"%032d" % n]
    assert computed == [700]
    tree.save()
    assert before.stored_blocks is not None
    assert tree.stored_blocks is not None
    stored = {id(block) for block in before.stored_blocks.stored}
    assert sum(id(block) not in stored for block in tree.stored_blocks.stored) == 1
    assert len(tree.stored_blocks.stored) == len(before.stored_blocks.stored) > 10


def test_a_tree_that_was_made_of_unsaved_ones_holds_the_saved_one_and_copies_its_blocks() -> None:
    store = new_store(MemoryFiles())
    first = Tree(store, LASTS, DESCRIPTIONS)
    first.save()
    other = Tree(store, LASTS[:5], DESCRIPTIONS[:5])
    other.save()
    tree = first
    for place in (100, 700, 1200):
        tree = Tree(store, *edited(tree.lasts, tree.packed, [(place, "replace")]), made_of=(tree, first, other))
        assert tree.made_of == (first, other)
    tree.save()
    assert first.stored_blocks is not None
    assert tree.stored_blocks is not None
    assert len({*map(id, tree.stored_blocks.stored)} - {*map(id, first.stored_blocks.stored)}) == 3


def test_commits_that_append_one_range_each_do_not_leave_a_block_each() -> None:
    store = new_store(MemoryFiles())
    tree = Tree(store, LASTS, DESCRIPTIONS)
    tree.save()
    assert tree.stored_blocks is not None
    before = len(tree.stored_blocks.stored)
    for number in range(300):
        (last,), (description,) = described(1, seed=number, first=SIZE + number)
        tree = Tree(store, [*tree.lasts, last], [*tree.packed, description], made_of=(tree,))
        tree.save()
    assert tree.stored_blocks is not None
    assert len(tree.stored_blocks.stored) <= before * (SIZE + 300) / SIZE * 1.5


def test_small_metaranges_are_written_as_ever_and_make_no_note() -> None:
    notes = StoredNotes()
    store = TreeStore(MemoryFiles(), ALONE, notes=notes)
    for size in (1, 50, LARGE - 1):
        before = Tree(store, LASTS[:size], DESCRIPTIONS[:size])
        before.save()
        after = Tree(store, *edited(LASTS[:size], DESCRIPTIONS[:size], [(0, "replace")]), made_of=(before,))
        after.save()
        assert before.stored_blocks is None
        assert after.stored_blocks is None
    assert not notes.notes


@settings(LAW, max_examples=examples(60))
@given(st.data())
def test_a_damaged_missing_or_foreign_note_changes_no_name(data: st.DataObject) -> None:
    files, notes = MemoryFiles(), StoredNotes()
    name = Tree(TreeStore(files, ALONE, notes=notes), LASTS, DESCRIPTIONS).save()
    (noted,) = notes.notes
    note = bytearray(notes.notes[noted])
    assert bytes(note) == record_ids(LASTS, DESCRIPTIONS)
    damage = data.draw(st.sampled_from(["none", "flipped", "cut", "missing", "foreign"]))
    if damage == "flipped":
        place = data.draw(st.integers(0, len(note) - 1))
        note[place] ^= 1 << data.draw(st.integers(0, 7))
    elif damage == "cut":
        del note[data.draw(st.integers(0, len(note) - 1)) :]
    notes.notes[noted] = record_ids(LASTS[::-1], DESCRIPTIONS[::-1]) if damage == "foreign" else bytes(note)
    if damage == "missing":
        notes.notes.clear()
    before = Tree.load(TreeStore(files, ALONE, notes=notes), name)
    after = Tree(before.store, *edited(LASTS, DESCRIPTIONS, [(3, "replace"), (900, "remove")]), made_of=(before,))
    assert after.name() == Tree(new_store(), after.lasts, after.packed).name()
    assert before.id() == Tree(new_store(), LASTS, DESCRIPTIONS).id()
    assert before.record_ids() == record_ids(LASTS, DESCRIPTIONS)


def lookups(ranges: int) -> tuple[MemoryFiles, MetarangeName, dict[bytes, bytes]]:
    """A metarange of so many ranges of one record each, of which every 97th is there; and these records."""
    files = MemoryFiles()
    store = new_store(files)
    lasts, descriptions = described(ranges)
    contents = {}
    for number in range(0, ranges, 97):
        record = packed(str(number))
        single = Tree(store, *one_range(store, lasts[number], record))
        lasts[number], descriptions[number] = single.lasts[0], single.packed[0]
        contents[lasts[number]] = record
    return files, Tree(store, lasts, descriptions).save(), contents


def one_range(store: TreeStore, key: bytes, record: bytes) -> tuple[list[bytes], list[bytes]]:
    tree = build(store, SplitParameters(min_size=1, max_size=1, raggedness=1), [(key, record)])
    return tree.lasts, tree.packed


def test_a_cold_lookup_reads_the_end_of_a_large_metarange_and_one_block() -> None:
    files, name, contents = lookups(FOR_SCATTERED)
    whole = len(files.files[METARANGES, name])
    assert whole > 5 * END_BYTES
    for key, record in list(contents.items())[::20]:
        reads: list[tuple[str, int]] = []
        trees = Trees(TreeStore(files, ALONE, parts=MemoryParts(files, reads)))
        files.requests.clear()
        assert trees.get(name, key) == record
        assert trees.get(name, key + b"x") is None
        assert files.requests == {"get ranges": 1}
        assert [file for file, _ in reads] == [name, name]
        assert reads[0][1] == END_BYTES
        assert reads[1][1] < 16_384


def test_a_metarange_that_is_short_or_was_loaded_is_read_once_and_one_that_is_looked_into_often_is_loaded() -> None:
    files, name, contents = lookups(LARGE // 4)
    reads: list[tuple[str, int]] = []
    trees = Trees(TreeStore(files, ALONE, parts=MemoryParts(files, reads)))
    files.requests.clear()
    for key, record in contents.items():
        assert trees.get(name, key) == record
    trees.load(name)
    assert [file for file, _ in reads] == [name]
    assert not files.requests["get metaranges"]

    files, name, contents = lookups(FOR_SCATTERED)
    trees = Trees(TreeStore(files, ALONE, parts=MemoryParts(files, reads)))
    files.requests.clear()
    for key, record in contents.items():
        assert trees.get(name, key) == record
    assert files.requests["get metaranges"] == 1


def test_lookups_are_those_of_the_whole_tree() -> None:
    files, name, contents = lookups(FOR_SCATTERED)
    whole = Tree.load(new_store(files), name)
    random = Random(5)
    keys = [*contents, b"", b"a", b"zzz", *(random.choice(whole.lasts)[:-1] + b"/" for _ in range(50))]
    for few in (keys[start : start + 8] for start in range(0, len(keys), 8)):
        trees = Trees(TreeStore(files, ALONE, parts=MemoryParts(files, [])))
        for key in few:
            number = bisect_left(whole.lasts, key)
            there = number < len(whole) and whole.info(number).first <= key
            if not there or (RANGES, whole.info(number).name) in files.files:
                assert trees.get(name, key) == whole.get(key)


@pytest.mark.parametrize("damage", ["end", "block", "other block", "other file", "missing"])
def test_what_is_damaged_is_told_by_a_lookup_as_by_whoever_reads_all(damage: str) -> None:
    files, name, contents = lookups(FOR_SCATTERED)
    whole = bytearray(files.files[METARANGES, name])
    table = Table(bytes(whole))
    by_length: dict[int, bytes] = {}
    for number in range(len(table)):
        block = bytes(table.stored(number, number + 1)[0])
        if (same_length := by_length.setdefault(len(block), block)) != block:
            key = next(key for key in contents if bisect_left(table.bounds, key) == number)
            begin = bytes(whole).index(block)
            break
    if damage == "end":
        whole[-60] ^= 1
    elif damage == "block":
        whole[begin + 9] ^= 1
    elif damage == "other block":
        whole[begin : begin + len(block)] = same_length
    files.files[METARANGES, name] = bytes(whole)
    if damage == "other file":
        lasts, descriptions = described(FOR_SCATTERED, seed=9)
        files.files[METARANGES, name] = files.files[METARANGES, Tree(new_store(files), lasts, descriptions).save()]
    if damage == "missing":
        del files.files[METARANGES, name]
    trees = Trees(TreeStore(files, ALONE, parts=MemoryParts(files, [])))
    with pytest.raises(DamagedFileError, match=name[:16]):
        trees.get(name, key)


@pytest.mark.parametrize("place", ["metaindex", "index"])
def test_an_end_that_points_far_beyond_the_file_is_damage(place: str, tmp_path: Path) -> None:
    """The footer has no checksum, and a folder cannot seek to where it may point."""
    files, name, contents = lookups(FOR_SCATTERED)
    whole = files.files[METARANGES, name]
    metaindex, index = footer(whole)
    far = packed_handle((1 << 68, 1 << 20))
    head = whole[-FOOTER_SIZE:][:1]
    head += far + packed_handle(index) if place == "metaindex" else packed_handle(metaindex) + far
    objects = FolderObjects(tmp_path)
    objects.put(
        f"_graveler/metaranges/{name}", whole[:-FOOTER_SIZE] + head.ljust(FOOTER_SIZE - 12, b"\0") + whole[-12:]
    )
    stored = ImmutableFiles(objects, None)
    with pytest.raises(DamagedFileError, match=name[:16]):
        Trees(TreeStore(stored, ALONE, parts=stored)).get(name, next(iter(contents)))


def test_a_file_that_is_replaced_by_one_with_other_blocks_hides_no_range() -> None:
    """What is at a block's place may be a whole block of the same size that begins with a later range, or ends with an earlier
    one: zstd ignores what comes behind its data."""
    files, name, _ = lookups(FOR_SCATTERED)
    whole = files.files[METARANGES, name]
    table = Table(whole)
    tree = Tree.load(new_store(files), name)
    for number in (1, len(table) // 2, len(table) - 1):
        stored, _ = table.stored(number, number + 1)
        lasts, descriptions = table.read(number)
        for start, stop in ((1, len(lasts)), (0, len(lasts) - 1), (5, len(lasts) - 5)):
            shorter = compress_block(encode(lasts[start:stop], descriptions[start:stop]))
            body = shorter[:-END_SIZE].ljust(len(stored) - END_SIZE, b"\0")
            other = body + pack("<BI", shorter[-END_SIZE], checksum(body, shorter[-END_SIZE]))
            assert len(other) == len(stored)
            lookup = MetarangeLookup(name, whole[-END_BYTES:], Replaced(whole, whole.replace(stored, other)).part)
            for last in lasts:
                i = bisect_left(tree.lasts, last)
                for key in (tree.info(i).first, last):
                    with suppress(MalformedTableError):
                        assert lookup.description(key) == (last, tree.packed[i])


class Replaced:
    """Parts of a file that was replaced after its end was read."""

    def __init__(self, before: bytes, after: bytes) -> None:
        assert before != after
        self._data = after

    def part(self, start: int, length: int) -> bytes:
        return self._data[start : start + length]


def test_a_key_between_two_blocks_is_looked_up_in_the_whole() -> None:
    files, name, _ = lookups(FOR_SCATTERED)
    table = Table(files.files[METARANGES, name])
    for number in range(len(table)):
        files.requests.clear()
        trees = Trees(TreeStore(files, ALONE, parts=MemoryParts(files, [])))
        assert trees.get(name, table.read(number)[0][0][:-6] + b"a") is None
        assert files.requests["get metaranges"] == (1 if number else 0)


def test_copies_of_large_metaranges_that_were_at_hand_take_a_bounded_part_of_memory() -> None:
    """A cache of files returns the whole of one whose end is wanted."""

    class WholeFiles(MemoryParts):
        def get_end(self, kind: str, name: str, length: int) -> bytes:
            return super().get_end(kind, name, 1 << 40)

    files = MemoryFiles()
    store = new_store(files)
    names = [Tree(store, *described(SIZE, seed=seed)).save() for seed in range(8)]
    sizes = [len(files.files[METARANGES, name]) for name in names]
    assert min(sizes) > END_BYTES
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graveler.tree.tree._LOOKUP_BYTES", sum(sizes) // 2)
        reads: list[tuple[str, int]] = []
        trees = Trees(TreeStore(files, ALONE, parts=WholeFiles(files, reads)))
        for name in (*names, *names[-3:], names[0]):
            assert trees.get(name, b"") is None
    assert [name for name, _ in reads] == [*names, names[0]]


def test_a_tree_that_is_looked_into_stays_and_others_are_forgotten() -> None:
    files = MemoryFiles()
    store = new_store(files)
    names = [Tree(store, *described(10, seed=seed)).save() for seed in range(4)]
    trees = Trees(new_store(files), max_ranges=20)
    files.requests.clear()
    for name in names[1:]:
        trees.load(names[0]) if name == names[1] else trees.get(names[0], b"")
        trees.load(name)
    assert files.requests["get metaranges"] == len(names)


def test_a_metarange_without_a_label_is_read_as_a_whole() -> None:
    files, name, contents = lookups(FOR_SCATTERED)
    tree = Tree.load(new_store(files), name)
    files.files[METARANGES, name] = write_table(tree.lasts, tree.packed, ALONE.scratch)
    key, record = next(iter(contents.items()))
    files.requests.clear()
    trees = Trees(TreeStore(files, ALONE, parts=MemoryParts(files, [])))
    assert trees.get(name, key) == record
    assert files.requests["get metaranges"] == 1
    assert Label.of(METARANGES, name) != Table(files.files[METARANGES, name]).label


@settings(LAW, max_examples=examples(100))
@given(some_edits)
def test_equal_stretches_are_those_of_a_comparison_one_by_one(edits: list[tuple[int, str]]) -> None:
    store = new_store()
    old = Tree(store, LASTS, DESCRIPTIONS)
    new = Tree(store, *edited(LASTS, DESCRIPTIONS, edits))
    before = dict(zip(LASTS, DESCRIPTIONS, strict=True))
    same = [before.get(last) == description for last, description in zip(new.lasts, new.packed, strict=True)]
    covered = [False] * len(new)
    for i, j, run in shared_runs(new, old):
        assert new.lasts[i : i + run] == old.lasts[j : j + run]
        assert new.packed[i : i + run] == old.packed[j : j + run]
        covered[i : i + run] = [True] * run
    assert covered == same
    for i in (0, 500, len(new) - 1):
        j = bisect_left(old.lasts, new.lasts[i])
        equal = 0
        while i + equal < len(new) and j + equal < len(old) and new.range_id(i + equal) == old.range_id(j + equal):
            equal += 1
        assert equal_contents(new, i, old, j) == equal
        assert equal_contents(new, i, old, j, 7) == min(equal, 7)
