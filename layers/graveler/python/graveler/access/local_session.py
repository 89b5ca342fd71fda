"""The session of ``graveler ui``: that of the one user who started it. A one-time code begins it, and it ends with the process.

No key is created, and nothing is stored: code and token are in the memory of this process.
"""

import time
from collections.abc import Callable
from hmac import compare_digest
from secrets import token_bytes, token_urlsafe
from typing import Final

from graveler.access.authentication import Access, cookie_value
from graveler.access.permissions import Identity, Role
from graveler.access.refusals import AuthenticationError, IdentityRefusedError
from graveler.access.tokens import LoginToken
from graveler.storage.secrets.keyring import Keyring
from graveler.storage.tables.port import Tables
from graveler.system.forks import new_lock

CODE_SECONDS: Final = 60.0
"""Seconds for which the code is valid after it was shown."""

_BYTES: Final = 32
_KEY_ID: Final = "ui"
"""Stands for the ID of a key in the audit log; no key has one as short."""
_AGAIN: Final = "run `graveler ui` again for another one"


class LocalSession:
    """The session of the user ``name``, with the rights of an admin, for the server on ``port`` of the loopback address. Safe to
    share between threads; ``clock`` returns seconds.

    ``cookie`` is the name of its cookie: browsers send a host's cookies to all ports, so the name has the port. ``url_secret``
    signs presigned URLs, which end with the process, too.
    """

    def __init__(self, name: str, port: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.identity = Identity(_KEY_ID, name, Role.ADMIN)
        self.cookie = f"graveler_ui_{port}"
        self.code = token_urlsafe(_BYTES)
        self.url_secret = token_bytes(_BYTES)
        self.created = int(time.time())
        self._clock = clock
        self._expires = clock() + CODE_SECONDS
        self._lock = new_lock()
        self._is_used = False
        self._token = ""

    def show_code(self) -> str:
        """Return the code; its time begins."""
        self._expires = self._clock() + CODE_SECONDS
        return self.code

    def sign_in(self, code: str) -> str:
        """Return the session's token for its code, once. :class:`IdentityRefusedError` with what to do."""
        if not _equal(code, self.code):
            raise IdentityRefusedError(f"this address is not of the `graveler ui` that runs here; {_AGAIN}")
        with self._lock:
            if self._is_used:
                raise IdentityRefusedError(f"this address was used before, and signs in only once; {_AGAIN}")
            if self._clock() >= self._expires:
                raise IdentityRefusedError(f"this address is older than {CODE_SECONDS:.0f} seconds; {_AGAIN}")
            self._is_used = True
            self._token = token_urlsafe(_BYTES)
            return self._token

    def admits(self, cookie: str | None) -> bool:
        """Return whether a ``cookie`` header has the session's token."""
        token = cookie_value(cookie, self.cookie) if cookie else ""
        return bool(token) and _equal(token, self._token)

    def end(self) -> None:
        """End the session for good."""
        with self._lock:
            self._is_used, self._token = True, ""


class LocalAccess(Access):
    """The access of a server with one session. It takes no other credentials."""

    takes_keys = False

    def __init__(self, tables: Tables, keyring: Keyring, session: LocalSession) -> None:
        super().__init__(tables, keyring)
        self._session = session
        self.cookie = session.cookie

    def authenticate(self, authorization: str | None, cookie: str | None, source: str) -> Identity:  # noqa: ARG002 - one user
        """Return the session's identity. No request. :class:`AuthenticationError`."""
        if authorization or not self._session.admits(cookie):
            raise AuthenticationError
        return self._session.identity

    def login(self, key_id: str, secret: str, source: str, lifetime: int = 0) -> LoginToken:  # noqa: ARG002 - none is taken
        """Raise :class:`IdentityRefusedError`."""
        raise IdentityRefusedError(f"`graveler ui` takes no access key, but the address that it shows; {_AGAIN}")

    def created(self, identity: Identity) -> int:  # noqa: ARG002 - there is one
        """Return when the session was created, in Unix seconds. No request."""
        return self._session.created

    def logout(self, authorization: str | None, cookie: str | None) -> None:  # noqa: ARG002 - there is one
        """End the session. No request."""
        self._session.end()


def _equal(text: str, secret: str) -> bool:
    """Compare in a time that tells nothing of the secret."""
    return compare_digest(text.encode("utf-8", "surrogatepass"), secret.encode())
