"""A request that is repeated under its key gives the first answer.

Commits, merges and the like are known to the lake by their request id. For what else creates something, the answer is kept in the
table under the client's key: a small item for each request that has one. It is preceded by an item that says that the
request began, so that a try whose answer was lost is told from a name that somebody else took: if the retry finds the name taken,
an earlier try under this key had begun, and what is there is what was asked for, then that try made it.

All these items say what was asked for: a key that is used for two different requests is refused, instead of giving one of them
the other's answer. They expire as the lake's own results of requests do.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final

from graveler.api.call import Call
from graveler.api.errors import ApiError, bad_request
from graveler.api.response import Response
from graveler.errors import AlreadyExistsError, GravelerError, NotFoundError
from graveler.lake.committing.request_results import REQUEST_TTL
from graveler.requests.base import CommitInfo
from graveler.storage.tables import Absent, ConditionFailedError, Item, Key

PARTITION: Final = "requests"

_log = logging.getLogger(__name__)


def once(call: Call, make: Callable[[], Response], made_before: Callable[[], Response | None]) -> Response:
    """What ``make`` answers, or has answered under the request's key before.

    ``made_before`` answers from what is there if it is what was asked for, else None; it is asked if ``make`` finds something
    there already, or not there any more. Cost: without a key nothing; with one, one table read and two writes, or one read
    for a repetition. 400 for a key that another request has had."""
    if not call.request_key:
        return make()
    tables, key, note = call.lake.tables, _key(call), _note(call)
    begun = tables.get(key)
    if begun is not None:
        if begun.get("asked") != note["asked"]:
            raise _another()
        if (answer := _kept(begun)) is not None:
            return answer
    if begun is None:
        with suppress(ConditionFailedError):  # the same request at the same time: one of the two makes it
            tables.put(key, note, Absent())
    try:
        response = make()
    except (AlreadyExistsError, NotFoundError):
        found = None
        if begun is not None:
            with suppress(NotFoundError):
                found = made_before()
        if found is None:
            raise
        response = found
    kept = response.body if isinstance(response.body, str) else response.body.decode()
    try:
        tables.put(key, {**note, "status": response.status, "type": response.headers["content-type"], "body": kept})
    except GravelerError as error:  # it was done: who is told otherwise asks for it again
        _log.warning("request %s: the answer to %s could not be kept: %s", call.request_id, call.operation, error)
    return response


def request_id(call: Call) -> str:
    """What the lake, or a runner of operations, is to know this request by; empty if it has no key. Cost: without a key nothing;
    with one, one table write, for a repetition one read more. 400 for a key that another request has had."""
    if not call.request_key:
        return ""
    key, note = _key(call), _note(call)
    try:
        call.lake.tables.put(key, note, Absent())
    except ConditionFailedError:
        begun = call.lake.tables.get(key)
        if begun is not None and begun.get("asked") != note["asked"]:
            raise _another() from None
    return call.request_key


def _key(call: Call) -> Key:
    return Key(PARTITION, sha256(call.request_key.encode()).digest())


def _note(call: Call) -> Item:
    return {"asked": call.fingerprint(), "expires": int(time.time()) + REQUEST_TTL}


def _another() -> ApiError:
    return bad_request("header Idempotency-Key: another request had this key; make a new one for each request")


def _kept(item: Item) -> Response | None:
    status, kind, body = item.get("status"), item.get("type"), item.get("body")
    if isinstance(status, int) and isinstance(kind, str) and isinstance(body, str):
        return Response(status, {"content-type": kind}, body)
    return None


def commit_info(
    call: Call, message: str | None, metadata: Mapping[str, str] | None, created: int | None = None
) -> CommitInfo:
    """What a commit says that a client asks for, by its name and its request's ID."""
    return CommitInfo(message or "", call.committer, metadata or {}, created, request_id(call))
