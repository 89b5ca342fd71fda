"""Access of clients to the files of tables in S3: credentials for one table, or signatures for single requests.

A client names the ways that it knows in the header ``X-Iceberg-Access-Delegation``. Credentials are sessions of the role that the
server is configured with (:mod:`graveler.api.iceberg.session_policies`). Without a role, and without a header, a client has its
own credentials, and is told where S3 is.
"""

import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from graveler.api.call import Call
from graveler.api.iceberg.catalog_calls import SEPARATOR
from graveler.api.iceberg.session_policies import S3Folder, TableRights, partition_of, policy_of
from graveler.api.staging import require_source
from graveler.errors import ForbiddenError, GravelerError
from graveler.history.expressions import resolve
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.linked_files import outside_addresses
from graveler.lake.iceberg.table_folders import expect_not_moved, folder_of
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.repository_settings import protecting
from graveler.model import ObjectEntry
from graveler.requests.base import Permission
from graveler.requests.iceberg import Identifier

if TYPE_CHECKING:
    from graveler.storage.objects.s3_clients import S3Settings

DELEGATION_HEADER: Final = "x-iceberg-access-delegation"
_S3: Final = "s3://"
_VENDED_CREDENTIALS: Final = "vended-credentials"
_REMOTE_SIGNING: Final = "remote-signing"
_NOT_COVERED: Final = "graveler-not-covered"
"""The key of a table's configuration that says which of its files its credentials do not open, and why."""
_MAX_SOURCE_LINKS: Final = 10_000
"""The most links of files outside of a table's folder that are read to find their folders."""

_log = logging.getLogger("graveler.api")


class StorageCredential(Struct, frozen=True):
    """The configuration with which a client reaches what begins with a prefix."""

    prefix: str
    config: dict[str, str]


class TableAccess(Struct, frozen=True):
    """The configuration of a table for its client. ``stamp`` changes with the credentials in it; it is empty without any."""

    config: dict[str, str] = {}
    credentials: tuple[StorageCredential, ...] = ()
    stamp: str = ""


class TableFiles(Struct, frozen=True):
    """A table, as far as access to its files depends on it: its name, UUID and location; its entry at a commit that ``catalog``
    reads, or the ``claim`` to it while its creation is staged."""

    name: Identifier
    uuid: str
    location: str
    entry: ObjectEntry | None = None
    catalog: CatalogReader | None = None
    claim: str = ""


def offered_access(call: Call, namespace: str) -> tuple[str, ...]:
    """Return the endpoints for access that a repository's catalog offers. No request."""
    if not namespace.startswith(_S3):
        return ()
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    return (
        *([f"GET {table}/credentials"] if call.settings.table_role else []),
        *([f"POST {table}/sign"] if call.settings.presigned else []),
    )


def access_to(call: Call, opened: OpenRepository, branch: str, table: TableFiles) -> TableAccess:
    """Return a client's access to a table for a ref. No request, but on S3 with a role: for a writer one table read, the links of
    files outside of the table's folder, and one request to STS unless this process has such a session. :class:`InvalidError` for
    a table of a lake that was moved; else errors as of :func:`graveler.storage.role_sessions.assume_role`."""
    expect_not_moved(opened.parts, table.uuid, table.location)
    settings = _s3_settings(opened)
    if settings is None:
        return TableAccess()
    config = _location_of_s3(settings)
    ways = {way.strip().lower() for way in call.headers.get(DELEGATION_HEADER, _VENDED_CREDENTIALS).split(",")}
    if _VENDED_CREDENTIALS in ways and call.settings.table_role:
        return _access_by_credentials(call, opened, branch, table, config)
    if _REMOTE_SIGNING in ways and call.settings.presigned:
        return TableAccess(config | _signing_settings(opened.repository.name, branch, table.name))
    return TableAccess(config)


def access_after(call: Call, opened: OpenRepository, branch: str, table: TableFiles) -> TableAccess:
    """Return the result of :func:`access_to` for a table that was just changed. An error must not make the change look refused,
    so it is logged, and the client gets its text instead of credentials."""
    try:
        return access_to(call, opened, branch, table)
    except GravelerError as error:
        _log.error("request %s: no access to table %s: %s", call.request_id, table.name, error)
        return TableAccess({_NOT_COVERED: f"{table.location}/: {error}"})


def may_write(call: Call, opened: OpenRepository, ref: str) -> bool:
    """Return whether the caller may write files of tables for a ref: a branch that it may change directly. One table read at
    most."""
    name, parts, settings = opened.repository.name, opened.parts, opened.repository.settings
    if settings.read_only or not call.identity.allows(Permission.WRITE, name, ref):
        return False
    branch = resolve(ref, parts.refs, parts.commits).branch
    return branch is not None and (branch.hidden or protecting(ref, settings.protected) is None)


def _s3_settings(opened: OpenRepository) -> "S3Settings | None":
    if not opened.repository.namespace.startswith(_S3):
        return None
    from graveler.storage.objects.s3 import S3Objects  # botocore, which lakes in folders do without

    objects = opened.parts.objects
    return objects.settings if isinstance(objects, S3Objects) else None


def s3_settings(opened: OpenRepository) -> "S3Settings":
    """Return the settings for the S3 that a repository lies in. :class:`ForbiddenError` if it lies elsewhere."""
    settings = _s3_settings(opened)
    if settings is None:
        raise ForbiddenError(
            f"the files of repository {opened.repository.name!r} are not in S3: clients read them where they are"
        )
    return settings


def s3_folder(address: str) -> S3Folder:
    """Return the folder at an address in S3."""
    bucket, _, path = address.removeprefix(_S3).rstrip("/").partition("/")
    return S3Folder(bucket, path)


def _location_of_s3(settings: "S3Settings") -> dict[str, str]:
    """Return how clients reach S3. They need not try to delete: nobody may, and other refs have the same files."""
    from graveler.storage.objects.s3_clients import place_of

    place = place_of(settings)
    config = {"client.region": place.region, "s3.region": place.region, "s3.delete-enabled": "false"}
    if place.endpoint is not None:
        config["s3.endpoint"] = place.endpoint
    if place.path_style:
        config["s3.path-style-access"] = "true"
    return config


def _signing_settings(repository: str, branch: str, table: Identifier) -> dict[str, str]:
    """Return the settings that make clients ask this server for signatures. The endpoint is relative to the catalog's address."""
    endpoint = f"{_path_of(repository, branch, table)}/sign"
    return {
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.endpoint": endpoint,
        "signer.endpoint": endpoint,
    }


def _path_of(repository: str, branch: str, table: Identifier) -> str:
    namespace, name = quote(SEPARATOR.join(table.namespace), safe=""), quote(table.name, safe="")
    return f"v1/{repository}/{branch}/namespaces/{namespace}/tables/{name}"


def _access_by_credentials(
    call: Call, opened: OpenRepository, branch: str, table: TableFiles, config: dict[str, str]
) -> TableAccess:
    from graveler.api.iceberg.table_sessions import session_for
    from graveler.storage.role_sessions import MAX_POLICY, PolicyTooLargeError

    role = call.settings.table_role
    folder = folder_of(opened.parts, table.uuid, table.location)
    rights = TableRights(s3_folder(folder.location), may_write(call, opened, branch), ends=call.identity.expires)
    sources, left_out = _sources(call, opened, table)
    while sources and len(policy_of(replace(rights, sources=sources), partition_of(role))) > MAX_POLICY:
        left_out.append(f"{sources[-1].address}: the credentials of one table cannot name more places")
        sources = sources[:-1]
    region = config["s3.region"]
    try:
        session = session_for(role, call.identity, replace(rights, sources=sources), region)
    except PolicyTooLargeError:
        left_out += [f"{source.address}: the credentials of one table cannot name more places" for source in sources]
        session = session_for(role, call.identity, rights, region)
    ends = session.ends if rights.ends is None else min(session.ends, rights.ends)
    secrets = config | {
        "s3.access-key-id": session.keys.access_key,
        "s3.secret-access-key": session.keys.secret_key,
        "s3.session-token": session.keys.token,
        "s3.session-token-expires-at-ms": str(int(ends * 1000)),
        "client.refresh-credentials-endpoint": f"{_path_of(opened.repository.name, branch, table.name)}/credentials"
        + (f"?claim={table.claim}" if table.claim else ""),
    }
    if left_out:
        secrets[_NOT_COVERED] = "; ".join(left_out)
    call.audit(
        "credentials", repository=opened.repository.name, ref=branch, path=str(table.name), address=folder.location
    )
    return TableAccess(secrets, (StorageCredential(f"{folder.location}/", secrets),), session.keys.access_key)


def _sources(call: Call, opened: OpenRepository, table: TableFiles) -> tuple[tuple[S3Folder, ...], list[str]]:
    """Return the folders of import sources that have files of a table, as far as the caller may read them, and of others why they
    are left out."""
    if table.entry is None or table.catalog is None:
        return (), []
    folders: set[str] = set()
    left_out: list[str] = []
    for count, address in enumerate(outside_addresses(opened.parts, table.catalog.tree, table.entry)):
        if count == _MAX_SOURCE_LINKS:
            left_out.append(f"files outside of the table's folder behind the first {_MAX_SOURCE_LINKS:,}")
            break
        folders.add(f"{address.rpartition('/')[0]}/")
    readable: list[S3Folder] = []
    for folder in sorted(folders):
        try:
            require_source(call, opened, folder, prefix=True)
            if owners := call.lake.neighbours.owners(folder, prefix=True):
                left_out.append(
                    f"{folder}: repository {owners[0].name!r} has its storage there; move the files elsewhere"
                )
            else:
                readable.append(s3_folder(folder))
        except ForbiddenError as error:
            left_out.append(f"{folder}: {error}")
    return tuple(readable), left_out
