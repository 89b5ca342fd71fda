"""A bucket that emits events, a lake with a rule about it, and the expected contents of the branch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from graveler.ingest.events import EventKind, ObjectEvent, canonical
from graveler.ingest.ingester import Ingester
from graveler.ingest.rules import Rule, RuleStore
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Objects
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Tables
from tests.lake.support import NAME, NAMESPACE, TINY, FakeClock, Schedule
from tests.support.instruments import Boundaries, FaultyObjects, FaultyTables

BUCKET: Final = "s3://landing"
SOURCE: Final = "s3://landing/in/"
RULE: Final = Rule("r", SOURCE, "main", "data/")


class Bucket:
    """Objects that come and go, and an event for each change, as S3 would send it once."""

    def __init__(self, clock: FakeClock) -> None:
        self.store = MemoryObjects(BUCKET, clock.now, foreign=True)
        self.events: list[ObjectEvent] = []
        self._clock = clock
        self._number = 0

    def put(self, key: str, text: str = "1") -> ObjectEvent:
        etag = self.store.put(key, text.encode()).etag
        return self._tell(
            ObjectEvent(BUCKET, key, EventKind.CREATED, self._next(), len(text.encode()), etag, self._clock.now())
        )

    def delete(self, key: str) -> ObjectEvent:
        self.store.delete(key)
        return self._tell(ObjectEvent(BUCKET, key, EventKind.DELETED, self._next(), time=self._clock.now()))

    def held(self, prefix: str = "in/", destination: str = "data/") -> dict[str, str]:
        """Path in the branch → ETag, of what is there."""
        return {destination + stored.key.removeprefix(prefix): stored.etag for stored in self.store.list(prefix)}

    def _next(self) -> str:
        self._number += 1
        return canonical(f"{self._number * 0x1FF:012x}")

    def _tell(self, event: ObjectEvent) -> ObjectEvent:
        self.events.append(event)
        return event


@dataclass
class Shore:
    """A lake, a bucket beside it, and the time."""

    clock: FakeClock = field(default_factory=FakeClock)
    tables: Tables = field(default_factory=MemoryTables)

    def __post_init__(self) -> None:
        self.bucket = Bucket(self.clock)
        self._stores: dict[str, MemoryObjects] = {}
        self.lake().create_repository(NAME, NAMESPACE, split=TINY)

    def objects(self, namespace: str) -> MemoryObjects:
        if namespace not in self._stores:
            self._stores[namespace] = MemoryObjects(namespace, self.clock.now)
        return self._stores[namespace]

    def lake(self, schedule: Schedule | None = None, seen: Boundaries | None = None) -> Lake:
        """A process that has just begun; ``schedule`` makes its requests fail."""
        wanted, boundaries = schedule or (lambda *_: None), seen or Boundaries()

        def outside(address: str) -> tuple[Objects, str]:
            return FaultyObjects(self.bucket.store, wanted, boundaries), address.removeprefix(BUCKET + "/")

        return Lake(
            FaultyTables(self.tables, wanted, boundaries),
            lambda namespace: FaultyObjects(self.objects(namespace), wanted, boundaries),
            clock=self.clock,
            outside=outside,
        )

    def repository(self) -> OpenRepository:
        return self.lake().repository(NAME)

    def ingester(self, schedule: Schedule | None = None, seen: Boundaries | None = None) -> Ingester:
        return Ingester(self.lake(schedule, seen), self.clock)

    def add(self, rule: Rule = RULE, *, ago: float = 86_400.0) -> Rule:
        """Add a rule, as if it had been there for so many seconds: events of now are its own, beyond all doubt."""
        then = Lake(self.tables, self.objects, clock=FakeClock(self.clock.time - ago), outside=self.outside)
        return RuleStore(self.tables).add(then, NAME, rule)

    def outside(self, address: str) -> tuple[Objects, str]:
        return self.bucket.store, address.removeprefix(BUCKET + "/")

    def branch(self, ref: str = "main", prefix: str = "data/") -> dict[str, str]:
        """Path → checksum, of what the branch has."""
        return {entry.path: entry.checksum for entry in self.repository().objects(ref, prefix)}

    def log(self) -> list[str]:
        """Messages of commits, the oldest first, without the repository's own."""
        return [commit.message for commit in self.repository().log("main", amount=1000).results][-2::-1]


def traffic(bucket: Bucket, random: Random, changes: int, keys: int) -> list[ObjectEvent]:
    """Puts, overwrites and deletes of some keys, and their events as a queue brings them: some twice, some late."""
    names = [f"in/{number % 7}/k {number}+ä%2B.csv" for number in range(keys)]
    for _ in range(changes):
        key = random.choice(names)
        if random.random() < 0.25:
            bucket.delete(key)
        else:
            bucket.put(key, str(random.randrange(10)))
    late: Mapping[int, float] = {at: at + random.expovariate(1 / 30) for at in range(len(bucket.events))}
    order: Sequence[int] = sorted([*late, *random.choices(list(late), k=changes // 5)], key=lambda at: late[at])
    very_late = random.choices(bucket.events, k=changes // 50)
    return [*(bucket.events[at] for at in order), *very_late]
