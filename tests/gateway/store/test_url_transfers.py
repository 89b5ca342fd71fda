"""Transfers by signed URLs beside a store and a network that fail: the bytes are whole, or an error says why not."""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from graveler.errors import BusyError, CorruptError, GravelerError, UnavailableError, UploadNotFoundError
from graveler.gateway.store.port import PIECE, SMALL, Bytes, UrlObjects
from graveler.gateway.store.url_bytes import UrlBytes
from graveler.gateway.store.url_client import UrlClient
from graveler.location.environment import Network
from graveler.storage.objects.port import NotPermittedError, ObjectMissingError, UploadMissingError
from graveler.system.retries import Retries
from tests.gateway.store.faulty import DATA, PATH, QUICK, broken_after, put
from tests.gateway.store.scripted_s3 import Request, ScriptedS3, make_certificate, refusal, refuse, reset, scripted_s3
from tests.gateway.store.stores import contents
from tests.remote.proxied import proxying

Run = Callable[..., None]


@pytest.fixture
def run(loop: asyncio.Runner, server: ScriptedS3) -> Run:
    """Runs a test with a server, and a store of which it has URLs."""

    async def with_store(
        work: Callable[[ScriptedS3, Bytes], Awaitable[None]], retries: Retries = QUICK, silence: float = 30
    ) -> None:
        server.begin({PATH: DATA})
        client = UrlClient(Network(), retries, silence)

        def part_url(key: str, upload_id: str, number: int) -> str:
            if upload_id == "none":
                raise UploadNotFoundError(key, "main", upload_id)
            return f"{server.url}/bucket/lake/{key}?number={number}&signature=secret"

        store = UrlObjects("there", lambda _, key: f"{server.url}/bucket/lake/{key}?signature=secret", part_url)
        try:
            await work(server, UrlBytes(store, client))
        finally:
            client.close()
        await server.end()

    return lambda work, *settings, **named: loop.run(with_store(work, *settings, **named))


@pytest.mark.parametrize("size", [1, SMALL, len(DATA)])
def test_a_read_is_repeated_when_the_connection_is_reset(run: Run, size: int) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(reset, reset)
        assert await contents(await store.read("a", 0, size)) == DATA[:size]
        assert len(server.requests) == 3

    run(work)


def test_a_read_that_breaks_midway_goes_on_where_it_broke_with_the_same_object(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(broken_after(40_000))
        with pytest.raises(UnavailableError, match="purpose"):
            await contents(await store.read("a", 7, len(DATA) - 7))
        last = server.requests[-1].headers
        assert (last["range"], last["if-match"]) == (f"bytes=40007-{len(DATA) - 1}", '"tag"')

    run(work)


def test_a_silent_store_is_given_up(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def silent(request: Request) -> None:
            await request.reader.read()

        server.will(silent, silent)
        with pytest.raises(UnavailableError, match="nothing came"):
            await store.read("a", 0, 10)
        assert len(server.requests) == 2

    run(work, Retries(2, 0.0, 0.0), silence=0.05)


@pytest.mark.parametrize(
    ("status", "code", "requests", "error"),
    [
        (404, "NoSuchKey", 1, ObjectMissingError),
        (403, "AccessDenied", 1, NotPermittedError),
        (403, "ExpiredToken", 1, UnavailableError),
        (500, "DamagedObject", 1, CorruptError),
        (503, "SlowDown", 4, BusyError),
        (500, "InternalError", 4, UnavailableError),
    ],
)
def test_a_refusal_is_explained_without_the_url(
    run: Run, status: int, code: str, requests: int, error: type[GravelerError]
) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(*[refuse(status, code)] * requests)
        with pytest.raises(error) as failure:
            await store.read("a", 0, 10)
        assert "secret" not in str(failure.value)
        assert len(server.requests) == requests

    run(work)


@pytest.mark.parametrize("size", [0, 10, 3 * PIECE])
def test_a_write_is_repeated_as_a_whole(run: Run, size: int) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(reset, refuse(503, "SlowDown"), refuse(500, "InternalError"))
        stored = await put(store, DATA[:size])
        assert server.objects["/bucket/lake/new"] == DATA[:size]
        assert (stored.size, len(stored.etag)) == (size, 32)

    run(work)


def test_a_long_write_is_not_repeated(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(refuse(503, "SlowDown"))
        with pytest.raises(BusyError):
            await put(store, DATA)
        assert len(server.requests) == 1
        await put(store, DATA)
        assert server.objects["/bucket/lake/new"] == DATA

    run(work)


def test_a_refusal_before_the_end_of_the_body_ends_the_write(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def early(request: Request) -> None:
            request.send(*refusal(403, "AccessDenied"))
            await request.reader.read()

        server.will(early)
        with pytest.raises(NotPermittedError):
            await put(store, DATA * 20)

    run(work)


def test_a_part_of_no_upload_is_refused_by_the_lake_or_by_the_store(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        server.will(refuse(404, "NoSuchUpload"))
        for upload_id, error in (("id", UploadMissingError), ("none", UploadNotFoundError)):
            async with store.part_writer("a", upload_id, 7, 4) as writer:
                await writer.write(b"part")
                with pytest.raises(error):
                    await writer.finish()
        assert len(server.requests) == 1

    run(work)


def test_no_header_is_sent_that_would_have_to_be_signed(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        await put(store, b"data", **{"x-amz-checksum-crc32": "rfPzUw==", "content-md5": "jXd/OF09/siBXSD3SWAm3A=="})
        headers = server.requests[0].headers
        assert headers["content-md5"] == "jXd/OF09/siBXSD3SWAm3A=="
        assert not [name for name in headers if name.startswith("x-amz")]

    run(work)


def store_of(client: UrlClient, url: str) -> UrlBytes:
    """The objects whose URLs begin like this."""

    def no_parts(key: str, upload_id: str, number: int) -> str:
        raise UploadNotFoundError(key, "main", f"{upload_id}/{number}")

    return UrlBytes(UrlObjects("there", lambda _, key: f"{url}/bucket/lake/{key}?signed", no_parts), client)


def test_bytes_go_through_the_proxy_with_its_credentials(loop: asyncio.Runner, server: ScriptedS3) -> None:
    async def work() -> None:
        server.begin({PATH: DATA})
        with proxying(server.port) as proxy:
            client = UrlClient(Network(proxies={"http": proxy.url.replace("://", "://me:p%40ss@")}), QUICK)
            body = await store_of(client, "http://bucket.test").read("a", 0, len(DATA))
            assert await contents(body) == DATA
            client.close()
            assert proxy.asked == ["GET http://bucket.test/bucket/lake/a?signed"]
            assert proxy.credentials == [f"Basic {b64encode(b'me:p@ss').decode()}"]
            assert server.requests[0].headers["host"] == "bucket.test"
            await server.end()

    loop.run(work())


@pytest.mark.ci
def test_only_servers_with_a_trusted_certificate_get_the_request(loop: asyncio.Runner, tmp_path: Path) -> None:
    async def work() -> None:
        certificate = make_certificate(tmp_path)
        async with scripted_s3(certificate) as server:
            server.begin({PATH: DATA})
            trusting = UrlClient(Network(certificates=str(certificate)), QUICK)
            assert await contents(await store_of(trusting, server.url).read("a", 0, len(DATA))) == DATA
            trusting.close()
            strict = UrlClient(Network(), QUICK)
            with pytest.raises(UnavailableError, match="certificate"):
                await store_of(strict, server.url).read("a", 0, 10)
            assert server.connections <= 2
            assert len(server.requests) == 1

    loop.run(work())
