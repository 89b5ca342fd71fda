"""Differences as documents, both committed and uncommitted.

A three-dot difference is what merging right into left would bring: changes that left has already are omitted, and an object that
both changed differently is a ``conflict``. Both are decided for the objects of one page, by looking them up in left.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeVar

from msgspec import UNSET

from graveler.api.queries import PageQuery
from graveler.api.response import Response, json_response
from graveler.lake.repository import OpenRepository
from graveler.model import Change, ChangeOutline, ChangeType, ObjectEntry, Page
from graveler.wire.difference_documents import Diff, DiffLeftStat, DiffList, DiffObjectStat, DiffType
from graveler.wire.documents import Pagination, commit_headers, pagination

T = TypeVar("T")
_PREFIX_CHANGED: Final = "prefix_changed"
_KINDS: Final[Mapping[ChangeType, DiffType]] = {
    ChangeType.ADDED: "added",
    ChangeType.REMOVED: "removed",
    ChangeType.CHANGED: "changed",
    ChangeType.PREFIX_CHANGED: _PREFIX_CHANGED,
}


class DiffQuery(PageQuery, frozen=True, kw_only=True):
    """The differences to list; a ``delimiter`` rolls up those that share a common prefix. ``include_left_stats``,
    ``include_right_stats``: describe the object on that side."""

    delimiter: str = ""
    include_left_stats: bool = False
    include_right_stats: bool = False

    @property
    def has_stats(self) -> bool:
        """True if objects are to be described."""
        return self.include_left_stats or self.include_right_stats


def diff_list(page: Page[T], render: Callable[[T], Diff | None]) -> DiffList:
    """Return a page of changes, without those for which ``render`` returns None."""
    shown = [diff for change in page.results if (diff := render(change)) is not None]
    whole = pagination(page)
    return DiffList(Pagination(whole.has_more, whole.next_offset, len(shown)), shown)


def _uncommitted_diff(change: ChangeOutline) -> Diff:
    if change.type is ChangeType.PREFIX_CHANGED:
        return Diff(_PREFIX_CHANGED, change.path, "common_prefix")
    return Diff(_KINDS[change.type], change.path, "object", change.size_after or 0)


def outlined_diff(change: ChangeOutline) -> Diff:
    """Return a difference between two commits, as :func:`committed_diff` without options."""
    if change.type is ChangeType.PREFIX_CHANGED:
        return Diff(_PREFIX_CHANGED, change.path, "common_prefix")
    size = change.size_before if change.size_after is None else change.size_after
    return Diff(_KINDS[change.type], change.path, "object", UNSET if size is None else size)


def committed_diff(change: Change, query: DiffQuery, *, conflict: bool = False) -> Diff:
    """Return a difference between two commits, with the objects on the sides that the query wants described."""
    before, after = change.before, change.after
    entry = after or before
    return Diff(
        "conflict" if conflict else _KINDS[change.type],
        change.path,
        _path_type(change),
        UNSET if entry is None else entry.size,
        DiffObjectStat(after.checksum, after.mtime, after.content_type, after.metadata)
        if query.include_right_stats and after is not None
        else UNSET,
        DiffLeftStat(before.checksum, before.mtime, before.content_type, before.metadata, before.size)
        if query.include_left_stats and before is not None
        else UNSET,
    )


def uncommitted_page(opened: OpenRepository, branch: str, query: DiffQuery) -> Response:
    """Return the response with a page of uncommitted changes. A removed object has size 0, as clients expect, without stats."""
    place = {"prefix": query.prefix, "after": query.after, "delimiter": query.delimiter}
    if not query.has_stats:
        outlines = opened.uncommitted_outline(branch, **place, amount=query.limit)
        return json_response(diff_list(outlines, _uncommitted_diff), headers=commit_headers(outlines))
    page = opened.uncommitted(branch, **place, amount=query.limit)
    return json_response(diff_list(page, lambda change: committed_diff(change, query)), headers=commit_headers(page))


def against(opened: OpenRepository, page: Page[Change]) -> Callable[[Change], bool | None]:
    """Return a function that tells whether a change on a page of :meth:`OpenRepository.compare`, made by right since the base,
    conflicts with left; None if left has it already. Cost: finding the base (done just before, so without requests), and unless
    left is the base, one table read, one metarange and the ranges that hold the page's objects."""
    left_id, right_id = page.commits
    if opened.base_of(left_id, right_id) == left_id:
        return lambda _: False
    paths = [change.path for change in page.results if change.type is not ChangeType.PREFIX_CHANGED]
    current = dict(zip(paths, opened.stat_many(left_id, paths), strict=True))

    def judge(change: Change) -> bool | None:
        if change.type is ChangeType.PREFIX_CHANGED:
            return False
        identity = _identity(current[change.path])
        if identity == _identity(change.after):
            return None
        return identity != _identity(change.before)

    return judge


def _identity(entry: ObjectEntry | None) -> tuple[object, ...] | None:
    """Return what identifies an object in merges."""
    return None if entry is None else (entry.size, entry.checksum, entry.content_type, dict(entry.metadata))


def _path_type(change: Change) -> Literal["object", "common_prefix"]:
    return "common_prefix" if change.type is ChangeType.PREFIX_CHANGED else "object"
