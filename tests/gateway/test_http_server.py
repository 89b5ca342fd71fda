"""The server of a gateway on the wire: framing of requests, and back pressure in both directions."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from graveler.errors import InvalidError
from graveler.gateway.exchange import ClientGoneError
from graveler.gateway.http_server import HttpExchange, HttpServer
from graveler.gateway.listener import Listener
from graveler.gateway.protocol.head import Head
from graveler.gateway.store.port import PIECE
from graveler.server.listening import HEAD_BYTES, listening_port
from tests.support.certificates import new_certificates
from tests.support.patience import PATIENCE

Answer = Callable[[Head, HttpExchange], Awaitable[None]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def echo(head: Head, exchange: HttpExchange) -> None:
    """Respond with what arrived."""
    body = b"".join([piece async for piece in exchange])
    exchange.response_bytes(200, [], f"{head.method} {head.path} {head.query} ".encode() + body)


async def no_reader(head: Head, exchange: HttpExchange) -> None:
    """Respond without reading the body."""
    exchange.response_bytes(200, [], head.path.encode())


@asynccontextmanager
async def connected(answer: Answer) -> AsyncIterator[Streams]:
    """A connection to a server."""

    async def handle(head: Head, source: str, scheme: str, exchange: HttpExchange) -> None:
        assert (source, scheme) == ("127.0.0.1", "http")
        await answer(head, exchange)

    with listening_port("127.0.0.1", 0) as port:
        server = HttpServer(handle, Listener(port=port))
        serving = asyncio.create_task(server.serve())
        await asyncio.sleep(0)
        for _ in range(100):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
        yield reader, writer
        writer.close()
        server.stop()
        await serving


def exchanged(sent: bytes, answer: Answer = echo, *, ends: bool = True) -> bytes:
    """What comes back for these bytes, until the server closes the connection; with ``ends`` the client sends no more."""

    async def run() -> bytes:
        async with connected(answer) as (reader, writer), asyncio.timeout(PATIENCE):
            writer.write(sent)
            if ends:
                writer.write_eof()
            return await reader.read()

    return uvloop.run(run())


def bodies(response: bytes) -> list[bytes]:
    """The bodies of the responses."""
    found = []
    while response:
        head, _, rest = response.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        end = int(length[1]) if length else 0
        found.append(rest[:end])
        response = rest[end:]
    return found


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (b"GET /a%2Fb%20c?x=%41 HTTP/1.1\r\nhost: h\r\n\r\n", [b"GET /a/b c x=%41 "]),
        (b"GET /%C3%BC%ff HTTP/1.1\r\nhost: h\r\n\r\n", ["GET /ü\ufffd  ".encode()]),
        (b"GET http://host/a?b HTTP/1.1\r\nhost: h\r\n\r\n", [b"GET /a b "]),
        (b"OPTIONS * HTTP/1.1\r\nhost: h\r\n\r\n", [b"OPTIONS /  "]),
        (b"PUT /a HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n\r\n", [b"PUT /a  abc", b"GET /b  "]),
        (
            b"PUT /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
            [b"PUT /a  abc", b"GET /b  "],
        ),
        (
            b"PUT /a HTTP/1.1\r\nconnection: Upgrade\r\nupgrade: h2c\r\ncontent-length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n\r\n",
            [b"PUT /a  abc", b"GET /b  "],
        ),
        (b"GET /a HTTP/1.0\r\n\r\nGET /b HTTP/1.0\r\n\r\n", [b"GET /a  "]),
        (b"GET /a HTTP/1.1\r\nconnection: close\r\n\r\nGET /b HTTP/1.1\r\n\r\n", [b"GET /a  "]),
        (b"HEAD /a HTTP/1.1\r\nconnection: close\r\n\r\n", [b""]),
    ],
)
@pytest.mark.parametrize("ends", [True, False])
def test_requests_of_a_connection(sent: bytes, received: list[bytes], ends: bool) -> None:
    if not ends and not (b"close" in sent or b"1.0" in sent):
        sent += b"GET /last HTTP/1.1\r\nconnection: close\r\n\r\n"
        received = [*received, b"GET /last  "]
    assert bodies(exchanged(sent, ends=ends)) == received


def test_a_body_in_any_pieces_is_the_same() -> None:
    sent = b"PUT /a HTTP/1.1\r\ncontent-length: 700000\r\n\r\n" + b"x" * 700_000
    sent += b"GET /b HTTP/1.1\r\nconnection: close\r\n\r\n"

    async def run(step: int) -> bytes:
        async with connected(echo) as (reader, writer), asyncio.timeout(PATIENCE):
            for begin in range(0, len(sent), step):
                writer.write(sent[begin : begin + step])
                await writer.drain()
            return await reader.read()

    for step in (7_001, 100_000, len(sent)):
        assert bodies(uvloop.run(run(step))) == [b"PUT /a  " + b"x" * 700_000, b"GET /b  "]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * (HEAD_BYTES + PIECE), 431),
        (b"PUT /a HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused(sent: bytes, status: int) -> None:
    assert exchanged(sent, ends=False).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    ("coding", "chunks"),
    [
        (b"chunked", b"1\r\na\r\n-1\r\n"),
        (b"chunked", b"1\r\na\r\nfffffffffffffffff\r\n"),
        (b"chunked", b'1\r\na\r\n1;x="\r\n"\r\n'),
        (b"gzip", b"a"),
    ],
)
def test_malformed_chunks_end_a_body(coding: bytes, chunks: bytes) -> None:
    head = b"PUT /a HTTP/1.1\r\ntransfer-encoding: " + coding + b"\r\n\r\n"
    response = exchanged(head + chunks + b"GET /b HTTP/1.1\r\n\r\n", ends=False)
    assert bodies(response) == [b"PUT /a  a" if coding == b"chunked" else b"PUT /a  "]


def test_a_body_that_nobody_reads_is_not_the_next_request() -> None:
    inner = b"GET /inner HTTP/1.1\r\n\r\n"
    head = b"PUT /a HTTP/1.1\r\ncontent-length: %d\r\n" % len(inner)
    outer = b"GET /outer HTTP/1.1\r\nconnection: close\r\n\r\n"
    assert bodies(exchanged(head + b"\r\n" + inner + outer, no_reader)) == [b"/a", b"/outer"]
    assert bodies(exchanged(head + b"expect: 100-continue\r\n\r\n" + inner + outer, no_reader)) == [b"/a"]


def test_a_client_may_wait_for_100() -> None:
    async def run() -> None:
        async with connected(echo) as (reader, writer), asyncio.timeout(PATIENCE):
            writer.write(b"PUT /a HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 3\r\nconnection: close\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"abc")
            assert bodies(await reader.read()) == [b"PUT /a  abc"]

    uvloop.run(run())


def test_a_client_that_reads_nothing_slows_down_the_handler() -> None:
    sent = 0
    gone = asyncio.Event()

    async def stream(head: Head, exchange: HttpExchange) -> None:
        nonlocal sent
        exchange.response_stream(200, [("content-length", str(1000 * PIECE))])
        try:
            for _ in range(1000):
                await exchange.send_bytes(bytes(PIECE))
                sent += 1
        except ClientGoneError:
            gone.set()

    async def run() -> None:
        async with connected(stream) as (_, writer), asyncio.timeout(PATIENCE):
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            amounts = [-1, 0]
            while amounts[-1] != amounts[-2] or not sent:  # until it is stuck
                await asyncio.sleep(0.3)
                amounts.append(sent)
            assert sent < 100
            writer.transport.abort()
            await gone.wait()

    uvloop.run(run())


def test_a_client_that_reads_no_response_gets_few() -> None:
    answers = 0

    async def small(head: Head, exchange: HttpExchange) -> None:
        nonlocal answers
        exchange.response_bytes(200, [], bytes(64 << 10))
        answers += 1

    async def run() -> None:
        async with connected(small) as (reader, writer), asyncio.timeout(PATIENCE):
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET / HTTP/1.1\r\n\r\n" * 999 + b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
            amounts = [-1, 0]
            while amounts[-1] != amounts[-2] or not answers:  # until it is stuck
                await asyncio.sleep(0.3)
                amounts.append(answers)
            assert answers < 500
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await reader.read()) > 1000 * (64 << 10)

    uvloop.run(run())


def test_a_handler_that_reads_nothing_slows_down_the_client() -> None:
    async def run() -> None:
        reads = asyncio.Event()

        async def late(head: Head, exchange: HttpExchange) -> None:
            await reads.wait()
            await echo(head, exchange)

        async with connected(late) as (reader, writer), asyncio.timeout(PATIENCE):
            writer.write(b"PUT / HTTP/1.1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (24 << 20))
            writer.write(bytes(24 << 20))
            await asyncio.sleep(0.3)
            assert writer.transport.get_write_buffer_size() > 12 << 20  # most of it did not leave the client
            reads.set()
            body = bodies(await reader.read())[0]
            assert len(body) == len(b"PUT /  ") + (24 << 20)

    uvloop.run(run())


def test_a_response_that_breaks_off_is_not_whole() -> None:
    async def half(head: Head, exchange: HttpExchange) -> None:
        exchange.response_stream(200, [("content-length", "10")])
        await exchange.send_bytes(b"12345")

    async def run() -> None:
        async with connected(half) as (reader, writer), asyncio.timeout(PATIENCE):
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readuntil(b"1234567890")

    uvloop.run(run())


def test_a_header_has_one_line() -> None:
    async def injected(head: Head, exchange: HttpExchange) -> None:
        with pytest.raises(ValueError, match="more than one line"):
            exchange.response_bytes(200, [("etag", "a\r\nb: c")], b"")
        exchange.response_empty(204, [])

    assert b"b: c" not in exchanged(b"GET / HTTP/1.1\r\n\r\n", injected)


@pytest.mark.parametrize("key", ["key.pem", "missing.pem"])
def test_files_that_are_no_certificate_are_refused(tmp_path: Path, key: str) -> None:
    for name in ("certificate.pem", "key.pem"):
        (tmp_path / name).write_text("-----BEGIN")
    with pytest.raises(InvalidError, match="are no certificate and its key"):
        Listener(port=0, certificate=tmp_path / "certificate.pem", certificate_key=tmp_path / key).tls()


def test_a_key_with_a_password_asks_nobody_for_it(tmp_path: Path) -> None:
    files = new_certificates(tmp_path, [x509.DNSName("localhost")])
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    with pytest.raises(InvalidError, match="are no certificate and its key"):
        Listener(port=0, certificate=files.chain, certificate_key=files.key).tls()
