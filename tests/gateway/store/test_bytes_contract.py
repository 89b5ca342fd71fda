"""The contract of the port *bytes*, over every store."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import pytest

from graveler.errors import CorruptError, InvalidError
from graveler.gateway.store.port import PIECE, SMALL, Bytes
from graveler.gateway.store.url_bytes import UrlBytes
from graveler.storage.objects.folder_names import HIDDEN
from graveler.storage.objects.port import ObjectMissingError, Objects, UploadMissingError
from graveler.storage.objects.s3 import S3Objects
from tests.gateway.store.stores import STORES, contents

SIZES = (0, 1, SMALL, SMALL + 1, PIECE, 3 * PIECE + 17, 5 << 20)
LARGE = os.urandom(5 << 20)

Law = Callable[[Objects, Bytes], Awaitable[None]]


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.ci if name == "signed_urls" else ()) for name in sorted(STORES)]
)
def law(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Law], None]:
    """Runs a coroutine with an empty store."""

    async def with_store(work: Law) -> None:
        async with STORES[request.param](tmp_path) as (objects, store):
            await work(objects, store)

    return lambda work: asyncio.run(with_store(work))


async def put(store: Bytes, key: str, data: bytes, step: int = 100_000) -> str:
    async with store.writer(key, len(data)) as writer:
        for begin in range(0, len(data), step):
            await writer.write(data[begin : begin + step])
        return (await writer.finish()).etag


@pytest.mark.parametrize("size", SIZES)
def test_bytes_are_read_as_they_were_written(law: Callable[[Law], None], size: int) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        etag = await put(store, "a/b ü+%41", LARGE[:size])
        stored = await asyncio.to_thread(objects.head, "a/b ü+%41")
        assert (stored.size, stored.etag) == (size, etag)
        assert await asyncio.to_thread(objects.get, "a/b ü+%41") == LARGE[:size]
        assert await contents(await store.read("a/b ü+%41", 0, size)) == LARGE[:size]

    law(work)


def test_ranges(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        await put(store, "a", LARGE)
        for start, length in ((0, 1), (5, 0), (len(LARGE) - 1, 1), (7, PIECE), (11, PIECE + SMALL), (1 << 20, 4 << 20)):
            assert await contents(await store.read("a", start, length)) == LARGE[start : start + length]

    law(work)


def test_pieces_are_small_and_not_empty(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        await put(store, "a", LARGE)
        body = await store.read("a", 0, len(LARGE))
        assert not isinstance(body, bytes)
        sizes = [len(piece) async for piece in body]
        await body.aclose()
        await body.aclose()
        assert min(sizes) > 0
        assert max(sizes) <= PIECE
        assert isinstance(await store.read("a", 0, SMALL), bytes)

    law(work)


def test_a_read_may_be_left_at_any_piece(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        await put(store, "a", LARGE)
        for amount in range(4):
            body = await store.read("a", 0, len(LARGE))
            assert not isinstance(body, bytes)
            pieces = aiter(body)
            for _ in range(amount):
                await anext(pieces)
            await body.aclose()
        assert await contents(await store.read("a", 0, len(LARGE))) == LARGE

    law(work)


def test_a_missing_object_is_reported_before_its_bytes(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        for length in (1, len(LARGE)):
            with pytest.raises(ObjectMissingError):
                await store.read("missing", 0, length)

    law(work)


def test_an_object_that_is_too_short_is_damaged(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        await put(store, "a", b"short")
        for start, length in ((0, 6), (5, 1), (1_000, 1), (0, len(LARGE)), (1_000, len(LARGE))):
            with pytest.raises(CorruptError, match="has 5 bytes"):
                await store.read("a", start, length)

    law(work)


def test_invalid_keys_are_refused_without_a_request(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        for key in ("", "a//b", "../a", "a\0", "k" * 1025):
            with pytest.raises(InvalidError):
                store.writer(key, 1)
            with pytest.raises(InvalidError):
                await store.read(key, 0, 1)
            if isinstance(store, UrlBytes):  # whoever signs the URL checks the key of a part
                continue
            with pytest.raises(InvalidError):
                store.part_writer(key, "id", 1, 1)
        for number in (0, 10_001):
            with pytest.raises(InvalidError):
                store.part_writer("a", "id", number, 1)

    law(work)


@pytest.mark.parametrize("size", SIZES)
def test_nothing_unfinished_is_visible_and_nothing_stays_of_it(law: Callable[[Law], None], size: int) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        async with store.writer("new", size) as writer:
            for begin in range(0, size, 100_000):
                await writer.write(LARGE[begin : min(size, begin + 100_000)])
            with pytest.raises(ObjectMissingError):
                await asyncio.to_thread(objects.head, "new")
        await writer.abort()
        with pytest.raises(ObjectMissingError):
            await asyncio.to_thread(objects.head, "new")

    law(work)


def test_a_write_of_another_length_than_declared_is_refused(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        for size in (10, len(LARGE) - 1):
            async with store.writer("a", size + 1) as writer:
                await writer.write(LARGE[:size])
                with pytest.raises(ValueError, match="1 of the declared"):
                    await writer.finish()
            async with store.writer("a", size) as writer:
                await writer.write(LARGE[: size - 5])
                with pytest.raises(ValueError, match="more than the declared"):
                    await writer.write(b"123456")
            with pytest.raises(ObjectMissingError):
                await asyncio.to_thread(objects.head, "a")

    law(work)


def test_a_write_that_is_cancelled_anywhere_leaves_nothing(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        async def write(amount: int) -> None:
            async with store.writer(f"cancelled-{amount}", len(LARGE)) as writer:
                for number, begin in enumerate(range(0, len(LARGE), 100_000)):
                    if number == amount:
                        asyncio.current_task().cancel()  # type: ignore[union-attr]
                    await writer.write(LARGE[begin : begin + 100_000])
                await asyncio.get_running_loop().create_future()

        for amount in (0, 1, 2, 3, 20):
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(write(amount))
            with pytest.raises(ObjectMissingError):
                await asyncio.to_thread(objects.head, f"cancelled-{amount}")

    law(work)


def test_an_object_is_replaced_as_a_whole(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        await put(store, "a", LARGE)
        async with store.writer("a", 5) as writer:
            await writer.write(b"other")
            assert await contents(await store.read("a", 0, len(LARGE))) == LARGE
            await writer.finish()
        assert await contents(await store.read("a", 0, 5)) == b"other"

    law(work)


def test_parts_become_an_object(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        upload_id = await asyncio.to_thread(objects.create_multipart, "parted")
        parts: list[tuple[int, str]] = []
        for number, data in ((2, b"end"), (1, b"replaced"), (1, LARGE)):
            async with store.part_writer("parted", upload_id, number, len(data)) as writer:
                await writer.write(data)
                parts.append((number, (await writer.finish()).etag))
        async with store.part_writer("parted", upload_id, 3, len(LARGE)) as writer:
            await writer.write(LARGE[:-1])
        await asyncio.to_thread(objects.complete_multipart, "parted", upload_id, [parts[2], parts[0]])
        assert await contents(await store.read("parted", 0, len(LARGE) + 3)) == LARGE + b"end"

    law(work)


def test_a_part_of_no_upload_is_refused(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        if isinstance(objects, S3Objects):
            pytest.skip("s3proxy takes any part; see test_s3_writes")
        upload_id = await asyncio.to_thread(objects.create_multipart, "a")
        await asyncio.to_thread(objects.abort_multipart, "a", upload_id)
        async with store.part_writer("a", upload_id, 1, 4) as writer:
            await writer.write(b"part")
            with pytest.raises(UploadMissingError):
                await writer.finish()

    law(work)


def test_copies(law: Callable[[Law], None]) -> None:
    async def work(objects: Objects, store: Bytes) -> None:
        await put(store, "a b/ü", LARGE)
        stored = await store.copy(store, "a b/ü", len(LARGE), "copied")
        assert stored.etag == (await asyncio.to_thread(objects.head, "copied")).etag
        assert sha256(await asyncio.to_thread(objects.get, "copied")).digest() == sha256(LARGE).digest()
        upload_id = await asyncio.to_thread(objects.create_multipart, "parted")
        part = await store.copy_part(store, "a b/ü", 100, len(LARGE) - 100, "parted", upload_id, 1)
        await asyncio.to_thread(objects.complete_multipart, "parted", upload_id, [(1, part.etag)])
        assert await asyncio.to_thread(objects.get, "parted") == LARGE[100:]
        with pytest.raises(ObjectMissingError):
            await store.copy(store, "missing", 1, "copied")

    law(work)


def test_a_link_in_a_folder_that_is_served_is_not_followed(tmp_path: Path) -> None:
    async def work() -> None:
        async with STORES["confined"](tmp_path) as (_, store):
            await put(store, "a/b", LARGE)
            (tmp_path / "objects/link").symlink_to(tmp_path / "objects/a/b")
            with pytest.raises(Exception, match="does not follow links"):
                await store.read("link", 1, len(LARGE) - 1)

    asyncio.run(work())


def test_an_aborted_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    async def work() -> None:
        async with STORES["folder"](tmp_path) as (_, store):
            for size in SIZES:
                async with store.writer("a", size) as writer:
                    await writer.write(LARGE[:size])
            for step in (100_000, len(LARGE)):
                writing = asyncio.create_task(put(store, "a", LARGE, step))
                await asyncio.sleep(0)
                writing.cancel()
                await asyncio.wait([writing])
        temporary = [path for path in tmp_path.rglob("*") if path.is_file() and HIDDEN in path.parts]
        assert [path for path in temporary if path.parent.name != "locks"] == []

    asyncio.run(work())
