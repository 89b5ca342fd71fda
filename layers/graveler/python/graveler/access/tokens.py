"""Bearer tokens, which a login returns, so that a client need not send its secret again and again.

A token is a JSON web token of one fixed shape, ``header.payload.signature`` with HS256. Nothing in it chooses how it is checked:
the header must be, byte for byte, the one that is written here, and the signature is compared as text, so that each token has one
spelling. The payload is read only after the signature was found to be ours. A token does not contain its permissions; they are
read from its key, which must still be live.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from secrets import token_hex
from typing import Final

import msgspec

from graveler.errors import UNREADABLE
from graveler.storage.secrets.keyring import SharedSecret
from graveler.storage.tables.port import Item, Key, Tables

LIFETIME: Final = 7 * 24 * 3600
"""Seconds for which a token is valid, unless its key is revoked before."""
SESSION_LIFETIME: Final = 12 * 3600
"""Seconds for which the token of a browser's session is valid, if its page asks for one that ends."""
MAX_TOKEN: Final = 2048

_ENDED: Final = "access/ended-tokens"
_HEADER: Final = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
"""``{"alg":"HS256","typ":"JWT"}`` in base64."""


class LoginToken(msgspec.Struct, frozen=True):
    """A bearer token; ``expires`` in Unix seconds."""

    token: str
    expires: int

    def __repr__(self) -> str:
        return f"LoginToken(token=…, expires={self.expires})"


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The payload of a token: the ID of its key, or of the rule that admitted an AWS principal, when it was made and when it
    ends, in Unix seconds; a value that distinguishes it from another one of the same second, absent in earlier versions; and
    for an AWS principal the name under which it commits, and the one that AWS vouches for (``principal``)."""

    sub: str
    iat: int
    exp: int
    jti: str = ""
    name: str = ""
    principal: str = ""


class Tokens:
    """Makes and checks tokens with the secret of one lake, which the table keeps, sealed."""

    def __init__(self, tables: Tables, secret: SharedSecret) -> None:
        self._tables = tables
        self._secret = secret

    def issue(
        self, holder: str, *, now: float, lifetime: int = LIFETIME, name: str = "", principal: str = ""
    ) -> LoginToken:
        """Return a token for a key, or for a rule and the names of the principal that logs in by it. No request if the secret was
        read lately (:data:`graveler.storage.secrets.keyring.KEEP`), otherwise one table read; two writes and a read more for
        the first token of a lake."""
        claims = Claims(holder, int(now), int(now) + lifetime, token_hex(8), name, principal)
        payload = urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
        signed = f"{_HEADER}.{payload}"
        return LoginToken(f"{signed}.{self._signature(self._secret.fresh(), signed)}", claims.exp)

    def verify(self, token: str, *, now: float) -> Claims | None:
        """Return a token's claims, if it is ours and not expired. No request, once the secret is known; for a token that is not
        ours, a table read now and then: the secret may have been replaced."""
        header, _, rest = token.partition(".")
        payload, _, signature = rest.partition(".")
        if len(token) > MAX_TOKEN or not token.isascii() or header != _HEADER:
            return None
        signed = f"{header}.{payload}"
        # One after the other: the last secret read is tried first, and mostly suffices.
        secrets = (secret() for secret in (self._secret.known, self._secret.fresh))
        if not any(hmac.compare_digest(self._signature(secret, signed), signature) for secret in secrets):
            return None
        try:
            claims = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=Claims)
        except UNREADABLE:  # signed by a version with other claims
            return None
        return claims if now < claims.exp else None

    def still_signed(self, token: str, item: Item | None) -> bool:
        """Return whether a token that :meth:`verify` accepted is signed by the present secret, whose row was just read as
        ``item``. No request if that is the known one."""
        signed, _, signature = token.rpartition(".")
        return hmac.compare_digest(self._signature(self._secret.renew(item), signed), signature)

    @property
    def row(self) -> Key:
        """The address of the secret in the table."""
        return self._secret.row

    def end(self, token: str, *, now: float) -> None:
        """End a token of ours for good; ignore any other one, and an expired one. One table write."""
        claims = self.verify(token, now=now)
        if claims is not None:
            self._tables.put(self.ended(token), {"expires": claims.exp})

    @staticmethod
    def ended(token: str) -> Key:
        """Return the address of the item that exists if a token was ended before its time. A reader of the table cannot derive
        the token."""
        return Key(_ENDED, sha256(token.encode("utf-8", "surrogatepass")).digest())

    @staticmethod
    def _signature(secret: bytes, signed: str) -> str:
        return urlsafe_b64encode(hmac.digest(secret, signed.encode(), sha256)).rstrip(b"=").decode()
