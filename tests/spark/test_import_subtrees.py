"""What tasks build and the driver joins, without Spark: the same tree, however the rows are cut (law F1)."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as arrow
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidError
from graveler.lake.importing.gate import Gate
from graveler.lake.importing.listing_rows import RowRules
from graveler.lake.importing.listing_tables import Batch
from graveler.runtime.local import LocalRuntime
from graveler.spark.checkpoints import Checkpoint, forget_old, spans_of
from graveler.spark.encoding import PlainRows
from graveler.spark.listing_frames import Columns
from graveler.spark.results import Subtree, Subtrees
from graveler.spark.subtrees import SubtreeTask
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.namespaces import locate
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.tree.record import RecordCodec, record_ids
from graveler.tree.store import TreeStore
from graveler.tree.writer import build, join
from tests.spark.listings import BASE, TINY, Row, batches_of, latest, records_of, rows_of
from tests.support.trees import ALONE
from tests.support.tuples import changed

NAMESPACE = "mem://repo"
NAMES = {"key": "key", "size": "size", "checksum": "etag", "mtime": "mtime"}
GATE = Gate(NAMESPACE, locate)
COLUMNS = Columns(NAMES, RowRules("", "", BASE, False, False), "the test's listing", 7, GATE)


def cut(rows: list[Row], cuts: Sequence[int]) -> list[list[Row]]:
    """Sorted rows, cut at some keys."""
    keys = sorted({row.key.encode() for row in rows})
    bounds = sorted({keys[number % len(keys)] for number in cuts})
    parts: list[list[Row]] = [[] for _ in range(len(bounds) + 1)]
    for row in sorted(rows, key=lambda row: row.key.encode()):
        parts[sum(row.key.encode() > bound for bound in bounds)].append(row)
    return parts


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(seed=0, count=10, cuts=[0, 1, 2, 3], again=[], others=[0], lost={0, 1, 2, 4}, lost_again=set(), old={1})
@given(
    seed=st.integers(0, 1 << 30),
    count=st.integers(1, 120),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    again=st.lists(st.integers(0, 8), max_size=4),
    others=st.lists(st.integers(0, 200), max_size=8),
    lost=st.sets(st.integers(0, 8)),
    lost_again=st.sets(st.integers(0, 8)),
    old=st.sets(st.integers(0, 12)),
)
def test_any_partitions_repetitions_and_interruptions_give_the_same_tree(
    seed: int,
    count: int,
    cuts: list[int],
    again: list[int],
    others: list[int],
    lost: set[int],
    lost_again: set[int],
    old: set[int],
) -> None:
    random = Random(seed)
    rows = rows_of(random, count, duplicates=0.3)
    objects = MemoryObjects(NAMESPACE)
    store = TreeStore(ImmutableFiles(objects, None), ALONE)
    checkpoint = Checkpoint(objects, ["the listing"])
    # A first run, in which some tasks are done more than once, and some are never done.
    task = SubtreeTask(store, TINY, COLUMNS, "first", (), checkpoint)
    parts = cut(rows, cuts)
    for number in [*range(len(parts)), *again]:
        if number < len(parts) and number not in lost:
            task.build(iter(batches_of(parts[number], random)), number)
    # A second one, of other partitions, goes on where it was.
    before, _ = checkpoint.read(0.0)
    spans = spans_of(before)
    left = [row for row in rows if not any(first <= row.key.encode() <= last for first, last in spans)]
    task = SubtreeTask(store, TINY, COLUMNS, "second", spans, checkpoint)
    for number, part in enumerate(cut(left, others) if left else []):
        if number not in lost_again:
            task.build(iter(batches_of(part, random)), number)
    # A third one, in which some of the notes have become too old, does all that is left.
    before = [one for number, one in enumerate(checkpoint.read(0.0)[0]) if number not in old]
    spans = spans_of(before)
    left = [row for row in rows if not any(first <= row.key.encode() <= last for first, last in spans)]
    task = SubtreeTask(store, TINY, COLUMNS, "third", spans)
    done = list(before)
    for number, part in enumerate(cut(left, cuts) if left else []):
        done += task.build(iter(batches_of(part, random)), number).trees
    done.sort(key=lambda one: one.first)
    tree = join(store, TINY, [one.tree(store) for one in done])
    assert tree.name() == build(store, TINY, records_of(rows, NAMESPACE)).name()
    assert tree.count() == len(latest(rows))
    assert sum(one.duplicates for one in done) == count - len(latest(rows))


def subtree(
    run: str, partition: int, first: bytes, last: bytes, *, begins: bool = True, ends: bool = True, after: bytes = b""
) -> Subtree:
    return Subtree(first, [last], [b""], 0, run, partition, begins, ends, after)


def note(checkpoint: Checkpoint, *trees: Subtree) -> None:
    checkpoint.note(Subtrees(list(trees), 0, []))


def test_neighbours_of_one_run_are_one_interval() -> None:
    done = [
        subtree("a", 0, b"a", b"b"),
        subtree("a", 1, b"c", b"d"),
        subtree("a", 3, b"g", b"h"),
        subtree("b", 4, b"i", b"k"),
        subtree("b", 5, b"n", b"o", after=b"l", ends=False),
        subtree("b", 5, b"q", b"r", after=b"p", begins=False),
        subtree("b", 6, b"s", b"t", after=b"p"),
    ]
    assert spans_of(done) == [(b"a", b"d"), (b"g", b"h"), (b"i", b"k"), (b"n", b"o"), (b"q", b"t")]


def test_old_notes_do_not_count_and_go() -> None:
    time = 1000.0
    objects = MemoryObjects(NAMESPACE, lambda: time)
    checkpoint = Checkpoint(objects, ["x"])
    note(checkpoint, subtree("run", 0, b"a", b"b"))
    time = 2000.0
    note(checkpoint, subtree("run", 1, b"c", b"d"))
    assert [one.first for one in checkpoint.read(0.0)[0]] == [b"a", b"c"]
    found, oldest = checkpoint.read(1500.0)
    assert [one.first for one in found] == [b"c"]
    assert oldest == 2000.0
    assert Checkpoint(objects, ["y"]).read(0.0) == ([], float("inf"))
    assert forget_old(objects, 1500.0) == 1
    checkpoint.drop()
    assert list(objects.list()) == []


def test_of_two_runs_at_once_each_interval_counts_once() -> None:
    checkpoint = Checkpoint(MemoryObjects(NAMESPACE), ["x"])
    note(checkpoint, subtree("one", 0, b"a", b"f"))
    note(checkpoint, subtree("two", 0, b"c", b"k"))
    note(checkpoint, subtree("two", 1, b"l", b"m"))
    assert spans_of(checkpoint.read(0.0)[0]) == [(b"a", b"f"), (b"l", b"m")]


def test_rows_with_bad_values_are_counted_and_told_and_leave_no_note() -> None:
    objects = MemoryObjects(NAMESPACE)
    checkpoint = Checkpoint(objects, ["x"])
    batch = arrow.RecordBatch.from_arrays(
        [
            arrow.array([None, b"a", b"b", b"b\xff", b"c", b"d", b"e" * 2000], arrow.binary()),
            arrow.array(["1", "1", "x", "1", "-1", "4", "5"], arrow.string()),
            arrow.array(["00", "00", "00", "00", "00", None, "00"], arrow.string()),
            arrow.array([1, 1, 1, 1, 1, 1, 1], arrow.int64()),
        ],
        names=["key", "size", "checksum", "mtime"],
    )
    store = TreeStore(ImmutableFiles(objects, None), ALONE)
    done = SubtreeTask(store, TINY, COLUMNS, "run", (), checkpoint).build(iter([batch]), 0)
    assert (len(done.trees), done.bad, len(done.samples)) == (1, 6, 6)
    told = {row.name[:5]: row.why for row in done.samples}
    assert told["None"].endswith("is not text")
    assert told["b"] == "column 'size': 'x' is not a number of bytes, such as 1024"
    assert "is not UTF-8" in told["b\\xff"]
    assert told["eeeee"].startswith("column 'key'")
    assert checkpoint.read(0.0)[0] == []


IN_PARTS = ["ab" * 16 + "-2", "cd" * 16 + "-10000"]
NOT_IN_PARTS = ["AB" * 16 + "-2", "ab" * 16 + "-", "ab" * 16 + "-100000"]
PLAIN = st.tuples(
    st.text("ab/+\u00e9\U0001f600", min_size=1, max_size=4),
    st.sampled_from([0, 1, 1 << 40, (1 << 63) - 1, -1]),
    st.sampled_from(["ab" * 16, "0" * 32, "AB" * 16, "ab" * 15 + "a ", "cd" * 20, "", "-", *IN_PARTS, *NOT_IN_PARTS]),
    st.sampled_from([1 << 16, 1_700_000_000, (1 << 32) - 1, 1 << 32, 7]),
)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(PLAIN, min_size=1, max_size=6),
    source=st.sampled_from(["", "a", "a/"]),
    destination=st.sampled_from(["", "d/"]),
    base=st.sampled_from([BASE, "", "mem://repo/"]),
    buckets=st.sampled_from([("b",), ("b", "c"), ()]),
    offset=st.integers(0, 2),
)
def test_whole_batches_are_encoded_as_rows_are(
    rows: list[tuple[str, int, str, int]], source: str, destination: str, base: str, buckets: Sequence[str], offset: int
) -> None:
    def batch_of(rows: list[tuple[str, int, str, int]]) -> arrow.RecordBatch:
        keys, sizes, etags, times = zip(*rows, strict=True)
        arrays = {
            "key": arrow.array([key.encode() for key in keys], arrow.binary()),
            "size": arrow.array(sizes, arrow.int64()),
            "checksum": arrow.array(etags, arrow.string()),
            "mtime": arrow.array(times, arrow.int64()),
        }
        if buckets:
            arrays["bucket"] = arrow.array([buckets[n % len(buckets)] for n in range(len(keys))], arrow.string())
        else:
            arrays["physical_address"] = arrow.array([f"s3://x/{key}" for key in keys], arrow.string())
        return arrow.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    rules = RowRules(source, destination, base, False, False)
    batch = batch_of(rows)
    found = PlainRows(rules, f"{NAMESPACE}/", GATE).encode(batch)
    names = {name: name for name in batch.schema.names}
    reader = Columns(names, rules, "x", 7, GATE).reader(RecordCodec(NAMESPACE))
    values = {name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    if found is None:
        return  # left to the reader
    (keys, _, packed), _ = reader.block(Batch(range(len(rows)), values), 0)
    assert found == (keys, packed, record_ids(keys, packed))
    part = PlainRows(rules, f"{NAMESPACE}/", GATE).encode(batch.slice(offset))
    if offset < len(rows):
        assert part == (keys[offset:], packed[offset:], record_ids(keys[offset:], packed[offset:]))


def test_usual_batches_are_encoded_as_a_whole() -> None:
    batch = batches_of(rows_of(Random(2), 12), Random(1))[0]
    found = PlainRows(COLUMNS.rules, f"{NAMESPACE}/", GATE).encode(batch)
    assert found is not None
    assert len(found[0]) == batch.num_rows


@pytest.mark.parametrize("every", [1, 5])
def test_etags_of_uploads_in_parts_are_usual(every: int) -> None:
    rows = [
        changed(row, etag=IN_PARTS[at % 2] if at % every == 0 else row.etag)
        for at, row in enumerate(rows_of(Random(2), 12))
    ]
    batch = batches_of(rows, Random(1))[0]
    found = PlainRows(COLUMNS.rules, f"{NAMESPACE}/", GATE).encode(batch)
    assert found is not None, "not left to the reader of rows"
    assert found[2] == record_ids(found[0], found[1])


def test_rows_that_do_not_ascend_are_an_error() -> None:
    store = TreeStore(ImmutableFiles(MemoryObjects(NAMESPACE), None), ALONE)
    rows = [Row("b", 1, "00", 1 << 20), Row("a", 1, "00", 1 << 20)]
    with pytest.raises(InvalidError, match="are not in ascending order: b'a' comes after b'b'"):
        SubtreeTask(store, TINY, COLUMNS, "run").build(iter(batches_of(rows, Random(1))), 0)


def test_what_travels_is_small_enough(tmp_path: Path) -> None:
    """A task's answer is descriptions of ranges, not records."""
    random = Random(3)
    rows = sorted(rows_of(random, 2000), key=lambda row: row.key.encode())
    store = TreeStore(ImmutableFiles(MemoryObjects(NAMESPACE), None), LocalRuntime(scratch=tmp_path))
    answer = next(SubtreeTask(store, TINY, COLUMNS, "run")(iter(batches_of(rows, random))))
    ranges = len(build(store, TINY, records_of(rows, NAMESPACE)))
    assert answer.num_rows == 1
    assert answer.nbytes < 300 * ranges
