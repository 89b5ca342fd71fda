"""Documents about differences: between refs, of uncommitted changes, and as totals."""

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from graveler.lake.reading.summary import Summary, SummaryPart, Usage, UsagePart
from graveler.model import Conflict, ObjectEntry, TableMerge, Totals
from graveler.wire.documents import Commit, Pagination


class DiffObjectStat(Struct, frozen=True):
    """The properties of an object on the right side. ``mtime`` is in Unix seconds."""

    checksum: str
    mtime: int
    content_type: str
    metadata: Mapping[str, str]


class DiffLeftStat(DiffObjectStat, frozen=True):
    """The properties of an object on the left side, with its size there."""

    size_bytes: int


DiffType = Literal["added", "removed", "changed", "conflict", "prefix_changed"]


class Diff(Struct, frozen=True):
    """One difference. A common prefix, which stands for many objects, has no ``size_bytes``."""

    type: DiffType
    path: str
    path_type: Literal["object", "common_prefix"]
    size_bytes: int | UnsetType = UNSET
    right: DiffObjectStat | UnsetType = UNSET
    before: DiffLeftStat | UnsetType = field(default=UNSET, name="left")


class DiffList(Struct, frozen=True):
    """A page of differences."""

    pagination: Pagination
    results: list[Diff]


class ObjectVersion(Struct, frozen=True):
    """An object's version on one side. ``mtime`` is in Unix seconds."""

    checksum: str
    size_bytes: int
    mtime: int


class ConflictDocument(Struct, frozen=True):
    """An object that both sides changed differently. A side that does not have the object is null. With ``commits``, the last
    commit that changed it on each side, or removed it; null if that was not found within the time."""

    path: str
    base: ObjectVersion | None
    source: ObjectVersion | None
    destination: ObjectVersion | None
    source_commit: Commit | UnsetType | None = UNSET
    destination_commit: Commit | UnsetType | None = UNSET

    def value(self) -> Conflict:
        """Return it as the lake's own conflict. The addresses of the versions' bytes are not included."""
        return Conflict(
            self.path,
            _entry(self.path, self.base),
            _entry(self.path, self.source),
            _entry(self.path, self.destination),
        )


def _entry(path: str, version: ObjectVersion | None) -> ObjectEntry | None:
    return None if version is None else ObjectEntry(path, "", version.size_bytes, version.checksum, version.mtime)


SummaryOrder = Literal["path", "bytes"]


class SummaryPartDocument(Struct, frozen=True):
    """The totals of the differences under one common prefix."""

    path: str
    totals: Totals


class MergePreview(Struct, frozen=True):
    """The effect of a merge: the commits that were looked at, the totals of its changes to the destination and the number of its
    conflicts (without ``totals=false``), and a page: of its conflicts (``results``), its ``changes`` or ``prefixes``. With the
    totals also the Iceberg ``tables`` that both sides changed, if there are any."""

    base_commit_id: str
    pagination: Pagination
    results: list[ConflictDocument]
    source_commit_id: str = ""
    destination_commit_id: str = ""
    totals: Totals | UnsetType = UNSET
    conflicts: int | UnsetType = UNSET
    changes: list[Diff] | UnsetType = UNSET
    prefixes: list[SummaryPartDocument] | UnsetType = UNSET
    tables: list[TableMerge] | UnsetType = UNSET


class SummaryDocument(Struct, frozen=True):
    """The totals of a difference: objects and bytes, overall and by common prefix. With ``amount``, overall is of the page, which
    has a ``pagination``, and says how its common prefixes are sorted. ``more`` is there if ``most`` ended the sum."""

    total: Totals
    results: list[SummaryPartDocument]
    pagination: Pagination | UnsetType = UNSET
    sort: SummaryOrder | UnsetType = UNSET
    more: Literal[True] | UnsetType = UNSET

    def value(self) -> Summary:
        """Return it as the lake's own summary."""
        return Summary(
            self.total,
            tuple(SummaryPart(part.path, part.totals) for part in self.results),
            None if self.pagination is UNSET else self.pagination.next_after,
            self.sort == "bytes",
            self.more is True,
        )


class UsagePartDocument(Struct, frozen=True):
    """The number of objects under one common prefix, and their bytes."""

    path: str
    objects: int
    size_bytes: int


class UsageDocument(Struct, frozen=True):
    """The number of objects and their bytes, in total and by common prefix."""

    objects: int
    size_bytes: int
    results: list[UsagePartDocument]

    def value(self) -> Usage:
        """Return it as the lake's own sums."""
        parts = tuple(UsagePart(part.path, part.objects, part.size_bytes) for part in self.results)
        return Usage(self.objects, self.size_bytes, parts)


class Annotation(Struct, frozen=True):
    """A listed object or common prefix, and the last commit that changed it; null if that was not found within the time."""

    path: str
    path_type: Literal["object", "common_prefix"]
    commit: Commit | None
    size_bytes: int | UnsetType = UNSET


class AnnotationList(Struct, frozen=True):
    """A page of objects and prefixes with their last commits. ``next`` is there if some were not found within the time: the same
    request with it returns these entries again."""

    pagination: Pagination
    results: list[Annotation]
    next: str | UnsetType = UNSET
