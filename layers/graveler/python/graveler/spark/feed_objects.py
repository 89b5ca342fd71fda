"""The feed of paths: a row for each object that a commit added, removed or changed, as :func:`graveler.spark.diff` has it, with
the commit and its time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from graveler.errors import InvalidError
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID
from graveler.spark.change_feed import Step
from graveler.spark.difference_frames import CHANGE, read_differences
from graveler.spark.locations import task_store
from graveler.spark.slices import TASK_ROWS, TwoSlices, pairs
from graveler.spark.source_options import number
from graveler.tree.key_range import KeyRange
from graveler.tree.tree import Tree

TIME: Final = pa.timestamp("us", "UTC")
COMMITTED: Final = pa.schema([*CHANGE, ("commit_id", pa.string()), ("commit_timestamp", TIME)])
"""The row of the feed."""
_MICROSECONDS: Final = 1_000_000


class _Compared(Struct, frozen=True):
    """Parts of two trees whose difference is that of one commit, created at a time (Unix seconds)."""

    commit_id: CommitID
    created: int
    both: TwoSlices


class _Part(Struct, frozen=True):
    compared: tuple[_Compared, ...]
    namespace: str


class ObjectsFeed:
    """The changes of all objects, or of those whose paths begin with ``prefix``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._keys = KeyRange.of_prefix(options.get("prefix", "").encode())
        self._rows = number(options, "rows_per_task", TASK_ROWS)

    def schema(self) -> StructType:
        """Return the columns."""
        return from_arrow_schema(COMMITTED)

    def check(self, schema: StructType) -> None:
        """Refuse other columns, with :class:`InvalidError`."""
        if schema.fieldNames() != COMMITTED.names:
            raise InvalidError(
                f"the feed of paths has its own schema ({', '.join(COMMITTED.names)}); leave schema() out, or name a "
                "dataset by the option path for a feed of its rows"
            )

    def parts(self, repository: OpenRepository, steps: Sequence[Step]) -> list[_Part]:
        """Return parts of about that many records to compare; small commits share one. One metarange per commit, and one more."""
        compared = (
            _Compared(step.commit.id, step.commit.created, both)
            for step, base, right in trees(repository, steps)
            for both in pairs(repository, base, right, self._keys, self._rows)
        )
        namespace = repository.repository.namespace
        return [_Part(some, namespace) for some in _gathered(compared, self._rows)]

    def read(self, part: _Part, _: StructType) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. One object read per range that differs."""
        for compared in part.compared:
            for batch in read_differences(compared.both, part.namespace):
                yield pa.RecordBatch.from_arrays(
                    [*batch.columns, *commit_columns(compared.commit_id, compared.created, batch.num_rows)],
                    schema=COMMITTED,
                )


def trees(repository: OpenRepository, steps: Sequence[Step]) -> Iterator[tuple[Step, Tree, Tree]]:
    """Yield each commit with the trees before and after it. One metarange per commit, and one more. :class:`ExpiredCommitError`
    if the first one, which is the oldest, has expired."""
    base: Tree | None = None
    for step in steps:
        if base is None:
            repository.expect_kept(step.before or step.commit.id)
            base = Tree(task_store(repository), [], []) if step.before is None else repository.tree(step.before)
        right = repository.tree(step.commit.id)
        yield step, base, right
        base = right


def commit_columns(commit_id: CommitID, created: int, rows: int) -> list[pa.Array]:
    """Return columns of the commit's ID and time, for ``rows`` rows."""
    time = pa.scalar(created * _MICROSECONDS, pa.int64()).cast(TIME)
    return [pa.repeat(pa.scalar(commit_id, pa.string()), rows), pa.repeat(time, rows)]


def _gathered(compared: Iterable[_Compared], rows: int) -> Iterator[tuple[_Compared, ...]]:
    some: list[_Compared] = []
    size = 0
    for comparison in compared:
        some.append(comparison)
        size += sum(
            tree.info(number).count
            for tree in (comparison.both.left, comparison.both.right)
            for number in range(len(tree))
        )
        if size >= rows:
            yield tuple(some)
            some, size = [], 0
    if some:
        yield tuple(some)
