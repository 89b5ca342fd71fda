"""The leftovers of deleted repositories: list, and remove for good. Beyond lakeFS's API."""

import time
from collections.abc import Callable

from graveler.api.call import Call
from graveler.api.errors import bad_request
from graveler.api.queries import PageQuery
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.errors import BusyError
from graveler.lake.opening.repositories import DeletedRepository
from graveler.requests.base import Permission
from graveler.retention.leftovers import Leftovers
from graveler.wire.documents import MAX_PER_PAGE, Pagination
from graveler.wire.error_documents import Error
from graveler.wire.garbage import (
    DeletedRepositoryDocument,
    DeletedRepositoryList,
    GarbageCollectionTally,
    Purge,
    PurgeCreation,
)

routes = Routes("deleted repositories")


@routes.get(
    "/deleted_repositories", "listDeletedRepositories", Permission.ADMIN, responses={200: DeletedRepositoryList}
)
def list_deleted(call: Call, query: PageQuery) -> Response:
    """List deleted repositories that still take up storage, newest first."""
    is_after = _behind(query.after)
    repositories = [
        repository
        for repository in _leftovers(call).all()
        if repository.name.startswith(query.prefix) and is_after(repository)
    ]
    page = repositories[: query.limit]
    more = len(repositories) > len(page)
    documents = [
        DeletedRepositoryDocument(
            repository.uid, repository.name, repository.namespace, repository.at, repository.purging
        )
        for repository in page
    ]
    offset = f"{page[-1].at}-{page[-1].uid}" if more else ""
    return json_response(DeletedRepositoryList(Pagination(more, offset, len(page), MAX_PER_PAGE), documents))


@routes.post(
    "/deleted_repositories/{name}/purge",
    "purgeRepository",
    Permission.ADMIN,
    responses={200: Purge, 400: Error, 404: Error, 412: Error},
)
def purge(call: Call, name: str, body: PurgeCreation) -> Response:
    """Permanently remove everything that a deleted repository, given by name or uid, has left. If it takes longer than one
    request, the response is 429: send it again to continue.
    """
    leftovers = _leftovers(call)
    repository = leftovers.find(name)
    began = time.monotonic()

    def progress(_phase: str, done: int, _total: int) -> None:
        if time.monotonic() - began > call.settings.request_seconds:
            raise BusyError(f"{done:,} were removed so far, and more remain; send the same request again")

    done = leftovers.purge(repository.uid, force=body.force, at_once=body.at_once, progress=progress)
    return json_response(
        Purge(
            repository.name,
            GarbageCollectionTally(done.files.files, done.files.bytes),
            done.rows,
            GarbageCollectionTally(done.unknown.files, done.unknown.bytes),
        )
    )


def _leftovers(call: Call) -> Leftovers:
    lake = call.lake
    return Leftovers(lake.tables, lake.store_of, lake.clock, lake.grace, lake.skew)


def _behind(after: str) -> Callable[[DeletedRepository], bool]:
    """Return a test whether a repository comes after a position, even if the one at the position is gone. 400 for an invalid
    position."""
    if not after:
        return lambda _: True
    seconds, dash, uid = after.partition("-")
    if not dash or not (seconds.isascii() and seconds.isdecimal()):
        raise bad_request(f"after={after[:100]!r} is not a position; give the next_offset of the previous page")
    position = -int(seconds[:19]), uid
    return lambda repository: (-repository.at, repository.uid) > position
