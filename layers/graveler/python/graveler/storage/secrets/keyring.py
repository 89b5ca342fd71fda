"""Secrets in the table, sealed by a key that is not in it: the table alone reveals none of them.

A secret is sealed by AES-256-GCM, with the key of its row as authenticated data, so that a secret sealed for one row opens in no
other. The sealing key comes from a :class:`KeySource`: a file (:mod:`graveler.storage.secrets.key_file`) or KMS
(:mod:`graveler.storage.secrets.kms`). The table holds what the source needs to find it again, and a fingerprint: so a lost key,
or that of another lake, is distinguished from one that was never made.

``cryptography`` is loaded when something is sealed or opened, and not before.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from secrets import token_bytes
from typing import Final, Protocol

from msgspec import Struct

from graveler.errors import BusyError, CorruptError, UnavailableError
from graveler.storage.tables.port import Absent, ConditionFailedError, Item, Key, Matches, Put, Tables, Write
from graveler.system.forks import new_lock
from graveler.system.pauses import require_cached

TOKEN_SECRET: Final = Key("access", b"token-secret")
"""The secret that signs the tokens of logins."""
URL_SECRET: Final = Key("lake", b"url-secret")
"""The secret that signs the presigned URLs of folders."""
SIGNING: Final = (TOKEN_SECRET, URL_SECRET)
RECORD: Final = Key("lake", b"sealing-key")
"""The table's record of the sealing key."""

KEY_BYTES: Final = 32
KEEP: Final = 5.0
"""Seconds for which a secret is used without checking whether it was replaced."""

_FORM: Final = b"\x01"
_FINGERPRINT_BYTES: Final = 8
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_HEAD: Final = len(_FORM) + _FINGERPRINT_BYTES
_TRIES: Final = 3
_ADVICE: Final = "restore the right key, or create new secrets with `graveler keys rotate-signing`"


class SealingKeyLostError(UnavailableError):
    """The key that sealed the lake's secrets is gone, or another one stands in its place."""


class KeySource(Protocol):
    """The place where the sealing key of a lake is kept."""

    def make(self) -> tuple[bytes, Item]:
        """Return a key for a lake that has none, durably kept, and the table's record of it. Several concurrent callers may all
        get keys; the one whose record the table takes wins. :class:`UnavailableError`."""

    def find(self, record: Item) -> bytes:
        """Return the key with this record in the table. :class:`SealingKeyLostError` if it is gone for good,
        :class:`UnavailableError` if it is unavailable now."""


class NoKey(Struct, frozen=True):
    """The source of a lake for which none was named. ``advice`` says how to name one."""

    advice: str = "open the lake with one"

    def make(self) -> tuple[bytes, Item]:
        """Raise :class:`UnavailableError`."""
        raise self._error()

    def find(self, record: Item) -> bytes:  # noqa: ARG002
        """Raise :class:`UnavailableError`."""
        raise self._error()

    def _error(self) -> UnavailableError:
        return UnavailableError(
            f"the secrets in the lake's table are sealed with a key from outside, but none was given: {self.advice}"
        )


class Shared(Struct, frozen=True):
    """A secret that all processes of a lake share, and the item that it was read from."""

    secret: bytes
    item: Item

    def __repr__(self) -> str:
        return "Shared(…)"


class Rotation(Struct, frozen=True):
    """The result of a rotation: the number of new signing ``secrets``, and whether the sealing key was ``lost`` and replaced
    too."""

    secrets: int
    lost: bool


class Keyring:
    """Seals and opens the secrets of one lake. Safe to share between threads. The key is fetched once, when it is first needed:
    one table read, and the source's cost; two more table requests when a lake gets its key."""

    def __init__(self, tables: Tables, source: KeySource | None = None) -> None:
        self._tables = tables
        self._source = source or NoKey()
        self._known: tuple[bytes, bytes] | None = None
        """The key, after its fingerprint."""
        self._lock = new_lock()

    def seal(self, row: Key, secret: bytes) -> bytes:
        """Return the secret in a form that only :meth:`open` reverses, for this row. 37 bytes longer.
        :class:`UnavailableError`."""
        with self._lock:
            key = self._known[1] if self._known else self._key_of(self._tables.get(RECORD))
        return _seal(key, row, secret)

    def open(self, row: Key, sealed: bytes) -> bytes:
        """Return the secret that was sealed for this row. :class:`SealingKeyLostError` if that was by another key;
        :class:`CorruptError` if it was changed, or sealed for another row."""
        with self._lock:
            fingerprint, key = self._key_for(sealed, lambda: self._tables.get(RECORD))
        return _open(fingerprint, key, row, sealed)

    def sealed_by_it(self, sealed: Sequence[bytes]) -> list[bool]:
        """Return which of these the lake's present key has sealed. One table read."""
        record = self._tables.get(RECORD)
        fingerprint = None if record is None else record.get("fingerprint")
        return [secret[len(_FORM) : _HEAD] == fingerprint for secret in sealed]

    def shared(self, row: Key) -> Shared:
        """Return the secret of this row, 32 random bytes that the first caller makes. One table read; two writes and a read more
        the first time. A secret that an earlier version stored unsealed needs no key. :class:`CorruptError` for an item that
        holds something else."""
        for _ in range(_TRIES):
            item, record = self._tables.get_many([row, RECORD])
            if item is not None:
                return Shared(self._secret_of(row, item, record), item)
            with self._lock:
                key = self._key_of(record)
            with suppress(ConditionFailedError):  # if a concurrent writer was faster, its secret counts
                self._tables.put(row, {"sealed": _seal(key, row, token_bytes(KEY_BYTES))}, Absent())
        raise BusyError(f"secret {row.sort.decode()!r} is being replaced; try again")

    def ready(self) -> int:
        """Ensure that a key exists, and that it has sealed the signing secrets that earlier versions stored unsealed; return the
        number sealed now. One table read, a write for each. May be killed, and run concurrently: the secrets stay the same ones.
        Errors as :meth:`shared`."""
        *items, record = self._tables.get_many([*SIGNING, RECORD])
        with self._lock:
            key = self._key_of(record)
        done = 0
        for row, item in zip(SIGNING, items, strict=True):
            if item is None or "sealed" in item:
                continue
            secret = self._secret_of(row, item, record)
            with suppress(ConditionFailedError):  # a concurrent writer has sealed it, or made another one
                self._tables.put(row, {"sealed": _seal(key, row, secret)}, Matches({"secret": secret}))
                done += 1
        return done

    def rotate(self) -> Rotation:
        """Replace the existing signing secrets, and the sealing key if it is lost. One table read and one write.
        :class:`BusyError` if a concurrent caller does so."""
        *items, record = self._tables.get_many([*SIGNING, RECORD])
        writes: list[Write] = []
        record_to_write: Item = {}
        with self._lock:
            try:
                key, lost = self._key_of(record), False
            except SealingKeyLostError:
                if record is None:
                    raise
                key, fields = self._source.make()
                record_to_write = {**fields, "fingerprint": _fingerprint(key)}
                writes.append(Put(RECORD, record_to_write, Matches({"fingerprint": record.get("fingerprint")})))
                self._known, lost = None, True
        for row, item in zip(SIGNING, items, strict=True):
            if item is not None:
                writes.append(Put(row, {"sealed": _seal(key, row, token_bytes(KEY_BYTES))}))
        try:
            self._tables.transact(writes)
        except ConditionFailedError as error:
            if error.failures.get(0) != record_to_write:  # some adapters send a request again whose response was lost
                raise BusyError(
                    "someone else is creating a new sealing key; check that everything works, then try again"
                ) from None
        return Rotation(len(writes) - lost, lost)

    def _secret_of(self, row: Key, item: Item, record: Item | None) -> bytes:
        sealed, secret = item.get("sealed"), item.get("secret")
        if isinstance(sealed, bytes):
            with self._lock:
                fingerprint, key = self._key_for(sealed, lambda: record)
            secret = _open(fingerprint, key, row, sealed)
        if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
            raise CorruptError(f"secret {row.sort.decode()!r} in the table is damaged; {_ADVICE}")
        return secret

    def _key_for(self, sealed: bytes, record_of: Callable[[], Item | None]) -> tuple[bytes, bytes]:
        """Return the key that may have sealed this, after its fingerprint: the known one, or otherwise the lake's present one.
        With the lock held."""
        if self._known is None or self._known[0] != sealed[len(_FORM) : _HEAD]:
            record = record_of()
            if record is None:
                raise SealingKeyLostError(
                    f"the table has no record of the key that sealed the lake's secrets; {_ADVICE}"
                )
            self._key_of(record)
        assert self._known is not None
        return self._known

    def _key_of(self, record: Item | None) -> bytes:
        """Return the key of the table's ``record``; made if it is None. With the lock held."""
        if record is None:
            require_cached()  # a caller that shares its thread must not wait for the table with the lock held
            key, fields = self._source.make()
            record = {**fields, "fingerprint": _fingerprint(key)}
            try:
                self._tables.put(RECORD, record, Absent())
            except ConditionFailedError as error:
                existing = error.failures.get(0)
                if existing is None:
                    raise BusyError("the sealing key is being replaced; try again") from None
                record, key = existing, key if existing == record else self._source.find(existing)
        else:
            key = self._source.find(record)
        fingerprint = _fingerprint(key)
        if record.get("fingerprint") != fingerprint:
            raise SealingKeyLostError(f"the given key is not the one that sealed the lake's secrets; {_ADVICE}")
        self._known = fingerprint, key
        return key


class SharedSecret:
    """The present secret of a row: a replaced one is used for at most :data:`KEEP` more seconds. Safe to share between threads;
    ``clock`` returns seconds."""

    def __init__(self, keyring: Keyring, row: Key, clock: Callable[[], float] = time.monotonic) -> None:
        self.row = row
        self._keyring = keyring
        self._clock = clock
        self._held: tuple[Shared, float] | None = None

    def __repr__(self) -> str:
        return f"SharedSecret({self.row!r})"

    def known(self) -> bytes:
        """Return the secret that was read last. Only the first call makes requests, as :meth:`Keyring.shared`."""
        return self._held[0].secret if self._held else self._read()

    def fresh(self) -> bytes:
        """Return the secret, read again if that was more than :data:`KEEP` seconds ago: one table read."""
        held = self._held
        # A clock that was set back must not lengthen anything.
        return held[0].secret if held and 0 <= self._clock() - held[1] < KEEP else self._read()

    def renew(self, item: Item | None) -> bytes:
        """Return the secret, given the just read ``item`` of its row: read again if the item differs from the one before."""
        held = self._held
        if held is None or held[0].item != item:
            return self._read()
        self._held = held[0], self._clock()
        return held[0].secret

    def _read(self) -> bytes:
        began = self._clock()
        shared = self._keyring.shared(self.row)
        self._held = shared, began
        return shared.secret


def _fingerprint(key: bytes) -> bytes:
    """Return a digest that tells keys apart and reveals nothing else about them."""
    return sha256(b"graveler-sealing-key\0" + key).digest()[:_FINGERPRINT_BYTES]


def _seal(key: bytes, row: Key, secret: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 30 ms: only for sealing and opening

    nonce = token_bytes(_NONCE_BYTES)  # few secrets are sealed by one key: no two nonces will be the same
    return _FORM + _fingerprint(key) + nonce + AESGCM(key).encrypt(nonce, secret, _bound(row))


def _open(fingerprint: bytes, key: bytes, row: Key, sealed: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if sealed[:1] != _FORM or len(sealed) < _HEAD + _NONCE_BYTES + _TAG_BYTES:
        raise CorruptError(f"the sealed value in {row} has an unknown format; use a newer graveler, or {_ADVICE}")
    if sealed[len(_FORM) : _HEAD] != fingerprint:
        raise SealingKeyLostError(f"the value in {row} was sealed with another key than the lake has now; {_ADVICE}")
    nonce, data = sealed[_HEAD : _HEAD + _NONCE_BYTES], sealed[_HEAD + _NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, data, _bound(row))
    except InvalidTag:
        raise CorruptError(
            f"the sealed value in {row} was changed, or belongs to another row; restore the table from a copy, or {_ADVICE}"
        ) from None


def _bound(row: Key) -> bytes:
    """Return what a sealed secret is bound to: no two rows have the same."""
    partition = row.partition.encode()
    return b"graveler-sealed-1\0" + len(partition).to_bytes(4, "big") + partition + row.sort
