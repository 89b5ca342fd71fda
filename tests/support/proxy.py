"""An HTTP proxy in front of a real server that treats requests and answers as faulty networks and services do.

with FaultyProxy(dynamodb_local()) as proxy:
    proxy.begin(lambda operation, ordinal: Lost() if ordinal == 3 else None)
    ... a client whose endpoint is proxy.url ...
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from tests.support.patience import PATIENCE


class Reply(Struct, frozen=True):
    """The request never arrives; this is the answer."""

    status: int
    body: bytes
    headers: dict[str, str] = {}


class Dropped(Struct, frozen=True):
    """The connection ends before the request has arrived."""


class Lost(Struct, frozen=True):
    """The request has its effect; the connection ends without an answer, or, with ``half``, in the middle of its body."""

    half: bool = False


class Hanging(Struct, frozen=True):
    """The request has its effect, or (``before``) none; nothing comes back until :meth:`FaultyProxy.release`."""

    before: bool = False


Trouble: TypeAlias = Reply | Dropped | Lost | Hanging | None
Schedule: TypeAlias = Callable[[str, int], Trouble]
"""From a request's operation (``PutItem`` of DynamoDB, ``PUT`` or ``LIST`` of S3) and its ordinal, from 0, to its trouble."""


def dynamodb_reply(code: str, status: int = 400) -> Reply:
    """What DynamoDB answers with an error of this name."""
    body = f'{{"__type": "com.amazonaws.dynamodb.v20120810#{code}", "message": "on purpose"}}'.encode()
    return Reply(status, body, {"Content-Type": "application/x-amz-json-1.0"})


def s3_reply(code: str, status: int) -> Reply:
    """What S3 answers with an error of this name."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>on purpose</Message></Error>".encode()
    return Reply(status, body, {"Content-Type": "application/xml"})


class FaultyProxy:
    """Serves at ``url`` until the end of the block. ``seen`` are the operations that were asked for, in their order."""

    def __init__(self, target: str, *, hanging: Event | None = None) -> None:
        self.schedule: Schedule = lambda *_: None
        self.seen: list[str] = []
        self.hanging = hanging or Event()
        """Somebody waits for :meth:`release`. May be of several proxies."""
        self.answered: Callable[[str, bytes, bytes], None] = lambda *_: None
        """Is told each operation that the server has answered, and the bodies of request and answer."""
        self._place = urlsplit(target).netloc
        self._released = Event()
        self._lock = Lock()
        self._server = _Server(self)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join()

    def begin(self, schedule: Schedule) -> None:
        """Count requests from 0 again, under this schedule."""
        with self._lock:
            self.schedule = schedule
            self.seen.clear()
            self.hanging.clear()
            self._released.clear()

    def release(self) -> None:
        """Let go what hangs."""
        self._released.set()

    def trouble(self, operation: str) -> Trouble:
        """What happens to the request that comes now."""
        with self._lock:
            self.seen.append(operation)
            return self.schedule(operation, len(self.seen) - 1)

    def wait(self) -> None:
        """Hang, until :meth:`release`."""
        self.hanging.set()
        self._released.wait(PATIENCE)

    def connect(self) -> HTTPConnection:
        """A connection to the server behind."""
        return HTTPConnection(self._place, timeout=PATIENCE)


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64

    def __init__(self, proxy: FaultyProxy) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy
        self._lock = Lock()
        self._open: set[socket.socket] = set()

    def process_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: object) -> None:
        assert isinstance(request, socket.socket)
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """End what clients keep alive: its threads wait for a next request."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):  # ended by the other side
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that were killed, or gave up, leave broken connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._behind: HTTPConnection | None = None

    def finish(self) -> None:
        if self._behind is not None:
            self._behind.close()
        super().finish()

    def _serve(self) -> None:
        body = self._body()
        operation = self._operation()
        trouble = self.server.proxy.trouble(operation)
        match trouble:
            case Reply():
                self._answer(trouble.status, list(trouble.headers.items()), trouble.body)
                return
            case Dropped():
                self._end()
                return
            case Hanging(before=True):
                self.server.proxy.wait()
                self._end()
                return
        status, headers, answer = self._ask(body)
        self.server.proxy.answered(operation, body, answer)
        match trouble:
            case Hanging():
                self.server.proxy.wait()
                self._end()
            case Lost(half=True) if answer:
                self._answer(status, headers, answer, cut=True)
                self._end()
            case Lost():
                self._end()
            case _:
                self._answer(status, headers, answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - the base class's names

    def _operation(self) -> str:
        target = self.headers.get("X-Amz-Target")
        if target is not None:
            return target.rpartition(".")[2]
        return "LIST" if "list-type=" in self.path else self.command

    def _body(self) -> bytes:
        """The request's body, as it was framed."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        framed = b""
        while True:
            line = self.rfile.readline()
            size = int(line.partition(b";")[0], 16)
            framed += line + self.rfile.read(size + 2)
            if size == 0:
                return framed

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        while True:
            fresh = self._behind is None
            behind = self._behind = self._behind or self.server.proxy.connect()
            try:
                behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("connection", "expect"):
                        behind.putheader(name, value)
                behind.endheaders(body)
                answer = behind.getresponse()
                headers = [
                    pair for pair in answer.getheaders() if pair[0].lower() not in ("connection", "transfer-encoding")
                ]
                return answer.status, headers, answer.read()
            except (HTTPException, OSError):
                behind.close()
                self._behind = None
                if fresh:
                    raise

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        named = {name.lower() for name, _ in headers}
        for name, value in headers:
            self.send_header(name, value)
        if "content-length" not in named and status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)

    def _end(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # the client has gone already
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *arguments: object) -> None:
        """Nothing."""
