"""Requests to AWS: what is repeated and when, and what an error says to the person who has to mend it.

Repeating is done here and not by the SDK, because a repeated conditional write can fail on what its own first try has done.
Who repeats has to know whether an answer was lost.
"""

import os
import re
import time
from collections.abc import Callable
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakSet

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProxyConnectionError,
    SSLError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from botocore.parsers import ResponseParserError

from graveler.errors import AnswerLostError, BusyError, CorruptError, GravelerError, InvalidError, UnavailableError
from graveler.retries import Retries
from graveler.storage.objects import NotPermittedError

if TYPE_CHECKING:
    from botocore.credentials import Credentials

FAILURES: Final = (ClientError, BotoCoreError, ResponseParserError)
"""All that the SDK raises."""

CONDITION_CODES: Final = frozenset(("ConditionalCheckFailedException", "PreconditionFailed", "412"))

_BUSY_CODES: Final = frozenset(
    (
        "ConditionalRequestConflict",  # S3's 409: two conditional writes of one key crossed, and this one did not happen
        "OperationAborted",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",  # S3 did not get all of the request
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionConflictException",
        "TransactionInProgressException",
        "LimitExceededException",
    )
)
_BUSY_REASONS: Final = frozenset(("TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"))
_UNREACHED: Final = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError, SSLError)
_CUT_OFF: Final = (HTTPClientError, IncompleteReadError, ResponseParserError)
_CREDENTIALS: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
_DENIED_CODES: Final = frozenset(("AccessDenied", "AccessDeniedException", "AllAccessDisabled", "403"))
_CLOCK: Final = "this machine's clock is wrong; set it, then try again"
_SKEWED: Final = re.compile("Signature (expired|not yet current)")
"""How DynamoDB says that, under the code of a signature that is not valid."""
_ADVICE: Final = {
    "the credentials have expired; get new ones, then try again": (
        "ExpiredToken",
        "ExpiredTokenException",
        "TokenRefreshRequired",
        "RequestExpired",
    ),
    "the credentials are not valid; see whether access key, secret and session token belong together and still exist": (
        "InvalidAccessKeyId",
        "InvalidToken",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "IncompleteSignature",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    ),
    "these credentials do not allow it; give their user or role the right to it": tuple(_DENIED_CODES),
    _CLOCK: ("RequestTimeTooSkewed",),
    "there is no such bucket; see whether its name is right, or create it": ("NoSuchBucket",),
    "there is no such table in this account and region; see whether name and region are right, or create it": (
        "ResourceNotFoundException",
    ),
}
_ELSEWHERE_CODES: Final = frozenset(
    ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301")
)
_DENIED_BY_S3: Final = (
    "; where the bucket is another account's, its policy has to allow it too, and the object has to belong to that account; "
    "buckets whose requesters pay are not supported, and deny everything"
)
_ADVICE_BY_CODE: Final = {code: advice for advice, codes in _ADVICE.items() for code in codes}
_INVALID_CODES: Final = frozenset(
    (
        "EntityTooLarge",
        "EntityTooSmall",
        "InvalidBucketName",
        "InvalidPart",
        "InvalidPartOrder",
        "KeyTooLongError",
        "ValidationException",
    )
)


class Outcome(Enum):
    """What a failed request has done, as far as its error tells."""

    REFUSED = "refused"
    """Nothing, and the same request would be refused again."""
    BUSY = "busy"
    """Nothing; the service, or others who write there, had no room for it."""
    UNREACHED = "unreached"
    """Nothing: it did not arrive."""
    DAMAGED = "damaged"
    """What arrived here is not what was stored."""
    LOST = "lost"
    """Unknown: there was no answer."""


Reply = TypeVar("Reply")
Observer = Callable[[str, bool], None]

_observers: Final[list[Observer]] = []


def observe(observer: Observer) -> None:
    """Have ``observer`` called before each request of this process, in its thread: with what the request is called in errors,
    and whether it is repeated."""
    _observers.append(observer)


def unobserve(observer: Observer) -> None:
    """Call ``observer`` no more."""
    _observers.remove(observer)


def send(
    request: Callable[[], Reply], what: str, retries: Retries, failed: Callable[[Outcome], None] | None = None
) -> Reply:
    """The answer to ``request``, which is repeated as long as that may help; ``what`` names it in errors, and ``failed`` hears of
    each try that failed.

    Errors of the SDK that repeating does not mend are raised as they are: the caller knows what they mean, or asks
    :func:`explained`. :class:`BusyError` if the service stays busy, and nothing happened; :class:`UnavailableError` if it is not
    reached; :class:`AnswerLostError` if there is no answer, or if one was lost and a condition then failed, maybe on what the
    request itself had done.
    """
    lost = False
    repeated = False
    pauses = retries.pauses()
    while True:
        for observer in _observers:
            observer(what, repeated)
        repeated = True
        try:
            return request()
        except FAILURES as error:
            outcome = judge(error)
            if failed is not None:
                failed(outcome)
            if outcome is Outcome.REFUSED:
                if lost and is_condition(error):
                    raise _unknown(what, error) from error
                raise
            lost = lost or outcome is Outcome.LOST
            pause = next(pauses, None)
            if pause is None:
                raise _given_up(what, error, outcome, lost) from error
        time.sleep(pause)


def judge(error: Exception) -> Outcome:
    """What the request that ended in ``error`` has done."""
    if isinstance(error, ClientError):
        code = error_code(error)
        if code == "TransactionCanceledException":
            reasons = {reason.get("Code") for reason in error.response.get("CancellationReasons", ())}
            return Outcome.BUSY if reasons & _BUSY_REASONS else Outcome.REFUSED
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _BUSY_CODES or status in (429, 503):
            return Outcome.BUSY
        return Outcome.LOST if status >= 500 else Outcome.REFUSED
    if isinstance(error, FlexibleChecksumError):
        return Outcome.DAMAGED
    if isinstance(error, _UNREACHED):
        return Outcome.UNREACHED
    # A connection that broke, an answer that was cut off or did not come in time.
    return Outcome.LOST if isinstance(error, _CUT_OFF) else Outcome.REFUSED


def error_code(error: Exception) -> str:
    """What the service calls the error; empty if it is not the service's."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def is_condition(error: Exception) -> bool:
    """Whether a condition of the request did not hold."""
    if error_code(error) in CONDITION_CODES:
        return True
    reasons = error.response.get("CancellationReasons", ()) if isinstance(error, ClientError) else ()
    return any(reason.get("Code") == "ConditionalCheckFailed" for reason in reasons)


def explained(error: Exception, what: str) -> GravelerError:
    """What to raise for an error of the SDK that :func:`send` let through."""
    if isinstance(error, ClientError):
        code = error_code(error)
        message = error.response.get("Error", {}).get("Message", "")
        advice = _CLOCK if _SKEWED.match(message) else _ADVICE_BY_CODE.get(code, "the service refused it")
        region = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
        if code in _ELSEWHERE_CODES or (code == "400" and region):  # an answer to HEAD has no more than a number
            advice = (
                f"the bucket lies in another region; name that one{f' ({region})' if region else ''}, or take a bucket of this "
                "one: a lake, and the URLs that it presigns, are of one region"
            )
        if code in _DENIED_CODES and what.startswith("s3://"):
            advice += _DENIED_BY_S3
        text = f"{what}: {advice} ({code}: {message})"
        if code in _DENIED_CODES:
            return NotPermittedError(text)
        return InvalidError(text) if code in _INVALID_CODES else UnavailableError(text)
    if isinstance(error, _CREDENTIALS):
        return UnavailableError(
            f"{what}: no AWS credentials could be had; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run "
            f"with a role ({error})"
        )
    if isinstance(error, NoRegionError):
        return UnavailableError(f"{what}: no AWS region is known; name one, or set AWS_REGION")
    if isinstance(error, FlexibleChecksumError):
        return CorruptError(f"{what}: the bytes that arrive do not have their checksum ({error})")
    if isinstance(error, ParamValidationError):
        return InvalidError(f"{what}: {error}")
    return UnavailableError(f"{what}: {error}")


def _given_up(what: str, error: Exception, outcome: Outcome, lost: bool) -> GravelerError:
    if outcome is Outcome.DAMAGED:
        return explained(error, what)
    if lost:
        return _unknown(what, error)
    if outcome is Outcome.BUSY:
        return BusyError(f"{what}: the service stayed busy, and nothing was written; try again ({error})")
    return UnavailableError(
        f"{what}: the service cannot be reached; see whether network and address are right ({error})"
    )


def _unknown(what: str, error: Exception) -> AnswerLostError:
    return AnswerLostError(
        f"{what}: the answer was lost, so it may have happened or not; look, then try again ({error})"
    )


Name = TypeVar("Name")
Client = TypeVar("Client")


_ENVIRONMENT: Final = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_CONFIG_FILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SESSION_TOKEN",
)
"""What a client takes from the environment when it is made."""


class Clients(Generic[Name, Client]):
    """Clients by their settings and what the environment says beside them, made when they are first used and shared by all
    threads; a forked process makes its own. ``sdk_client`` is the SDK's own client in one of them, if that is another one."""

    def __init__(
        self, make: Callable[[Name], Client], sdk_client: Callable[[Client], Any] = lambda client: client
    ) -> None:
        self._make = make
        self._sdk_client = sdk_client
        self._forget()
        os.register_at_fork(after_in_child=self._forget)
        _all_clients.add(self)

    def get(self, settings: Name) -> Client:
        """The client with these settings."""
        key = settings, *map(os.environ.get, _ENVIRONMENT)
        found = self._made.get(key)
        if found is None:
            with self._lock:
                found = self._made.get(key)
                if found is None:
                    found = self._made[key] = self._make(settings)
        return found

    def renew(self, credentials: "Credentials | None") -> None:
        """Close the connections of all clients that there are, which open others when they need them, and have them sign with
        these credentials. Where there are none, clients are made when they are used, and say so then."""
        for client in map(self._sdk_client, self._made.values()):
            client.close()
            client._request_signer._credentials = credentials
        if credentials is None:
            self._forget()

    def _forget(self) -> None:
        self._made: dict[tuple[object, ...], Client] = {}
        self._lock = Lock()


_all_clients: Final[WeakSet[Clients[Any, Any]]] = WeakSet()


def renew_clients() -> None:
    """Renew the clients of this process where it is the copy of another one: connections are that one's, and its credentials may
    have expired. New credentials come from where each client finds its own, which may take a request. The clients stay, since
    one takes some 100 ms of a core to make. To be called while no other thread uses a client."""
    from botocore.session import Session

    credentials = Session().get_credentials()
    for clients in _all_clients:
        clients.renew(credentials)
