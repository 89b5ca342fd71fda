"""The page of the API for people: every file that it names is served, and its policy lets the page run those files alone."""

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest

from graveler.server import api_page
from graveler.server.requests import Request
from tests.server.support import Running, running


class Loaded(HTMLParser):
    """The scripts and styles of a page, with the hashes that they must have."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.styles: list[str] = []
        self.inline = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.inline += "style" in given or any(name.startswith("on") for name in given)
        if tag == "script" and "src" in given:
            self.scripts[given["src"]] = given["integrity"]
        elif tag == "link":
            self.styles.append(given["href"])
        else:
            self.inline += tag in ("script", "style")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("page")) as running_server:
        yield running_server


@pytest.mark.parametrize("path", ["/docs", "/docs/"])
def test_the_page_loads_what_the_server_serves_and_its_policy_names(server: Running, path: str) -> None:
    page = server.ask("GET", path, authorised=False)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    loaded = Loaded()
    loaded.feed(page.body.decode())
    assert (len(loaded.scripts), len(loaded.styles), loaded.inline) == (2, 1, 0)
    policy = dict(
        part.strip().partition(" ")[::2] for part in page.headers["content-security-policy"].split(";") if part.strip()
    )
    assert policy["default-src"] == "'none'"
    assert (policy["style-src"], policy["connect-src"]) == ("'self'", "'self'")
    assert policy["script-src"].split() == [f"'{integrity}'" for integrity in loaded.scripts.values()]
    for source, integrity in loaded.scripts.items():
        script = server.ask("GET", source, authorised=False)
        assert (script.status, script.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
        assert integrity == f"sha256-{b64encode(sha256(script.body).digest()).decode()}"
    style = server.ask("GET", loaded.styles[0], authorised=False)
    assert (style.status, style.headers["content-type"]) == (200, "text/css; charset=utf-8")


def test_nothing_is_loaded_from_elsewhere(server: Running) -> None:
    page = server.ask("GET", "/docs", authorised=False).body.decode()
    assert "//" not in page
    style = server.ask("GET", "/docs/swagger-ui.css", authorised=False).body.decode()
    assert "@import" not in style
    assert set(re.findall(r"url\([\"']?([a-z]+:|[^)]{,20})", style)) <= {"data:"}
    start = server.ask("GET", "/docs/start.js", authorised=False).body.decode()
    named = re.search(r'url: "([^"]*)"', start)
    assert named is not None
    assert urljoin("http://server/docs", named[1]) == "http://server/openapi.json"
    assert "validatorUrl: null" in start  # otherwise it sends the document's address to a site of Swagger's
    assert server.ask("GET", named[1], authorised=False).json()["openapi"].startswith("3.")


@pytest.mark.parametrize("path", ["/docs", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/docs/start.js"])
def test_browsers_ask_whether_a_file_is_still_the_same(server: Running, path: str) -> None:
    first = server.ask("GET", path, authorised=False)
    assert first.headers["cache-control"] == "no-cache"
    again = server.ask("GET", path, headers={"if-none-match": first.headers["etag"]}, authorised=False)
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert server.ask("GET", path, headers={"if-none-match": '"other"'}, authorised=False).status == 200


@pytest.mark.parametrize("path", ["/docs/other.js", "/docs/../swagger-ui.css", "/docs/%2e%2e/VERSION", "/docs/VERSION"])
def test_no_other_file_of_the_package_is_served(server: Running, path: str) -> None:
    assert server.ask("GET", path, authorised=False).status == 404


def test_without_the_package_the_application_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_page, "find_spec", lambda _: None)
    assert api_page.api_page(Request("GET", "/docs", "", {}), base="/of-no-other-test/") is None
