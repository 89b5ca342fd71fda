"""A server of S3's reads and writes that a test makes fail: each request is answered by the next of the test's answers, or as S3
would. It runs in the test's event loop, so the test sees what arrived at any moment."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import md5
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

CHUNK = 64 << 10


class Request:
    """A request, whose head has arrived. ``body`` has what was read of its body."""

    def __init__(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.path = unquote(self.target.partition("?")[0])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        self.reader, self.writer = reader, writer
        self.body = b""

    @property
    def length(self) -> int:
        """The declared length of the body."""
        return int(self.headers.get("content-length", "0"))

    async def read(self) -> bytes:
        """Read the body. asyncio.IncompleteReadError if it is cut short."""
        self.body = await self.reader.readexactly(self.length)
        return self.body

    def send(self, status: int, body: bytes = b"", *, length: int | None = None, **headers: str) -> None:
        """Send a response, or the beginning of one that declares another length."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        declared = {"content-length": str(len(body) if length is None else length), **names}
        lines = "".join(f"{name}: {value}\r\n" for name, value in declared.items())
        self.writer.write(f"HTTP/1.1 {status} status\r\n{lines}\r\n".encode() + body)

    def reset(self) -> None:
        """End the connection without a word."""
        self.writer.transport.abort()


Answer: TypeAlias = Callable[[Request], Awaitable[None]]


class ScriptedS3:
    """The server. ``answers`` are for the next requests, ``objects`` the bytes by path, ``requests`` all that came."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.begin({})

    def begin(self, objects: dict[str, bytes]) -> None:
        """Begin anew, with these objects by their paths."""
        self.answers: list[Answer] = []
        self.objects = objects
        self.requests: list[Request] = []
        self.connections = 0

    async def end(self) -> None:
        """End all connections."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def will(self, *answers: Answer) -> None:
        """Answer the next requests like this."""
        self.answers += answers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to its end."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                request = Request(await reader.readuntil(b"\r\n\r\n"), reader, writer)
                self.requests.append(request)
                await (self.answers.pop(0) if self.answers else self.answer)(request)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the test ended the connection, or ends itself
        finally:
            self._tasks.remove(task)
            writer.transport.abort()

    async def answer(self, request: Request) -> None:
        """Answer as S3 does."""
        if request.method == "PUT":
            data = await request.read()
            self.objects[request.path] = data
            request.send(200, etag=_etag(data))
            return
        data = self.objects.get(request.path, b"")
        if request.path not in self.objects:
            request.send(*refusal(404, "NoSuchKey"))
            return
        start, end = (int(number) for number in request.headers["range"].removeprefix("bytes=").split("-"))
        if request.headers.get("if-match", _etag(data)) != _etag(data):
            request.send(*refusal(412, "PreconditionFailed"))
            return
        request.send(206, data[start : end + 1], etag=_etag(data), content_range=content_range(data, start, end))


def content_range(data: bytes, start: int, end: int) -> str:
    """The header of a range of an object."""
    return f"bytes {start}-{min(end, len(data) - 1)}/{len(data)}"


def refusal(status: int, code: str) -> tuple[int, bytes]:
    """Status and body of an error of S3."""
    return (
        status,
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>on &quot;purpose&quot;</Message></Error>".encode(),
    )


def refuse(status: int, code: str, **headers: str) -> Answer:
    """Read the body, and answer with an error of S3."""

    async def answer(request: Request) -> None:
        await request.read()
        request.send(status, refusal(status, code)[1], **headers)  # type: ignore[arg-type]

    return answer


async def reset(request: Request) -> None:
    """End the connection before the response."""
    request.reset()


def _etag(data: bytes) -> str:
    return f'"{md5(data).hexdigest()}"'


@asynccontextmanager
async def scripted_s3(certificate: Path | None = None) -> AsyncIterator[ScriptedS3]:
    """A server for a block; with a certificate and key in one file by TLS."""
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    scripted = ScriptedS3("https" if certificate else "http")
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0, ssl=context)
    scripted.port = server.sockets[0].getsockname()[1]
    try:
        yield scripted
    finally:
        server.close()
        await scripted.end()


def make_certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 that is signed by itself, with its key in the same file."""
    key, public, both = folder / "key.pem", folder / "public.pem", folder / "certificate.pem"
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", *options, *names, "-keyout", str(key), "-out", str(public)], check=True, capture_output=True
    )
    both.write_bytes(key.read_bytes() + public.read_bytes())
    return both
