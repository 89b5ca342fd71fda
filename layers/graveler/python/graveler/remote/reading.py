"""The read-only half of a remote repository's verbs."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import UNSET

from graveler.errors import InvalidError, ObjectNotFoundError
from graveler.lake.objects.verification import OpenedObject
from graveler.model import (
    Annotations,
    Branch,
    Change,
    ChangeType,
    Commit,
    CommitID,
    CommonPrefix,
    DetailedRef,
    MergePreview,
    MergeStrategies,
    MergeStrategy,
    ObjectEntry,
    Page,
    RefDescription,
    RefSelection,
    Repository,
    RetentionRules,
    Rules,
    Settings,
    Status,
    TableMerge,
    Tag,
    Totals,
)
from graveler.remote.connection import PAGE, Connection, Query, branch_path
from graveler.remote.error_responses import refusal
from graveler.remote.gates import RemoteGates
from graveler.remote.named_tables import decided_table, expect_tables_of_preview
from graveler.remote.queries import bounds_query, page_query, selection_query
from graveler.remote.transfers import Transfers
from graveler.system.forks import new_lock
from graveler.values.merge_strategies import strategy_for
from graveler.wire import (
    difference_documents,
    documents,
    object_documents,
    refs,
    repository_documents,
    status_documents,
)
from graveler.wire.config_documents import MERGE_ISOLATION
from graveler.wire.error_documents import NO_COMMON_HISTORY_CODE, NO_RULES_CODE, UNKNOWN_ROUTE_CODE, Error

if TYPE_CHECKING:
    from graveler.history.reflog import LogEntry
    from graveler.lake.reading.summary import Summary, SummaryBounds, Usage


class RemoteReader:
    """The read operations of a repository behind the HTTP API. Verbs and errors are those of
    :class:`graveler.lake.reading.reader.RepositoryReader`. Each is one request unless stated otherwise. Creating it sends no
    request: the first verb reports a repository that does not exist."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._base = ("repositories", name)
        self._transfers = Transfers(connection, name)

    @property
    def connection(self) -> Connection:
        """The connection that sends its requests. No request."""
        return self._connection

    @property
    def repository(self) -> Repository:
        """The repository with its current settings. Cost: six requests."""
        document = self._connection.get(self._base, documents.Repository)
        return document.value(
            Settings(
                document.read_only,
                self.metadata(),
                self.protection()[0],
                self.retention(),
                self._import_sources(),
                self.rules(),
            )
        )

    def metadata(self) -> Mapping[str, str]:
        """Return the repository's metadata."""
        return self._connection.get((*self._base, "metadata"), dict[str, str])

    def protection(self) -> tuple[tuple[str, ...], str]:
        """Return the patterns of protected branches, and their etag."""
        response = self._connection.call("GET", (*self._base, "settings", "branch_protection"))
        rules = response.read(list[repository_documents.ProtectionRule])
        return tuple(rule.pattern for rule in rules), response.headers.get("etag", "").strip('"')

    def retention(self) -> RetentionRules | None:
        """Return the retention rules, or None if none are set."""
        response = self._connection.call("GET", (*self._base, "settings", "gc_rules"), passing=(404,))
        if response.status == 404:
            document = response.read(Error)
            if document.code == NO_RULES_CODE:
                return None
            raise refusal(404, document, f"reading the retention rules of {self._name!r}")
        return response.read(repository_documents.GCRules).value()

    def rules(self) -> Rules:
        """Return the rules of branches and tags. A server that is older than rules has none: it does not open a repository with
        some."""
        response = self._connection.call("GET", (*self._base, "settings", "rules"), passing=(404,))
        if response.status != 404:
            return response.read(Rules)
        refused = response.read(Error)
        if refused.code == UNKNOWN_ROUTE_CODE:
            return Rules()
        raise refusal(404, refused, f"reading the rules of {self._name!r}")

    @property
    def gates(self) -> RemoteGates:
        """The reads about what rules let pass. No request."""
        return RemoteGates(self._connection, self._name)

    def _import_sources(self) -> tuple[str, ...] | None:
        prefixes = self._connection.get(
            (*self._base, "settings", "import_sources"), repository_documents.ImportSources
        ).prefixes
        return None if prefixes is None else tuple(prefixes)

    # Refs

    def commit_of(self, ref: str) -> Commit:
        """Return the commit that a ref points at, without uncommitted changes."""
        return self._connection.get((*self._base, "commits", ref), documents.Commit).value()

    def statuses(self, ref: str) -> tuple[Status, ...]:
        """Return the statuses of a ref's commit and of its tree that count, in the order in which they were posted."""
        listing = self._connection.get((*self._base, "commits", ref, "statuses"), status_documents.StatusList)
        return tuple(document.value() for document in listing.results)

    def describe_ref(self, ref: str) -> RefDescription:
        """Return what a ref is, its commit, and what may be done with it."""
        return self._connection.get((*self._base, "refs", ref), refs.RefDescription).value()

    def branch(self, name: str) -> Branch:
        """Return the branch. :class:`InvalidError`, without a request, for what no branch can be called."""
        return self._connection.get(branch_path(self._base, name), documents.Ref).branch()

    def branches(
        self, prefix: str = "", after: str = "", amount: int = 100, *, show_hidden: bool = False
    ) -> Page[Branch]:
        """List branches by name. Cost: one request; with ``show_hidden`` a second one, to tell which of them are hidden."""
        query: Query = {"prefix": prefix, "after": after, "amount": min(amount, PAGE), "show_hidden": show_hidden}
        listing = self._connection.get((*self._base, "branches"), documents.RefList, query)
        visible = {ref.id for ref in listing.results}
        if show_hidden and visible:
            shown: Query = {**query, "show_hidden": False}
            visible = {
                ref.id for ref in self._connection.get((*self._base, "branches"), documents.RefList, shown).results
            }
        return Page(
            tuple(ref.branch(hidden=ref.id not in visible) for ref in listing.results), listing.pagination.next_after
        )

    def tag(self, name: str) -> Tag:
        """Return the tag."""
        return self._connection.get((*self._base, "tags", name), documents.Ref).tag()

    def tags(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Tag]:
        """List tags by name."""
        query: Query = {"prefix": prefix, "after": after, "amount": min(amount, PAGE)}
        listing = self._connection.get((*self._base, "tags"), documents.RefList, query)
        return Page(tuple(ref.tag() for ref in listing.results), listing.pagination.next_after)

    def detailed_branches(self, selection: RefSelection, *, show_hidden: bool = False) -> Page[DetailedRef]:
        """List branches with details. Cost: one request. An older server returns them without details, by name; of hidden
        branches nothing tells that they are."""
        query: Query = {**selection_query(selection), "show_hidden": show_hidden}
        page = self._connection.get((*self._base, "branches"), refs.ListedRefs, query)
        return Page(tuple(ref.detailed(ref.branch()) for ref in page.results), page.pagination.next_after)

    def detailed_tags(self, selection: RefSelection) -> Page[DetailedRef]:
        """List tags with details. Cost: one request. An older server returns them without details, by name."""
        page = self._connection.get((*self._base, "tags"), refs.ListedRefs, selection_query(selection))
        return Page(tuple(ref.detailed(ref.tag()) for ref in page.results), page.pagination.next_after)

    def reflog(self, branch: str, amount: int = 100) -> "list[LogEntry]":
        """Return what moved a branch, newest first; at most a thousand entries."""
        path = branch_path(self._base, branch, "reflog")
        return self._connection.get(path, refs.Reflog, {"amount": min(amount, PAGE)}).entries()

    # Objects

    def stat(self, ref: str, path: str) -> ObjectEntry:
        """Return an object's entry."""
        stats = self._connection.get(
            (*self._base, "refs", ref, "objects", "stat"), object_documents.ObjectStats, {"path": path}
        )
        return stats.entry()

    def stat_many(self, ref: str, paths: Sequence[str]) -> list[ObjectEntry | None]:
        """Return the entries of several objects; None for a missing one. Cost: one request per thousand, each of them of one
        state."""
        entries: dict[str, ObjectEntry] = {}
        for start in range(0, len(paths), PAGE):
            response = self._connection.call(
                "POST",
                (*self._base, "refs", ref, "objects", "stats"),
                None,
                {"paths": list(paths[start : start + PAGE])},
            )
            entries.update((stats.path, stats.entry()) for stats in response.read(object_documents.StatsOfMany).results)
        return [entries.get(path) for path in paths]

    def list_objects(
        self, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[ObjectEntry | CommonPrefix]:
        """List objects by path; with a ``delimiter``, roll up common prefixes."""
        return self.list_in_state("", ref, page_query(prefix, after, delimiter, amount))[0]

    def list_in_state(self, state: str, ref: str, query: Query) -> tuple[Page[ObjectEntry | CommonPrefix], str]:
        """List objects of the ``state`` that an earlier page had, or of the present one without; return also the page's state,
        which is empty if ``ref`` is no branch's name, or the server has no states."""
        path = (*self._base, "refs", ref, "objects", "ls")
        response = self._connection.call("GET", path, {**query, "state": state} if state else query)
        listing = response.read(object_documents.ObjectStatsList)
        page = Page(
            tuple(stats.item() for stats in listing.results),
            listing.pagination.next_after,
            documents.commits_read(response.headers),
        )
        return page, response.headers.get(documents.STATE_HEADER, "")

    def objects(self, ref: str, prefix: str = "") -> Iterator[ObjectEntry]:
        """Yield all objects whose path begins with ``prefix``. Cost: one request per thousand."""
        after: str | None = ""
        while after is not None:
            page = self.list_objects(ref, prefix=prefix, after=after, amount=PAGE)
            yield from (item for item in page.results if isinstance(item, ObjectEntry))
            after = page.next_after

    def view(self, ref: str) -> "RemoteView":
        """Return a ref for several listings, which show one state of it: see :class:`RemoteView`. No request."""
        return RemoteView(self, ref)

    def du(self, ref: str, prefix: str = "", delimiter: str = "") -> "Usage":
        """Count objects and bytes."""
        query: Query = {"prefix": prefix, "delimiter": delimiter}
        return self._connection.get(
            (*self._base, "refs", ref, "usage"), difference_documents.UsageDocument, query
        ).value()

    def signed_url(self, ref: str, entry: ObjectEntry, expires_in: int) -> str:
        """Return a URL as :meth:`native`; the server decides how long it is valid, whatever ``expires_in`` is."""
        del expires_in
        return self.native(ref, entry)

    def native(self, ref: str, entry: ObjectEntry) -> str:
        """Return a URL with which anyone may read an object's bytes, for as long as the server's settings say: the only place of
        them that a client can use by itself. Cost: one request, unless a URL that stays valid for a minute is at hand.
        :class:`UnavailableError` if its store has no such URLs."""
        return self._transfers.url(ref, entry)

    def open_file(self, ref: str, entry: ObjectEntry) -> None:
        """Return None: no object behind a server is a file here."""

    def look_at_outside_files(self, ref: str, prefix: str = "") -> None:
        """Return None: imported files are on the server's machine, whose operator checks them."""

    def stream(self, ref: str, path: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of an object, in pieces. Cost: two requests and one object read."""
        return self.bytes_in(ref, self.stat(ref, path), start, length)

    def bytes_in(
        self, ref: str, entry: ObjectEntry, start: int = 0, length: int | None = None, *, verify: bool = True
    ) -> Iterator[bytes]:
        """Yield the bytes of an object that was looked up in ``ref``. Cost: one request, unless it was read shortly before, and
        one object read. :class:`BusyError` if ``ref`` has another object there by now."""
        return self._transfers.read(ref, entry, start, length, verify=verify)

    def open_object(self, ref: str, path: str) -> OpenedObject:
        """Return an object as of now, with the functions that read it. Cost: two requests, and one object read per read. After a
        presigned URL has expired a new one is requested: :class:`BusyError` then if the object was replaced meanwhile."""
        return self.opened(ref, self.stat(ref, path))

    def opened(self, ref: str, entry: ObjectEntry) -> OpenedObject:
        """Return an object that was looked up in ``ref`` as :meth:`open_object` does. Cost: one request."""
        self._transfers.prepare(ref, entry)
        return OpenedObject(
            ref,
            entry,
            lambda start, length: self.bytes_in(ref, entry, start, length, verify=False),
            lambda: self._transfers.vouches(ref, entry),
        )

    def read(self, ref: str, path: str) -> bytes:
        """Return the whole object. Cost as :meth:`stream`."""
        return b"".join(self.stream(ref, path))

    # Differences

    def uncommitted(
        self, branch: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]:
        """List the staged changes relative to the last commit. Cost: a request, and two more to look the objects up."""
        response = self._connection.call(
            "GET", branch_path(self._base, branch, "diff"), page_query(prefix, after, delimiter, amount)
        )
        commits = documents.commits_read(response.headers)
        return self._changes(
            response.read(difference_documents.DiffList), commits[-1] if commits else f"{branch}@", branch, commits
        )

    def uncommitted_summary(
        self, branch: str, *, prefix: str = "", delimiter: str = "", bounds: "SummaryBounds | None" = None
    ) -> "Summary":
        """Summarize the staged changes."""
        path = branch_path(self._base, branch, "diff", "summary")
        query: Query = {"prefix": prefix, "delimiter": delimiter, **bounds_query(bounds)}
        return self._connection.get(path, difference_documents.SummaryDocument, query).value()

    def diff(
        self,
        left_ref: str,
        right_ref: str,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        amount: int = 100,
    ) -> Page[Change]:
        """List what turns ``left_ref`` into ``right_ref``. Cost: a request, and two more to look the objects up."""
        query: Query = {**page_query(prefix, after, delimiter, amount), "type": "two_dot"}
        response = self._connection.call("GET", (*self._base, "refs", left_ref, "diff", right_ref), query)
        commits = documents.commits_read(response.headers)
        left_id, right_id = (commits[0], commits[-1]) if commits else (left_ref, right_ref)
        return self._changes(response.read(difference_documents.DiffList), left_id, right_id, commits)

    def compare(
        self,
        left_ref: str,
        right_ref: str,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        amount: int = 100,
    ) -> Page[Change]:
        """List what ``right_ref`` changed since its merge base with ``left_ref``. Cost: as :meth:`diff`, and the request for the
        base."""
        base = self.merge_base(left_ref, right_ref)
        if base is None:
            raise InvalidError(
                f"{left_ref!r} and {right_ref!r} have no common history; compare them with two dots instead"
            )
        return self.diff(base.id, right_ref, prefix=prefix, after=after, delimiter=delimiter, amount=amount)

    def diff_summary(
        self,
        left_ref: str,
        right_ref: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        bounds: "SummaryBounds | None" = None,
    ) -> "Summary":
        """Summarize what :meth:`diff` shows."""
        return self._summary(left_ref, right_ref, prefix, delimiter, bounds, "two_dot")

    def compare_summary(
        self,
        left_ref: str,
        right_ref: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        bounds: "SummaryBounds | None" = None,
    ) -> "Summary":
        """Summarize what :meth:`compare` shows."""
        return self._summary(left_ref, right_ref, prefix, delimiter, bounds, "three_dot")

    def merge_base(self, left_ref: str, right_ref: str) -> Commit | None:
        """Return the best common ancestor of two refs. Cost: two requests; three if the name of ``right_ref`` has a slash, which
        a gateway that decodes paths would take for the end of the name."""
        end = self.commit_of(right_ref).id if "/" in right_ref else right_ref
        path = (*self._base, "refs", left_ref, "merge", end)
        response = self._connection.call("GET", path, passing=(400,))
        if response.status == 400:
            if response.read(Error).code == NO_COMMON_HISTORY_CODE:
                return None
            response = self._connection.call("GET", path)
        return self.commit_of(response.read(refs.MergeBase).base_commit_id)

    def _expect_isolation_of(self, strategies: object) -> None:
        """Raise :class:`InvalidError` if a merge by these strategies needs an isolation level that the server would ignore. One
        request, the first time, with an isolation level."""
        has_isolation = isinstance(strategies, MergeStrategies) and bool(strategies.isolation)
        if has_isolation and MERGE_ISOLATION not in self._transfers.features:
            raise InvalidError(
                "the server is older than isolation levels of merges; upgrade it, or set write.*.isolation-level of the tables"
            )

    def preview_merge(
        self, source: str, destination: str, strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE
    ) -> MergePreview:
        """Return what a merge would do, with every conflict. Cost: one request per thousand conflicts."""
        strategies = MergeStrategies(strategy) if isinstance(strategy, MergeStrategy) else strategy
        self._expect_isolation_of(strategies)
        plain = not strategies.by_prefix
        path = (*self._base, "refs", source, "merge", destination, "preview")
        conflicts: list[difference_documents.ConflictDocument] = []
        totals: Totals | None = None
        tables: tuple[TableMerge, ...] = ()
        after: str | None = ""
        while True:
            query: Query = {
                "after": after,
                "amount": PAGE,
                # With strategies by prefix, request all conflicts and drop the decided ones here.
                "strategy": strategies.default.value if plain else "",
                "isolation": strategies.isolation or None,
                "totals": None if totals is None else False,  # the first page has them
            }
            page = self._connection.get(path, difference_documents.MergePreview, query)
            conflicts += page.results
            totals = totals or (None if page.totals is UNSET else page.totals)
            tables = tables or (() if page.tables is UNSET else tuple(page.tables))
            after = page.pagination.next_after
            if after is None:
                break
        if not plain:
            undecided = MergeStrategy.NONE
            conflicts = [conflict for conflict in conflicts if strategy_for(strategies, conflict.path) is undecided]
        preview = MergePreview(
            CommitID(page.base_commit_id),
            totals or Totals(),
            tuple(conflict.value() for conflict in conflicts),
            CommitID(page.source_commit_id),
            CommitID(page.destination_commit_id),
            tuple(decided_table(table, strategies) for table in tables),
        )
        expect_tables_of_preview(self.stat_many, strategies, preview, source, destination)
        return preview

    # History

    def log(
        self,
        ref: str,
        *,
        after: CommitID | None = None,
        amount: int = 100,
        first_parent: bool = False,
        since: int | None = None,
        stop_at: str | None = None,
        paths: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        author: str = "",
        text: str = "",
        limit: bool = False,
        within: float | None = None,
    ) -> Page[Commit]:
        """List the commits that a ref can reach, newest first. With an author or a text, the server ends a page after some
        seconds even without ``within``."""
        if "" in paths:
            raise InvalidError("a path is empty; name an object")
        query: Query = {
            "after": after,
            "amount": min(amount, PAGE),
            "first_parent": first_parent,
            "since": None if since is None else datetime.fromtimestamp(since, UTC).isoformat(),
            "stop_at": stop_at,
            "objects": paths,
            "prefixes": prefixes,
            "author": author,
            "text": text,
            "limit": limit,
            "within": None if within is None else f"{within:g}",
        }
        listing = self._connection.get((*self._base, "refs", ref, "commits"), documents.CommitList, query)
        return Page(tuple(commit.value() for commit in listing.results), listing.pagination.next_after)

    def blame(self, ref: str, path: str) -> Commit:
        """Return the commit that last changed an object."""
        return self._connection.get((*self._base, "refs", ref, "blame"), documents.Commit, {"path": path}).value()

    def annotate(
        self, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[tuple[ObjectEntry | CommonPrefix, Commit]]:
        """List entries, each with the last commit that changed it. Cost: a request, and one more to look the objects up."""
        page = self._annotations(ref, page_query(prefix, after, delimiter, amount)).page
        results = tuple((entry, commit) for entry, commit in page.results if commit is not None)
        return Page(results, page.next_after, page.commits)

    def annotate_within(
        self,
        ref: str,
        seconds: float,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        amount: int = 100,
        position: str = "",
    ) -> Annotations:
        """List entries, each with the last commit that changed it, or None where finding it takes longer: see
        :meth:`graveler.lake.reading.history_reader.HistoryReader.annotate_within`. Cost as :meth:`annotate`."""
        query: Query = {**page_query(prefix, after, delimiter, amount), "within": f"{seconds:g}", "next": position}
        return self._annotations(ref, query)

    def _annotations(self, ref: str, query: Query) -> Annotations:
        response = self._connection.call("GET", (*self._base, "refs", ref, "annotate"), query)
        listing = response.read(difference_documents.AnnotationList)
        commits = documents.commits_read(response.headers)
        paths = [item.path for item in listing.results if item.path_type == "object"]
        entries = dict(zip(paths, self.stat_many(commits[-1] if commits else ref, paths), strict=True))
        listed: list[tuple[ObjectEntry | CommonPrefix, Commit | None]] = []
        for item in listing.results:
            entry = entries.get(item.path)
            commit = None if item.commit is None else item.commit.value()
            listed.append((CommonPrefix(item.path) if entry is None else entry, commit))
        position = "" if listing.next is UNSET else listing.next
        return Annotations(Page(tuple(listed), listing.pagination.next_after, commits), position)

    def _summary(
        self, left_ref: str, right_ref: str, prefix: str, delimiter: str, bounds: "SummaryBounds | None", kind: str
    ) -> "Summary":
        path = (*self._base, "refs", left_ref, "diff", right_ref, "summary")
        query: Query = {"prefix": prefix, "delimiter": delimiter, "type": kind, **bounds_query(bounds)}
        return self._connection.get(path, difference_documents.SummaryDocument, query).value()

    def _changes(
        self, listing: difference_documents.DiffList, left_id: str, right_id: str, commits: tuple[CommitID, ...]
    ) -> Page[Change]:
        """Return differences with the objects before and after, which are looked up. Of a branch, the one after may be gone by
        now."""
        kinds = {diff.path: ChangeType(diff.type) for diff in listing.results}
        had = [path for path, kind in kinds.items() if kind in (ChangeType.REMOVED, ChangeType.CHANGED)]
        has = [path for path, kind in kinds.items() if kind in (ChangeType.ADDED, ChangeType.CHANGED)]
        before = dict(zip(had, self.stat_many(left_id, had), strict=True))
        after = dict(zip(has, self.stat_many(right_id, has), strict=True))
        return Page(
            tuple(Change(kind, path, before.get(path), after.get(path)) for path, kind in kinds.items()),
            listing.pagination.next_after,
            commits,
        )


class RemoteView:
    """The reads of :class:`graveler.lake.reading.view.View`, behind the HTTP API. All listings show the state of the first one,
    with the errors of that class; lookups of an object in a branch show the present one. Of a server that knows no states of
    branches, each page shows that of its time. Threads may share it."""

    def __init__(self, reader: RemoteReader, ref: str) -> None:
        self.ref = ref
        self._reader = reader
        self._first = new_lock()
        self._state: str | None = None
        """The state, once a listing has shown it."""

    def again(self) -> "RemoteView":
        """Return the same view for another thread. No request."""
        return self

    def get(self, path: str) -> ObjectEntry | None:
        """Return the metadata of an object; None if there is none. Cost: one request."""
        try:
            return self._reader.stat(self.ref, path)
        except ObjectNotFoundError:
            return None

    def list_objects(
        self, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = PAGE
    ) -> Page[ObjectEntry | CommonPrefix]:
        """List objects by path. Cost: one request."""
        query = page_query(prefix, after, delimiter, amount)
        if self._state is None:
            with self._first:
                if self._state is None:
                    page, self._state = self._reader.list_in_state("", self.ref, query)
                    return page
        return self._reader.list_in_state(self._state, self.ref, query)[0]

    def objects(self, prefix: str = "") -> Iterator[ObjectEntry]:
        """Yield all objects whose path begins with ``prefix``. Cost: one request per thousand."""
        after: str | None = ""
        while after is not None:
            page = self.list_objects(prefix=prefix, after=after)
            yield from (item for item in page.results if isinstance(item, ObjectEntry))
            after = page.next_after
