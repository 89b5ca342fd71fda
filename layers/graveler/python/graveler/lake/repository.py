"""An open repository: a method for each user operation."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from graveler.lake.context import UNLIMITED, Context
from graveler.lake.keyword_methods import KeywordMethods, strategies_of
from graveler.lake.opening.repositories import KnownRepository
from graveler.lake.reading.reader import RepositoryReader
from graveler.lake.refs.run_destination import DESTINATIONS, expect_elsewhere
from graveler.lake.settings.repository_settings import Intent, etag
from graveler.model import (
    Application,
    Commit,
    MergePreview,
    MergeStrategies,
    MergeStrategy,
    RetentionRules,
    Rules,
)
from graveler.requests.base import CommitInfo, Request
from graveler.tree.record import encode_key

if TYPE_CHECKING:
    from graveler.lake.dump.chunks import Manifest
    from graveler.lake.fsck.findings import Report as FsckReport
    from graveler.lake.gates.gate_reader import GateReader
    from graveler.lake.iceberg.table_relocation import RewrittenTables
    from graveler.lake.importing.importer import ImportSource
    from graveler.lake.merging.preview import PreviewedMerge
    from graveler.lake.objects.uploads import PartedUpload
    from graveler.model import Page
    from graveler.requests.iceberg import Identifier
    from graveler.requests.importing import Imported
    from graveler.requests.pulls import PullComment, PullRequest, StatusFilter
    from graveler.storage.tables.port import Check
    from graveler.system.progress import Progress as Phases

T = TypeVar("T")

_loaded: dict[type[Request[Any]], Callable[..., Any]] = {}


def function_of(kind: type[Request[Any]]) -> Callable[..., Any]:
    """Return the function that runs requests of a type. It takes a repository's parts, the request and a context."""
    module, _, name = kind.implementation.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"graveler.lake.{module}"), name)
    _loaded[kind] = function
    return function


class OpenRepository(RepositoryReader, KeywordMethods):
    """All verbs of a repository: the reads of :class:`RepositoryReader`, and the changes. Cheap to make; safe to share between
    threads.

    A change of a read-only repository raises :class:`ReadOnlyRepositoryError`, unless ``force`` is set; a direct change of a
    protected branch always raises :class:`ProtectedBranchError`. Both are :class:`ForbiddenError`, and depend on the settings
    at the time when the verb reads the branch, which costs no request.
    """

    def run(self, request: Request[T], context: Context = UNLIMITED) -> T:
        """See :meth:`KeywordMethods.run`."""
        if DESTINATIONS:
            expect_elsewhere(self.identity, request)
        kind = type(request)
        result: T = (_loaded.get(kind) or function_of(kind))(self.parts, request, context)
        return result

    @property
    def identity(self) -> str:
        """The text that tells the repository from any other one, whatever their names. No request."""
        return self.parts.record.repository.uid

    def is_of(self, record: KnownRepository) -> bool:
        """Return whether this is the repository of ``record``, apart from its settings."""
        current = self.parts.record
        same = replace(current.repository, settings=record.repository.settings)
        return (same, current.secret) == (record.repository, record.secret)

    def metadata(self) -> Mapping[str, str]:
        """Return the metadata that the repository's owners have set. Cost: one table read."""
        from graveler.lake.settings.change import read_settings

        return read_settings(self.parts).metadata

    def protection(self) -> tuple[tuple[str, ...], str]:
        """Return the patterns of protected branches, and the etag for
        :class:`graveler.requests.setting_changes.SetProtection`. Cost: one table read."""
        from graveler.lake.settings.change import read_settings

        patterns = read_settings(self.parts).protected
        return patterns, etag(patterns)

    def retention(self) -> RetentionRules | None:
        """Return the retention rules for commits, if there are any. Cost: one table read."""
        from graveler.lake.settings.change import read_settings

        return read_settings(self.parts).retention

    def rules(self) -> Rules:
        """Return the rules of branches and tags, with those of the lake that apply here. Cost: one table read."""
        from graveler.lake.settings.change import read_settings

        return read_settings(self.parts).rules

    @property
    def gates(self) -> "GateReader":
        """The reads about what rules let pass: trials, reports, candidates. No request."""
        from graveler.lake.gates.gate_reader import GateReader

        return GateReader(self.parts)

    def written_by(self, branch: str, application: Application) -> Commit | None:
        """Return the commit in which the branch got this version of an application, or a later one; None if it is not written
        yet.

        Cost: one table read; for a version that is there another one, and a read for each 32 generations between the branch's
        head and that commit. :class:`InvalidError`.
        """
        from graveler.lake.committing.applications import (  # not on the path of a cold start
            check_application,
        )

        check_application(application)
        return self.parts.applications.look(branch, application)[1]

    def preview_merge(
        self, source: str, destination: str, strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE
    ) -> MergePreview:
        """Return what :class:`graveler.requests.merging.Merge` would do now: the base, how much would change in the destination,
        and every conflict. Writes nothing.

        Cost: resolving both refs and finding the base, three metaranges, the ranges in which the source differs from the base,
        and those of the destination there.
        """
        return self.previewed_merge(source, destination, strategy).whole()

    def previewed_merge(
        self, source: str, destination: str, strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE
    ) -> "PreviewedMerge":
        """Return what :meth:`preview_merge` shows in parts: pages of conflicts or changes, and sums by common prefix. Cost:
        resolving both refs and finding the base, three metaranges."""
        from graveler.lake.merging.preview import PreviewedMerge

        return PreviewedMerge(self.parts, source, destination, strategies_of(strategy))

    def pull_request(self, pull: str) -> "PullRequest":
        """Return a pull request, by its number as text. Cost: two table reads. :class:`PullRequestNotFoundError`."""
        from graveler.lake.pulls.pull_sides import read_sides
        from graveler.lake.pulls.pull_store import pull_number

        return read_sides(self.parts, pull_number(pull)).current()

    def pull_requests(
        self, status: "StatusFilter" = "all", *, after: str = "", amount: int = 100, prefix: str = ""
    ) -> "Page[PullRequest]":
        """List pull requests, the newest first: those with a number below ``after``, which begins with the digits ``prefix``.
        Status ``closed`` includes merged ones. An open one that has lost a branch since it was last changed is listed among the
        open ones, as closed.

        Cost: a table read for each state, and one for each hundred results and for each hundred branches of open ones.
        """
        from graveler.lake.pulls.pull_listing import current_page, states_of
        from graveler.lake.pulls.pull_store import PullStore

        store = PullStore(self.tables, self.parts.uid)
        return current_page(self.parts, store.page(states_of(status), after, amount, prefix))

    def pull_comments(self, pull: str, *, after: str = "", amount: int = 100) -> "Page[PullComment]":
        """List the comments on a pull request, the oldest first, after the comment of a number. Cost: two table reads.
        :class:`PullRequestNotFoundError`."""
        from graveler.lake.pulls.pull_store import PullStore, pull_number

        store = PullStore(self.tables, self.parts.uid)
        return store.comments(store.get(pull_number(pull)).number, after, amount)

    # For clients that write bytes by themselves

    def expect_changes(self, branch: str, *, force: bool = False) -> None:
        """Check that the branch exists and accepts direct changes, before a caller does expensive work for it. Cost: one table
        read. :class:`RefNotFoundError`, :class:`ForbiddenError`."""
        self._branches.state(branch, Intent(direct=True, force=force))

    def expect_upload(self, branch: str, path: str) -> None:
        """Check that an upload would be accepted, as :meth:`expect_changes`. Cost: one table read."""
        encode_key(path)
        self.expect_changes(branch)

    def new_address(self, branch: str, path: str, *, force: bool = False) -> str:
        """Return a physical address to write an object's bytes to, to be linked afterwards. Cost: one table read."""
        encode_key(path)
        self._branches.state(branch, Intent(direct=True, force=force))
        return self.address_ahead(branch, path)

    def address_ahead(self, branch: str, path: str) -> str:
        """Return a new address, like :meth:`new_address`, for a branch that does not exist yet. No request."""
        encode_key(path)
        return f"{self.repository.namespace}/{self.parts.names.new(branch, path, self.clock.now())}"

    def expect_handed_out(self, branch: str, path: str, address: str) -> None:
        """Check that an address comes from :meth:`new_address` for this path and branch, and is not too old; else
        :class:`InvalidError`. No request."""
        self.parts.names.check(address.removeprefix(f"{self.repository.namespace}/"), branch, path, self.clock.now())

    def begin_upload(self, branch: str, path: str) -> "PartedUpload":
        """Begin an upload in parts, for :meth:`finish_upload`. Cost: one table read, one object request."""
        from graveler.lake.objects.uploads import begin_upload

        return begin_upload(self.parts, branch, path, self.new_address(branch, path))

    # Long work

    def import_sources(
        self,
        branch: str,
        sources: "Sequence[ImportSource]",
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        only_while: "Check | None" = None,
    ) -> "Imported":
        """Import several sorted listings to destinations that do not overlap, otherwise as
        :class:`graveler.requests.importing.ImportFolder`. ``only_while`` as of :class:`Context`."""
        from graveler.lake.importing.importer import Terms, import_sources

        return import_sources(
            self.parts,
            branch,
            sources,
            CommitInfo(message, committer, metadata or {}, created, request_id),
            force=force,
            terms=Terms(allow_empty, dry_run),
            only_while=only_while,
        )

    def fsck(
        self,
        *,
        repair: bool = False,
        reflog: bool = True,
        committed_objects: bool = False,
        outside_objects: bool = False,
        object_bytes: bool = False,
        progress: "Phases | None" = None,
    ) -> "FsckReport":
        """Check everything that the repository can reach; report what is wrong and which paths of which refs it affects.

        See :func:`graveler.lake.fsck.check.fsck`. Cost: each reachable metarange and range once, the commits about 32 to a
        table read.
        """
        from graveler.lake.fsck.check import fsck  # not on the path of a cold start
        from graveler.system.progress import no_progress

        return fsck(
            self.parts.record,
            self.tables,
            self._objects,
            copies=self.parts.cached_tree_files,
            repair=repair,
            reflog=reflog,
            committed_objects=committed_objects,
            outside_objects=outside_objects,
            object_bytes=object_bytes,
            outside=self._outside,
            folder_permissions=self.parts.folder_permissions,
            progress=progress or no_progress,
        )

    def rewrite_table_locations(
        self, branch: str, names: "Sequence[Identifier]" = (), *, committer: str = ""
    ) -> "RewrittenTables":
        """Rewrite the locations in tables and views of a branch to those where their files lie now.
        See :func:`graveler.lake.iceberg.table_relocation.rewrite_table_locations`."""
        from graveler.lake.iceberg.table_relocation import rewrite_table_locations  # only after a move

        return rewrite_table_locations(self.parts, branch, names, CommitInfo(author=committer))

    def dump(self, *, progress: "Phases | None" = None) -> "Manifest":
        """Write refs, settings and uncommitted changes into the object store; :meth:`Lake.restore` brings them back.
        See :func:`graveler.lake.dump.dump.dump`."""
        from graveler.lake.dump.dump import dump  # not on the path of a cold start
        from graveler.system.progress import no_progress

        return dump(
            self.repository,
            self.tables,
            self._objects,
            self.clock,
            grace=self.grace,
            skew=self.parts.skew,
            progress=progress or no_progress,
        )
