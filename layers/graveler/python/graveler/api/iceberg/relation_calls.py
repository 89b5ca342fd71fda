"""Calls that the routes of tables and of views share: listings, changes, drops and renamings."""

from typing import Any

from msgspec import Struct

from graveler.api.call import Call
from graveler.api.errors import bad_request
from graveler.api.iceberg.catalog_calls import NamedRelation, commit_info, levels, page_of, reader, run
from graveler.api.iceberg.namespace_routes import PagesQuery
from graveler.api.response import Response, json_response, no_content
from graveler.requests import iceberg
from graveler.requests.iceberg import Identifier, Relation


class Renaming(Struct, frozen=True):
    """A table or a view to rename."""

    source: NamedRelation
    destination: NamedRelation


class Changes(Struct, frozen=True):
    """Changes of one table or view."""

    updates: tuple[dict[str, Any], ...]
    requirements: tuple[dict[str, Any], ...] = ()
    identifier: NamedRelation | None = None


def list_relations(
    call: Call, repository: str, branch: str, namespace: str, query: PagesQuery, kind: Relation
) -> Response:
    """Return the response with a page of the tables or the views of a namespace. Cost and errors as of
    :meth:`graveler.lake.iceberg.catalog_reader.CatalogReader.relations`."""
    catalog, name = reader(call, repository, branch), levels(namespace)
    relations, token = page_of(
        lambda after, amount: catalog.relations(name, kind, after, amount), query.page_token, query.page_size
    )
    return json_response({"identifiers": relations} | ({"next-page-token": token} if token else {}))


def expect_same_name(changes: Changes, name: Identifier, kind: Relation) -> None:
    """Refuse changes whose body names another table or view than their path."""
    if changes.identifier is not None and changes.identifier.identifier() != name:
        raise bad_request(f"the path names {kind} {name}, and the body {changes.identifier.identifier()}")


def drop_relation(call: Call, repository: str, branch: str, relation: Identifier, kind: Relation) -> Response:
    """Drop a table or a view. See :class:`graveler.requests.iceberg.DropRelation`."""
    request = iceberg.DropRelation(branch=branch, relation=relation, kind=kind, info=commit_info(call))
    run(call, repository, request)
    return no_content()


def rename_relation(call: Call, repository: str, branch: str, renaming: Renaming, kind: Relation) -> Response:
    """Rename a table or a view. See :class:`graveler.requests.iceberg.RenameRelation`."""
    request = iceberg.RenameRelation(
        branch=branch,
        relation=renaming.source.identifier(),
        destination=renaming.destination.identifier(),
        kind=kind,
        info=commit_info(call),
    )
    run(call, repository, request)
    return no_content()
