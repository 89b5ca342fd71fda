"""Imports of existing objects without copying, in the background."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from graveler.api.call import Call
from graveler.api.errors import UNKNOWN_OUTCOME, ApiError, bad_request
from graveler.api.idempotency import request_id
from graveler.api.operation_documents import failure_document
from graveler.api.queries import Query, RequiredText
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.api.staging import others_namespaces, require_source
from graveler.errors import AnswerLostError, PreconditionError
from graveler.lake.importing.prefix_listing import expect_files
from graveler.lake.repository import OpenRepository
from graveler.operations.listings import KIND as IMPORT_LISTING
from graveler.operations.listings import ImportListingRequest
from graveler.operations.operator import MAX_REQUEST_BYTES
from graveler.operations.pinned_requests import IMPORT, Pinned
from graveler.operations.store import Operation, OperationState
from graveler.requests import importing
from graveler.requests.base import CommitInfo, Permission
from graveler.requests.importing import AddressType, ImportAddress, ImportAddresses
from graveler.wire.documents import commit_document
from graveler.wire.error_documents import Error
from graveler.wire.imports import ImportCreationResponse, ImportLocation, ImportStatus, ImportTerms

routes = Routes("import")

_IMPORT: Final = "/repositories/{repository}/branches/{branch}/import"
_LOCAL: Final = "local:///"
_DRY_RUN: Final = "dry-run"
"""A separate path: a server without dry runs refuses it, where it would ignore a field and import."""


class ImportCreation(ImportTerms, frozen=True):
    """The import to start. It replaces everything under its destinations. A source without any object is an error
    (``EmptySourceError``), unless ``allow_empty``. With ``dry_run``, nothing is changed, and the status has what would change.
    With ``trust_mtime``, files are not read: their size and time of modification stand for their bytes, and the checksum of such
    an object is ``mtime:<nanoseconds>``; 400 for sources that are not files. With ``folders``, folder markers of S3 are imported
    too: empty objects whose key ends with a slash. ``exclude`` has patterns of files to leave out of folders, as lines of a
    ``.gitignore``; 400 for sources that are not files. With ``ignore``, the folders' ``.gravelerignore`` files count, too, and
    what is never data, such as ``.git`` and ``.env``, is left out."""

    paths: list[ImportLocation]
    trust_mtime: bool = False
    folders: bool = False
    exclude: tuple[str, ...] = ()
    ignore: bool = False


class ListingImportCreation(ImportTerms, frozen=True):
    """The listing to import, stored at ``physical_address``, which the server assigned for ``path`` on this branch. It is a
    gzipped CSV with the columns ``path,physical_address,size,etag,mtime,content_type,metadata``, with paths ascending and without
    ``destination``, which is empty or ends with a slash; the import replaces everything under it. ``allow_empty`` and ``dry_run``
    are as for an import of addresses."""

    path: str
    physical_address: str
    destination: str = ""


class ImportQuery(Query, frozen=True, kw_only=True):
    """The import."""

    id: RequiredText


@routes.post(
    _IMPORT,
    "importStart",
    importing.ImportAddresses,
    responses={202: ImportCreationResponse, 400: Error, 403: Error, 404: Error},
)
def start_import(call: Call, repository: str, branch: str, body: ImportCreation) -> Response:
    """Start an import. With an Idempotency-Key, a repeated request returns the import that the first one started."""
    opened = call.lake.repository(repository)
    opened.expect_changes(branch, force=call.force(body.force))
    sources = tuple(ImportAddress(path.type, _address(path.path), path.destination) for path in body.paths)
    request = ImportAddresses(
        branch=branch,
        sources=sources,
        info=CommitInfo(body.commit.message, call.committer, body.commit.metadata or {}),
        force=call.force(body.force),
        allow_empty=body.allow_empty,
        dry_run=body.dry_run,
        trust_mtime=body.trust_mtime,
        folders=body.folders,
        exclude=body.exclude,
        ignore=body.ignore,
    )
    stored = msgspec.json.encode(Pinned(request=request, actor=call.identity.actor))
    _expect_noted(stored, len(sources))
    namespace = opened.repository.namespace
    for source in sources:
        is_prefix = source.type is AddressType.COMMON_PREFIX
        if source.address.startswith(f"{namespace}/") or (is_prefix and f"{namespace}/".startswith(source.address)):
            raise bad_request(
                f"invalid import source {source.address!r}: it overlaps the repository's own namespace {namespace!r}; name a "
                "place outside of it"
            )
        require_source(call, opened, source.address, prefix=is_prefix)
        expect_files(source, trust_mtime=body.trust_mtime, exclude=body.exclude)
    return _begin(call, opened, IMPORT, branch, stored, dry_run=body.dry_run)


@routes.post(
    f"{_IMPORT}/{_DRY_RUN}",
    "importDryRun",
    importing.ImportAddresses,
    responses={202: ImportCreationResponse, 400: Error, 403: Error, 404: Error},
)
def start_dry_run(call: Call, repository: str, branch: str, body: ImportCreation) -> Response:
    """Start computing what an import would change, like an import with ``dry_run``. Servers without dry runs do not have this
    path.
    """
    return start_import(call, repository, branch, replace(body, dry_run=True))


def _address(named: str) -> str:
    """Return an address as the lake writes it: lakeFS calls files ``local:///path``."""
    return f"file:///{named.removeprefix(_LOCAL)}" if named.startswith(_LOCAL) else named


def _expect_noted(stored: bytes, number: int) -> None:
    """Refuse more sources than an operation can store, with a 400."""
    size = len(stored)
    if size > MAX_REQUEST_BYTES and number > 1:
        raise bad_request(
            f"an import of {number:,} sources takes {size:,} bytes, but one request can have {MAX_REQUEST_BYTES:,} bytes, here "
            f"about {number * MAX_REQUEST_BYTES // size:,} sources. Name prefixes that contain them, send several requests, or "
            "import a listing of the objects (POST …/import/listing)"
        )


@routes.post(
    f"{_IMPORT}/listing",
    "importListing",
    importing.ImportListing,
    responses={202: ImportCreationResponse, 400: Error, 403: Error, 404: Error},
)
def import_listing(call: Call, repository: str, branch: str, body: ListingImportCreation) -> Response:
    """Start importing the objects of an uploaded listing. Returns the ID of the operation."""
    opened = call.lake.repository(repository)
    opened.expect_changes(branch, force=call.force(body.force))
    opened.expect_handed_out(branch, body.path, body.physical_address)
    sources, narrowing = call.settings.import_sources, opened.repository.settings.import_sources
    allowed = sources if narrowing is None else sources.narrowed(narrowing)
    excluded = others_namespaces(call, [folder for level in allowed.folders for folder in level])
    request = ImportListingRequest(
        branch,
        body.physical_address,
        body.destination,
        allowed.folders,
        *_terms(call, body),
        others=excluded,
        actor=call.identity.actor,
    )
    document = msgspec.json.encode(request)
    if len(document) > MAX_REQUEST_BYTES:
        raise bad_request(
            f"{len(excluded):,} storage namespaces of other repositories are in the import sources, more than an import can "
            "record; ask an admin to narrow the repository's import sources"
        )
    return _begin(call, opened, IMPORT_LISTING, branch, document, dry_run=body.dry_run)


@routes.post(
    f"{_IMPORT}/listing/{_DRY_RUN}",
    "importListingDryRun",
    importing.ImportListing,
    responses={202: ImportCreationResponse, 400: Error, 403: Error, 404: Error},
)
def start_listing_dry_run(call: Call, repository: str, branch: str, body: ListingImportCreation) -> Response:
    """Start computing what the import of an uploaded listing would change, like one with ``dry_run``. Servers without dry runs do
    not have this path.
    """
    return import_listing(call, repository, branch, replace(body, dry_run=True))


def _terms(call: Call, body: ImportTerms) -> tuple[str, str, Mapping[str, str], bool, bool, bool]:
    """Return the options besides the sources, in the order that operations store them."""
    info = body.commit.message, call.committer, body.commit.metadata or {}
    return *info, call.force(body.force), body.allow_empty, body.dry_run


def _begin(call: Call, opened: OpenRepository, kind: str, branch: str, stored: bytes, *, dry_run: bool) -> Response:
    """Start the operation, or find the one that this request started. A dry run is a different request, whatever its key."""
    key = request_id(call)
    words = f"{_DRY_RUN}\0{key}" if dry_run else key  # no key has a NUL
    name = sha256(words.encode()).hexdigest()[:32] if key else ""
    operation = call.runner.start(opened, kind, stored, name, branch=branch)
    return json_response(ImportCreationResponse(operation.id), 202)


@routes.get(_IMPORT, "importStatus", Permission.READ, responses={200: ImportStatus, 404: Error})
def import_status(call: Call, repository: str, branch: str, query: ImportQuery) -> Response:
    """Show the progress of an import. If the process working on it has died, this process takes over."""
    opened = call.lake.repository(repository)
    opened.branch(branch)
    return json_response(_status(opened, _import_into(branch, call.runner.look(opened, query.id))))


@routes.delete(_IMPORT, "importCancel", Permission.WRITE, responses={204: None, 403: Error, 404: Error, 409: Error})
def cancel_import(call: Call, repository: str, branch: str, query: ImportQuery) -> Response:
    """Cancel an import: from now on it cannot commit anything. 409 if it has already ended, for example with its commit."""
    opened = call.lake.repository(repository)
    opened.branch(branch)
    _import_into(branch, call.runner.look(opened, query.id))
    try:
        call.runner.cancel(opened, query.id)
    except PreconditionError as error:
        raise ApiError(409, f"conflict: {error}", cause=error) from None
    return no_content()


def _import_into(branch: str, operation: Operation) -> Operation:
    """Return the operation if it is an import into this branch, on which the access key was checked. Else 404."""
    if operation.kind != IMPORT or operation.branch != branch:
        raise ApiError(404, f"not found: no import into branch {branch!r} has the ID {operation.id!r}")
    return operation


def _status(repository: OpenRepository, operation: Operation) -> ImportStatus:
    commit = repository.commit_of(operation.result) if operation.result else None
    return ImportStatus(
        completed=operation.state is OperationState.COMPLETED,
        update_time=datetime.fromtimestamp(operation.updated, UTC).isoformat(),
        ingested_objects=operation.objects,
        metarange_id=UNSET if commit is None else commit.metarange_id,
        commit=UNSET if commit is None else commit_document(commit),
        error=_failure(operation) if operation.error else UNSET,
        error_kind=operation.error_kind or UNSET,
        changes=operation.changes or UNSET,
    )


def _failure(operation: Operation) -> Error:
    if operation.error_kind == AnswerLostError.__name__:
        return failure_document(operation, UNKNOWN_OUTCOME)
    return failure_document(operation)
