"""Reads beside a store and a network that fail: the bytes are whole, or an error says why not."""

import asyncio

import pytest

from graveler.errors import BusyError, CorruptError, InvalidError, UnavailableError
from graveler.gateway.store.http_connection import HttpConnection
from graveler.gateway.store.port import PIECE, SMALL, Bytes
from graveler.storage.objects.port import (
    NotPermittedError,
    ObjectConditionError,
    ObjectMissingError,
)
from graveler.system.retries import Retries
from tests.gateway.store.faulty import DATA, ONCE, Run, broken_after, put
from tests.gateway.store.scripted_s3 import (
    CHUNK,
    Request,
    ScriptedS3,
    content_range,
    refuse,
    reset,
)
from tests.gateway.store.stores import contents


@pytest.mark.parametrize("size", [1, SMALL, len(DATA)])
def test_a_read_is_repeated_when_the_connection_is_reset(run: Run, size: int) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(reset, reset)
        assert await contents(await store.read("a", 0, size)) == DATA[:size]
        assert len(server.requests) == 3

    run(work)


@pytest.mark.parametrize("size", [SMALL, len(DATA)])
@pytest.mark.parametrize("amount", [0, 1, 40_000])
def test_a_read_that_breaks_midway_goes_on_where_it_broke(run: Run, size: int, amount: int) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def rest(request: Request) -> None:
            request.headers.pop("if-match")
            await server.answer(request)

        server.will(broken_after(amount), rest)
        assert await contents(await store.read("a", 7, size - 7)) == DATA[7:size]
        assert [request.headers["range"] for request in server.requests] == [
            f"bytes=7-{size - 1}",
            f"bytes={7 + amount}-{size - 1}",
        ]

    run(work)


def test_a_read_goes_on_only_with_the_same_object(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(broken_after(100_000))
        with pytest.raises(ObjectConditionError, match="replaced while it was being read"):
            await contents(await store.read("a", 0, len(DATA)))
        assert server.requests[1].headers["if-match"] == '"tag"'

    run(work)


def test_a_read_that_keeps_breaking_fails(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def broken(request: Request) -> None:
            await broken_after(10)(request)

        server.will(*[broken] * 9)
        with pytest.raises(UnavailableError, match="closed"):
            await contents(await store.read("a", 0, len(DATA)))
        assert len(server.requests) == 4

    run(work)


def test_a_silent_store_is_given_up(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def silent(request: Request) -> None:
            await request.reader.read()

        server.will(silent, silent)
        with pytest.raises(UnavailableError, match=r"nothing came for 0\.05 seconds"):
            await store.read("a", 0, 10)
        assert len(server.requests) == 2

    run(work, Retries(2, 0.0, 0.0), silence=0.05)


def test_a_store_that_falls_silent_midway_is_asked_again(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def silent(request: Request) -> None:
            request.send(206, DATA[:5], length=len(DATA), content_range=content_range(DATA, 0, len(DATA)))
            await request.reader.read()

        server.will(silent)
        assert await contents(await store.read("a", 0, len(DATA))) == DATA

    run(work, silence=0.05)


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, "TooManyRequests")])
def test_a_busy_store_is_asked_again_and_then_reported(run: Run, status: int, code: str) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(refuse(status, code), refuse(status, code))
        assert await store.read("a", 0, 10) == DATA[:10]
        assert server.connections == 1
        server.will(*[refuse(status, code)] * 4)
        with pytest.raises(UnavailableError if status == 500 else BusyError, match='on "purpose"'):
            await store.read("a", 0, 10)
        assert len(server.requests) == 7

    run(work)


def test_a_store_says_how_long_to_wait(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(refuse(503, "SlowDown", retry_after="1"))
        begin = asyncio.get_running_loop().time()
        assert await store.read("a", 0, 10) == DATA[:10]
        assert asyncio.get_running_loop().time() >= begin + 0.2

    run(work, Retries(2, 0.0, 0.2))


@pytest.mark.parametrize(
    ("status", "code", "error", "sentence"),
    [
        (403, "AccessDenied", NotPermittedError, "do not allow it"),
        (404, "NoSuchKey", ObjectMissingError, "does not exist"),
        (404, "NoSuchBucket", UnavailableError, "no such bucket"),
        (403, "RequestTimeTooSkewed", UnavailableError, "clock is wrong"),
        (301, "PermanentRedirect", UnavailableError, "in another region; name that one \\(eu-north-1\\)"),
        (400, "KeyTooLongError", InvalidError, "refused"),
    ],
)
def test_a_refusal_is_explained_and_not_repeated(
    run: Run, status: int, code: str, error: type[Exception], sentence: str
) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(refuse(status, code, x_amz_bucket_region="eu-north-1"))
        with pytest.raises(error, match=sentence):
            await store.read("a", 0, 10)
        assert len(server.requests) == 1

    run(work)


def test_a_response_may_be_chunked(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def chunked(request: Request) -> None:
            request.writer.write(b"HTTP/1.1 206 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for begin in range(0, len(DATA), CHUNK):
                piece = DATA[begin : begin + CHUNK]
                request.writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await request.writer.drain()
            request.writer.write(b"0\r\n\r\n")

        server.will(chunked)
        assert await contents(await store.read("a", 0, len(DATA))) == DATA

    run(work)


def test_a_response_of_another_length_is_an_error(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def short(request: Request) -> None:
            request.send(206, DATA[:9], content_range=content_range(DATA, 0, 99))

        async def whole(request: Request) -> None:
            request.send(200, DATA)

        async def longer(request: Request) -> None:
            request.send(206, DATA[:100] + b"more", length=100, content_range=content_range(DATA, 0, 99))

        server.will(short)
        with pytest.raises(UnavailableError, match="too early"):
            await contents(await store.read("a", 0, 100))
        server.will(whole)
        with pytest.raises(UnavailableError, match="ignores the range"):
            await store.read("a", 0, 100)
        server.will(longer)
        assert await store.read("a", 0, 100) == DATA[:100]
        assert await store.read("a", 0, 100) == DATA[:100]

    run(work)


def test_an_object_that_is_too_short_is_damaged(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        with pytest.raises(CorruptError, match="3,145,728 bytes, and should have 3,145,729"):
            await store.read("a", 1, len(DATA))

    run(work)


def test_what_is_not_http_is_an_error(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def other(request: Request) -> None:
            request.writer.write(b"SSH-2.0-OpenSSH\r\n")

        server.will(other)
        with pytest.raises(UnavailableError, match="not HTTP"):
            await store.read("a", 0, 10)

    run(work, ONCE)


def test_a_connection_that_closes_when_it_is_used_again_costs_no_attempt(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        for _ in range(3):
            assert await store.read("a", 0, 10) == DATA[:10]
            server.will(reset)
        await put(store, DATA[:PIECE])
        assert server.objects["/bucket/lake/new"] == DATA[:PIECE]
        assert len(server.requests) == 7
        assert server.connections == 4

    run(work, ONCE)


def test_a_connection_is_kept_unless_the_server_ends_it(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def closing(request: Request) -> None:
            request.send(206, DATA[:10], connection="close", content_range=content_range(DATA, 0, 9))

        for _ in range(3):
            await store.read("a", 0, 10)
            await put(store, DATA[:10])
            await contents(await store.read("a", 0, len(DATA)))
        assert server.connections == 1
        server.will(closing)
        await store.read("a", 0, 10)
        await store.read("a", 0, 10)
        assert server.connections == 2

    run(work)


def test_a_read_that_is_left_closes_its_connection(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        ended = asyncio.Event()

        async def endless(request: Request) -> None:
            request.send(206, DATA[:CHUNK], length=len(DATA), content_range=content_range(DATA, 0, len(DATA)))
            await request.reader.read()
            ended.set()

        server.will(endless, endless)
        body = await store.read("a", 0, len(DATA))
        assert not isinstance(body, bytes)
        await body.aclose()
        await ended.wait()
        ended.clear()
        reading = asyncio.create_task(store.read("a", 0, 10))
        while len(server.requests) < 2:
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        await ended.wait()

    run(work)


def test_a_slow_reader_slows_down_the_store(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        blocked = asyncio.Event()

        async def long(request: Request) -> None:
            request.send(200, length=64 << 20)
            for _ in range(1024):
                request.writer.write(DATA[:CHUNK])
                if request.writer.transport.get_write_buffer_size() > CHUNK:  # the kernel's buffers are full
                    blocked.set()
                await request.writer.drain()

        server.will(long)
        connection = await HttpConnection.open("127.0.0.1", server.port, None)
        connection.send_head(b"GET / HTTP/1.1\r\n\r\n", 0)
        await connection.response(30)
        await blocked.wait()
        assert connection.buffered <= 2 * PIECE
        size = 0
        while piece := await connection.piece(30):
            size += len(piece)
            assert connection.buffered <= 2 * PIECE
        assert size == 64 << 20
        connection.close()

    run(work)
