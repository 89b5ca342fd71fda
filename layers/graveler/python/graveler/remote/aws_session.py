"""Logging in to a server with AWS's credentials, and staying so.

Signed is the request that the field's clients sign (:mod:`graveler.access.identity_tokens`): ``GetCallerIdentity`` at the STS of
the region that one works in, for a server of a certain name. Nothing is asked of AWS here, but by botocore what it needs to
find credentials.
"""

import time
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

import msgspec

from graveler.access.identity_tokens import SERVER_HEADER
from graveler.access.sts_hosts import host_of
from graveler.errors import ForbiddenError, UnavailableError
from graveler.forks import new_lock
from graveler.remote.connection import Connection
from graveler.storage.aws_configuration import region_of

if TYPE_CHECKING:
    from botocore.credentials import Credentials, ReadOnlyCredentials

SECONDS: Final = 3600
"""For which a token is asked."""
_EARLY: Final = 300
"""So many seconds before its end it is renewed."""
_SIGNED_SECONDS: Final = 300
"""Life of a signed request: as much as AWS itself forgives a clock."""
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
        self._header, self._until = "", 0.0
        self._lock = new_lock()

    def log_in(self, seconds: int = SECONDS) -> LoginToken:
        """A new token, for so many seconds at most. One request. :class:`ForbiddenError` if no rule lets one in, or one has no
        credentials."""
        document = {
            "identityRequest": {"identity_token": self._signer.sign(self._name)},
            "token_expiration_duration": seconds,
        }
        return self._connection.call("POST", _LOGIN, None, document).read(LoginToken)

    def authorization(self) -> str:
        """The header of this name. One request every hour, errors as :meth:`log_in`."""
        with self._lock:
            if self._clock() >= self._until:
                began = self._clock()
                self._header = f"Bearer {self.log_in().token}"
                self._until = began + SECONDS - _EARLY
            return self._header

    def renewed(self, refused: str) -> str:
        """Another header, instead of one that the server takes no more. One request, of several threads by one; errors as
        :meth:`log_in`."""
        with self._lock:
            if refused == self._header:
                self._until = 0.0
        return self.authorization()


class BotocoreSigner:
    """Signs with the credentials that AWS's own tools find: environment, profile, role of a function, a job or a machine. They
    are looked for at the first signature, and renewed by botocore."""

    def __init__(self) -> None:
        self._credentials: Credentials | None = None
        self._region: str | None = None

    def sign(self, name: str) -> str:
        """An identity token for a server of this name. :class:`ForbiddenError` without credentials; :class:`UnavailableError`
        without botocore."""
        try:
            from botocore.auth import SigV4QueryAuth  # not for who has a key
            from botocore.awsrequest import AWSRequest
        except ModuleNotFoundError as error:
            raise UnavailableError(
                f"to log in with AWS's credentials needs the package {error.name!r}, which is not installed; "
                "pip install 'graveler[aws]'"
            ) from None
        found = self._found()
        host, region = host_of(self._region)
        url = f"https://{host}/?Action=GetCallerIdentity&Version=2011-06-15"
        request = AWSRequest("POST", url, {SERVER_HEADER: name})
        SigV4QueryAuth(found, "sts", region, _SIGNED_SECONDS).add_auth(request)
        said = dict(parse_qsl(urlsplit(str(request.url)).query))
        parts = {
            "method": "POST",
            "host": host,
            "region": region,
            "action": said["Action"],
            "date": said["X-Amz-Date"],
            "expiration_duration": said["X-Amz-Expires"],
            "access_key_id": found.access_key,
            "signature": said["X-Amz-Signature"],
            "signed_headers": said["X-Amz-SignedHeaders"].split(";"),
            "version": said["Version"],
            "algorithm": said["X-Amz-Algorithm"],
            "security_token": said.get("X-Amz-Security-Token"),
        }
        return b64encode(msgspec.json.encode(parts)).decode()

    def _found(self) -> "ReadOnlyCredentials":
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session

        try:
            if self._credentials is None:
                session = get_session()
                self._region = region_of(None) or session.get_config_variable("region")
                self._credentials = session.get_credentials()
            if self._credentials is not None:
                return self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise ForbiddenError(f"AWS's credentials cannot be had: {error}") from None
        raise ForbiddenError(
            "there are no credentials of AWS to log in with; set AWS_PROFILE, or work where there is a role"
        )
