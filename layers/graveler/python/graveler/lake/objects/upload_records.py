"""Records of uploads in parts, so that any process can continue, list, complete or abort one, for seven days.

An upload by an issued address (:mod:`graveler.lake.objects.uploads`) needs no record: its client keeps the address, and has half
a day. Clients of S3 keep an upload ID only, name path, type and metadata at the start, and may come back through another process.

A record has the data name of the object, which the garbage collector takes for needed as long as the record is open: it reads
the records *before* the staged changes, and the transaction that stages the object ends its record. So it sees the object in one
place at least. A collection removes abandoned records, and aborts their uploads.

Items: partition ``<repository uid>/uploads``, sort key the branch's name, a zero byte, the first 700 bytes of the path, a zero
byte and the upload ID, which begins with the time; attribute ``record`` is a document in msgpack. A completed one has the staged
record in ``staged``, so that a repeated completion finds it, and ``expires``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, CorruptError
from graveler.model import RepositoryUID
from graveler.storage.tables.port import Absent, Condition, Item, Key, Matches, Put, Tables
from graveler.storage.tables.walking import pages
from graveler.system.random_bytes import random_bytes
from graveler.tree.record import base32

LIFETIME: Final = 7 * 24 * 3600
"""Seconds for which an upload can be continued."""
_REMEMBERED: Final = 24 * 3600
"""Seconds for which a completed upload is remembered."""
_PATH_BYTES: Final = 700
_ID_CHARS: Final = 24
_TIME_BITS: Final = 44
_RANDOM_BITS: Final = 5 * _ID_CHARS - _TIME_BITS
_ID_DIGITS: Final = frozenset("0123456789abcdefghijklmnopqrstuv")


class UploadRecord(Struct, frozen=True):
    """An upload in parts. ``key`` is where the object will be, below the namespace, and ``store_id`` the store's ID of the upload
    there. ``by`` is who began it, ``created`` when (Unix seconds)."""

    branch: str
    path: str
    upload_id: str
    key: str
    store_id: str
    content_type: str
    metadata: Mapping[str, str]
    by: str
    created: float


class StoredRecord(Struct, frozen=True):
    """A record as the table has it; ``staged`` is the packed record of the object, once the upload is completed."""

    upload: UploadRecord
    staged: bytes | None
    item: Item


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(UploadRecord).decode


def new_upload_id(now: float) -> str:
    """Return an ID that sorts by time."""
    chance = int.from_bytes(random_bytes(_RANDOM_BITS // 8 + 1)) & (1 << _RANDOM_BITS) - 1
    return base32(int(now * 1000) << _RANDOM_BITS | chance, _ID_CHARS)


class UploadRecords:
    """The records of one repository."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self.partition: Final = f"{uid}/uploads"

    def add(self, upload: UploadRecord) -> None:
        """Write the record of an upload that begins. One table write."""
        self._tables.put(
            self.key_of(upload.branch, upload.path, upload.upload_id), {"record": _encode(upload)}, Absent()
        )

    def get(self, branch: str, path: str, upload_id: str) -> StoredRecord | None:
        """Return the record of an upload; None if there is none. One table read. :class:`CorruptError`."""
        if len(upload_id) != _ID_CHARS or not _ID_DIGITS.issuperset(upload_id):
            return None
        key = self.key_of(branch, path, upload_id)
        item = self._tables.get(key)
        stored = None if item is None else decode_record(key.sort, item)
        return None if stored is None or (stored.upload.branch, stored.upload.path) != (branch, path) else stored

    def of_branch(self, branch: str, prefix: str, after: tuple[str, str] | None) -> Iterator[StoredRecord]:
        """Yield the records of a branch whose paths begin with ``prefix``, by path and time, behind the upload ``after`` (path
        and ID); paths with the same first 700 bytes by time only. One table read for each thousand."""
        beginning = branch.encode() + b"\0" + prefix.encode()[:_PATH_BYTES]
        start = beginning if after is None else max(beginning, self.key_of(branch, *after).sort + b"\0")
        for page in pages(self._tables, self.partition, start=start, end=branch.encode() + b"\1"):
            for sort, item in page:
                if not sort.startswith(beginning):
                    return
                record = decode_record(sort, item)
                if record.upload.path.startswith(prefix):
                    yield record

    def branches(self, prefix: str) -> Iterator[str]:
        """Yield the branches whose names begin with ``prefix`` and that have records, in order. One table read for each thousand
        records, but no more than one for each branch."""
        start, end = prefix.encode(), prefix.encode() + b"\xff"
        while True:
            page = self._tables.query(self.partition, start=start, end=end)
            names = [sort.partition(b"\0")[0] for sort, _ in page.items]
            yield from map(bytes.decode, dict.fromkeys(names))
            if not page.more:
                return
            start = names[-1] + b"\1"  # behind the last branch of the page

    def all(self) -> Iterator[StoredRecord]:
        """Yield all records. One table read for each thousand. :class:`CorruptError`."""
        for page in pages(self._tables, self.partition):
            for sort, item in page:
                yield decode_record(sort, item)

    def completed_write(self, record: StoredRecord, staged: bytes, now: float) -> Put:
        """Return the write that ends an open record by the object that was staged for it, on condition that it is still open."""
        item = {**record.item, "staged": staged, "expires": int(now) + _REMEMBERED}
        upload = record.upload
        return Put(self.key_of(upload.branch, upload.path, upload.upload_id), item, _still_open(record))

    def remove(self, record: StoredRecord) -> None:
        """Remove an open record. One table write. :class:`ConditionFailedError` if it is not open any more."""
        upload = record.upload
        self._tables.delete(self.key_of(upload.branch, upload.path, upload.upload_id), _still_open(record))

    def key_of(self, branch: str, path: str, upload_id: str) -> Key:
        """Return the key of an upload's record. No request."""
        return Key(self.partition, b"\0".join((branch.encode(), path.encode()[:_PATH_BYTES], upload_id.encode())))


def _still_open(record: StoredRecord) -> Condition:
    return Matches({"record": record.item["record"], "staged": None})


def decode_record(sort: bytes, item: Item) -> StoredRecord:
    """Return the record in an item. :class:`CorruptError`."""
    packed, staged = item.get("record"), item.get("staged")
    try:
        if isinstance(packed, bytes) and isinstance(staged, bytes | None):
            return StoredRecord(_decode(packed), staged, item)
    except UNREADABLE:
        pass
    raise CorruptError(f"the record of an upload at {sort!r} cannot be read; run fsck with repair, which removes it")
