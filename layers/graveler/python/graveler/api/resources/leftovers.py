"""What deleted repositories have left: listed, and removed for good. Beyond the field's API."""

import time

from msgspec import Struct

from graveler.api.call import Call
from graveler.api.documents import MAX_PER_PAGE, Error, Pagination
from graveler.api.queries import PageQuery
from graveler.api.resources.garbage import GarbageCollectionTally
from graveler.api.response import Response, json_response
from graveler.api.routing import Permission, Routes
from graveler.errors import BusyError
from graveler.retention.leftovers import Leftovers

routes = Routes("deleted repositories")


class DeletedRepositoryDocument(Struct, frozen=True):
    """A repository that was deleted at ``at`` (Unix seconds) and has left something. ``purging``: somebody began to remove it."""

    uid: str
    name: str
    namespace: str
    at: int
    purging: bool


class DeletedRepositoryList(Struct, frozen=True):
    """A page of them, the newest first."""

    pagination: Pagination
    results: list[DeletedRepositoryDocument]


class PurgeCreation(Struct, frozen=True):
    """``force``: also what has dumps or legal holds."""

    force: bool = False


class Purge(Struct, frozen=True):
    """What the last request removed: files, rows of the table; ``unknown`` are files that stay since they are not graveler's."""

    name: str
    files: GarbageCollectionTally
    rows: int
    unknown: GarbageCollectionTally


@routes.get("/deleted_repositories", "listDeletedRepositories", Permission.ADMIN, answers={200: DeletedRepositoryList})
def list_deleted(call: Call, query: PageQuery) -> Response:
    """List deleted repositories that have left something, the newest first; ``after`` is a uid."""
    found = [one for one in _leftovers(call).all() if one.name.startswith(query.prefix)]
    place = next((at for at, one in enumerate(found, 1) if one.uid == query.after), 0)
    page = found[place : place + query.limit]
    more = len(found) > place + len(page)
    documents = [DeletedRepositoryDocument(one.uid, one.name, one.namespace, one.at, one.purging) for one in page]
    return json_response(
        DeletedRepositoryList(Pagination(more, page[-1].uid if more else "", len(page), MAX_PER_PAGE), documents)
    )


@routes.post(
    "/deleted_repositories/{name}/purge",
    "purgeRepository",
    Permission.ADMIN,
    answers={200: Purge, 400: Error, 404: Error, 412: Error},
)
def purge(call: Call, name: str, body: PurgeCreation) -> Response:
    """Remove for good what a deleted repository, named by its name or uid, has left. What takes longer than a request is answered
    429: send it again, and it goes on."""
    leftovers = _leftovers(call)
    found = leftovers.find(name)
    began = time.monotonic()

    def progress(_phase: str, done: int, _total: int) -> None:
        if time.monotonic() - began > call.settings.request_seconds:
            raise BusyError(f"{done:,} were removed until now, and there is more; send the same request again")

    done = leftovers.purge(found.uid, force=body.force, progress=progress)
    return json_response(
        Purge(
            found.name,
            GarbageCollectionTally(done.files.files, done.files.bytes),
            done.rows,
            GarbageCollectionTally(done.unknown.files, done.unknown.bytes),
        )
    )


def _leftovers(call: Call) -> Leftovers:
    lake = call.lake
    return Leftovers(lake.tables, lake.store_of, lake.clock, lake.grace, lake.skew)
