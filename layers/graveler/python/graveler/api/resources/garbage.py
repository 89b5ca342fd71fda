"""Garbage collection, in the background. Beyond the field's API."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from graveler.api.call import Call
from graveler.api.documents import Error
from graveler.api.errors import ApiError
from graveler.api.idempotency import request_id
from graveler.api.response import Response, json_response
from graveler.api.routing import Permission, Routes
from graveler.operations.store import OperationState
from graveler.retention.operation import KIND, CollectRequest
from graveler.retention.runs import Mode, Runs, Tally

routes = Routes("garbage collection")

_RUNS: Final = "/repositories/{repository}/gc/runs"


class GarbageCollectionRunCreation(Struct, frozen=True):
    """How to collect. Without a mode: quarantine the first time, then deletion."""

    mode: Mode | None = None


class GarbageCollectionRunStarted(Struct, frozen=True):
    """The operation's ID, to ask after it."""

    id: str


class GarbageCollectionTally(Struct, frozen=True):
    """How many files, and their bytes."""

    files: int
    bytes: int


class GarbageCollectionRun(Struct, frozen=True):
    """How far a run is, and what it did: by what became of them, the files that nobody needs. ``report`` is the address of a
    Parquet table of these."""

    completed: bool
    run: str | UnsetType = UNSET
    outcomes: Mapping[str, GarbageCollectionTally] | UnsetType = UNSET
    expired_commits: int | UnsetType = UNSET
    report: str | UnsetType = UNSET
    error: Error | UnsetType = UNSET


@routes.post(
    _RUNS,
    "startGarbageCollection",
    Permission.ADMIN,
    answers={202: GarbageCollectionRunStarted, 400: Error, 403: Error, 404: Error},
)
def start(call: Call, repository: str, body: GarbageCollectionRunCreation) -> Response:
    """Begin to collect garbage. With an Idempotency-Key, a repeated request finds the run that the first one began."""
    found = call.lake.repository(repository)
    key = request_id(call)
    operation = call.runner.start(
        found,
        KIND,
        msgspec.json.encode(CollectRequest(body.mode)),
        sha256(f"gc {key}".encode()).hexdigest()[:32] if key else "",
    )
    return json_response(GarbageCollectionRunStarted(operation.id), 202)


@routes.get(f"{_RUNS}/{{id}}", "getGarbageCollection", Permission.READ, answers={200: GarbageCollectionRun, 404: Error})
def status(call: Call, repository: str, id: str) -> Response:  # noqa: A002 - as the path says
    """Say how far a run is. If the process that worked on it has died, this one takes it over."""
    found = call.lake.repository(repository)
    operation = call.runner.look(found, id)
    if operation.kind != KIND:
        raise ApiError(404, f"not found: no garbage collection has the ID {id!r}")
    if operation.state is not OperationState.COMPLETED:
        error = Error(operation.error) if operation.is_finished else UNSET
        return json_response(GarbageCollectionRun(operation.is_finished, error=error))
    runs = Runs(found.namespace)
    summary = runs.summary(operation.result)
    totals: dict[str, Tally] = {}
    for outcomes in summary.outcomes.values():
        for outcome, tally in outcomes.items():
            before = totals.get(outcome, Tally())
            totals[outcome] = Tally(before.files + tally.files, before.bytes + tally.bytes)
    return json_response(
        GarbageCollectionRun(
            True,
            operation.result,
            {outcome: GarbageCollectionTally(tally.files, tally.bytes) for outcome, tally in totals.items()},
            summary.plan.expired,
            f"{found.namespace.namespace}/{runs.report_key(operation.result)}",
        )
    )
