"""A running server, and plain requests to it, for the replays of other clients."""

import json
import os
import secrets
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import urllib3
from msgspec import Struct

from tests.support.patience import PATIENCE

KEY_ID: Final = "AKIAIOSFODNN7EXAMPLQ"
SECRET: Final = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY12"
WORKERS: Final = 2
ENDPOINT: Final = "GRAVELER_TEST_ENDPOINT"
"""Names a server that runs already and knows the key above; without it the tests start one of their own."""

Query = Mapping[str, object]


class Served(Struct, frozen=True):
    """A server and an admin's key; its lake, if that is one of ours."""

    url: str
    key_id: str = KEY_ID
    secret: str = SECRET
    lake: Path | None = None

    @property
    def api(self) -> str:
        return f"{self.url}/api/v1"

    @property
    def environment(self) -> dict[str, str]:
        """What lakectl, lakefs and lakefs-spec read."""
        return {
            "LAKECTL_SERVER_ENDPOINT_URL": self.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": self.key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": self.secret,
        }


@contextmanager
def serving(lake: Path, *options: str, place: Sequence[str] = ()) -> Iterator[Served]:
    """A server of several workers on a lake of its own, until the end of the block: in the folder ``lake``, or where the options
    ``place`` say."""
    if os.environ.get(ENDPOINT):
        yield Served(os.environ[ENDPOINT])
        return
    command = [
        sys.executable,
        "-m",
        "graveler.cli",
        "serve",
        "--json",
        *(place or ("--lake", str(lake))),
        "--port",
        "0",
    ]
    environment = {**os.environ, "GRAVELER_ACCESS_KEY_ID": KEY_ID, "GRAVELER_SECRET_ACCESS_KEY": SECRET}
    log = lake.with_suffix(".log")
    with (
        log.open("wb") as said,
        subprocess.Popen(
            [*command, "--workers", str(WORKERS), *options], env=environment, stdout=subprocess.PIPE, stderr=said
        ) as process,
    ):
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()  # says where it listens, once it answers
            assert ready, log.read_text()
            yield Served(json.loads(ready)["url"], lake=lake)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, log.read_text()


class Reply(Struct, frozen=True):
    """What came back."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, which must say that it is JSON."""
        assert self.headers["content-type"].startswith("application/json"), self
        return json.loads(self.body)

    def expect(self, status: int) -> "Reply":
        """Itself, if it has this status."""
        assert self.status == status, f"{self.status} instead of {status}: {self.body[:500]!r}"
        return self


class Wire:
    """Requests as a client without a library sends them; redirects are not followed. One for each thread."""

    def __init__(self, served: Served, user_agent: str = "replay") -> None:
        self._served = served
        self._pool = urllib3.PoolManager(retries=False, maxsize=4)
        token = b64encode(f"{served.key_id}:{served.secret}".encode()).decode()
        self._headers = {"Authorization": f"Basic {token}", "User-Agent": user_agent}

    def close(self) -> None:
        self._pool.clear()

    def __call__(
        self,
        method: str,
        path: str,
        query: Query | str = "",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Ask the API: ``path`` is below its base and percent-encoded. A body that is no bytes goes as JSON."""
        asked = query if isinstance(query, str) else urlencode(query, quote_via=quote)
        said = {**self._headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            said.setdefault("Content-Type", "application/json")
        url = f"{self._served.api}{path}" + (f"?{asked}" if asked else "")
        return self.plain(method, url, body, said)

    def plain(self, method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Ask any URL, without credentials."""
        answer = self._pool.request(
            method,
            url,
            body=body,
            headers=dict(headers or {}),
            redirect=False,
            timeout=PATIENCE,
        )
        return Reply(answer.status, answer.reason or "", answer.headers, answer.data)


def new_name(kind: str = "repo") -> str:
    """A name that no other test has: they share a server."""
    return f"{kind}-{secrets.token_hex(6)}"


def form(content: bytes = b"", content_type: str = "application/octet-stream") -> tuple[bytes, str]:
    """A form with the part ``content``, as the clients send it, and its content type."""
    encoded, kind = urllib3.encode_multipart_formdata({"content": ("content", content, content_type)})
    return encoded, kind
