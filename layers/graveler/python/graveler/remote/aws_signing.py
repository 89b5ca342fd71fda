"""Adapter: requests signed by botocore, for logging in to a server.

The signed request is the one that published clients sign (:mod:`graveler.access.identity_tokens`): ``GetCallerIdentity`` at the
STS of the configured region, for a server of a certain name. This module sends nothing to AWS; botocore may, to find credentials.
"""

from base64 import b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from graveler.access.identity_tokens import SERVER_HEADER
from graveler.access.sts_hosts import host_of
from graveler.errors import ForbiddenError, UnavailableError
from graveler.storage.aws_configuration import region_of
from graveler.system.extras import not_installed

if TYPE_CHECKING:
    from botocore.credentials import Credentials, ReadOnlyCredentials

_SIGNED_SECONDS: Final = 300
"""Lifetime of a signed request: the clock skew that AWS itself tolerates."""


class BotocoreSigner:
    """A signer that uses the credentials AWS's own tools find: environment, profile, or the role of a function, a job or a
    machine. botocore looks them up at the first signature and renews them."""

    def __init__(self) -> None:
        self._credentials: Credentials | None = None
        self._region: str | None = None

    def sign(self, name: str) -> str:
        """Return an identity token for a server of this name. :class:`ForbiddenError` without credentials;
        :class:`UnavailableError` without botocore."""
        try:
            from botocore.auth import SigV4QueryAuth
            from botocore.awsrequest import AWSRequest
        except ModuleNotFoundError as error:
            raise UnavailableError(not_installed("logging in with AWS credentials", error.name, "aws")) from None
        credentials = self._found()
        host, region = host_of(self._region)
        url = f"https://{host}/?Action=GetCallerIdentity&Version=2011-06-15"
        request = AWSRequest("POST", url, {SERVER_HEADER: name})
        SigV4QueryAuth(credentials, "sts", region, _SIGNED_SECONDS).add_auth(request)
        query = dict(parse_qsl(urlsplit(str(request.url)).query))
        parts = {
            "method": "POST",
            "host": host,
            "region": region,
            "action": query["Action"],
            "date": query["X-Amz-Date"],
            "expiration_duration": query["X-Amz-Expires"],
            "access_key_id": credentials.access_key,
            "signature": query["X-Amz-Signature"],
            "signed_headers": query["X-Amz-SignedHeaders"].split(";"),
            "version": query["Version"],
            "algorithm": query["X-Amz-Algorithm"],
            "security_token": query.get("X-Amz-Security-Token"),
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
            raise ForbiddenError(f"cannot get AWS credentials: {error}") from None
        raise ForbiddenError("no AWS credentials to log in with were found; set AWS_PROFILE, or run with a role")
