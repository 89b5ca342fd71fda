"""AWS Signature Version 4 of requests, in the header ``Authorization`` or in the query (presigned URLs).

Source: "Authenticating Requests (AWS Signature Version 4)" in the Amazon S3 API reference. S3's canonical path is percent-encoded
once and keeps dots and empty segments.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.s3_errors import S3Error, invalid_argument

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
SIGNED_CHUNKS: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_CHUNKS_AND_TRAILER: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_CHUNKS_AND_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

SKEW_SECONDS: Final = 900
"""Largest difference between the clocks of a client and the server."""

MAX_LIFETIME: Final = 7 * 24 * 3600
"""Longest lifetime of a presigned URL, in seconds."""

_V4A: Final = "AWS4-ECDSA-P256-SHA256"
_QUERY_ALGORITHM: Final = "X-Amz-Algorithm"
_QUERY: Final = (
    _QUERY_ALGORITHM,
    "X-Amz-Credential",
    "X-Amz-Signature",
    "X-Amz-Date",
    "X-Amz-SignedHeaders",
    "X-Amz-Expires",
)
_KINDS: Final = (UNSIGNED, SIGNED_CHUNKS, SIGNED_CHUNKS_AND_TRAILER, UNSIGNED_CHUNKS_AND_TRAILER)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_DATE: Final = re.compile(r"[0-9]{8}")
_INSTANT: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]*")
_REPLACEMENT: Final = "\ufffd"
"""The character that the server puts in place of bytes that are no UTF-8."""
_EXPECTED_CREDENTIAL: Final = (
    'the Credential is mal-formed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request".'
)


class Claim(Struct, frozen=True):
    """The signature of a request as its head says it; nothing of it is verified.

    ``date`` is the scope's (``20130524``), ``instant`` the request's (``20130524T000000Z``). ``content_sha256`` describes the
    body: the SHA-256 in hexadecimal digits, or one of the constants of this module. ``expires`` is the lifetime of a presigned
    URL in seconds, None for a signature in the header.
    """

    access_key_id: str
    date: str
    region: str
    service: str
    instant: str
    signed_headers: tuple[str, ...]
    signature: str
    content_sha256: str
    session_token: str = ""
    expires: int | None = None

    @property
    def scope(self) -> str:
        """The scope of the signing key."""
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


class Payload(Struct, frozen=True):
    """The body as a verified signature describes it. ``content_sha256`` is that of the claim; the other fields are what the
    signatures of chunks are computed from."""

    content_sha256: str
    signing_key: bytes
    scope: str
    instant: str
    seed: str

    @property
    def is_chunked(self) -> bool:
        """True if the body has the encoding ``aws-chunked``."""
        return self.content_sha256.startswith("STREAMING-")

    @property
    def has_signed_chunks(self) -> bool:
        """True if each chunk carries a signature."""
        return self.content_sha256 in (SIGNED_CHUNKS, SIGNED_CHUNKS_AND_TRAILER)

    @property
    def has_trailer(self) -> bool:
        """True if a trailer may follow the chunks."""
        return self.content_sha256 in (SIGNED_CHUNKS_AND_TRAILER, UNSIGNED_CHUNKS_AND_TRAILER)


def claim_of(head: Head) -> Claim:
    """Return the claim of a request. :class:`S3Error` for an anonymous request (``AccessDenied``), for Signature Version 2 and 4A
    (``InvalidRequest``), and for a claim that is malformed."""
    authorization = head.headers.get("authorization")
    if authorization is None:
        return _claim_of_query(head.parameters, head.headers)
    if f"{_QUERY_ALGORITHM}=" in head.query and _QUERY_ALGORITHM in head.parameters:
        raise invalid_argument(
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the "
            "Authorization header should be specified",
            "Authorization",
            authorization,
        )
    return _claim_of_header(authorization, head.headers)


def _claim_of_header(authorization: str, headers: Mapping[str, str]) -> Claim:
    algorithm, _, text = authorization.partition(" ")
    if algorithm != ALGORITHM:
        raise _unsupported(algorithm, authorization)
    components: dict[str, str] = {}
    for component in text.split(","):
        name, equals, value = component.strip().partition("=")
        if not equals:
            raise _malformed(f"the authorization component {component[:200]!r} is malformed.")
        components[name] = value
    for name in ("Credential", "SignedHeaders", "Signature"):
        if not components.get(name):
            raise _malformed(f"missing {name}.")
    access_key_id, date, region, service = _read_credential(components["Credential"], _malformed)
    instant = _instant_of_headers(headers)
    if instant[:8] != date:
        raise _malformed(f'Invalid credential date "{date}". This date is not the same as X-Amz-Date: "{instant[:8]}".')
    content_sha256 = headers.get("x-amz-content-sha256")
    if content_sha256 is None:
        raise S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    return Claim(
        access_key_id=access_key_id,
        date=date,
        region=region,
        service=service,
        instant=instant,
        signed_headers=tuple(components["SignedHeaders"].lower().split(";")),
        signature=components["Signature"],
        content_sha256=_checked(content_sha256),
        session_token=headers.get("x-amz-security-token", ""),
    )


def _claim_of_query(parameters: Mapping[str, str], headers: Mapping[str, str]) -> Claim:
    algorithm = parameters.get(_QUERY_ALGORITHM)
    if algorithm is None:
        if "AWSAccessKeyId" in parameters and "Signature" in parameters:
            raise _unsupported("AWS", "")
        if not any(name in parameters for name in _QUERY):
            raise S3Error(
                "AccessDenied", "Access Denied: anonymous requests are refused; sign the request with an access key"
            )
    if algorithm == _V4A:
        raise _unsupported(_V4A, "")
    if algorithm != ALGORITHM and algorithm is not None:
        raise _query_error(f'X-Amz-Algorithm only supports "{ALGORITHM}"')
    if not all(parameters.get(name) for name in _QUERY):
        raise _query_error(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, "
            "X-Amz-SignedHeaders, and X-Amz-Expires parameters."
        )
    access_key_id, date, region, service = _read_credential(parameters["X-Amz-Credential"], _credential_error)
    instant = parameters["X-Amz-Date"]
    if not _is_instant(instant):
        raise _query_error("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
    if instant[:8] != date:
        raise _query_error(
            f'Invalid credential date "{date}". This date is not the same as X-Amz-Date: "{instant[:8]}".'
        )
    content_sha256 = parameters.get("X-Amz-Content-Sha256") or headers.get("x-amz-content-sha256") or UNSIGNED
    return Claim(
        access_key_id=access_key_id,
        date=date,
        region=region,
        service=service,
        instant=instant,
        signed_headers=tuple(parameters["X-Amz-SignedHeaders"].lower().split(";")),
        signature=parameters["X-Amz-Signature"],
        content_sha256=_checked(content_sha256),
        session_token=parameters.get("X-Amz-Security-Token", ""),
        expires=_lifetime(parameters["X-Amz-Expires"]),
    )


def _read_credential(credential: str, error: Callable[[str], S3Error]) -> tuple[str, str, str, str]:
    """Return access key, date, region and service of a credential."""
    parts = credential.rsplit("/", 4)
    if len(parts) != 5 or not parts[0]:
        raise error(_EXPECTED_CREDENTIAL)
    access_key_id, date, region, service, terminal = parts
    if not _DATE.fullmatch(date):
        raise error(
            f'incorrect date format "{date[:40]}". This date in the credential must be in the format "yyyyMMdd".'
        )
    if service != "s3":
        raise error(f'incorrect service "{service[:40]}". This endpoint belongs to "s3".')
    if terminal != "aws4_request":
        raise error(f'incorrect terminal "{terminal[:40]}". This endpoint uses "aws4_request".')
    return access_key_id, date, region, service


def _instant_of_headers(headers: Mapping[str, str]) -> str:
    instant = headers.get("x-amz-date", "")
    if _is_instant(instant):
        return instant
    date = headers.get("date", "")
    if not instant and _is_instant(date):
        return date
    if not instant and date:
        try:
            return parsedate_to_datetime(date).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        except (ValueError, OverflowError):
            pass  # not a date of HTTP either: refused below
    raise S3Error("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")


def _lifetime(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise _query_error("X-Amz-Expires should be a number")
    if text != digits:
        raise _query_error("X-Amz-Expires must be non-negative")
    if int(digits) > MAX_LIFETIME:
        raise _query_error(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than "
            f"{MAX_LIFETIME} seconds"
        )
    return int(digits)


def _checked(content_sha256: str) -> str:
    if _SHA256.fullmatch(content_sha256) or content_sha256 in _KINDS:
        return content_sha256
    if content_sha256.startswith("STREAMING-AWS4-ECDSA"):
        raise _unsupported(_V4A, "")
    raise invalid_argument(
        f"x-amz-content-sha256 must be {', '.join(_KINDS)} or a valid sha256 value.",
        "x-amz-content-sha256",
        content_sha256,
    )


def verify(head: Head, claim: Claim, secret: str, now: float) -> Payload:
    """Return what the body must be, once the signature is that of ``secret``. ``now`` is in seconds since 1970.

    :class:`S3Error`: ``RequestTimeTooSkewed``, ``AccessDenied`` for an expired presigned URL, for one that is not valid yet, and
    for headers that must be signed and are not; ``SignatureDoesNotMatch``, and ``InvalidURI`` if the reason is a path that is no
    UTF-8.
    """
    _check_time(claim, now)
    _check_signed(head.headers, claim.signed_headers)
    canonical = _canonical_request(head, claim)
    text = f"{ALGORITHM}\n{claim.instant}\n{claim.scope}\n{sha256(canonical).hexdigest()}"
    key = _signing_key(secret, claim.date, claim.region, claim.service)
    signature = hmac_digest(key, text.encode(), "sha256").hex()
    if not compare_digest(signature.encode(), claim.signature.encode()):
        if _REPLACEMENT in head.path:
            raise S3Error("InvalidURI", "Couldn't parse the specified URI: keys must be UTF-8")
        raise S3Error(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
            {
                "AWSAccessKeyId": claim.access_key_id,
                "StringToSign": text,
                "SignatureProvided": claim.signature,
                "StringToSignBytes": text.encode().hex(" "),
                "CanonicalRequest": canonical.decode(),
                "CanonicalRequestBytes": canonical.hex(" "),
            },
        )
    return Payload(claim.content_sha256, key, claim.scope, claim.instant, signature)


def _check_time(claim: Claim, now: float) -> None:
    signed = datetime.fromisoformat(claim.instant).timestamp()
    if claim.expires is None:
        if abs(now - signed) > SKEW_SECONDS:
            raise S3Error(
                "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large.",
                {
                    "RequestTime": claim.instant,
                    "ServerTime": _iso(now),
                    "MaxAllowedSkewMilliseconds": str(SKEW_SECONDS * 1000),
                },
            )
        return
    if signed - now > SKEW_SECONDS:
        raise S3Error(
            "AccessDenied",
            "Request is not valid yet",
            {"RequestTime": claim.instant, "ServerTime": _iso(now)},
        )
    if now > signed + claim.expires:
        raise S3Error(
            "AccessDenied",
            "Request has expired",
            {
                "X-Amz-Expires": str(claim.expires),
                "Expires": _iso(signed + claim.expires),
                "ServerTime": _iso(now),
            },
        )


def _check_signed(headers: Mapping[str, str], signed: tuple[str, ...]) -> None:
    unsigned = [name for name in headers if name.startswith("x-amz-") and name not in signed]
    if "host" not in signed:
        unsigned.insert(0, "host")
    if unsigned:
        raise S3Error(
            "AccessDenied",
            "There were headers present in the request which were not signed",
            {"HeadersNotSigned": ", ".join(unsigned)},
        )
    for name in signed:
        if name not in headers:
            raise S3Error(
                "InvalidRequest",
                f"the signed header {name[:100]!r} did not arrive; a value may have printable ASCII characters only",
            )


def _canonical_request(head: Head, claim: Claim) -> bytes:
    headers = head.headers
    names = sorted(claim.signed_headers)
    lines = "".join([f"{name}:{' '.join(headers[name].split())}\n" for name in names])
    path = quote(head.path, safe="/")
    query = _canonical_query(head.query) if head.query else ""
    return f"{head.method}\n{path}\n{query}\n{lines}\n{';'.join(names)}\n{claim.content_sha256}".encode()


def _canonical_query(query: str) -> str:
    pairs = []
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if pair and name != "X-Amz-Signature":
            pairs.append((_canonical(name), _canonical(value)))
    pairs.sort()
    return "&".join([f"{name}={value}" for name, value in pairs])


def _canonical(text: str) -> str:
    """Encode a name or a value of a query anew: clients differ in what they encode, and in the case of their digits."""
    return text if _UNRESERVED.fullmatch(text) else quote(unquote_to_bytes(text.replace("+", " ")), safe="")


@lru_cache(maxsize=256)
def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for text in (date, region, service, "aws4_request"):
        key = hmac_digest(key, text.encode(), "sha256")
    return key


def _is_instant(text: str) -> bool:
    if not _INSTANT.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _malformed(reason: str) -> S3Error:
    return S3Error("AuthorizationHeaderMalformed", f"The authorization header is malformed; {reason}")


def _query_error(message: str) -> S3Error:
    return S3Error("AuthorizationQueryParametersError", message)


def _credential_error(reason: str) -> S3Error:
    return _query_error(f"Error parsing the X-Amz-Credential parameter; {reason}")


def _unsupported(algorithm: str, authorization: str) -> S3Error:
    """Return the error for another kind of signature."""
    if algorithm == "AWS":
        reason = (
            f"Signature Version 2 is not supported. Please use {ALGORITHM}: with boto3, set signature_version to s3v4"
        )
    elif algorithm == _V4A:
        reason = f"Signature Version 4A ({_V4A}) is not supported. Please use {ALGORITHM}"
    else:
        return invalid_argument("Unsupported Authorization Type", "Authorization", authorization.partition(" ")[0])
    return S3Error("InvalidRequest", f"The authorization mechanism you have provided is not supported. {reason}.")
