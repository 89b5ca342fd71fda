"""The web page's files: the shell under each of its addresses and nowhere else, assets, policies, and what browsers keep."""

import gzip
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from graveler.api.negotiation import accepts, names_tag
from graveler.api.page_addresses import is_page_address
from graveler.api.page_files import PageFiles, page_folder
from graveler.api.response import Response
from graveler.api.settings import Settings
from graveler.errors import CorruptError
from graveler.functions.entry import MAX_ANSWER, raw_path
from tests.api.support import Answer, EventClient, World, make_world
from tests.support.gateways import through_gateway
from tests.support.pages import BROWSER, SCRIPT, SHELL, searched_first, write_page

ADDRESSES: Final = (
    "/",
    "/repositories",
    "/repositories/sales",
    "/repositories/sales/objects",
    "/repositories/sales/object",
    "/repositories/sales/commits",
    "/repositories/sales/commits/4e1c77a0",
    "/repositories/sales/commits/v1%2Frc",
    "/repositories/sales/commits/main%7E2",
    "/repositories/sales/branches",
    "/repositories/sales/branches/main/revert",
    "/repositories/sales/tags",
    "/repositories/sales/compare",
    "/repositories/sales/pulls",
    "/repositories/sales/pulls/create",
    "/repositories/sales/pulls/17",
    "/repositories/sales/pulls/17/conflicts",
    "/repositories/sales/pulls/17/files",
    "/repositories/sales/actions",
    "/repositories/sales/actions/20261103",
    "/repositories/sales/settings/general",
    "/repositories/sales/settings/branches",
    "/repositories/sales/settings/retention",
    "/repositories/sales/reflog",
    "/repositories/sales/query",
    "/repositories/sales/operations",
    "/repositories/sales/uncommitted",
    "/auth/login",
    "/auth/credentials",
    "/auth/users",
    "/auth/users/ana",
    "/auth/users/ana/credentials",
    "/auth/groups",
    "/auth/groups/Admins/policies",
    "/auth/policies",
    "/setup",
)
"""Every address of the page, as the browser sends it."""

ELSEWHERE: Final = (
    "/repositories/",
    "/repositories//objects",
    "/repositories/sales/",
    "/repositories/sales/objects/",
    "/repositories/sales/objects/stat",
    "/repositories/sales/refs/main/objects/ls",
    "/repositories/sales/branches/main",
    "/repositories/sales/branches/revert",
    "/repositories/sales/settings",
    "/repositories/sales/settings/keys",
    "/repositories/sales/pulls/17/other",
    "/auth",
    "/auth/logout",
    "/auth/login/next",
    "/setup/first",
    "/index.html",
    "/assets",
    "/assets/",
    "/objects/sales",
    "/api",
    "/apis",
    "//repositories",
    "/Repositories",
    "/repositories/sales/%6Fbjects",
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A page's package, which is found before the project's own."""
    package = write_page(tmp_path)
    (package / "assets" / "secret.key").write_text("no kind of file that a page has")
    with searched_first(tmp_path):
        yield package


@pytest.fixture
def world(folder: Path) -> World:
    return make_world()


@pytest.fixture
def call(world: World) -> EventClient:
    return EventClient(world)


def read(call: EventClient, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
    """What a browser gets that has no key."""
    return call(method, f"!{path}", headers={**BROWSER, **(headers or {})}, authorization=None)


@pytest.mark.parametrize("path", ADDRESSES)
def test_each_address_is_answered_with_the_shell(call: EventClient, path: str) -> None:
    answer = read(call, path)
    assert (answer.status, answer.text) == (200, SHELL)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    head = read(call, path, method="HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(SHELL)))


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_gateway_that_decodes_paths_changes_no_address(folder: Path, path: str) -> None:
    assert is_page_address(through_gateway(path), joins=True)


@pytest.mark.parametrize("path", ELSEWHERE)
def test_nothing_else_is_an_address_of_the_page(call: EventClient, path: str) -> None:
    answer = read(call, path)
    assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert not is_page_address(path, joins=True)


def test_only_decoded_paths_have_names_of_several_segments() -> None:
    for path in ("/repositories/sales/commits/v1/rc", "/repositories/sales/branches/a/b/revert"):
        assert is_page_address(path, joins=True)
        assert not is_page_address(path)


@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "text/html;q=0", "text/htmlx"])
def test_programs_that_miss_the_base_path_get_no_page(call: EventClient, accept: str) -> None:
    answer = read(call, "/repositories/sales", {"accept": accept})
    assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert read(call, "/", {"accept": accept}).text == SHELL


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_the_page_is_only_read(call: EventClient, method: str) -> None:
    assert read(call, "/", method=method).status == 404
    assert read(call, "/assets/main-1f.js", method=method).status == 404


def test_paths_of_the_api_stay_the_apis(call: EventClient) -> None:
    for path in ("/api/v1", "/api/v1/", "/api/v1/repositories/sales/objects"):
        assert read(call, path).headers["content-type"] == "application/json"
    assert read(call, "/openapi.json").json()["openapi"].startswith("3.")
    assert "openapi.json" in read(call, "/docs").text


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "worker-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)


def test_the_shell_has_its_policies_and_is_asked_for_each_time(call: EventClient) -> None:
    headers = read(call, "/repositories").headers
    assert headers["content-security-policy"] == POLICY
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert (headers["cache-control"], headers["vary"]) == ("no-cache", "Accept, Accept-Encoding")


def test_the_shell_may_load_bytes_from_its_own_buckets(folder: Path) -> None:
    stores = ("https://lake.s3.eu-central-1.amazonaws.com", "http://127.0.0.1:9000/lake/")
    policy = PageFiles(folder).shell(stores).respond("GET", {}).headers["content-security-policy"]
    sources = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    assert sources["connect-src"] == f"'self' {stores[0]} {stores[1]}"
    assert sources["img-src"] == f"'self' data: blob: {stores[0]} {stores[1]}"
    assert sources["script-src"] == "'self'"


def test_assets_are_immutable_and_have_a_policy_for_workers(call: EventClient) -> None:
    script = read(call, "/assets/main-1f.js")
    assert (script.status, script.text) == (200, SCRIPT)
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["x-content-type-options"] == "nosniff"
    assert "script-src 'self'" in script.headers["content-security-policy"]
    assert read(call, "/assets/icons-2a.svg").headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize(
    "name",
    [
        "../index.html",
        "%2e%2e/index.html",
        "..%2findex.html",
        "./main-1f.js",
        "main-1f%2ejs",
        "/main-1f.js",
        "main-1f.js/",
        "main-1f.js%00",
        "MAIN-1F.JS",
        "__init__.py",
        "../__init__.py",
        "secret.key",
        "",
    ],
)
def test_no_other_file_is_an_asset(call: EventClient, name: str) -> None:
    assert read(call, f"/assets/{name}").status == 404


@pytest.mark.parametrize("path", ["/", "/assets/main-1f.js", "/openapi.json"])
def test_an_unchanged_file_is_not_sent_again(call: EventClient, path: str) -> None:
    first = read(call, path)
    tag = first.headers["etag"]
    for condition in (tag, tag.removeprefix("W/"), f'"other", {tag}'):
        again = read(call, path, {"if-none-match": condition})
        assert (again.status, again.body) == (304, b"")
        for name in ("etag", "cache-control", "vary"):
            assert again.headers[name] == first.headers[name]
    for condition in ('"other"', "*", tag[:-2] + '"'):
        assert read(call, path, {"if-none-match": condition}).body == first.body


@pytest.mark.parametrize("path", ["/assets/main-1f.js", "/openapi.json"])
def test_a_file_is_compressed_for_those_who_accept_it(call: EventClient, path: str) -> None:
    plain = read(call, path)
    assert "content-encoding" not in plain.headers
    smaller = read(call, path, {"accept-encoding": "br, gzip;q=0.8"})
    assert smaller.headers["content-encoding"] == "gzip"
    assert smaller.headers["etag"] == plain.headers["etag"]
    assert len(smaller.body) < len(plain.body)
    assert gzip.decompress(smaller.body) == plain.body
    head = read(call, path, {"accept-encoding": "gzip"}, "HEAD")
    assert head.headers["content-length"] == str(len(smaller.body))
    assert read(call, path, {"accept-encoding": "gzip;q=0, identity"}).body == plain.body


def test_a_file_that_gzip_does_not_shorten_is_sent_as_it_is(call: EventClient) -> None:
    assert "content-encoding" not in read(call, "/assets/icons-2a.svg", {"accept-encoding": "gzip"}).headers


def test_a_function_sends_files_as_base64(world: World, call: EventClient) -> None:
    event = call.event("GET", "/assets/main-1f.js", "", None, {"accept-encoding": "gzip"})
    response = world.application(event)
    assert response["isBase64Encoded"]
    assert gzip.decompress(b64decode(response["body"])).decode() == SCRIPT
    assert response["graveler.operation"] == "page"


def test_below_a_base_path_the_shell_says_so(folder: Path) -> None:
    files = PageFiles(folder, "/lake/")
    response = files.shell().respond("GET", {})
    assert isinstance(response.body, bytes)
    assert response.body.decode() == SHELL.replace('<base href="/">', '<base href="/lake/">')
    assert PageFiles(folder).shell().respond("GET", {}).headers["etag"] != response.headers["etag"]
    call = EventClient(make_world(Settings(base_path="/lake/")))
    assert read(call, "/openapi.json").json()["servers"] == [{"url": "/lake/api/v1"}]
    assert 'href="/lake/openapi.json"' in read(call, "/docs").text


def test_a_shell_that_cannot_be_moved_is_refused(folder: Path) -> None:
    (folder / "index.html").write_text("<!doctype html><html></html>")
    with pytest.raises(CorruptError, match="make web"):
        PageFiles(folder)


def test_a_running_server_keeps_the_page_that_it_has_read(world: World, call: EventClient, folder: Path) -> None:
    world.application.pages.load()
    for path in (folder / "assets").iterdir():
        path.unlink()
    (folder / "assets" / "main-2e.js").write_text("export const answer = 43;")
    (folder / "index.html").write_text(SHELL.replace("main-1f", "main-2e"))
    assert read(call, "/").text == SHELL
    assert read(call, "/assets/main-1f.js").text == SCRIPT
    assert read(call, "/assets/main-2e.js").status == 404
    after = EventClient(make_world())
    assert "main-2e.js" in read(after, "/").text
    assert read(after, "/assets/main-2e.js").status == 200


@pytest.fixture
def without_page(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "graveler_page").mkdir()
    (tmp_path / "graveler_page" / "__init__.py").touch()
    with searched_first(tmp_path):
        yield


@pytest.mark.usefixtures("without_page")
def test_without_the_files_the_server_says_so() -> None:
    assert page_folder() is None
    call = EventClient(make_world())
    home = read(call, "/")
    assert (home.status, home.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "This server has no web page" in home.text
    assert read(call, "/repositories").status == 404
    assert read(call, "/assets/main-1f.js").status == 404


def test_the_built_page_has_known_kinds_of_files_that_a_function_can_send() -> None:
    folder = page_folder()
    assert folder is not None
    files = PageFiles(folder)
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {"__init__.py", "index.html", "assets"}
    for path in (folder / "assets").iterdir():
        asset = files.assets.get(path.name)
        assert asset is not None, path
        assert f"/{path.name}" == raw_path(f"/{path.name}")
        response: Response = asset.respond("GET", {})
        assert len(response.event()["body"]) < MAX_ANSWER // 2


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("gzip", True),
        ("deflate, GZIP", True),
        ("gzip;q=1.0", True),
        ("gzip; q=0.001", True),
        ("br;q=1,gzip ; q = 0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("x-gzip", False),
        ("*", False),
        ("identity", False),
        ("", False),
    ],
)
def test_weights_of_encodings(header: str, expected: bool) -> None:
    assert accepts(header, "gzip") is expected


def test_tags_are_compared_weakly() -> None:
    assert names_tag('"a", W/"b"', 'W/"a"')
    assert names_tag('"a", W/"b"', '"b"')
    assert not names_tag('"a"', '"ab"')
    assert not names_tag("", '"a"')
    assert not names_tag("*", '"a"')
