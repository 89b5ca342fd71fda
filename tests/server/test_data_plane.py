"""Presigned URLs read and write one object's bytes, as S3 does, and nothing else."""

import asyncio
from base64 import b64encode
from hashlib import md5
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidError
from graveler.server.data_plane import DataPlane
from graveler.server.responses import ServerResponse
from graveler.server.threads import Threads
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.folder_names import HIDDEN
from graveler.storage.objects.folder_writer import FolderWriter
from graveler.storage.objects.port import StoredObject
from graveler.storage.objects.presigned import Grant, UrlSigner
from tests.server.support import AnyNamespace, arriving, request

SIGNER = UrlSigner("http://localhost:8000/objects", b"secret")
BYTES = bytes(range(256)) * 2000  # more than is answered in one piece


class Plane:
    """A store with presigned URLs, and what answers them."""

    def __init__(self, folder: Path, places: int = 2) -> None:
        self.folder = folder / "r"
        self.store = FolderObjects(self.folder, "local://r", SIGNER)
        self.answer = DataPlane(
            SIGNER, AnyNamespace(lambda name: FolderObjects(self.folder, name)), places, Threads("disk", 2)
        )

    def ask(self, method: str, url: str, body: bytes = b"", *, cut: bool = False, **headers: str) -> ServerResponse:
        target = url.removeprefix("http://localhost:8000")
        head = request(method, target, body, {name.replace("_", "-"): value for name, value in headers.items()})

        async def answered() -> ServerResponse:
            return await self.answer(head, arriving(body, cut=cut))

        return asyncio.run(answered())

    def get(self, key: str, method: str = "GET", **headers: str) -> ServerResponse:
        return self.ask(method, self.store.presign(key, "GET", 60), b"", cut=False, **headers)

    def put(self, key: str, body: bytes, *, cut: bool = False, **headers: str) -> ServerResponse:
        return self.ask("PUT", self.store.presign(key, "PUT", 60), body, cut=cut, **headers)


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    return Plane(tmp_path)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Plane:
    plane = Plane(tmp_path_factory.mktemp("filled"))
    plane.store.put("data/k", BYTES)
    return plane


def body_of(answer: ServerResponse) -> bytes:
    pieces = answer.body
    if isinstance(pieces, bytes):
        return pieces

    async def collected() -> bytes:
        return b"".join([piece async for piece in pieces])

    try:
        return asyncio.run(collected())
    finally:
        pieces.close()


def temporary_files(plane: Plane) -> list[Path]:
    return [path for path in (plane.folder / HIDDEN).rglob("*") if path.is_file() and path.parent.name != "locks"]


@settings(max_examples=60)
@given(start=st.integers(0, len(BYTES) + 10), length=st.integers(1, len(BYTES)))
def test_a_range_is_what_was_asked_for(filled: Plane, start: int, length: int) -> None:
    answer = filled.get("data/k", Range=f"bytes={start}-{start + length - 1}")
    headers = dict(answer.headers)
    if start >= len(BYTES):
        assert answer.status == 416
        assert headers["content-range"] == f"bytes */{len(BYTES)}"
        return
    expected = BYTES[start : start + length]
    assert answer.status == 206
    assert body_of(answer) == expected
    assert headers["content-length"] == str(len(expected))
    assert headers["content-range"] == f"bytes {start}-{start + len(expected) - 1}/{len(BYTES)}"


def test_the_whole_object_and_its_head(filled: Plane) -> None:
    answer, head = filled.get("data/k"), filled.get("data/k", "HEAD")
    assert body_of(answer) == BYTES
    assert head.body == b""
    assert answer.headers == head.headers
    assert {name for name, _ in head.headers} == {
        "accept-ranges",
        "content-length",
        "content-security-policy",
        "content-type",
        "etag",
        "last-modified",
        "x-content-type-options",
    }
    assert dict(filled.get("data/k", "HEAD", Range="bytes=0-0").headers)["content-range"] == f"bytes 0-0/{len(BYTES)}"


def test_conditions_of_a_read(filled: Plane) -> None:
    etag = dict(filled.get("data/k", "HEAD").headers)["etag"]
    assert filled.get("data/k", "HEAD", If_None_Match=etag).status == 304
    assert filled.get("data/k", "HEAD", If_None_Match='"other"').status == 200
    assert filled.get("data/k", "HEAD", If_Match='"other"').status == 412
    assert filled.get("data/k", "HEAD", If_Range=etag, Range="bytes=0-0").status == 206
    assert filled.get("data/k", "HEAD", If_Range='"other"', Range="bytes=0-0").status == 200


@pytest.mark.parametrize("size", [0, 1, 3 << 20])
def test_a_put_is_there_as_a_whole(plane: Plane, size: int) -> None:
    data = b"x" * size
    answer = plane.put(
        "a b/ü", data, Content_Type="application/octet-stream", X_Ms_Blob_Type="BlockBlob", Authorization="x"
    )
    assert answer.status == 200
    assert dict(answer.headers)["etag"] == f'"{md5(data).hexdigest()}"'
    assert plane.store.get("a b/ü") == data


def test_half_of_a_body_leaves_nothing(plane: Plane) -> None:
    assert plane.put("k", b"half", Content_Length="8").status == 400
    assert plane.put("k", bytes(1 << 20), cut=True, Content_Length="2000000").status == 400
    assert list(plane.store.list()) == []
    assert temporary_files(plane) == []


def test_a_wrong_digest_leaves_nothing(plane: Plane) -> None:
    assert plane.put("k", b"data", Content_Md5=b64encode(bytes(16)).decode()).status == 400
    assert plane.put("k", b"data", Content_Md5="?").status == 400
    assert list(plane.store.list()) == []
    assert plane.put("k", b"data", Content_Md5=b64encode(md5(b"data").digest()).decode()).status == 200


@pytest.mark.parametrize("size", [0, 3, 600_000])
@pytest.mark.parametrize("condition", [{}, {"If_None_Match": "*"}])
def test_bytes_that_are_there_are_never_replaced(plane: Plane, size: int, condition: dict[str, str]) -> None:
    mine, others, longer = b"m" * size, b"o" * size, b"m" * (size + 1)
    first = plane.put("data/k", mine, cut=False, **condition)
    again = plane.put("data/k", mine, cut=False, **condition)
    assert (first.status, again.status) == (200, 200)
    assert dict(again.headers)["etag"] == dict(first.headers)["etag"] == f'"{md5(mine).hexdigest()}"'
    for body in (others, longer) if size else (longer,):
        refused = plane.put("data/k", body, cut=False, **condition)
        assert refused.status == 412
        assert b"PreconditionFailed" in body_of(refused)
    assert plane.store.get("data/k") == mine
    assert temporary_files(plane) == []


@pytest.mark.parametrize("same", [True, False])
def test_of_two_that_put_at_once_the_first_one_stays(plane: Plane, monkeypatch: pytest.MonkeyPatch, same: bool) -> None:
    """Another upload ends while ours is on its way."""
    finish, others = FolderWriter.finish, iter([b"first"])

    def slow(writer: FolderWriter) -> StoredObject:
        for data in others:
            assert plane.put("data/k", data).status == 200
        return finish(writer)

    monkeypatch.setattr(FolderWriter, "finish", slow)
    assert plane.put("data/k", b"first" if same else b"other").status == (200 if same else 412)
    assert plane.store.get("data/k") == b"first"
    assert temporary_files(plane) == []


def test_put_if_there_is_none(plane: Plane) -> None:
    assert plane.put("k", b"first", If_None_Match="*").status == 200
    assert plane.put("k", b"second", If_None_Match="*").status == 412
    assert plane.put("k", b"third", If_None_Match='"etag"').status == 501
    assert plane.store.get("k") == b"first"


def test_a_body_without_length_is_refused(plane: Plane) -> None:
    assert plane.put("k", b"data", Transfer_Encoding="chunked").status == 411
    assert plane.put("k", b"data", Content_Length=str(6 << 30)).status == 413


def test_an_upload_in_parts(plane: Plane) -> None:
    upload = plane.store.create_multipart("big")
    etags = []
    for number, data in ((1, b"hello "), (2, b"world")):
        answer = plane.ask("PUT", plane.store.presign_part("big", upload, number, 60), data)
        assert answer.status == 200
        etags.append((number, dict(answer.headers)["etag"].strip('"')))
    plane.store.complete_multipart("big", upload, etags)
    assert plane.store.get("big") == b"hello world"
    assert plane.ask("PUT", plane.store.presign_part("big", upload, 3, 60), b"late").status == 404


def test_a_url_is_for_its_method_its_key_and_its_time(filled: Plane) -> None:
    url = filled.store.presign("data/k", "GET", 60)
    assert filled.ask("PUT", url, b"x").status == 403
    assert filled.ask("DELETE", url).status == 405
    assert filled.ask("GET", url.replace("data/k", "data/j")).status == 403
    assert filled.ask("GET", url.partition("?")[0]).status == 403
    assert filled.ask("GET", url.replace("local%3A%2F%2Fr", "file%3A%2F%2F")).status == 403
    assert filled.ask("GET", SIGNER.sign(Grant("local://r", "data/k"), "GET", 60, 1000)).status == 403
    assert filled.get("data/none").status == 404


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/passwd", "a//b", "x\0y", f"{HIDDEN}/x", "..", ""])
def test_hostile_keys_reach_no_file_even_when_signed(plane: Plane, key: str) -> None:
    (plane.folder.parent / "x").write_bytes(b"outside")
    with pytest.raises(InvalidError):
        plane.store.presign(key, "GET", 60)
    for method in ("GET", "PUT"):
        answer = plane.ask(method, SIGNER.sign(Grant("local://r", key), method, 60), b"new" if method == "PUT" else b"")
        assert answer.status == 400
    assert (plane.folder.parent / "x").read_bytes() == b"outside"


def test_an_encoded_slash_is_a_slash(filled: Plane) -> None:
    url = filled.store.presign("data/k", "GET", 60).replace("data/k", "data%2Fk")
    assert filled.ask("HEAD", url).status == 200
    assert filled.ask("GET", url.replace("data%2Fk", "..%2Fdata%2Fk")).status == 403


@given(query=st.text(alphabet="X-AmzExpiresDateGravelerSignatureNamespace=&%2F0123456789", max_size=80))
def test_no_made_up_query_opens_anything(filled: Plane, query: str) -> None:
    assert filled.ask("GET", f"/objects/data/k?{query}").status == 403


def test_when_all_places_are_taken_others_are_told_to_slow_down(filled: Plane) -> None:
    sending = [filled.get("data/k") for _ in range(2)]
    refused = filled.get("data/k")
    assert (refused.status, dict(refused.headers)["retry-after"]) == (503, "1")
    assert filled.get("data/k", Range="bytes=0-9").status == 206  # small ones need no place
    for answer in sending:
        assert not isinstance(answer.body, bytes)
        answer.body.close()  # as when the client has gone
    assert body_of(filled.get("data/k")) == BYTES
