"""Signatures for requests of S3 that clients make by themselves: of the files of one table, and of nothing else."""

import re
from typing import Final
from urllib.parse import unquote

from graveler.api.call import Call
from graveler.api.iceberg.catalog_calls import identifier
from graveler.api.iceberg.signable_requests import SignableRequest, SigningRequest, read_request
from graveler.api.iceberg.table_access import may_write, s3_settings
from graveler.api.iceberg.table_routes import TABLE
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.api.staging import require_source
from graveler.errors import ForbiddenError
from graveler.lake.iceberg.catalog_errors import RelationNotFoundError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.linked_files import has_outside
from graveler.lake.iceberg.table_folders import folder_of
from graveler.lake.repository import OpenRepository
from graveler.requests.base import Permission

routes = Routes("catalog")

_TABLE_FOLDER: Final = re.compile(r"(?P<folder>tables/[0-9a-v]{20}/[0-9a-v]{20})/.", re.ASCII)
_CACHEABLE: Final = {"cache-control": "private"}
"""Clients may use the signature of a read again, for half a minute."""
_NOT_CACHEABLE: Final = {"cache-control": "no-store"}


@routes.post(TABLE + "/sign", "signTableRequest", Permission.READ, responses={200: None})
def sign_table_request(
    call: Call, repository: str, branch: str, namespace: str, table: str, body: SigningRequest
) -> Response:
    """Sign a request for a file of a table: to read one in its folder, or in an import source that the caller may read, or, on a
    branch that the caller may change, to write a new one into its folder. Nothing can be deleted, replaced or listed."""
    opened = call.lake.repository(repository)
    request = read_request(body, _endpoint_of(opened))
    catalog, name = CatalogReader(opened.parts, branch), identifier(namespace, table)
    try:
        loaded = catalog.load(name)
    except RelationNotFoundError:
        # Its creation may be staged: a writer then writes into the folder of a table that no commit has yet.
        _require_writer(call, opened, branch)
        return _signature_in_any_folder(call, opened, branch, request, body.region)
    document = loaded.document
    folder = folder_of(opened.parts, document["table-uuid"], document["location"])
    if request.address.startswith(f"{folder.location}/"):
        if request.writes:
            _require_writer(call, opened, branch)
        return _signature(call, opened, branch, request, body.region)
    if request.writes or not has_outside(catalog.tree, loaded.entry, request.address):
        raise ForbiddenError(
            f"{request.address!r} is no file of table {name} at {branch!r}, whose folder is {folder.location!r}"
        )
    require_source(call, opened, request.address)
    return _signature(call, opened, branch, request, body.region)


@routes.post("/v1/aws/s3/sign", "signRequest", Permission.READ, responses={200: None})
def sign_request(call: Call, body: SigningRequest) -> Response:
    """Sign a request of a client that names no table: to read a file in the folder of any table of a repository that the caller
    may read, or, if the caller may change all of its branches, to write a new one there."""
    opened = _repository_of(call, body.uri)
    request = read_request(body, _endpoint_of(opened))
    if request.writes:
        call.identity.require(Permission.WRITE, opened.repository.name)
    return _signature_in_any_folder(call, opened, "", request, body.region)


def _endpoint_of(opened: OpenRepository) -> str | None:
    """Return the URL of the S3 that a repository lies in; None: AWS's."""
    from graveler.storage.objects.s3_clients import place_of

    return place_of(s3_settings(opened)).endpoint


def _repository_of(call: Call, uri: str) -> OpenRepository:
    """Return the repository in whose storage the address of a request seems to lie; the address is not checked yet. Cost as
    :meth:`Neighbours.owners`, and one table read. :class:`ForbiddenError` if the caller may read no such repository."""
    host, slash, path = uri.partition("?")[0].partition("://")[2].partition("/")
    path = slash + unquote(path)
    for address in (f"s3:/{path}", f"s3://{host.partition('.s3')[0]}{path}"):
        for owner in call.lake.neighbours.owners(address):
            if not owner.deleted and call.identity.sees(owner.name):
                return call.lake.repository(owner.name)
    raise ForbiddenError(
        f"{uri.partition('?')[0][:200]!r} is in no repository that you may read; check the address, or ask for access"
    )


def _require_writer(call: Call, opened: OpenRepository, branch: str) -> None:
    """Raise :class:`ForbiddenError` unless the caller may write files of tables for a branch."""
    call.identity.require(Permission.WRITE, opened.repository.name, branch)
    if not may_write(call, opened, branch):
        raise ForbiddenError(
            f"{branch!r} is no branch of repository {opened.repository.name!r} that changes directly, so no file is written for "
            "it; open a branch of your own"
        )


def _signature_in_any_folder(
    call: Call, opened: OpenRepository, branch: str, request: SignableRequest, region: str
) -> Response:
    """Return the signature of a request for a file in the folder of some table of a repository."""
    namespace = f"{opened.repository.namespace}/"
    if not request.address.startswith(namespace) or not _TABLE_FOLDER.match(request.address.removeprefix(namespace)):
        raise ForbiddenError(
            f"{request.address!r} is no file of a table of repository {opened.repository.name!r}; load the table, and use its "
            "location"
        )
    return _signature(call, opened, branch, request, region)


def _signature(call: Call, opened: OpenRepository, branch: str, request: SignableRequest, region: str) -> Response:
    """Return the signature of a request, by the server's own credentials. :class:`UnavailableError` without valid ones."""
    from graveler.storage.objects.s3_clients import credentials_of
    from graveler.storage.objects.s3_signature import S3Signer, target_of

    keys = credentials_of(s3_settings(opened), request.address).keys
    target = target_of(request.path, request.key, request.query)
    headers = S3Signer(keys, region).sign(request.method, target, request.headers)
    call.audit("signed", repository=opened.repository.name, ref=branch, address=request.address)
    signed = {name: [text] for name, text in headers.items() if name != "host"}
    return json_response({"uri": request.uri, "headers": signed}, 200, _NOT_CACHEABLE if request.writes else _CACHEABLE)
