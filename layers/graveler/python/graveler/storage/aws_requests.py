"""Requests to AWS: retries, and errors that tell the user what to fix.

Retries are made here and not by the SDK, because a repeated conditional write can fail on the effect of its own first try. Only
code that knows whether a response was lost may retry.
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
from graveler.storage.objects.port import NotPermittedError
from graveler.system.retries import Retries

if TYPE_CHECKING:
    from botocore.credentials import Credentials

FAILURES: Final = (ClientError, BotoCoreError, ResponseParserError)
"""Everything that the SDK raises."""

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
"""DynamoDB's message for a wrong clock, under the code for an invalid signature."""
_ADVICE: Final = {
    "the credentials have expired; get new ones, then try again": (
        "ExpiredToken",
        "ExpiredTokenException",
        "TokenRefreshRequired",
        "RequestExpired",
    ),
    "the credentials are not valid; check that access key, secret and session token belong together and still exist": (
        "InvalidAccessKeyId",
        "InvalidToken",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "IncompleteSignature",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    ),
    "these credentials do not allow it; grant their user or role the right to do it": tuple(_DENIED_CODES),
    _CLOCK: ("RequestTimeTooSkewed",),
    "there is no such bucket; check its name, or create it": ("NoSuchBucket",),
    "there is no such table in this account and region; check its name and the region, or create it": (
        "ResourceNotFoundException",
    ),
}
_ELSEWHERE_CODES: Final = frozenset(
    ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301")
)
_DENIED_BY_S3: Final = (
    "; if the bucket belongs to another account, its policy must allow it, too, and the object must belong to that account; "
    "requester-pays buckets are not supported, and deny everything"
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
    """The effect of a failed request, as far as its error tells."""

    REFUSED = "refused"
    """No effect, and the same request would be refused again."""
    BUSY = "busy"
    """No effect; the service, or concurrent writers, left no room for it."""
    UNREACHED = "unreached"
    """No effect: it did not arrive."""
    DAMAGED = "damaged"
    """The bytes that arrived here are not those that were stored."""
    LOST = "lost"
    """Unknown: no response came."""


Reply = TypeVar("Reply")
Observer = Callable[[str, bool], None]

observers: Final[list[Observer]] = []
"""Called before each request of this process, in its thread: with the request's name in errors, and True for a retry."""


def send(
    request: Callable[[], Reply], subject: str, retries: Retries, failed: Callable[[Outcome], None] | None = None
) -> Reply:
    """Return the response to ``request``, retrying as long as that may help; ``subject`` names it in errors, and ``failed`` is
    called for each failed try.

    Raises the SDK's errors that retrying does not fix as they are: the caller interprets them, or calls :func:`explained`.
    :class:`BusyError` if the service stays busy, and nothing happened; :class:`UnavailableError` if it is not reached;
    :class:`AnswerLostError` if no response comes, or if one was lost and a condition then failed, maybe on the request's own
    effect.
    """
    attempts = Attempts(subject, retries)
    while True:
        attempts.begin()
        try:
            return request()
        except FAILURES as error:
            if failed is not None:
                failed(judge(error))
            pause = attempts.pause_after(error)
        time.sleep(pause)


class Attempts:
    """The attempts at one request, which is named ``subject`` in errors: how often it may be repeated, and what is known of its
    effect by then. One that only reads has none (``has_effect``)."""

    def __init__(self, subject: str, retries: Retries, *, has_effect: bool = True) -> None:
        self._subject = subject
        self._has_effect = has_effect
        self._pauses = retries.pauses()
        self._is_lost = False
        self._is_repeated = False

    def begin(self) -> None:
        """Tell the observers of an attempt. Call it before each."""
        for observer in observers:
            observer(self._subject, self._is_repeated)
        self._is_repeated = True

    def pause_after(self, error: Exception) -> float:
        """Return the seconds to wait after an attempt that ended in this error, before the next one. Raises as :func:`send` if
        there is no next one."""
        outcome = judge(error)
        if outcome is Outcome.REFUSED:
            if self._is_lost and is_condition(error):
                raise _unknown(self._subject, error) from error
            raise error
        self._is_lost = self._is_lost or (self._has_effect and outcome is Outcome.LOST)
        pause = next(self._pauses, None)
        if pause is None:
            raise _given_up(self._subject, error, outcome, self._is_lost) from error
        return pause


def send_or_explain(request: Callable[[], Reply], subject: str, retries: Retries) -> Reply:
    """Return the response to ``request`` as :func:`send`; raise all errors of the SDK as :func:`explained` has them."""
    try:
        return send(request, subject, retries)
    except FAILURES as error:
        raise explained(error, subject) from error


def judge(error: Exception) -> Outcome:
    """Return the effect of the request that ended in ``error``."""
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
    # A connection that broke, a response that was cut off or did not come in time.
    return Outcome.LOST if isinstance(error, _CUT_OFF) else Outcome.REFUSED


def error_code(error: Exception) -> str:
    """Return the service's code for the error; empty if it is not the service's."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def is_condition(error: Exception) -> bool:
    """Return whether a condition of the request did not hold."""
    if error_code(error) in CONDITION_CODES:
        return True
    reasons = error.response.get("CancellationReasons", ()) if isinstance(error, ClientError) else ()
    return any(reason.get("Code") == "ConditionalCheckFailed" for reason in reasons)


def explained(error: Exception, subject: str) -> GravelerError:
    """Return the error to raise for an error of the SDK that :func:`send` let through."""
    if isinstance(error, ClientError):
        code = error_code(error)
        message = error.response.get("Error", {}).get("Message", "")
        advice = _CLOCK if _SKEWED.match(message) else _ADVICE_BY_CODE.get(code, "the service refused it")
        region = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
        if code in _ELSEWHERE_CODES or (code == "400" and region):  # a response to HEAD has nothing but a number
            advice = (
                f"the bucket is in another region; name that one{f' ({region})' if region else ''}, or use a bucket in this "
                "one: a lake and its presigned URLs are in one region"
            )
        if code in _DENIED_CODES and subject.startswith("s3://"):
            advice += _DENIED_BY_S3
        text = f"{subject}: {advice} ({code}: {message})"
        if code in _DENIED_CODES:
            return NotPermittedError(text)
        return InvalidError(text) if code in _INVALID_CODES else UnavailableError(text)
    if isinstance(error, _CREDENTIALS):
        return UnavailableError(
            f"{subject}: no AWS credentials were found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run "
            f"with a role ({error})"
        )
    if isinstance(error, NoRegionError):
        return UnavailableError(f"{subject}: no AWS region is configured; name one, or set AWS_REGION")
    if isinstance(error, FlexibleChecksumError):
        return CorruptError(f"{subject}: the bytes received do not match their checksum ({error})")
    if isinstance(error, ParamValidationError):
        return InvalidError(f"{subject}: {error}")
    return UnavailableError(f"{subject}: {error}")


def _given_up(subject: str, error: Exception, outcome: Outcome, lost: bool) -> GravelerError:
    if outcome is Outcome.DAMAGED:
        return explained(error, subject)
    if lost:
        return _unknown(subject, error)
    if outcome is Outcome.BUSY:
        return BusyError(f"{subject}: the service stayed busy; nothing was written; try again ({error})")
    return UnavailableError(f"{subject}: the service cannot be reached; check the network and the address ({error})")


def _unknown(subject: str, error: Exception) -> AnswerLostError:
    return AnswerLostError(
        f"{subject}: the response was lost, so it may or may not have happened; check, then try again ({error})"
    )


Name = TypeVar("Name")
Client = TypeVar("Client")


_ENVIRONMENT: Final = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_STS",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_CONFIG_FILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SESSION_TOKEN",
)
"""The variables that a client reads from the environment when it is made."""


class Clients(Generic[Name, Client]):
    """Clients by their settings and the environment's, made on first use and shared by all threads; a forked process makes its
    own. ``sdk_client`` returns the SDK's own client in one of them, if that is another one."""

    def __init__(
        self, make: Callable[[Name], Client], sdk_client: Callable[[Client], Any] = lambda client: client
    ) -> None:
        self._make = make
        self._sdk_client = sdk_client
        self._forget()
        os.register_at_fork(after_in_child=self._forget)
        _all_clients.add(self)

    def get(self, settings: Name) -> Client:
        """Return the client with these settings."""
        key = settings, *map(os.environ.get, _ENVIRONMENT)
        client = self._made.get(key)
        if client is None:
            with self._lock:
                client = self._made.get(key)
                if client is None:
                    client = self._made[key] = self._make(settings)
        return client

    def renew(self, credentials: "Credentials | None") -> None:
        """Close the connections of all existing clients, which open others when needed, and make them sign with these
        credentials. Without credentials, clients are made again on use, and report the lack then."""
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
    """Renew the clients of this process after it was copied from another one: the connections belong to that one, and its
    credentials may have expired. New credentials come from each client's own source, which may take a request. The clients stay,
    since one takes some 100 ms of a core to make. Call it while no other thread uses a client."""
    from botocore.session import Session

    credentials = Session().get_credentials()
    for clients in _all_clients:
        clients.renew(credentials)
