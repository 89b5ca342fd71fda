"""Tables of a catalog."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, Literal

from msgspec import Struct

from graveler.api.call import Call
from graveler.api.compression import NO_STORE
from graveler.api.errors import bad_request
from graveler.api.iceberg.catalog_calls import commit_info, identifier, reader, run
from graveler.api.iceberg.namespace_routes import NAMESPACE, PagesQuery
from graveler.api.iceberg.relation_calls import (
    Changes,
    Renaming,
    drop_relation,
    expect_same_name,
    list_relations,
    rename_relation,
)
from graveler.api.iceberg.table_access import TableAccess, TableFiles, access_after, access_to
from graveler.api.queries import Query
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.history.commits import is_commit_id
from graveler.lake.iceberg.catalog_errors import RelationNotFoundError
from graveler.lake.iceberg.catalog_reader import CatalogReader, LoadedRelation
from graveler.lake.iceberg.staged_tables import Staging, claim_to, claimed_table
from graveler.lake.iceberg.table_creation import staged_table
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit
from graveler.requests import iceberg
from graveler.requests.base import Permission
from graveler.requests.iceberg import Identifier, TableChange
from graveler.table_format.plain_documents import Document
from graveler.table_format.row_id_blocks import with_own_row_ids

routes = Routes("catalog")

TABLES: Final = NAMESPACE + "/tables"
TABLE: Final = TABLES + "/{table}"
_NOT_CACHEABLE: Final = {"cache-control": NO_STORE}


class TableQuery(Query, frozen=True, kw_only=True):
    """The snapshots in the metadata of a loaded table: all, or those that a branch or a tag of the table names."""

    snapshots: Literal["all", "refs"] = "all"


class DropQuery(Query, frozen=True, kw_only=True, rename="camel"):
    """The wish to remove the data of a dropped table, too: it is removed in any case, once no retained commit has it."""

    purge_requested: bool = False


class CredentialsQuery(Query, frozen=True, kw_only=True):
    """The claim to a table whose creation is staged; the server put it into the address that the client calls."""

    claim: str = ""


class TableDefinition(Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A table to create. Its location is ours to choose."""

    name: str
    schema: dict[str, Any]
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    stage_create: bool | None = None
    properties: dict[str, str] | None = None
    location: str | None = None

    def document(self) -> dict[str, Any]:
        """Return what the lake needs of it."""
        return {
            "name": self.name,
            "schema": self.schema,
            "partition-spec": self.partition_spec,
            "write-order": self.write_order,
            "properties": self.properties or {},
        }


class RegisteredTable(Struct, frozen=True, rename="kebab"):
    """A table to register, whose metadata exists."""

    name: str
    metadata_location: str
    overwrite: bool = False


class Transaction(Struct, frozen=True, rename="kebab"):
    """Changes of several tables, which happen together."""

    table_changes: tuple[Changes, ...]


@routes.get(TABLES, "listTables", Permission.READ, responses={200: None})
def list_tables(call: Call, repository: str, branch: str, namespace: str, query: PagesQuery) -> Response:
    """List the tables of a namespace."""
    return list_relations(call, repository, branch, namespace, query, "table")


@routes.post(TABLES, "createTable", iceberg.CreateTable, responses={200: None})
def create_table(call: Call, repository: str, branch: str, namespace: str, body: TableDefinition) -> Response:
    """Create a table, or stage its creation for a later commit."""
    table = identifier(namespace, body.name)
    if body.stage_create:
        opened = call.lake.repository(repository)
        document = staged_table(opened.parts, branch, table, body.document())
        uuid = document["table-uuid"]
        claim = claim_to(opened.parts, _staging(call, branch, table), uuid)
        staged = TableFiles(table, uuid, document["location"], claim=claim)
        return _response({"metadata": document}, access_to(call, opened, branch, staged))
    request = iceberg.CreateTable(branch=branch, table=table, definition=body.document(), info=commit_info(call))
    return _table_response(call, repository, branch, table, run(call, repository, request))


@routes.post(NAMESPACE + "/register", "registerTable", iceberg.RegisterTable, responses={200: None})
def register_table(call: Call, repository: str, branch: str, namespace: str, body: RegisteredTable) -> Response:
    """Give a name to a table whose metadata exists."""
    table = identifier(namespace, body.name)
    request = iceberg.RegisterTable(
        branch=branch, table=table, location=body.metadata_location, overwrite=body.overwrite, info=commit_info(call)
    )
    return _table_response(call, repository, branch, table, run(call, repository, request))


@routes.get(TABLE, "loadTable", Permission.READ, responses={200: None, 304: None})
def load_table(call: Call, repository: str, branch: str, namespace: str, table: str, query: TableQuery) -> Response:
    """Return the metadata of a table."""
    opened = call.lake.repository(repository)
    catalog = CatalogReader(opened.parts, branch)
    loaded = catalog.load(identifier(namespace, table))
    access = access_to(call, opened, branch, _table_files(loaded, catalog))
    etag = _etag(loaded, f"{query.snapshots}{access.stamp}")
    if call.headers.get("if-none-match", "") in (etag, f"W/{etag}"):
        return no_content({"etag": etag}, 304)
    document = _client_metadata(loaded, opened.parts, branch)
    if query.snapshots == "refs":
        document = _with_snapshots_of_refs(document)
    return _response({"metadata-location": loaded.location, "metadata": document}, access, etag)


@routes.get(TABLE + "/credentials", "loadCredentials", Permission.READ, responses={200: None})
def load_credentials(
    call: Call, repository: str, branch: str, namespace: str, table: str, query: CredentialsQuery
) -> Response:
    """Return credentials for the files of a table, as those of a loaded one; none where clients have their own."""
    opened = call.lake.repository(repository)
    catalog, name = CatalogReader(opened.parts, branch), identifier(namespace, table)
    try:
        files = _table_files(catalog.load(name), catalog)
    except RelationNotFoundError:
        if not query.claim:
            raise
        call.identity.require(Permission.WRITE, repository, branch)
        staged = claimed_table(opened.parts, _staging(call, branch, name), query.claim)
        if staged is None:
            raise
        uuid, folder = staged
        files = TableFiles(name, uuid, folder.location, claim=query.claim)
    access = access_to(call, opened, branch, files)
    return json_response({"storage-credentials": access.credentials}, 200, _NOT_CACHEABLE)


@routes.route("HEAD", TABLE, "tableExists", Permission.READ, responses={204: None})
def table_exists(call: Call, repository: str, branch: str, namespace: str, table: str) -> Response:
    """Answer whether a table exists."""
    reader(call, repository, branch).expect(identifier(namespace, table), "table")
    return no_content()


@routes.post(TABLE, "updateTable", iceberg.CommitTables, responses={200: None})
def update_table(call: Call, repository: str, branch: str, namespace: str, table: str, body: Changes) -> Response:
    """Commit changes of a table, or create it."""
    name = identifier(namespace, table)
    expect_same_name(body, name, "table")
    commit = _commit(call, repository, branch, [TableChange(name, body.requirements, body.updates)])
    return _table_response(call, repository, branch, name, commit)


@routes.post(
    "/v1/{repository}/{branch}/transactions/commit", "commitTransaction", iceberg.CommitTables, responses={204: None}
)
def commit_transaction(call: Call, repository: str, branch: str, body: Transaction) -> Response:
    """Commit changes of several tables, all of them or none."""
    changes: list[TableChange] = []
    for change in body.table_changes:
        if change.identifier is None:
            raise bad_request("each change of a transaction needs the identifier of its table")
        changes.append(TableChange(change.identifier.identifier(), change.requirements, change.updates))
    if changes:
        _commit(call, repository, branch, changes)
    return no_content()


@routes.delete(TABLE, "dropTable", iceberg.DropRelation, responses={204: None})
def drop_table(call: Call, repository: str, branch: str, namespace: str, table: str, query: DropQuery) -> Response:
    """Drop a table. A purge needs nothing more: the collector removes bytes that no retained commit has."""
    del query
    return drop_relation(call, repository, branch, identifier(namespace, table), "table")


@routes.post("/v1/{repository}/{branch}/tables/rename", "renameTable", iceberg.RenameRelation, responses={204: None})
def rename_table(call: Call, repository: str, branch: str, body: Renaming) -> Response:
    """Rename a table."""
    return rename_relation(call, repository, branch, body, "table")


@routes.post(TABLE + "/metrics", "reportMetrics", Permission.READ, responses={204: None}, raw_body=True)
def report_metrics(call: Call, repository: str, branch: str, namespace: str, table: str) -> Response:
    """Take note of the metrics of a scan or a commit in the audit log."""
    call.audit("metrics", repository=repository, ref=branch, path=str(identifier(namespace, table)))
    return no_content()


def _commit(call: Call, repository: str, branch: str, changes: Sequence[TableChange]) -> Commit:
    return run(call, repository, iceberg.CommitTables(branch=branch, tables=tuple(changes), info=commit_info(call)))


def _table_response(call: Call, repository: str, branch: str, table: Identifier, commit: Commit) -> Response:
    """Return the response with a table as it is at a commit."""
    opened = call.lake.repository(repository)
    catalog = CatalogReader(opened.parts, branch, commit)
    loaded = catalog.load(table)
    access = access_after(call, opened, branch, _table_files(loaded, catalog))
    body = {"metadata-location": loaded.location, "metadata": _client_metadata(loaded, opened.parts, branch)}
    return _response(body, access, _etag(loaded, f"all{access.stamp}"))


def _client_metadata(loaded: LoadedRelation, parts: RepositoryParts, ref: str) -> Document:
    """Return a table's metadata for a client: on a branch, writers number their rows in a block of its own."""
    if is_commit_id(ref):
        return loaded.document
    return with_own_row_ids(loaded.document, ref, parts.default_branch)


def _table_files(loaded: LoadedRelation, catalog: CatalogReader) -> TableFiles:
    document = loaded.document
    return TableFiles(loaded.identifier, document["table-uuid"], document["location"], loaded.entry, catalog)


def _staging(call: Call, branch: str, table: Identifier) -> Staging:
    identity = call.identity
    return Staging(branch, table, (identity.key_id, identity.name, identity.principal))


def _response(body: dict[str, Any], access: TableAccess, etag: str = "") -> Response:
    """Return the response with a table and a client's access to it. No cache may store credentials."""
    headers = {"etag": etag} if etag else {}
    if not access.credentials:
        return json_response({**body, "config": access.config}, 200, headers)
    body |= {"config": access.config, "storage-credentials": access.credentials}
    return json_response(body, 200, headers | _NOT_CACHEABLE)


def _etag(loaded: LoadedRelation, snapshots: str) -> str:
    return f'"{sha256(f"{loaded.location} {snapshots}".encode()).hexdigest()[:32]}"'


def _with_snapshots_of_refs(document: Document) -> Document:
    """Return the metadata with those snapshots only that a branch or a tag of the table names."""
    ids = {ref["snapshot-id"] for ref in document.get("refs", {}).values()} | {document.get("current-snapshot-id")}
    snapshots = [snapshot for snapshot in document.get("snapshots", ()) if snapshot["snapshot-id"] in ids]
    return {**document, "snapshots": snapshots}
