"""Commits of one repository: of what is staged, by merging, reverting, cherry-picking, rewriting; in one call or in parts."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from graveler.errors import GravelerError
from graveler.lake.importing.progress import Progress
from graveler.lake.verbs.base import VerbsBase
from graveler.model import (
    Application,
    Commit,
    CommitID,
    MergePreview,
    MergeStrategies,
    MergeStrategy,
    MetarangeName,
    SplitParameters,
)
from graveler.tree.writer import Stop

if TYPE_CHECKING:
    from graveler.lake.importing.importer import ImportSource
    from graveler.lake.importing.prefix_listing import ImportAddress
    from graveler.lake.in_parts.asks import Ask
    from graveler.lake.in_parts.parted import PartedOperation
    from graveler.lake.in_parts.work import Sizes
    from graveler.storage.tables import Check

_SHARED_PART: Final = 4_000_000
"""Records to read for one part of a verb, where several processes share the work on each part."""


class CommitVerbs(VerbsBase):
    """Verbs that make commits."""

    def commit(
        self,
        branch: str,
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        allow_empty: bool = False,
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
        stop: Stop | None = None,
    ) -> Commit:
        """Make the branch's uncommitted changes a commit: all at once, or not at all (promise C2).

        With a ``request_id``, a repeated request returns the first one's commit (promise C4). ``created`` (Unix seconds,
        from 1970 to a day from now) overrides the time. With a ``limit``, only if no more records than that have to be read, else
        :class:`TooMuchWorkError`: see :meth:`in_parts`. With ``stop`` too, the limit counts as far as it is seen before anything
        is read, and at the end of each range ``stop`` is asked whether to leave the rest to an operation, by the same error.

        Cost: the head's commit, its metarange and t ranges read; the ranges that differ, the metarange and the commit record
        written; two transactions. Table reads: the branch; one for each shard to see that something is staged; one for each
        shard and thousand staged; one to see whether clean-up after older commits is due, which then takes its own; one with
        a ``request_id``. Others who change the branch meanwhile cost a few more, but no range that did not change.
        :class:`NoChangesError`, :class:`BusyError`.
        """
        commit = self._committer.commit(
            branch,
            message,
            committer,
            metadata or {},
            request_id=request_id,
            allow_empty=allow_empty,
            created=created,
            force=force,
            limit=limit,
            stop=stop,
        )
        self._sweep()
        return commit

    def commit_metarange(
        self,
        branch: str,
        metarange: MetarangeName,
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        allow_empty: bool = False,
        created: int | None = None,
        force: bool = False,
        parent: CommitID | None = None,
    ) -> Commit:
        """Make a tree that lies ready as a metarange file the next commit of a branch: its contents replace all of the head's.

        The file must be younger than half a day, so that it is part of a commit before a collector could find it unused.
        With a ``parent``, only if that is the branch's head, so that who built the tree of a head's loses nobody's commit.
        The commit has the tree that the branch's split parameters make of the contents, however the ready one is cut (law F1).

        Cost: two object reads, of the file, and as :meth:`merge` without reading ranges; with a ``parent`` the branch is read
        twice. A metarange that names other split parameters, or none (as earlier versions wrote them), is checked: one read for
        each range that is long enough to be cut once more and that the head does not have. If it is cut
        otherwise, all of it is read and written anew, 3 µs a record and processor.

        :class:`InvalidError` for what is no name, :class:`NotFoundError`, :class:`PreconditionError` for an old file,
        :class:`NoChangesError`, :class:`DirtyBranchError`, :class:`BusyError`, :class:`MovedError`.
        """
        return self._ready.commit(
            branch,
            metarange,
            message,
            committer,
            metadata or {},
            request_id=request_id,
            allow_empty=allow_empty,
            created=created,
            force=force,
            parent=parent,
        )

    def merge(
        self,
        source: str,
        destination: str,
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE,
        squash: bool = False,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
        stop: Stop | None = None,
        untouched: Sequence[str] = (),
        application: Application | None = None,
        beside_uncommitted: bool = False,
    ) -> Commit:
        """Bring what ``source`` changed since the common base into the branch ``destination``, as a commit with two parents.

        Uncommitted changes of the source stay out. A ``strategy`` decides conflicts, one for all paths or by prefix. With
        ``squash``, the commit has one parent, as if the changes had been made here. With ``allow_empty``, there may be nothing
        to bring. ``limit`` and ``stop`` as for :meth:`commit`. If the destination has changed below a prefix of
        ``untouched`` since the base, :class:`TouchedError`: for who replaces all that was there. With an ``application``, a
        version that is in the branch's history already, or an older one, changes nothing, and the commit in which it came is
        returned, or that of a later one, whatever time has passed and whether the source is still there (promise C4). That
        costs one table read. With ``beside_uncommitted``, uncommitted changes of the destination stay as they are, and refuse
        the merge only where it would change the same object, or below ``untouched``: that costs what is staged, read twice.

        Cost: resolving the source and finding the base; three metaranges and the ranges that both sides changed read; the ranges
        that are new, the metarange, unless it is the head's or the source's, and the commit record written; one transaction. Two
        table reads to see that nothing is staged at the destination (one for each token and shard); two transactions more if
        something is that changes nothing.
        :class:`MergeConflictError` lists all conflicts, in key order, and nothing was changed; :class:`NoChangesError`,
        :class:`DirtyBranchError`, :class:`BusyError`.
        """
        return self._three_way.land(
            self._merger.undertake(
                source,
                destination,
                message,
                committer,
                metadata or {},
                _strategies(strategy),
                squash=squash,
                allow_empty=allow_empty,
                request_id=request_id,
                created=created,
                force=force,
                untouched=untouched,
                application=application,
                beside_uncommitted=beside_uncommitted,
            ),
            limit,
            stop,
        )

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
        """What :meth:`merge` would do now: the base, how much would change in the destination, and every conflict. Changes and
        writes nothing.

        Cost: resolving both and finding the base, three metaranges, the ranges in which the source differs from the base, and
        those of the destination there.
        """
        return self._merger.preview(source, destination, _strategies(strategy))

    def revert(
        self,
        branch: str,
        ref: str,
        *,
        parent_number: int = 0,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
        stop: Stop | None = None,
    ) -> Commit:
        """Take back on a branch what one commit changed, as a commit.

        ``parent_number`` (from 1) says against which parent a merge is taken back; 0 is the only one. ``limit`` and ``stop``
        as for :meth:`commit`. Cost: as :meth:`merge`.
        :class:`MergeConflictError` where the branch changed the same objects since; :class:`NoChangesError`,
        :class:`DirtyBranchError`, :class:`InvalidError` for the parent, :class:`BusyError`.
        """
        return self._three_way.land(
            self._replayer.revert(
                branch,
                ref,
                parent_number,
                message,
                committer,
                metadata or {},
                allow_empty=allow_empty,
                request_id=request_id,
                created=created,
                force=force,
            ),
            limit,
            stop,
        )

    def cherry_pick(
        self,
        branch: str,
        ref: str,
        *,
        parent_number: int = 0,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
        stop: Stop | None = None,
    ) -> Commit:
        """Make on a branch what one commit changed elsewhere, as a commit with its message and metadata.

        Arguments, cost and errors as :meth:`revert`.
        """
        done = self._lander.done_before(request_id)  # the ref may be gone by now
        if done is not None:
            return done
        return self._three_way.land(
            self._replayer.cherry_pick(
                branch,
                ref,
                parent_number,
                message,
                committer,
                metadata or {},
                allow_empty=allow_empty,
                request_id=request_id,
                created=created,
                force=force,
            ),
            limit,
            stop,
        )

    def rewrite(
        self,
        branch: str,
        split: SplitParameters,
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
    ) -> Commit:
        """Cut the branch's tree anew by other split parameters, as a commit that changes no object. The branch stays cut so:
        whoever commits to it or merges into it goes on with these parameters, and those of other branches stay as they are.
        ``limit`` as for :meth:`commit`.

        Cost: the tree is read and written once, 3 µs a record and processor; one transaction. A merge or an import that brings a
        tree that is cut otherwise cuts that anew each time, so rewrite both branches of a pair.
        If the branch's commits say that it is cut so already, its ranges are read once to see whether that is true: a branch that
        an earlier version left cut otherwise is mended by this.

        :class:`InvalidError` for parameters that cannot be, :class:`NoChangesError` if the branch is cut so already,
        :class:`DirtyBranchError`, :class:`BusyError`.
        """
        from graveler.lake.rewrite import rewrite_landing

        landing = rewrite_landing(
            branch, split, message, committer, metadata or {}, request_id=request_id, created=created, force=force
        )
        return self._rewriter.run(landing, split, limit)

    def in_parts(
        self,
        operation_id: str,
        ask: "Ask",
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
        from graveler.lake.in_parts.asks import ImportAsk
        from graveler.lake.in_parts.files import PartFiles  # not on the path of a cold start
        from graveler.lake.in_parts.opening import Tools, open_work, ticket_of
        from graveler.lake.in_parts.parted import PartedOperation
        from graveler.lake.in_parts.work import Sizes

        def source(address: "ImportAddress", progress: Progress) -> "ImportSource":
            trusting = isinstance(ask, ImportAsk) and ask.trust_mtime
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
        work = open_work(tools, ask, known_by, until, only_while, ticket_of(operation_id))
        files = PartFiles(self._objects, operation_id)
        sharing = self._workers > 1
        chosen = sizes or (Sizes(records=_SHARED_PART) if sharing else Sizes())
        return PartedOperation(work, files, chosen, self._branches.commit, until)

    def _sweep(self) -> None:
        """Take the occasion to clean up after commits of long ago. What fails here fails again at the next one, and harms nobody
        but the table's size, so it must not fail a commit that was made."""
        with suppress(GravelerError):
            self._cleanup.sweep(self._staged, self._clock.now())


def _strategies(strategy: MergeStrategy | MergeStrategies) -> MergeStrategies:
    return MergeStrategies(strategy) if isinstance(strategy, MergeStrategy) else strategy
