"""Signature V4 of requests to S3, whose payload is not signed: its bytes are streamed.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import hmac
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from msgspec import Struct

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
_UNRESERVED: Final = "-_.~"
_SIGNED: Final = frozenset(("host", "if-none-match"))


class Keys(Struct, frozen=True):
    """AWS's credentials; ``token`` is empty for those of a user."""

    access_key: str
    secret_key: str
    token: str = ""

    def __repr__(self) -> str:
        return f"Keys({self.access_key!r}, …)"


class S3Signer:
    """Signs with one pair of keys for one region. 10 µs a request."""

    def __init__(self, keys: Keys, region: str) -> None:
        self._keys = keys
        self._region = region
        self._second = 0
        self._date = self._day = self._scope = ""
        self._key = b""

    def sign(self, method: str, target: str, headers: Mapping[str, str], now: float | None = None) -> dict[str, str]:
        """Return the headers to send: these ones, with the signature. ``target`` is the quoted path and query as of
        :func:`target_of`. Host, ``if-none-match`` and all ``x-amz-`` headers are signed; if ``x-amz-content-sha256`` is one of
        them, it is what the payload is signed as. ``now`` in Unix seconds."""
        second = int(time.time() if now is None else now)
        if second != self._second:
            self._begin(second)
        signed = dict(headers)
        payload = signed.setdefault("x-amz-content-sha256", _PAYLOAD)
        signed["x-amz-date"] = self._date
        if self._keys.token:
            signed["x-amz-security-token"] = self._keys.token
        names = sorted(name for name in signed if name in _SIGNED or name.startswith("x-amz-"))
        path, _, query = target.partition("?")
        lines = "".join([f"{name}:{signed[name]}\n" for name in names])
        listed = ";".join(names)
        request = f"{method}\n{path}\n{query}\n{lines}\n{listed}\n{payload}"
        text = f"{_ALGORITHM}\n{self._date}\n{self._scope}\n{sha256(request.encode('latin-1')).hexdigest()}"
        signature = hmac.digest(self._key, text.encode(), "sha256").hex()
        signed["authorization"] = (
            f"{_ALGORITHM} Credential={self._keys.access_key}/{self._scope}, SignedHeaders={listed}, Signature={signature}"
        )
        return signed

    def _begin(self, second: int) -> None:
        self._second = second
        self._date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        day = self._date[:8]
        if day != self._day:
            self._day = day
            self._scope = f"{day}/{self._region}/s3/aws4_request"
            key = f"AWS4{self._keys.secret_key}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = key


def target_of(base: str, key: str, query: Sequence[tuple[str, str]] = ()) -> str:
    """Return the quoted path of a key below the path ``base``, with a query in the order that a signature needs."""
    path = f"{base}/{quote(key, safe=f'/{_UNRESERVED}')}"
    if not query:
        return path
    return f"{path}?" + "&".join(
        [f"{quote(name, safe=_UNRESERVED)}={quote(value, safe=_UNRESERVED)}" for name, value in sorted(query)]
    )
