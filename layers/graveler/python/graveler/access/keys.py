"""Access keys: a public ID and a secret that is shown only once.

A key is an item of the table: partition ``access-keys``, sorted by ID. Of the secret it holds HMAC-SHA256 under a salt of the
key's own. That is a fast hash, on purpose. Slow ones (scrypt, Argon2) exist to make guessable passwords expensive to guess; a
secret made here is 40 random characters (238 bits), which no speed of guessing finds, and a slow hash would cost 50 ms of
processor time on each uncached request, which anyone could make us spend. Secrets that others chose must be long for the same
reason (:data:`MIN_CHOSEN_SECRET`). A key for S3 signs its requests with the secret and never sends it: the verifier must know it,
so its item also holds the secret, sealed (:mod:`graveler.storage.secrets.keyring`).

A revoked key's item stays, without salt and digest, so that its ID never becomes valid again: a token issued for it stays
invalid, whatever is created later.
"""

import hmac
import re
import string
from collections.abc import Iterator, Sequence
from hashlib import sha256
from secrets import choice, token_bytes
from typing import Final

from msgspec import Struct

from graveler.access.permissions import Identity, Role
from graveler.access.refusals import KeyNotFoundError
from graveler.errors import AlreadyExistsError, CorruptError, InvalidError
from graveler.storage.secrets.credential_ends import end_write
from graveler.storage.secrets.keyring import Keyring
from graveler.storage.tables.port import Absent, ConditionFailedError, Item, Key, Matches, Put, Tables, Value
from graveler.storage.tables.walking import items

MIN_CHOSEN_SECRET: Final = 32
"""Minimum number of characters of a secret that was not made here."""
MAX_SECRET: Final = 256
MAX_PATTERNS: Final = 100

_PARTITION: Final = "access-keys"
_FIRST: Final = Key("access", b"first-key")
"""Item that records that the lake has made its first key by itself."""
_UPPER: Final = string.ascii_uppercase + string.digits
_RESERVED: Final = ("aws:", "graveler:")
"""Beginnings of principals that are no holders of keys."""
_LETTERS: Final = string.ascii_letters + string.digits
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.-]{3,128}")
_SECRET: Final = re.compile(r"[!-~]+")


class AccessKey(Struct, frozen=True):
    """A live key, without its secret. ``name`` is its holder's, who commits; a checker posts the ``statuses`` whose names match;
    ``created`` is in Unix seconds."""

    key_id: str
    name: str
    role: Role
    repositories: tuple[str, ...]
    branches: tuple[str, ...]
    created: int
    s3: bool = False
    """True if the secret is kept, sealed, so that its signatures can be verified."""
    statuses: tuple[str, ...] = ()

    def identity(self) -> Identity:
        """Return the identity of a caller with this key."""
        return Identity(self.key_id, self.name, self.role, self.repositories, self.branches, statuses=self.statuses)


class KeyWithSecret(Struct, frozen=True):
    """A key just made. Its secret is never shown again."""

    key: AccessKey
    secret: str

    def __repr__(self) -> str:
        return f"KeyWithSecret({self.key!r}, secret=…)"


class Keys:
    """The access keys of one lake."""

    def __init__(self, tables: Tables, keyring: Keyring | None = None) -> None:
        self._tables = tables
        self._keyring = keyring or Keyring(tables)

    def create(
        self,
        name: str,
        role: Role,
        repositories: Sequence[str] = (),
        branches: Sequence[str] = (),
        statuses: Sequence[str] = (),
        *,
        s3: bool = False,
        now: float,
    ) -> KeyWithSecret:
        """Make a key and its secret, which is kept sealed for ``s3``. One table write, and for ``s3`` the keyring's requests the
        first time. :class:`InvalidError` for an empty name or pattern."""
        key_id, secret = new_pair()
        check_rights(name, role, repositories, branches, statuses)
        key = AccessKey(
            key_id, name, role, tuple(repositories), tuple(branches), int(now), s3=s3, statuses=tuple(statuses)
        )
        new_key = KeyWithSecret(key, secret)
        item = _encode(new_key)
        if s3:
            item["sealed"] = self._keyring.seal(_address(key_id), secret.encode())
        try:
            self._tables.put(_address(new_key.key.key_id), item, Absent())
        except ConditionFailedError as error:
            if not _ours(error, item):
                raise
        return new_key

    def create_first(self, name: str, chosen: tuple[str, str] | None = None, *, now: float) -> KeyWithSecret | None:
        """Make an admin's key if the lake never had a key, with a ``chosen`` ID and secret or with new ones; of several
        concurrent callers, one gets it. One table read, and one write if the lake has none. :class:`InvalidError` for an unusable
        ID or secret."""
        if self.any():
            return None
        if chosen is not None:
            _check_chosen(*chosen)
        key_id, secret = chosen or new_pair()
        new_key = KeyWithSecret(_admins_key(key_id, name, now), secret)
        item = _encode(new_key)
        writes = [
            Put(_address(new_key.key.key_id), item, Absent()),
            Put(_FIRST, {"key_id": new_key.key.key_id}, Absent()),
        ]
        try:
            self._tables.transact(writes)
        except ConditionFailedError as error:
            return new_key if _ours(error, item) else None
        return new_key

    def adopt(self, key_id: str, secret: str, name: str, *, now: float) -> KeyWithSecret | None:
        """Make an admin's key with this ID and secret; None if it exists already. One table write, and a read if it exists.

        :class:`InvalidError` if one of the two is unusable; :class:`AlreadyExistsError` if the key has another secret, or was
        revoked.
        """
        _check_chosen(key_id, secret)
        new_key = KeyWithSecret(_admins_key(key_id, name, now), secret)
        try:
            self._tables.put(_address(key_id), _encode(new_key), Absent())
        except ConditionFailedError:
            if self.verify(key_id, secret) is None:
                raise AlreadyExistsError(
                    "access key",
                    key_id,
                    "with another secret, or is revoked; choose another key ID, or give the right secret",
                ) from None
            return None
        return new_key

    def verify(self, key_id: str, secret: str) -> AccessKey | None:
        """Return the key, if it is live and this is its secret. One table read; a key that does not exist takes the same work."""
        proof = self.proof(key_id)
        return proof.key if proof.is_of(secret) else None

    def proof(self, key_id: str) -> "Proof":
        """Return the proof that checks a secret of this key; one that matches no secret if the key is not live. One table
        read."""
        return _decode(key_id, self._item(key_id)) or _NOBODYS

    def get(self, key_id: str) -> AccessKey:
        """Return a live key. One table read. :class:`KeyNotFoundError`."""
        key = self.proof(key_id).key
        if key is None:
            raise KeyNotFoundError(key_id)
        return key

    def get_with(self, key_id: str, *keys: Key) -> tuple[AccessKey, list[Item | None]]:
        """Return a live key and the items under other ``keys`` of the table, from one table read. :class:`KeyNotFoundError`."""
        item, *items = self._tables.get_many([_known_address(key_id), *keys])
        stored = _decode(key_id, item)
        if stored is None or stored.key is None:
            raise KeyNotFoundError(key_id)
        return stored.key, items

    def signing_secret(self, key_id: str) -> tuple[AccessKey, str]:
        """Return a live key and its secret, with which it signs requests. One table read, and the keyring's requests the first
        time. :class:`KeyNotFoundError` also for a key that was not made for that; errors as of :meth:`Keyring.open`."""
        item = self._item(key_id)
        stored = _decode(key_id, item)
        sealed = None if item is None else item.get("sealed")
        if stored is None or stored.key is None or not isinstance(sealed, bytes):
            raise KeyNotFoundError(key_id)
        return stored.key, self._keyring.open(_address(key_id), sealed).decode()

    def all(self) -> list[AccessKey]:
        """Return the live keys, by ID. One table read for each 1,000, revoked ones included."""
        return [key for key, _ in self._stored()]

    def unopened(self) -> list[str]:
        """Return the IDs of live keys whose secret was sealed by another key than the lake's present one. Reads as :meth:`all`,
        and one."""
        sealed = {key.key_id: item["sealed"] for key, item in self._stored() if isinstance(item.get("sealed"), bytes)}
        openable = (
            self._keyring.sealed_by_it(
                [sealed_secret for sealed_secret in sealed.values() if isinstance(sealed_secret, bytes)]
            )
            if sealed
            else []
        )
        return [key_id for key_id, is_openable in zip(sealed, openable, strict=True) if not is_openable]

    def _stored(self) -> Iterator[tuple[AccessKey, Item]]:
        for sort, item in items(self._tables, _PARTITION):
            stored = _decode(sort.decode(errors="backslashreplace"), item)
            if stored is not None and stored.key is not None:
                yield stored.key, item

    def any(self) -> bool:
        """Return whether the lake ever had a key. One table read."""
        return bool(self._tables.query(_PARTITION, limit=1).items)

    def revoke(self, key_id: str, *, now: float) -> AccessKey:
        """End a key, for good, and what was said with it; return its last state. One table read, one transaction.
        :class:`KeyNotFoundError`."""
        key = self.get(key_id)
        item: Item = {"name": key.name, "role": key.role.value, "created": key.created, "revoked": int(now)}
        try:
            self._tables.transact([Put(_address(key_id), item, Matches({"revoked": None})), end_write(key_id, now)])
        except ConditionFailedError as error:
            if not _ours(error, item):  # a concurrent caller was faster
                raise KeyNotFoundError(key_id) from None
        return key

    def _item(self, key_id: str) -> Item | None:
        return self._tables.get(_known_address(key_id))


class Proof(Struct, frozen=True):
    """A digest of the secret of a ``key``, under a salt; of no secret if the key does not exist."""

    key: AccessKey | None
    salt: bytes
    digest: bytes

    def is_of(self, secret: str) -> bool:
        """Return whether the secret is this key's. Takes as long without a key."""
        right = hmac.compare_digest(_digest(self.salt, secret), self.digest)
        return right and self.key is not None

    def __repr__(self) -> str:
        return f"Proof({self.key!r})"


_NOBODYS: Final = Proof(None, bytes(16), token_bytes(32))


def _ours(error: ConditionFailedError, item: Item) -> bool:
    """Return whether a conditional write failed because of its own effect: some adapters send a request again whose response was
    lost."""
    return error.failures.get(0) == item


def new_pair() -> tuple[str, str]:
    """Return a new key's ID and its secret."""
    return _new_key_id(), _new_secret()


def _new_key_id() -> str:
    return "AKIA" + choice("IJ") + "".join(choice(_UPPER) for _ in range(14)) + "Q"


def _new_secret() -> str:
    return "".join(choice(_LETTERS) for _ in range(40))


def _check_chosen(key_id: str, secret: str) -> None:
    if not _KEY_ID.fullmatch(key_id):
        raise InvalidError(f"access key ID {key_id!r} must be 3 to 128 letters, digits, or one of . _ -")
    if not (MIN_CHOSEN_SECRET <= len(secret) <= MAX_SECRET and _SECRET.fullmatch(secret)):
        raise InvalidError(
            f"the secret of access key {key_id!r} must have {MIN_CHOSEN_SECRET} to {MAX_SECRET} printable ASCII "
            "characters without spaces; use 40 random ones"
        )


def _address(key_id: str) -> Key:
    return Key(_PARTITION, key_id.encode())


def _known_address(key_id: str) -> Key:
    """Return the address of a key's item; for an impossible ID, that of a missing one."""
    return _address(key_id if _KEY_ID.fullmatch(key_id) else "-")


def _digest(salt: bytes, secret: str) -> bytes:
    return hmac.digest(salt, secret.encode("utf-8", "surrogatepass"), sha256)


def _admins_key(key_id: str, name: str, now: float) -> AccessKey:
    check_rights(name, Role.ADMIN, (), (), ())
    return AccessKey(key_id, name, Role.ADMIN, (), (), int(now))


def check_rights(
    name: str, role: Role, repositories: Sequence[str], branches: Sequence[str], statuses: Sequence[str]
) -> None:
    """Check a holder's name, role and patterns. :class:`InvalidError` for unusable ones."""
    if not 0 < len(name) <= 256 or not name.isprintable():
        raise InvalidError(f"the name {name[:256]!r} of a key's holder must be 1 to 256 printable characters")
    if name.startswith(_RESERVED):
        raise InvalidError(
            f"the name {name!r} of a key's holder begins with {' or '.join(_RESERVED)}, as rules of branches call AWS principals "
            "and graveler itself; choose another name"
        )
    if (role is Role.CHECKER) != bool(statuses):
        raise InvalidError(
            "a key of the role checker needs the names of the statuses that it posts; give patterns, such as 'dbt*'"
            if role is Role.CHECKER
            else f"names of statuses belong to the role checker; a key of the role {role.value} posts any"
            if role in (Role.WRITER, Role.ADMIN)
            else f"names of statuses belong to the role checker; a key of the role {role.value} posts none"
        )
    for kind, patterns in (("repository", repositories), ("branch", branches), ("status", statuses)):
        if len(patterns) > MAX_PATTERNS:
            raise InvalidError(
                f"a key has at most {MAX_PATTERNS} {kind} patterns, not {len(patterns)}; use broader ones"
            )
        for pattern in patterns:
            if not 0 < len(pattern) <= 256 or not pattern.isprintable():
                raise InvalidError(f"{kind} pattern {pattern[:256]!r} must be 1 to 256 printable characters")


def _encode(new_key: KeyWithSecret) -> dict[str, Value]:
    key, salt = new_key.key, token_bytes(16)
    item: dict[str, Value] = {
        "name": key.name,
        "role": key.role.value,
        "created": key.created,
        "salt": salt,
        "digest": _digest(salt, new_key.secret),
    }
    # Left out if empty: no limit is a key's usual state.
    if key.repositories:
        item["repositories"] = list(key.repositories)
    if key.branches:
        item["branches"] = list(key.branches)
    if key.statuses:
        item["statuses"] = list(key.statuses)
    return item


def _decode(key_id: str, item: Item | None) -> Proof | None:
    """Return the item's proof; None without an item or if the key is revoked. :class:`CorruptError` for a malformed one."""
    if item is None or "revoked" in item:
        return None
    holder, role, created = item.get("name"), item.get("role"), item.get("created")
    salt, digest = item.get("salt"), item.get("digest")
    repositories, branches, statuses = (item.get(name, []) for name in ("repositories", "branches", "statuses"))
    if not (
        isinstance(holder, str)
        and isinstance(role, str)
        and role in Role._value2member_map_
        and isinstance(created, int)
        and isinstance(salt, bytes)
        and isinstance(digest, bytes)
        and isinstance(repositories, list)
        and isinstance(branches, list)
        and isinstance(statuses, list)
    ):
        raise CorruptError(f"access key {key_id!r} cannot be read; restore the table from a copy")
    rights = (Role(role), tuple(repositories), tuple(branches))
    key = AccessKey(key_id, holder, *rights, created, "sealed" in item, tuple(statuses))
    return Proof(key, salt, digest)
