"""The tables port in the memory of one process, for tests. Same semantics and limits as a real table."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from threading import RLock

from graveler.storage.limits import (
    check_batch,
    check_key,
    check_query,
    decode_item,
    encode_item,
    encode_transaction,
    holds,
)
from graveler.storage.tables.port import (
    Check,
    Condition,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Put,
    Query,
    QueryPage,
    Write,
    has_expired,
    query_in_turn,
    replace_then_get,
)


class MemoryTables:
    """Items in a dict of dicts, as encoded bodies, so that no stored item can be changed through a reference.

    Cannot be pickled: a copy in another process would be another table.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self.partitions: dict[str, tuple[list[bytes], dict[bytes, bytes]]] = {}

    def get(self, key: Key) -> Item | None:
        """Return the item, or None."""
        check_key(key)
        with self._lock:
            body = self.partitions.get(key.partition, ([], {}))[1].get(key.sort)
        return None if body is None else decode_item(key, body)

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Return the items, in the order of ``keys``, all from one moment."""
        with self._lock:
            return [self.get(key) for key in keys]

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        """Return items of one partition with ``start <= sort key < end``."""
        check_query(partition, limit)
        with self._lock:
            order, bodies = self.partitions.get(partition, ([], {}))
            sorts = order[bisect_left(order, start) : None if end is None else bisect_left(order, end)]
            if descending:
                sorts.reverse()
            items = [(sort, decode_item(Key(partition, sort), bodies[sort])) for sort in sorts[:limit]]
        return QueryPage(items, len(sorts) > limit)

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        """Return the pages of several queries, one after the other."""
        return query_in_turn(self, queries)

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> None:
        """Replace or create one item."""
        self.transact([Put(key, item, condition)])

    def replace(self, key: Key, item: Item) -> Item | None:
        """Replace or create one item; return the previous one."""
        with self._lock:
            replaced = self.get(key)
            self.transact([Put(key, item)])
        return replaced

    def replace_and_get(self, key: Key, item: Item, keys: Sequence[Key]) -> tuple[Item | None, list[Item | None]]:
        """Replace an item as :meth:`replace`, then read as :meth:`get_many`."""
        return replace_then_get(self, key, item, keys)

    def delete(self, key: Key, condition: Condition | None = None) -> None:
        """Remove one item."""
        self.transact([Delete(key, condition)])

    def write_many(self, writes: Sequence[Put | Delete]) -> None:
        """Make many unconditional writes of distinct keys."""
        check_batch(writes)
        bodies = [encode_item(write.key, write.item) if isinstance(write, Put) else b"" for write in writes]
        with self._lock:
            self._apply(writes, bodies)

    def transact(self, writes: Sequence[Write]) -> None:
        """Make all of the writes or none."""
        bodies = encode_transaction(writes)
        with self._lock:
            items = [None if write.condition is None else self.get(write.key) for write in writes]
            failures = {
                position: item
                for position, (write, item) in enumerate(zip(writes, items, strict=True))
                if not holds(write.condition, item)
            }
            if failures:
                raise ConditionFailedError(failures)
            self._apply(writes, bodies)

    def remove_expired(self, now: float) -> int:
        """Remove items whose ``expires`` lies before ``now``."""
        with self._lock:
            dead = [
                Delete(key)
                for partition, (order, bodies) in self.partitions.items()
                for key in (Key(partition, sort) for sort in order)
                if has_expired(decode_item(key, bodies[key.sort]), now)
            ]
            self._apply(dead, [b""] * len(dead))
        return len(dead)

    def remove_partitions(self, prefix: str) -> int:
        """Remove all items of the partitions whose key begins with ``prefix``."""
        with self._lock:
            names = [name for name in self.partitions if name.startswith(prefix)]
            return sum(len(self.partitions.pop(name)[0]) for name in names)

    def _apply(self, writes: Sequence[Write], bodies: Sequence[bytes]) -> None:
        for write, body in zip(writes, bodies, strict=True):
            if isinstance(write, Check):
                continue
            sort = write.key.sort
            order, partition = self.partitions.setdefault(write.key.partition, ([], {}))
            if isinstance(write, Put):
                if sort not in partition:
                    insort(order, sort)
                partition[sort] = body
            elif partition.pop(sort, None) is not None:
                del order[bisect_left(order, sort)]
