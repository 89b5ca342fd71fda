"""Operations beyond lakeFS's API: merge previews, sums, the last commit of each object, the state of a repository."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict, replace

from graveler import model
from graveler.api.call import Call
from graveler.api.difference_pages import DiffQuery, committed_diff
from graveler.api.errors import bad_request
from graveler.api.immutable_responses import MAY_CHANGE
from graveler.api.queries import DEFAULT_AMOUNT, Amount, PageQuery, Query, RequiredText, Seconds
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.lake.reading.summary import MOST_SORTED, Summary, SummaryBounds
from graveler.model import (
    Annotations,
    CommonPrefix,
    Conflict,
    MergeStrategies,
    MergeStrategy,
    ObjectEntry,
    Page,
    TableMerge,
    Totals,
)
from graveler.requests.base import Permission
from graveler.wire.difference_documents import (
    Annotation,
    AnnotationList,
    ConflictDocument,
    MergePreview,
    ObjectVersion,
    SummaryDocument,
    SummaryOrder,
    SummaryPartDocument,
    UsageDocument,
    UsagePartDocument,
)
from graveler.wire.documents import SAYS_COMMIT, Commit, Pagination, commit_document, commit_headers, pagination
from graveler.wire.error_documents import Error
from graveler.wire.refs import IsolationName, StrategyName
from graveler.wire.upkeep_documents import FsckFinding, FsckSummary

routes = Routes("insight")


class PreviewQuery(DiffQuery, frozen=True, kw_only=True):
    """The part of a merge to list, and the strategy that would decide conflicts. ``left`` is the destination, ``right`` the
    source."""

    strategy: StrategyName = ""
    isolation: Annotated[
        IsolationName,
        Meta(description="the isolation level of Iceberg tables that both sides changed; empty for their own"),
    ] = ""
    list: Annotated[
        Literal["conflicts", "changes", "prefixes"],
        Meta(
            description="`conflicts`; `changes` to the destination, with conflicts among them; or the totals of the changes in "
            "common `prefixes`, for which a delimiter is needed"
        ),
    ] = "conflicts"
    totals: Annotated[
        bool,
        Meta(description="with `list=conflicts`: also count all changes and conflicts, for which all are looked at"),
    ] = True
    commits: Annotated[
        bool, Meta(description="with `list=conflicts`: also find the last commit that changed each one, on both sides")
    ] = False
    within: Annotated[Seconds, Meta(description="time for finding the commits of each side")] = 5.0


class SummaryQuery(Query, frozen=True, kw_only=True):
    """The objects to sum up; with a ``delimiter`` also by common prefix."""

    prefix: str = ""
    delimiter: str = ""


class DifferenceSumQuery(SummaryQuery, frozen=True, kw_only=True):
    """The differences to sum up, and how many of them."""

    after: Annotated[
        str, Meta(description="with `amount`: only prefixes after this: the `next_offset` of the page before")
    ] = ""
    amount: Annotated[
        Amount | None,
        Meta(description="with a `delimiter`: a page of so many common prefixes, and its total; 0 and -1 mean 100"),
    ] = None
    sort: Annotated[
        SummaryOrder,
        Meta(
            description="with `amount`: `bytes` returns the prefixes with the most bytes first, if there are at most "
            f"{MOST_SORTED:,}; the response says how it is sorted"
        ),
    ] = "path"
    most: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            description="without `amount`: look at so many differences at most, of uncommitted changes at so many staged ones; "
            "if there are others, the response has `more`"
        ),
    ] = None

    @property
    def bounds(self) -> SummaryBounds:
        """The part of the summary that is asked for."""
        amount = DEFAULT_AMOUNT if self.amount is not None and self.amount < 1 else self.amount
        return SummaryBounds(self.after, amount, self.sort == "bytes", self.most)


class SummaryRefsQuery(DifferenceSumQuery, frozen=True, kw_only=True):
    """The differences to sum up, with the types of the list of differences."""

    type: Literal["two_dot", "three_dot"] = "three_dot"


class BlameQuery(Query, frozen=True, kw_only=True):
    """The object."""

    path: RequiredText


class AnnotateQuery(PageQuery, frozen=True, kw_only=True):
    """The objects, and the time for finding their commits."""

    delimiter: str = ""
    within: Annotated[
        Seconds | None,
        Meta(description="time for finding commits; entries whose commit takes longer have `commit: null`"),
    ] = None
    next: Annotated[
        str, Meta(description="only with `within`: the `next` of an earlier response, whose missing commits are wanted")
    ] = ""


class FsckQuery(Query, frozen=True, kw_only=True):
    """``objects``: also check that the objects of all commits exist; ``bytes``: read and compare all of them."""

    objects: bool = False
    bytes: bool = False


@routes.get(
    "/repositories/{repository}/refs/{source}/merge/{destination}/preview",
    "previewMerge",
    Permission.READ,
    function="diff",
    responses={200: MergePreview, 400: Error, 404: Error},
    scans=True,
)
def preview_merge(call: Call, repository: str, source: str, destination: str, query: PreviewQuery) -> Response:
    """Show what a merge would do, with every conflict, without changing anything."""
    opened = call.lake.repository(repository)
    merge = opened.previewed_merge(
        source, destination, MergeStrategies(MergeStrategy(query.strategy), isolation=query.isolation or UNSET)
    )
    base_id, source_id, destination_id = merge.base.id, merge.source.id, merge.destination.id
    if query.list == "changes":
        changes = merge.changes(prefix=query.prefix, after=query.after, delimiter=query.delimiter, amount=query.limit)
        diffs = [committed_diff(item.change, query, conflict=item.in_conflict) for item in changes.results]
        return json_response(MergePreview(base_id, pagination(changes), [], source_id, destination_id, changes=diffs))
    if query.list == "prefixes":
        bounds = SummaryBounds(query.after, query.limit)
        summary = merge.summary(prefix=query.prefix, delimiter=query.delimiter, bounds=bounds)
        prefixes = _parts(summary)
        return json_response(
            MergePreview(base_id, _pagination(summary), [], source_id, destination_id, summary.total, prefixes=prefixes)
        )
    totals: Totals | UnsetType = UNSET
    number: int | UnsetType = UNSET
    tables: list[TableMerge] | UnsetType = UNSET
    if query.totals:
        whole = merge.whole()
        totals, number = whole.totals, len(whole.conflicts)
        tables = [*whole.tables] or UNSET
        after = query.after.encode()
        remaining = [c for c in whole.conflicts if c.path.startswith(query.prefix) and c.path.encode() > after]
        shown = tuple(remaining[: query.limit])
        page = Page(shown, shown[-1].path if len(remaining) > len(shown) else None)
    else:
        page = merge.conflicts(prefix=query.prefix, after=query.after, amount=query.limit)
    conflicts = [_conflict(conflict) for conflict in page.results]
    if query.commits:
        paths = [conflict.path for conflict in page.results]
        of_source = opened.last_changes_within(source_id, paths, query.within)
        of_destination = opened.last_changes_within(destination_id, paths, query.within)
        conflicts = [
            replace(conflict, source_commit=_commit(theirs), destination_commit=_commit(ours))
            for conflict, theirs, ours in zip(conflicts, of_source, of_destination, strict=True)
        ]
    return json_response(
        MergePreview(base_id, pagination(page), conflicts, source_id, destination_id, totals, number, tables=tables)
    )


@routes.get(
    "/repositories/{repository}/refs/{left}/diff/{right}/summary",
    "diffRefsSummary",
    Permission.READ,
    function="diff",
    responses={200: SummaryDocument, 400: Error, 404: Error},
    scans=True,
    lasts=True,
)
def diff_refs_summary(call: Call, repository: str, left: str, right: str, query: SummaryRefsQuery) -> Response:
    """Summarize the differences between two refs."""
    opened = call.lake.repository(repository)
    sum_up = opened.diff_summary if query.type == "two_dot" else opened.compare_summary
    return _summary(query, sum_up(left, right, prefix=query.prefix, delimiter=query.delimiter, bounds=query.bounds))


@routes.get(
    "/repositories/{repository}/branches/{branch}/diff/summary",
    "diffBranchSummary",
    Permission.READ,
    function="diff",
    responses={200: SummaryDocument, 400: Error, 404: Error},
    scans=True,
)
def diff_branch_summary(call: Call, repository: str, branch: str, query: DifferenceSumQuery) -> Response:
    """Summarize uncommitted changes."""
    opened = call.lake.repository(repository)
    of_branch = {"prefix": query.prefix, "delimiter": query.delimiter}
    return _summary(query, opened.uncommitted_summary(branch, **of_branch, bounds=query.bounds))


@routes.get(
    "/repositories/{repository}/refs/{ref}/usage",
    "getUsage",
    Permission.READ,
    function="diff",
    responses={200: UsageDocument, 400: Error, 404: Error},
    scans=True,
    lasts=True,
)
def get_usage(call: Call, repository: str, ref: str, query: SummaryQuery) -> Response:
    """Count objects and bytes."""
    usage = call.lake.repository(repository).du(ref, query.prefix, query.delimiter)
    parts = [UsagePartDocument(part.path, part.objects, part.size) for part in usage.parts]
    return json_response(UsageDocument(usage.objects, usage.size, parts))


@routes.get(
    "/repositories/{repository}/refs/{ref}/blame",
    "blameObject",
    Permission.READ,
    function="diff",
    responses={200: Commit, 400: Error, 404: Error},
    scans=True,
    lasts=True,
)
def blame_object(call: Call, repository: str, ref: str, query: BlameQuery) -> Response:
    """Find the last commit that changed an object."""
    return json_response(commit_document(call.lake.repository(repository).blame(ref, query.path)))


@routes.get(
    "/repositories/{repository}/refs/{ref}/annotate",
    "annotateObjects",
    Permission.READ,
    function="diff",
    responses={200: AnnotationList, 400: Error, 404: Error},
    response_headers=SAYS_COMMIT,
    scans=True,
    lasts=True,
)
def annotate_objects(call: Call, repository: str, ref: str, query: AnnotateQuery) -> Response:
    """List objects, each with the last commit that changed it."""
    opened = call.lake.repository(repository)
    listing: dict[str, Any] = {"prefix": query.prefix, "after": query.after, "delimiter": query.delimiter}
    listing["amount"] = query.limit
    if query.within is not None:
        annotations = opened.annotate_within(ref, query.within, **listing, position=query.next)
    elif query.next:
        raise bad_request("query parameter next needs within, as in the request that returned it")
    else:
        whole = opened.annotate(ref, **listing)
        annotations = Annotations(Page((*whole.results,), whole.next_after, whole.commits))
    page = annotations.page
    documents = [
        Annotation(
            entry.path,
            "common_prefix" if isinstance(entry, CommonPrefix) else "object",
            None if commit is None else commit_document(commit),
            UNSET if isinstance(entry, CommonPrefix) else entry.size,
        )
        for entry, commit in page.results
    ]
    document = AnnotationList(pagination(page), documents, annotations.position or UNSET)
    incomplete = MAY_CHANGE if annotations.position else {}
    return json_response(document, headers={**commit_headers(page), **incomplete})


@routes.get(
    "/repositories/{repository}/fsck",
    "checkRepository",
    Permission.ADMIN,
    function="diff",
    responses={200: FsckSummary, 404: Error},
    scans=True,
)
def check_repository(call: Call, repository: str, query: FsckQuery) -> Response:
    """Check everything reachable in a repository, and summarize what is wrong. There is no time limit."""
    report = call.lake.fsck(repository, committed_objects=query.objects, object_bytes=query.bytes)
    findings = report.findings
    return json_response(
        FsckSummary(
            report.clean,
            len(findings),
            asdict(report.counts),
            asdict(report.garbage),
            [
                FsckFinding(
                    finding.kind.value, finding.what, finding.why, finding.remedy, [ref.name for ref in finding.refs]
                )
                for finding in findings[:100]
            ],
            report.scope,
        )
    )


def _summary(query: DifferenceSumQuery, summary: Summary) -> Response:
    more: Literal[True] | UnsetType = True if summary.more else UNSET
    if query.amount is None:
        return json_response(SummaryDocument(summary.total, _parts(summary), more=more))
    order: SummaryOrder = "bytes" if summary.by_bytes else "path"
    return json_response(SummaryDocument(summary.total, _parts(summary), _pagination(summary), order, more))


def _parts(summary: Summary) -> list[SummaryPartDocument]:
    return [SummaryPartDocument(part.path, part.totals) for part in summary.parts]


def _pagination(summary: Summary) -> Pagination:
    return Pagination(summary.next_after is not None, summary.next_after or "", len(summary.parts))


def _commit(commit: model.Commit | None) -> Commit | None:
    return None if commit is None else commit_document(commit)


def _conflict(conflict: Conflict) -> ConflictDocument:
    return ConflictDocument(
        conflict.path, _version(conflict.base), _version(conflict.source), _version(conflict.destination)
    )


def _version(entry: ObjectEntry | None) -> ObjectVersion | None:
    return None if entry is None else ObjectVersion(entry.checksum, entry.size, entry.mtime)
