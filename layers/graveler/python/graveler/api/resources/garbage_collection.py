"""Garbage collection, in the background. Beyond lakeFS's API."""

import time
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET

from graveler.api.call import Call
from graveler.api.errors import ApiError
from graveler.api.idempotency import request_id
from graveler.api.operation_documents import failure_document
from graveler.api.queries import AfterQuery
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.model import RetentionRules
from graveler.operations.store import OperationState
from graveler.requests.base import Permission
from graveler.retention.garbage import Garbage
from graveler.retention.operation import KIND, CollectRequest
from graveler.retention.run_document import RunDescription
from graveler.retention.runs import Runs, Tally
from graveler.wire.documents import MAX_PER_PAGE, Pagination, commit_document, pagination
from graveler.wire.error_documents import Error
from graveler.wire.garbage import (
    GarbageCollectionFile,
    GarbageCollectionFiles,
    GarbageCollectionReports,
    GarbageCollectionRun,
    GarbageCollectionRunCreation,
    GarbageCollectionRunStarted,
    GarbageCollectionTally,
    HoldCreation,
    HoldDocument,
    HoldList,
    PreviewCreation,
    RestoreCreation,
    RestoredFile,
    RestoredFiles,
    RulesPreview,
)

routes = Routes("garbage collection")

_RUNS: Final = "/repositories/{repository}/gc/runs"
_REPORTS: Final = "/repositories/{repository}/gc/reports"
_REPORT: Final = "/repositories/{repository}/gc/reports/{run}"
_HOLDS: Final = "/repositories/{repository}/gc/holds"

MAX_LOST: Final = 1000
"""Commits that a preview of rules lists."""


@routes.post(
    _RUNS,
    "startGarbageCollection",
    Permission.ADMIN,
    responses={202: GarbageCollectionRunStarted, 400: Error, 403: Error, 404: Error},
)
def start(call: Call, repository: str, body: GarbageCollectionRunCreation) -> Response:
    """Start a garbage collection. With an Idempotency-Key, a repeated request returns the run that the first one started."""
    opened = call.lake.repository(repository)
    key = request_id(call)
    operation = call.runner.start(
        opened,
        KIND,
        msgspec.json.encode(CollectRequest(body.mode)),
        sha256(f"gc {key}".encode()).hexdigest()[:32] if key else "",
    )
    return json_response(GarbageCollectionRunStarted(operation.id), 202)


@routes.get(
    f"{_RUNS}/{{id}}", "getGarbageCollection", Permission.READ, responses={200: GarbageCollectionRun, 404: Error}
)
def status(call: Call, repository: str, id: str) -> Response:  # noqa: A002 - as the path says
    """Show the progress of a run. If the process working on it has died, this process takes over."""
    opened = call.lake.repository(repository)
    operation = call.runner.look(opened, id)
    if operation.kind != KIND:
        raise ApiError(404, f"not found: no garbage collection has the ID {id!r}")
    if operation.state is not OperationState.COMPLETED:
        error = failure_document(operation) if operation.is_finished else UNSET
        return json_response(GarbageCollectionRun(operation.is_finished, error=error))
    runs = Runs(opened.namespace)
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
            f"{opened.namespace.namespace}/{runs.report_key(operation.result)}",
        )
    )


@routes.get(
    _REPORTS, "listGarbageCollectionReports", Permission.ADMIN, responses={200: GarbageCollectionReports, 404: Error}
)
def list_reports(call: Call, repository: str) -> Response:
    """List past runs, oldest first, including unfinished and dry runs."""
    return json_response(GarbageCollectionReports(_garbage(call, repository).described_runs()))


@routes.get(_REPORT, "getGarbageCollectionReport", Permission.ADMIN, responses={200: RunDescription, 404: Error})
def get_report(call: Call, repository: str, run: str) -> Response:
    """Describe a finished run."""
    garbage = _garbage(call, repository)
    return json_response(garbage.describe(garbage.summary(run)))


@routes.get(
    f"{_REPORT}/files",
    "listGarbageCollectionFiles",
    Permission.ADMIN,
    responses={200: GarbageCollectionFiles, 400: Error, 404: Error},
)
def list_files(call: Call, repository: str, run: str, query: AfterQuery) -> Response:
    """List the files of a run, and what happened to each."""
    page = _garbage(call, repository).page_of_rows(run, query.after, query.limit)
    files = [
        GarbageCollectionFile(file.kind, file.key, file.size, file.modified, file.why, outcome)
        for file, outcome in page.results
    ]
    return json_response(GarbageCollectionFiles(pagination(page), files))


@routes.post(
    f"{_REPORT}/restore",
    "restoreGarbage",
    Permission.ADMIN,
    responses={200: RestoredFiles, 400: Error, 404: Error},
)
def restore(call: Call, repository: str, run: str, body: RestoreCreation) -> Response:
    """Bring back files that a run moved to quarantine: as many as fit in one request, at most a thousand."""
    began = time.monotonic()
    files: list[RestoredFile] = []
    more = False
    for key, restored in _garbage(call, repository).restore(run, body.prefix, body.after):
        files.append(RestoredFile(key, restored))
        more = len(files) == MAX_PER_PAGE or time.monotonic() - began > call.settings.request_seconds
        if more:
            break
    return json_response(
        RestoredFiles(Pagination(more, files[-1].key if more else "", len(files), MAX_PER_PAGE), files)
    )


@routes.get(_HOLDS, "listHolds", Permission.ADMIN, responses={200: HoldList, 404: Error})
def list_holds(call: Call, repository: str) -> Response:
    """List the commits under a legal hold, which keep their objects whatever happens to refs and rules."""
    return json_response(
        HoldList(
            [HoldDocument(hold.commit_id, hold.why, hold.by, hold.at) for hold in _garbage(call, repository).holds()]
        )
    )


@routes.post(_HOLDS, "createHold", Permission.ADMIN, responses={201: HoldDocument, 400: Error, 404: Error})
def create_hold(call: Call, repository: str, body: HoldCreation) -> Response:
    """Keep the objects of a ref's commit, whatever happens to refs and rules."""
    hold = _garbage(call, repository).hold(body.ref, body.why, call.committer)
    return json_response(HoldDocument(hold.commit_id, hold.why, hold.by, hold.at), 201)


@routes.delete(f"{_HOLDS}/{{ref}}", "deleteHold", Permission.ADMIN, responses={204: None, 404: Error})
def delete_hold(call: Call, repository: str, ref: str) -> Response:
    """End the legal hold of a ref's commit."""
    _garbage(call, repository).release(ref)
    return no_content()


@routes.post(
    "/repositories/{repository}/gc/preview",
    "previewGCRules",
    Permission.READ,
    function="read",
    responses={200: RulesPreview, 400: Error, 404: Error},
    scans=True,
)
def preview(call: Call, repository: str, body: PreviewCreation) -> Response:
    """List the commits that would lose their objects under given rules, without changing anything."""
    rules = None
    if body.rules is not None:
        rules = RetentionRules(
            body.rules.default_retention_days, {rule.branch_id: rule.retention_days for rule in body.rules.branches}
        )
    forecast = _garbage(call, repository).preview(rules)
    lost = [commit_document(commit) for commit in forecast.lost[:MAX_LOST]]
    return json_response(RulesPreview(forecast.reached, forecast.kept, len(forecast.lost), lost))


def _garbage(call: Call, repository: str) -> Garbage:
    return Garbage(call.lake.repository(repository))
