"""Secrets in the table are sealed by a key that is not in it."""

import os
import subprocess
import sys
from base64 import b64encode
from multiprocessing import get_context
from pathlib import Path

import pytest

from graveler.errors import BusyError, CorruptError, GravelerError, InvalidError, UnavailableError
from graveler.storage.file_modes import GROUP, PRIVATE
from graveler.storage.secrets.key_file import LAKES_OWN, KeyFile, LakeKeyFile
from graveler.storage.secrets.keyring import (
    KEEP,
    RECORD,
    SIGNING,
    TOKEN_SECRET,
    URL_SECRET,
    Keyring,
    SealingKeyLostError,
    SharedSecret,
)
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Condition, Item, Key, Tables
from graveler.storage.tables.sqlite import SqliteTables
from tests.support.instruments import CountingTables, Fault, FaultyTables, fail_nth
from tests.support.keyrings import FixedKey, keyring

SECRET = b"a secret of 40 characters, made by us..."
ROW = Key("access-keys", b"AKIAIOSFODNN7EXAMPLQ")


def test_what_is_sealed_opens_for_its_row_alone() -> None:
    ring = keyring(MemoryTables())
    sealed = ring.seal(ROW, SECRET)
    assert ring.open(ROW, sealed) == SECRET
    assert SECRET not in sealed
    assert len(sealed) == len(SECRET) + 37
    assert ring.seal(ROW, SECRET) != sealed
    for other in (Key(ROW.partition, b"AKIA"), Key("access-key", b"sAKIAIOSFODNN7EXAMPLQ"), TOKEN_SECRET):
        with pytest.raises(CorruptError, match=r"was changed, or belongs to another row"):
            ring.open(other, sealed)


def test_no_bit_may_flip() -> None:
    ring = keyring(MemoryTables())
    sealed = ring.seal(ROW, SECRET)
    for at in range(len(sealed)):
        flipped = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises((CorruptError, SealingKeyLostError)):
            ring.open(ROW, flipped)
    for short in (b"", sealed[:1], sealed[:9], sealed[:36]):
        with pytest.raises((CorruptError, SealingKeyLostError)):
            ring.open(ROW, short)


def test_two_rows_are_never_bound_alike() -> None:
    ring = keyring(MemoryTables())
    with pytest.raises(CorruptError):
        ring.open(Key("ab", b"c"), ring.seal(Key("a", b"bc"), SECRET))


def test_a_shared_secret_is_made_once_read_once_and_not_in_the_table() -> None:
    tables = CountingTables(MemoryTables())
    first = keyring(tables).shared(TOKEN_SECRET).secret
    assert tables.calls == {"get_many": 2, "put": 2}
    tables.calls.clear()
    assert keyring(tables).shared(TOKEN_SECRET).secret == first
    assert tables.calls == {"get_many": 1}
    assert keyring(tables).shared(URL_SECRET).secret != first
    for row in (*SIGNING, RECORD):
        item = tables.get(row)
        assert item is not None
        assert not [
            value for value in item.values() if isinstance(value, bytes) and (first in value or len(value) == 32)
        ]


def test_the_secret_is_looked_at_again_now_and_then() -> None:
    tables, now = CountingTables(MemoryTables()), [0.0]
    secret = SharedSecret(keyring(tables), TOKEN_SECRET, lambda: now[0])
    before = secret.fresh()
    tables.calls.clear()
    keyring(tables).rotate()
    tables.calls.clear()
    assert (secret.known(), secret.fresh()) == (before, before)
    assert not tables.calls
    now[0] += KEEP
    assert secret.known() == before
    assert secret.fresh() != before
    assert tables.calls == {"get_many": 1}
    now[0] -= 1  # a clock that was set back
    secret.fresh()
    assert tables.calls == {"get_many": 2}


def plain(tables: Tables) -> dict[Key, bytes]:
    """Secrets as earlier versions left them."""
    secrets = {row: bytes([at]) * 32 for at, row in enumerate(SIGNING, 1)}
    for row, secret in secrets.items():
        tables.put(row, {"secret": secret})
    return secrets


def test_secrets_of_earlier_versions_are_sealed_and_stay_the_same() -> None:
    tables = MemoryTables()
    secrets = plain(tables)
    assert {row: Keyring(tables).shared(row).secret for row in SIGNING} == secrets, (
        "without a key they are read as they are"
    )
    assert keyring(tables).ready() == 2
    assert keyring(tables).ready() == 0
    for row, secret in secrets.items():
        item = tables.get(row)
        assert item is not None
        assert item.keys() == {"sealed"}, "an earlier version finds no secret, and makes none in its place"
        assert keyring(tables).shared(row).secret == secret
        with pytest.raises(UnavailableError, match="none was given"):
            Keyring(tables).shared(row)


class _Outrun(MemoryTables):
    """Somebody else rotates just before a secret is sealed."""

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> None:
        if key == TOKEN_SECRET and "sealed" in item:
            keyring(self).rotate()
        super().put(key, item, condition)


def test_a_secret_that_was_made_anew_meanwhile_is_left() -> None:
    tables = _Outrun()
    secrets = plain(tables)
    keyring(tables).ready()
    assert keyring(tables).shared(TOKEN_SECRET).secret != secrets[TOKEN_SECRET]


@pytest.mark.parametrize("fault", ["fail_before", "fail_after", "repeat"])
@pytest.mark.parametrize("ordinal", range(5))
def test_whoever_is_cut_off_while_sealing_loses_nothing(ordinal: int, fault: Fault) -> None:
    tables = MemoryTables()
    secrets = plain(tables)
    for attempt in range(2):
        try:
            keyring(FaultyTables(tables, fail_nth(ordinal, fault)) if attempt == 0 else tables).ready()
        except GravelerError:
            continue
    assert {row: keyring(tables).shared(row).secret for row in SIGNING} == secrets
    assert [set(tables.get(row) or ()) for row in SIGNING] == [{"sealed"}] * 2


@pytest.mark.parametrize("fault", ["fail_before", "fail_after", "repeat"])
@pytest.mark.parametrize("ordinal", range(4))
@pytest.mark.parametrize("lost", [False, True])
def test_whoever_is_cut_off_while_rotating_leaves_secrets_that_open(ordinal: int, fault: Fault, lost: bool) -> None:
    tables = MemoryTables()
    before = {row: keyring(tables).shared(row).secret for row in SIGNING}
    now = FixedKey(b"n" * 32) if lost else FixedKey()
    try:
        Keyring(FaultyTables(tables, fail_nth(ordinal, fault)), now).rotate()
    except BusyError:
        raise
    except GravelerError:
        Keyring(tables, now).rotate()
    after = {row: Keyring(tables, now).shared(row).secret for row in SIGNING}
    assert not set(before.values()) & set(after.values())


def make_ready(folder: Path) -> tuple[bytes, ...]:
    """What one of several processes does."""
    with SqliteTables(folder / "tables.sqlite") as tables:
        ring = Keyring(tables, LakeKeyFile(folder, PRIVATE))
        ring.ready()
        return tuple(ring.shared(row).secret for row in SIGNING)


@pytest.mark.parametrize("old", [False, True])
def test_processes_that_begin_at_once_have_one_key_and_the_same_secrets(tmp_path: Path, old: bool) -> None:
    with SqliteTables(tmp_path / "tables.sqlite") as tables:
        secrets = plain(tables) if old else {}
        tables.get(RECORD)
    with get_context("spawn").Pool(4) as pool:
        found = set(pool.map(make_ready, [tmp_path] * 8, chunksize=1))
    assert len(found) == 1
    assert not old or found == {tuple(secrets.values())}
    assert [path.name for path in tmp_path.glob("*.key")] == [LAKES_OWN]
    assert (tmp_path / LAKES_OWN).stat().st_mode & 0o777 == 0o600


def test_a_replaced_secret_leaves_nothing_in_the_file(tmp_path: Path) -> None:
    with SqliteTables(tmp_path / "tables.sqlite") as tables:
        secrets = plain(tables)
        for number in range(100):  # neighbours that fill pages
            tables.put(Key("lake", b"%d" % number), {"text": "x" * 50})
    with SqliteTables(tmp_path / "tables.sqlite") as tables:
        assert Keyring(tables, LakeKeyFile(tmp_path, PRIVATE)).ready() == 2
    left = b"".join(path.read_bytes() for path in tmp_path.glob("tables.sqlite*"))
    assert not [secret for secret in secrets.values() if secret in left]


def test_a_key_that_is_lost_or_anothers_is_told_and_never_replaced(tmp_path: Path) -> None:
    tables = MemoryTables()
    source = LakeKeyFile(tmp_path, GROUP)
    made = Keyring(tables, source).shared(TOKEN_SECRET).secret
    file = tmp_path / LAKES_OWN
    assert file.stat().st_mode & 0o777 == 0o660
    kept = file.read_bytes()
    file.unlink()
    for ask in (lambda: Keyring(tables, source).shared(TOKEN_SECRET), Keyring(tables, source).ready):
        with pytest.raises(
            SealingKeyLostError, match=r"is missing \(a copy of the lake needs it, too\); restore it, or create new"
        ):
            ask()
    assert not file.exists()
    file.write_bytes(b64encode(bytes(32)))
    with pytest.raises(SealingKeyLostError, match="is not the one that sealed the lake's secrets"):
        Keyring(tables, source).shared(TOKEN_SECRET)
    file.write_bytes(kept)
    assert Keyring(tables, source).shared(TOKEN_SECRET).secret == made
    file.unlink()
    rotation = Keyring(tables, source).rotate()
    assert (rotation.secrets, rotation.lost) == (1, True)
    assert Keyring(tables, source).shared(TOKEN_SECRET).secret != made


def test_a_lake_that_signed_nothing_has_nothing_to_rotate(tmp_path: Path) -> None:
    rotation = Keyring(MemoryTables(), LakeKeyFile(tmp_path, PRIVATE)).rotate()
    assert (rotation.secrets, rotation.lost) == (0, False)


@pytest.mark.parametrize("text", [b"", b"short", b"\0" * 32, b64encode(b"x" * 31), b64encode(b"x" * 33), b"!" * 44])
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "key").touch(0o600)
    (tmp_path / "key").write_bytes(text)
    with pytest.raises(InvalidError, match="does not contain a sealing key"):
        KeyFile(tmp_path / "key").make()


def test_a_named_file_must_be_there_and_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(UnavailableError, match=r"does not exist; restore it, .* openssl rand -base64 32 > "):
        KeyFile(file).make()
    file.write_bytes(b64encode(bytes(32)) + b"\n")
    for mode, closed in ((0o600, True), (0o400, True), (0o640, True), (0o604, False), (0o602, False)):
        file.chmod(mode)
        if closed:
            assert KeyFile(file).make()[0] == bytes(32)
        else:
            with pytest.raises(InvalidError, match="chmod 600"):
                KeyFile(file).make()
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(InvalidError, match="does not contain a sealing key"):
        KeyFile(tmp_path / "pipe").make()


LOADED = """
import sys
from pathlib import Path
from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.lake.opening.folder import create_folder_lake
lake = create_folder_lake(Path(sys.argv[1]))
access = Access(lake.tables, lake.keyring)
made = access.create_key("ann", Role.ADMIN)
basic = __import__("base64").b64encode(f"{made.key.key_id}:{made.secret}".encode()).decode()
access.authenticate(f"Basic {basic}", None, "here")
repository = lake.create_repository("sales", "local://sales")
repository.upload("main", "a", b"x")
repository.commit("main", "m", committer="me")
print("cryptography" in sys.modules, (Path(sys.argv[1]) / "sealing.key").exists())
access.login(made.key.key_id, made.secret, "here")
print("cryptography" in sys.modules, (Path(sys.argv[1]) / "sealing.key").exists())
"""


def test_only_who_seals_or_opens_loads_cryptography_and_makes_a_key(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED, str(tmp_path / "lake")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [
        "False",
        "False",
        "True",
        "True",
    ]
