"""The client of S3 beside a server and a network that fail: reads are whole or raise, nothing half-written gets its name, and
what can be repeated is."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from graveler.errors import AnswerLostError, BusyError, CorruptError, InvalidError, UnavailableError
from graveler.gateway.store.http_connection import HttpConnection
from graveler.gateway.store.port import PIECE, SMALL, Bytes
from graveler.gateway.store.s3_credentials import S3Credentials
from graveler.gateway.store.stores import ByteStores
from graveler.server.threads import Threads
from graveler.storage.objects.port import (
    NotPermittedError,
    ObjectConditionError,
    ObjectMissingError,
    StoredObject,
    UploadMissingError,
)
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.system.retries import Retries
from tests.gateway.store.scripted_s3 import (
    CHUNK,
    Request,
    ScriptedS3,
    content_range,
    make_certificate,
    refusal,
    refuse,
    reset,
    scripted_s3,
)
from tests.gateway.store.stores import contents
from tests.storage.adapters import CREDENTIALS
from tests.support.servers import REGION

QUICK = Retries(4, 0.0, 0.0)
ONCE = Retries(1, 0.0, 0.0)
DATA = os.urandom(3 << 20)
PATH = "/bucket/lake/a"

Work = Callable[[ScriptedS3, Bytes], Awaitable[None]]
Run = Callable[..., None]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def server(loop: asyncio.Runner) -> Iterator[ScriptedS3]:
    """One for all tests: the SDK takes long to make a client for another address."""
    block = scripted_s3()
    yield loop.run(block.__aenter__())
    loop.run(block.__aexit__(None, None, None))


@pytest.fixture
def run(loop: asyncio.Runner, server: ScriptedS3) -> Run:
    """Runs a test with a server, and a store on it."""

    async def with_store(work: Work, retries: Retries = QUICK, silence: float = 30) -> None:
        server.begin({PATH: DATA})
        await in_store(server, work, retries, silence)
        await server.end()

    return lambda work, *settings, **named: loop.run(with_store(work, *settings, **named))


async def in_store(server: ScriptedS3, work: Work, retries: Retries = QUICK, silence: float = 30) -> None:
    disk = Threads("disk", 1)
    stores = ByteStores(disk)
    try:
        await work(server, store_of(stores, server, retries, silence))
    finally:
        stores.close()
        disk.close()


def store_of(stores: ByteStores, server: ScriptedS3, retries: Retries = QUICK, silence: float = 30) -> Bytes:
    settings = S3Settings(REGION, server.url, retries=retries, read_timeout=silence)
    return stores.of(S3Objects("bucket", "lake", settings))


@pytest.fixture(autouse=True)
def credentials() -> Iterator[None]:
    with patch.dict(os.environ, CREDENTIALS):
        yield


async def put(store: Bytes, data: bytes, **checksums: str) -> StoredObject:
    async with store.writer("new", len(data), checksums) as writer:
        for begin in range(0, len(data), CHUNK):
            await writer.write(data[begin : begin + CHUNK])
        return await writer.finish()


def broken_after(amount: int) -> Callable[[Request], Awaitable[None]]:
    """Send so many bytes of the object, then end the connection."""

    async def answer(request: Request) -> None:
        start, end = (int(number) for number in request.headers["range"].removeprefix("bytes=").split("-"))
        body = DATA[start : start + amount]
        request.send(206, body, length=end + 1 - start, etag='"tag"', content_range=content_range(DATA, start, end))
        await request.writer.drain()
        request.writer.close()

    return answer


# Reads


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


# Writes


@pytest.mark.parametrize("size", [0, 10, PIECE, 3 * PIECE])
def test_a_write_is_repeated_as_a_whole(run: Run, size: int) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(reset, refuse(503, "SlowDown"), refuse(500, "InternalError"))
        stored = await put(store, DATA[:size])
        assert server.objects["/bucket/lake/new"] == DATA[:size]
        assert (stored.key, stored.size, len(stored.etag)) == ("new", size, 32)
        assert len(server.requests) == 4

    run(work)


def test_a_long_write_is_repeated_only_from_its_beginning(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(refuse(503, "SlowDown"))
        with pytest.raises(BusyError, match="stayed busy"):
            await put(store, DATA)
        server.will(refuse(500, "InternalError"))
        with pytest.raises(AnswerLostError):
            await put(store, DATA)
        assert len(server.requests) == 2

    run(work)


def test_a_refusal_before_the_end_of_the_body_ends_the_write(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def early(request: Request) -> None:
            request.send(*refusal(403, "AccessDenied"))
            await request.reader.read()

        server.will(early)
        with pytest.raises(NotPermittedError):
            await put(store, DATA * 20)
        await put(store, DATA)
        assert server.connections == 2

    run(work)


def test_a_write_of_no_upload(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(refuse(404, "NoSuchUpload"))
        async with store.part_writer("a", "the id/", 7, 4) as writer:
            await writer.write(b"part")
            with pytest.raises(UploadMissingError):
                await writer.finish()
        assert server.requests[0].target == f"{PATH}?partNumber=7&uploadId=the%20id%2F"

    run(work)


def test_checksums_are_forwarded(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        await put(store, b"data", **{"x-amz-checksum-crc32": "rfPzUw==", "content-md5": "jXd/OF09/siBXSD3SWAm3A=="})
        headers = server.requests[0].headers
        assert headers["x-amz-checksum-crc32"] == "rfPzUw=="
        assert headers["content-md5"] == "jXd/OF09/siBXSD3SWAm3A=="
        assert "host;x-amz-checksum-crc32;x-amz-content-sha256" in headers["authorization"]

    run(work)


def test_the_last_bytes_are_sent_at_the_end(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        arrived: list[int] = []

        async def cut_short(request: Request) -> None:
            try:
                await request.read()
            except asyncio.IncompleteReadError as error:
                arrived.append(len(error.partial))
                raise

        server.will(cut_short)
        async with store.writer("new", len(DATA)) as writer:
            await writer.write(DATA)
        async with store.writer("new", len(DATA)) as writer:
            await writer.write(DATA[: 2 * PIECE])
            await writer.write(DATA[2 * PIECE :])
        while not arrived:
            await asyncio.sleep(0)
        assert arrived[0] <= 2 * PIECE
        assert "/bucket/lake/new" not in server.objects

    run(work)


def test_a_slow_store_slows_down_the_writer(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def stopped(request: Request) -> None:
            await asyncio.get_running_loop().create_future()

        server.will(stopped)
        sent = 0

        async def write() -> None:
            nonlocal sent
            async with store.writer("new", 256 << 20) as writer:
                while sent < 256 << 20:
                    await writer.write(DATA[:CHUNK])
                    sent += CHUNK

        with pytest.raises(AnswerLostError, match="nothing came for"):
            await write()
        assert sent < 64 << 20  # what the kernel's buffers take

    run(work, ONCE, silence=0.2)


def test_a_long_write_arrives_as_a_whole(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        stored = await put(store, DATA * 20)
        assert server.objects["/bucket/lake/new"] == DATA * 20
        assert stored.size == len(DATA) * 20

    run(work)


@pytest.mark.parametrize("body", [b"", refusal(200, "InternalError")[1], b"<CopyObjectResult>"])
def test_a_copy_that_fails_after_its_status_is_repeated(run: Run, body: bytes) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def late_failure(request: Request) -> None:
            request.send(200, b"   " + body)

        async def copied(request: Request) -> None:
            request.send(200, b"<CopyObjectResult><ETag>&quot;abc-2&quot;</ETag></CopyObjectResult>")

        server.will(late_failure, copied)
        assert (await store.copy(store, "a b", 10, "new")).etag == "abc-2"
        assert server.requests[1].headers["x-amz-copy-source"] == "/bucket/lake/a%20b"
        server.will(refuse(404, "NoSuchKey"))
        with pytest.raises(ObjectMissingError, match="lake/a b"):
            await store.copy(store, "a b", 10, "new")

    run(work)


# Servers and credentials


def test_an_unreachable_store(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        port, server.port = server.port, 1
        disk = Threads("disk", 1)
        with pytest.raises(UnavailableError, match=r"cannot be reached.*127\.0\.0\.1:1"):
            await store_of(ByteStores(disk), server).read("a", 0, 10)
        server.port = port
        disk.close()

    run(work)


def test_a_temporary_redirect_is_followed(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async with scripted_s3() as other:
            other.objects[PATH] = DATA
            server.will(*[refuse(307, "TemporaryRedirect", location=f"{other.url}{PATH}")] * 2)
            assert await store.read("a", 0, 10) == DATA[:10]
            await put(store, DATA[:100])
            assert other.objects["/bucket/lake/new"] == DATA[:100]
            assert other.requests[0].headers["host"] == f"127.0.0.1:{other.port}"
            assert await store.read("a", 0, 10) == DATA[:10]
            assert (len(server.requests), len(other.requests)) == (3, 2)

    run(work, ONCE)


def test_redirects_that_lead_nowhere(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        for location in ("", "/bucket/lake/a", "ftp://elsewhere/a"):
            server.will(refuse(307, "TemporaryRedirect", location=location))
            with pytest.raises(UnavailableError, match="TemporaryRedirect"):
                await store.read("a", 0, 10)
        server.will(*[refuse(307, "TemporaryRedirect", location=f"{server.url}{PATH}")] * 2)
        with pytest.raises(UnavailableError, match="TemporaryRedirect"):
            await store.read("a", 0, 10)

    run(work)


def test_a_certificate_must_be_trusted(tmp_path: Path) -> None:
    certificate, public = make_certificate(tmp_path), str(tmp_path / "public.pem")

    async def trusted(server: ScriptedS3, store: Bytes) -> None:
        assert await contents(await store.read("a", 0, len(DATA))) == DATA
        await put(store, DATA)
        assert server.objects["/bucket/lake/new"] == DATA
        assert server.connections == 1

    async def distrusted(server: ScriptedS3, store: Bytes) -> None:
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            await store.read("a", 0, 10)
        assert server.requests == []

    async def with_server(work: Work) -> None:
        async with scripted_s3(certificate) as server:
            server.begin({PATH: DATA})
            await in_store(server, work)

    with patch.dict(os.environ, {"AWS_CA_BUNDLE": public}):
        asyncio.run(with_server(trusted))
    asyncio.run(with_server(distrusted))


def test_expired_credentials_are_looked_up_again(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def expired(request: Request) -> None:
            os.environ["AWS_ACCESS_KEY_ID"] = "renewed"
            await refuse(400, "ExpiredToken")(request)

        server.will(expired)
        assert await store.read("a", 0, 10) == DATA[:10]
        keys = [request.headers["authorization"].partition("Credential=")[2][:7] for request in server.requests]
        assert keys == [CREDENTIALS["AWS_ACCESS_KEY_ID"][:7], "renewed"]
        server.will(*[refuse(400, "ExpiredToken")] * 2)
        with pytest.raises(UnavailableError, match="credentials have expired"):
            await store.read("a", 0, 10)
        assert len(server.requests) == 4

    run(work, ONCE)


def test_credentials_are_renewed_in_the_background_before_they_end(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        answers = 0

        async def answer(request: Request) -> None:
            nonlocal answers
            answers += 1
            end = datetime.now(UTC) + timedelta(minutes=12 if answers < 3 else 60)
            document = {"AccessKeyId": f"key{answers}", "SecretAccessKey": "secret", "Token": f"token{answers}"}
            request.send(200, json.dumps({**document, "Expiration": end.isoformat()}).encode())

        server.will(answer, answer, answer)
        os.environ.pop("AWS_ACCESS_KEY_ID")
        os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.url
        credentials = S3Credentials(REGION)
        old = await credentials.signer()
        assert old.sign("GET", "/", {})["x-amz-security-token"] == "token2"  # the SDK renews once when it looks them up
        assert await credentials.signer() is old
        while (signer := await credentials.signer()) is old:
            await asyncio.sleep(0)
        assert signer.sign("GET", "/", {})["x-amz-security-token"] == "token3"
        assert await credentials.signer() is signer
        assert answers == 3

    run(work)


def test_missing_credentials_are_named(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        os.environ.pop("AWS_ACCESS_KEY_ID")
        with pytest.raises(UnavailableError, match="no AWS credentials were found"):
            await store.read("a", 0, 10)
        assert server.requests == []

    run(work)
