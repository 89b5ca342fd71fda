"""Real servers: several processes on one lake, asked over HTTP."""

import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from hashlib import md5
from http.client import HTTPResponse
from multiprocessing import Pipe
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from graveler.access.authentication import Access
from graveler.lake.opening.folder import open_folder_lake
from graveler.server.restarts import MOST, YOUNG, Restarts
from graveler.server.serve import wait_for_workers
from tests.server.support import Running, basic, running
from tests.support.patience import PATIENCE

API = "/api/v1/repositories"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("serve"), "--access-log") as running_server:
        made = running_server.ask_json("POST", API, {"name": "rep", "storage_namespace": "local://rep"})
        assert made.status == 201, made.body
        yield running_server


def upload_url(server: Running, path: str) -> str:
    answer = server.ask("GET", f"{API}/rep/branches/main/staging/backing?path={path}&presign=true")
    assert answer.status == 200, answer.body
    return str(answer.json()["presigned_url"])


def test_health_is_told_to_everybody(server: Running) -> None:
    for path in ("/healthcheck", "/api/v1/healthcheck"):
        assert server.ask("GET", path, authorised=False).status == 204


def test_clients_read_the_reason(server: Running) -> None:
    made = server.ask_json("POST", API, {"name": "rep", "storage_namespace": "local://rep"})
    assert (made.status, made.reason) == (409, "Conflict")
    assert server.ask("GET", f"{API}/rep", authorised=False).status == 401


def test_bytes_take_the_way_of_presigned_urls(server: Running) -> None:
    data = bytes(range(256)) * 8192
    url = upload_url(server, "big")
    assert url.startswith("http://localhost:")
    put = server.ask("PUT", url, data)
    assert (put.status, put.headers["etag"]) == (200, f'"{md5(data).hexdigest()}"')
    key = re.search(r"/objects/([^?]*)", url)
    assert key is not None
    staging = {"physical_address": f"local://rep/{key[1]}"}
    linked = server.ask_json(
        "PUT",
        f"{API}/rep/branches/main/staging/backing?path=big",
        {"staging": staging, "checksum": md5(data).hexdigest(), "size_bytes": len(data)},
    )
    assert linked.status == 200, linked.body
    redirect = server.ask("GET", f"{API}/rep/refs/main/objects?path=big&presign=true")
    assert redirect.status == 302
    assert server.ask("GET", redirect.headers["location"]).body == data  # credentials that come along do no harm
    part = server.ask("GET", redirect.headers["location"], headers={"range": "bytes=0-0"}, authorised=False)
    assert (part.status, part.headers["content-range"], part.body) == (206, f"bytes 0-0/{len(data)}", data[:1])
    head = server.ask("HEAD", redirect.headers["location"], authorised=False)
    assert (head.status, head.headers["content-length"], head.body) == (200, str(len(data)), b"")


def test_every_worker_knows_the_secret_of_the_urls(server: Running) -> None:
    url = upload_url(server, "shared")
    assert {server.ask("PUT", url, b"x", authorised=False).status for _ in range(12)} == {200}


def test_a_client_that_goes_away_leaves_nothing(server: Running) -> None:
    url = upload_url(server, "cut")
    target = url[url.index("/objects/") :]
    with server.connect() as connection:
        connection.sendall(
            f"PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n".encode() + b"x" * 70_000
        )
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):  # until the server has given up
            pass
    assert server.ask("GET", f"{API}/rep/refs/main/objects/stat?path=cut").status == 404
    folder = server.lake / "objects" / "rep"
    assert [path for path in (folder / ".graveler-tmp" / "writes").glob("*") if path.is_file()] == []


def large_object(server: Running, path: str, data: bytes) -> str:
    """Stage these bytes; the target of a presigned URL that reads them."""
    url = upload_url(server, path)
    assert server.ask("PUT", url, data).status == 200
    key = re.search(r"/objects/([^?]*)", url)
    assert key is not None
    linked = server.ask_json(
        "PUT",
        f"{API}/rep/branches/main/staging/backing?path={path}",
        {"staging": {"physical_address": f"local://rep/{key[1]}"}, "checksum": "0" * 32, "size_bytes": len(data)},
    )
    assert linked.status == 200, linked.body
    location = server.ask("GET", f"{API}/rep/refs/main/objects?path={path}&presign=true").headers["location"]
    return location[location.index("/objects/") :]


def test_readers_that_go_away_give_their_place_back(server: Running) -> None:
    target = large_object(server, "left", bytes(32 << 20))
    for _ in range(600):  # more than both workers have places
        with server.connect() as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            answer = connection.recv(12)
            while answer == b"HTTP/1.1 503":  # they notice soon that a client has gone, not at once
                with server.connect() as again:
                    again.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                    answer = again.recv(12)
            assert answer == b"HTTP/1.1 200"


def test_half_of_a_chunked_upload_stages_nothing(server: Running) -> None:
    head = (
        f"POST {API}/rep/branches/main/objects?path=half HTTP/1.1\r\nHost: h\r\nAuthorization: {basic()}\r\n"
        "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()
    for chunks in (b"", b"5\r\nhello\r\n", b"5\r\nhello\r\n9\r\nwo", b"80000\r\n" + bytes(0x80000) + b"\r\n"):
        for reset in (False, True):
            with server.connect() as connection:
                connection.sendall(head + chunks)
                if reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    connection.shutdown(socket.SHUT_WR)
                    assert connection.recv(65536)[:12] in (b"", b"HTTP/1.1 400")
    with server.connect() as connection:
        connection.sendall(head + b"5\r\nhello\r\nno number\r\n")
        assert connection.recv(65536)[:12] in (b"", b"HTTP/1.1 400")
    assert server.ask("GET", f"{API}/rep/refs/main/objects/stat?path=half").status == 404
    with server.connect() as connection:
        connection.sendall(head + b"5\r\nhello\r\n0\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 201")
    assert server.ask("GET", f"{API}/rep/refs/main/objects?path=half").body == b"hello"


def test_a_client_that_still_sends_the_body_of_a_refused_upload_keeps_its_connection(server: Running) -> None:
    head = f"POST {API}/rep/branches/none/objects?path=a HTTP/1.1\r\nHost: h\r\nAuthorization: {basic()}\r\n"

    def is_kept() -> bool:
        with server.connect() as connection:
            connection.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode())
            response = connection.recv(65536)
            assert response.startswith(b"HTTP/1.1 404"), response
            with suppress(ConnectionError):
                for _ in range(100):
                    connection.sendall(bytes(1000))
                connection.sendall(b"GET /healthcheck HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                while piece := connection.recv(65536):
                    response += piece
            return b"HTTP/1.1 204" in response

    assert any(is_kept() for _ in range(10))  # one that stands still for half a second loses it


def test_slow_clients_keep_nobody_waiting(server: Running) -> None:
    url = upload_url(server, "slow")
    target = url[url.index("/objects/") :]
    begun = (
        b"GET /api/v1/repo",
        f"PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nx".encode(),
        f"POST {API} HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nx".encode(),
        f"POST {API} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx".encode(),
    )
    with ExitStack() as slow:
        for number in range(400):
            slow.enter_context(server.connect()).sendall(begun[number % len(begun)])
        for number in range(10):
            assert server.ask("GET", f"{API}/rep").status == 200
            body = str(number).encode()
            url = upload_url(server, "quick")
            assert server.ask("PUT", url, body).status == 200


def test_readers_that_do_not_read_keep_nobody_waiting(server: Running) -> None:
    size = 16 << 20
    target = large_object(server, "unread", bytes(size))
    request = f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode()
    with ExitStack() as slow:
        for _ in range(150):
            connection = slow.enter_context(server.connect())
            connection.sendall(request)
        assert connection.recv(12) == b"HTTP/1.1 200"
        for _ in range(10):
            assert server.ask("GET", f"{API}/rep").status == 200
            assert server.ask("PUT", upload_url(server, "quick"), b"x").status == 200
        assert server.ask("GET", target, authorised=False).body == bytes(size)


def test_who_may_not_upload_is_told_before_all_has_arrived(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(
            f"POST {API}/rep/branches/main/objects?path=x HTTP/1.1\r\nHost: h\r\nContent-Length: {1 << 30}\r\n"
            "Content-Type: application/octet-stream\r\n\r\n".encode()
            + bytes(512 << 10)
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 Unauthorized")


def test_a_thousand_connections(server: Running) -> None:
    request = f"GET {API}/rep HTTP/1.1\r\nHost: h\r\nAuthorization: {basic()}\r\n\r\n".encode()
    connections = [server.connect() for _ in range(1000)]
    try:
        for connection in connections:
            connection.sendall(request)
        assert {connection.recv(12) for connection in connections} == {b"HTTP/1.1 200"}
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize("target", ["//api//v1", "/api/v1/repositories//branches", "/%2e%2e/%00", "/api/v1/\xff"])
def test_strange_paths_are_no_trouble(server: Running, target: str) -> None:
    with server.connect() as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\nAuthorization: {basic()}\r\n\r\n".encode("latin-1"))
        status = int(connection.recv(65536).split(b" ", 2)[1])
    assert 400 <= status < 500


@pytest.mark.parametrize("path", [API, "/iceberg/v1/rep/main/namespaces"])
def test_bodies_beyond_the_limit_are_refused(server: Running, path: str) -> None:
    with server.connect() as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization: {basic()}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {1 << 30}\r\n\r\n".encode()
        )
        answer = HTTPResponse(connection)
        answer.begin()
        assert (answer.status, answer.reason) == (413, "Payload Too Large")
        expect_refusal(path, 413, json.loads(answer.read()))


@pytest.mark.parametrize("path", [API, "/iceberg/v1/rep/main/namespaces"])
def test_headers_beyond_the_limit_are_refused(server: Running, path: str) -> None:
    refused = server.ask("GET", path, headers={"x-long": "x" * (33 << 10)})
    assert refused.status == 431
    expect_refusal(path, 431, refused.json())


def expect_refusal(path: str, status: int, document: dict[str, Any]) -> None:
    """Expect a refusal in the words of the path's protocol."""
    if path.startswith("/iceberg"):
        assert (document["error"]["code"], document["error"]["type"]) == (status, "BadRequestException")
        document = document["error"]
    assert "more than" in document["message"] or "at most" in document["message"]


def test_figures_are_those_of_all_workers(server: Running) -> None:
    for _ in range(20):
        server.ask("GET", f"{API}/rep")
    text = server.ask("GET", "/metrics", authorised=False).body.decode()
    assert re.search(r'graveler_requests_total{operation="getRepository",status="200"} \d+', text)
    assert re.search(r'graveler_request_duration_seconds_bucket{operation="getRepository",le="\+Inf"} \d+', text)


def test_the_log_has_a_line_for_each_request_and_no_signature(server: Running) -> None:
    server.ask("GET", f"{API}/rep?x=1", headers={"user-agent": "the-test"})
    lines = [json.loads(line) for line in server.errors.read_text().splitlines()]
    mine = [line for line in lines if line.get("agent") == "the-test"]
    assert [(line["path"], line["query"], line["status"]) for line in mine] == [(f"{API}/rep", "x=1", 200)]
    assert any(line.get("action") == "createRepository" for line in lines)
    assert "Signature" not in server.errors.read_text()


def test_it_finishes_what_is_under_way(tmp_path: Path) -> None:
    with running(tmp_path, workers=1) as server:
        server.ask_json("POST", API, {"name": "rep", "storage_namespace": "local://rep"})
        url = upload_url(server, "late")
        target = url[url.index("/objects/") :]
        with server.connect() as connection:
            connection.sendall(
                f"PUT {target} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n".encode()
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 100")  # it reads the body now
            server.process.send_signal(signal.SIGTERM)
            connection.sendall(b"data")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        assert server.process.wait(PATIENCE) == 0


def answered_by_another(server: Running, dead: set[int]) -> int:
    """The worker that answers, once one does that is not dead."""
    while True:
        try:
            assert server.ask("GET", API).status == 200
        except ConnectionError:  # nobody listens until the next one is there
            assert server.process.poll() is None, server.errors.read_text()
        else:
            if (worker := worker_of(server)) not in dead:
                return worker


def test_a_worker_that_dies_is_replaced_also_several_times_within_seconds(tmp_path: Path) -> None:
    with running(tmp_path, "--access-log", workers=1) as server:
        dead: set[int] = set()
        for _ in range(2):
            worker = answered_by_another(server, dead)
            dead.add(worker)
            os.kill(worker, signal.SIGKILL)
        answered_by_another(server, dead)
        text = server.ask("GET", "/metrics", authorised=False).body.decode()
        assert "\ngraveler_worker_deaths_total 2\n" in text
        assert server.process.stdout is not None
        assert not select.select([server.process.stdout], [], [], 0)[0], "the log has its place on standard error"
    assert server.process.returncode == 0


@pytest.mark.skipif("GRAVELER_SOAK_SECONDS" not in os.environ, reason="six workers start one after the other")
def test_a_server_whose_worker_always_dies_young_ends(tmp_path: Path) -> None:
    """Its lake is gone, so that no further worker can start."""
    with running(tmp_path, "--access-log", workers=1) as server:
        assert server.ask("GET", API).status == 200
        server.lake.rename(tmp_path / "elsewhere")
        os.kill(worker_of(server), signal.SIGKILL)
        assert server.process.wait(PATIENCE) == 1
        assert f"worker 1 has ended {MOST} times in a row" in server.errors.read_text()


def test_a_server_is_ready_when_all_of_its_workers_have_started() -> None:
    started, starts = Pipe(duplex=False)
    stopping, missing = threading.Event(), Queue[int]()

    def wait(workers: int, seconds: float = PATIENCE) -> None:
        missing.put(wait_for_workers(started, workers, stopping, seconds))

    with started, starts:
        for workers in (1, 3):
            waiting = threading.Thread(target=wait, args=(workers,))
            waiting.start()
            for _ in range(workers):
                assert missing.empty()
                starts.send_bytes(b"started")
            waiting.join()
            assert missing.get() == 0
        starts.send_bytes(b"started")
        wait(3, 0.3)
        assert missing.get() == 2, "one that does not start holds up nobody for ever"
        stopping.set()
        wait(2)
        assert missing.get() == 2


def test_a_worker_that_lived_for_long_begins_a_new_row() -> None:
    restarts = Restarts()
    for _ in range(100):
        assert restarts.died(0, YOUNG) == 0.0
    young = [restarts.died(0, YOUNG - 1) for _ in range(MOST - 1)]
    assert young == [0.5, 1.0, 2.0, 4.0, None]
    assert restarts.died(1, 0.0) == 0.0, "each worker has a row of its own"


def worker_of(server: Running) -> int:
    """The process that answered the last request of the API: who has the answer finds its line in the log."""
    lines = [json.loads(line) for line in server.errors.read_text().splitlines() if line.startswith("{")]
    return int([line["worker"] for line in lines if line.get("path") == API][-1])


def test_a_stop_under_load_loses_no_answer(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.ask_json("POST", API, {"name": "rep", "storage_namespace": "local://rep"})
        under_load = threading.Barrier(9)

        def create(number: int) -> list[str]:
            made = []
            for count in range(1000):
                if count == 5:
                    under_load.wait(PATIENCE)
                name = f"b-{number}-{count}"
                try:
                    answer = server.ask_json("POST", f"{API}/rep/branches", {"name": name, "source": "main"})
                except OSError:  # it does not listen any more
                    break
                assert answer.status == 201, answer.body
                made.append(name)
            return made

        with ThreadPoolExecutor(8) as pool:
            clients = [pool.submit(create, number) for number in range(8)]
            under_load.wait(PATIENCE)
            server.process.send_signal(signal.SIGTERM)
            answered = {name for client in clients for name in client.result()}
        assert server.process.wait(PATIENCE) == 0
        with open_folder_lake(server.lake) as lake:
            there: set[str] = set()
            after = ""
            while True:
                page = lake.repository("rep").branches(after=after, amount=1000)
                there.update(branch.name for branch in page.results)
                if page.next_after is None:
                    break
                after = page.next_after
        assert answered <= there


def test_the_first_start_shows_a_key_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "graveler.cli", "serve", "--lake", str(tmp_path / "lake"), "--port", "0"]
    shown = []
    for _ in range(2):
        process = subprocess.Popen([*command, "--workers", "1"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("serving"):
                process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert lines[-1] == "stopped\n"
        shown.append("".join(lines))
    assert shown[0].startswith("created an empty lake in")
    assert re.search(r"LAKECTL_CREDENTIALS_ACCESS_KEY_ID=AKIA[IJ][A-Z0-9]{14}Q\n", shown[0])
    assert re.search(r"LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=\S{40}\n", shown[0])
    assert "ACCESS_KEY" not in shown[1]


def test_a_port_that_is_taken_is_said_to_be(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        command = [sys.executable, "-m", "graveler.cli", "serve", "--lake", str(tmp_path / "lake"), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 9
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    with open_folder_lake(tmp_path / "lake") as lake:
        assert not Access(lake.tables).has_keys()  # the first one is shown once, when the server starts
