"""Read operations on any ref: objects, history, differences from another ref."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from graveler import requests
from graveler.errors import InvalidError, UnavailableError
from graveler.files.repository import RepositoryAccess
from graveler.lake.context import Context
from graveler.model import (
    Change,
    CheckTrial,
    Commit,
    CommitID,
    CommonPrefix,
    MergePreview,
    MergeStrategies,
    MergeStrategy,
    ObjectEntry,
    Status,
    StatusState,
)
from graveler.requests.base import CommitInfo
from graveler.sdk.listing import Listing, keys_behind, listing
from graveler.sdk.page_size import page_size
from graveler.sdk.stored import StoredObject
from graveler.system.extras import not_installed
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.system.tracebacks import ShortBlock, short_tracebacks
from graveler.values.addresses import ref_address

if TYPE_CHECKING:
    import pyarrow

    from graveler.gateway.run.block import GatewayAccess
    from graveler.lake.reading.summary import DiffSummary, Usage
    from graveler.requests.exporting import ExportReport
    from graveler.sdk.iceberg_tables import Tables
    from graveler.sdk.rows import RowDiff

DiffType: TypeAlias = Literal["three_dot", "two_dot"]


@short_tracebacks("object")
class Reference:
    """A branch, a tag, a commit ID or an abbreviated one, followed by any chain of ``~N`` and ``^N``; ``branch@`` is a branch
    without its uncommitted changes, ``branch@{2026-06-01T12:00Z}`` or ``branch@{1 hour ago}`` its position at that time. A handle
    makes no request until a verb is called, which then may raise :class:`RefNotFoundError`.

    A :class:`Listing` is lazy: each page is requested when it is reached. ``max_amount`` limits it, and it starts after the path
    ``after``.
    """

    def __init__(self, repository: RepositoryAccess, reference_id: str) -> None:
        self._access = repository
        self._id = reference_id

    @property
    def id(self) -> str:
        """The ref as given."""
        return self._id

    @property
    def repo_id(self) -> str:
        """Name of the repository."""
        return self._access.id

    @property
    def _context(self) -> Context:
        """The context of a request that moves a ref: the reference log names the user, whom its rules judge."""
        return Context(by=self._access.user)

    @property
    def _url(self) -> str:
        return ref_address(self.repo_id, self._id)

    @property
    def tables(self) -> "Tables":
        """The Iceberg tables of the ref. No request."""
        from graveler.sdk.iceberg_tables import Tables  # few programs look at them so

        return Tables(self._access.repository, self._id, self._access.user)

    def object(self, path: str) -> StoredObject:
        """Return a handle for reading an object of this ref. No request."""
        return StoredObject(self._access, self._id, path)

    def objects(
        self, max_amount: int | None = None, after: str = "", prefix: str = "", delimiter: str = ""
    ) -> Listing[ObjectEntry | CommonPrefix]:
        """List objects in the order of their paths' UTF-8 bytes; a ``delimiter`` rolls up those that share a common prefix.

        Each page of a branch shows the branch's state at that moment; list a commit, or use :meth:`Listing.to_arrow`, to see one
        state. Cost: that of :meth:`OpenRepository.list_objects` per thousand.
        """
        amount = page_size(max_amount)
        return listing(
            f"objects of {self._url}",
            ObjectEntry,
            lambda position: self._access.repository.list_objects(
                self._id, prefix=prefix, after=position, delimiter=delimiter, amount=amount
            ),
            max_amount,
            after,
            whole=None if delimiter or max_amount is not None else partial(self._all_objects, prefix, after),
        )

    def _all_objects(self, prefix: str, after: str) -> "pyarrow.RecordBatchReader":
        from graveler.sql.arrow.tables import objects  # for those that use data frames

        return objects(self._access.repository, self._id, keys=keys_behind(prefix, after))

    def get_commit(self) -> Commit:
        """Return the commit that the ref points at. Cost: resolving the ref, one commit."""
        return self._access.repository.commit_of(self._id)

    def statuses(self) -> tuple[Status, ...]:
        """Return the statuses of the ref's commit and of its tree that count: they have not expired, and their posters' keys are
        not revoked. Cost: resolving the ref, one commit, two table reads, one without statuses."""
        return self._access.repository.statuses(self._id)

    def post_status(
        self,
        name: str,
        state: StatusState | Literal["success", "failure", "error", "pending"],
        description: str = "",
        *,
        url: str = "",
        expires: int = 0,
        of: Literal["tree", "commit"] = "tree",
    ) -> Status:
        """Post a verdict about the ref's tree, or about its commit alone, valid for ``expires`` seconds, 0 for no end. Use the ID
        of the commit that was checked: a branch may have moved. Cost and errors as :class:`PostStatus`."""
        request = requests.statuses.PostStatus(
            commit=self._id,
            name=name,
            state=StatusState(state),
            description=description,
            url=url,
            expires=expires,
            of=of,
        )
        return self._access.repository.run(request, self._context)

    def run_checks(
        self,
        branch: str,
        *,
        base: "ReferenceType" = "",
        checks: Sequence[str] = (),
        definitions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> CheckTrial:
        """Make the checks in the rules of a branch, or those with ``definitions`` by name, on the ref's commit. Nothing is
        published, and no status is posted. Cost and errors as :class:`RunChecks`."""
        request = requests.statuses.RunChecks(
            ref=self._id,
            branch=branch,
            base=ref_of(base),
            checks=tuple(checks),
            definitions=definitions or {},
        )
        return self._access.repository.run(request, self._context)

    def log(
        self,
        max_amount: int | None = None,
        after: str = "",
        *,
        first_parent: bool = False,
        since: datetime | int | None = None,
        stop_at: "ReferenceType | None" = None,
        objects: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        author: str = "",
        text: str = "",
    ) -> Listing[Commit]:
        """List the commits reachable from here, newest first, starting after the commit ``after``.

        ``since`` omits commits created earlier (a time, or Unix seconds), ``stop_at`` is the last commit listed; ``objects`` and
        ``prefixes`` keep only commits that changed one of these paths, ``author`` those of this committer, ``text`` those whose
        message has it, in upper or lower case. Cost: :meth:`get_commit`, and :meth:`OpenRepository.log` per thousand.
        """
        amount = page_size(max_amount)
        start = self.get_commit().id
        return listing(
            f"log of {self._url}",
            Commit,
            lambda position: self._access.repository.log(
                start,
                after=CommitID(position) if position else None,
                amount=amount,
                first_parent=first_parent,
                since=int(since.timestamp()) if isinstance(since, datetime) else since,
                stop_at=None if stop_at is None else ref_of(stop_at),
                paths=objects,
                prefixes=prefixes,
                author=author,
                text=text,
                limit=amount == max_amount,
            ),
            max_amount,
            after,
        )

    def blame(self, path: str) -> Commit:
        """Return the commit that last changed the object at ``path``. Cost and errors as :meth:`OpenRepository.blame`."""
        return self._access.repository.blame(self._id, path)

    def usage(self, prefix: str = "", delimiter: str = "") -> "Usage":
        """Count the objects and bytes under a prefix, in total and per common prefix. Cost as :meth:`OpenRepository.du`."""
        return self._access.repository.du(self._id, prefix, delimiter)

    def diff(
        self,
        other_ref: "ReferenceType",
        max_amount: int | None = None,
        after: str = "",
        prefix: str = "",
        delimiter: str = "",
        *,
        type: DiffType = "three_dot",  # noqa: A002 - the name that the field has for it
    ) -> Listing[Change]:
        """List what ``other_ref`` changed since its merge base with this ref: what merging it into this one would bring.

        So ``main.diff("main~1")`` is empty: a commit before ``main`` has changed nothing since then. With ``type="two_dot"``,
        list what turns this ref's commit into the other's, as ``graveler diff A B`` does. Both commits are resolved now, so all
        pages compare the same two. The result shows which question it answers. Cost: two commits, two metaranges, and the ranges
        that differ, as far as they are read.
        """
        amount = page_size(max_amount)
        repository = self._access.repository
        base, changed = self.get_commit().id, repository.commit_of(ref_of(other_ref)).id
        compare = repository.compare if type == "three_dot" else repository.diff
        name, if_none = self._question(other_ref, type)
        return listing(
            name,
            Change,
            lambda position: compare(base, changed, prefix=prefix, after=position, delimiter=delimiter, amount=amount),
            max_amount,
            after,
            whole=None
            if delimiter or max_amount is not None
            else partial(self._differences, base, changed, prefix, after, type),
            if_none=if_none,
        )

    def _question(self, other_ref: "ReferenceType", kind: DiffType) -> tuple[str, str]:
        """Return the name of a diff, and the note of one without changes."""
        if kind == "three_dot":
            return (
                f"changes of {ref_of(other_ref)} since its merge base with {self._url}",
                "nothing that a merge would bring; type='two_dot' compares the two commits",
            )
        return f"diff of {self._url} and {ref_of(other_ref)}", "the two commits have the same objects"

    def _differences(
        self, base: CommitID, changed: CommitID, prefix: str, after: str, kind: DiffType
    ) -> "pyarrow.RecordBatchReader":
        from graveler.sql.arrow.tables import diff  # for those that use data frames

        return diff(
            self._access.repository, base, changed, keys=keys_behind(prefix, after), three_dot=kind == "three_dot"
        )

    def diff_summary(
        self,
        other_ref: "ReferenceType",
        prefix: str = "",
        delimiter: str = "",
        *,
        type: DiffType = "three_dot",  # noqa: A002 - as in diff
    ) -> "DiffSummary":
        """Count the objects and bytes that :meth:`diff` shows, in total and per common prefix. The result shows which question it
        answers. Cost as :meth:`OpenRepository.compare_summary`, or ``diff_summary``."""
        from graveler.lake.reading.summary import DiffSummary  # not for other verbs

        repository = self._access.repository
        summarize = repository.compare_summary if type == "three_dot" else repository.diff_summary
        summary = summarize(self._id, ref_of(other_ref), prefix=prefix, delimiter=delimiter)
        question, if_none = self._question(other_ref, type)
        return DiffSummary(summary.total, summary.parts, question=question, if_none=if_none)

    def diff_rows(
        self, other_ref: "ReferenceType", path: str, *, keys: Sequence[str] = (), memory_limit: str = "1GB"
    ) -> "RowDiff":
        """Compare the rows of a table at this ref's commit with those at the other's: what turns the first into the second, as
        :meth:`diff` with ``type="two_dot"``, so uncommitted changes are not included.

        ``path`` is a file of Parquet, CSV or JSON (``.parquet``, ``.csv``, ``.tsv``, ``.json``, ``.jsonl``, ``.ndjson``, the
        texts also with ``.gz``), or a folder or a pattern (``tables/*.parquet``) for all such files of one format. Files and
        folders whose names begin with ``_`` or ``.`` are left out. All rows of a table that one side lacks are added or removed.
        Or it is the name of an Iceberg table (``shop.orders``), whose live rows are compared by the columns that it has at the
        other ref's commit, whatever they were called before; what else differs in its columns is in :attr:`RowDiff.columns`.

        With ``keys``, the names of columns, rows with equal keys are one row, which is unchanged or changed; NULL is a value like
        others. No two rows of a side may have equal keys. Without, rows are added or removed, each as often as one side has more
        of it. A column that one side lacks is NULL there. Where a column's types differ, values are compared in a type that has
        all digits of both, as texts if there is none (BIGINT and DOUBLE): 1 and 1.0 are equal, NaN is equal to itself, -0.0 to
        0.0, and so are nested values. Names of columns that differ only in case are one. CSV's values are texts, its first line
        names the columns and says what separates them, and an empty text is NULL; JSON's are JSON, so 1 and 1.0 differ, and
        null is as good as no value; objects within a row differ if their members come in another order. If all files are in
        folders named ``column=value``, each such column is one of texts, and comes before one of the files of that name.

        Cost: a listing of ``path`` at both commits; the files that differ are read, with keys also those columns of the others.
        DuckDB keeps at most ``memory_limit`` (``"500MB"``, ``"4GB"``) in memory, and more in temporary files; where that does not
        do, the files are read again for each of 4, 16 or 64 parts of the rows. Needs
        ``pip install 'graveler[sql]'``: :class:`UnavailableError` without it.
        :class:`NotFoundError` if no side has a table there;
        :class:`InvalidError` for files of two formats, one that cannot be read, a key that is no column or not unique, and
        decimals of more than 38 digits.
        """
        try:
            from graveler.sql.rowdiff.comparison import compare_rows
        except ModuleNotFoundError as error:
            raise UnavailableError(not_installed("a diff of rows", error.name, "sql")) from None
        from graveler.sdk.iceberg_tables import tables_at
        from graveler.sdk.rows import RowDiff

        base, changed = self.get_commit().id, self._access.repository.commit_of(ref_of(other_ref)).id
        columns = (keys,) if isinstance(keys, str) else tuple(keys)
        table = tables_at(self._access.repository, base, changed, path) or path
        comparison = compare_rows(self._access.lake, self.repo_id, base, changed, table, columns, memory_limit)
        return RowDiff(comparison)

    def merge_into(
        self,
        destination_branch: "ReferenceType",
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: MergeStrategy | MergeStrategies | str = MergeStrategy.NONE,
        squash_merge: bool = False,
        allow_empty: bool = False,
        expected_head: "ReferenceType | None" = None,
        expected_destination: "ReferenceType | None" = None,
        progress: ObjectProgress = no_object_progress,
    ) -> "Reference":
        """Merge this ref's changes into a branch and return the merge commit.

        ``strategy`` is ``"source-wins"``, ``"dest-wins"``, or :class:`MergeStrategies` with one per prefix. ``progress`` is
        called with numbers of objects of the merged tree, and their bytes; behind a server, never. ``expected_head`` is the
        commit that was checked, or its ID: the merge brings exactly that one, or fails with :class:`UnexpectedHeadError` if this
        ref names another one by now; ``expected_destination`` is the same for the branch. Cost and errors as
        :class:`Merge`: :class:`MergeConflictError` holds all conflicts and means that nothing changed.
        """
        request = requests.merging.Merge(
            source=self._id,
            destination=ref_of(destination_branch),
            info=CommitInfo(message, self._access.user, metadata or {}),
            strategies=read_strategies(strategy),
            squash=squash_merge,
            allow_empty=allow_empty,
            expected_head=_id_of(expected_head),
            expected_destination=_id_of(expected_destination),
        )
        commit = self._access.repository.run(request, replace(self._context, progress=progress))
        return Reference(self._access, commit.id)

    def preview_merge(
        self,
        destination_branch: "ReferenceType",
        strategy: MergeStrategy | MergeStrategies | str = MergeStrategy.NONE,
    ) -> MergePreview:
        """Return what :meth:`merge_into` would do: base, totals, every conflict. Changes nothing. Cost as
        :meth:`OpenRepository.preview_merge`."""
        return self._access.repository.preview_merge(self._id, ref_of(destination_branch), read_strategies(strategy))

    def export(
        self,
        folder: str | Path,
        *,
        prefix: str = "",
        verify: bool = False,
        dry_run: bool = False,
        threads: int = 4,
        progress: ObjectProgress = no_object_progress,
    ) -> "ExportReport":
        """Write the objects of the ref's commit to a folder, only those that differ from an earlier export there.

        ``progress`` is called with numbers of objects and bytes, as they are written, from several threads. Cost and errors as
        :class:`Export`.
        """
        request = requests.exporting.Export(
            ref=self._id,
            folder=Path(folder).expanduser(),
            prefix=prefix,
            verify=verify,
            dry_run=dry_run,
            threads=threads,
        )
        return self._access.repository.run(request, Context(progress=progress))

    def gateway(self, *, own_keys: bool = False, also: Sequence[str] = ()) -> "AbstractContextManager[GatewayAccess]":
        """Serve the ref's commit by S3's protocol for a ``with`` block, on this machine, by a process of its own, and only for
        reading. Clients sign by a pair of keys for the block, or with ``own_keys`` by the AWS credentials of this process.
        ``also`` are places of S3, ``s3://bucket/prefix``, that they may read, too, with the rights of this process. ::

            with repo.ref("v1").gateway() as gateway:
                s3 = boto3.client("s3", **gateway.client_options)
                s3.download_file(gateway.bucket, "reports/june.csv", "june.csv")

        Cost: resolving the ref, besides the requests of the clients. :class:`UnavailableError` without the extra ``server``.
        """
        return self._gateway(
            self._access.repository.commit_of(self._id).id, read_only=True, own_keys=own_keys, also=also
        )

    def _gateway(
        self, ref: str, *, read_only: bool, own_keys: bool, also: Sequence[str]
    ) -> "AbstractContextManager[GatewayAccess]":
        from graveler.gateway.run.block import gateway_block  # few programs need one

        access = self._access
        return ShortBlock(
            gateway_block(
                access.location, access.id, ref, access.user, read_only=read_only, own_keys=own_keys, also=also
            )
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    def _repr_html_(self) -> str:
        from graveler.sdk.display_tables import commit_card  # for notebooks

        return commit_card(self._access, f"{type(self).__name__.lower()} {self._url}", self._id)


ReferenceType: TypeAlias = str | Reference | Commit
"""The ways to name a ref."""


def ref_of(reference: ReferenceType) -> str:
    """Return the ref's name."""
    return reference if isinstance(reference, str) else reference.id


def _id_of(commit: "ReferenceType | None") -> CommitID | None:
    return None if commit is None else CommitID(ref_of(commit))


def read_strategies(strategy: MergeStrategy | MergeStrategies | str) -> MergeStrategies:
    """Return strategies by prefix, or a strategy for all paths, which may be a name. :class:`InvalidError` for an unknown one."""
    if isinstance(strategy, MergeStrategies):
        return strategy
    try:
        return MergeStrategies(MergeStrategy(strategy))
    except ValueError:
        raise InvalidError(
            f"strategy {strategy!r} is unknown; give 'source-wins', 'dest-wins' or no strategy"
        ) from None
