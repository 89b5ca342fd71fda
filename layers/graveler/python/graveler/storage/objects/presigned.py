"""URLs that let anyone read or write one key for a while, as S3's presigned ones do: signed by HMAC-SHA256.

The signature covers method, namespace, key, time, lifetime and, for a part of an upload, upload ID and part number: a URL for one
object or part opens no other. It also covers the expected bytes of the object, if the URL contains them. Time and lifetime have
S3's names, because clients read them to see when to request a new one.
"""

import hmac
import re
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from msgspec import Struct

from graveler.errors import ForbiddenError, InvalidError, UnavailableError
from graveler.storage.objects.port import Noted

METHODS: Final = ("GET", "PUT")

_DATE: Final = "X-Amz-Date"
_LIFETIME: Final = "X-Amz-Expires"
_NAMESPACE: Final = "X-Graveler-Namespace"
_SIGNATURE: Final = "X-Graveler-Signature"
_UPLOAD: Final = "uploadId"
_PART: Final = "partNumber"
_SIZE: Final = "X-Graveler-Size"
_MD5: Final = "X-Graveler-MD5"
_NAMES: Final = frozenset((_DATE, _LIFETIME, _NAMESPACE, _SIGNATURE, _UPLOAD, _PART, _SIZE, _MD5))
_DATE_FORM: Final = "%Y%m%dT%H%M%SZ"
_WRITTEN_DATE: Final = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_MAX_LIFETIME: Final = 7 * 24 * 3600
"""Seconds; S3's own limit."""

DAMAGED: Final = "DamagedObject"
"""The code of the error document with which a server of such URLs refuses bytes other than the noted ones."""


class Grant(Struct, frozen=True):
    """The permission of a URL: a key of a namespace, or a part of an upload of it (``part`` is 0 otherwise). ``noted`` are the
    expected bytes, if the URL contains them."""

    namespace: str
    key: str
    upload_id: str = ""
    part: int = 0
    noted: Noted | None = None


class UrlSigner(Struct, frozen=True):
    """Makes and checks the URLs below ``base_url``, with a secret shared by all that check them; or with the result of
    ``secret``, which is called each time."""

    base_url: str
    secret: bytes | Callable[[], bytes]

    def __repr__(self) -> str:
        return f"UrlSigner({self.base_url!r}, …)"

    def sign(self, grant: Grant, method: str, expires_in: int, now: float | None = None) -> str:
        """Return a URL that allows ``method`` on ``grant`` for ``expires_in`` seconds from ``now`` (Unix seconds)."""
        check_presigning(method, expires_in)
        date = time.strftime(_DATE_FORM, time.gmtime(now))
        part = str(grant.part) if grant.part else ""
        query = f"{_DATE}={date}&{_LIFETIME}={expires_in}&{_NAMESPACE}={quote(grant.namespace, safe='')}"
        if part:
            query += f"&{_PART}={part}&{_UPLOAD}={quote(grant.upload_id, safe='')}"
        size, md5 = ("", "") if grant.noted is None else (str(grant.noted.size), grant.noted.md5)
        if size:
            query += f"&{_SIZE}={size}" + (f"&{_MD5}={md5}" if md5 else "")
        signature = self._signature(
            method, date, str(expires_in), grant.namespace, grant.upload_id, part, size, md5, grant.key
        )
        return f"{self.base_url.rstrip('/')}/{quote(grant.key)}?{query}&{_SIGNATURE}={signature}"

    def verify(self, url: str, method: str, now: float | None = None) -> Grant:
        """Return the grant on which ``url`` allows ``method`` at the time ``now`` (Unix seconds); :class:`ForbiddenError` if it
        allows nothing.

        ``url`` is as it was requested, still quoted; it may omit scheme and host, which are not compared.
        """
        from calendar import timegm  # 2 ms: only a server verifies

        base = urlsplit(self.base_url.rstrip("/"))
        try:
            target = urlsplit(url)
        except ValueError as error:
            raise ForbiddenError(f"{url[:200]!r} is not a URL: {error}") from None
        if not target.path.startswith(base.path + "/"):
            raise ForbiddenError(f"the URL is not below {base.path}/")
        key = unquote(target.path[len(base.path) + 1 :], errors="surrogateescape")
        pairs = [pair for pair in parse_qsl(target.query, keep_blank_values=True) if pair[0] in _NAMES]
        query = dict(pairs)
        date, lifetime, part = query.get(_DATE, ""), query.get(_LIFETIME, ""), query.get(_PART, "")
        namespace, upload_id, signature = query.get(_NAMESPACE, ""), query.get(_UPLOAD, ""), query.get(_SIGNATURE, "")
        size, md5 = query.get(_SIZE, ""), query.get(_MD5, "")
        expected = self._signature(method, date, lifetime, namespace, upload_id, part, size, md5, key)
        # Signature first: the query means nothing before it is known to be ours.
        actual = signature.encode("utf-8", "surrogateescape")
        if len(query) != len(pairs) or not hmac.compare_digest(expected.encode(), actual):
            raise ForbiddenError(f"the URL is not signed for {method} of {key[:200]!r}; request a new one")
        if not _WRITTEN_DATE.fullmatch(date):
            raise ForbiddenError(f"the URL for {key[:200]!r} has no expiry time; request a new one")
        if (time.time() if now is None else now) >= timegm(time.strptime(date, _DATE_FORM)) + int(lifetime):
            raise ForbiddenError(f"the URL for {method} of {key[:200]!r} has expired; request a new one")
        return Grant(namespace, key, upload_id, int(part or 0), Noted(int(size), md5) if size else None)

    def _signature(
        self,
        method: str,
        date: str,
        lifetime: str,
        namespace: str,
        upload_id: str,
        part: str,
        size: str,
        md5: str,
        key: str,
    ) -> str:
        # No field but the key, which is last, can hold a newline: no two requests have the same text.
        fields = (method, date, lifetime, quote(namespace), quote(upload_id), part)
        noted = (quote(size), quote(md5)) if size or md5 else ()
        text = "\n".join(("graveler-3" if noted else "graveler-2", *fields, *noted, key))
        secret = self.secret if isinstance(self.secret, bytes) else self.secret()
        return hmac.new(secret, text.encode("utf-8", "surrogateescape"), sha256).hexdigest()


def check_presigning(method: str, expires_in: int) -> None:
    """Raise InvalidError unless a URL for ``method`` can last this many seconds."""
    if method not in METHODS:
        raise InvalidError(f"a presigned URL is for GET or PUT, not for {method!r}")
    if not 1 <= expires_in <= _MAX_LIFETIME:
        raise InvalidError(f"a presigned URL cannot last {expires_in} seconds; ask for 1 to {_MAX_LIFETIME:,}")


def has_opaque_etag(encryption: str, customer_algorithm: str) -> bool:
    """Return whether S3 makes up an object's ETag, so that it is not a digest of the bytes, judging by the headers
    ``x-amz-server-side-encryption`` and ``x-amz-server-side-encryption-customer-algorithm``."""
    return encryption.startswith("aws:kms") or bool(customer_algorithm)


def no_urls(namespace: str) -> UnavailableError:
    """Return the error of a store without a server in front of it."""
    return UnavailableError(
        f"{namespace} is a folder: presigned URLs need a server in front of it; start `graveler serve`"
    )
