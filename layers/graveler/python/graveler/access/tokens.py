"""Bearer tokens: what a login hands out, so that a client need not send its secret again and again.

A token is a JSON web token of one fixed shape, ``header.payload.signature`` with HS256. Nothing in it chooses how it is checked:
the header must be, byte for byte, the one that is written here, and the signature is compared as text, so that each token has one
spelling. The payload is read only after the signature was found to be ours. What a token may do is not in it; that is
read from its key, which must still be alive.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256
from secrets import token_bytes, token_hex
from typing import Final

import msgspec

from graveler.errors import UNREADABLE, BusyError, CorruptError
from graveler.storage.tables import Absent, ConditionFailedError, Key, Tables

LIFETIME: Final = 7 * 24 * 3600
"""Seconds for which a token is good, unless its key is revoked before."""
MAX_TOKEN: Final = 2048

_SECRET: Final = Key("access", b"token-secret")
_ENDED: Final = "access/ended-tokens"
_HEADER: Final = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
"""Of ``{"alg":"HS256","typ":"JWT"}``, in base64."""


class LoginToken(msgspec.Struct, frozen=True):
    """A bearer token; ``expires`` in Unix seconds."""

    token: str
    expires: int

    def __repr__(self) -> str:
        return f"LoginToken(token=…, expires={self.expires})"


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a token says: its key's ID, when it was made and when it ends, in Unix seconds; and what tells it from another one of
    the same second, which earlier versions did not say."""

    sub: str
    iat: int
    exp: int
    jti: str = ""


class Tokens:
    """Makes and checks tokens with the secret of one lake, which the table keeps."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._secret = b""

    def issue(self, key_id: str, *, now: float, lifetime: int = LIFETIME) -> LoginToken:
        """A token for a key. No request, once the secret is known: one table read, and a write for the first token of a lake."""
        claims = Claims(key_id, int(now), int(now) + lifetime, token_hex(8))
        payload = urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
        signed = f"{_HEADER}.{payload}"
        return LoginToken(f"{signed}.{self._signature(signed)}", claims.exp)

    def verify(self, token: str, *, now: float) -> Claims | None:
        """What a token says, if it is ours and not expired. Requests as :meth:`issue`."""
        header, _, rest = token.partition(".")
        payload, _, signature = rest.partition(".")
        if len(token) > MAX_TOKEN or not token.isascii() or header != _HEADER:
            return None
        if not hmac.compare_digest(self._signature(f"{header}.{payload}"), signature):
            return None
        try:
            claims = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=Claims)
        except UNREADABLE:  # signed by a version that says something else
            return None
        return claims if now < claims.exp else None

    def end(self, token: str, *, now: float) -> None:
        """End a token of ours for good; another one, or one that is over, is left. One table write."""
        claims = self.verify(token, now=now)
        if claims is not None:
            self._tables.put(self.ended(token), {"expires": claims.exp})

    @staticmethod
    def ended(token: str) -> Key:
        """Where there is an item if a token was ended before its time. Whoever reads the table cannot tell the token."""
        return Key(_ENDED, sha256(token.encode("utf-8", "surrogatepass")).digest())

    def _signature(self, signed: str) -> str:
        digest = hmac.digest(self._known_secret(), signed.encode(), sha256)
        return urlsafe_b64encode(digest).rstrip(b"=").decode()

    def _known_secret(self) -> bytes:
        if not self._secret:
            self._secret = shared_secret(self._tables, _SECRET)
        return self._secret


def shared_secret(tables: Tables, key: Key) -> bytes:
    """32 random bytes that all processes of a lake share: made by whoever asks first. One table read; a write and another read
    the first time. :class:`CorruptError` for an item that holds something else."""
    item = tables.get(key)
    if item is None:
        with suppress(ConditionFailedError):  # somebody else was quicker: then it is theirs
            tables.put(key, {"secret": token_bytes(32)}, Absent())
        item = tables.get(key)
    if item is None:
        raise BusyError(f"secret {key.sort.decode()!r} is being replaced; try again")
    secret = item.get("secret")
    if not isinstance(secret, bytes) or len(secret) != 32:
        raise CorruptError(f"secret {key.sort.decode()!r} in the table is damaged; restore the table from a copy")
    return secret
