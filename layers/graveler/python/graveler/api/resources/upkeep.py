"""Upkeep of a repository, in the background: integrity checks, and the space of each holder. Beyond lakeFS's API.

The operation stores its findings, which are returned in pages.
"""

from hashlib import sha256

import msgspec
from msgspec import UNSET, UnsetType

from graveler.api.call import Call
from graveler.api.errors import ApiError, bad_request
from graveler.api.idempotency import request_id
from graveler.api.operation_documents import failure_document
from graveler.api.queries import AfterQuery
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.lake.fsck.findings import Report
from graveler.lake.repository import OpenRepository
from graveler.operations import checks
from graveler.operations.report_documents import read_report
from graveler.operations.store import Operation, OperationState
from graveler.requests.base import Permission
from graveler.retention import space_operation
from graveler.retention.space import Space
from graveler.wire.documents import MAX_PER_PAGE, Pagination
from graveler.wire.error_documents import Error
from graveler.wire.upkeep_documents import Check, CheckCreation, SpaceCreation, SpaceMeasurement, Started

routes = Routes("upkeep")

_CHECKS = "/repositories/{repository}/checks"
_SPACE = "/repositories/{repository}/space"
_DIGITS = 18
"""Most digits of a position."""


class RowsQuery(AfterQuery, frozen=True, kw_only=True):
    """The rows after the number ``after``."""

    def page(self, rows: int) -> tuple[slice, Pagination]:
        """Return the rows of this page and their pagination. 400 for an invalid position."""
        if self.after and not (self.after.isascii() and self.after.isdecimal() and len(self.after) <= _DIGITS):
            raise bad_request(
                f"after={self.after[:100]!r} is not a position; give the next_offset of the previous page"
            )
        begin = min(int(self.after or 0), rows)
        end = min(begin + self.limit, rows)
        more = end < rows
        return slice(begin, end), Pagination(more, str(end) if more else "", end - begin, MAX_PER_PAGE)


@routes.post(_CHECKS, "startCheck", Permission.ADMIN, responses={202: Started, 400: Error, 404: Error})
def start_check(call: Call, repository: str, body: CheckCreation) -> Response:
    """Start checking everything reachable in a repository, and repairing it if requested."""
    request = checks.CheckRequest(body.repair, body.reflog, body.objects, body.outside, body.bytes)
    return _start(call, call.lake.repository(repository), checks.KIND, msgspec.json.encode(request))


@routes.get(f"{_CHECKS}/{{id}}", "getCheck", Permission.ADMIN, responses={200: Check, 404: Error})
def get_check(call: Call, repository: str, id: str, query: RowsQuery) -> Response:  # noqa: A002 - as the path says
    """Show the progress of a check, and what it found."""
    opened = call.lake.repository(repository)
    operation = _of_kind(checks.KIND, call.runner.look(opened, id))
    if operation.state is not OperationState.COMPLETED:
        return json_response(Check(operation.is_finished, error=_error(operation)))
    report = read_report(opened, operation.id, Report)
    shown, pagination = query.page(len(report.findings))
    return json_response(Check(True, pagination, msgspec.structs.replace(report, findings=report.findings[shown])))


@routes.post(_SPACE, "startSpaceMeasurement", Permission.ADMIN, responses={202: Started, 404: Error})
def start_measurement(call: Call, repository: str, body: SpaceCreation) -> Response:
    """Start computing what a repository stores, and which refs hold it."""
    return _start(call, call.lake.repository(repository), space_operation.KIND, msgspec.json.encode(body))


@routes.get(f"{_SPACE}/{{id}}", "getSpaceMeasurement", Permission.ADMIN, responses={200: SpaceMeasurement, 404: Error})
def get_measurement(call: Call, repository: str, id: str, query: RowsQuery) -> Response:  # noqa: A002 - as the path says
    """Show the progress of a measurement, and which refs hold what is stored."""
    opened = call.lake.repository(repository)
    operation = _of_kind(space_operation.KIND, call.runner.look(opened, id))
    if operation.state is not OperationState.COMPLETED:
        return json_response(SpaceMeasurement(operation.is_finished, error=_error(operation)))
    space = read_report(opened, operation.id, Space)
    shown, pagination = query.page(len(space.holders))
    return json_response(
        SpaceMeasurement(True, pagination, msgspec.structs.replace(space, holders=space.holders[shown]))
    )


def _start(call: Call, repository: OpenRepository, kind: str, request: bytes) -> Response:
    key = request_id(call)
    name = sha256(f"{kind} {key}".encode()).hexdigest()[:32] if key else ""
    return json_response(Started(call.runner.start(repository, kind, request, name).id), 202)


def _of_kind(kind: str, operation: Operation) -> Operation:
    if operation.kind != kind:
        raise ApiError(404, f"not found: operation {operation.id!r} is not a {kind}")
    return operation


def _error(operation: Operation) -> Error | UnsetType:
    return failure_document(operation) if operation.is_finished else UNSET
