"""The work of an import's task: the tree of one interval of keys, from sorted rows in Arrow batches.

Everything that a task writes is named by its contents, so running a task twice, by a retry or by speculation, changes nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import lt
from typing import Any, Final

import pyarrow as arrow
from pyspark import TaskContext

from graveler.errors import InvalidError
from graveler.lake.importing.listing_files import ListingError
from graveler.lake.importing.listing_rows import RowReader
from graveler.lake.importing.listing_tables import Batch
from graveler.model import SplitParameters
from graveler.spark.checkpoints import Checkpoint
from graveler.spark.encoding import PlainRows
from graveler.spark.listing_frames import PROBLEM, Columns
from graveler.spark.results import BadRow, Span, Subtree, Subtrees, pack
from graveler.tree.range_notes import ID_BYTES
from graveler.tree.record import RecordCodec
from graveler.tree.store import TreeStore
from graveler.tree.tree import Part
from graveler.tree.writer import TreeWriter

SCHEMA: Final = "result binary"
"""The schema of tasks' results: a :class:`Subtrees` in each row."""
SAMPLES: Final = 20
"""Bad rows that are reported in detail."""


class SubtreeTask:
    """The builder of a partition's subtrees. Picklable.

    ``done`` are the intervals (of keys in the lake) that an earlier run has built, whose rows are not in the input; no tree may
    span one of them. ``checkpoint``, if given, records what was built.
    """

    def __init__(
        self,
        store: TreeStore,
        split: SplitParameters,
        columns: Columns,
        run: str,
        done: Sequence[Span] = (),
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._store = store
        self._split = split
        self._columns = columns
        self._run = run
        self._gaps = [first_key for first_key, _ in done]
        self._ends = [last for _, last in done]
        self._checkpoint = checkpoint

    def __call__(self, batches: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        """Yield a row with the result. Memory: a batch of rows and a range of records."""
        context = TaskContext.get()
        packed = pack(self.build(batches, 0 if context is None else context.partitionId()))
        yield arrow.RecordBatch.from_arrays([arrow.array([packed], arrow.binary())], names=["result"])

    def build(self, batches: Iterator[arrow.RecordBatch], partition: int) -> Subtrees:
        """Build the trees of these rows, which ascend by name. Durable when it returns."""
        rows = _Rows(self._columns)
        trees: list[Subtree] = []
        writer: TreeWriter | None = None
        gap = duplicates = 0
        """The number of skipped intervals before the current tree; the superseded rows in it."""

        def finish(*, ends: bool) -> None:
            nonlocal duplicates
            if writer is not None:
                tree = writer.finish()
                trees.append(
                    Subtree(
                        tree.info(0).first,
                        tree.lasts,
                        tree.packed,
                        duplicates,
                        self._run,
                        partition,
                        not trees,
                        ends,
                        self._ends[gap - 1] if gap else b"",
                    )
                )
                duplicates = 0

        for keys, packed, ids in rows.distinct(batches):
            position = 0
            while position < len(keys):
                key_gap = bisect_right(self._gaps, keys[position])
                end = len(keys) if key_gap == len(self._gaps) else bisect_left(keys, self._gaps[key_gap], position)
                if writer is None or key_gap != gap:
                    finish(ends=False)
                    writer, gap = TreeWriter(self._store, self._split), key_gap
                some = None if ids is None else ids[position * ID_BYTES : end * ID_BYTES]
                writer.add(keys[position:end], packed[position:end], some)
                gave_way = bisect_right(rows.repeated, keys[end - 1])
                duplicates += gave_way
                del rows.repeated[:gave_way]
                position = end
        finish(ends=True)
        done = Subtrees(trees, rows.bad, rows.samples)
        if self._checkpoint is not None:
            self._checkpoint.note(done)
        return done


class _Rows:
    """The records of sorted rows, each key once."""

    def __init__(self, columns: Columns) -> None:
        self._codec = RecordCodec(columns.namespace)
        self._reader: RowReader = columns.reader(self._codec)
        self._plain = PlainRows(columns.rules, columns.namespace.rstrip("/") + "/", columns.gate)
        self._name = columns.name
        self.repeated: list[bytes] = []
        """The keys of superseded rows, ascending; the caller removes those it has counted."""
        self.bad = 0
        self.samples: list[BadRow] = []

    def distinct(self, batches: Iterator[arrow.RecordBatch]) -> Iterator[Part]:
        """Yield keys, packed bytes, and record IDs where they are known. Of rows with one key, the one with the latest time wins;
        of several such, the one with the greatest record, so the result does not depend on their order."""
        held: Part | None = None
        for batch in map(self._with_binary_names, batches):
            keys, packed, ids = self._plain.encode(batch) or (*self._records(batch), None)
            if not keys:
                continue
            if held is not None:  # its first row may repeat the last key of the batch before
                keys, packed = held[0] + keys, held[1] + packed
                ids = None if ids is None or held[2] is None else held[2] + ids
            if not all(map(lt, keys, islice(keys, 1, None))):
                keys, packed = self._latest(keys, packed)
                ids = None
            held = [keys.pop()], [packed.pop()], None if ids is None else ids[-ID_BYTES:]
            if keys:
                yield keys, packed, None if ids is None else ids[:-ID_BYTES]
        if held is not None:
            yield held

    def _with_binary_names(self, batch: arrow.RecordBatch) -> arrow.RecordBatch:
        """Return the batch with binary names: Spark's text need not be UTF-8. No copy."""
        names = batch.schema.names
        columns = [
            column.cast(arrow.binary()) if name == self._name else column
            for name, column in zip(names, batch.columns, strict=True)
        ]
        return arrow.RecordBatch.from_arrays(columns, names=names)

    def _latest(self, keys: list[bytes], packed: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        some_keys: list[bytes] = []
        some_packed: list[bytes] = []
        for key, record in zip(keys, packed, strict=True):
            if some_keys and key <= some_keys[-1]:
                if key < some_keys[-1]:
                    raise InvalidError(f"rows are not in ascending order: {key!r} comes after {some_keys[-1]!r}")
                self.repeated.append(key)
                some_packed[-1] = max(
                    some_packed[-1], record, key=lambda candidate: (self._time(key, candidate), candidate)
                )
                continue
            some_keys.append(key)
            some_packed.append(record)
        return some_keys, some_packed

    def _time(self, key: bytes, record: bytes) -> int:
        return self._codec.decode(key, record).mtime

    def _records(self, batch: arrow.RecordBatch) -> tuple[list[bytes], list[bytes]]:
        """Return the records of any rows, and count bad ones."""
        columns = {name: _values(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        problems = columns.pop(PROBLEM, None)
        if problems is not None and batch.column(PROBLEM).null_count < len(problems):
            for name, problem in zip(columns[self._name], problems, strict=True):
                if problem is not None:
                    self._refuse(name, problem)
            keep = [problem is None for problem in problems]
            columns = {
                name: [v for v, good in zip(values, keep, strict=True) if good] for name, values in columns.items()
            }
        count = len(columns[self._name])
        if not count:
            return [], []
        try:
            (keys, _, packed), _ = self._reader.block(Batch(range(count), columns), 0)
            return keys, packed
        except ListingError:
            return self._one_by_one(count, columns)

    def _one_by_one(self, count: int, columns: dict[str, list[Any]]) -> tuple[list[bytes], list[bytes]]:
        """Return the records of rows of which some are bad, as :meth:`_records`."""
        keys: list[bytes] = []
        packed: list[bytes] = []
        for number in range(count):
            row = {name: [values[number]] for name, values in columns.items()}
            try:
                (some_keys, _, some_packed), _ = self._reader.block(Batch((number,), row), 0)
            except ListingError as error:
                subject = f"column {error.column!r}: {error.value!r} " if error.column else ""
                self._refuse(row[self._name][0], subject + error.why)
                continue
            keys += some_keys
            packed += some_packed
        return keys, packed

    def _refuse(self, name: object, reason: str) -> None:
        self.bad += 1
        if len(self.samples) < SAMPLES:
            shown = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else repr(name)
            self.samples.append(BadRow(shown[:200], reason[:500]))


def _values(column: Any) -> list[Any]:
    """Return an Arrow column as Python values, if possible without an Arrow object for each."""
    if column.null_count and not arrow.types.is_binary(column.type) and not arrow.types.is_string(column.type):
        values: list[Any] = column.to_pylist()
        return values
    return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


Mapper = Callable[[Iterable[arrow.RecordBatch]], Iterable[arrow.RecordBatch]]
"""The type of functions for :meth:`pyspark.sql.DataFrame.mapInArrow`."""
