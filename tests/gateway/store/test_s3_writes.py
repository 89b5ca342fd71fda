"""Writes beside a store and a network that fail: nothing half-written gets its name, and what can be repeated is."""

import asyncio
from hashlib import md5

import pytest

from graveler.errors import AnswerLostError, BusyError
from graveler.gateway.store.port import PIECE, Bytes
from graveler.gateway.writing import checksum_of
from graveler.storage.objects.port import (
    NotPermittedError,
    ObjectMissingError,
    UploadMissingError,
)
from tests.gateway.store.faulty import DATA, ONCE, PATH, Run, put
from tests.gateway.store.scripted_s3 import (
    CHUNK,
    Request,
    ScriptedS3,
    refusal,
    refuse,
    reset,
)


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


def test_etags_are_trusted_as_md5_only_if_the_last_one_was(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        assert not store.etags_are_md5
        for headers, is_md5 in (
            ({}, True),
            ({"x_amz_server_side_encryption": "aws:kms"}, False),
            ({}, True),
            ({"etag": f'"{"f" * 32}"'}, False),
        ):

            async def answer(request: Request, headers: dict[str, str] = headers) -> None:
                etag = f'"{md5(await request.read()).hexdigest()}"'
                request.send(200, b"", **{"etag": etag, **headers})  # type: ignore[arg-type]  # length is none of them

            server.will(answer)
            stored = await put(store, DATA[:10])
            store.compare_etag(stored, md5(DATA[:10]).hexdigest())
            assert store.etags_are_md5 is is_md5
            assert (checksum_of(stored) == stored.etag) is ("x_amz_server_side_encryption" not in headers)

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
