"""What point lookups remember: the answers are right whatever it is, it is bounded, and it saves decompressions."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from graveler.tree import sstable
from graveler.tree.block import decompress_block
from graveler.tree.lookup_cache import BlockCache, RecordCache
from graveler.tree.sstable import Table, write_table
from tests.support.trees import ALONE

KEYS = [b"table/day=%02d/part-%05d" % (n // 500, n) for n in range(20_000)]
VALUES = [b"%d/" % n * 20 for n in range(20_000)]
WANTED = dict(zip(KEYS, VALUES, strict=True))
DATA = write_table(KEYS, VALUES, ALONE.scratch)


def held(cache: BlockCache) -> int:
    """Bytes that a cache really holds, by its blocks."""
    blocks = {id(block): block for kept in (cache._new, cache._old) for block in kept.values()}
    return sum(len(part) for block in blocks.values() for part in block.stretches if part is not None)


@pytest.mark.parametrize("max_bytes", [0, 100_000, 1_000_000, 100_000_000])
def test_answers_are_right_and_memory_is_bounded_whatever_is_kept(max_bytes: int, seed: int) -> None:
    random, cache = Random(seed), BlockCache(max_bytes)
    table = Table(DATA, cache)
    for _ in range(3000):
        key = random.choice(KEYS)
        for probe in (key, key[:-1], key + b"\0"):
            assert table.get(probe) == WANTED.get(probe)
        some = sorted(random.sample(KEYS[: random.choice((200, 20_000))], random.choice((1, 3, 11, 30))))
        if random.random() < 0.05:
            assert table.get_many([*some, b"zzz"]) == [*(WANTED[key] for key in some), None]
        assert held(cache) <= max_bytes + 40_000  # and the block that is looked into


@pytest.mark.parametrize("max_bytes", [0, 100_000, 100_000_000])
def test_records_are_kept_within_a_bound_and_those_used_last_stay(max_bytes: int, seed: int) -> None:
    random, cache = Random(seed), RecordCache(max_bytes)
    for key in random.choices(KEYS, k=5_000):
        cache.put((b"range", key), WANTED[key])
        assert cache.get((b"range", key)) == WANTED[key]
        assert cache.get((b"other range", key)) is None
        kept = {**cache._old, **cache._new}
        assert sum(len(place[1]) + len(record) for place, record in kept.items()) <= max_bytes + 1_000
        if max_bytes:
            cache.put((b"range", KEYS[0]), WANTED[KEYS[0]])
    assert bool(cache.get((b"range", KEYS[0]))) == bool(max_bytes)


def decompressed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    offsets: list[int] = []

    def counted(data: bytes, offset: int, size: int) -> bytes:
        offsets.append(offset)
        return decompress_block(data, offset, size)

    monkeypatch.setattr(sstable, "decompress_block", counted)
    return offsets


def test_keys_far_apart_take_a_fraction_of_their_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = BlockCache(100_000_000)
    table = Table(DATA, cache)
    blocks = len(table)
    offsets = decompressed(monkeypatch)
    for _ in range(3):
        assert all(table.get(key) == WANTED[key] for key in KEYS[::200])
    assert len(offsets) <= blocks + 10
    assert held(cache) < blocks * 16_384 / 3


def test_a_block_that_is_asked_for_much_is_decompressed_three_times_at_most(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    table = Table(DATA, BlockCache(100_000_000))
    keys = list(KEYS)
    Random(seed).shuffle(keys)
    offsets = decompressed(monkeypatch)
    for key in keys:
        table.get(key)
    assert max(offsets.count(offset) for offset in set(offsets)) <= 3
    assert len(offsets) <= 3 * len(table)


def test_keys_in_order_decompress_each_block_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(DATA, BlockCache(100_000_000))
    offsets = decompressed(monkeypatch)
    assert table.get_many(KEYS[::20]) == VALUES[::20]
    assert len(offsets) == len(table)
    assert table.get_many(KEYS) == VALUES
    assert len(offsets) == 2 * len(table)  # read as a whole: nothing kept serves


def test_threads_may_share_what_is_kept(seed: int) -> None:
    table = Table(DATA, BlockCache(300_000))

    def read(number: int) -> bool:
        keys = Random(seed + number).sample(KEYS, 2000)
        return all(table.get(key) == WANTED[key] for key in keys)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(8)))
