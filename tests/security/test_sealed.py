"""6: a reader of the table alone forges nothing."""

import hmac
import json
import os
import shutil
import sqlite3
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from unittest.mock import patch

import pytest

from graveler.access.keys import Keys
from graveler.errors import CorruptError, NotFoundError
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.storage.objects.presigned import Grant, UrlSigner
from graveler.storage.objects.s3 import S3Settings
from graveler.storage.secrets.keyring import RECORD, SIGNING, TOKEN_SECRET, URL_SECRET, SealingKeyLostError
from graveler.storage.tables.port import Key, Put
from tests.cli.support import done, run
from tests.security.strangers import act, let_through
from tests.server.support import KEY_ID, SECRET, Running, running, started
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.servers import REGION, dynamodb_local, s3proxy

HEADER = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
REPOSITORY = {"name": "sales", "storage_namespace": "local://sales"}


def logged_in(server: Running) -> str:
    """A token of the server's key."""
    answer = server.ask_json("POST", "/api/v1/auth/login", {"access_key_id": KEY_ID, "secret_access_key": SECRET})
    token: str = answer.json()["token"]
    return token


def user(server: Running, token: str) -> int:
    """The status of asking who has the token."""
    headers = {"authorization": f"Bearer {token}"}
    return server.ask("GET", "/api/v1/user", headers=headers, authorised=False).status


def uploaded(server: Running) -> str:
    """A presigned URL of an object."""
    objects = "/api/v1/repositories/sales/branches/main/objects?path=a"
    assert server.ask("POST", objects, b"bytes", {"content-type": "application/octet-stream"}).status == 201
    stat = server.ask("GET", "/api/v1/repositories/sales/refs/main/objects/stat?path=a&presign=true")
    url: str = stat.json()["physical_address"]
    return url


def forged(secret: bytes, token: str) -> str:
    """A token like that one, signed anew."""
    signed = token.rpartition(".")[0]
    return f"{signed}.{urlsafe_b64encode(hmac.digest(secret, signed.encode(), sha256)).rstrip(b'=').decode()}"


def read_by_thief(table: Path, copy: Path) -> list[bytes]:
    """Whatever could be a secret, of a copy of the table: each run of 32 bytes in items about secrets."""
    with sqlite3.connect(f"file:{table}?mode=ro", uri=True) as source, sqlite3.connect(copy) as target:
        source.backup(target)
        rows = target.execute(
            "SELECT partition, sort, body FROM items WHERE partition IN ('access', 'lake', 'access-keys')"
        )
        found = [bytes(row[2]) for row in rows]
    return [body[at : at + 32] for body in found for at in range(max(1, len(body) - 31))]


def test_whoever_reads_the_table_alone_forges_neither_tokens_nor_urls(tmp_path: Path) -> None:
    with running(tmp_path, workers=1) as server:
        assert server.ask_json("POST", "/api/v1/repositories", REPOSITORY).status == 201
        token, url = logged_in(server), uploaded(server)
        assert user(server, token) == 200
        assert server.ask("GET", url, authorised=False).status == 200
        candidates = read_by_thief(server.lake / "tables.sqlite", tmp_path / "copy.sqlite")
        assert len(candidates) > 200
        with open_folder_lake(server.lake) as lake:
            secrets = {row: lake.keyring.shared(row).secret for row in SIGNING}
        assert forged(secrets[TOKEN_SECRET], token) == token, "that is how tokens are signed"
        assert not set(secrets.values()) & set(candidates)
        assert not [each for each in candidates if forged(each, token) == token]
        address = server.ask("GET", "/api/v1/repositories/sales/refs/main/objects/stat?path=a&presign=false").json()
        namespace, _, key = address["physical_address"].rpartition("/data/")
        grant = Grant(namespace, f"data/{key}")
        base = f"http://localhost:{server.port}/objects"
        right = UrlSigner(base, secrets[URL_SECRET]).sign(grant, "GET", 600)
        assert server.ask("GET", right, authorised=False).status == 200, "that is how URLs are signed"
        for candidate in candidates[::40]:
            wrong = UrlSigner(base, candidate).sign(grant, "GET", 600)
            assert server.ask("GET", wrong, authorised=False).status == 403
    files = [path for path in server.lake.rglob("*") if path.is_file() and path.name != "sealing.key"]
    assert not [path for path in files for secret in secrets.values() if secret in path.read_bytes()]


def test_another_user_does_not_read_the_key(tmp_path: Path) -> None:
    with running(tmp_path, workers=1) as server:
        logged_in(server)
    let_through(server.lake / "sealing.key")
    assert "PermissionError" in act("open(arguments[0]).read()", server.lake / "sealing.key").stderr


@pytest.fixture
def old(tmp_path: Path) -> dict[Key, bytes]:
    """The secrets of a lake as versions before left them, in tmp_path."""
    secrets = {row: os.urandom(32) for row in SIGNING}
    with create_folder_lake(tmp_path / "lake") as lake:
        for row, secret in secrets.items():
            lake.tables.put(row, {"secret": secret})
    return secrets


def test_secrets_of_an_earlier_version_are_sealed_by_a_server_and_go_on(tmp_path: Path, old: dict[Key, bytes]) -> None:
    with running(tmp_path) as server:
        token = logged_in(server)
        assert forged(old[TOKEN_SECRET], token) == token, "whoever has a token from before goes on"
        assert user(server, token) == 200
    left = b"".join(path.read_bytes() for path in server.lake.glob("tables.sqlite*"))
    assert not [secret for secret in old.values() if secret in left]


def test_a_lake_whose_key_is_lost_says_so_reads_go_on_and_rotating_mends_it(tmp_path: Path) -> None:
    with running(tmp_path, workers=1) as server:
        assert server.ask_json("POST", "/api/v1/repositories", REPOSITORY).status == 201
        uploaded(server)
        token = logged_in(server)
        made = {"name": "spark", "role": "reader", "s3": True}
        key_id = server.ask_json("POST", "/api/v1/auth/keys", made).json()["access_key_id"]
    copy = tmp_path / "copied" / "lake"
    shutil.copytree(server.lake, copy, ignore=shutil.ignore_patterns("sealing.key"))
    refused = run("--lake", copy, "serve", "--port", "0")
    assert refused.code != 0
    assert refused.err.startswith(f"error: '{copy}/sealing.key', the key that sealed the lake's secrets, is missing")
    assert "graveler keys rotate-signing" in refused.err
    assert not (copy / "sealing.key").exists()
    assert done("--lake", copy, "cat", "lakefs://sales/main/a").out == "bytes"
    assert len(done("--lake", copy, "keys", "list", "--json").lines) == 2
    assert run("--lake", copy, "keys", "rotate-signing").code == 5, "it asks"
    said = done("--lake", copy, "keys", "rotate-signing", "--yes", "--json").json
    assert said == {"secrets": 2, "new_sealing_key": True, "lost_keys": [key_id]}
    assert (copy / "sealing.key").stat().st_mode & 0o777 == 0o600
    with running(tmp_path / "copied", workers=1) as mended:
        assert user(mended, token) == 401
        assert user(mended, logged_in(mended)) == 200


def test_servers_that_run_learn_of_a_rotation(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        assert server.ask_json("POST", "/api/v1/repositories", REPOSITORY).status == 201
        token, url = logged_in(server), uploaded(server)
        assert (user(server, token), server.ask("GET", url, authorised=False).status) == (200, 200)
        assert done("--lake", server.lake, "keys", "rotate-signing", "--yes").out == "replaced 2 signing secrets\n"
        for _ in range(20):  # by one worker after the other, each within five seconds
            while user(server, token) == 200 or server.ask("GET", url, authorised=False).status == 200:
                assert server.process.poll() is None
        while user(server, logged_in(server)) != 200:  # the other worker may not know the new secret yet
            assert server.process.poll() is None
        while server.ask("GET", uploaded(server), authorised=False).status != 200:
            assert server.process.poll() is None


def test_the_secret_of_a_key_for_s3_is_sealed_for_that_key(tmp_path: Path) -> None:
    done("init", tmp_path / "lake")
    made = [
        done("--lake", tmp_path / "lake", "keys", "create", name, "--json", *options).json
        for name, options in (("ann", ["--s3"]), ("bob", ["--s3"]), ("eve", []))
    ]
    ann, bob, eve = (each["access_key_id"] for each in made)
    assert [each["s3"] for each in made] == [True, True, False]
    with open_folder_lake(tmp_path / "lake") as lake:
        keys = Keys(lake.tables, lake.keyring)
        for each in made[:2]:
            key, secret = keys.signing_secret(each["access_key_id"])
            assert (key.s3, secret) == (True, each["secret_access_key"])
        for each in made:
            assert keys.verify(each["access_key_id"], each["secret_access_key"]) is not None
        with pytest.raises(NotFoundError):
            keys.signing_secret(eve)
        rows = [Key("access-keys", each.encode()) for each in (ann, bob)]
        mine, theirs = lake.tables.get_many(rows)
        assert mine is not None
        assert theirs is not None
        lake.tables.transact([Put(rows[0], {**mine, "sealed": theirs["sealed"]})])
        with pytest.raises(CorruptError, match="another row"):
            keys.signing_secret(ann)
        keys.revoke(bob, now=1.0)
        assert "sealed" not in (lake.tables.get(rows[1]) or {})
    left = b"".join(path.read_bytes() for path in (tmp_path / "lake").glob("tables.sqlite*"))
    assert not [each for each in made if each["secret_access_key"].encode() in left]


@pytest.fixture
def places() -> Iterator[list[str]]:
    """Options of a lake on S3 and DynamoDB."""
    name = f"sealed-{token_hex(6)}"
    with patch.dict(os.environ, CREDENTIALS):
        make_bucket(name, S3Settings(REGION, s3proxy()))
        yield [
            *("--objects", f"s3://{name}/lake", "--tables", f"dynamodb://{name}", "--region", REGION),
            *("--s3-endpoint-url", s3proxy(), "--dynamodb-endpoint-url", dynamodb_local()),
        ]


def test_a_server_on_s3_and_dynamodb_needs_a_key_that_is_named(places: list[str], tmp_path: Path) -> None:
    refused = run("serve", *places, "--create-table", "--port", "0")
    assert refused.code != 0
    assert (
        "sealed with a key from outside, but none was given: name its file with sealing_key_file (or GRAVELER_SEALING_KEY_FILE)"
        in refused.err
    )
    assert "openssl rand -base64 32" in refused.err
    missing = run("serve", *places, "--port", "0", "--sealing-key-file", tmp_path / "none")
    assert "does not exist; restore it" in missing.err
    wide = tmp_path / "wide"
    wide.write_bytes(b64encode(bytes(32)))
    wide.chmod(0o644)
    assert "chmod 600" in run("serve", *places, "--port", "0", "--sealing-key-file", wide).err
    assert "give only one" in run("serve", *places, "--port", "0", "--sealing-key-file", wide, "--kms-key", "arn:x").err
    with started(tmp_path, *places, workers=1) as server:
        token = logged_in(server)
    with started(tmp_path, *places, workers=1) as server:
        assert user(server, token) == 200
    other = tmp_path / "other"
    other.touch(0o600)
    other.write_bytes(b64encode(b"o" * 32))
    wrong = run("serve", *places, "--port", "0", "--sealing-key-file", other)
    assert "is not the one that sealed the lake's secrets" in wrong.err
    folder = run("--lake", tmp_path / "lake", "serve", "--port", "0", "--sealing-key-file", other)
    assert "--sealing-key-file is only for a lake on AWS" in folder.err


def test_what_the_table_knows_of_the_key_does_not_tell_it(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.keyring.ready()
        record = lake.tables.get(RECORD)
        assert record is not None
        assert record.keys() == {"by", "fingerprint"}
        assert len(json.dumps(str(record))) < 100
        lake.tables.put(RECORD, {**record, "fingerprint": b"another."})
    with open_folder_lake(tmp_path / "lake") as lake, pytest.raises(SealingKeyLostError):
        lake.keyring.ready()
