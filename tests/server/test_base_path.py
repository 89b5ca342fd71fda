"""A server below a path of its proxy answers whether the proxy removes the path from requests or leaves it."""

from collections.abc import Iterator

import pytest

from graveler.errors import InvalidError
from graveler.server.configuration import parse_base_path
from graveler.server.requests import request_of
from tests.server.support import Running, running
from tests.support.pages import BROWSER, SCRIPT, SHELL, write_page


def path_of(raw: bytes, base_path: str) -> str:
    scope = {
        "method": "GET",
        "raw_path": raw,
        "query_string": b"",
        "headers": (),
        "client": ("127.0.0.1", "1"),
        "http_version": "1.1",
    }
    return request_of(scope, base_path=base_path).path


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"/lake/api/v1/user", "/api/v1/user"),
        (b"/api/v1/user", "/api/v1/user"),
        (b"/lake/", "/"),
        (b"/lake", "/"),
        (b"/", "/"),
        (b"/lakes", "/lakes"),
        (b"/lake/lake/x", "/lake/x"),
        (b"/lake/commits/v1%2Frc", "/commits/v1%2Frc"),
    ],
)
def test_the_base_path_is_left_out(raw: bytes, path: str) -> None:
    assert path_of(raw, "/lake/") == path
    assert path_of(raw, "/") == raw.decode()


def test_a_base_path_has_a_slash_at_both_ends() -> None:
    for text in ("/lake", "/lake/", "/lake//"):
        assert parse_base_path(text) == "/lake/"
    assert parse_base_path("/data/lake") == "/data/lake/"
    assert [parse_base_path(text) for text in ("", "/")] == ["/", "/"]


@pytest.mark.parametrize(
    "text", ["lake", "//lake", "/la ke", '/"><script>', "/../lake", "/.", "/%2e", "/l\u00e4ke", "/a\n"]
)
def test_what_is_no_plain_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="not a plain path"):
        parse_base_path(text)


@pytest.mark.parametrize("text", ["/api", "/repositories/sales", "/assets/", "/docs"])
def test_a_path_of_the_servers_own_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="choose another"):
        parse_base_path(text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("base-path")
    package = write_page(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        with running(folder, "--base-path", "/lake", workers=1) as running_server:
            # Another version is installed; the server goes on with the page of its start.
            (package / "assets" / "main-1f.js").unlink()
            (package / "index.html").write_text("<html></html>")
            yield running_server


@pytest.mark.parametrize("below", ["", "/lake"])
def test_page_api_and_description_are_reached_both_ways(server: Running, below: str) -> None:
    page = server.ask("GET", f"{below}/repositories/sales", headers=BROWSER, authorised=False)
    assert (page.status, page.body.decode()) == (200, SHELL.replace('href="/"', 'href="/lake/"'))
    assert server.ask("GET", f"{below}/assets/main-1f.js", authorised=False).body.decode() == SCRIPT
    assert server.ask("GET", f"{below}/api/v1/user").status == 200
    assert server.ask("GET", f"{below}/openapi.json").json()["servers"] == [{"url": "/lake/api/v1"}]
    described = server.ask("GET", f"{below}/docs", authorised=False).body.decode()
    assert 'src="/lake/docs/start.js"' in described
    assert 'url: "/lake/openapi.json"' in server.ask("GET", f"{below}/docs/start.js", authorised=False).body.decode()


def test_where_an_operation_is_has_the_path(server: Running) -> None:
    created = {"name": "sales", "storage_namespace": "local://sales"}
    assert server.ask_json("POST", "/lake/api/v1/repositories", created).status == 201
    begun = server.ask(
        "POST",
        "/lake/api/v1/repositories/sales/branches/main/commits",
        b'{"message": "Nothing", "allow_empty": true}',
        {"content-type": "application/json", "prefer": "respond-async"},
    )
    assert begun.status == 202
    assert begun.headers["location"].startswith("/lake/api/v1/repositories/sales/operations/")
    assert server.ask("GET", begun.headers["location"]).status == 200
