"""A real HTTP server that sends scripted answers in order, and records the requests."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass(frozen=True)
class Reply:
    """One answer. ``cut``: the connection breaks after the body, which is shorter than its header said; with status 0, before
    any answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Scripted:
    """The server's side of a test."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.asked: list[Asked] = []
        self.otherwise: Callable[[Asked], Reply] | None = None
        """Makes the answer once ``replies`` is empty."""
        self.url = ""

    def will(self, *replies: Reply) -> None:
        """What is answered next."""
        self.replies += replies


@contextmanager
def scripted(prepare: Callable[[ThreadingHTTPServer], None] = lambda _: None) -> Iterator[Scripted]:
    """Such a server, on a port of its own. ``prepare`` sees it before its first request."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: otherwise the client's delayed acknowledgement takes 40 ms

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            named = {name.lower(): value for name, value in self.headers.items()}
            request = Asked(self.command, self.path, named, body)
            script.asked.append(request)
            otherwise = script.otherwise
            reply = script.replies.pop(0) if script.replies or otherwise is None else otherwise(request)
            if not reply.status:
                self.close_connection = True
                return
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.status != 204:
                self.send_header("content-length", str(len(reply.body) + reply.cut))
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = bool(reply.cut)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - as http.server has it

        def log_message(self, *arguments: object) -> None:
            """Nothing: tests look at ``asked``."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        prepare(server)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        script.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()
