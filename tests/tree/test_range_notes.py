"""Noted record IDs: believed only by their digest, and never needed."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from graveler.model import MergeStrategy, SplitParameters
from graveler.storage.objects.cache import CacheNotes, FileCache
from graveler.tree import apply as applying
from graveler.tree import patch as patching
from graveler.tree import writer as writing
from graveler.tree.apply import apply
from graveler.tree.merge import merge
from graveler.tree.range_name import chunk_digests, suffix
from graveler.tree.range_notes import MemoryNotes, Notes, RangeNote, RangeNotes
from graveler.tree.record import record_ids
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import TreeWriter, build
from tests.support.trees import ALONE, MemoryFiles, changes, packed
from tests.tree.support import CountingNotes, same_tree

SPLIT = SplitParameters(min_size=40_000, max_size=200_000, raggedness=500)
KEYS = [b"key/%06d/%s" % (n, b"x" * (n % 50)) for n in range(6000)]


class Lying(MemoryNotes):
    """Answers with the right number of wrong bytes."""

    def get(self, name: str) -> bytes | None:
        ids = super().get(name)
        return None if ids is None else bytes(len(ids))


class Nothing:
    """Remembers nothing."""

    def get(self, name: str) -> bytes | None:
        return None

    def put(self, name: str, data: bytes) -> None:
        pass


@pytest.fixture(params=["memory", "cache", "lying", "nothing"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Notes:
    kinds: dict[str, Callable[[], Notes]] = {
        "memory": MemoryNotes,
        "cache": lambda: CacheNotes(FileCache(tmp_path, 1 << 20, float("inf"))),
        "lying": Lying,
        "nothing": Nothing,
    }
    return kinds[request.param]()


def test_trees_are_the_same_whatever_is_noted(notes: Notes, seed: int) -> None:
    random = Random(seed)
    store, plain = TreeStore(MemoryFiles(), ALONE, notes=notes), TreeStore(MemoryFiles(), ALONE, notes=Nothing())
    base = dict.fromkeys(KEYS, 1)
    one, other = (base | dict.fromkeys(random.sample(KEYS, 40), value) for value in (2, 3))
    for key in random.sample(KEYS, 20):
        one.pop(key)
        other[key + b"+"] = 4

    def trees(store: TreeStore) -> list[Tree]:
        tree = build(store, SPLIT, ((key, packed(1)) for key in KEYS))
        sides = [apply(tree, changes(_between(base, side)), SPLIT) for side in (one, other)]
        merged = merge(tree, sides[0], sides[1], SPLIT, MergeStrategy.SOURCE_WINS).tree
        assert merged is not None
        copied = TreeWriter(store, SPLIT)
        copied.copy(merged, KEYS[random.randrange(100)][:-1])
        return [*sides, merged]

    for with_notes, without in zip(trees(store), trees(plain), strict=True):
        assert same_tree(with_notes, without)


def _between(before: dict[bytes, int], after: dict[bytes, int]) -> dict[bytes, int | None]:
    return {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


@pytest.mark.parametrize("step", [100, 1500])
def test_a_change_hashes_itself_and_nothing_else(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TreeStore(MemoryFiles(), ALONE)
    tree = build(store, SPLIT, ((key, packed(1)) for key in KEYS))
    hashed: list[bytes] = []

    def watched(keys: list[bytes], values: list[bytes]) -> bytes:
        hashed.extend(keys)
        return record_ids(keys, values)

    for module in (applying, patching, writing):
        monkeypatch.setattr(module, "record_ids", watched)
    apply(tree, changes(dict.fromkeys(KEYS[::step], 2)), SPLIT)
    assert sorted(set(hashed)) == KEYS[::step]


def note_of(ids: bytes, packed: list[bytes]) -> RangeNote:
    return RangeNote(ids, chunk_digests(ids, packed), b"layout", [len(packed)], SPLIT, 7)


def test_a_note_that_does_not_digest_to_the_name_is_none() -> None:
    records = [packed(1)] * len(KEYS)
    ids = record_ids(KEYS, records)
    note = note_of(ids, records)
    range_id, second = sha256(ids).digest(), suffix(note.digests)
    notes = MemoryNotes()
    for name in ((range_id, second), (sha256(b"another").digest(), second), (range_id, b"another".ljust(16))):
        RangeNotes(notes).put(*name, note)
        assert RangeNotes(notes).get(*name) == (note if name == (range_id, second) else None)
    assert RangeNotes(notes).get(sha256(b"unknown").digest(), second) is None


def test_a_damaged_note_is_none(seed: int) -> None:
    """Whichever byte it is: also those that digest to nothing."""
    kept, random = CountingNotes(), Random(seed)
    records = [packed(n) for n in range(50)]
    ids = record_ids(KEYS[:50], records)
    note = note_of(ids, records)
    name = sha256(ids).digest(), suffix(note.digests)
    RangeNotes(kept).put(*name, note)
    notes = RangeNotes(kept)  # of another process
    ((place, data),) = kept.written.items()
    for at in range(len(data)):
        kept.put(place, data[:at] + bytes([data[at] ^ random.randrange(1, 256)]) + data[at + 1 :])
        assert notes.get(*name) is None
    for end in (0, 1, 15, 16, 17, len(data) - 1):
        kept.put(place, data[:end])
        assert notes.get(*name) is None


def test_the_last_notes_that_a_process_made_need_not_be_read() -> None:
    notes = RangeNotes(MemoryNotes(max_bytes=0))
    names = []
    for number in range(10):
        records = [packed(number)] * 50
        note = note_of(record_ids(KEYS[:50], records), records)
        names.append((sha256(note.ids).digest(), suffix(note.digests)))
        notes.put(*names[-1], note)
    assert [notes.get(*name) is not None for name in names] == [False, False] + [True] * 8


def test_memory_holds_what_was_used_last_and_no_more_than_it_may() -> None:
    notes = MemoryNotes(100)
    for n in range(4):
        notes.put(str(n), bytes(30))
        notes.get("0")
    assert [n for n in range(4) if notes.get(str(n)) is not None] == [0, 2, 3]
    notes.put("0", bytes(10))
    notes.put("4", bytes(30))
    assert [n for n in range(5) if notes.get(str(n)) is not None] == [0, 2, 3, 4]
    notes.put("huge", bytes(101))
    assert notes.get("huge") is None


@pytest.mark.parametrize("number", [0, 1, -1])
def test_ids_are_found_from_the_middle_of_a_range_on(number: int, seed: int) -> None:
    store = TreeStore(MemoryFiles(), ALONE)
    tree = build(store, SPLIT, ((key, packed(1)) for key in KEYS))
    number %= len(tree)
    keys = [key for block, _ in tree.range_blocks(number) for key in block]
    for start in Random(seed).sample(keys, 5):
        found = b"".join(ids or b"?" for _, _, ids in tree.parts(number, start))
        rest = keys[keys.index(start) :]
        assert found == record_ids(rest, [packed(1)] * len(rest))
