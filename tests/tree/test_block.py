"""Our own blocks and files are RocksDB's: identical to its own where it makes the same, and accepted by it elsewhere."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Options, Rdict

from graveler.tree.assembler import Assembler
from graveler.tree.block import (
    Records,
    compress_block,
    count_entries,
    decompress_block,
    differing_records,
    encode,
    entries,
    verify,
)
from graveler.tree.sstable import Table, layout_of, write_table
from tests.support.campaigns import examples
from tests.support.trees import ALONE
from tests.tree.support import LAW
from tests.tree.test_sstable import WORLDS

DIFFERENT = {
    b"rocksdb.creating.db.identity",
    b"rocksdb.creating.host.identity",
    b"rocksdb.creating.session.identity",
}
"""Properties that say who wrote a file. All others are RocksDB's own."""


def by_rocksdb(records: dict[bytes, bytes]) -> bytes:
    ordered = sorted(records)
    return write_table(ordered, [records[key] for key in ordered], ALONE.scratch)


def by_us(blocks: list[Records]) -> bytes:
    made = Assembler()
    for block in blocks:
        made.add(*block)
    return finished(made, blocks)


def finished(made: Assembler, blocks: list[Records]) -> bytes:
    data, index = made.finish(
        sum(len(key) for keys, _ in blocks for key in keys), sum(len(value) for _, values in blocks for value in values)
    )
    table = Table(data)
    unread = Table(data, index=index)
    assert (unread.bounds, unread.layout, unread.label) == (table.bounds, table.layout, table.label)
    assert (unread.checksums(), unread.measures()) == (table.checksums(), table.measures())
    return data


def properties(table: Table) -> dict[bytes, bytes]:
    names, values = entries(decompress_block(table._data, *table._properties), 0)
    return dict(zip(names, values, strict=True))


def check_blocks(records: dict[bytes, bytes]) -> None:
    data = by_rocksdb(records)
    table = Table(data)
    for number in range(len(table)):
        raw = table.raw(number)
        block = decompress_block(raw, 0, len(raw) - 1)
        assert encode(*table.read(number)) == block
        assert count_entries(block) == len(table.read(number)[0])
        again = compress_block(block)
        verify(again, 0, len(again) - 5)
        assert decompress_block(again, 0, len(again) - 5) == block


@pytest.mark.parametrize("world", WORLDS)
def test_our_blocks_are_those_of_rocksdb_to_the_byte(world: str) -> None:
    check_blocks(dict(sorted(WORLDS[world].items())[:8000]))


@settings(LAW, max_examples=examples(60))
@given(st.dictionaries(st.binary(min_size=1, max_size=9), st.binary(max_size=200), min_size=1), st.integers(1, 60))
def test_any_block_of_ours_is_that_of_rocksdb(records: dict[bytes, bytes], copies: int) -> None:
    check_blocks({key + b"\x01" * (n % 3) + b"%d" % n: value for key, value in records.items() for n in range(copies)})


@pytest.mark.parametrize("world", WORLDS)
def test_a_file_of_the_same_blocks_has_the_same_properties(world: str) -> None:
    table = Table(by_rocksdb(WORLDS[world]))
    mine = Table(by_us([table.read(number) for number in range(len(table))]))
    assert list(mine.blocks()) == list(table.blocks())
    theirs, ours = properties(table), properties(mine)
    assert ours.keys() == theirs.keys() - {b"rocksdb.creating.host.identity"}
    # The index has whole last keys, where RocksDB shortens them; with other sizes of its own.
    differ = {name for name in ours if ours[name] != theirs[name]}
    assert differ <= DIFFERENT | {b"rocksdb.index.size"}
    assert mine.value_bytes == table.value_bytes == sum(map(len, WORLDS[world].values()))


@pytest.mark.parametrize("place", [0, 15, 16, 17, 100, 159, -1])
def test_of_two_blocks_with_the_same_keys_only_records_that_differ_are_found(place: int) -> None:
    keys = [b"key/%04d" % n for n in range(160)]
    values = [b"%d" % n * 9 for n in range(160)]
    for value in (b"another", values[place][::-1] + b"!", b"x" * 200, b"x" * 20_000):
        changed = list(values)
        changed[place] = value
        found = differing_records(encode(keys, values), encode(keys, changed))
        assert found is not None
        assert found.records == ([keys[place]], [values[place]])
        assert found.other_records == ([keys[place]], [value])
        assert found.looked_at == 320


def test_blocks_of_other_stretches_are_not_compared() -> None:
    keys = [b"key/%04d" % n for n in range(160)]
    values = [b"%d" % n * 9 for n in range(160)]
    same = differing_records(encode(keys, values), encode(keys, values))
    assert same is not None
    assert same.records == same.other_records == ([], [])
    assert differing_records(encode(keys, values), encode(keys[1:], values[1:])) is None
    assert differing_records(encode(keys, values), encode(keys[:-16], values[:-16])) is None
    shorter = differing_records(encode(keys, values), encode(keys[:-1], values[:-1]))
    assert shorter is not None
    assert shorter.records == (keys[-1:], values[-1:])
    assert shorter.other_records == ([], [])


@settings(LAW, max_examples=examples(300))
@given(
    st.dictionaries(
        st.sampled_from([b"k", b"k\x01", b"k\x01\x00", *(b"key/%02d" % n for n in range(40)), b"x" * 200]),
        st.tuples(st.sampled_from([b"", b"v", b"w" * 130, b"w" * 17_000]), st.sampled_from([None, 0, 1, 2])),
        min_size=1,
    )
)
def test_what_two_blocks_do_not_show_of_each_other_is_the_same_in_both(
    records: dict[bytes, tuple[bytes, int | None]],
) -> None:
    """Each record stays, is only in one of the two, or changes."""
    one = {key: value for key, (value, fate) in records.items() if fate != 0}
    other = {key: value + b"!" * (fate == 2) for key, (value, fate) in records.items() if fate != 1}
    blocks = [encode(sorted(each), [each[key] for key in sorted(each)]) for each in (one, other) if each]
    found = differing_records(*blocks) if len(blocks) == 2 else None
    if found is None:
        return
    shown = [dict(zip(*records, strict=True)) for records in (found.records, found.other_records)]
    for (keys, _), (mine, all_mine) in zip(
        (found.records, found.other_records), zip(shown, (one, other), strict=True), strict=True
    ):
        assert keys == sorted(mine)
        assert mine.items() <= all_mine.items()
    hidden, other_hidden = one.items() - shown[0].items(), other.items() - shown[1].items()
    assert hidden == other_hidden


def test_the_same_blocks_make_the_same_file_and_others_another_identity() -> None:
    table = Table(by_rocksdb(WORLDS["50,000"]))
    blocks = [table.read(number) for number in range(len(table))]
    assert by_us(blocks) == by_us(blocks)
    changed = [*blocks[:-1], (blocks[-1][0], [bytes(value)[::-1] for value in blocks[-1][1]])]
    name = b"rocksdb.creating.session.identity"
    sessions = {properties(Table(by_us(each)))[name] for each in (blocks, changed, blocks[:-1], blocks[1:])}
    assert len(sessions) == 4


def test_copied_and_encoded_blocks_can_be_mixed_in_any_way(tmp_path: Path, seed: int) -> None:
    """RocksDB takes the files in, verifies their checksums when it reads them, and finds what was written. All of them in one
    database, whose caches tell files apart by their identities."""
    random = Random(seed)
    table = Table(by_rocksdb(WORLDS["50,000"]))
    counts = [len(table.read(number)[0]) for number in range(len(table))]
    wanted: list[tuple[bytes, bytes]] = []
    files = []
    cuts = sorted(random.sample(range(1, len(table)), 7))
    for part, (first, stop) in enumerate(pairwise([0, *cuts, len(table)])):
        made = Assembler()
        blocks: list[Records] = []
        at = first
        while at < stop:
            end = min(at + random.choice((1, 1, 2, 9)), stop)
            mine = [table.read(number) for number in range(at, end)]
            if random.random() < 0.6:
                made.copy(table, at, end, counts[at:end])
            else:
                mine = [(keys, [value + b"!" for value in values]) for keys, values in mine]
                for block in mine:
                    made.add(*block)
            blocks += mine
            at = end
        data = finished(made, blocks)
        wanted += [pair for block in blocks for pair in zip(*block, strict=True)]
        keys = [key for block, _ in blocks for key in block]
        assert (
            layout_of(data, keys)
            == (Table(data).layout, made.counts)
            == (Table(data).layout, [len(b[0]) for b in blocks])
        )
        told, counted = Table(data), Table(data)
        told.set_counts(told.layout, made.counts)
        counted.set_counts(b"another layout", [1] * len(counted))
        assert [told.start(n) for n in range(len(told) + 1)] == [counted.start(n) for n in range(len(told) + 1)]
        files.append(tmp_path / f"{part}.sst")
        files[-1].write_bytes(data)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_paranoid_checks(True)
    database = Rdict(str(tmp_path / "db"), options)
    try:
        database.ingest_external_file([str(file) for file in files])
        for _ in range(2):  # the second time from RocksDB's cache
            assert list(database.items()) == wanted
        for key, value in random.sample(wanted, 500):
            assert database[key] == value
    finally:
        database.close()
