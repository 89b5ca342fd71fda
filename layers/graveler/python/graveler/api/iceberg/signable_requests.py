"""Requests of S3 that clients send to be signed: what each would do, to which object. Only what is known to read one object, or
to write a new one, can be signed.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from graveler.errors import ForbiddenError

_AWS_HOST: Final = re.compile(
    r"(?:(?P<bucket>[a-z0-9][a-z0-9.-]{1,62})\.)?s3(?:-fips)?(?:\.dualstack)?(?:\.[a-z]{2,5}-[a-z-]{3,30}-[0-9])?"
    r"\.amazonaws\.com(?:\.cn)?",
    re.ASCII,
)
_BUCKET: Final = re.compile(r"[a-zA-Z0-9._-]{3,255}", re.ASCII)
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}", re.ASCII)
_URI: Final = re.compile(r"[\x21-\x7e]{1,8192}")
_HEADER: Final = re.compile(r"[\t\x20-\x7e]{0,4096}")
_OPERATION: Final = "x-id"
"""A parameter by which some SDKs name the operation. It has no effect."""
_PARTS: Final = {
    ("GET", ()): "read",
    ("GET", ("partNumber",)): "read",
    ("HEAD", ()): "read",
    ("HEAD", ("partNumber",)): "read",
    ("PUT", ()): "create",
    ("POST", ("uploads",)): "write",
    ("PUT", ("partNumber", "uploadId")): "write",
    ("POST", ("uploadId",)): "create",
    ("DELETE", ("uploadId",)): "write",
}
"""By the method and the parameters of a request: ``read`` an object, ``create`` one, or ``write`` to an upload in parts."""
_HEADERS: Final = re.compile(
    r"x-amz-(?:checksum-[a-z0-9-]+|content-sha256|date|decoded-content-length|expected-bucket-owner|meta-[!-9;-~]+"
    r"|sdk-checksum-algorithm|server-side-encryption(?:-aws-kms-key-id|-bucket-key-enabled|-context)?|storage-class|te|trailer"
    r"|user-agent)",
    re.ASCII,
)
"""Headers of S3 that affect only the object of the request, and grant nobody access."""
_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_PAYLOADS: Final = re.compile(rf"[0-9a-f]{{64}}|UNSIGNED-PAYLOAD|{_TRAILER}")
_OWN_HEADERS: Final = frozenset(("x-amz-date", "host", "authorization"))


class SigningRequest(Struct, frozen=True):
    """A request of S3 that a client is about to make."""

    method: str
    uri: str
    region: str
    headers: Mapping[str, Sequence[str]] = {}


class SignableRequest(Struct, frozen=True):
    """A request for one object, at ``uri``: ``key`` in a ``bucket``. ``path`` is the part of the address before the key,
    ``query`` its parameters, decoded, and ``headers`` those to sign, in lower case."""

    method: str
    uri: str
    bucket: str
    key: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    writes: bool

    @property
    def address(self) -> str:
        """The address of the object."""
        return f"s3://{self.bucket}/{self.key}"


def read_request(request: SigningRequest, endpoint: str | None) -> SignableRequest:
    """Return a request for S3 at ``endpoint`` (a URL; None: AWS's). A request that creates an object gets ``If-None-Match: *``.
    :class:`ForbiddenError` for one that is not known to do only that."""
    method, uri = request.method, request.uri
    try:
        parts = urlsplit(uri) if _URI.fullmatch(uri) else None
    except ValueError:
        parts = None
    if parts is None or "#" in uri or not _REGION.fullmatch(request.region):
        raise _refusal(uri, "its address is not one of S3")
    bucket, path, key = _object_of(parts.scheme, parts.netloc, parts.path, endpoint, uri)
    query = _query_of(parts.query, uri)
    names = tuple(sorted(name for name, _ in query if name != _OPERATION))
    effect = _PARTS.get((method, names))
    if effect is None:
        raise _refusal(
            uri,
            f"{method} with the parameters {', '.join(names)[:200] or '(none)'} does more than read or write one file",
        )
    signed = _signed_headers(request.headers, uri)
    if effect == "create":
        signed["if-none-match"] = "*"
    return SignableRequest(method, uri, bucket, key, path, query, {**signed, "host": parts.netloc}, effect != "read")


def _object_of(scheme: str, host: str, path: str, endpoint: str | None, uri: str) -> tuple[str, str, str]:
    """Return the bucket, the part of the path before the key, and the key."""
    if endpoint is None:
        match = _AWS_HOST.fullmatch(host) if scheme == "https" else None
        if match is None:
            raise _refusal(uri, "its address is not one of S3")
        bucket, base = match["bucket"] or "", ""
    else:
        server = urlsplit(endpoint)
        base = server.path.rstrip("/")
        suffix = f".{server.netloc}"
        bucket = host.removesuffix(suffix) if host.endswith(suffix) else ""
        if scheme != server.scheme or (not bucket and host != server.netloc) or not path.startswith(f"{base}/"):
            raise _refusal(uri, f"it is not at {endpoint}")
    if "+" in path or not path.startswith("/"):
        raise _refusal(uri, "its path is not that of an object, or has a '+' (write %2B)")
    segments = path.removeprefix(base).split("/")[1:]
    if not bucket:
        bucket, segments = segments[0], segments[1:]
        base = f"{base}/{bucket}"
    try:
        key = unquote("/".join(segments), errors="strict")
    except UnicodeDecodeError:
        raise _refusal(uri, "its path is not UTF-8") from None
    if any(unquote(unquote(part)) in ("", ".", "..") for part in key.split("/")) or not key.isprintable():
        raise _refusal(uri, "its path has an empty part, or one that leads elsewhere")
    if not _BUCKET.fullmatch(bucket) or key.count("/") != len(segments) - 1:
        raise _refusal(uri, "its path has an encoded slash, or no bucket")
    return bucket, base, key


def _query_of(query: str, uri: str) -> tuple[tuple[str, str], ...]:
    if not query:
        return ()
    pairs = [pair.partition("=") for pair in query.split("&")]
    try:
        decoded = tuple((unquote(name, errors="strict"), unquote(text, errors="strict")) for name, _, text in pairs)
    except UnicodeDecodeError:
        raise _refusal(uri, "its parameters are not UTF-8") from None
    if "+" in query or len({name for name, _ in decoded}) != len(decoded):
        raise _refusal(uri, "its parameters are not written as those of S3")
    return decoded


def _signed_headers(headers: Mapping[str, Sequence[str]], uri: str) -> dict[str, str]:
    signed: dict[str, str] = {}
    for name, texts in headers.items():
        lower, text = name.lower(), ",".join(texts)
        if not lower.startswith("x-amz-") or lower in _OWN_HEADERS:
            continue
        if not _HEADERS.fullmatch(lower) or not _HEADER.fullmatch(text) or lower in signed:
            raise _refusal(uri, f"header {lower[:80]!r} does more than read or write one file")
        signed[lower] = " ".join(text.split())
    if "x-amz-trailer" in signed:
        signed.setdefault("x-amz-content-sha256", _TRAILER)
    if not _PAYLOADS.fullmatch(signed.get("x-amz-content-sha256", _TRAILER)):
        raise _refusal(uri, "its body would have to be signed in pieces")
    return signed


def _refusal(uri: str, reason: str) -> ForbiddenError:
    return ForbiddenError(f"the request for {uri.partition('?')[0][:200]!r} cannot be signed: {reason}")
