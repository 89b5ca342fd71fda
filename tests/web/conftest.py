"""A server on the lake of the stories, a browser, and pages whose errors and traces count.

Playwright lives in an environment of its own, ``.venv-web``; elsewhere these tests are not collected.
"""

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from tests.server.support import Answered, Running, started
from tests.web.story_lake import create_story_lake

PATIENCE_MS: Final = 60_000
"""How long an expectation and an action of the browser may take, in milliseconds, on a busy machine."""

if find_spec("playwright") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)

ROOT: Final = Path(__file__).parents[2]
TRACES: Final = ROOT / "build" / "traces"
CHROMIUM: Final = "/usr/bin/chromium"
OPTIONS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Site(Protocol):
    """A server of the page, and an admin's key."""

    @property
    def origin(self) -> str: ...

    @property
    def key_id(self) -> str: ...

    @property
    def secret(self) -> str: ...

    def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """Send a request with the key."""

    def ask_json(self, method: str, target: str, document: object) -> Answered:
        """Send a request with the key and a JSON body."""


_REPORT: Final = pytest.StashKey[pytest.TestReport]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the outcome of a test for its fixtures."""
    report = yield
    if report.when == "call":
        item.stash[_REPORT] = report
    return report


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server on the lake of the stories; it ends with the session."""
    folder = tmp_path_factory.mktemp("site")
    create_story_lake(folder / "lake", int(time.time()))
    with started(folder, "--lake", str(folder / "lake"), workers=1) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium of the operating system, without a window."""
    if not Path(CHROMIUM).exists():
        pytest.fail(f"no {CHROMIUM}; `make web-test-tools` installs it")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield running
        running.close()


@dataclass
class Visit:
    """A person at the page: the page, and the errors that its console showed."""

    page: "Page"
    site: Site
    errors: list[str] = field(default_factory=list)

    @property
    def origin(self) -> str:
        """Where the page is. Presigned URLs for a session follow its host, since the page may connect to no other."""
        return self.site.origin

    def go(self, address: str) -> "Page":
        """Open an address of the page, such as ``/repositories``, and return the page once its screen is there."""
        self.page.goto(self.origin + address)
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until the screen shows what it waited for."""
        self.page.locator("main").first.wait_for()
        expect(self.page.locator("[aria-busy=true]")).to_have_count(0)

    def sign_in(self) -> None:
        """Get the cookie of a session, as the sign-in's form does."""
        body = {"access_key_id": self.site.key_id, "secret_access_key": self.site.secret, "session": "window"}
        answer = self.page.context.request.post(f"{self.origin}/api/v1/auth/login", data=body)
        assert answer.ok, answer.text()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Ask the API with the key, beside the page; ``path`` is below ``/api/v1``."""
        target = f"/api/v1{path}"
        answer = self.site.ask(method, target) if body is None else self.site.ask_json(method, target, body)
        assert answer.status < 300, answer.body
        return answer.json() if answer.body.startswith((b"{", b"[")) else None


def open_visit(context: "BrowserContext", site: Site) -> Visit:
    """Return a visit in a new window."""
    context.set_default_timeout(PATIENCE_MS)
    visit = Visit(context.new_page(), site)

    def note(message: "ConsoleMessage") -> None:
        # A refused request is an answer, which the page shows; the browser logs each.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            visit.errors.append(message.text)

    visit.page.on("console", note)
    visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
    return visit


@pytest.fixture
def look(request: pytest.FixtureRequest) -> dict[str, Any]:
    """How the window looks; tests choose by parameters."""
    chosen: dict[str, Any] = getattr(request, "param", {})
    return {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light", "timezone_id": "UTC"} | chosen


@pytest.fixture
def stranger(request: pytest.FixtureRequest, browser: "Browser", site: Site, look: dict[str, Any]) -> Iterator[Visit]:
    """A visit of somebody who has not signed in. Its trace is kept if the test fails; an error in the console is a failure."""
    context = browser.new_context(**look)
    context.tracing.start(screenshots=True, snapshots=True)
    visit = open_visit(context, site)
    yield visit
    report = request.node.stash.get(_REPORT, None)
    failed = report is None or report.failed or bool(visit.errors)
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)
    context.tracing.stop(path=TRACES / f"{name}.zip" if failed else None)
    context.close()
    assert not visit.errors, visit.errors


@pytest.fixture
def visit(stranger: Visit) -> Visit:
    """A visit of somebody who has signed in."""
    stranger.sign_in()
    return stranger
