"""Namespaces of a catalog."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from graveler.api.call import Call
from graveler.api.errors import ApiError
from graveler.api.iceberg.catalog_calls import commit_info, levels, page_of, reader, run
from graveler.api.queries import Query
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.requests import iceberg
from graveler.requests.base import Permission

routes = Routes("catalog")

NAMESPACES: Final = "/v1/{repository}/{branch}/namespaces"
NAMESPACE: Final = NAMESPACES + "/{namespace}"


class PagesQuery(Query, frozen=True, kw_only=True, rename="camel"):
    """A page of a listing: without ``pageSize`` and ``pageToken``, all of it."""

    page_token: Annotated[str, Meta(description="the `next-page-token` of the previous page")] = ""
    page_size: Annotated[int, Meta(ge=1)] = 0


class NamespacesQuery(PagesQuery, frozen=True, kw_only=True, rename="camel"):
    """The namespaces to list: those right below ``parent``, or the highest ones."""

    parent: str = ""


class NewNamespace(Struct, frozen=True):
    """A namespace to create."""

    namespace: tuple[str, ...]
    properties: dict[str, str] = {}


class PropertyChanges(Struct, frozen=True):
    """Changes of a namespace's properties."""

    removals: tuple[str, ...] = ()
    updates: dict[str, str] = {}


@routes.get(NAMESPACES, "listNamespaces", Permission.READ, responses={200: None})
def list_namespaces(call: Call, repository: str, branch: str, query: NamespacesQuery) -> Response:
    """List namespaces right below one."""
    above = levels(query.parent) if query.parent else ()
    catalog = reader(call, repository, branch)
    namespaces, token = page_of(
        lambda after, amount: catalog.namespaces(above, after, amount), query.page_token, query.page_size
    )
    return json_response({"namespaces": namespaces} | ({"next-page-token": token} if token else {}))


@routes.post(NAMESPACES, "createNamespace", iceberg.CreateNamespace, responses={200: None})
def create_namespace(call: Call, repository: str, branch: str, body: NewNamespace) -> Response:
    """Create a namespace."""
    request = iceberg.CreateNamespace(
        branch=branch, namespace=body.namespace, properties=body.properties, info=commit_info(call)
    )
    commit = run(call, repository, request)
    properties = reader(call, repository, branch, commit).namespace(body.namespace)
    return json_response({"namespace": body.namespace, "properties": properties})


@routes.get(NAMESPACE, "loadNamespace", Permission.READ, responses={200: None})
def load_namespace(call: Call, repository: str, branch: str, namespace: str) -> Response:
    """Return the properties of a namespace."""
    name = levels(namespace)
    return json_response({"namespace": name, "properties": reader(call, repository, branch).namespace(name)})


@routes.route("HEAD", NAMESPACE, "namespaceExists", Permission.READ, responses={204: None})
def namespace_exists(call: Call, repository: str, branch: str, namespace: str) -> Response:
    """Answer whether a namespace exists."""
    reader(call, repository, branch).namespace(levels(namespace))
    return no_content()


@routes.delete(NAMESPACE, "dropNamespace", iceberg.DropNamespace, responses={204: None})
def drop_namespace(call: Call, repository: str, branch: str, namespace: str) -> Response:
    """Drop an empty namespace."""
    run(call, repository, iceberg.DropNamespace(branch=branch, namespace=levels(namespace), info=commit_info(call)))
    return no_content()


@routes.post(
    NAMESPACE + "/properties", "updateNamespaceProperties", iceberg.SetNamespaceProperties, responses={200: None}
)
def update_properties(call: Call, repository: str, branch: str, namespace: str, body: PropertyChanges) -> Response:
    """Set and remove properties of a namespace."""
    name = levels(namespace)
    both = sorted({*body.removals} & {*body.updates})
    if both:
        raise ApiError(422, f"property {both[0]!r} is to be both removed and set; leave it out of one of them")
    before = reader(call, repository, branch).namespace(name)
    request = iceberg.SetNamespaceProperties(
        branch=branch, namespace=name, removals=body.removals, updates=body.updates, info=commit_info(call)
    )
    run(call, repository, request)
    removed = [field for field in dict.fromkeys(body.removals) if field in before]
    missing = [field for field in dict.fromkeys(body.removals) if field not in before]
    return json_response({"updated": list(body.updates), "removed": removed, "missing": missing})
