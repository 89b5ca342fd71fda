"""The bytes of objects on their way: URLs, ranges, broken transfers, checksums."""

import time
from hashlib import md5
from pathlib import Path

import msgspec
import pytest

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    BytesGoneError,
    CorruptError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
)
from graveler.model import ObjectEntry
from graveler.remote import connection as connections
from graveler.remote import transfers
from graveler.remote.connection import Connection
from graveler.remote.repository import RemoteRepository
from graveler.wire.config_documents import Config, StorageConfig, VersionConfig
from graveler.wire.error_documents import document as error_document
from tests.remote.scripted import Reply, Scripted

DATA = bytes(range(256)) * 8
ENTRY = ObjectEntry("a", "s3://b/x", len(DATA), md5(DATA).hexdigest(), 7)


def config(*, presigns: bool) -> Reply:
    store = StorageConfig(
        blockstore_type="local",
        blockstore_namespace_example="local://example/",
        default_namespace_prefix="local://",
        pre_sign_support=presigns,
        pre_sign_support_ui=False,
        import_support=True,
        import_validity_regex=".*",
        pre_sign_multipart_upload=False,
        blockstore_namespace_pattern=".*",
    )
    return Reply(200, msgspec.json.encode(Config(VersionConfig(), store)))


CONFIG = config(presigns=True)


def stat(script: Scripted, *, expires: float = 900, **changed: object) -> Reply:
    document = {
        "path": "a",
        "physical_address": f"{script.url}/bucket/x?signature=hidden",
        "physical_address_expiry": int(time.time() + expires),
        "checksum": ENTRY.checksum,
        "size_bytes": len(DATA),
        "mtime": 7,
    }
    return Reply(200, msgspec.json.encode(document | changed))


@pytest.fixture
def repository(connection: Connection) -> RemoteRepository:
    return RemoteRepository(connection, "r")


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are handed on 64 at a time."""
    monkeypatch.setattr(connections, "_PIECE", 64)


def test_bytes_come_from_the_url_without_the_access_key(script: Scripted, repository: RemoteRepository) -> None:
    script.will(CONFIG, stat(script), Reply(200, DATA), Reply(206, DATA[5:15]))
    assert b"".join(repository.bytes_in("main", ENTRY)) == DATA
    assert b"".join(repository.bytes_in("main", ENTRY, 5, 10)) == DATA[5:15]
    *_, whole, part = script.asked
    assert "authorization" not in whole.headers
    assert "range" not in whole.headers
    assert part.headers["range"] == "bytes=5-14"
    assert len(script.asked) == 4, "the URL is asked for once"


def test_a_url_that_expires_is_asked_for_anew(script: Scripted, repository: RemoteRepository) -> None:
    script.will(CONFIG, stat(script, expires=30), Reply(200, DATA), stat(script), Reply(200, DATA))
    for _ in range(2):
        assert b"".join(repository.bytes_in("main", ENTRY)) == DATA
    assert script.replies == []


@pytest.mark.usefixtures("small_pieces")
def test_a_transfer_that_breaks_goes_on_where_it_ended(script: Scripted, repository: RemoteRepository) -> None:
    script.will(CONFIG, stat(script), Reply(200, DATA[:100], cut=len(DATA) - 100), Reply(503), Reply(206, DATA[64:]))
    assert b"".join(repository.bytes_in("main", ENTRY)) == DATA
    assert [asked.headers.get("range") for asked in script.asked[2:]] == [None, "bytes=64-", "bytes=64-"]


@pytest.mark.usefixtures("small_pieces")
def test_a_transfer_goes_on_by_another_url_when_its_own_has_expired(
    script: Scripted, repository: RemoteRepository
) -> None:
    broken = Reply(206, DATA[10:110], cut=len(DATA) - 110)
    fresh = stat(script, physical_address=f"{script.url}/bucket/x?signature=fresh")
    script.will(CONFIG, stat(script, expires=30), broken, Reply(403), fresh, Reply(206, DATA[74:]))
    assert b"".join(repository.bytes_in("main", ENTRY, 10)) == DATA[10:]
    assert [asked.headers.get("range") for asked in script.asked[2:]] == ["bytes=10-", "bytes=74-", None, "bytes=74-"]
    assert script.asked[-1].target == "/bucket/x?signature=fresh"


def test_a_url_that_never_worked_is_refused(script: Scripted, repository: RemoteRepository) -> None:
    script.will(CONFIG, stat(script, expires=30), Reply(403))
    with pytest.raises(ForbiddenError):
        list(repository.bytes_in("main", ENTRY))
    assert script.replies == []


@pytest.mark.usefixtures("small_pieces")
def test_a_store_that_knows_no_ranges_does_not_double_bytes(script: Scripted, repository: RemoteRepository) -> None:
    script.will(CONFIG, stat(script), Reply(200, DATA[:100], cut=len(DATA) - 100), Reply(200, DATA))
    with pytest.raises(UnavailableError, match="only whole objects"):
        b"".join(repository.bytes_in("main", ENTRY))
    script.will(Reply(200, DATA), Reply(200, DATA))
    with pytest.raises(UnavailableError, match="only whole objects"):
        b"".join(repository.bytes_in("main", ENTRY, 0, 10))
    assert b"".join(repository.bytes_in("main", ENTRY, 0, len(DATA))) == DATA


def test_a_transfer_that_goes_on_breaking_is_told_without_the_signature(
    script: Scripted, repository: RemoteRepository
) -> None:
    script.will(CONFIG, stat(script), *[Reply(500, b"<Error/>")] * 3)
    with pytest.raises(UnavailableError) as told:
        b"".join(repository.bytes_in("main", ENTRY))
    assert "/bucket/x" in str(told.value)
    assert "hidden" not in str(told.value)


def test_an_object_that_was_replaced_is_not_mixed_with_the_new_one(
    script: Scripted, repository: RemoteRepository
) -> None:
    script.will(CONFIG, stat(script, checksum="0" * 32))
    with pytest.raises(BusyError, match="was replaced in 'main'"):
        repository.bytes_in("main", ENTRY)


def test_bytes_that_the_store_has_not_any_more_are_told(script: Scripted, repository: RemoteRepository) -> None:
    script.will(CONFIG, stat(script), Reply(404, b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>"))
    with pytest.raises(
        BytesGoneError, match="the bytes of object 'a' in 'main' are gone: there is no longer anything at "
    ):
        list(repository.bytes_in("main", ENTRY))


def test_an_empty_object_is_no_request(script: Scripted, repository: RemoteRepository) -> None:
    empty = msgspec.structs.replace(ENTRY, size=0)
    assert b"".join(repository.bytes_in("main", empty)) == b""
    assert script.asked == []


def test_without_urls_bytes_come_through_the_server(script: Scripted, repository: RemoteRepository) -> None:
    etag = {"ETag": f'"{ENTRY.checksum}"'}
    script.will(config(presigns=False), Reply(206, DATA[10:], etag))
    assert b"".join(repository.bytes_in("main", ENTRY, 10)) == DATA[10:]
    assert script.asked[-1].headers["range"] == f"bytes=10-{len(DATA) - 1}"
    for replaced in (Reply(206, DATA, {"ETag": '"other"'}), Reply(416, b'{"message": "range lies outside"}')):
        script.will(replaced)
        with pytest.raises(BusyError, match="was replaced"):
            b"".join(repository.bytes_in("main", ENTRY))


def place(script: Scripted) -> Reply:
    address = {"physical_address": "s3://b/x", "presigned_url": f"{script.url}/put?signature=hidden"}
    return Reply(200, msgspec.json.encode(address))


def test_an_upload_goes_to_the_url_and_is_then_linked(
    script: Scripted, repository: RemoteRepository, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(DATA)
    linked = stat(script, physical_address="s3://b/x")
    etag = {"ETag": f'"{ENTRY.checksum}"'}
    for data in (DATA, file):
        # Broken once, the whole file is sent again.
        script.will(place(script), Reply(0), Reply(200, b"", etag), linked)
        made = repository.upload("main", "a", data, content_type="text/x", metadata={"k": "v"}, if_absent=True)
        assert made == ENTRY
        _, first, again, link = script.asked[-4:]
        assert (first.body, again.body) == (DATA, DATA)
        assert "authorization" not in again.headers
        assert link.headers["if-none-match"] == "*"
        assert msgspec.json.decode(link.body) == {
            "staging": {"physical_address": "s3://b/x"},
            "checksum": ENTRY.checksum,
            "size_bytes": len(DATA),
            "user_metadata": {"k": "v"},
            "content_type": "text/x",
            "force": False,
        }


def test_bytes_that_did_not_arrive_as_they_were_sent_are_not_linked(
    script: Scripted, repository: RemoteRepository
) -> None:
    script.will(place(script), Reply(200, b"", {"ETag": f'"{"0" * 32}"'}))
    with pytest.raises(CorruptError, match="nothing was staged"):
        repository.upload("main", "a", DATA)
    assert script.replies == []
    encrypted = {"ETag": f'"{"0" * 32}"', "x-amz-server-side-encryption": "aws:kms"}
    script.will(place(script), Reply(200, b"", encrypted), stat(script))
    repository.upload("main", "a", DATA)


def test_a_store_that_refuses_and_a_path_that_is_taken_are_told(
    script: Scripted, repository: RemoteRepository, tmp_path: Path
) -> None:
    script.will(place(script), Reply(403, b"<Code>AccessDenied</Code>"))
    with pytest.raises(UnavailableError, match="AccessDenied") as told:
        repository.upload("main", "a", DATA)
    assert "hidden" not in str(told.value)
    taken = msgspec.json.encode(error_document(AlreadyExistsError("object", "a"), "path already exists"))
    script.will(place(script), Reply(200, b"", {"ETag": f'"{ENTRY.checksum}"'}), Reply(412, taken))
    with pytest.raises(AlreadyExistsError):
        repository.upload("main", "a", DATA, if_absent=True)
    with pytest.raises(NotFoundError):
        repository.upload("main", "a", tmp_path / "nothing")


def test_a_very_large_file_goes_in_parts(
    script: Scripted, repository: RemoteRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "MAX_WHOLE", 1000)
    monkeypatch.setattr(transfers, "PART", 1024)
    file = tmp_path / "file"
    file.write_bytes(DATA)
    to = Reply(200, msgspec.json.encode({"presigned_url": f"{script.url}/part"}))
    begun = Reply(201, b'{"upload_id": "u", "physical_address": "s3://b/x"}')
    parts = [Reply(200, b"", {"ETag": f'"{md5(DATA[at : at + 1024]).hexdigest()}"'}) for at in (0, 1024)]
    script.will(begun, to, parts[0], to, parts[1], stat(script))
    repository.upload("main", "a", file)
    assert [asked.body for asked in script.asked if asked.target == "/part"] == [DATA[:1024], DATA[1024:]]
    completed = msgspec.json.decode(script.asked[-1].body)
    assert [part["part_number"] for part in completed["parts"]] == [1, 2]
    script.will(begun, to, Reply(403), Reply(204))
    with pytest.raises(UnavailableError):
        repository.upload("main", "a", file)
    assert script.asked[-1].method == "DELETE", "and what was uploaded is forgotten"
