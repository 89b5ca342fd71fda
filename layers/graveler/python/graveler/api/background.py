"""Work that may outlast a request: small work is done within the request, the rest as operations.

Work known to be too much before any reading is handed over at once; other work runs for half of the request's time, and then
leaves the rest, at the end of a range, to an operation that continues there (:mod:`graveler.lake.committing.partial_result`).

A client that sends ``Prefer: respond-async`` gets 202 at once, with the operation's address. Others wait for its end, but not
beyond the request's time; then they get 429 with a time to retry, which every client does by itself, and the same request finds
the running operation, or its result. Two requests are the same if kind, branch, all fields, the caller, and the
``Idempotency-Key``, if any, are equal.
"""

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from graveler.api.call import Call
from graveler.api.errors import ApiError
from graveler.api.idempotency import with_id
from graveler.api.operation_documents import accepted
from graveler.api.response import Response
from graveler.errors import TooMuchWorkError
from graveler.lake.context import Context
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID, PartialResult
from graveler.operations.failures import reason
from graveler.operations.pinned_requests import KINDS, LongRequest, Pinned, decode_pinned
from graveler.operations.store import Operation, Operations, OperationState
from graveler.requests import committing as requests

RETRY_AFTER: Final = 5
"""Seconds after which a client shall retry."""

REMEMBERED: Final = 600.0
"""Seconds for which a finished operation still counts as the one a request asks for, as long as no client has its response."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


def answer(call: Call, repository: str, request: LongRequest, render: Callable[[Commit], Response]) -> Response:
    """Return the response to a request: what ``render`` makes of the commit, or 202, or 429. Errors are those of the request.

    Cost: a table read, and the request; for an operation a transaction, and table reads while waiting. The repository's record is
    cached for up to a minute, or until an error (:meth:`Lake.with_recent_repository`): changes of a branch read it together with
    the branch."""
    if call.request_key:
        request = with_id(call, request)
    return call.lake.with_recent_repository(repository, lambda opened: _answer(call, opened, request, render))


def _answer(
    call: Call, repository: OpenRepository, request: LongRequest, render: Callable[[Commit], Response]
) -> Response:
    half = call.seconds_left() / 2
    name = _operation_name(call, request)
    earlier = call.runner.of_request(repository, name)
    waiting = earlier is not None and _joins(repository, request, earlier)
    no_wait = _wants_no_wait(call)
    if waiting or no_wait:
        # Refuse at once if it does not exist, or if the repository has been replaced.
        repository.branch(_branch(request))
    if no_wait:
        operation = _start(call, repository, name, pinned(call, repository, request))
        response = accepted(
            Operations(call.lake.tables, repository.repository.uid),
            repository.repository.name,
            operation,
            call.settings.base_path,
        )
        if operation.is_finished:
            _tell(call, repository, operation)
        return response
    owner, begun = "", None
    if not waiting:
        try:
            return render(repository.run(request, limited_context(call, half)))
        except TooMuchWorkError as error:
            if not call.settings.hands_over:
                raise
            owner, begun = error.operation, error.partial_result
    operation = _start(call, repository, name, pinned(call, repository, request, owner, begun))
    return render(_wait(call, repository, operation))


def limited_context(call: Call, half: float) -> Context:
    """Return the context of the call with limits: half of the request's time and the records readable in it; none without
    operations."""
    if not call.settings.hands_over:
        return call.context()
    return replace(call.context(), limit=call.settings.operation_records, stop=lambda: call.seconds_left() <= half)


def pinned(
    call: Call,
    repository: OpenRepository,
    request: LongRequest,
    owner: str = "",
    begun: PartialResult | None = None,
) -> Pinned[LongRequest]:
    """Return the request with the current commits of its refs. Cost: resolving each."""
    refs = _refs(repository, request)
    return Pinned(request=request, refs=refs, owner=owner, begun=begun, actor=call.identity.actor)


def _refs(repository: OpenRepository, request: LongRequest) -> dict[str, CommitID]:
    return {name: repository.commit_of(getattr(request, name)).id for name in request.refs}


def _branch(request: LongRequest) -> str:
    """Return the branch that a long request changes."""
    (field,) = request.changes
    branch: str = getattr(request, field)
    return branch


def _wants_no_wait(call: Call) -> bool:
    header = call.headers.get("prefer", "")
    return bool(header) and "respond-async" in (part.partition(";")[0].strip().lower() for part in header.split(","))


def _operation_name(call: Call, request: LongRequest) -> str:
    """Return a name for what the request asks for."""
    identity = (KINDS[type(request)], call.identity.key_id, request.info.request_id or call.fingerprint())
    return sha256(msgspec.json.encode(identity)).hexdigest()[:32]


def _start(call: Call, repository: OpenRepository, name: str, pinned_request: Pinned[LongRequest]) -> Operation:
    request = pinned_request.request
    return call.runner.ask(
        repository,
        KINDS[type(request)],
        msgspec.json.encode(pinned_request),
        name,
        joins=lambda operation: _joins(repository, request, operation),
        branch=_branch(request),
        request_id=request.info.request_id,
    )


def _joins(repository: OpenRepository, request: LongRequest, operation: Operation) -> bool:
    """Return whether an operation with the same name is the one that the request asks for.

    It is while it runs, and afterwards until a client has its response. It is not if the source ref has moved since, or if more
    has been staged than it commits; with a request id neither matters.
    """
    if request.info.request_id:
        return not operation.is_finished or not operation.told
    if operation.is_finished and (operation.told or operation.updated < repository.clock.now() - REMEMBERED):
        return False
    if isinstance(request, requests.Commit):
        return not repository.has_staged(request.branch)
    if request.refs:
        return decode_pinned(operation.request, type(request)).refs == _refs(repository, request)
    return True


def _wait(call: Call, repository: OpenRepository, operation: Operation) -> Commit:
    """Wait for an operation's commit and return it. 429 when the request's time is over, the operation's error if it fails."""
    pause = _FIRST_PAUSE
    while not operation.is_finished:
        seconds_left = call.seconds_left()
        if seconds_left <= 0:
            raise ApiError(
                429,
                f"too many tries: operation {operation.id} ({operation.kind}) is still running and continues; send the same "
                f"request again for its result, or check its status (GET …/operations/{operation.id})",
                {"retry-after": str(RETRY_AFTER)},
            )
        time.sleep(min(pause, seconds_left))
        pause = min(2 * pause, _LONGEST_PAUSE)
        operation = call.runner.look(repository, operation.id)
    _tell(call, repository, operation)
    if operation.state is OperationState.COMPLETED:
        return repository.commit_of(CommitID(operation.result))
    raise failure(operation)


def failure(operation: Operation) -> Exception:
    """Return the error by which an operation failed, as the verb would have raised it."""
    return reason(operation) or ApiError(500, operation.error)


def _tell(call: Call, repository: OpenRepository, operation: Operation) -> None:
    """Record that a client gets the response: from now on the same request starts a new operation."""
    Operations(call.lake.tables, repository.repository.uid).change(
        operation.id, lambda now: None if now.told else msgspec.structs.replace(now, told=True)
    )
