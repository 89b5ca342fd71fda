"""Views of a catalog."""

from typing import Any, Final

from msgspec import Struct

from graveler.api.call import Call
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
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.model import Commit
from graveler.requests import iceberg
from graveler.requests.base import Permission
from graveler.requests.iceberg import Identifier

routes = Routes("catalog")

VIEWS: Final = NAMESPACE + "/views"
VIEW: Final = VIEWS + "/{view}"


class ViewDefinition(Struct, frozen=True, rename="kebab"):
    """A view to create. Its location is ours to choose."""

    name: str
    schema: dict[str, Any]
    view_version: dict[str, Any]
    properties: dict[str, str] = {}
    location: str | None = None

    def document(self) -> dict[str, Any]:
        """Return what the lake needs of it."""
        return {"schema": self.schema, "view-version": self.view_version, "properties": self.properties}


class RegisteredView(Struct, frozen=True, rename="kebab"):
    """A view to register, whose metadata exists."""

    name: str
    metadata_location: str


@routes.get(VIEWS, "listViews", Permission.READ, responses={200: None})
def list_views(call: Call, repository: str, branch: str, namespace: str, query: PagesQuery) -> Response:
    """List the views of a namespace."""
    return list_relations(call, repository, branch, namespace, query, "view")


@routes.post(VIEWS, "createView", iceberg.CreateView, responses={200: None})
def create_view(call: Call, repository: str, branch: str, namespace: str, body: ViewDefinition) -> Response:
    """Create a view."""
    view = identifier(namespace, body.name)
    request = iceberg.CreateView(branch=branch, view=view, definition=body.document(), info=commit_info(call))
    return _view_response(call, repository, branch, view, run(call, repository, request))


@routes.post(NAMESPACE + "/register-view", "registerView", iceberg.RegisterView, responses={200: None})
def register_view(call: Call, repository: str, branch: str, namespace: str, body: RegisteredView) -> Response:
    """Give a name to a view whose metadata exists."""
    view = identifier(namespace, body.name)
    request = iceberg.RegisterView(branch=branch, view=view, location=body.metadata_location, info=commit_info(call))
    return _view_response(call, repository, branch, view, run(call, repository, request))


@routes.get(VIEW, "loadView", Permission.READ, responses={200: None})
def load_view(call: Call, repository: str, branch: str, namespace: str, view: str) -> Response:
    """Return the metadata of a view."""
    return _view_response(call, repository, branch, identifier(namespace, view))


@routes.route("HEAD", VIEW, "viewExists", Permission.READ, responses={204: None})
def view_exists(call: Call, repository: str, branch: str, namespace: str, view: str) -> Response:
    """Answer whether a view exists."""
    reader(call, repository, branch).expect(identifier(namespace, view), "view")
    return no_content()


@routes.post(VIEW, "replaceView", iceberg.ReplaceView, responses={200: None})
def replace_view(call: Call, repository: str, branch: str, namespace: str, view: str, body: Changes) -> Response:
    """Commit changes of a view."""
    name = identifier(namespace, view)
    expect_same_name(body, name, "view")
    request = iceberg.ReplaceView(
        branch=branch, view=name, requirements=body.requirements, updates=body.updates, info=commit_info(call)
    )
    return _view_response(call, repository, branch, name, run(call, repository, request))


@routes.delete(VIEW, "dropView", iceberg.DropRelation, responses={204: None})
def drop_view(call: Call, repository: str, branch: str, namespace: str, view: str) -> Response:
    """Drop a view."""
    return drop_relation(call, repository, branch, identifier(namespace, view), "view")


@routes.post("/v1/{repository}/{branch}/views/rename", "renameView", iceberg.RenameRelation, responses={204: None})
def rename_view(call: Call, repository: str, branch: str, body: Renaming) -> Response:
    """Rename a view."""
    return rename_relation(call, repository, branch, body, "view")


def _view_response(
    call: Call, repository: str, branch: str, view: Identifier, commit: Commit | None = None
) -> Response:
    """Return the response with a view as it is at a commit, or now."""
    loaded = reader(call, repository, branch, commit).load(view, "view")
    return json_response({"metadata-location": loaded.location, "metadata": loaded.document, "config": {}})
