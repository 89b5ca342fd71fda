"""Commit records: their bytes, their IDs, and where they are kept.

**ID.** ``H`` is SHA-256, and ``f(x)`` frames a field: its length as 8 bytes, big endian, then its bytes. ::

    commit ID := H( f("graveler commit 1")
                    f(parents: 32 raw bytes each, in order)
                    f(metarange ID: 32 raw bytes, none for the tree without objects)
                    f(committer) f(message)                         (UTF-8)
                    f(creation time: 8 bytes, big endian, signed; Unix seconds)
                    f(metadata: f(key) f(value) for each pair, in order of the keys' bytes)
                    f(operation id) )

So no two different commits share the bytes that are hashed. The generation and the part of the metarange's name that pins
addresses follow from, or add to, what the ID covers, and are not in it.

**Record.** A JSON object without white space, its fields in the order of :class:`_Record` and metadata in order of the keys: the
same commit always has the same bytes. It is kept twice, in the table and as ``_graveler/commits/<id>`` in the object store.
Whatever changes the fields or their meaning, or the files that a record names, raises its ``version``: so a record of this
version with other fields is damaged, and one of a higher version is not judged at all.

**Item.** Partition ``<repository uid>/commit/<first digit>``, sort key the ID's 64 digits. Attributes: ``record``; ``line``, the
raw IDs of the next 32 ancestors along first parents, nearest first; ``published`` (Unix seconds) if that was more than an hour
after the commit's own time; ``expired`` (Unix seconds) once no ref may be pointed at the commit any more. The line is only a hint
for a walk's next reads. A walk never relies on it, but follows the records.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, CorruptError, InvalidError, LaterVersionError, RefNotFoundError
from graveler.history.split_parameters import inherited
from graveler.model import Commit, CommitID, MetarangeID, MetarangeName, RepositoryUID
from graveler.requests.base import CommitInfo
from graveler.storage.limits import text_key
from graveler.storage.tables.port import MAX_ITEM_BYTES, Absent, Check, Item, Key, Matches, Put, Tables

RECORD_VERSION: Final = 1
ID_DIGITS: Final = 64
MIN_PREFIX_DIGITS: Final = 4
"""A shorter prefix of an ID names no commit."""

LINE_LENGTH: Final = 32
"""Number of first-parent ancestors that an item names."""

MAX_RECORD_BYTES: Final = MAX_ITEM_BYTES - 8_000
"""Longest record: the item also holds the line, the key and its attributes' names."""

READ_BATCH: Final = 100
"""Number of items that the tables return per request."""

MAX_AHEAD: Final = 86_400
"""Seconds by which a commit's given time may be ahead of the clock: its author may be in another time zone."""

_BACKDATED: Final = 3_600
"""Seconds between a commit's own time and its publication, from which on its item records both."""

_TAG: Final = b"graveler commit 1"
_DIGITS: Final = frozenset("0123456789abcdef")
_RAW: Final = 32


class _Record(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of the JSON, in this order."""

    version: int
    parents: tuple[str, ...]
    metarange: str
    committer: str
    message: str
    created: int
    generation: int
    operation: str
    metadata: dict[str, str]


class _Version(Struct, frozen=True):
    version: int


_encode = msgspec.json.Encoder().encode
_decode_record = msgspec.json.Decoder(_Record).decode
_decode_version = msgspec.json.Decoder(_Version).decode


def is_hex(text: str) -> bool:
    """Return whether ``text`` is lower-case hex digits only."""
    return _DIGITS.issuperset(text)


def is_commit_id(text: str) -> bool:
    """Return whether ``text`` has the form of a whole commit ID."""
    return len(text) == ID_DIGITS and is_hex(text)


def commit_id(
    *,
    parents: Sequence[CommitID],
    metarange_id: MetarangeID,
    committer: str,
    message: str,
    created: int,
    metadata: Mapping[str, str],
    operation: str,
) -> CommitID:
    """Return the ID of the commit with these contents (see above for the bytes hashed). ``created`` in Unix seconds. No request.

    Raises :class:`InvalidError` for text that is not UTF-8, IDs that are not digests and times beyond 64 bits.
    """
    fields = _hashed_fields(parents, metarange_id, committer, message, created, metadata, operation)
    return CommitID(sha256(_framed(fields)).hexdigest())


def _hashed_fields(
    parents: Sequence[CommitID],
    metarange_id: MetarangeID,
    committer: str,
    message: str,
    created: int,
    metadata: Mapping[str, str],
    operation: str,
) -> Sequence[bytes]:
    try:
        pairs = [part for pair in sorted((k.encode(), v.encode()) for k, v in metadata.items()) for part in pair]
        return (
            _TAG,
            b"".join([_raw(parent) for parent in parents]),
            _raw(metarange_id) if metarange_id else b"",
            committer.encode(),
            message.encode(),
            created.to_bytes(8, "big", signed=True),
            _framed(pairs),
            operation.encode(),
        )
    except UnicodeEncodeError as error:
        raise InvalidError(
            f"the text of a commit cannot be written as UTF-8: {error.object!r}, {error.reason}"
        ) from None
    except OverflowError:
        raise InvalidError(f"creation time {created} is out of range; give Unix time in seconds") from None


def new_commit(
    parents: Sequence[Commit],
    metarange: MetarangeName,
    committer: str,
    message: str,
    created: int,
    metadata: Mapping[str, str],
    operation: str,
    cuts: str | None = None,
) -> Commit:
    """Return a commit on top of ``parents`` (none for the first one), its generation one more than the highest of theirs.

    ``created`` in Unix seconds; ``operation`` names the one run that makes this commit, so that equal contents still are two
    commits. ``cuts`` are the split parameters of its tree, if not those of its first parent
    (:mod:`graveler.history.split_parameters`). No request. Raises :class:`InvalidError` as :func:`commit_id` does, for a
    parent named twice, and for message and metadata that do not fit an item of the table.
    """
    metadata = inherited(metadata, parents, cuts)
    ids = tuple(parent.id for parent in parents)
    if len(set(ids)) != len(ids):
        raise InvalidError(f"commit {ids[0][:16]} is given twice as a parent; give each parent once")
    commit = Commit(
        id=commit_id(
            parents=ids,
            metarange_id=MetarangeID(metarange.partition("-")[0]),
            committer=committer,
            message=message,
            created=created,
            metadata=metadata,
            operation=operation,
        ),
        parents=ids,
        metarange=metarange,
        committer=committer,
        message=message,
        created=created,
        generation=1 + max((parent.generation for parent in parents), default=0),
        operation=operation,
        metadata=dict(sorted(metadata.items())),
    )
    _check_size(commit)
    return commit


def _check_size(commit: Commit) -> None:
    size = len(encode_commit(commit))
    if size > MAX_RECORD_BYTES:
        raise InvalidError(
            f"the commit's record has {size} bytes, but at most {MAX_RECORD_BYTES} are allowed; shorten its message or metadata"
        )


def check_date(created: int | None, now: float) -> None:
    """Check that a commit's date is plausible. :class:`InvalidError` if it is before 1970, or more than a day after ``now``. No
    request."""
    if created is not None and not 0 <= created <= now + MAX_AHEAD:
        raise InvalidError(
            f"the commit's date {created} is out of range; give Unix time in seconds, from 1970 to one day from now"
        )


def check_info(info: CommitInfo, now: float) -> None:
    """Check that a commit can carry this information, before the work begins. :class:`InvalidError`. ``now`` in Unix seconds."""
    check_date(info.created, now)
    metadata = inherited(info.metadata, [], None)
    created = 0 if info.created is None else info.created
    _hashed_fields([], MetarangeID(""), info.author, info.message, created, metadata, "")
    no_id, no_tree = CommitID(""), MetarangeName("")
    _check_size(Commit(no_id, (), no_tree, info.author, info.message, created, 1, "", dict(metadata)))


def new_commit_from_info(
    info: CommitInfo,
    parents: Sequence[Commit],
    metarange: MetarangeName,
    now: float,
    operation: str,
    cuts: str | None = None,
) -> Commit:
    """Return a commit with this information, at the time ``now`` (Unix seconds) unless the info has another."""
    when = int(now) if info.created is None else info.created
    return new_commit(parents, metarange, info.author, info.message, when, info.metadata, operation, cuts)


def published_at(created: int, item: Item) -> int:
    """Return when the commit of an ``item`` became part of the history, in Unix seconds: the commit's own time (``created``),
    except for a backdated one. :class:`CorruptError` for an item that cannot be read."""
    published = item.get("published", created)
    if not isinstance(published, int):
        raise CorruptError(f"the item of a commit has {published!r} as its time of publication")
    return max(created, published)


def encode_commit(commit: Commit) -> bytes:
    """Return the record of ``commit``, which the table and the object store hold. The same bytes every time."""
    return _encode(
        _Record(
            version=RECORD_VERSION,
            parents=commit.parents,
            metarange=commit.metarange,
            committer=commit.committer,
            message=commit.message,
            created=commit.created,
            generation=commit.generation,
            operation=commit.operation,
            metadata=dict(sorted(commit.metadata.items())),
        )
    )


def decode_commit(cid: CommitID, record: bytes) -> Commit:
    """Return the commit of a record that was stored as ``cid``. Some 10 µs, no request.

    Raises :class:`LaterVersionError` for a record of a later version, whatever else is in it, and :class:`CorruptError` that
    names the commit if the bytes are not a record, or that of another commit.
    """
    try:
        stored = _decode_record(record)
    except UNREADABLE as error:
        expect_known_version(cid, record)
        raise CorruptError(f"the record of commit {cid} cannot be read: {error}") from None
    if stored.version != RECORD_VERSION:
        expect_known_version(cid, record)
        raise CorruptError(
            f"the record of commit {cid} is damaged: no version of graveler writes version {stored.version}"
        )
    parents = tuple(map(CommitID, stored.parents))
    metarange = MetarangeName(stored.metarange)
    try:
        actual = commit_id(
            parents=parents,
            metarange_id=MetarangeID(stored.metarange.partition("-")[0]),
            committer=stored.committer,
            message=stored.message,
            created=stored.created,
            metadata=stored.metadata,
            operation=stored.operation,
        )
    except InvalidError as error:
        raise CorruptError(f"the record of commit {cid} cannot be read: {error}") from None
    if actual != cid:
        raise CorruptError(f"the record of commit {cid} is damaged: its contents have the ID {actual}")
    if (stored.generation == 1) != (not parents) or stored.generation < 1:
        raise CorruptError(
            f"the record of commit {cid} is damaged: generation {stored.generation}, {len(parents)} parents"
        )
    return Commit(
        cid,
        parents,
        metarange,
        stored.committer,
        stored.message,
        stored.created,
        stored.generation,
        stored.operation,
        stored.metadata,
    )


def expect_known_version(cid: CommitID, record: bytes) -> None:
    """Refuse a record of a later version, whatever else is in it: :class:`LaterVersionError`. 1 µs, no request."""
    try:
        version = _decode_version(record).version
    except UNREADABLE:
        return  # of no version
    if version > RECORD_VERSION:
        raise LaterVersionError(f"the record of commit {cid}", version, RECORD_VERSION)


def commit_item(commit: Commit, line: bytes, now: float) -> Item:
    """Return the item of a commit published at ``now`` (Unix seconds); see the module's docstring for ``line``."""
    return {"record": encode_commit(commit), "line": line, **publication(commit.created, now)}


def publication(created: int, published: float) -> Item:
    """Return the part of a commit's item with its time of publication (Unix seconds), if it differs from the commit's own
    time."""
    return {"published": int(published)} if published - created > _BACKDATED else {}


class CachedCommit(Struct, frozen=True):
    """A commit and its item's line (see the module's docstring)."""

    commit: Commit
    line: bytes

    def ancestors(self) -> list[CommitID]:
        """Return the IDs of probably the next ancestors along first parents, nearest first."""
        digits = self.line.hex()
        return [CommitID(digits[start : start + ID_DIGITS]) for start in range(0, len(digits), ID_DIGITS)]


class CommitStore:
    """The commits of one repository in the table, with the last ``capacity`` or so of them in memory.

    Records never change, so the memory needs no protocol. It proves a commit's contents, not that the commit is alive: point a
    ref at an existing commit only with :meth:`alive_check` in the same transaction. Safe to share between threads.
    """

    def __init__(self, tables: Tables, uid: RepositoryUID, capacity: int = 16_384) -> None:
        self._tables, self._uid = tables, uid
        # Two halves: a used entry moves to the new one, and when that is full the old one is dropped. This approximates "least
        # recently used", and every step is one dict operation, so threads need no lock.
        self._half = max(1, capacity // 2)
        self._new: dict[CommitID, CachedCommit] = {}
        self._old: dict[CommitID, CachedCommit] = {}

    @property
    def uid(self) -> RepositoryUID:
        """The repository's uid."""
        return self._uid

    def key(self, cid: CommitID) -> Key:
        """Return the key of the commit's item."""
        return Key(f"{self._uid}/commit/{cid[0]}", cid.encode())

    def get(self, cid: CommitID) -> Commit:
        """Return the commit. One request, none if it is in memory. :class:`RefNotFoundError` if it does not exist,
        :class:`LaterVersionError` or :class:`CorruptError` if its record cannot be read, as :func:`decode_commit`."""
        cached = self.in_memory(cid)
        return self.get_many([cid])[0] if cached is None else cached.commit

    def get_many(self, ids: Sequence[CommitID]) -> list[Commit]:
        """Return the commits, in the order of ``ids``. One request for each 100 that are not in memory. Errors as :meth:`get`."""
        cached = {cid: self.in_memory(cid) for cid in ids}
        cached.update(self.read([cid for cid, commit in cached.items() if commit is None]))
        commits = []
        for cid in ids:
            commit = cached[cid]
            if commit is None:
                raise RefNotFoundError(cid, "no commit has this ID")
            commits.append(commit.commit)
        return commits

    def in_memory(self, cid: CommitID) -> CachedCommit | None:
        """Return the commit if it is in memory, without a request."""
        commit = self._new.get(cid)
        if commit is None:
            commit = self._old.get(cid)
            if commit is not None:
                self._remember(commit)
        return commit

    def read(self, ids: Sequence[CommitID]) -> dict[CommitID, CachedCommit]:
        """Return those of ``ids`` (distinct) that exist, read from the table and kept in memory. One request for each 100."""
        if not ids:
            return {}
        items = self._tables.get_many([self.key(cid) for cid in ids])
        return {cid: self.decode(cid, item) for cid, item in zip(ids, items, strict=True) if item is not None}

    def decode(self, cid: CommitID, item: Item) -> CachedCommit:
        """Return the commit of the item at :meth:`key`, for callers that read it together with others. Kept in memory; no
        request."""
        record, line = item.get("record"), item.get("line", b"")
        if not isinstance(record, bytes) or not isinstance(line, bytes):
            raise CorruptError(f"the item of commit {cid} has no record")
        cached = CachedCommit(decode_commit(cid, record), line[: len(line) // _RAW * _RAW])
        self._remember(cached)
        return cached

    def find_prefix(self, prefix: str, limit: int = 8) -> list[CommitID]:
        """Return the IDs of commits that begin with ``prefix`` (4 to 64 lower-case hex digits), at most ``limit``, in order; more
        than one means that the prefix is ambiguous. One request. :class:`InvalidError` for any other prefix."""
        if not MIN_PREFIX_DIGITS <= len(prefix) <= ID_DIGITS or not is_hex(prefix):
            raise InvalidError(
                f"{prefix!r} is not a prefix of a commit ID; give {MIN_PREFIX_DIGITS} to {ID_DIGITS} digits of 0-9, a-f"
            )
        start = prefix.encode()
        partition = f"{self._uid}/commit/{prefix[0]}"
        page = self._tables.query(partition, start=start, end=start + b"g", limit=limit)
        return [CommitID(text_key(partition, sort)) for sort, _ in page.items]

    def put_write(self, commit: Commit, now: float) -> Put:
        """Return the write of a transaction that adds ``commit`` at ``now`` (Unix seconds), on condition that its ID is new.

        No request if the first parent is in memory, as it is for a caller that just built on it; one otherwise.
        :class:`RefNotFoundError` if that parent does not exist.
        """
        line = b""
        if commit.parents:
            parent_id = commit.parents[0]
            parent = self.in_memory(parent_id) or self.read([parent_id]).get(parent_id)
            if parent is None:
                raise RefNotFoundError(
                    parent_id, f"commit {commit.id[:16]} names it as its parent, but no commit has this ID"
                )
            line = (_raw(parent_id) + parent.line)[: LINE_LENGTH * _RAW]
        return Put(self.key(commit.id), commit_item(commit, line, now), Absent())

    def remember(self, commit: Commit, written: Put) -> None:
        """Keep in memory a commit whose :meth:`put_write` was just executed: its maker is mostly asked for it next. No
        request."""
        line = written.item.get("line", b"")
        assert isinstance(line, bytes)
        self._remember(CachedCommit(commit, line))

    def alive_check(self, cid: CommitID) -> Check:
        """Return the part of a transaction that makes it fail unless the commit exists and has not expired."""
        return Check(self.key(cid), Matches({"expired": None}))

    def has_expired(self, cid: CommitID) -> bool:
        """Return whether the commit has expired or is gone. One table read."""
        item = self._tables.get(self.key(cid))
        return item is None or "expired" in item

    def _remember(self, cached: CachedCommit) -> None:
        if len(self._new) >= self._half:
            self._old, self._new = self._new, {}
        self._new[cached.commit.id] = cached


def _framed(fields: Iterable[bytes]) -> bytes:
    return b"".join([part for field in fields for part in (len(field).to_bytes(8, "big"), field)])


def _raw(digest: str) -> bytes:
    """Return the 32 bytes of 64 hex digits."""
    if not is_commit_id(digest):
        raise InvalidError(f"{digest!r} is not an ID; give 64 lower-case hex digits")
    return bytes.fromhex(digest)
