"""``graveler ui``: processes that show a lake to the user who started them, and to nobody else."""

import http.client
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from graveler.access.authentication import Access
from graveler.access.local_session import CODE_SECONDS, LocalSession
from graveler.access.permissions import Role
from graveler.access.refusals import IdentityRefusedError
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from tests.api.support import basic
from tests.cli.support import run
from tests.server.support import Answered
from tests.support.patience import PATIENCE
from tests.support.shell import Shell

JSON = "application/json"
READ = "/api/v1/repositories/sales/refs/main/objects"


@dataclass
class Shown:
    """A lake that is shown, and the cookie of a browser, once it has signed in."""

    process: "subprocess.Popen[str]"
    url: str
    cookie: str = ""

    @property
    def origin(self) -> str:
        """The origin of its pages."""
        return self.url.partition("/auth/")[0]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.origin.rpartition(":")[2])

    @property
    def code(self) -> str:
        """The code in its address."""
        return self.url.partition("#code=")[2]

    def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """One request, with the cookie."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            sent = ({"cookie": self.cookie} if self.cookie else {}) | dict(headers or {})
            connection.request(method, target.removeprefix(self.origin), body, sent)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answered(answer.status, answer.reason, named, answer.read())
        finally:
            connection.close()

    def exchange(self, code: str, **headers: str) -> Answered:
        """One exchange of a code, from a page of its own unless the headers say otherwise."""
        sent = {"content-type": JSON, "origin": self.origin} | headers
        return self.ask("POST", "/api/v1/auth/ui", json.dumps({"code": code}).encode(), sent)

    def sign_in(self) -> "Shown":
        """Exchange the code of the address, and keep the cookie."""
        answer = self.exchange(self.code)
        assert answer.status == 204, answer
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self


def environment(**variables: str) -> dict[str, str]:
    """The environment of a session without a screen."""
    left_out = ("GRAVELER_", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)} | variables


@contextmanager
def shown(lake: Path, *words: str, **variables: str) -> Iterator[Shown]:
    """A lake that is shown until the end of the block."""
    command = [sys.executable, "-m", "graveler.cli", "ui", "--json", *(words or (str(lake),))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(**variables))
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, "it did not start"
        yield Shown(process, json.loads(line)["url"])
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with objects of its own, and one that was imported in place."""
    folder = tmp_path_factory.mktemp("ui")
    raw = folder / "raw"
    raw.mkdir()
    (raw / "linked.csv").write_bytes(b"id\n1\n")
    with create_folder_lake(folder / "lake") as lake:
        repository = lake.create_repository("sales", "local://sales")
        repository.upload("main", "events/own.csv", b"id\n2\n")
        repository.commit("main", "Add events")
    imported = run("import", raw, "lakefs://sales/main/raw/", "--lake", folder / "lake")
    assert imported.code == 0, imported
    return folder / "lake"


@pytest.fixture(scope="module")
def page(lake: Path) -> Iterator[Shown]:
    """A page whose user has signed in."""
    with shown(lake) as server:
        yield server.sign_in()


def test_the_address_signs_in_once(lake: Path) -> None:
    with shown(lake) as server:
        parts = urlsplit(server.url)
        assert (parts.hostname, parts.path, parts.query) == ("127.0.0.1", "/auth/login", "")
        assert len(server.code) == 43, "32 bytes in base64"
        assert server.ask("GET", "/api/v1/user").status == 401
        for wrong in ("", "x", server.code[:-1], "é" * 43):
            refused = server.exchange(wrong)
            assert (refused.status, refused.json()["code"]) == (401, "identity_refused")
            assert "run `graveler ui` again" in refused.json()["detail"]
        answer = server.exchange(server.code)
        assert (answer.status, answer.headers["cache-control"]) == (204, "no-store")
        name_and_token, *attributes = answer.headers["set-cookie"].split("; ")
        assert name_and_token.startswith(f"graveler_ui_{server.port}=")
        assert sorted(attributes) == ["HttpOnly", "Path=/", "SameSite=Strict"]
        again = server.exchange(server.code)
        assert (again.status, "set-cookie" in again.headers) == (401, False)
        assert "was used before" in again.json()["detail"]
        assert again.json()["message"] == "error authenticating request"
        server.cookie = name_and_token
        assert server.ask("GET", "/api/v1/user").status == 200


def test_a_code_ends_after_a_minute() -> None:
    now = [1000.0]
    session = LocalSession("ana", 8000, lambda: now[0])
    now[0] += 500
    code = session.show_code()
    now[0] += CODE_SECONDS
    with pytest.raises(IdentityRefusedError, match="older than 60 seconds"):
        session.sign_in(code)
    assert session.show_code() == code
    now[0] += CODE_SECONDS - 1
    token = session.sign_in(code)
    now[0] += 1_000_000
    assert session.admits(f"a=b; {session.cookie}={token}")
    for cookie in (None, "", f"{session.cookie}=", f"graveler_ui_8001={token}", f"{session.cookie}={token}x"):
        assert not session.admits(cookie)
    session.end()
    assert not session.admits(f"{session.cookie}={token}")
    assert not session.admits(f"{session.cookie}=")
    with pytest.raises(IdentityRefusedError, match="used before"):
        session.sign_in(session.show_code())


def test_only_its_own_pages_exchange_a_code(page: Shown, lake: Path) -> None:
    with shown(lake) as server:
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}", page.origin):
            assert server.exchange(server.code, origin=origin).status == 401
        assert server.exchange(server.code, **{"content-type": "text/plain"}).status == 401
        assert server.ask("GET", "/api/v1/auth/ui").status == 405
        for body in (b"", b"[]", b'{"code": 5}', b"\xff"):
            headers = {"content-type": JSON, "origin": server.origin}
            assert server.ask("POST", "/api/v1/auth/ui", body, headers).status == 400
        server.sign_in()


def test_a_session_is_an_admins_and_takes_no_key(page: Shown, lake: Path) -> None:
    assert page.ask("GET", "/api/v1/auth/users").json()["results"] == []
    assert page.ask("GET", f"{READ}?path=events/own.csv").body == b"id\n2\n"
    branch = b'{"name": "dev", "source": "main"}'
    for origin in ({}, {"origin": f"http://127.0.0.1:{page.port + 1}"}, {"origin": "http://evil.example"}):
        headers = {"content-type": JSON, **origin}
        assert page.ask("POST", "/api/v1/repositories/sales/branches", branch, headers).status == 401
    headers = {"content-type": JSON, "origin": page.origin}
    assert page.ask("POST", "/api/v1/repositories/sales/branches", branch, headers).status == 201
    assert page.ask("DELETE", "/api/v1/repositories/sales/branches/dev", None, {"origin": page.origin}).status == 204


def test_nothing_is_written_into_the_lake_and_no_key_is_made(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("sales", "local://sales").upload("main", "a", b"x")
    before = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    with shown(tmp_path / "lake") as server:
        server.sign_in()
        stat = server.ask("GET", f"{READ}/stat?path=a&presign=true").json()
        assert server.ask("GET", stat["physical_address"]).body == b"x"
        for target in ("/user", "/repositories", "/repositories/sales/branches"):
            assert server.ask("GET", f"/api/v1{target}").status == 200
    after = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    assert {path: data for path, data in after.items() if "sqlite" not in path.name and "cache" not in path.parts} == {
        path: data for path, data in before.items() if "sqlite" not in path.name and "cache" not in path.parts
    }
    with open_folder_lake(tmp_path / "lake") as lake:
        assert not Access(lake.tables).has_keys()
    assert not (tmp_path / "lake" / "sealing.key").exists()


@pytest.mark.parametrize(
    ("target", "status"),
    [("/metrics", 200), ("/metrics/", 404), ("/api/v1/setup_lakefs", 200), ("/api/v1/setup%5Flakefs", 404)],
)
def test_what_other_servers_tell_anybody_is_for_its_user(page: Shown, target: str, status: int) -> None:
    refused = page.ask("GET", target, headers={"cookie": f"graveler_ui_{page.port}=other"})
    assert (refused.status, "the address that it shows" in refused.json()["message"]) == (401, True)
    assert page.ask("GET", target).status == status


def test_keys_of_the_lake_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        key = Access(lake.tables, lake.keyring).create_key("ana", Role.ADMIN)
    with shown(tmp_path / "lake") as server:
        assert server.ask("GET", "/api/v1/user", headers={"authorization": basic(key)}).status == 401
        body = {"access_key_id": key.key.key_id, "secret_access_key": key.secret}
        refused = server.ask("POST", "/api/v1/auth/login", json.dumps(body).encode(), {"content-type": JSON})
        assert (refused.status, "takes no access key" in refused.json()["detail"]) == (401, True)
        assert server.ask("GET", "/api/v1/auth/capabilities").json()["access_keys"] is False
        server.sign_in()
        assert server.ask("GET", "/api/v1/user", headers={"authorization": basic(key)}).status == 401


def test_another_name_of_the_host_is_refused_for_everything(page: Shown) -> None:
    presigned = page.ask("GET", f"{READ}/stat?path=events/own.csv&presign=true").json()["physical_address"]
    assert presigned.startswith(f"{page.origin}/objects/")
    assert page.ask("GET", presigned).body == b"id\n2\n"
    names = ("evil.example", f"evil.example:{page.port}", f"localhost:{page.port}", "127.0.0.1", "", "127.0.0.1:1")
    for target in (presigned, "/", "/healthcheck", "/metrics", "/docs", "/api/v1/user", f"{READ}?path=events/own.csv"):
        for name in names:
            refused = page.ask("GET", target, headers={"host": name})
            assert (refused.status, page.origin in refused.json()["message"]) == (421, True)
    assert page.ask("POST", "/api/v1/auth/ui", b"{}", {"host": "evil.example"}).status == 421
    with socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE) as connection:
        connection.sendall(
            f"GET /healthcheck HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1:{page.port}\r\n\r\n".encode()
        )
        assert connection.recv(100).split()[1] in (b"400", b"421")


def test_what_pages_elsewhere_send_is_refused_but_links_lead_here(page: Shown) -> None:
    for site in ("cross-site", "same-site"):  # the latter: another port of this machine
        for mode, dest in (("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
            headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
            assert page.ask("GET", f"{READ}?path=events/own.csv", headers=headers).status == 403
        link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert page.ask("GET", "/", headers=link).status == 200
        assert page.ask("POST", "/", b"", headers=link).status == 403
    for site in ("same-origin", "none"):
        headers = {"sec-fetch-site": site, "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
        assert page.ask("GET", "/api/v1/user", headers=headers).status == 200


def test_two_at_once_know_nothing_of_each_other(page: Shown, lake: Path) -> None:
    with shown(lake) as other:
        assert other.port != page.port
        assert other.exchange(page.code).status == 401
        other.sign_in()
        assert page.cookie.partition("=")[0] != other.cookie.partition("=")[0]
        both = f"{page.cookie}; {other.cookie}"
        for server in (page, other):
            assert server.ask("GET", "/api/v1/user", headers={"cookie": both}).status == 200
        assert page.ask("GET", "/api/v1/user", headers={"cookie": other.cookie}).status == 401
        token = page.cookie.partition("=")[2]
        renamed = {"cookie": f"graveler_ui_{other.port}={token}"}
        assert other.ask("GET", "/api/v1/user", headers=renamed).status == 401
        presigned = page.ask("GET", f"{READ}/stat?path=events/own.csv&presign=true").json()["physical_address"]
        assert other.ask("GET", presigned.removeprefix(page.origin)).status == 403


def test_signing_out_ends_the_session(lake: Path) -> None:
    with shown(lake) as server:
        server.sign_in()
        assert server.ask("POST", "/api/v1/auth/logout").status == 401, "from no page"
        out = server.ask("POST", "/api/v1/auth/logout", headers={"origin": server.origin})
        assert (out.status, out.headers["set-cookie"].startswith(f"graveler_ui_{server.port}=; ")) == (204, True)
        assert server.ask("GET", "/api/v1/user").status == 401
        assert server.exchange(server.code).status == 401


def test_objects_imported_in_place_are_read_and_nothing_new_is_linked(page: Shown, lake: Path) -> None:
    assert page.ask("GET", f"{READ}?path=raw/linked.csv").body == b"id\n1\n"
    presigned = page.ask("GET", f"{READ}/stat?path=raw/linked.csv&presign=true").json()["physical_address"]
    assert page.ask("GET", presigned, headers={"range": "bytes=0-1"}).body == b"id"
    assert page.ask("PUT", presigned, b"other").status == 403
    headers = {"content-type": JSON, "origin": page.origin}
    outside = f"file://{lake.parent}/raw/linked.csv"
    link = {"staging": {"physical_address": outside}, "checksum": "x", "size_bytes": 5}
    target = "/api/v1/repositories/sales/branches/main/staging/backing?path=stolen"
    refused = page.ask("PUT", target, json.dumps(link).encode(), headers)
    assert (refused.status, refused.json()["code"]) == (403, "source_not_allowed")
    paths = [{"path": f"file://{lake.parent}/raw/", "type": "common_prefix", "destination": ""}]
    body = json.dumps({"paths": paths, "commit": {"message": "m"}}).encode()
    assert page.ask("POST", "/api/v1/repositories/sales/branches/main/import", body, headers).status == 403


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_all_ends_with_the_command(lake: Path, number: signal.Signals) -> None:
    with shown(lake) as server:
        server.sign_in()
        idle = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        idle.sendall(f"GET /healthcheck HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        assert idle.recv(100).startswith(b"HTTP/1.1 204")
        server.process.send_signal(number)
        code = server.process.wait(PATIENCE)
        idle.close()
        assert code == (-number if number is signal.SIGKILL else 0)
        assert not is_listening(server.port)


def test_all_ends_with_the_terminal(lake: Path) -> None:
    process, terminal = pty.fork()
    if process == 0:  # pragma: no cover - another process
        words = [sys.executable, "-m", "graveler.cli", "ui", str(lake)]
        os.execve(sys.executable, words, environment(TERM="dumb", COLUMNS="300"))
    text = b""
    while b"#code=" not in text or not text.endswith(b"\n"):
        text += os.read(terminal, 4096)
    port = int(text.partition(b"http://127.0.0.1:")[2].partition(b"/")[0])
    assert is_listening(port)
    assert b"press Ctrl-C to stop" in text
    os.close(terminal)
    os.waitpid(process, 0)
    assert not is_listening(port)


def test_the_browser_gets_the_address_and_no_secrets(lake: Path, tmp_path: Path) -> None:
    note = tmp_path / "note"
    os.mkfifo(note)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\n{{ echo "$1"; env; }} > "{note}"\n')
    browser.chmod(0o700)
    with shown(lake, BROWSER=f"{browser} %s", AWS_SECRET_ACCESS_KEY="very-secret") as server:
        lines = note.read_text().splitlines()
        assert lines[0] == server.url
        assert "very-secret" not in "".join(lines)
        arguments = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert server.code.encode() not in arguments


def test_a_uri_is_where_it_begins(lake: Path) -> None:
    with shown(lake, "lakefs://sales/main@/events/own.csv", "--lake", str(lake)) as server:
        page = "/repositories/sales/object?ref=main%40&path=events%2Fown.csv"
        assert parse_qs(urlsplit(server.url).query) == {"next": [page]}


def test_a_port_may_be_chosen_and_another_ones_is_refused(lake: Path, page: Shown) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    with shown(lake, str(lake), "--port", str(free)) as server:
        assert server.port == free
    refusal = run("ui", lake, "--port", page.port)
    assert (refusal.code, f"cannot listen on 127.0.0.1 port {page.port}" in refusal.err) == (9, True)
    assert "--port" in refusal.err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("ui", "{folder}/empty"), 3, "create one with `graveler init"),
        (("ui", "{folder}/nowhere"), 3, "create one with `graveler init"),
        (("ui", "https://lake.example.org"), 2, "open https://lake.example.org in a browser"),
        (("ui", "--endpoint", "https://lake.example.org"), 2, "open https://lake.example.org in a browser"),
        (("ui", "{lake}", "--lake", "{lake}"), 2, "name two lakes"),
        (("ui", "lakefs://nothing", "--lake", "{lake}"), 3, "nothing"),
        (("ui", "lakefs://sales/nothing/", "--lake", "{lake}"), 3, "nothing"),
        (("ui", "dynamodb://table"), 2, "--objects"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_what_to_do(
    lake: Path, tmp_path: Path, words: tuple[str, ...], code: int, sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    result = run(*(word.format(folder=tmp_path, lake=lake) for word in words))
    assert (result.code, sentence in result.err) == (code, True), result


def test_a_folder_without_a_lake_says_how_to_make_one(tmp_path: Path, shell: Shell) -> None:
    shell.cd(tmp_path)
    result = run("ui")
    assert (result.code, "`graveler init`" in result.err) == (3, True), result
