"""A repository's tables, as streams of record batches. Each function takes a repository, in this process or behind a
server, and returns a :class:`pyarrow.RecordBatchReader` that reads as it is consumed.

Where paths are listed, ``keys`` are key ranges that hold those to list: they ascend and do not overlap. Of an own lake only the
ranges that hold such paths are opened.
``columns`` chooses columns of the schema, in its order. Refs are resolved when the function is called, so that it raises
:class:`~graveler.errors.RefNotFoundError`; other errors come as batches are read. Each reader is for one thread at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from graveler.errors import InvalidError
from graveler.lake.reading.reader import RepositoryReader
from graveler.lake.reading.view import View
from graveler.model import Change, Commit, CommitID, CommonPrefix, ObjectEntry, Page
from graveler.sql.arrow import columns as kinds
from graveler.sql.arrow import schemas
from graveler.sql.arrow.blame import blame_batches
from graveler.sql.arrow.differences import difference_batches
from graveler.sql.arrow.objects import object_batches
from graveler.tree.key_range import KeyRange

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyLake, AnyRepository
    from graveler.remote.reading import RemoteView
    from graveler.tree.diff import Difference
    from graveler.tree.record import RecordCodec

T = TypeVar("T")

EVERYTHING: Final = (KeyRange(),)
_HIGHEST: Final = "\U0010ffff"
BATCH: Final = 16_384
"""Rows of a batch, at most."""
_PAGE: Final = 1000
_REFLOG: Final = 1_000_000


def objects(
    repository: "AnyRepository",
    ref: str,
    *,
    keys: Sequence[KeyRange] = EVERYTHING,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """Return the objects of a ref, as :data:`~graveler.sql.arrow.schemas.OBJECTS`; of a branch's name with its uncommitted
    changes.

    All rows are of one state, which of a branch must be read in 10 minutes (:class:`~graveler.errors.PreconditionError`); behind
    a server that knows no states each thousand of a branch is of its own time. Cost as :meth:`RepositoryReader.list_objects`,
    resolving once.
    """
    if not isinstance(repository, RepositoryReader):
        repository.commit_of(ref)  # which raises where there is none
    return objects_in(repository.view(ref), keys, columns)


def objects_in(
    view: "View | RemoteView", keys: Sequence[KeyRange] = EVERYTHING, columns: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """Return :func:`objects` of a view."""
    if isinstance(view, View):
        schema = kinds.chosen(schemas.OBJECTS, columns)
        return pa.RecordBatchReader.from_batches(schema, object_batches(view, keys, schema))
    pages = _pages_in(keys, lambda prefix, after: view.list_objects(prefix=prefix, after=after, amount=_PAGE), _path)
    return kinds.batches(kinds.OBJECTS, pages, columns)


def diff(
    repository: "AnyRepository",
    ref: str,
    other: str,
    *,
    keys: Sequence[KeyRange] = EVERYTHING,
    three_dot: bool = False,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """Return what turns the commit of ``ref`` into that of ``other``, as :data:`~graveler.sql.arrow.schemas.DIFF`; with
    ``three_dot`` what ``other`` changed since their common base. Cost as :meth:`RepositoryReader.diff`, or ``compare``."""
    left_id, right_id = repository.commit_of(ref).id, repository.commit_of(other).id
    if three_dot:
        base = repository.merge_base(left_id, right_id)
        if base is None:
            raise InvalidError(f"{ref!r} and {other!r} have no common history; compare them with two dots instead")
        left_id = base.id
    if isinstance(repository, RepositoryReader):
        return _differences(repository.codec, repository.all_differences(left_id, right_id, keys), columns)
    pages = _pages_in(
        keys, lambda prefix, after: repository.diff(left_id, right_id, prefix=prefix, after=after, amount=_PAGE), _path
    )
    return kinds.batches(kinds.DIFF, pages, columns)


def staged(
    repository: "AnyRepository",
    branch: str,
    *,
    keys: Sequence[KeyRange] = EVERYTHING,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """Return a branch's uncommitted changes, as :data:`~graveler.sql.arrow.schemas.STAGED`.

    All are relative to one commit, and must be read in 10 minutes (:class:`~graveler.errors.PreconditionError`); behind a server
    each thousand is of its own time. Cost as :meth:`RepositoryReader.uncommitted`."""
    if isinstance(repository, RepositoryReader):
        return staged_in(repository.view_of_branch(branch), keys, columns)
    pages = _pages_in(
        keys, lambda prefix, after: repository.uncommitted(branch, prefix=prefix, after=after, amount=_PAGE), _path
    )
    return kinds.batches(kinds.DIFF, pages, columns)


def staged_in(
    view: View, keys: Sequence[KeyRange] = EVERYTHING, columns: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """Return :func:`staged` of a view of a branch."""
    return _differences(view.codec, chain.from_iterable(map(view.changes, keys)), columns)


def _differences(
    codec: "RecordCodec", differences: "Iterator[Difference]", columns: Sequence[str] | None
) -> pa.RecordBatchReader:
    schema = kinds.chosen(schemas.DIFF, columns)
    return pa.RecordBatchReader.from_batches(schema, difference_batches(codec, differences, schema))


def blame(
    repository: "AnyRepository",
    ref: str,
    *,
    keys: Sequence[KeyRange] = EVERYTHING,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """Return the objects of the commit of ``ref``, each with the last commit that changed it, as
    :data:`~graveler.sql.arrow.schemas.BLAME`. Cost as :meth:`RepositoryReader.annotate`: a walk of the history for some 130,000
    objects, behind a server for each thousand."""
    commit = repository.commit_of(ref).id
    if isinstance(repository, RepositoryReader):
        schema = kinds.chosen(schemas.BLAME, columns)
        return pa.RecordBatchReader.from_batches(schema, blame_batches(repository, commit, keys, schema))
    pages = _pages_in(
        keys,
        lambda prefix, after: repository.annotate(commit, prefix=prefix, after=after, amount=_PAGE),
        lambda row: row[0].path,
    )
    return kinds.batches(kinds.BLAME, pages, columns)


def commits(
    repository: "AnyRepository", ref: str, *, first_parent: bool = False, columns: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """Return the commits that a ref reaches, newest first, as :data:`~graveler.sql.arrow.schemas.COMMITS`. Cost as
    :meth:`RepositoryReader.log`."""
    start = repository.commit_of(ref).id

    def page(position: str) -> Page[Commit]:
        after = CommitID(position) if position else None
        return repository.log(start, after=after, amount=_PAGE, first_parent=first_parent)

    return kinds.batches(kinds.COMMITS, _pages(page), columns)


def branches(
    repository: "AnyRepository", *, show_hidden: bool = False, columns: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """Return the branches by name, as :data:`~graveler.sql.arrow.schemas.BRANCHES`. Cost as :meth:`RepositoryReader.branches` per
    thousand."""
    return kinds.batches(
        kinds.BRANCHES,
        _pages(lambda position: repository.branches("", position, _PAGE, show_hidden=show_hidden)),
        columns,
    )


def tags(repository: "AnyRepository", *, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """Return the tags by name, as :data:`~graveler.sql.arrow.schemas.TAGS`. Cost as :meth:`RepositoryReader.tags`."""
    return kinds.batches(kinds.TAGS, _pages(lambda position: repository.tags("", position, _PAGE)), columns)


def repositories(lake: "AnyLake", *, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """Return a lake's repositories by name, as :data:`~graveler.sql.arrow.schemas.REPOSITORIES`. Cost: a read per thousand."""
    return kinds.batches(kinds.REPOSITORIES, _pages(lambda position: lake.repositories("", position, _PAGE)), columns)


def reflog(repository: "AnyRepository", branch: str, *, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """Return what moved a branch, newest first, as :data:`~graveler.sql.arrow.schemas.REFLOG`; behind a server at most the last
    thousand moves. All are read at once. Cost as :meth:`RepositoryReader.reflog`. :class:`~graveler.errors.RefNotFoundError` for
    a branch that does not exist and left no moves."""
    entries = repository.reflog(branch, _REFLOG)
    if not entries:
        repository.branch(branch)
    return kinds.batches(kinds.REFLOG, _in_groups(iter(entries)), columns)


def _in_groups(rows: Iterator[T]) -> Iterator[Sequence[T]]:
    while group := [*islice(rows, BATCH)]:
        yield group


def _pages(page_after: Callable[[str], Page[T]]) -> Iterator[Sequence[T]]:
    """Yield the results of each page."""
    position: str | None = ""
    while position is not None:
        page = page_after(position)
        yield page.results
        position = page.next_after


def _page_from(page_after: Callable[[str, str], Page[T]], prefix: str, begin: str, after: str) -> Page[T]:
    return page_after(prefix, after or begin)


def _pages_in(
    key_ranges: Iterable[KeyRange], page_after: Callable[[str, str], Page[T]], path_of: Callable[[T], str]
) -> Iterator[Sequence[T]]:
    """Yield the results with a path in the key ranges, of a listing that takes a prefix and a position."""
    for keys in key_ranges:
        prefix, begin = _text(_common(keys)), _just_before(keys.start)
        for results in _pages(partial(_page_from, page_after, prefix, begin)):
            inside = [
                row
                for row in results
                if (key := path_of(row).encode()) >= keys.start and (keys.end is None or key < keys.end)
            ]
            yield inside
            if len(inside) < len(results) and keys.end is not None and path_of(results[-1]).encode() >= keys.end:
                break


def _common(keys: KeyRange) -> bytes:
    """Return the longest beginning that all keys of a range have."""
    if keys.end is None:
        return b""
    length = 0
    for octet, other in zip(keys.start, keys.end, strict=False):
        if octet != other:
            break
        length += 1
    shorter = keys.start[:length]
    # The range of a prefix ends with the next prefix of the same length.
    whole = KeyRange.of_prefix(keys.start)
    return keys.start if keys.start and whole.end is not None and keys.end <= whole.end else shorter


def _text(start: bytes) -> str:
    """Return the longest beginning that is whole characters, or less."""
    for length in range(len(start), max(len(start) - 4, 0), -1):
        try:
            return start[:length].decode()
        except UnicodeDecodeError:
            continue
    return ""


def _just_before(start: bytes) -> str:
    """Return a position below ``start`` with next to nothing between, as listings begin behind a position."""
    text = _text(start)
    if not text or text.encode() != start:
        return text  # below, as it is a beginning
    last = ord(text[-1])
    if not last:
        return text[:-1]
    below = 0xD7FF if last == 0xE000 else last - 1  # no character of UTF-8 lies between
    return text[:-1] + chr(below) + _HIGHEST


def _path(row: ObjectEntry | CommonPrefix | Change) -> str:
    return row.path
