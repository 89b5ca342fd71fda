"""References for tests of the tree: the rules of the format in their plainest form, and stores that record requests."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import pairwise
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from graveler.errors import NotFoundError
from graveler.model import SplitParameters
from graveler.tree.assembler import table_file
from graveler.tree.range_info import RangeInfo
from graveler.tree.range_notes import MemoryNotes
from graveler.tree.runtime import Scratch
from graveler.tree.store import TreeStore
from graveler.tree.tail import Label
from graveler.tree.tree import Tree
from tests.support.trees import ALONE, MemoryFiles, packed

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
"""For every Hypothesis test here: how long an example takes is no law."""

BY_SIZE = SplitParameters(min_size=70, max_size=70, raggedness=1)
"""Cuts by size alone, after two short keys or one long one: a shifted cut never falls into step by chance."""

EVERY = SplitParameters(min_size=1, max_size=10**6, raggedness=1)
"""Every record is a range."""

RAGGED = SplitParameters(min_size=1, max_size=10**6, raggedness=2)
"""Cuts by hash alone."""

Contents = dict[bytes, int]


class CountingNotes(MemoryNotes):
    """Tells what was noted last under each name, and how often something was."""

    def __init__(self) -> None:
        super().__init__()
        self.puts = 0
        self.written: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        self.puts += 1
        self.written[name] = data
        super().put(name, data)


class MemoryParts:
    """Reads parts of files in memory; ``reads`` notes the name and the length of each."""

    def __init__(self, files: MemoryFiles, reads: list[tuple[str, int]]) -> None:
        self.files = files
        self.reads = reads

    def get_part(self, kind: str, name: str, start: int, length: int) -> bytes:
        part = self._file(kind, name)[start : start + length]
        self.reads.append((name, len(part)))
        return part

    def get_end(self, kind: str, name: str, length: int) -> bytes:
        end = self._file(kind, name)[-length:]
        self.reads.append((name, len(end)))
        return end

    def _file(self, kind: str, name: str) -> bytes:
        if (kind, name) not in self.files.files:
            raise NotFoundError(name)
        return self.files.files[kind, name]


def described(ranges: int, seed: int = 0, first: int = 0) -> tuple[list[bytes], list[bytes]]:
    """Last keys and packed descriptions of so many ranges that nobody wrote: a large metarange without its records. The first
    range is number ``first``; every range ends by the rule. Between their keys are others that an index may shorten theirs to."""
    random = Random(seed)
    lasts, descriptions = [], []
    for number in range(first, first + ranges):
        info = RangeInfo(
            last=b"warehouse/events/%08d/part-9" % (30 * number),
            id=random.randbytes(32),
            first=b"warehouse/events/%08d/part-0" % (30 * number),
            count=10,
            size=SplitParameters().max_size,
            total=1000,
            suffix=random.randbytes(16),
        )
        lasts.append(info.last)
        descriptions.append(info.pack())
    return lasts, descriptions


def keys(letters: str) -> list[bytes]:
    """``keys("abc")`` is ``[b"a", b"b", b"c"]``."""
    return [letter.encode() for letter in letters]


UNIVERSE = sorted(
    [b"k%02d" % n for n in range(36)]
    + [b"long/%02d/" % n + b"x" * 70 for n in range(8)]
    + [b"\x00", b"a", b"a/", b"a//", b"a/b", "é".encode(), "日本".encode(), b"z" * 1024]
)
"""Keys of many lengths, for small trees with many cuts."""

some_contents = st.dictionaries(st.sampled_from(UNIVERSE), st.integers(0, 3), max_size=len(UNIVERSE))
"""Few distinct values: many records are equal but for their key."""

some_split = st.sampled_from(
    [
        SplitParameters(min_size=100, max_size=800, raggedness=3),
        SplitParameters(min_size=60, max_size=200, raggedness=2),
        BY_SIZE,
        RAGGED,
        EVERY,
    ]
)


def random_contents(random: Random, universe: Sequence[bytes] = UNIVERSE, values: int = 3) -> Contents:
    """Some of a universe's keys, few to all of them."""
    share = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    return {key: random.randrange(values) for key in universe if random.random() < share}


def cut_by_the_rule(keys: Iterable[bytes], split: SplitParameters) -> list[list[bytes]]:
    """The format's rule, word by word."""
    ranges: list[list[bytes]] = [[]]
    for key in keys:
        ranges[-1].append(key)
        size = sum(len(k) + 32 for k in ranges[-1])
        if size >= split.max_size or (size >= split.min_size and xxh64_intdigest(key, 42) % split.raggedness == 0):
            ranges.append([])
    return ranges if ranges[-1] else ranges[:-1]


def identity_of(packed: bytes) -> bytes:
    length = int.from_bytes(packed[:2], "big")
    assert len(packed) >= 2 + length
    return packed[2 : 2 + length]


def id_by_the_formula(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """``H(concatenation of H(H(key) ‖ H(identity)))`` over (key, identity) pairs."""
    ids = [sha256(sha256(key).digest() + sha256(identity).digest()).digest() for key, identity in pairs]
    return sha256(b"".join(ids)).digest()


def suffix_by_the_formula(values: Iterable[bytes]) -> str:
    """Of a metarange's name; and of a range's in format 1 before there were chunks."""
    return sha256(b"".join(values)).hexdigest()[:32]


def suffix_by_chunks(records: Iterable[tuple[bytes, bytes]]) -> str:
    """Of a range's name, over (key, packed) pairs: a chunk ends after a record ID that begins with a byte below 8."""
    chunks = [b""]
    for key, value in records:
        chunks[-1] += value
        if sha256(sha256(key).digest() + sha256(identity_of(value)).digest()).digest()[0] < 8:
            chunks.append(b"")
    if not chunks[-1]:
        chunks.pop()
    return sha256(b"".join(sha256(chunk).digest() for chunk in chunks)).hexdigest()[:32]


def changes_between(before: Mapping[bytes, int], after: Mapping[bytes, int]) -> list[tuple[bytes, bytes | None]]:
    """What :func:`graveler.tree.apply.apply` needs to get from one to the other."""
    return [
        (key, packed(after[key]) if key in after else None)
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


class WatchedFiles(MemoryFiles):
    """Remembers the names of what was read and written, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.written: list[str] = []

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        self.read.append(name)
        return super().get(kind, name, fresh=fresh)

    def put(self, kind: str, name: str, data: bytes) -> None:
        self.written.append(name)
        super().put(kind, name, data)

    def forget(self) -> None:
        """Begin to count anew."""
        self.read.clear()
        self.written.clear()
        self.requests.clear()


def watched() -> tuple[WatchedFiles, TreeStore]:
    files = WatchedFiles()
    return files, TreeStore(files, ALONE)


def cold(tree: Tree, files: WatchedFiles) -> Tree:
    """The same tree as a process sees it that has no file open yet; begins to count anew."""
    files.forget()
    return Tree(TreeStore(files, ALONE), tree.lasts, tree.packed)


def with_store(tree: Tree, store: TreeStore) -> Tree:
    return Tree(store, tree.lasts, tree.packed)


def names(tree: Tree) -> list[str]:
    """File names of the ranges."""
    return [tree.info(number).name for number in range(len(tree))]


def ranges_of(tree: Tree) -> list[list[bytes]]:
    """The keys of each range."""
    return [[key for block, _ in tree.range_blocks(number) for key in block] for number in range(len(tree))]


def same_tree(one: Tree, other: Tree) -> bool:
    """Not only the same contents: the very same files."""
    return one.name() == other.name() and one.lasts == other.lasts and one.packed == other.packed


@contextmanager
def tables_written_once() -> Iterator[None]:
    """Small worlds meet the same few ranges over and over: let RocksDB write each of them once. The code is the real one."""
    written: dict[tuple[tuple[bytes, ...], tuple[bytes, ...]], bytes] = {}

    def write(keys: Sequence[bytes], packed: Sequence[bytes], label: Label, scratch: Scratch) -> bytes:
        contents = (tuple(keys), tuple(packed))
        if contents not in written:
            written[contents] = table_file(keys, packed, label, scratch)
        return written[contents]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graveler.tree.writer.table_file", write)
        yield


def cut_points(random: Random, length: int, parts: int) -> list[int]:
    """Where to cut a list of ``length`` into ``parts`` slices, empty ones included."""
    return [0, *sorted(random.randint(0, length) for _ in range(parts - 1)), length]


def slices(items: Sequence[bytes], cuts: Sequence[int]) -> list[Sequence[bytes]]:
    return [items[a:b] for a, b in pairwise(cuts)]


Way = Callable[[TreeStore, Contents, SplitParameters, Random], Tree]
"""One way of getting to a tree."""
