"""A repository behind the HTTP API, with all verbs."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from graveler.errors import (
    EmptySourceError,
    GravelerError,
    InvalidError,
    MergeConflictError,
    PreconditionError,
    UnavailableError,
)
from graveler.history.names import check_branch
from graveler.lake.context import UNLIMITED, Context
from graveler.lake.keyword_methods import KeywordMethods
from graveler.lake.refs.run_destination import DESTINATIONS, expect_elsewhere
from graveler.model import (
    Application,
    Branch,
    CheckTrial,
    Commit,
    CommitID,
    MetarangeName,
    ObjectEntry,
)
from graveler.remote.connection import CATALOG, PAGE, Query, Response, branch_path
from graveler.remote.error_responses import refusal
from graveler.remote.pull_requests import PULL_RUNS, RemotePullRequests
from graveler.remote.replays import replay_conflicts
from graveler.remote.repository_settings import SETTINGS_RUNS, RemoteSettings
from graveler.remote.sending import expect_no_date, read_result, send
from graveler.remote.transfers import condition_headers
from graveler.requests import refs as requests
from graveler.requests import staging
from graveler.requests.base import CommitInfo, Request
from graveler.requests.exporting import Export, ExportReport
from graveler.requests.iceberg import CommitTables
from graveler.requests.importing import (
    AddressType,
    ImportAddress,
    ImportAddresses,
    ImportChanges,
    Imported,
    ImportFolder,
    ImportListing,
)
from graveler.requests.merging import CherryPick, Merge, Replay, Revert
from graveler.requests.statuses import RunChecks
from graveler.storage.durable_files import temporary_files
from graveler.system.progress import ObjectProgress
from graveler.system.temporary_files import own_folder
from graveler.values.error_codes import rebuild
from graveler.values.reserved_paths import is_table
from graveler.wire import documents, imports, object_documents, refs
from graveler.wire.config_documents import CONDITIONAL_DELETES
from graveler.wire.error_documents import UNKNOWN_ROUTE_CODE, Error

if TYPE_CHECKING:
    pass

T = TypeVar("T")

_FIRST_LOOK, _LONGEST_LOOK = 0.1, 5.0
_CHECK_SECONDS: Final = 3600.0
"""Seconds for which a server may stay silent while it makes checks."""
"""Seconds between two polls of an import: the first pause, and the longest."""
_LISTING: Final = ".graveler/listing"
"""The path under which a listing is sent. No object of this path is created."""


class RemoteRepository(RemoteSettings, RemotePullRequests, KeywordMethods):
    """All verbs of a repository behind the HTTP API, those of :class:`graveler.lake.repository.OpenRepository`. The server
    records the access key's owner, so ``by`` and ``committer`` are ignored. Each verb is one request unless stated otherwise; one
    that creates something takes effect once, however often the request had to be sent, and with a ``request_id`` also across
    several calls. Verbs that the API does not have raise :class:`InvalidError`, which says where to run them."""

    def run(self, request: Request[T], context: Context = UNLIMITED) -> T:
        """Run a request as a local lake does. A server itself moves long work to the background, so limits are not sent. Cost:
        one request, repeated while the server works on it, plus what the methods below state."""
        if DESTINATIONS:
            expect_elsewhere(self.identity, request)
        self._expect_isolation_of(getattr(request, "strategies", None))
        run = _RUNS.get(type(request))
        if run is not None:
            result: T = run(self, request, context)
            return result
        if not runs_remotely(type(request)):
            raise InvalidError(f"{type(request).__name__} does not work through a server; run it on the lake itself")
        return read_result(request, send(self._connection, self._name, request))

    @property
    def identity(self) -> str:
        """The text that tells the repository from any other one: the server's URL, and the name. No request."""
        return f"{self._connection.url} {self._name}"

    # Refs

    def _run_create_branch(self, request: requests.CreateBranch, _: Context) -> Branch:
        """Create a branch. A server without support for owners creates it without one."""
        text = send(self._connection, self._name, request).body.decode()
        return Branch(request.name, CommitID(text.strip().strip('"')), request.hidden)

    def _run_release_branch(self, request: requests.ReleaseBranch, _: Context) -> None:
        send(self._connection, self._name, request, passing=(404,))

    def _run_hard_reset(self, request: requests.HardReset, _: Context) -> Branch:
        """Move a branch. Two requests."""
        if request.request_id:  # the server knows a repeated request, whatever its ref is relative to
            send(self._connection, self._name, request, headers={"idempotency-key": request.request_id})
            return self.branch(request.branch)
        target = self.commit_of(request.ref).id
        send(self._connection, self._name, replace(request, ref=target))
        return Branch(request.branch, target)

    def _run_checks(self, request: RunChecks, _: Context) -> CheckTrial:
        """Have checks made. One request, which the server answers once the last of them has ended."""
        return send(self._connection, self._name, request, seconds=_CHECK_SECONDS).read(CheckTrial)

    def _run_commit_tables(self, request: CommitTables, _: Context) -> Commit:
        """Change tables by the server's catalog, and return the branch's head afterwards. The catalog's protocol knows no message
        or metadata of a commit: the server writes them. Two requests. :class:`InvalidError` for a bypass, which it does not know
        either."""
        expect_no_date(request.info)
        if request.bypass:
            raise InvalidError("the catalog of a server takes no bypass of rules; commit the tables on the lake itself")
        path = (self._name, check_branch(request.branch), "transactions", "commit")
        changes = [
            {
                "identifier": {"namespace": change.table.namespace, "name": change.table.name},
                "requirements": change.requirements,
                "updates": change.updates,
            }
            for change in request.tables
        ]
        key = request.info.request_id
        self._connection.call("POST", path, document={"table-changes": changes}, key=key, base=CATALOG)
        return self.commit_of(request.branch)

    # Uncommitted changes

    def expect_upload(self, branch: str, path: str) -> None:
        """Check that an upload would be accepted, before a caller does expensive work for it. :class:`RefNotFoundError`,
        :class:`ForbiddenError`."""
        self._transfers.expect(branch, path)

    def _run_link(self, request: staging.Link, _: Context) -> None:
        """Link an object."""
        if not request.condition:
            self._link_many(request.branch, [request.entry], force=request.force)
            return
        document = _link_document(request.entry)
        query: Query = {"path": request.entry.path}
        path = branch_path(self._base, request.branch, "staging", "backing")
        del document["path"]
        document["force"] = request.force
        self._connection.call("PUT", path, query, document, headers=condition_headers(request.condition))

    def _run_link_many(self, request: staging.LinkMany, _: Context) -> None:
        """Link objects. One request per thousand."""
        self._link_many(request.branch, request.entries, force=request.force)

    def _link_many(self, branch: str, entries: Iterable[ObjectEntry], *, force: bool) -> None:
        remaining = iter(entries)
        path = branch_path(self._base, branch, "staging", "links")
        while some := [_link_document(entry) for entry in islice(remaining, PAGE)]:
            self._connection.call("POST", path, None, {"objects": some, "force": force})

    def _run_delete(self, request: staging.Delete, _: Context) -> None:
        """Delete objects. One request per thousand. With ``if_match`` one request, and one more the first time."""
        if request.if_match:
            self._delete_if_match(request)
            return
        remaining = iter(dict.fromkeys(request.objects))
        path = branch_path(self._base, request.branch, "objects", "delete")
        is_first = True
        while (some := list(islice(remaining, PAGE))) or is_first:
            is_first = False
            response = self._connection.call("POST", path, {"force": request.force}, {"paths": some})
            for error in response.read(object_documents.ObjectErrorList).errors:
                document = Error(error.message, "", error.code, error.fields)
                raise refusal(error.status_code, document, f"deleting from {request.branch!r}")

    def _delete_if_match(self, request: staging.Delete) -> None:
        path = request.conditional_path
        if CONDITIONAL_DELETES not in self._transfers.features:  # it would delete whatever is there
            raise InvalidError("the server is older than deletes on condition of an ETag (if_match); upgrade it")
        query: Query = {"path": path, "force": request.force}
        headers = condition_headers(staging.Condition(if_match=request.if_match))
        self._connection.call("DELETE", branch_path(self._base, request.branch, "objects"), query, headers=headers)

    def _run_copy(self, request: staging.Copy, _: Context) -> ObjectEntry:
        document = {
            "src_path": request.source_path,
            "src_ref": request.source_ref or None,
            "force": request.force,
        }
        path = branch_path(self._base, request.branch, "objects", "copy")
        response = self._connection.call("POST", path, {"dest_path": request.destination_path}, document)
        return response.read(object_documents.ObjectStats).entry()

    def _run_copy_prefix(self, request: staging.CopyPrefix, _: Context) -> Iterator[ObjectEntry]:
        """Copy the objects under a prefix. One request per object."""
        branch, prefix, to = request.branch, request.source_prefix, request.destination_prefix
        source = request.source_ref or branch
        _expect_apart(source == branch, prefix, to)
        return (
            self.copy(
                branch,
                entry.path,
                to + entry.path.removeprefix(prefix),
                source_ref=request.source_ref,
                force=request.force,
            )
            for entry in self.objects(source, prefix)
        )

    def _run_move(self, request: staging.Move, _: Context) -> ObjectEntry:
        """Move an object: a copy, and then a delete."""
        branch, source, force = request.branch, request.source_path, request.force
        if source == request.destination_path:
            raise InvalidError(f"cannot move {source!r} to itself; choose another path")
        moved = self.copy(branch, source, request.destination_path, force=force)
        self.delete(branch, [source], force=force)
        return moved

    def _run_move_prefix(self, request: staging.MovePrefix, _: Context) -> Iterator[tuple[str, ObjectEntry]]:
        """Move the objects under a prefix. One request per object, and one delete request per thousand."""
        branch, prefix, force = request.branch, request.source_prefix, request.force
        _expect_apart(True, prefix, request.destination_prefix)

        def moving() -> Iterator[tuple[str, ObjectEntry]]:
            listed = self.objects(branch, prefix)
            while some := list(islice(listed, PAGE)):
                moved = []
                for entry in some:
                    to = request.destination_prefix + entry.path.removeprefix(prefix)
                    moved.append((entry.path, self.copy(branch, entry.path, to, force=force)))
                self.delete(branch, [path for path, _ in moved], force=force)
                yield from moved

        return moving()

    def _run_update_metadata(self, request: staging.UpdateMetadata, _: Context) -> ObjectEntry:
        """Replace an object's metadata. Two requests."""
        send(self._connection, self._name, request)
        return self.stat(request.branch, request.path)

    def _run_reset(self, request: staging.Reset, _: Context) -> None:
        path, prefix, force = request.path, request.prefix, request.force
        if path is not None and prefix is not None:
            raise InvalidError(f"reset either path {path!r} or prefix {prefix!r}, but not both")
        if path is not None:
            document: dict[str, object] = {"type": "object", "path": path, "force": force}
        elif prefix:
            document = {"type": "common_prefix", "path": prefix, "force": force}
        else:
            document = {"type": "reset", "force": force}
        self._connection.call("PUT", branch_path(self._base, request.branch), None, document)

    def _run_export(self, request: Export, context: Context) -> ExportReport:
        """Export as a local lake does, with the verbs of this class."""
        from graveler.lake.exporting.export import export  # few programs export

        return export(self, request, context)

    # Commits

    def _run_merge(self, request: Merge, _: Context) -> Commit:
        """Merge. Two requests; on conflicts also :meth:`preview_merge`, which lists them."""
        response = send(self._connection, self._name, request, passing=(409,))
        if response.status != 409:
            return self.commit_of(response.read(refs.MergeResult).reference)
        refused = refusal(409, response.read(Error), f"merging {request.source!r} into {request.destination!r}")
        if isinstance(refused, MergeConflictError):
            conflicts = self.preview_merge(request.source, request.destination, request.strategies).conflicts
            if conflicts:
                raise MergeConflictError(request.source, request.destination, conflicts, refused.tables)
        raise refused

    def _run_revert(self, request: Revert, _: Context) -> Commit:
        """Revert. Two requests; on conflicts also those of :func:`graveler.remote.replays.replay_conflicts`."""
        response = send(self._connection, self._name, request, passing=(409,))
        if response.status == 409:
            raise self._conflicts(request, response, f"reverting {request.ref!r} on {request.branch!r}")
        return self.commit_of(response.headers.get(documents.COMMIT_HEADER) or f"{request.branch}@")

    def _run_cherry_pick(self, request: CherryPick, _: Context) -> Commit:
        """Cherry-pick. Conflicts as for a revert."""
        response = send(self._connection, self._name, request, passing=(409,))
        if response.status == 409:
            raise self._conflicts(request, response, f"picking {request.ref!r} onto {request.branch!r}")
        return response.read(documents.Commit).value()

    def written_by(self, branch: str, application: Application) -> Commit | None:
        """Return the commit that brought this version of an application, or a later one, to the branch; None if it is not written
        yet. Cost: one request; two if the commit exists."""
        path, query = branch_path(self._base, branch, "written"), {"application": application.id}
        written = self._connection.get(path, refs.WrittenVersion, {**query, "version": application.version})
        return None if written.commit_id is None else self.commit_of(written.commit_id)

    def _conflicts(self, request: Replay, response: Response, doing: str) -> GravelerError:
        """Return the error that lists the conflicts; the server's own if no conflicts remain, or if it is another one."""
        refused = refusal(409, response.read(Error), doing)
        if not isinstance(refused, MergeConflictError):
            return refused
        commit = self.commit_of(request.ref)
        parent = commit.parents[max(request.parent_number, 1) - 1]
        base, source = (commit.id, parent) if isinstance(request, Revert) else (parent, commit.id)
        conflicts = replay_conflicts(self, request.branch, base, source, request.strategies)
        paths = {table.path for table in refused.tables}  # a table that both sides changed may be merged
        conflicts = tuple(
            conflict for conflict in conflicts if conflict.path in paths or not is_table(conflict.path.encode())
        )
        return MergeConflictError(request.ref, request.branch, conflicts, refused.tables) if conflicts else refused

    def _run_import_folder(self, request: ImportFolder, context: Context) -> Imported:
        """Import a folder of the machine that serves the lake, as an import of addresses."""
        if request.copy:
            raise InvalidError(
                "a server imports files where they lie, and copies none; upload them with `graveler put -r`"
            )
        folder = request.folder
        address = ImportAddress(AddressType.COMMON_PREFIX, f"file://{folder.absolute()}/", request.destination)
        addresses = ImportAddresses(
            branch=request.branch,
            sources=(address,),
            info=replace(request.info, message=request.info.message or f"Import {folder}"),
            force=request.force,
            allow_empty=request.allow_empty,
            dry_run=request.dry_run,
            trust_mtime=request.trust_mtime,
            exclude=request.exclude,
            ignore=request.ignore,
        )
        return self._run_import_addresses(addresses, context)

    def _run_import_listing(self, request: ImportListing, context: Context) -> Imported:
        from graveler.lake.importing.object_listing import listing_name  # few programs import listings
        from graveler.lake.importing.sent_listing import write_listing
        from graveler.remote.background_operations import RemoteOperations

        expect_no_date(request.info)
        branch, options, info, progress = request.branch, request.options, request.info, context.progress
        namespace = self._connection.get(self._base, documents.Repository).storage_namespace
        with ExitStack() as stack:
            with temporary_files("preparing the listing"):
                folder = stack.enter_context(TemporaryDirectory(dir=own_folder(), prefix="listing-"))
                file = Path(folder) / "listing"
                written = write_listing(request.listing, namespace, options, file, progress)
            if not written and not request.allow_empty:  # the server would refuse it too, without the listing's name
                name = request.label or listing_name(request.listing, options)
                raise EmptySourceError([(name, options.destination)])
            address = self._transfers.send(branch, _LISTING, file, force=request.force)
        document = {
            "path": _LISTING,
            "physical_address": address,
            "destination": options.destination,
            "commit": {"message": info.message, "metadata": dict(info.metadata)},
            "force": request.force,
            "allow_empty": request.allow_empty,
        }
        path = branch_path(self._base, branch, "import", "listing")
        begun = self._begin_import(path, document, info.request_id, dry_run=request.dry_run)
        operations = RemoteOperations(self._connection, self._name)
        try:
            ended = operations.wait(begun.id)
        except KeyboardInterrupt:
            operations.cancel(begun.id)
            raise
        commit = self.commit_of(ended.result) if ended.result else None
        return self._imported(branch, commit, ended.changes, info)

    def _run_import_addresses(self, request: ImportAddresses, context: Context) -> Imported:
        """Import and wait for the end; Ctrl-C cancels it. Two requests, and one per poll; two more for a dry run."""
        expect_no_date(request.info)
        body = {
            "paths": [
                imports.ImportLocation(source.type, source.address, source.destination) for source in request.sources
            ],
            "commit": imports.CommitCreation(request.info.message, request.info.metadata),
            "force": request.force,
            "allow_empty": request.allow_empty,
            "trust_mtime": request.trust_mtime,
            "folders": request.folders,
            "exclude": request.exclude,
            "ignore": request.ignore,
        }
        path = branch_path(self._base, request.branch, "import")
        begun = self._begin_import(path, body, request.info.request_id, dry_run=request.dry_run)
        try:
            status = self._wait_for_import(path, begun.id, context.progress)
        except KeyboardInterrupt:
            self._connection.call("DELETE", path, {"id": begun.id}, passing=(404, 409))
            raise
        commit = status.commit.value() if status.commit else None
        imported = self._imported(request.branch, commit, status.changes or None, request.info)
        context.progress(0, imported.changes.bytes)
        return imported

    def _begin_import(
        self, path: Sequence[str], document: object, request_id: str, *, dry_run: bool
    ) -> imports.ImportCreationResponse:
        """Start an import. A dry run has its own path, since a server without dry runs would ignore a field and import."""
        if not dry_run:
            return self._connection.call("POST", path, None, document, key=request_id).read(
                imports.ImportCreationResponse
            )
        response = self._connection.call("POST", (*path, "dry-run"), None, document, key=request_id, passing=(404,))
        if response.status != 404:
            return response.read(imports.ImportCreationResponse)
        refused = response.read(Error)
        if refused.code == UNKNOWN_ROUTE_CODE:
            raise PreconditionError(
                "the server is older than this client and cannot dry-run an import; nothing was changed. Update the server"
            )
        raise refusal(404, refused, f"a dry run of an import into {path[3]!r}")

    def _wait_for_import(self, path: Sequence[str], import_id: str, progress: ObjectProgress) -> imports.ImportStatus:
        pause, done = _FIRST_LOOK, 0
        while True:
            status = self._connection.get(path, imports.ImportStatus, {"id": import_id})
            progress(status.ingested_objects - done, 0)
            done = status.ingested_objects
            if status.error:
                raise _import_failure(status.error)
            if status.completed:
                return status
            time.sleep(pause)
            pause = min(_LONGEST_LOOK, pause * 1.5)

    def _imported(
        self,
        branch: str,
        commit: Commit | None,
        changes: ImportChanges | None,
        info: CommitInfo,
    ) -> Imported:
        """Return an import's result if the server reports what it changed; without a commit, that of a dry run on the branch's
        head."""
        if changes is None:
            raise UnavailableError(
                f"the server imported to {branch!r} and does not say what it changed: it is older than this client, or whoever "
                "worked on the import died before they could tell; see `graveler diff --summary`"
            )
        if commit is None:
            commit = not_made(self.commit_of(f"{branch}@"), info, MetarangeName(""))
        return Imported.by(commit, changes)


def not_made(head: Commit, info: CommitInfo, metarange: MetarangeName) -> Commit:
    """Return the placeholder commit of a dry run, which has no ID."""
    now, generation = int(time.time()), head.generation + 1
    return Commit(CommitID(""), (head.id,), metarange, "", info.message, now, generation, "", dict(info.metadata))


def _import_failure(failure: Error) -> GravelerError:
    return rebuild(failure.code, failure.fields, failure.sentence) or UnavailableError(
        f"the import failed on the server: {failure.sentence}"
    )


def _link_document(entry: ObjectEntry) -> dict[str, object]:
    """Return the API's document for linking an object."""
    return {
        "path": entry.path,
        "staging": {"physical_address": entry.address},
        "checksum": entry.checksum,
        "size_bytes": entry.size,
        "mtime": entry.mtime,
        "content_type": entry.content_type,
        "user_metadata": dict(entry.metadata),
    }


def _expect_apart(same: bool, source: str, destination: str) -> None:
    if same and (source.startswith(destination) or destination.startswith(source)):
        raise InvalidError(
            f"prefix {source!r} and prefix {destination!r} overlap on one branch; choose prefixes where neither starts with the "
            "other"
        )


def runs_remotely(kind: type[Request[Any]]) -> bool:
    """Return whether requests of a type work through a server."""
    return kind in _RUNS or kind.endpoint is not None


_RUNS: Final[Mapping[type[Request[Any]], Callable[[RemoteRepository, Any, Context], Any]]] = {
    **SETTINGS_RUNS,
    **PULL_RUNS,
    requests.CreateBranch: RemoteRepository._run_create_branch,
    requests.ReleaseBranch: RemoteRepository._run_release_branch,
    requests.HardReset: RemoteRepository._run_hard_reset,
    Merge: RemoteRepository._run_merge,
    Revert: RemoteRepository._run_revert,
    CherryPick: RemoteRepository._run_cherry_pick,
    Export: RemoteRepository._run_export,
    ImportAddresses: RemoteRepository._run_import_addresses,
    ImportFolder: RemoteRepository._run_import_folder,
    ImportListing: RemoteRepository._run_import_listing,
    CommitTables: RemoteRepository._run_commit_tables,
    RunChecks: RemoteRepository._run_checks,
    staging.Copy: RemoteRepository._run_copy,
    staging.CopyPrefix: RemoteRepository._run_copy_prefix,
    staging.Delete: RemoteRepository._run_delete,
    staging.Link: RemoteRepository._run_link,
    staging.LinkMany: RemoteRepository._run_link_many,
    staging.Move: RemoteRepository._run_move,
    staging.MovePrefix: RemoteRepository._run_move_prefix,
    staging.Reset: RemoteRepository._run_reset,
    staging.UpdateMetadata: RemoteRepository._run_update_metadata,
    staging.Upload: lambda repository, request, context: repository._transfers.upload(
        request, context.body, context.progress
    ),
}
"""Requests that are more than one HTTP request, or whose result is not the response's document."""
