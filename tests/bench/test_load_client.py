"""The clients of the load bench: they send the intended requests, and count all responses but 2xx."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import pytest
from bench.load_client import ADDRESS, CLIENT, NUMBER, Load, Request, Requests, compiled, load

REQUESTS = Requests("r", "key", "secret")
Asked = tuple[str, str, bytes]
"""Method, path and body."""
Answer = Callable[[Asked], tuple[int, bytes]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("client"))


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[int, list[Asked]]]:
    """A server that answers so; its port, and what it was asked."""
    asked: list[Asked] = []
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def serve(self) -> None:
            mine = self.command, self.path, self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with lock:
                asked.append(mine)
            status, body = answer(mine)
            self.send_response_only(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = serve  # noqa: N815 - the base class's names

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


def asking(program: Path, port: int, clients: int, operations: list[list[Request]]) -> Load:
    return load(program, port, clients, 0.05, operations, begin=lambda: None)


def test_each_operation_has_a_number_of_its_own_and_each_client_its_name(program: Path) -> None:
    operations = [[REQUESTS.send("POST", f"/c{CLIENT}", {"name": f"{{b}}-{NUMBER}"})]]
    with serving(lambda _: (201, b"{}")) as (port, asked):
        found = asking(program, port, 3, operations)
    assert found.errors == 0
    assert 0 < found.operations == found.requests <= len(asked)
    assert {path for _, path, _ in asked} == {f"/api/v1/repositories/r/c{client:03}" for client in range(3)}
    names = [json.loads(body)["name"] for _, _, body in asked]
    assert all(re.fullmatch(r"\{b\}-\d{8}", name) for name in names)
    assert max(Counter(names).values()) == 1


def test_the_second_request_sends_the_address_that_the_first_was_given(program: Path) -> None:
    path = f"p/{NUMBER}"
    operations = [
        [
            REQUESTS.get("/address", path=path),
            REQUESTS.send("PUT", "/link", {"staging": {"physical_address": ADDRESS}, "size": 1}, path=path),
        ]
    ]

    def answer(asked: Asked) -> tuple[int, bytes]:
        return 200, json.dumps({"physical_address": 'local://"quoted"/' + asked[1].rpartition("/")[2]}).encode()

    with serving(answer) as (port, asked):
        found = asking(program, port, 2, operations)
    assert found.errors == 0
    assert found.requests == 2 * found.operations > 0
    links = [(path, json.loads(body)) for method, path, body in asked if method == "PUT"]
    for path, body in links:
        number = path.rpartition("/")[2]
        assert body == {"staging": {"physical_address": f'local://"quoted"/{number}'}, "size": 1}


def test_clients_go_through_the_operations_in_turn(program: Path) -> None:
    operations = [[REQUESTS.get("/stat", path=f"a b/{number}&x")] for number in range(5)]
    with serving(lambda _: (200, b"x" * 300_000)) as (port, asked):
        found = asking(program, port, 1, operations)
    assert found.errors == 0
    paths = [path for _, path, _ in asked]
    expected = [f"/api/v1/repositories/r/stat?path=a%20b/{number}%26x" for number in range(5)]
    start = expected.index(paths[0])
    assert paths == [expected[(start + at) % 5] for at in range(len(paths))]


def test_an_answer_that_is_no_success_is_an_error_and_no_operation(program: Path) -> None:
    operations = [[REQUESTS.get("/stat", path=path)] for path in ("there", "gone")]

    def answer(asked: Asked) -> tuple[int, bytes]:
        return (404, b"no such object") if asked[1].endswith("gone") else (200, b"{}")

    with serving(answer) as (port, _):
        found = asking(program, port, 1, operations)
    assert found.errors > 0
    assert found.first_error.startswith("HTTP/1.1 404")
    assert "no such object" in found.first_error
    assert found.operations > 0
    assert found.p50 <= found.p99 <= found.worst
