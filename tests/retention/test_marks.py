"""The collector's notes about metaranges: the ranges of any of them are what full lists say, however the notes came to be."""

import tracemalloc
from array import array
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import CorruptError, DamagedFileError
from graveler.model import CommitID, MetarangeName
from graveler.retention.mark_state import STATE, MarkState, save_state
from graveler.retention.marks import Marks
from graveler.retention.metarange_reader import MetarangeReader, changed_ranges
from graveler.retention.packed_numbers import file_name, raw_name
from graveler.retention.range_numbers import RangeNumbers
from graveler.retention.range_table import RangeTable
from graveler.retention.rules import KnownCommit
from graveler.retention.succession import Succession
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Objects
from graveler.tree.metarange_file import LARGE
from tests.retention.made_trees import MadeTrees
from tests.support.instruments import CountingObjects

LONG = 600
"""Keys of this size make a block of a dozen descriptions."""
DIGEST = 32


def never_merged(_objects: Objects, _files: Sequence[str], _alive: bytes) -> list[str]:
    raise AssertionError("there are no rows")


def tell_nobody(_done: int, _total: int) -> None:
    """Nothing."""


class History:
    """Commits on branches, with made metaranges, and full lists of their ranges."""

    def __init__(self) -> None:
        self.objects = CountingObjects(MemoryObjects("mem://made"))
        self.trees = MadeTrees(self.objects, LONG)
        self.commits: dict[CommitID, KnownCommit] = {}
        self.ranges: dict[CommitID, dict[int, int]] = {}
        self.lists: dict[str, frozenset[str]] = {}
        self.heads: dict[str, CommitID] = {}
        self.strays: set[str] = set()
        self.read: set[str] = set()
        """Metaranges that the saved notes know."""
        self._count = 0

    def commit(self, branch: str, ranges: dict[int, int], *parents: CommitID) -> None:
        """Commit these ranges."""
        self._count += 1
        cid = CommitID(sha256(f"{self._count}".encode()).hexdigest())
        name = self.stored(ranges)
        self.commits[cid] = KnownCommit(cid, parents, MetarangeName(name), self._count)
        self.ranges[cid] = ranges
        self.heads[branch] = cid

    def stored(self, ranges: dict[int, int]) -> str:
        """Write a metarange."""
        name = self.trees.save(ranges)
        self.lists[name] = self.trees.names(ranges)
        return name

    def change(self, branch: str, changes: Sequence[tuple[int, int]]) -> None:
        """Commit changed, new and missing ranges."""
        head = self.heads[branch]
        ranges = dict(self.ranges[head])
        for position, contents in changes:
            if contents:
                ranges[position] = contents
            else:
                ranges.pop(position, None)
        self.commit(branch, ranges, head)

    def merge(self, branch: str, source: str) -> None:
        """Commit the destination's ranges with those of the source that differ at even positions."""
        ours, theirs = self.heads[branch], self.heads[source]
        of_source = {position: contents for position, contents in self.ranges[theirs].items() if position % 2 == 0}
        self.commit(branch, {**self.ranges[ours], **of_source}, ours, theirs)

    def revert(self, branch: str, back: int) -> None:
        """Commit the ranges of an ancestor: the same metarange again."""
        head = ancestor = self.heads[branch]
        for _ in range(back):
            parents = self.commits[ancestor].parents
            if not parents or parents[0] not in self.commits:
                break
            ancestor = parents[0]
        self.commit(branch, dict(self.ranges[ancestor]), head)

    def forget(self, numbers: Collection[int]) -> None:
        """Forget commits, in any order, but no heads."""
        ids = sorted(self.commits)
        for number in numbers:
            cid = ids[number % len(ids)]
            if cid not in self.heads.values():
                self.commits.pop(cid, None)

    def names(self) -> list[str]:
        """Return the metaranges of all commits, and the strays."""
        return sorted({commit.metarange for commit in self.commits.values() if commit.metarange} | self.strays)

    def run(self, seed: int) -> Marks:
        """Read what is new, compare unions and masks with the lists, and save."""
        names, random = self.names(), Random(seed)
        needs = {name: 1 << random.randrange(70) for name in names}
        self.objects.reset()
        marks = Marks(self.objects)
        marks.read(needs, self.commits, tell_nobody)
        fresh = set(names) - self.read
        assert marks.metaranges_read == len(fresh)
        assert self.objects.calls == {"get": 1 + len(fresh)}
        check(marks, self.lists, needs, random)
        marks.save(marks.ranges_with(-1), never_merged)
        check(marks, self.lists, needs, random)
        self.read = set(names)
        return marks


def check(marks: Marks, lists: Mapping[str, frozenset[str]], needs: Mapping[str, int], random: Random) -> None:
    """Compare with the full lists: unions of metaranges with some bits, masks, and the test of single ranges."""
    every_range = frozenset[str]().union(*lists.values())
    for bits in (-1, 0, *set(needs.values()), *(random.getrandbits(70) for _ in range(3))):
        numbers = marks.ranges_with(bits)
        expected = frozenset[str]().union(*(lists[name] for name, need in needs.items() if need & bits))
        assert {name for _, name in marks.unread(numbers)} == expected
        assert len(numbers) == len(expected)
        assert {name for name in every_range if marks.is_in(name, numbers)} == expected
    masks = marks.masks()
    for number, range_name in marks.unread(marks.ranges_with(-1)):
        together = 0
        for name, need in needs.items():
            together |= need if range_name in lists[name] else 0
        assert masks[number] == together


BRANCH = st.sampled_from(["main", "one", "two"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), BRANCH, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), min_size=1)),
        st.tuples(st.just("merge"), BRANCH, BRANCH),
        st.tuples(st.just("branch"), BRANCH, BRANCH),
        st.tuples(st.just("revert"), BRANCH, st.integers(0, 4)),
        st.tuples(st.just("drop"), BRANCH, st.just(0)),
        st.tuples(st.just("forget"), BRANCH, st.lists(st.integers(0, 30), min_size=1)),
        st.tuples(st.just("stray"), BRANCH, st.integers(0, 40)),
        st.tuples(st.just("run"), BRANCH, st.integers(0, 9)),
        st.tuples(st.just("lose"), BRANCH, st.integers(0, 10_000)),
        st.tuples(st.just("old"), BRANCH, st.just(0)),
    ),
    min_size=4,
    max_size=30,
)


def first_history() -> History:
    history = History()
    history.commit("main", dict.fromkeys(range(0, 40, 2), 1))
    history.change("main", [(3, 2)])
    return history


@given(STEPS)
def test_any_history_gives_the_sets_of_the_full_lists(steps: list[tuple[str, str, object]]) -> None:
    history = first_history()
    for verb, branch, argument in steps:
        take_step(history, verb, branch, argument)
    history.run(len(steps))


def take_step(history: History, verb: str, branch: str, argument: object) -> None:
    """Do what can be done."""
    match verb, argument:
        case "run", int(seed):
            history.run(seed)
        case "lose", int(position) if history.read:
            flip(history.objects, position)
            history.read = set()
        case "old", _:
            write_version_2(history)
        case "forget", list(numbers):
            history.forget(numbers)
            history.strays.clear()
        case "branch", str(source) if source in history.heads:
            history.heads[branch] = history.heads[source]
        case "drop", _ if branch != "main" and branch in history.heads:
            del history.heads[branch]
        case _ if branch not in history.heads:
            return
        case "change", list(changes):
            history.change(branch, changes)
        case "merge", str(source) if source in history.heads:
            history.merge(branch, source)
        case "revert", int(back):
            history.revert(branch, back)
        case "stray", int(position):
            ranges = {**history.ranges[history.heads[branch]], position: 77}
            history.strays.add(history.stored(ranges))


def flip(objects: Objects, position: int) -> None:
    """Flip a bit of the saved notes."""
    data = bytearray(objects.get(STATE))
    data[position % len(data)] ^= 1 << position % 8
    objects.put(STATE, bytes(data))


def version_2(lists: Mapping[str, Collection[str]]) -> bytes:
    """Return the notes that earlier versions would have saved."""
    numbers: dict[str, int] = {}
    metaranges = {
        raw_name(name): [numbers.setdefault(range_name, len(numbers)) for range_name in sorted(ranges)]
        for name, ranges in sorted(lists.items())
    }
    state = msgspec.msgpack.encode(
        {
            "version": 2,
            "ranges": {raw_name(name): number for name, number in numbers.items()},
            "marked": [],
            "metaranges": metaranges,
            "files": [],
            "next_number": len(numbers),
        }
    )
    return sha256(state).digest() + state


def write_version_2(history: History) -> None:
    """Replace the notes by those that an earlier version would have saved."""
    names = history.names()
    history.objects.put(STATE, version_2({name: history.lists[name] for name in names}))
    history.read = set(names)


def test_notes_of_an_earlier_version_are_read_once_and_saved_as_new_ones() -> None:
    history = first_history()
    for number in range(50):
        history.change("main", [(number, number + 5)])
    write_version_2(history)
    size = len(history.objects.get(STATE))
    assert history.run(1).metaranges_read == 0
    assert len(history.objects.get(STATE)) < size
    assert history.run(2).metaranges_read == 0


def test_a_flipped_bit_anywhere_costs_reading_everything_again() -> None:
    history = first_history()
    history.run(1)
    data = history.objects.get(STATE)
    for position in range(0, len(data), 37):
        history.objects.put(STATE, data)
        flip(history.objects, position)
        history.read = set()
        assert history.run(position).metaranges_read == len(history.names())


@pytest.mark.parametrize("damage", ["version", "cut", "empty", "other"])
def test_notes_that_cannot_be_used_count_as_none(damage: str) -> None:
    history = first_history()
    history.run(1)
    data = history.objects.get(STATE)
    content = msgspec.msgpack.decode(data[DIGEST:])
    changed = {
        "version": msgspec.msgpack.encode({**content, "version": 5}),
        "cut": msgspec.msgpack.encode({**content, "range_names": content["range_names"][48:]}),
        "empty": b"",
        "other": msgspec.msgpack.encode({**content, "range_numbers": bytes(len(content["range_numbers"]))}),
    }[damage]
    history.objects.put(STATE, sha256(changed).digest() + changed)
    history.read = set()
    history.run(2)


def test_a_name_that_is_none_ends_the_run() -> None:
    with pytest.raises(CorruptError, match="is not the name"):
        Marks(MemoryObjects("mem://none")).read({"abc": 1}, {}, tell_nobody)


def test_a_metarange_that_is_missing_ends_the_run() -> None:
    history = first_history()
    history.run(1)
    before = history.objects.get(STATE)
    history.change("main", [(5, 5)])
    history.objects.delete(f"_graveler/metaranges/{history.commits[history.heads['main']].metarange}")
    with pytest.raises(DamagedFileError, match="nothing was collected"):
        history.run(2)
    assert history.objects.get(STATE) == before


def test_a_range_that_is_listed_twice_is_one_range() -> None:
    """Blocks that two metaranges share are left out of their comparison; a range that is in such a block and in another one
    neither comes nor goes with the other one."""
    numbers = {b"one": 1, b"two": 2, b"three": 3, b"four": 4}
    blocks = {name: [number] for name, number in numbers.items()}
    again = {b"again": [1]}
    cases = [
        ({b"one": [1], **again}, {b"one": [1]}),
        ({b"one": [1]}, {b"one": [1], **again}),
        ({**blocks, **again}, {b"one": [1], b"two": [2], b"five": [5]}),
        (blocks, {b"two": [2], b"again": [2, 1]}),
    ]
    for earlier, later in cases:
        live = {number for listed in earlier.values() for number in listed}
        expected = {number for listed in later.values() for number in listed}
        before = set(live)
        count = sum(map(len, later.values()))
        changed = changed_ranges(earlier, later, count, live)
        assert live == expected
        assert changed == before ^ expected


@pytest.mark.parametrize("count", [500, LARGE + 500])
def test_only_ranges_that_are_new_are_asked_for(count: int) -> None:
    """One range changes at a time, another one goes or comes: the names of the others are not asked for again."""
    objects = MemoryObjects("mem://made")
    trees = MadeTrees(objects)
    ranges = dict.fromkeys(range(count), 0)
    states = [dict(ranges)]
    for number in range(1, 30):
        ranges[number * 16] = number
        if number % 3 == 0:
            del ranges[number * 7]
        if number % 5 == 0:
            ranges[count + number] = 0
        states.append(dict(ranges))
    names = [raw_name(trees.save(state)) for state in states]
    calls: list[str] = []
    numbers: dict[str, int] = {}

    def number_of(name: bytes) -> int:
        calls.append(file_name(name))
        return numbers.setdefault(file_name(name), len(numbers))

    live: set[int] = set()
    reader = MetarangeReader(objects, number_of, {}, lambda: None)
    for (before, state), changed in zip(pairwise([{}, *states]), reader.changes(names, live), strict=True):
        assert {name for name, number in numbers.items() if number in live} == trees.names(state)
        difference = trees.names(before) ^ trees.names(state)
        assert {name for name, number in numbers.items() if number in changed} == difference
    assert len(calls) == len(numbers)
    assert reader.objects_read == 30


RANGES = 500
"""Ranges of a metarange whose notes are measured."""


def made_notes(commits: int) -> tuple[MemoryObjects, list[str], dict[CommitID, KnownCommit]]:
    """Return saved notes of a history in which each commit changes a range, its metaranges and its commits."""
    ids = [sha256(f"{number}".encode()).hexdigest() for number in range(commits + RANGES)]
    raw = [bytes.fromhex(name + name[:32]) for name in ids]
    names = [f"{name}-{name[:32]}" for name in ids[:commits]]
    counts, changes = array("I", [RANGES]), array("I", range(RANGES))
    for number in range(1, commits):
        counts.append(2)
        changes.extend((number - 1, RANGES + number - 1))
    ranges = RangeTable(bytearray(b"".join(raw)), array("I", range(len(raw))), RangeNumbers(range(len(raw))), len(raw))
    objects = MemoryObjects("mem://notes")
    save_state(objects, MarkState(ranges, Succession(bytearray(b"".join(raw[:commits])), counts, changes), []))
    known = {
        CommitID(cid): KnownCommit(
            CommitID(cid), tuple(map(CommitID, ids[number - 1 : number])), MetarangeName(names[number]), number
        )
        for number, cid in enumerate(ids[:commits])
    }
    return objects, names, known


def cost_of_notes(commits: int) -> tuple[int, int]:
    """Return the bytes that the notes of so many commits take: stored, and at most in memory during a run."""
    objects, names, known = made_notes(commits)
    stored = len(objects.get(STATE))
    tracemalloc.start()
    try:
        marks = Marks(objects)
        marks.read({name: 1 + number % 2 for number, name in enumerate(names)}, known, tell_nobody)
        needed, whole = marks.ranges_with(1), marks.ranges_with(3)
        assert len(needed) <= len(whole) == commits + RANGES - 1
        marks.save(whole, never_merged)
        assert not any(marks.is_in(name, whole) for name in names[:0])
        assert marks.metaranges_read == 0
        return stored, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_commit_costs_a_few_hundred_bytes() -> None:
    costs = [cost_of_notes(commits) for commits in (2_000, 4_000, 6_000)]
    for (stored, memory), (more_stored, more_memory) in pairwise(costs):
        assert (more_stored - stored) / 2_000 <= 300
        assert (more_memory - memory) / 2_000 <= 600


def test_branches_that_diverge_cost_their_own_changes() -> None:
    """Eight branches with a commit each between two runs: each goes behind its parent, not behind another branch's last one."""
    history = first_history()
    branches = [f"b{number}" for number in range(8)]
    for branch in branches:
        history.heads[branch] = history.heads["main"]
    for step in range(16):
        for number, branch in enumerate(branches):
            history.change(branch, [(2 * (step % 20), 100 + number)])
        history.run(step)
    commits = len(history.commits)
    content = msgspec.msgpack.decode(history.objects.get(STATE)[DIGEST:])
    assert len(content["metarange_names"]) // 48 == commits == 8 * 16 + 2
    assert len(content["changes"]) // 4 <= 20 + 4 * commits


def test_a_chain_of_many_commits_needs_no_recursion() -> None:
    """20,000 metaranges without a place, each the base of the next one; and 1,000 that follow one another in a circle."""
    count = 20_000
    ids = [sha256(f"{number}".encode()).hexdigest() for number in range(count)]
    names = [f"{name}-{name[:32]}" for name in ids]
    commits = {}
    for number, cid in enumerate(ids):
        before = (number - 1) % 1_000 if number < 1_000 else number - 1
        commits[CommitID(cid)] = KnownCommit(
            CommitID(cid), (CommitID(ids[before]),), MetarangeName(names[number]), number
        )
    objects = MemoryObjects("mem://deep")
    objects.put(STATE, version_2({name: [names[number], names[number - 1]] for number, name in enumerate(names)}))
    marks = Marks(objects)
    marks.read(dict.fromkeys(names, 1), commits, tell_nobody)
    assert len(marks.ranges_with(1)) == count
    marks.save(marks.ranges_with(1), never_merged)
    assert len(objects.get(STATE)) < 200 * count
