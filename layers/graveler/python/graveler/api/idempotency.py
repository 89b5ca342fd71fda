"""Idempotent requests: a request repeated under its key returns the first response.

The lake itself recognizes commits, merges and the like by their request id. For other requests that create something, the table
holds the response under the client's key: a small item per request that has one. An item that marks the start of the request
precedes it, to tell an attempt whose response was lost from a name taken by another client: if a retry finds the name taken, an
earlier attempt under this key had started, and the existing object is as requested, then that attempt created it.

All these items record what was requested: a key used for two different requests is refused, rather than giving one of them the
other's response. They expire like the lake's own results of requests.
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
    """Return the response of ``make``, or the one it gave earlier under the request's key.

    ``made_before`` returns a response from the existing state if that is as requested, else None; it is called if ``make`` finds
    that something already exists, or no longer does. Cost: without a key nothing; with one, one table read and two writes, or one
    read for a repetition. 400 for a key that another request has used.
    """
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
        with suppress(ConditionFailedError):  # the same request, concurrently: one of the two performs it
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
        tables.put(
            key, {**note, "status": response.status, "type": response.headers.get("content-type", ""), "body": kept}
        )
    except GravelerError as error:  # it succeeded: a client that gets an error would send it again
        _log.warning("request %s: the response to %s could not be stored: %s", call.request_id, call.operation, error)
    return response


def request_id(call: Call) -> str:
    """Return the ID by which the lake, or a runner of operations, recognizes this request; empty without a key. Cost: without a
    key nothing; with one, one table write, and one read more for a repetition. 400 for a key that another request has used."""
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
    return bad_request("header Idempotency-Key: another request used this key; use a new one for each request")


def _kept(item: Item) -> Response | None:
    status, kind, body = item.get("status"), item.get("type"), item.get("body")
    if isinstance(status, int) and isinstance(kind, str) and isinstance(body, str):
        return Response(status, {"content-type": kind} if kind else {}, body)
    return None


def commit_info(
    call: Call, message: str | None, metadata: Mapping[str, str] | None, created: int | None = None
) -> CommitInfo:
    """Return the commit's information: the client's words, the caller's name and the request's ID."""
    return CommitInfo(message or "", call.committer, metadata or {}, created, request_id(call))
