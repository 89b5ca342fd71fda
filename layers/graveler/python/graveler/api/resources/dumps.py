"""Dumps of refs, and repositories restored from them.

A dump is a background operation with one ID; lakeFS's document has three, one per kind of ref, which are all the same here. A
restore is complete when its response is sent, since before that no repository exists whose operation it could be; its result is
stored for later queries. It needs a namespace: that of a bare repository, which is a note that something will be restored under
its name, or one named in the request.
"""

import time
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from msgspec import UNSET, UnsetType

from graveler.api.call import Call
from graveler.api.errors import ApiError, bad_request
from graveler.api.idempotency import once, request_id
from graveler.api.namespace_checks import check_namespace
from graveler.api.queries import Query, RequiredText
from graveler.api.reserved_names import bare_namespace, forget_bare
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.errors import NotFoundError
from graveler.lake.dump.chunks import get_manifest
from graveler.operations.dumps import KIND
from graveler.operations.store import Operation, Operations, OperationState
from graveler.requests.base import Permission
from graveler.wire.error_documents import Error
from graveler.wire.upkeep_documents import (
    DumpDocument,
    DumpList,
    DumpPlace,
    LostCommit,
    RefsDump,
    RestoredDocument,
    TaskCreation,
    TaskStatus,
)

routes = Routes("dumps")

RESTORE: Final = "restore"
"""The operation kind that records the result of a restore."""

MAX_MISSING: Final = 1000
"""Lost commits that a restore lists."""


class TaskQuery(Query, frozen=True, kw_only=True):
    """The dump or restore."""

    task_id: RequiredText


class RefsRestore(RefsDump, frozen=True):
    """The dump to restore: all three fields are its ID. ``storage_namespace`` is the namespace that contains it; null means that
    of the bare repository with this name. With ``force``, the lake may have looser rules for it than that of the dump had."""

    storage_namespace: str | None = None
    force: bool | None = None


class DumpStatus(TaskStatus, frozen=True, kw_only=True):
    """The progress of a dump and, once it is done, its ID."""

    refs: RefsDump | UnsetType = UNSET
    dump: DumpDocument | UnsetType = UNSET


class DumpsQuery(Query, frozen=True, kw_only=True):
    """The storage namespace, whose repository may be gone."""

    namespace: RequiredText


class RestoreCreation(TaskCreation, frozen=True, kw_only=True):
    """The ID of the restore, for status requests, and the restored items. The latter are absent if an earlier request restored
    them."""

    restored: RestoredDocument | UnsetType = UNSET


@routes.post(
    "/repositories/{repository}/dump",
    "dumpSubmit",
    Permission.ADMIN,
    responses={202: TaskCreation, 404: Error},
)
def submit_dump(call: Call, repository: str) -> Response:
    """Start a dump of refs, settings and uncommitted changes into the repository's namespace."""
    opened = call.lake.repository(repository)
    key = request_id(call)
    task = call.runner.start(opened, KIND, b"", sha256(key.encode()).hexdigest()[:32] if key else "")
    return json_response(TaskCreation(task.id), 202)


@routes.get("/repositories/{repository}/dump", "dumpStatus", Permission.ADMIN, responses={200: DumpStatus, 404: Error})
def dump_status(call: Call, repository: str, query: TaskQuery) -> Response:
    """Show the progress of a dump. If the process working on it has died, this process takes over."""
    opened = call.lake.repository(repository)
    task = _of_kind(KIND, call.runner.look(opened, query.task_id))
    dump: DumpDocument | UnsetType = UNSET
    if task.result:
        manifest = get_manifest(opened.namespace, task.result)
        dump = DumpDocument(
            manifest.id,
            manifest.repository,
            manifest.namespace,
            manifest.created,
            manifest.branches,
            manifest.tags,
            manifest.staged,
        )
    return json_response(
        DumpStatus(
            id=task.id,
            done=task.is_finished,
            update_time=_time(task),
            error=task.error or UNSET,
            refs=RefsDump(task.result, task.result, task.result) if task.result else UNSET,
            dump=dump,
        )
    )


@routes.get("/repositories/{repository}/dumps", "listDumps", Permission.ADMIN, responses={200: DumpList, 404: Error})
def list_dumps(call: Call, repository: str) -> Response:
    """List the complete dumps of a repository, oldest first."""
    namespace = call.lake.repository(repository).repository.namespace
    return json_response(DumpList([DumpPlace(dump, namespace) for dump in call.lake.dumps(namespace)]))


@routes.get("/dumps", "listDumpsInNamespace", Permission.ADMIN, responses={200: DumpList, 400: Error})
def list_dumps_in_namespace(call: Call, query: DumpsQuery) -> Response:
    """List the complete dumps in a storage namespace, even if its repository is gone, oldest first."""
    check_namespace(call, query.namespace)
    namespace = query.namespace.rstrip("/")
    return json_response(DumpList([DumpPlace(dump, namespace) for dump in call.lake.dumps(namespace)]))


@routes.post(
    "/repositories/{repository}/restore",
    "restoreSubmit",
    Permission.ADMIN,
    function="commit",
    responses={202: RestoreCreation, 400: Error, 403: Error, 404: Error, 409: Error},
)
def submit_restore(call: Call, repository: str, body: RefsRestore) -> Response:
    """Recreate a repository from a dump, under a free name. There is no time limit; if the request is interrupted, repeat it."""
    call.identity.require(Permission.ADMIN)  # the dump may be of a repository outside the key's limits
    dump = body.branches_meta_range_id
    if {body.commits_meta_range_id, body.tags_meta_range_id} != {dump}:
        raise bad_request("the three IDs of a dump are the same; give them as in the status of the dump")
    namespace = body.storage_namespace or bare_namespace(call, repository)
    if not namespace:
        raise bad_request(
            f"the place of the dump of {repository!r} is unknown: create it as a bare repository first, or give storage_namespace"
        )
    check_namespace(call, namespace)
    task = f"restore-{dump}"

    def make() -> Response:
        restored = call.lake.restore(
            namespace.rstrip("/"), dump, repository, by=call.committer, looser_rules=bool(body.force)
        )
        now = time.time()
        Operations(call.lake.tables, call.lake.repository(repository).repository.uid).add(
            Operation(task, RESTORE, b"", OperationState.COMPLETED, created=now, updated=now, result=dump)
        )
        forget_bare(call, repository)
        missing = [LostCommit(lost.commit or "", lost.parent) for lost in restored.missing[:MAX_MISSING]]
        held = RestoredDocument(restored.branches, restored.tags, restored.staged, restored.commits, missing)
        return json_response(RestoreCreation(task, restored=held), 202)

    def made_before() -> Response | None:
        try:
            Operations(call.lake.tables, call.lake.repository(repository).repository.uid).get(task)
        except NotFoundError:
            return None
        return json_response(RestoreCreation(task), 202)

    return once(call, make, made_before)


@routes.get(
    "/repositories/{repository}/restore", "restoreStatus", Permission.ADMIN, responses={200: TaskStatus, 404: Error}
)
def restore_status(call: Call, repository: str, query: TaskQuery) -> Response:
    """Show the result of a restore."""
    operations = Operations(call.lake.tables, call.lake.repository(repository).repository.uid)
    task = _of_kind(RESTORE, operations.get(query.task_id))
    return json_response(TaskStatus(id=task.id, done=task.is_finished, update_time=_time(task)))


def _of_kind(kind: str, task: Operation) -> Operation:
    if task.kind != kind:
        raise ApiError(404, f"not found: operation {task.id!r} is not a {kind}")
    return task


def _time(task: Operation) -> str:
    return datetime.fromtimestamp(task.updated, UTC).isoformat()
