"""A lake's storage on DynamoDB's own engine and a real S3 server, in the form of :mod:`tests.lake.faults`.

Scenes of one process share a table and a bucket; each has partitions and a folder of its own in them.
"""

from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Final

from msgspec import Struct, structs

from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.tables.dynamodb import DynamoDBSettings, DynamoDBTables
from graveler.storage.tables.port import (
    Condition,
    Delete,
    Item,
    Key,
    Put,
    Query,
    QueryPage,
    Tables,
    Write,
    replace_then_get,
)
from graveler.system.retries import Retries
from tests.lake.faults import TickingClock
from tests.storage.adapters import make_bucket
from tests.support.servers import REGION, dynamodb_local, s3proxy


class Servers(Struct, frozen=True):
    """Where the two are asked, in which table and which bucket, and how long and how often."""

    name: str
    dynamodb_url: str
    s3_url: str
    timeout: float = 10
    retries: Retries = Retries()

    def table(self) -> DynamoDBTables:
        return DynamoDBTables(
            DynamoDBSettings(self.name, REGION, self.dynamodb_url, read_timeout=self.timeout, retries=self.retries)
        )

    def s3(self) -> S3Settings:
        return S3Settings(REGION, self.s3_url, read_timeout=self.timeout, retries=self.retries)


def new_servers() -> Servers:
    """An empty table and an empty bucket at this process's servers."""
    made = Servers(f"scenes-{token_hex(6)}", dynamodb_local(), s3proxy())
    made.table().create_table()
    make_bucket(made.name, made.s3())
    return made


@cache
def servers() -> Servers:
    """The table and the bucket of all scenes of this process."""
    return new_servers()


class NamedS3(S3Objects):
    """A store under the name that a story calls it by, wherever it is."""

    def __init__(self, bucket: str, prefix: str, settings: S3Settings, namespace: str) -> None:
        super().__init__(bucket, prefix, settings)
        self._named = namespace

    @property
    def namespace(self) -> str:
        return self._named


class PartOfTable:
    """The items of a table whose partition begins with ``own``, as if there were no others. ``written``: the partitions that
    something was written to."""

    def __init__(self, table: Tables, own: str, written: set[str] | None = None) -> None:
        self._table, self._own = table, own
        self.written: set[str] = set() if written is None else written

    def through(self, table: Tables) -> "PartOfTable":
        """The same, asked at another address."""
        return PartOfTable(table, self._own, self.written)

    def get(self, key: Key) -> Item | None:
        return self._table.get(self._at(key))

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        return self._table.get_many([self._at(key) for key in keys])

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        return self._table.query(self._own + partition, start=start, end=end, limit=limit, descending=descending)

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        return self._table.query_many([structs.replace(q, partition=self._own + q.partition) for q in queries])

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> None:
        self.written.add(key.partition)
        self._table.put(self._at(key), item, condition)

    def replace(self, key: Key, item: Item) -> Item | None:
        self.written.add(key.partition)
        return self._table.replace(self._at(key), item)

    def replace_and_get(self, key: Key, item: Item, keys: Sequence[Key]) -> tuple[Item | None, list[Item | None]]:
        return replace_then_get(self, key, item, keys)

    def delete(self, key: Key, condition: Condition | None = None) -> None:
        self._table.delete(self._at(key), condition)

    def write_many(self, writes: Sequence[Put | Delete]) -> None:
        self.written.update(write.key.partition for write in writes)
        self._table.write_many([structs.replace(write, key=self._at(write.key)) for write in writes])

    def transact(self, writes: Sequence[Write]) -> None:
        self.written.update(write.key.partition for write in writes)
        self._table.transact([structs.replace(write, key=self._at(write.key)) for write in writes])

    def remove_expired(self, now: float) -> int:
        return self._table.remove_expired(now)

    def remove_partitions(self, prefix: str) -> int:
        return self._table.remove_partitions(self._own + prefix)

    def _at(self, key: Key) -> Key:
        return Key(self._own + key.partition, key.sort)


_SERIALS: Final = count()


class AwsScene:
    """On DynamoDB Local and s3proxy."""

    def __init__(self, outside: Path) -> None:
        self.clock = TickingClock(time())  # objects have the server's time
        self.outside = outside
        outside.mkdir(parents=True, exist_ok=True)
        self._at = servers()
        self._own = f"{next(_SERIALS)}-"
        self.tables: Tables = PartOfTable(self._at.table(), self._own)
        self._taken: tuple[list[Put], list[tuple[str, bytes]]] | None = None

    def through(self, other: Servers) -> "AwsScene":
        """The same storage, asked elsewhere, as at proxies before it."""
        scene = object.__new__(AwsScene)
        scene.__dict__.update(self.__dict__)
        assert isinstance(self.tables, PartOfTable)
        scene._at, scene.tables = other, self.tables.through(other.table())
        return scene

    def objects(self, namespace: str) -> NamedS3:
        place = f"{self._own}/{namespace.removeprefix('mem://')}"
        return NamedS3(self._at.name, place, self._at.s3(), namespace)

    def copy(self, folder: Path) -> "AwsScene":
        if self._taken is None:
            self._taken = self._take()
        items, stored = self._taken
        other = AwsScene(folder)
        other.clock.time = max(self.clock.time, other.clock.time)
        other.tables.write_many(items)
        store = other._store()
        for key, data in stored:
            store.put(key, data)
        return other

    def close(self) -> None:
        """What is there stays until the servers end."""

    def _take(self) -> tuple[list[Put], list[tuple[str, bytes]]]:
        """All that is there; it is little, and nobody changes it."""
        assert isinstance(self.tables, PartOfTable)
        partitions = sorted(self.tables.written)
        pages = self.tables.query_many([Query(partition) for partition in partitions])
        assert not any(page.more for page in pages)
        items = [
            Put(Key(partition, sort), item)
            for partition, page in zip(partitions, pages, strict=True)
            for sort, item in page.items
        ]
        store = self._store()
        return items, [(stored.key, store.get(stored.key)) for stored in store.list()]

    def _store(self) -> S3Objects:
        return S3Objects(self._at.name, self._own, self._at.s3())
