"""URLs that let anybody read or write one key for a while, as S3's presigned ones do: signed by HMAC-SHA256.

The signature covers method, namespace, expiry and key, so that a URL for one object opens no other.
"""

import hmac
from hashlib import sha256
from urllib.parse import parse_qs, quote, unquote, urlsplit

from graveler.errors import ForbiddenError, InvalidError

METHODS = ("GET", "PUT")
_EXPIRES = "X-Graveler-Expires"
_SIGNATURE = "X-Graveler-Signature"


def sign_url(base_url: str, secret: bytes, namespace: str, key: str, method: str, expires_at: int) -> str:
    """URL below ``base_url`` that allows ``method`` on ``key`` until ``expires_at`` (Unix seconds)."""
    if method not in METHODS:
        raise InvalidError(f"a presigned URL is for GET or PUT, not for {method!r}")
    signature = _signature(secret, namespace, key, method, str(expires_at))
    return f"{base_url.rstrip('/')}/{quote(key)}?{_EXPIRES}={expires_at}&{_SIGNATURE}={signature}"


def verify_url(url: str, base_url: str, secret: bytes, namespace: str, method: str, now: float) -> str:
    """The key that ``url`` allows ``method`` on at the time ``now``; ForbiddenError if it allows nothing.

    ``url`` is as it was requested, still quoted; scheme and host may be left out of it, and are not compared.
    """
    base = urlsplit(base_url.rstrip("/"))
    try:
        asked = urlsplit(url)
    except ValueError as error:
        raise ForbiddenError(f"{url[:200]!r} is no URL: {error}") from None
    if not asked.path.startswith(base.path + "/"):
        raise ForbiddenError(f"the URL does not lie below {base.path}/")
    key = unquote(asked.path[len(base.path) + 1 :])
    query = parse_qs(asked.query)
    expires, signature = query.get(_EXPIRES, [""]), query.get(_SIGNATURE, [""])
    expected = _signature(secret, namespace, key, method, expires[0])
    # Signature first: what the query says about expiry means nothing before it is known to be ours.
    if len(expires) != 1 or len(signature) != 1 or not hmac.compare_digest(expected.encode(), signature[0].encode()):
        raise ForbiddenError(f"the URL is not signed for {method} of {key!r}; ask for a new one")
    if now >= int(expires[0]):
        raise ForbiddenError(f"the URL for {method} of {key!r} has expired; ask for a new one")
    return key


def _signature(secret: bytes, namespace: str, key: str, method: str, expires: str) -> str:
    # No field but the key, which is last, can hold a newline: no two requests have the same text.
    text = f"graveler-1\n{method}\n{expires}\n{quote(namespace)}\n{key}"
    return hmac.new(secret, text.encode("utf-8", "surrogateescape"), sha256).hexdigest()
