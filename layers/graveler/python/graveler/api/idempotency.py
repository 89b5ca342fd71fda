"""Idempotent requests: a request repeated under its key returns the first response, even while the first one is still at work.

The lake itself recognizes commits, merges and the like by their request id. For other requests that create something, the table
holds an item under the client's key. It passes through these states:

- **claimed** (``owner``, ``beat``): a request is at work. Others under the key wait for its response. The claim is a lease
  (:mod:`graveler.lake.leases`), which the owner renews; when it runs out, a waiting request takes over. Branches and tags are
  created on condition that the claim still stands.
- **interrupted**: the request failed, or its process died, and may have had an effect. If a retry finds the name taken, and what
  exists is as requested, then the earlier attempt created it.
- **unchanged**: the request failed because a name was taken or missing: it had no effect, and proves nothing about what exists.
- **answered** (``status``, ``type``, ``body``): the response of the first request that recorded one. It never changes.

All these items record what was requested: a key used for two different requests is refused, rather than giving one of them the
other's response. They expire like the lake's own results of requests.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from math import inf
from secrets import token_hex
from typing import Final, TypeVar

from msgspec.structs import replace

from graveler.api.call import Call
from graveler.api.errors import ApiError, bad_request
from graveler.api.response import Response
from graveler.errors import AlreadyExistsError, GravelerError, NotFoundError
from graveler.lake.clock import Backoff
from graveler.lake.committing.request_results import REQUEST_TTL
from graveler.lake.deadline import StoppedError
from graveler.operations.pinned_requests import LongRequest
from graveler.requests.committing import CommitMetarange
from graveler.storage.tables.port import Absent, Check, ConditionFailedError, Item, Key, Matches
from graveler.system.pauses import WouldWaitError

Committing = TypeVar("Committing", bound=LongRequest | CommitMetarange)

PARTITION: Final = "requests"

LEASE: Final = 6.0
"""Seconds after the last sign of life of a request's process after which another request under the key takes over."""

_STATES: Final = ("owner", "beat", "unchanged", "status")
"""The attributes that tell one state of an item from another."""

_RETRY_AFTER: Final = 1
"""Seconds after which a client shall send a request again whose first attempt is still at work."""

_log = logging.getLogger(__name__)


def once(call: Call, create: Callable[[], Response], created_earlier: Callable[[], Response | None]) -> Response:
    """Return the response of ``create``, or the one it gave earlier under the request's key.

    ``created_earlier`` returns a response from the existing state if that is as requested, else None; it is called if
    ``create`` finds that something already exists, or no longer does, and another attempt under the key may have done that.
    While another attempt is at work, wait for its response. Cost: without a key nothing; with one, one table read and two writes,
    or one read for a repetition; a write every two seconds. 400 for a key that another request has used, 429 if the other attempt
    is still at work when this request's time is over.
    """
    if not call.request_key:
        return create()
    attempt = _Attempt(call)
    response = attempt.begin()
    if response is not None:
        return response
    call.only_while = attempt.claim
    try:
        with call.lake.clock.repeating(LEASE / 3, attempt.renew):
            response = create()
    except StoppedError:
        response = attempt.response_meanwhile()
        if response is None:
            raise _still_at_work() from None
    except (AlreadyExistsError, NotFoundError):
        response = attempt.response_meanwhile()
        if response is None and attempt.may_be_repeated:
            with suppress(NotFoundError):
                response = created_earlier()
        if response is None:
            attempt.end(unchanged=not attempt.may_be_repeated)
            raise
    except GravelerError:
        response = attempt.response_meanwhile()
        if response is None:
            attempt.end()
            raise
    except BaseException as error:
        attempt.end(unchanged=isinstance(error, WouldWaitError) and not attempt.may_be_repeated)
        raise
    return attempt.answer(response)


class _Attempt:
    """One attempt of a request with a key: its claim on the key's item."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._tables = call.lake.tables
        self._key = _key(call)
        self._note = _note(call)
        self._owner = token_hex(8)
        self._beat = self._owner
        self.may_be_repeated = False
        """Whether another attempt under the key may have had an effect."""

    def begin(self) -> Response | None:
        """Claim the key, once no other request holds it. Return the recorded response instead, if there is one."""
        backoff = Backoff(self._call.lake.clock, patience=inf)
        item = self._tables.get(self._key)
        while True:
            if item is not None:
                if item.get("asked") != self._note["asked"]:
                    raise _another()
                if (response := _recorded(item)) is not None:
                    return response
                if self._is_held(item):
                    if self._call.seconds_left() <= 0:
                        raise _still_at_work()
                    backoff.wait()
                    item = self._tables.get(self._key)
                    continue
            condition = Absent() if item is None else Matches({name: item.get(name) for name in _STATES})
            try:
                self._tables.put(self._key, {**self._note, "owner": self._owner, "beat": self._beat}, condition)
            except ConditionFailedError as error:
                newer = error.failures.get(0)
                if newer is None or newer.get("owner") != self._owner:  # else only the response was lost
                    item = newer
                    continue
            self.may_be_repeated = item is not None and item.get("unchanged") is not True
            return None

    @property
    def claim(self) -> Check:
        """The condition that no other attempt has taken over. An effect without it could be a second one: an attempt that stood
        still would make what another one made, and somebody has deleted since."""
        return Check(self._key, self._is_own())

    def renew(self) -> None:
        """Give a sign of life. One table write."""
        beat = token_hex(8)
        with suppress(GravelerError):  # if this keeps failing, another request takes over
            self._tables.put(self._key, {**self._note, "owner": self._owner, "beat": beat}, self._is_own())

    def response_meanwhile(self) -> Response | None:
        """Return the response that another attempt has recorded after it took over. One table read."""
        item = self._tables.get(self._key)
        if item is None or item.get("asked") != self._note["asked"]:
            return None
        self.may_be_repeated = self.may_be_repeated or item.get("owner") != self._owner
        return _recorded(item)

    def answer(self, response: Response) -> Response:
        """Record the response and return it; if another attempt has recorded one before, return that. One table write."""
        body = response.body if isinstance(response.body, str) else response.body.decode()
        kind = response.headers.get("content-type", "")
        item: Item = {**self._note, "status": response.status, "type": kind, "body": body}
        try:
            self._tables.put(self._key, item, Matches({"asked": self._note["asked"], "status": None}))
        except ConditionFailedError as error:
            return _recorded(error.failures.get(0) or {}) or response
        except GravelerError as error:  # it succeeded: a client that gets an error would send it again
            _log.warning(
                "request %s: the response to %s could not be stored: %s",
                self._call.request_id,
                self._call.operation,
                error,
            )
        return response

    def end(self, *, unchanged: bool = False) -> None:
        """Give up the claim, so that a retry begins at once. ``unchanged`` records that no attempt has had an effect. One table
        write."""
        item: Item = {**self._note, "unchanged": True} if unchanged else self._note
        with suppress(GravelerError):  # otherwise the claim runs out
            self._tables.put(self._key, item, self._is_own())

    def _is_own(self) -> Matches:
        return Matches({"owner": self._owner, "status": None})

    def _is_held(self, item: Item) -> bool:
        beat = item.get("beat")
        lease = f"{PARTITION}/{self._key.sort.hex()}"
        return isinstance(beat, str) and self._call.lake.leases.is_held(lease, beat, LEASE)


def request_id(call: Call) -> str:
    """Return the ID by which the lake, or a runner of operations, recognizes this request; empty without a key. Cost: without a
    key nothing; with one, one table write. 400 for a key that another request has used."""
    if not call.request_key:
        return ""
    note = _note(call)
    try:
        call.lake.tables.put(_key(call), note, Absent())
    except ConditionFailedError as error:
        begun = error.failures.get(0)
        if begun is not None and begun.get("asked") != note["asked"]:
            raise _another() from None
    return call.request_key


def _key(call: Call) -> Key:
    return Key(PARTITION, sha256(call.request_key.encode()).digest())


def _note(call: Call) -> Item:
    return {"asked": call.fingerprint(), "expires": int(call.lake.clock.now()) + REQUEST_TTL}


def _another() -> ApiError:
    return bad_request("header Idempotency-Key: another request used this key; use a new one for each request")


def _still_at_work() -> ApiError:
    return ApiError(
        429,
        "too many tries: an earlier request with this Idempotency-Key is still at work; send the same request again for its "
        "response",
        {"retry-after": str(_RETRY_AFTER)},
    )


def _recorded(item: Item) -> Response | None:
    status, kind, body = item.get("status"), item.get("type"), item.get("body")
    if isinstance(status, int) and isinstance(kind, str) and isinstance(body, str):
        return Response(status, {"content-type": kind} if kind else {}, body)
    return None


def with_id(call: Call, request: Committing) -> Committing:
    """Return a request that makes a commit together with the ID by which the lake recognizes it. Cost as :func:`request_id`."""
    return replace(request, info=replace(request.info, request_id=request_id(call)))
