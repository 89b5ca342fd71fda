"""Requests that may take longer than a request: answered in it if they are little work, else worked on as operations.

What is seen to be too much before anything is read is handed over at once; else the request works for half of the time that it
has, and leaves the rest to an operation at the end of a range, which goes on from there (:mod:`graveler.lake.committing.begun`).

Who sends ``Prefer: respond-async`` is told 202 at once, and where to ask after the operation. Others wait for its end, but not
beyond the request's time; then they are told 429 and when to come again, which every client does by itself, and the same request
finds the operation at work, or its result. What asks for the same is the same: kind, branch, all that the request says, who asks,
and its ``Idempotency-Key`` if it has one.
"""

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec

from graveler.api.call import Call
from graveler.api.errors import ApiError
from graveler.api.operation_documents import accepted, operations_of
from graveler.api.response import Response
from graveler.errors import TooMuchWorkError
from graveler.lake.context import Context
from graveler.lake.in_parts.pinned import LongRequest, Pinned, decode_pinned
from graveler.lake.repository import OpenRepository
from graveler.model import Begun, Commit, CommitID
from graveler.operations.failures import reason
from graveler.operations.parted import KINDS
from graveler.operations.store import Operation, OperationState
from graveler.requests import committing as requests

RETRY_AFTER: Final = 5
"""Seconds after which a client is to ask again."""

REMEMBERED: Final = 600.0
"""Seconds for which an operation that has ended is what its request asks for, as long as nobody got its answer."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


def answer(call: Call, repository: str, request: LongRequest, render: Callable[[Commit], Response]) -> Response:
    """The answer to a request: what ``render`` makes of the commit, or 202, or 429. Errors are those of the request.

    Cost: a table read, and the request; of an operation a transaction, and table reads while it is waited for. The repository is
    read once a minute, or after an error (:meth:`Lake.looking`): whoever changes a branch reads it together with that."""
    return call.lake.looking(repository, lambda opened: _answer(call, opened, request, render))


def _answer(
    call: Call, repository: OpenRepository, request: LongRequest, render: Callable[[Commit], Response]
) -> Response:
    half = call.seconds_left() / 2
    asked = _asked(call, request)
    seen = call.runner.of_request(repository, asked)
    waiting = seen is not None and _joins(repository, request, seen)
    if waiting or _wants_no_wait(call):
        repository.branch(
            _branch(request)
        )  # refused at once if it is not there, or the repository is another one by now
    if _wants_no_wait(call):
        operation = _start(call, repository, asked, pinned(repository, request))
        response = accepted(operations_of(call, repository), repository.repository.name, operation)
        if operation.is_finished:
            _tell(call, repository, operation)
        return response
    owner, begun = "", None
    if not waiting:
        try:
            return render(repository.run(request, _context(call, half)))
        except TooMuchWorkError as error:
            if not call.settings.hands_over:
                raise
            owner, begun = error.operation, error.begun
    operation = _start(call, repository, asked, pinned(repository, request, owner, begun))
    return render(_wait(call, repository, operation))


def _context(call: Call, half: float) -> Context:
    """Half of the request's time, and as many records as may be read in it; without operations, without end."""
    if not call.settings.hands_over:
        return Context()
    return Context(limit=call.settings.operation_records, stop=lambda: call.seconds_left() <= half)


def pinned(
    repository: OpenRepository, request: LongRequest, owner: str = "", begun: Begun | None = None
) -> Pinned[LongRequest]:
    """The request with what its refs are now. Cost: resolving each."""
    refs = {name: repository.commit_of(getattr(request, name)).id for name in request.refs}
    return Pinned(request=request, refs=refs, owner=owner, begun=begun)


def _branch(request: LongRequest) -> str:
    """The branch that a long request changes."""
    (field,) = request.changes
    branch: str = getattr(request, field)
    return branch


def _wants_no_wait(call: Call) -> bool:
    preferences = (part.partition(";")[0].strip().lower() for part in call.headers.get("prefer", "").split(","))
    return "respond-async" in preferences


def _asked(call: Call, request: LongRequest) -> str:
    """Names what the request asks for."""
    identity = (KINDS[type(request)], call.identity.key_id, request.info.request_id or call.fingerprint())
    return sha256(msgspec.json.encode(identity)).hexdigest()[:32]


def _start(call: Call, repository: OpenRepository, asked: str, what: Pinned[LongRequest]) -> Operation:
    request = what.request
    return call.runner.ask(
        repository,
        KINDS[type(request)],
        msgspec.json.encode(what),
        asked,
        joins=lambda found: _joins(repository, request, found),
        branch=_branch(request),
        request_id=request.info.request_id,
    )


def _joins(repository: OpenRepository, request: LongRequest, found: Operation) -> bool:
    """Is an operation that was asked for in the same words the one that is asked for now?

    While it is worked on, and afterwards until somebody has got its answer. Not if the ref that it brings has moved since, or if
    more has been staged than it commits; with a request id that does not matter."""
    if request.info.request_id:
        return not found.is_finished or not found.told
    if found.is_finished and (found.told or found.updated < repository.clock.now() - REMEMBERED):
        return False
    if isinstance(request, requests.Commit):
        return not repository.has_staged(request.branch)
    if request.refs:
        return decode_pinned(found.request, type(request)).refs == pinned(repository, request).refs
    return True


def _wait(call: Call, repository: OpenRepository, operation: Operation) -> Commit:
    """The commit that an operation makes. 429 when the request's time is over, its error if it fails."""
    pause = _FIRST_PAUSE
    while not operation.is_finished:
        left = call.seconds_left()
        if left <= 0:
            raise ApiError(
                429,
                f"too many tries: operation {operation.id} ({operation.kind}) is still worked on, and goes on; send the same "
                f"request again for its result, or ask after it (GET …/operations/{operation.id})",
                {"retry-after": str(RETRY_AFTER)},
            )
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
        operation = call.runner.look(repository, operation.id)
    _tell(call, repository, operation)
    if operation.state is OperationState.COMPLETED:
        return repository.commit_of(CommitID(operation.result))
    raise failure(operation)


def failure(operation: Operation) -> Exception:
    """The error by which an operation failed, as the verb would have raised it."""
    return reason(operation) or ApiError(500, operation.error)


def _tell(call: Call, repository: OpenRepository, operation: Operation) -> None:
    """Note that somebody gets the answer: the same request then asks for something new."""
    operations_of(call, repository).change(
        operation.id, lambda now: None if now.told else msgspec.structs.replace(now, told=True)
    )
