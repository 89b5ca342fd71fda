"""Names for new objects, which prove the branch and path for which they were issued.

A data name is ``data/<20 chars>/<20 chars>``, 2 × 100 bits in base 32 (``0-9a-v``). The first part begins with the time,
reversed, so that a listing yields new objects first, followed by random bits; the second is an HMAC over repository, branch,
path and the first part. So an address inside the namespace shows its path and time of issue, without any record of it.

A *data folder* is such a name for a path ending with ``/``. A client that writes many files under its own names, such as
Spark, writes them there, and each may be linked to that path plus its name in the folder:
``data/<20>/<20>/day=1/part-0.parquet`` made for ``events/`` is for ``events/day=1/part-0.parquet``.

A *table folder*, ``tables/<20>/<20>``, is for the files of one Iceberg table on all branches, as long as the table lives. The
first part is an HMAC over repository and the table's UUID, so that nobody else can name it; the second one is an HMAC of the
first, by a key of its own, so that the garbage collector recognises the folder without the UUID.
"""

import hmac
from hashlib import sha256
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.model import RepositoryUID
from graveler.system.random_bytes import random_bytes
from graveler.tree.record import TABLES, base32

NAMESPACES: Final = f"{TABLES}namespace"
"""The key of an empty object, to which the entries of all namespaces of tables refer: their properties are metadata of the
entries. It is never removed."""
_STAGING: Final = b"staged tables"
_CHARS: Final = 20
_BITS: Final = 100
_TIME_BITS: Final = 42  # milliseconds until the year 2109
_LAST_TIME: Final = (1 << _TIME_BITS) - 1
_LAST_CHANCE: Final = (1 << _BITS - _TIME_BITS) - 1
_DIGITS: Final = frozenset("0123456789abcdefghijklmnopqrstuv")


def made_at(key: str) -> float | None:
    """Return when a data name, or the data folder of a key, was made (Unix seconds); None for any other key."""
    parts = key.split("/", 3)
    if len(parts) < 3 or parts[0] != "data" or any(len(p) != _CHARS or not _DIGITS.issuperset(p) for p in parts[1:3]):
        return None
    return (_LAST_TIME - (int(parts[1], 32) >> (_BITS - _TIME_BITS))) / 1000


class TableFolders(Struct, frozen=True):
    """The recognition of the table folders of one repository. ``key`` is derived from its secret: it recognises folders, but
    does not tell the folder of a table. Can be sent to tasks."""

    key: bytes

    def recognises(self, key: str) -> bool:
        """Return whether the folder of this key, or of a file in it, was made by the repository."""
        parts = key.removeprefix(TABLES).split("/", 2)
        return (
            key.startswith(TABLES)
            and len(parts) > 1
            and hmac.compare_digest(self.proof(parts[0]).encode(), parts[1].encode())
        )

    def proof(self, stamp: str) -> str:
        """Return the second part of the folder's name that begins with ``stamp``."""
        return _digits(hmac.digest(self.key, stamp.encode(), sha256))


class DataNames:
    """A factory and checker of one repository's data names. ``secret`` is the repository's own, from its item in the table."""

    def __init__(self, uid: RepositoryUID, secret: bytes, lifetime: float) -> None:
        self._uid = uid
        self._secret = secret
        self._lifetime = lifetime
        self._staging_key = hmac.digest(secret, _STAGING, sha256)
        self.table_folders = TableFolders(hmac.digest(secret, TABLES.encode(), sha256))
        """Recognises the folders of tables."""

    def new(self, branch: str, path: str, now: float) -> str:
        """Return a fresh key below the namespace, for this path on this branch."""
        time = _LAST_TIME - (int(now * 1000) & _LAST_TIME)
        chance = int.from_bytes(random_bytes(8)) & _LAST_CHANCE
        stamp = base32(time << (_BITS - _TIME_BITS) | chance, _CHARS)
        return f"data/{stamp}/{self._proof(branch, path, stamp)}"

    def check(self, key: str, branch: str, path: str, now: float) -> None:
        """Check that ``key``, or the data folder that it lies in, was made for this path on this branch, no longer ago than the
        lifetime; else :class:`InvalidError`."""
        parts = key.split("/", 3)
        if len(parts) < 3 or parts[0] != "data" or len(parts[1]) != _CHARS or not _DIGITS.issuperset(parts[1]):
            raise InvalidError(
                f"address {key!r} lies in the repository's own namespace, but was not issued by graveler, so garbage "
                f"collection may remove it at any time; request an address for {path!r} first"
            )
        made_for = path
        if len(parts) == 4:
            made_for = path.removesuffix(parts[3])
            if made_for == path or not made_for.endswith("/"):
                raise InvalidError(f"address {key!r} does not end like {path!r}; link it under its own name")
        if not hmac.compare_digest(self._proof(branch, made_for, parts[1]).encode(), parts[2].encode()):
            raise InvalidError(f"address {key!r} was not issued for {path!r} on branch {branch!r}; request a new one")
        age = now - (_LAST_TIME - (int(parts[1], 32) >> (_BITS - _TIME_BITS))) / 1000
        if age > self._lifetime:
            raise InvalidError(
                f"address {key!r} was issued {age / 3600:.0f} hours ago and is too old; request a new one and upload again"
            )

    def table_folder(self, uuid: str) -> str:
        """Return the folder below the namespace, without a trailing slash, for the files of the table or view with this UUID."""
        stamp = self._proof("", uuid, "")
        return f"{TABLES}{stamp}/{self.table_folders.proof(stamp)}"

    def is_table_folder(self, key: str, uuid: str) -> bool:
        """Return whether this is the folder of the table or view with this UUID, by this version or by the first one, whose
        second part depended on the UUID too."""
        stamp = self._proof("", uuid, "")
        return key in (self.table_folder(uuid), f"{TABLES}{stamp}/{self._proof('', uuid, stamp)}")

    def proof_of_staging(self, *fields: str) -> str:
        """Return the proof that this repository has staged the creation of the table which these fields describe."""
        return _digits(hmac.digest(self._staging_key, _framed(self._uid, *fields), sha256))

    def _proof(self, branch: str, path: str, stamp: str) -> str:
        """Return the second part of a name. No branch has an empty name: there ``path`` is the UUID of a table."""
        return _digits(hmac.digest(self._secret, _framed(self._uid, branch, path, stamp), sha256))


def _framed(*fields: str) -> bytes:
    """Return the fields in a form in which no others have the same bytes."""
    encoded = [field.encode() for field in fields]
    return b"".join([len(field).to_bytes(4, "big") + field for field in encoded])


def _digits(digest: bytes) -> str:
    """Return the first 100 bits of a digest in base 32."""
    return base32(int.from_bytes(digest[:13], "big") >> 4, _CHARS)
