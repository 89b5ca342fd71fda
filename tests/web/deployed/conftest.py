"""The page of a deployment in the emulator, which a test of ``tests/infra`` describes in a file."""

import http.client
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Any, Final
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import msgspec
import pyarrow
import pyarrow.parquet
import pytest

from tests.server.support import Answered, basic
from tests.support.patience import PATIENCE
from tests.web.conftest import CHROMIUM, OPTIONS, Visit
from tests.web.deployed.front import Rule, StoreFront, TlsFront

DESCRIPTION: Final = os.environ.get("GRAVELER_DEPLOYED_WHOLE", "")
"""The file that describes the deployment; without it these stories are not collected."""

if not DESCRIPTION:
    collect_ignore_glob = ["test_*.py"]
else:
    from playwright.sync_api import Browser, sync_playwright

ROWS: Final = 600_000


class Whole(msgspec.Struct, frozen=True):
    """A deployment: ``name`` is that of its API on AWS, by which the emulator knows it, too."""

    emulator: str
    name: str
    bucket: str
    key_id: str
    secret: str
    cors: Sequence[Rule]

    @property
    def address(self) -> tuple[str, int]:
        """Where the emulator listens."""
        url = urlsplit(self.emulator)
        assert url.hostname is not None
        assert url.port is not None
        return url.hostname, url.port


@dataclass
class DeployedSite:
    """The API of the deployment, as a site of stories."""

    whole: Whole
    store: StoreFront

    @property
    def origin(self) -> str:
        """Where browsers find it."""
        return f"https://{self.whole.name}"

    @property
    def key_id(self) -> str:
        """Of the first key."""
        return self.whole.key_id

    @property
    def secret(self) -> str:
        """Of the first key."""
        return self.whole.secret

    def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """Send a request with the key, without the front."""
        connection = http.client.HTTPConnection(*self.whole.address, timeout=PATIENCE)
        sent = {"host": self.whole.name, "authorization": basic(self.key_id, self.secret), **(headers or {})}
        try:
            connection.request(method, target, body, sent)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answered(answer.status, answer.reason, named, answer.read())
        finally:
            connection.close()

    def ask_json(self, method: str, target: str, document: object) -> Answered:
        """Send a request with the key and a JSON body."""
        return self.ask(method, target, json.dumps(document).encode(), {"content-type": "application/json"})

    def log_in(self) -> str:
        """Return the cookie of a session, as ``name=value``."""
        body = {"access_key_id": self.key_id, "secret_access_key": self.secret}
        answer = self.ask_json("POST", "/api/v1/auth/login", body)
        assert answer.status == 200, answer.body
        return answer.headers["set-cookie"].partition(";")[0]

    def change(self, method: str, path: str, document: object) -> None:
        """Send a change, which must be accepted."""
        answer = self.ask_json(method, f"/api/v1{path}", document)
        assert answer.status in (200, 201), answer.body

    def commit(self, branch: str, message: str, files: Mapping[str, bytes]) -> None:
        """Upload files by presigned URLs, and commit them."""
        for path, contents in files.items():
            target = f"/repositories/orders/branches/{branch}/staging/backing?path={quote(path, safe='')}"
            staging = self.ask("GET", f"/api/v1{target}&presign=true").json()
            with urlopen(Request(staging["presigned_url"], contents, method="PUT"), timeout=PATIENCE) as answer:
                checksum = answer.headers["etag"].strip('"')
            place = {"physical_address": staging["physical_address"]}
            self.change("PUT", target, {"staging": place, "checksum": checksum, "size_bytes": len(contents)})
        self.change("POST", f"/repositories/orders/branches/{branch}/commits", {"message": message})


def measurements() -> bytes:
    """Return a Parquet file of 7 MB in 20 row groups; functions send more than 4 MB by a redirect."""
    numbers = pyarrow.array(range(ROWS), pyarrow.int64())
    table = pyarrow.table({"id": numbers, "value": pyarrow.array([number * 0.5 for number in range(ROWS)])})
    buffer = BytesIO()
    pyarrow.parquet.write_table(table, buffer, row_group_size=ROWS // 20, use_dictionary=False, compression="snappy")
    return buffer.getvalue()


@pytest.fixture(scope="session")
def whole() -> Whole:
    """The deployment."""
    return msgspec.json.decode(Path(DESCRIPTION).read_bytes(), type=Whole)


@pytest.fixture(scope="session")
def site(whole: Whole) -> DeployedSite:
    """The deployment with a repository ``orders``: a Parquet file, a commit on ``main``, and a branch ``fix`` with a conflict."""
    site = DeployedSite(whole, StoreFront(whole.address, whole.cors))
    site.change("POST", "/repositories", {"name": "orders", "storage_namespace": f"s3://{whole.bucket}/{token_hex(8)}"})
    site.commit(
        "main",
        "Load",
        {
            "README.md": b"# Orders\n",
            "prices.csv": b"id,price\n1,100\n2,200\n",
            "events/part-0.parquet": measurements(),
            "events/part-1.txt": b"none\n",
        },
    )
    site.change("POST", "/repositories/orders/branches", {"name": "fix", "source": "main"})
    site.commit("fix", "Correct a price", {"prices.csv": b"id,price\n1,100\n2,250\n"})
    site.commit("main", "Load prices", {"prices.csv": b"id,price\n1,100\n2,220\n"})
    return site


@pytest.fixture(scope="session")
def browser(site: DeployedSite, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Browser]":
    """Chromium that finds the names of AWS at the fronts. It checks no certificates, as nobody signed the front's."""
    api = TlsFront(site.whole.name, site.whole.address, tmp_path_factory.mktemp("front"))
    host, port = site.whole.address
    rules = f"MAP {site.whole.name}:443 127.0.0.1:{api.port},MAP {host}:{port} 127.0.0.1:{site.store.server_port}"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*OPTIONS, f"--host-resolver-rules={rules}"]
        )
        yield running
        running.close()


@pytest.fixture
def look() -> dict[str, Any]:
    """How the window looks."""
    return {"viewport": {"width": 1280, "height": 800}, "timezone_id": "UTC", "ignore_https_errors": True}


@pytest.fixture
def visit(stranger: Visit, site: DeployedSite) -> Visit:
    """A visit of somebody who has signed in. Playwright's own requests know nothing of the fronts."""
    name, _, value = site.log_in().partition("=")
    stranger.page.context.add_cookies([{"name": name, "value": value, "url": site.origin, "httpOnly": True}])
    return stranger
