"""A stranger on the network, without a key or with a presigned URL, against the processes of a server."""

import http.client
import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from graveler.api.object_documents import OBJECT_POLICY
from graveler.api.resources import GROUPS
from tests.server.support import KEY_ID, SECRET, Answered, Running, basic, running, started
from tests.support.patience import PATIENCE

SPACES = " " * 12_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(
        tmp_path_factory.mktemp("network"), "--client-address-header", "X-Forwarded-For", workers=1
    ) as started:
        made = started.ask_json("POST", "/api/v1/repositories", {"name": "sales", "storage_namespace": "local://sales"})
        assert made.status == 201, made
        yield started


def backing(server: Running, path: str) -> tuple[str, str]:
    """A URL to write an object with, and its address."""
    place = f"/api/v1/repositories/sales/branches/main/staging/backing?path={path}&presign=true"
    said = server.ask("GET", place).json()
    return said["presigned_url"], said["physical_address"]


def linked(server: Running, path: str, data: bytes) -> str:
    """Upload an object as clients do, and return a URL to read it."""
    url, address = backing(server, path)
    put = server.ask("PUT", url, data, authorised=False)
    link = {
        "staging": {"physical_address": address},
        "checksum": put.headers["etag"].strip('"'),
        "size_bytes": len(data),
    }
    done = server.ask_json("PUT", f"/api/v1/repositories/sales/branches/main/staging/backing?path={path}", link)
    assert done.status == 200, done
    sent = server.ask("GET", f"/api/v1/repositories/sales/refs/main/objects?path={path}&presign=true")
    return sent.headers["location"]


def wrong(key_id: str) -> str:
    """The header of somebody who does not know the secret."""
    return "Basic " + b64encode(f"{key_id}:wrong".encode()).decode()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"{SPACES}bytes=0-1{SPACES}", 206),
        (f"bytes{SPACES}=1", 200),
        (f"bytes={SPACES}1", 200),
        (f"bytes=-{SPACES}x", 200),
        (f"bytes={'9' * 30_000}-", 416),
    ],
)
def test_a_range_of_any_length_is_read_at_once(server: Running, header: str, status: int) -> None:
    """Of each of these, the pattern of before took a second for 12 KB, and four times as long for twice as many."""
    readable = linked(server, "spaces", b"bytes")
    for _ in range(20):
        assert server.ask("GET", readable, headers={"range": header}, authorised=False).status == status


def test_headers_are_bounded(server: Running) -> None:
    for headers in ({"x": "a" * 33_000}, {f"x-{number}": "a" * 1_000 for number in range(33)}):
        refused = server.ask("GET", "/api/v1/repositories", headers=headers)
        assert refused.status == 431
        assert "32,768" in refused.json()["message"]
    assert server.ask("GET", "/api/v1/repositories", headers={"x": "a" * 30_000}).status == 200


@pytest.mark.parametrize(
    ("method", "target", "limit"),
    [
        ("POST", "/api/v1/auth/login", 16 << 10),
        ("POST", "/api/v1/setup_lakefs", 16 << 10),
        ("POST", "/nowhere", 16 << 10),
        ("GET", "/api/v1/repositories", 16 << 10),
        ("DELETE", "/api/v1/repositories/sales", 16 << 10),
        ("POST", "/api/v1/repositories", 16 << 20),
        ("POST", "/api/v1/repositories/sales/branches/main/commits", 16 << 20),
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "application/octet-stream", "multipart/form-data; boundary=x"])
def test_a_body_is_refused_before_it_is_read(server: Running, method: str, target: str, limit: int, kind: str) -> None:
    """Whatever it says that it is: 600 MB to ``/auth/login`` were taken, of somebody without a key, and kept on the disk."""
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {limit + 1}\r\n\r\n"
    with server.connect() as connection, connection.makefile("rb") as answer:
        connection.sendall(head.encode())
        said = answer.read()  # to the end: the connection is closed
    assert said.startswith(b"HTTP/1.1 413 "), said
    assert f"{limit:,}".encode() in said


def test_who_is_refused_reads_why_and_goes_on(server: Running) -> None:
    """Also where the body is thrown away as it comes."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    with closing(connection):
        for size in (100, 100_000, 1 << 18):
            connection.request("POST", "/api/v1/repositories", b" " * size)
            answer = connection.getresponse()
            assert (answer.status, "authenticating" in answer.read().decode()) == (401, True)


def test_a_body_of_unknown_length_ends_where_it_is_too_long(server: Running) -> None:
    with server.connect() as connection, connection.makefile("rb") as answer:
        connection.sendall(b"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"4001\r\n" + bytes(0x4001) + b"\r\n")
        assert answer.read().startswith(b"HTTP/1.1 413 ")


def test_the_holder_of_a_key_is_not_locked_out(server: Running) -> None:
    from base64 import b64encode

    wrong = "Basic " + b64encode(f"{KEY_ID}:wrong".encode()).decode()
    said = [
        server.ask("GET", "/api/v1/repositories", headers={"authorization": wrong}, authorised=False).status
        for _ in range(20)
    ]
    assert said == [401] * 10 + [429] * 10
    assert server.ask("GET", "/api/v1/repositories").status == 200


def test_failures_are_counted_by_the_address_that_the_proxy_tells(server: Running) -> None:
    def tried(address: str) -> int:
        headers = {"authorization": wrong("AKIANOBODYATALL"), "x-forwarded-for": f"203.0.113.99, {address}"}
        return server.ask("GET", "/api/v1/repositories", headers=headers, authorised=False).status

    assert [tried("192.0.2.1") for _ in range(12)] == [401] * 10 + [429] * 2
    assert tried("192.0.2.2") == 401


@pytest.fixture
def session(server: Running) -> str:
    """The header ``Cookie`` of a login."""
    made = server.ask_json("POST", "/api/v1/auth/login", {"access_key_id": KEY_ID, "secret_access_key": SECRET})
    return made.headers["set-cookie"].partition(";")[0]


def test_a_session_changes_something_from_our_own_pages_only(server: Running, session: str) -> None:
    def asked(method: str, target: str, body: bytes | None = None, /, **headers: str) -> int:
        sent = {"cookie": session, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return server.ask(method, f"/api/v1/repositories{target}", body, sent, authorised=False).status

    ours = f"http://127.0.0.1:{server.port}"
    branch = b'{"name": "dev", "source": "main"}'
    branches = "/sales/branches"
    typed, text = "application/json", "text/plain"
    assert asked("GET", "") == 200
    for origin in (
        {},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": f"{ours}.evil.example"},
        {"origin": ""},
        {"origin": f"http://127.0.0.1:{server.port + 1}"},
        {"origin": "http://127.0.0.1"},
        {"origin": f"http://localhost:{server.port}"},
    ):
        assert asked("POST", branches, branch, content_type=typed, **origin) == 401
        assert asked("DELETE", "/sales", **origin) == 401
    assert asked("POST", branches, branch, content_type=text, origin=ours) == 401
    assert asked("POST", branches, branch, origin=ours) == 401
    assert (
        asked(
            "POST", branches, branch, content_type=typed, origin="https://lake.example", x_forwarded_host="lake.example"
        )
        == 201
    )
    assert asked("DELETE", f"{branches}/dev", origin=ours) == 204


def test_a_session_gets_urls_of_its_own_origin_and_no_other(server: Running, session: str) -> None:
    """127.0.0.1 and localhost are two origins: a page may read only the one that it is from."""
    linked(server, "origin", b"bytes")
    stat = "/api/v1/repositories/sales/refs/main/objects/stat?path=origin&presign=true"
    usual = f"http://localhost:{server.port}"

    def origin(host: str, **headers: str) -> str:
        sent = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = server.ask("GET", stat, headers=sent, authorised=False)
        assert answer.status == 200, answer
        return str(answer.json()["physical_address"]).partition("/objects/")[0]

    for name in ("127.0.0.1", "localhost", "[::1]", "LOCALHOST"):
        host = f"{name}:{server.port}"
        assert origin(host, cookie=session) == f"http://{host.lower()}"
        assert origin(host, authorization=basic()) == usual, "clients with a key have the configured one"
    for host in (
        "evil.example",
        f"evil.example:{server.port}",
        f"127.0.0.1:{server.port + 1}",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{server.port}",
        f"user@127.0.0.1:{server.port}",
        f"evil.example/127.0.0.1:{server.port}",
    ):
        assert origin(host, cookie=session) == usual
    proxied = f"127.0.0.1:{server.port}"
    assert origin(proxied, cookie=session, x_forwarded_host="lake.example") == usual


def test_a_session_uploads_by_urls_of_its_own_origin(server: Running, session: str) -> None:
    ours = f"http://127.0.0.1:{server.port}"
    headers = {"cookie": session, "origin": ours, "content-type": "application/json"}
    branch = "/api/v1/repositories/sales/branches/main"
    place = server.ask("GET", f"{branch}/staging/backing?path=x&presign=true", None, headers, authorised=False).json()
    assert place["presigned_url"].startswith(f"{ours}/objects/")
    put = server.ask("PUT", place["presigned_url"], b"bytes", {"origin": ours}, authorised=False)
    assert put.status == 200
    begun = server.ask("POST", f"{branch}/staging/pmpu?path=y&parts=1", None, headers, authorised=False)
    assert begun.status == 201, begun
    upload = begun.json()
    again = json.dumps({"physical_address": upload["physical_address"]}).encode()
    part = f"{branch}/staging/pmpu/{upload['upload_id']}/parts/1?path=y"
    part_url = server.ask("PUT", part, again, headers, authorised=False).json()["presigned_url"]
    for url in (*upload["presigned_urls"], part_url):
        assert url.startswith(f"{ours}/objects/")
        assert server.ask("PUT", url, b"bytes", authorised=False).status == 200
    read = "/api/v1/repositories/sales/refs/main/objects?path=spaces&presign=true"
    linked(server, "spaces", b"bytes")
    redirect = server.ask("GET", read, headers={"cookie": session}, authorised=False)
    assert redirect.headers["location"].startswith(f"{ours}/objects/")


def test_another_page_logs_nobody_in(server: Running) -> None:
    """Who is logged in under a name that is not theirs works, and writes, for somebody else."""
    login = json.dumps({"access_key_id": KEY_ID, "secret_access_key": SECRET}).encode()

    def answered(**headers: str) -> Answered:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return server.ask("POST", "/api/v1/auth/login", login, sent, authorised=False)

    ours = f"http://127.0.0.1:{server.port}"
    for headers in (
        {"origin": "http://evil.example", "content_type": "application/json"},
        {"origin": "null", "content_type": "text/plain"},
        {"origin": ours, "content_type": "text/plain"},
        {"origin": f"http://127.0.0.1:{server.port + 1}", "content_type": "application/json"},
    ):
        refused = answered(**headers)
        assert (refused.status, "set-cookie" in refused.headers) == (401, False)
    assert answered(origin=ours, content_type="application/json").status == 200
    assert answered().status == 200


def test_logging_out_ends_the_session_for_all_workers(tmp_path: Path, server: Running, session: str) -> None:
    with started(tmp_path, "--lake", str(server.lake), workers=1) as other:
        ended = server.ask_json("POST", "/api/v1/auth/login", {"access_key_id": KEY_ID, "secret_access_key": SECRET})
        cookie = ended.headers["set-cookie"].partition(";")[0]
        token = "Bearer " + ended.json()["token"]
        ours = f"http://127.0.0.1:{server.port}"
        out = server.ask("POST", "/api/v1/auth/logout", headers={"cookie": cookie, "origin": ours}, authorised=False)
        assert (out.status, "Max-Age=0" in out.headers["set-cookie"]) == (204, True)
        for each in (server, other):
            for headers in ({"cookie": cookie}, {"authorization": token}):
                assert each.ask("GET", "/api/v1/user", headers=headers, authorised=False).status == 401
            assert each.ask("GET", "/api/v1/user", headers={"cookie": session}, authorised=False).status == 200


def test_a_cookie_goes_over_tls_where_the_client_speaks_it(server: Running) -> None:
    login = json.dumps({"access_key_id": KEY_ID, "secret_access_key": SECRET}).encode()
    for proto, secure in (("https", True), ("http", False)):
        headers = {"content-type": "application/json", "x-forwarded-proto": proto}
        answer = server.ask("POST", "/api/v1/auth/login", login, headers, authorised=False)
        assert ("Secure" in answer.headers["set-cookie"]) is secure


def test_no_browser_takes_an_object_for_a_page(server: Running) -> None:
    page = b"<script>alert(1)</script>"
    read = server.ask("GET", linked(server, "page.html", page), authorised=False)
    assert read.body == page
    url, _ = backing(server, "other.html")
    for answer in (
        read,
        server.ask("PUT", url, page, authorised=False),
        server.ask("GET", "/objects/nothing", authorised=False),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == OBJECT_POLICY


def test_an_upload_url_that_got_into_other_hands_replaces_nothing(server: Running) -> None:
    url, _ = backing(server, "kept")
    assert server.ask("PUT", url, b"mine", authorised=False).status == 200
    assert server.ask("PUT", url, b"mine", authorised=False).status == 200
    assert server.ask("PUT", url, b"theirs", authorised=False).status == 412


# 11. One client's scans


def test_requests_that_read_whole_refs_and_histories_are_scans() -> None:
    """Those at the top of ``python -m bench.costly``, and what is like them."""
    assert {route.operation for group in GROUPS for route in group.routes if route.scans} == {
        "annotateObjects",
        "blameObject",
        "checkRepository",
        "diffBranchSummary",
        "diffRefsSummary",
        "getUsage",
        "logCommits",
        "previewGCRules",
        "previewMerge",
        "runChecks",
    }
