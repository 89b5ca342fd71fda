"""Logging in to a server with AWS's credentials, and staying so."""

import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from graveler.forks import new_lock
from graveler.remote.connection import Connection

SECONDS: Final = 3600
"""For which a token is asked."""
_EARLY: Final = 300
"""So many seconds before its end it is renewed."""
_LOGIN: Final = ("auth", "external", "principal", "login")


class LoginToken(msgspec.Struct, frozen=True):
    """A bearer token; ``token_expiration`` in Unix seconds."""

    token: str
    token_expiration: int

    def __repr__(self) -> str:
        return f"LoginToken(token=…, token_expiration={self.token_expiration})"


class AwsSigner(Protocol):
    """Who one is at AWS."""

    def sign(self, name: str) -> str:
        """An identity token for a server of this name."""
        ...


class AwsSession:
    """Keeps a token for a server that is called ``name``. ``connection`` has no key. Shared by threads; ``clock`` tells seconds,
    which go on whatever the time of day is set to."""

    def __init__(
        self, connection: Connection, name: str, signer: AwsSigner, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection, self._name, self._signer, self._clock = connection, name, signer, clock
        self._header, self._expires = "", 0.0
        self._lock = new_lock()

    def log_in(self, seconds: int = SECONDS) -> LoginToken:
        """A new token, for so many seconds at most. One request. :class:`graveler.errors.ForbiddenError` if no rule lets one in,
        or one has no credentials."""
        document = {
            "identityRequest": {"identity_token": self._signer.sign(self._name)},
            "token_expiration_duration": seconds,
        }
        return self._connection.call("POST", _LOGIN, None, document).read(LoginToken)

    def authorization(self) -> str:
        """The header of this name. One request every hour, errors as :meth:`log_in`."""
        with self._lock:
            if self._clock() >= self._expires:
                began = self._clock()
                self._header = f"Bearer {self.log_in().token}"
                self._expires = began + SECONDS - _EARLY
            return self._header

    def renewed(self, refused: str) -> str:
        """Another header, instead of one that the server takes no more. One request, of several threads by one; errors as
        :meth:`log_in`."""
        with self._lock:
            if refused == self._header:
                self._expires = 0.0
        return self.authorization()
