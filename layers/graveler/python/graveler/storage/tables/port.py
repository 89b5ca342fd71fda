"""The port *tables*: small items with a partition key and a sort key, and conditional writes. DynamoDB's model, in plain types.

One table serves a whole lake. Reads are strongly consistent. Items of one partition are ordered by the bytes of their sort key.
Limits that every adapter enforces (:mod:`graveler.storage.limits`): partition key 1 to 2,048 bytes, sort key 1 to 1,024, item 400
KB, transaction 100 writes of distinct keys and 4 MB; beyond them :class:`graveler.errors.InvalidError`. Every method is one
request; adapters that need several (batches beyond the service's limit) say so.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from graveler.errors import AnswerLostError, CorruptError, GravelerError, PreconditionError

Value: TypeAlias = str | bytes | int | bool | list[str]
Item: TypeAlias = Mapping[str, Value]
"""Attributes besides the key. An attribute that does not apply is left out; null does not exist."""

MAX_TRANSACTION_WRITES = 100
MAX_SORT_KEY_BYTES = 1024
MAX_ITEM_BYTES = 400_000


class Key(Struct, frozen=True):
    """Address of an item: ``partition`` spreads load, ``sort`` orders within it."""

    partition: str
    sort: bytes


class Absent(Struct, frozen=True):
    """Condition: no item has this key."""


class Matches(Struct, frozen=True):
    """Condition: the item exists, and each of ``attributes`` equals the value given; None means the item lacks it."""

    attributes: Mapping[str, Value | None] = {}


Condition: TypeAlias = Absent | Matches


class Put(Struct, frozen=True):
    """A write that replaces or creates the whole item."""

    key: Key
    item: Item
    condition: Condition | None = None


class Delete(Struct, frozen=True):
    """A write that removes the item; without a condition a missing one is success."""

    key: Key
    condition: Condition | None = None


class Check(Struct, frozen=True):
    """A member of a transaction that writes nothing, but makes it fail unless ``condition`` holds."""

    key: Key
    condition: Condition


Write: TypeAlias = Put | Delete | Check


class ConditionFailedError(PreconditionError):
    """A condition did not hold, and nothing was written.

    ``failures`` maps the position of each write whose condition failed (0 for a single write) to the item that stood there
    instead, or None if there was none.
    """

    def __init__(self, failures: Mapping[int, Item | None]) -> None:
        self.failures = dict(failures)
        super().__init__(f"a condition of the table failed (writes {sorted(self.failures)}); nothing was written")


class DamagedItemError(CorruptError):
    """The item under ``key`` is not what was written; what was read together with it may be fine."""

    def __init__(self, key: Key, message: str) -> None:
        self.key = key
        super().__init__(message)


class QueryPage(Struct, frozen=True):
    """Items of one partition in order of their sort key. ``more``: the limit, or the page's size, ended it early."""

    items: list[tuple[bytes, Item]]
    more: bool


class Query(Struct, frozen=True):
    """The arguments of :meth:`Tables.query`, for :meth:`Tables.query_many`."""

    partition: str
    start: bytes = b""
    end: bytes | None = None
    limit: int = 1000
    descending: bool = False


@runtime_checkable
class VerifiableTables(Protocol):
    """The additional method of tables whose store can check its own file."""

    def integrity_errors(self) -> list[str]:
        """Return what is wrong with the store's file, a sentence for each damage; nothing if it is sound. Reads all of it."""
        ...


@runtime_checkable
class LocalTables(Protocol):
    """The mark of tables whose requests take the processor's time and no waiting: asking ahead, in another thread, gains nothing
    there, and takes as long again."""

    @property
    def is_local(self) -> bool:
        """True."""
        ...


class Tables(Protocol):
    """Items under conditional writes. Safe to share between threads; several processes may use one table at once.

    Errors: :class:`ConditionFailedError`; :class:`graveler.errors.BusyError` when others kept the table busy (nothing was
    written, the same call may succeed later); :class:`graveler.errors.UnavailableError`.
    """

    def get(self, key: Key) -> Item | None:
        """Return the item, or None."""
        ...

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Return the items, in the order of ``keys``; each is current, but they may be from different moments. One request for
        each 100."""
        ...

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        """Return items with ``start <= sort key < end`` (no ``end``: to the last one), at most ``limit``, ascending or
        descending."""
        ...

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        """Return the pages of several queries, in their order; concurrently if the table is remote. One request for each."""
        ...

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> None:
        """Replace or create one item, durably."""
        ...

    def replace(self, key: Key, item: Item) -> Item | None:
        """Replace or create one item, durably; return the previous item, or None if none existed.

        An adapter retries a request whose response was lost, and then returns ``item``, since the item that the first try
        replaced is unknown, although another one may be there by then: a caller that relies on the result puts a mark into the
        item that distinguishes its own writes.
        """
        ...

    def replace_and_get(self, key: Key, item: Item, keys: Sequence[Key]) -> tuple[Item | None, list[Item | None]]:
        """Replace an item as :meth:`replace`, then read other ``keys`` as :meth:`get_many`: after the item is in its place, or at
        the same moment. :class:`graveler.errors.AnswerLostError` if the item may be there and the others were not read."""
        ...

    def delete(self, key: Key, condition: Condition | None = None) -> None:
        """Remove one item, durably."""
        ...

    def write_many(self, writes: Sequence[Put | Delete]) -> None:
        """Make many unconditional writes of distinct keys. Each is durable afterwards, but they are not a transaction: after an
        error some may have happened. One request for each 25."""
        ...

    def transact(self, writes: Sequence[Write]) -> None:
        """Make all of the writes or none, durably, at one moment. At most 100, of distinct keys."""
        ...

    def remove_expired(self, now: float) -> int:
        """Remove items whose attribute ``expires`` (Unix seconds) lies before ``now``; return their number. If the service does
        so by itself, return 0 without a request. Other adapters look at every item of the table."""
        ...

    def remove_partitions(self, prefix: str) -> int:
        """Remove all items of the partitions whose key begins with ``prefix`` (not empty), for good; return their number. If the
        service cannot find these, leave them, to their owner and to their ``expires``, and return 0 without a request."""
        ...


def has_expired(item: Item, now: float) -> bool:
    """Return whether :meth:`Tables.remove_expired` may remove the item."""
    expires = item.get("expires")
    return isinstance(expires, int) and not isinstance(expires, bool) and expires < now


def replace_then_get(
    tables: Tables, key: Key, item: Item, keys: Sequence[Key]
) -> tuple[Item | None, list[Item | None]]:
    """Do the work of :meth:`Tables.replace_and_get` in two requests."""
    replaced = tables.replace(key, item)
    try:
        return replaced, tables.get_many(keys)
    except GravelerError as error:
        raise AnswerLostError(f"an item was written to the table, but the read after it failed: {error}") from error


def query_in_turn(tables: Tables, queries: Sequence[Query]) -> list[QueryPage]:
    """Do the work of :meth:`Tables.query_many` for a table where waiting costs nothing."""
    return [
        tables.query(query.partition, start=query.start, end=query.end, limit=query.limit, descending=query.descending)
        for query in queries
    ]
