"""The changes staged under tokens: putting, finding and scanning them.

An item's sort key is the object's key; attribute ``record`` holds the packed record, and is absent in a tombstone. Attribute
``put`` distinguishes single puts, so that a put that is refused afterwards can be taken back, and no other. An item without it is
firm. Before dropping something because an item hides it, or has replaced it, make the item firm. Attribute ``replaced`` marks an
item of a sealed token that a conditional write has replaced (:mod:`graveler.lake.objects.late_puts`).

**A delete always writes a tombstone**, also over an item that is only staged: removing the item instead would race with a commit
that has read it already (promise C1). Where several tokens hold a key, the newest counts; callers pass tokens from the newest on.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, cast

from msgspec import Struct
from xxhash import xxh64_intdigest

from graveler.errors import CorruptError
from graveler.model import RepositoryUID, Token
from graveler.staging.partition_scan import ReadAhead
from graveler.staging.tokens import Outcomes, TokenOutcome, new_token, next_token, shard_count
from graveler.storage.limits import check_text_keys
from graveler.storage.tables.port import (
    Absent,
    Condition,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Matches,
    Put,
    Query,
    Tables,
)
from graveler.storage.tables.walking import pages
from graveler.system.random_bytes import random_bytes

PAGE: Final = 1000
"""Number of items that one table read requests."""

_MARK: Final = "put"
_MARK_BYTES: Final = 8
_REPLACED: Final = "replaced"
_RECORD_TYPES: Final = frozenset((bytes, type(None)))

StagedRecord = tuple[bytes, bytes | None]
"""A key, and its packed record or None for a tombstone."""


class Staged(Struct, frozen=True):
    """The change staged for one key; ``packed`` is None for a tombstone."""

    packed: bytes | None


class Placed(Struct, frozen=True):
    """A put of one record, and the item that it replaced: None if it replaced none. ``is_certain`` is False if the first response
    was lost, so that the replaced item is unknown."""

    token: Token
    key: bytes
    packed: bytes | None
    mark: bytes
    replaced: Item | None
    is_certain: bool = True

    @classmethod
    def of_batch(cls, token: Token, key: bytes, packed: bytes | None) -> "Placed":
        """Return the put of a batch, which has no mark, and does not show what it replaced."""
        return cls(token, key, packed, b"", None, is_certain=False)

    @property
    def replaced_same(self) -> bool:
        """True if the same record was staged there before, so that the put changed nothing."""
        return self.is_certain and self.replaced is not None and record_of(self.replaced) == self.packed


class StagedChunk(Struct, frozen=True):
    """Some staged records in key order: all up to ``complete_upto``, inclusive; None means all that exist."""

    keys: list[bytes]
    packed: list[bytes | None]
    complete_upto: bytes | None


class StagedChanges:
    """The staged items of one repository. New tokens spread them over ``shards`` partitions."""

    def __init__(self, tables: Tables, uid: RepositoryUID, shards: int = 1) -> None:
        self._tables = tables
        self._uid = uid
        self._shards = shards

    def first_token(self) -> Token:
        """Return a token for a branch that is created or renamed."""
        return new_token(self._shards)

    def next_token(self, token: Token) -> Token:
        """Return a fresh token for the branch that has ``token``."""
        return next_token(token, self._shards)

    def put_and_look(
        self, token: Token, key: bytes, packed: bytes | None, keys: Sequence[Key]
    ) -> tuple[Placed, list[Item | None]]:
        """Stage one record, or (None) a tombstone; return it with what it replaced, and the items under ``keys`` at that time.
        One table write and one read, or both at once if the table supports that."""
        mark = random_bytes(_MARK_BYTES)
        # An adapter that got no response puts again, and then returns this very item.
        replaced, items = self._tables.replace_and_get(self._key(token, key), {**_item(packed), _MARK: mark}, keys)
        return Placed(token, key, packed, mark, replaced, replaced is None or replaced.get(_MARK) != mark), items

    def put_over_and_look(
        self, token: Token, key: bytes, packed: bytes | None, over: Item | None, keys: Sequence[Key]
    ) -> tuple[Placed | None, list[Item | None]]:
        """Stage one record as :meth:`put_and_look`, on condition that the item there is exactly ``over`` (None: there is none);
        None for the put if it is not. One table write and one read."""
        mark = random_bytes(_MARK_BYTES)
        place = self._key(token, key)
        put: Placed | None = Placed(token, key, packed, mark, over)
        try:
            self._tables.put(place, {**_item(packed), _MARK: mark}, _exactly(over))
        except ConditionFailedError:
            item, *items = self._tables.get_many([place, *keys])
            if item is None or item.get(_MARK) != mark:  # an adapter that got no response puts again
                put = None
            return put, items
        return put, self._tables.get_many(keys)

    def items_and_outcomes(
        self, placed: Sequence[Placed], outcomes: Outcomes
    ) -> tuple[list[Item | None], list[TokenOutcome | None]]:
        """Return the item where each put was made, and the outcome of its token. One table read."""
        keys = [self._key(put.token, put.key) for put in placed]
        items = self._tables.get_many([*keys, *(outcomes.key(put.token) for put in placed)])
        return items[: len(keys)], list(map(outcomes.decode, items[len(keys) :]))

    def item(self, token: Token, key: bytes) -> Item | None:
        """Return the item staged for a key, as it is stored. One table read."""
        return self._tables.get(self._key(token, key))

    def make_firm(self, token: Token, key: bytes, item: Item | None) -> bool:
        """Ensure that ``item``, which was read, cannot be taken back by its writer any more; return False if another one is there
        now. One table write, none if it is firm."""
        write = firm_write(self._key(token, key), item)
        if write is not None:
            try:
                self._tables.put(write.key, write.item, write.condition)
            except ConditionFailedError:
                return False
        return True

    def take_back_write(self, placed: Placed) -> Put | Delete:
        """Return the write that restores what a put replaced, on condition that its own item is still there. Use it only together
        with a check that the token is still open: then no commit can have read it. ``ValueError`` if the replaced item is
        unknown."""
        if not placed.is_certain:
            raise ValueError(f"it is unknown what {placed} replaced")
        key, condition = self._key(placed.token, placed.key), Matches({_MARK: placed.mark})
        return Delete(key, condition) if placed.replaced is None else Put(key, placed.replaced, condition)

    def stage_again(self, tokens: Sequence[Token], into: Token) -> Iterator[int]:
        """Stage everything under ``tokens`` (the oldest first) again, as it is, under ``into``, which has no readers yet. Yields
        the number of items after each thousand. One table read for each token, shard and thousand items, one table write for each
        25."""
        for token in tokens:
            for partition in self.partitions(token):
                for page in pages(self._tables, partition):
                    self._tables.write_many([Put(self._key(into, key), item) for key, item in page])
                    yield len(page)

    def put_many(self, token: Token, records: Sequence[StagedRecord]) -> None:
        """Stage records of distinct keys; each is durable by itself. One table write for each 25."""
        self._tables.write_many([Put(self._key(token, key), _item(packed)) for key, packed in records])

    def get(self, tokens: Sequence[Token], key: bytes) -> Staged | None:
        """Return the change staged for a key, or None. One table read."""
        return first_staged(self._tables.get_many(self.keys(tokens, key)))

    def keys(self, tokens: Sequence[Token], key: bytes) -> list[Key]:
        """Return the keys of a path's items under each of the tokens, for reading them with something else. No request."""
        return [self._key(token, key) for token in tokens]

    def get_many(self, tokens: Sequence[Token], keys: Sequence[bytes]) -> dict[bytes, Staged]:
        """Return the changes staged for some keys, by key. One table read for each hundred keys and token."""
        items = self._tables.get_many([self._key(token, key) for key in keys for token in tokens])
        changes: dict[bytes, Staged] = {}
        for number, item in enumerate(items):
            if item is not None:
                changes.setdefault(keys[number // len(tokens)], Staged(record_of(item)))
        return changes

    def look(self, tokens: Sequence[Token], key: bytes) -> list[Staged | None]:
        """Return the change staged for a key under each of the tokens. One table read."""
        return [None if item is None else Staged(record_of(item)) for item in self.items(tokens, key)]

    def items(self, tokens: Sequence[Token], key: bytes) -> list[Item | None]:
        """Return the item staged for a key under each of the tokens. One table read."""
        return self._tables.get_many([self._key(token, key) for token in tokens])

    def replaced_write(self, token: Token, key: bytes, item: Item) -> Put:
        """Return the write that marks the item of a sealed token as replaced on a condition, in the transaction that replaces it,
        as long as it is still there."""
        return Put(self._key(token, key), {**item, _REPLACED: True}, _exactly(item))

    def put_write(self, token: Token, key: bytes, packed: bytes | None, expected: Staged | None) -> Put:
        """Return the write that stages a record in a transaction, on condition that the staged change is exactly ``expected``
        (None: nothing)."""
        return Put(self._key(token, key), _item(packed), _as_seen(expected))

    def replace_write(self, token: Token, key: bytes, packed: bytes | None) -> Put:
        """Return the write that stages a record, or (None) a tombstone, in a transaction, whatever is staged there."""
        return Put(self._key(token, key), _item(packed))

    def delete_write(self, token: Token, key: bytes, expected: Staged) -> Delete:
        """Return the write that removes a staged record in a transaction, on condition that it is exactly ``expected``. Use it
        only together with a check that the token is still open: then no commit can have read it."""
        return Delete(self._key(token, key), _as_seen(expected))

    def exists(self, tokens: Sequence[Token]) -> bool:
        """Return whether anything is staged. Costs one table read per token and shard, concurrently."""
        return self.exist_in([tokens])[0]

    def exist_in(self, branches: Sequence[Sequence[Token]]) -> list[bool]:
        """Return for the tokens of each branch whether anything is staged, as :meth:`exists`; all table reads concurrently."""
        partitions = [[partition for token in tokens for partition in self.partitions(token)] for tokens in branches]
        queries = [Query(partition, limit=1) for of_branch in partitions for partition in of_branch]
        pages = iter(self._tables.query_many(queries))
        return [sum(len(page.items) for page in islice(pages, len(of_branch))) > 0 for of_branch in partitions]

    def chunk(self, tokens: Sequence[Token], start: bytes, end: bytes | None, limit: int = PAGE) -> StagedChunk:
        """Return some records with ``start <= key < end``. One table read for each token and shard."""
        # The newest token's pages last: they overwrite.
        partitions = [partition for token in reversed(tokens) for partition in self.partitions(token)]
        pages = self._tables.query_many([Query(partition, start, end, limit) for partition in partitions])
        for partition, page in zip(partitions, pages, strict=True):
            check_text_keys(partition, [key for key, _ in page.items])
        if len(pages) == 1:
            items, more = pages[0].items, pages[0].more
            keys = [key for key, _ in items]
            return StagedChunk(keys, records_of([item for _, item in items]), keys[-1] if more else None)
        complete_upto: bytes | None = None
        records: dict[bytes, bytes | None] = {}
        for page in pages:
            records.update((key, record_of(item)) for key, item in page.items)
            if page.more and (complete_upto is None or page.items[-1][0] < complete_upto):
                complete_upto = page.items[-1][0]
        keys = sorted(records)
        if complete_upto is not None:
            while keys[-1] > complete_upto:
                keys.pop()
        return StagedChunk(keys, [records[key] for key in keys], complete_upto)

    def sample(self, token: Token, intervals: Sequence[tuple[bytes, bytes | None]]) -> list[tuple[list[bytes], bool]]:
        """Return for each interval the first keys in one of the token's shards (about one key in ``shards``), and whether more
        follow. One table read each."""
        partition = self.partitions(token)[0]
        pages = self._tables.query_many([Query(partition, start, end, PAGE) for start, end in intervals])
        return [([key for key, _ in page.items], page.more) for page in pages]

    def scan(self, tokens: Sequence[Token], start: bytes = b"", end: bytes | None = None) -> Iterator[StagedRecord]:
        """Yield all records with ``start <= key < end`` in key order. Streaming: one table read for each token, shard and
        thousand of its items, of which one per shard is made ahead."""
        # The newest token's last: where several hold a key, it counts.
        partitions = [partition for token in reversed(tokens) for partition in self.partitions(token)]
        return iter(
            ReadAhead(self._tables, [Query(partition, start, end, PAGE) for partition in partitions], records_of)
        )

    def remove(self, token: Token, limit: int = PAGE) -> bool:
        """Remove the items staged under a token that no longer has readers, at most ``limit`` of each shard; return True when
        nothing is left."""
        partitions = self.partitions(token)
        pages = self._tables.query_many([Query(partition, limit=limit) for partition in partitions])
        deletes = [
            Delete(Key(partition, key))
            for partition, page in zip(partitions, pages, strict=True)
            for key, _ in page.items
        ]
        if deletes:
            self._tables.write_many(deletes)
        return not any(page.more for page in pages)

    def partitions(self, token: Token) -> list[str]:
        """Return the partitions of a token's items, one for each of its shards. No request."""
        return list(_partitions(self._uid, token))

    def _key(self, token: Token, key: bytes) -> Key:
        partitions = _partitions(self._uid, token)
        return Key(partitions[xxh64_intdigest(key) % len(partitions) if len(partitions) > 1 else 0], key)


@lru_cache(maxsize=1024)
def _partitions(uid: RepositoryUID, token: Token) -> tuple[str, ...]:
    return tuple(f"{uid}/staged/{token}/{shard}" for shard in range(shard_count(token)))


class StagedReader:
    """A reader that keeps the last chunk, so that continuing inside it costs no request."""

    def __init__(self, staged: StagedChanges, tokens: Sequence[Token]) -> None:
        self._staged = staged
        self._tokens = tuple(tokens)
        self._chunk = StagedChunk([], [], None)
        self._start: bytes | None = None
        self._end: bytes | None = None

    def again(self) -> "StagedReader":
        """Return another reader of the same changes."""
        return StagedReader(self._staged, self._tokens)

    def __bool__(self) -> bool:
        """Return whether it has any tokens."""
        return bool(self._tokens)

    def get(self, key: bytes) -> Staged | None:
        """Return the change staged for a key, or None. One table read."""
        return self._staged.get(self._tokens, key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Staged]:
        """Return the changes staged for some keys, by key. One table read for each hundred."""
        return self._staged.get_many(self._tokens, keys)

    def chunk(self, start: bytes, end: bytes | None) -> StagedChunk:
        """Return some records of ``[start, end)``, as :meth:`StagedChanges.chunk`; maybe also some before ``start``."""
        covered = (
            self._start is not None
            and self._start <= start
            and self._end == end
            and (self._chunk.complete_upto is None or start <= self._chunk.complete_upto)
        )
        if not covered:
            self._chunk = self._staged.chunk(self._tokens, start, end)
            self._start, self._end = start, end
        return self._chunk

    def scan(self, start: bytes, end: bytes | None) -> Iterator[StagedRecord]:
        """Yield all records with ``start <= key < end``, in key order."""
        for keys, packed in self.chunks(start, end):
            yield from zip(keys, packed, strict=True)

    def chunks(self, start: bytes, end: bytes | None) -> Iterator[tuple[list[bytes], list[bytes | None]]]:
        """Yield the same as :meth:`scan`, as lists of keys and packed records that were read together."""
        while True:
            chunk = self.chunk(start, end)
            index = bisect_left(chunk.keys, start)
            yield list(chunk.keys[index:]), list(chunk.packed[index:])
            if chunk.complete_upto is None:
                return
            start = chunk.complete_upto + b"\0"


def _item(packed: bytes | None) -> Item:
    return {} if packed is None else {"record": packed}


def _as_seen(change: Staged | None) -> Condition:
    return Absent() if change is None else Matches({"record": change.packed})


def _exactly(item: Item | None) -> Condition:
    if item is None:
        return Absent()
    return Matches({"record": None, _MARK: None, _REPLACED: None, **item})


def may_be_put_again(item: Item) -> bool:
    """Return whether the item of a sealed token may be a late put, whose writer does not know yet that it was replaced."""
    return _REPLACED not in item


def is_own(item: Item | None, put: Placed) -> bool:
    """Return whether an item is the one that a put has made, perhaps firm by now."""
    if item is None or record_of(item) != put.packed:
        return False
    return item[_MARK] == put.mark if _MARK in item else put.packed is not None or not put.mark


def is_marked_replaced(item: Item | None, put: Placed) -> bool:
    """Return whether the item of a put was marked by the conditional write that replaced it."""
    return item is not None and _REPLACED in item and is_own(item, put)


def firm_write(key: Key, item: Item | None) -> Put | None:
    """Return the write that makes the ``item`` under ``key`` firm, as long as it is still there: the same record, which its
    writer cannot take back any more. None if it is firm or missing. For callers that rely on its hiding what is below, or was
    before."""
    if item is None or _MARK not in item:
        return None
    return Put(key, {name: value for name, value in item.items() if name != _MARK}, Matches({_MARK: item[_MARK]}))


def first_staged(items: Iterable[Item | None]) -> Staged | None:
    """Return the change staged for a key by the items under its tokens, from the newest on. No request."""
    for item in items:
        if item is not None:
            return Staged(record_of(item))
    return None


def records_of(items: Sequence[Item]) -> list[bytes | None]:
    """Return the result of :func:`record_of` for each of these items. 0.1 µs each."""
    records = [item.get("record") for item in items]
    if _RECORD_TYPES.issuperset(map(type, records)):
        return cast(list[bytes | None], records)
    return [record_of(item) for item in items]


def record_of(item: Item) -> bytes | None:
    """Return the packed record of a staged item; None for a tombstone. :class:`CorruptError`."""
    record = item.get("record")
    if record is None or isinstance(record, bytes):
        return record
    raise CorruptError(f"a staged item contains {record!r}, which is not a record")
