"""A small client of S3, which repeats nothing."""

import http.client
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from msgspec import Struct

from graveler.gateway.control import REGION, KeyPair
from tests.gateway.support import KEYS
from tests.support.patience import PATIENCE


class Answer(Struct, frozen=True):
    """An answer whose body has arrived as long as it was announced."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Caller:
    """Sends requests to a gateway, each on a connection of its own."""

    def __init__(self, port: int, keys: KeyPair = KEYS) -> None:
        self.address: Final = f"127.0.0.1:{port}"
        self._credentials = Credentials(keys.id, keys.secret)

    def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request. ``OSError`` and ``HTTPException`` if there is no whole answer."""
        request = AWSRequest(method, f"http://{self.address}{path}", data=body, headers=dict(headers or {}))
        S3SigV4Auth(self._credentials, "s3", REGION).add_auth(request)
        with closing(http.client.HTTPConnection(self.address, timeout=PATIENCE)) as connection:
            connection.request(method, path, body, dict(request.headers))
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()})
