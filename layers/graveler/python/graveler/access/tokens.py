"""Bearer tokens: what a login hands out, so that a client need not send its secret again and again.

A token is a JSON web token of one fixed shape, ``header.payload.signature`` with HS256. Nothing in it chooses how it is checked:
the header must be, byte for byte, the one that is written here, and the signature is compared as text, so that each token has one
spelling. The payload is read only after the signature was found to be ours. What a token may do is not in it; that is
read from its key, which must still be alive.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from secrets import token_hex
from typing import Final

import msgspec

from graveler.errors import UNREADABLE
from graveler.storage.keyring import SharedSecret
from graveler.storage.tables import Item, Key, Tables

LIFETIME: Final = 7 * 24 * 3600
"""Seconds for which a token is good, unless its key is revoked before."""
MAX_TOKEN: Final = 2048

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
    """What a token says: the ID of its key, or of the rule that let an AWS principal in, when it was made and when it ends, in
    Unix seconds; what tells it from another one of the same second, which earlier versions did not say; and the principal's
    name."""

    sub: str
    iat: int
    exp: int
    jti: str = ""
    name: str = ""


class Tokens:
    """Makes and checks tokens with the secret of one lake, which the table keeps, sealed."""

    def __init__(self, tables: Tables, secret: SharedSecret) -> None:
        self._tables = tables
        self._secret = secret

    def issue(self, holder: str, *, now: float, lifetime: int = LIFETIME, name: str = "") -> LoginToken:
        """A token for a key, or for a rule and the name of who logs in by it. No request, if the secret was read lately
        (:data:`graveler.storage.keyring.KEEP`), else one table read; two writes and a read more for the first token of a lake."""
        claims = Claims(holder, int(now), int(now) + lifetime, token_hex(8), name)
        payload = urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
        signed = f"{_HEADER}.{payload}"
        return LoginToken(f"{signed}.{self._signature(self._secret.fresh(), signed)}", claims.exp)

    def verify(self, token: str, *, now: float) -> Claims | None:
        """What a token says, if it is ours and not expired. No request, once the secret is known; for a token that is not ours,
        a table read now and then: the secret may be another one by now."""
        header, _, rest = token.partition(".")
        payload, _, signature = rest.partition(".")
        if len(token) > MAX_TOKEN or not token.isascii() or header != _HEADER:
            return None
        signed = f"{header}.{payload}"
        # One after the other: what was read lately is looked at first, and is mostly all there is.
        secrets = (secret() for secret in (self._secret.known, self._secret.fresh))
        if not any(hmac.compare_digest(self._signature(secret, signed), signature) for secret in secrets):
            return None
        try:
            claims = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=Claims)
        except UNREADABLE:  # signed by a version that says something else
            return None
        return claims if now < claims.exp else None

    def still_signed(self, token: str, item: Item | None) -> bool:
        """Is a token that :meth:`verify` let pass signed by the secret of now, of whose row ``item`` was just read? No request if
        that is the one that is known."""
        signed, _, signature = token.rpartition(".")
        return hmac.compare_digest(self._signature(self._secret.renew(item), signed), signature)

    @property
    def row(self) -> Key:
        """Where the secret is kept."""
        return self._secret.row

    def end(self, token: str, *, now: float) -> None:
        """End a token of ours for good; another one, or one that is over, is left. One table write."""
        claims = self.verify(token, now=now)
        if claims is not None:
            self._tables.put(self.ended(token), {"expires": claims.exp})

    @staticmethod
    def ended(token: str) -> Key:
        """Where there is an item if a token was ended before its time. Whoever reads the table cannot tell the token."""
        return Key(_ENDED, sha256(token.encode("utf-8", "surrogatepass")).digest())

    @staticmethod
    def _signature(secret: bytes, signed: str) -> str:
        return urlsafe_b64encode(hmac.digest(secret, signed.encode(), sha256)).rstrip(b"=").decode()
