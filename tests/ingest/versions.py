"""A bucket with or without versions that emits events, and the expected contents of a rule's branch in the end."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from graveler.ingest.events import EventKind, ObjectEvent, canonical
from graveler.ingest.rules import Deletes
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import ObjectMissingError, StoredObject
from tests.ingest.support import BUCKET
from tests.lake.support import FakeClock

KEYS: Final = ("in/a", "in/b c/é+%2B", "in//d")


@dataclass
class _Version:
    number: int
    stored: StoredObject | None
    """None: a delete marker."""


@dataclass
class VersionedBucket:
    """Each change is some seconds after the one before. ``store`` is what readers see."""

    clock: FakeClock
    versioned: bool
    events: list[ObjectEvent] = field(default_factory=list)
    created: dict[str, list[str]] = field(default_factory=dict)
    """The ETags of a key, in the order in which they were put."""

    def __post_init__(self) -> None:
        self.store = Shown(BUCKET, self.clock.now, foreign=True)
        self._versions: dict[str, list[_Version]] = {}
        self._number = 0

    def change(self, random: Random, key: str) -> None:
        """Put the key, delete it, or delete one of its versions for good."""
        versions = self._versions.setdefault(key, [])
        what = random.random()
        if what < 0.5 or not versions:
            self.put(key, "x" * random.randrange(1, 4))
        elif self.versioned and what < 0.75:
            self.delete_version(key, random.randrange(len(versions)))
        else:
            self.delete(key)

    def put(self, key: str, text: str) -> ObjectEvent:
        self._tick()
        stored = self.store.put(key, text.encode())
        versions = self._versions.setdefault(key, [])
        if not self.versioned:
            versions.clear()
        versions.append(_Version(self._number, stored))
        self.created.setdefault(key, []).append(stored.etag)
        return self._tell(key, EventKind.CREATED, stored)

    def delete(self, key: str) -> ObjectEvent:
        self._tick()
        self.store.delete(key)
        versions = self._versions[key]
        if self.versioned:
            versions.append(_Version(self._number, None))
        else:
            versions.clear()
        return self._tell(key, EventKind.DELETED)

    def delete_version(self, key: str, at: int) -> ObjectEvent:
        self._tick()
        versions = self._versions[key]
        del versions[at]
        self.store.show(key, versions[-1].stored if versions else None)
        return self._tell(key, EventKind.VERSION_DELETED)

    def etag(self, key: str) -> str | None:
        """Of what is there."""
        try:
            return self.store.head(key).etag
        except ObjectMissingError:
            return None

    def wanted(self, deletes: Deletes) -> dict[str, str]:
        """Path → ETag, of what the branch should have when all events were processed."""
        kept = {key: etags[-1] for key, etags in self.created.items()}
        there = {key: etag for key in self.created if (etag := self.etag(key)) is not None}
        return {"data/" + key[3:]: etag for key, etag in (kept if deletes is Deletes.KEEP else there).items()}

    def _tick(self) -> None:
        self.clock.time += 2.0
        self._number += 1

    def _tell(self, key: str, kind: EventKind, stored: StoredObject | None = None) -> ObjectEvent:
        size, etag = (0, "") if stored is None else (stored.size, stored.etag)
        event = ObjectEvent(
            BUCKET,
            key,
            kind,
            canonical(f"{self._number * 0x1FF:012x}"),
            size,
            etag,
            self.clock.now(),
            str(self._number),
        )
        self.events.append(event)
        return event


class Shown(MemoryObjects):
    """What readers of a bucket see."""

    def show(self, key: str, stored: StoredObject | None) -> None:
        """An older version shows, as it was written; None: none does."""
        self.delete(key)
        if stored is not None:
            self.put(key, b"x" * stored.size)
            self.objects[key] = b"x" * stored.size, stored
