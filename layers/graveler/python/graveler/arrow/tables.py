"""A repository's tables, as streams of record batches. Each function takes the verbs of a repository, in this process or behind a
server, and returns a :class:`pyarrow.RecordBatchReader` that reads as it is consumed.

Where paths are listed, ``prefix`` keeps those that begin with it, ``after`` those greater than it, ``upto`` those not greater
than it, all in the order of UTF-8 bytes; ``""`` keeps all. Of an own lake only the ranges that hold such paths are opened.
``columns`` chooses columns of the schema, in its order. Refs are resolved when the function is called, so that it raises
:class:`~graveler.errors.RefNotFoundError`; other errors come as batches are read. Each reader is for one thread at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from graveler.arrow import columns as kinds
from graveler.arrow import schemas
from graveler.arrow.records import plain_columns
from graveler.errors import InvalidError
from graveler.lake.reading.reader import RepositoryReader
from graveler.lake.text import utf8
from graveler.model import Change, Commit, CommitID, CommonPrefix, ObjectEntry, Page
from graveler.tree.key_range import KeyRange

if TYPE_CHECKING:
    from graveler.anywhere import AnyRepository
    from graveler.lake.reading.view import View
    from graveler.tree.sstable import Records

T = TypeVar("T")

BATCH: Final = 16_384
"""Rows of a batch, at most."""
_PAGE: Final = 1000
_REFLOG: Final = 1_000_000


def objects(
    verbs: "AnyRepository",
    ref: str,
    *,
    prefix: str = "",
    after: str = "",
    upto: str = "",
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """Return the objects of a ref, as :data:`~graveler.arrow.schemas.OBJECTS`; of a branch's name with its uncommitted changes.

    All rows are of one state, which of a branch must be read in 10 minutes (:class:`~graveler.errors.PreconditionError`); behind
    a server each thousand of a branch is of its own time. Cost as :meth:`RepositoryReader.list_objects`, resolving once.
    """
    keys = _key_range(prefix, after, upto)
    if isinstance(verbs, RepositoryReader):
        schema = kinds.chosen(schemas.OBJECTS, columns)
        return pa.RecordBatchReader.from_batches(schema, _batches_of_records(verbs.view(ref), keys, schema))
    verbs.commit_of(ref)  # which raises where there is none
    pages = _pages(
        lambda position: verbs.list_objects(ref, prefix=prefix, after=position, amount=_PAGE), after, upto, _path
    )
    return kinds.batches(kinds.OBJECTS, pages, columns)


def diff(
    verbs: "AnyRepository",
    left: str,
    right: str,
    *,
    prefix: str = "",
    after: str = "",
    upto: str = "",
    three_dot: bool = False,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """Return what turns the commit of ``left`` into that of ``right``, as :data:`~graveler.arrow.schemas.DIFF`; with
    ``three_dot`` what ``right`` changed since their common base. Cost as :meth:`RepositoryReader.diff`, or ``compare``."""
    left_id, right_id = verbs.commit_of(left).id, verbs.commit_of(right).id
    if three_dot:
        base = verbs.merge_base(left_id, right_id)
        if base is None:
            raise InvalidError(f"{left!r} and {right!r} have no common history; compare them with two dots instead")
        left_id = base.id
    if isinstance(verbs, RepositoryReader):
        found = verbs.all_differences(left_id, right_id, _key_range(prefix, after, upto))
        return kinds.batches(kinds.DIFF, _in_groups(found), columns)
    pages = _pages(
        lambda position: verbs.diff(left_id, right_id, prefix=prefix, after=position, amount=_PAGE), after, upto, _path
    )
    return kinds.batches(kinds.DIFF, pages, columns)


def staged(
    verbs: "AnyRepository",
    branch: str,
    *,
    prefix: str = "",
    after: str = "",
    upto: str = "",
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """Return a branch's uncommitted changes, as :data:`~graveler.arrow.schemas.STAGED`. Behind a server each thousand is of its
    own time. Cost as :meth:`RepositoryReader.uncommitted`."""
    if isinstance(verbs, RepositoryReader):
        found = verbs.all_uncommitted(branch, _key_range(prefix, after, upto))
        return kinds.batches(kinds.DIFF, _in_groups(found), columns)
    pages = _pages(
        lambda position: verbs.uncommitted(branch, prefix=prefix, after=position, amount=_PAGE), after, upto, _path
    )
    return kinds.batches(kinds.DIFF, pages, columns)


def blame(
    verbs: "AnyRepository",
    ref: str,
    *,
    prefix: str = "",
    after: str = "",
    upto: str = "",
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """Return the objects of the commit of ``ref``, each with the last commit that changed it, as
    :data:`~graveler.arrow.schemas.BLAME`. Cost as :meth:`RepositoryReader.annotate`: a walk of the history for each 16,384
    objects, behind a server for each thousand."""
    commit = verbs.commit_of(ref).id
    amount = BATCH if isinstance(verbs, RepositoryReader) else _PAGE
    pages = _pages(
        lambda position: verbs.annotate(commit, prefix=prefix, after=position, amount=amount),
        after,
        upto,
        lambda row: row[0].path,
    )
    return kinds.batches(kinds.BLAME, pages, columns)


def commits(
    verbs: "AnyRepository", ref: str, *, first_parent: bool = False, columns: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """Return the commits that a ref reaches, newest first, as :data:`~graveler.arrow.schemas.COMMITS`. Cost as
    :meth:`RepositoryReader.log`."""
    start = verbs.commit_of(ref).id

    def page(position: str) -> Page[Commit]:
        after = CommitID(position) if position else None
        return verbs.log(start, after=after, amount=_PAGE, first_parent=first_parent)

    return kinds.batches(kinds.COMMITS, _pages(page), columns)


def branches(
    verbs: "AnyRepository", *, show_hidden: bool = False, columns: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """Return the branches by name, as :data:`~graveler.arrow.schemas.BRANCHES`. Cost as :meth:`RepositoryReader.branches` per
    thousand."""
    return kinds.batches(
        kinds.BRANCHES,
        _pages(lambda position: verbs.branches("", position, _PAGE, show_hidden=show_hidden)),
        columns,
    )


def tags(verbs: "AnyRepository", *, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """Return the tags by name, as :data:`~graveler.arrow.schemas.TAGS`. Cost as :meth:`RepositoryReader.tags` per thousand."""
    return kinds.batches(kinds.TAGS, _pages(lambda position: verbs.tags("", position, _PAGE)), columns)


def reflog(verbs: "AnyRepository", branch: str, *, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """Return what moved a branch, newest first, as :data:`~graveler.arrow.schemas.REFLOG`; behind a server at most the last
    thousand moves. All are read at once. Cost as :meth:`RepositoryReader.reflog`."""
    return kinds.batches(kinds.REFLOG, _in_groups(iter(verbs.reflog(branch, _REFLOG))), columns)


def _key_range(prefix: str, after: str, upto: str) -> KeyRange:
    keys = KeyRange.of_prefix(utf8("prefix", prefix))
    if after:
        keys &= KeyRange(utf8("path", after) + b"\0")
    if upto:
        keys &= KeyRange(end=utf8("path", upto) + b"\0")
    return keys


def _batches_of_records(view: "View", keys: KeyRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for records in _whole_batches(view.records(keys)):
        arrays = plain_columns(*records, schema.names)
        if arrays is None:
            arrays = kinds.arrays(kinds.OBJECTS, view.entries(records), schema)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole_batches(runs: "Iterator[Records]") -> "Iterator[Records]":
    """Yield records by :data:`BATCH`, and at last the others."""
    keys: list[bytes] = []
    packed: list[bytes] = []
    for more_keys, more_packed in runs:
        keys += more_keys
        packed += more_packed
        while len(keys) >= BATCH:
            yield keys[:BATCH], packed[:BATCH]
            keys, packed = keys[BATCH:], packed[BATCH:]
    if keys:
        yield keys, packed


def _in_groups(rows: Iterator[T]) -> Iterator[Sequence[T]]:
    while group := [*islice(rows, BATCH)]:
        yield group


def _pages(
    page_after: Callable[[str], Page[T]], after: str = "", upto: str = "", path: Callable[[T], str] | None = None
) -> Iterator[Sequence[T]]:
    """Yield the results of each page, up to the first whose path is greater than ``upto``."""
    position: str | None = after
    last = utf8("path", upto)
    while position is not None:
        page = page_after(position)
        results, position = page.results, page.next_after
        if upto and path is not None and results and path(results[-1]).encode() > last:
            results = tuple(row for row in results if path(row).encode() <= last)
            position = None
        yield results


def _path(row: ObjectEntry | CommonPrefix | Change) -> str:
    return row.path
