"""Login to a server with AWS's credentials, and renewal of the token."""

import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from graveler.remote.connection import Connection
from graveler.system.forks import new_lock

SECONDS: Final = 3600
"""Requested lifetime of a token."""
_EARLY: Final = 300
"""Seconds before expiry at which a token is renewed."""
_LOGIN: Final = ("auth", "external", "principal", "login")


class LoginToken(msgspec.Struct, frozen=True):
    """A bearer token; ``token_expiration`` in Unix seconds."""

    token: str
    token_expiration: int

    def __repr__(self) -> str:
        return f"LoginToken(token=…, token_expiration={self.token_expiration})"


class AwsSigner(Protocol):
    """A source of identity tokens for the caller's AWS identity."""

    def sign(self, name: str) -> str:
        """Return an identity token for a server of this name."""
        ...


class AwsSession:
    """A token, renewed as needed, for the server called ``name``. ``connection`` has no key. Shared by threads; ``clock`` returns
    monotonic seconds, unaffected by changes to the time of day."""

    def __init__(
        self, connection: Connection, name: str, signer: AwsSigner, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection, self._name, self._signer, self._clock = connection, name, signer, clock
        self._header, self._expires = "", 0.0
        self._lock = new_lock()

    def log_in(self, seconds: int = SECONDS) -> LoginToken:
        """Get a new token, valid for at most ``seconds``. One request. :class:`graveler.errors.ForbiddenError` if no rule admits
        the identity, or without credentials."""
        document = {
            "identityRequest": {"identity_token": self._signer.sign(self._name)},
            "token_expiration_duration": seconds,
        }
        return self._connection.call("POST", _LOGIN, None, document).read(LoginToken)

    def authorization(self) -> str:
        """Return the ``authorization`` header. One request per hour, errors as :meth:`log_in`."""
        with self._lock:
            if self._clock() >= self._expires:
                began = self._clock()
                self._header = f"Bearer {self.log_in().token}"
                self._expires = began + SECONDS - _EARLY
            return self._header

    def renewed(self, refused: str) -> str:
        """Return a new header to replace ``refused``, which the server no longer accepts. One request, made by one of several
        threads; errors as :meth:`log_in`."""
        with self._lock:
            if refused == self._header:
                self._expires = 0.0
        return self.authorization()
