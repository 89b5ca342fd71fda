"""Commits of one repository: of what is staged, by merging, reverting, cherry-picking, rewriting; in one call or in parts."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from graveler.errors import GravelerError
from graveler.lake.context import UNLIMITED, Context
from graveler.lake.importing.progress import Progress
from graveler.lake.methods import RequestMethods, strategies_of
from graveler.lake.verbs.refs import REF_RUNS, RefVerbs
from graveler.lake.verbs.settings import SETTINGS_RUNS, SettingsVerbs
from graveler.model import (
    Application,
    Commit,
    MergePreview,
    MergeStrategies,
    MergeStrategy,
)
from graveler.requests import committing
from graveler.requests.base import Request
from graveler.requests.importing import ImportAddresses, Imported
from graveler.requests.merging import CherryPick, Merge, Revert

if TYPE_CHECKING:
    from graveler.lake.importing.importer import ImportSource
    from graveler.lake.in_parts.parted import PartedOperation
    from graveler.lake.in_parts.pinned import LongRequest, Pinned
    from graveler.lake.in_parts.work import Sizes
    from graveler.requests.importing import ImportAddress
    from graveler.storage.tables import Check

T = TypeVar("T")

_SHARED_PART: Final = 4_000_000
"""Records to read for one part of a verb, where several processes share the work on each part."""


class CommitVerbs(SettingsVerbs, RefVerbs, RequestMethods):
    """Verbs that make commits."""

    def run(self, request: Request[T], context: Context = UNLIMITED) -> T:
        """See :meth:`RequestMethods.run`."""
        result: T = _RUNS[type(request)](self, request, context)
        return result

    def _run_commit(self, request: committing.Commit, context: Context) -> Commit:
        commit = self._committer.commit(request, context)
        self._sweep()
        return commit

    def _run_commit_metarange(self, request: committing.CommitMetarange, _: Context) -> Commit:
        return self._ready.commit(request)

    def _run_merge(self, request: Merge, context: Context) -> Commit:
        return self._three_way.land(self._merger.undertake(request), context)

    def _run_revert(self, request: Revert, context: Context) -> Commit:
        return self._three_way.land(self._replayer.revert(request), context)

    def _run_cherry_pick(self, request: CherryPick, context: Context) -> Commit:
        done = self._lander.done_before(request.info.request_id)  # the ref may be gone by now
        if done is not None:
            return done
        return self._three_way.land(self._replayer.cherry_pick(request), context)

    def _run_rewrite(self, request: committing.Rewrite, context: Context) -> Commit:
        return self._rewriter.run(request, context.limit)

    def _run_import(self, request: ImportAddresses, context: Context) -> Imported:
        from graveler.lake.importing.importer import Terms
        from graveler.lake.importing.prefix_listing import source_at

        sources = [
            source_at(
                address,
                self._codec,
                self._outside,
                context.progress,
                self._workers,
                trust_mtime=request.trust_mtime,
            )
            for address in request.sources
        ]
        terms = Terms(request.allow_empty, request.dry_run)
        return self._importer.run(request.branch, sources, request.info, force=request.force, terms=terms)

    def written_by(self, branch: str, application: Application) -> Commit | None:
        """The commit in which the branch got this version of an application, or a later one; None if it is still to be written.

        Cost: one table read; for a version that is there another one, and a read for each 32 generations between the branch's
        head and that commit. :class:`InvalidError`.
        """
        from graveler.lake.applications import check_application  # not on the path of a cold start

        check_application(application)
        return self._applications.look(branch, application)[1]

    def preview_merge(
        self, source: str, destination: str, strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE
    ) -> MergePreview:
        """What :class:`graveler.requests.merging.Merge` would do now: the base, how much would change in the destination, and
        every conflict. Changes and writes nothing.

        Cost: resolving both and finding the base, three metaranges, the ranges in which the source differs from the base, and
        those of the destination there.
        """
        return self._merger.preview(source, destination, strategies_of(strategy))

    def in_parts(
        self,
        operation_id: str,
        pinned: "Pinned[LongRequest]",
        *,
        request_id: str = "",
        began: float,
        sizes: "Sizes | None" = None,
        only_while: "Check | None" = None,
    ) -> "PartedOperation":
        """A verb that is worked on in parts: see :class:`graveler.lake.in_parts.parted.PartedOperation`. Its files lie under
        ``operation_id``; its commit is known by ``request_id``, or else by that. ``began`` (Unix seconds) is when the operation
        was first worked on: it has to be published within half the grace. ``only_while`` is a condition of the transaction
        that publishes it: where it fails, :class:`graveler.lake.publish.StoppedError`. A cherry-pick reads its commit; otherwise
        no request."""
        from graveler.lake.importing.prefix_listing import source_at
        from graveler.lake.in_parts.files import PartFiles  # not on the path of a cold start
        from graveler.lake.in_parts.opening import Tools, open_work, ticket_of
        from graveler.lake.in_parts.parted import PartedOperation
        from graveler.lake.in_parts.work import Sizes

        def source(address: "ImportAddress", progress: Progress) -> "ImportSource":
            trusting = isinstance(pinned.request, ImportAddresses) and pinned.request.trust_mtime
            return source_at(address, self._codec, self._outside, progress, self._workers, trust_mtime=trusting)

        tools = Tools(
            self.repository.split,
            self._branches,
            self._staged,
            self._sealer,
            self._publisher,
            self._committer,
            self._lander,
            self._sides,
            self._three_way,
            self._merger,
            self._replayer,
            self._importer,
            self._rewriter,
            self._trees,
            self._clock,
            source,
        )
        known_by = request_id or operation_id
        until = self._deadlines.since(began)
        work = open_work(tools, pinned, known_by, until, only_while, ticket_of(operation_id))
        files = PartFiles(self._objects, operation_id)
        sharing = self._workers > 1
        chosen = sizes or (Sizes(records=_SHARED_PART) if sharing else Sizes())
        return PartedOperation(work, files, chosen, self._branches.commit, until)

    def _sweep(self) -> None:
        """Take the occasion to clean up after commits of long ago. What fails here fails again at the next one, and harms nobody
        but the table's size, so it must not fail a commit that was made."""
        with suppress(GravelerError):
            self._cleanup.sweep(self._staged, self._clock.now())


_RUNS: Final[Mapping[type[Request[Any]], Callable[[CommitVerbs, Any, Context], Any]]] = {
    **SETTINGS_RUNS,
    **REF_RUNS,
    committing.Commit: CommitVerbs._run_commit,
    committing.CommitMetarange: CommitVerbs._run_commit_metarange,
    committing.Rewrite: CommitVerbs._run_rewrite,
    Merge: CommitVerbs._run_merge,
    Revert: CommitVerbs._run_revert,
    CherryPick: CommitVerbs._run_cherry_pick,
    ImportAddresses: CommitVerbs._run_import,
}
