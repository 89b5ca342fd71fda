"""Repositories and their settings."""

from graveler.api.call import Call
from graveler.api.documents import Error, Repository, RepositoryList, pagination, repository_document, results
from graveler.api.queries import PageQuery
from graveler.api.response import Response, json_response
from graveler.api.routing import Permission, Routes

routes = Routes("repositories")


class RepositoriesQuery(PageQuery, frozen=True, kw_only=True):
    """Which repositories. ``search`` keeps those whose name contains it."""

    search: str = ""


@routes.get("/repositories", "listRepositories", Permission.READ, answers={200: RepositoryList})
def list_repositories(call: Call, query: RepositoriesQuery) -> Response:
    """List repositories by name."""
    page = call.lake.repositories(query.prefix, query.after, query.limit)
    return json_response(RepositoryList(pagination(page), results(page, repository_document)))


@routes.get("/repositories/{repository}", "getRepository", Permission.READ, answers={200: Repository, 404: Error})
def get_repository(call: Call, repository: str) -> Response:
    """Describe one repository."""
    return json_response(repository_document(call.lake.repository(repository).repository))
