"""Counts of a function's requests (retries included), of the places where it found files of trees, and of its caches'
failures."""

from enum import Enum, auto
from threading import Lock
from typing import Final

from msgspec import Struct

_TABLES: Final = "DynamoDB"


class Counts(Struct):
    """The counts since they were last taken."""

    objects: int = 0
    tables: int = 0
    retries: int = 0
    in_memory: int = 0
    in_scratch: int = 0
    shared: int = 0
    missed: int = 0
    cache_failures: int = 0


class Tier(Enum):
    """The places where a file of a tree may be found, the nearest first."""

    MEMORY = auto()
    SCRATCH = auto()
    """The folder of this function alone."""
    SHARED = auto()
    """The file system that functions share."""
    STORE = auto()
    """The object store: it was in no cache."""


class Traffic:
    """Counts for one process, which works on one event at a time, in several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = Counts()

    def note_request(self, name: str, repeated: bool) -> None:
        """Count a request being sent. ``name`` is its name in errors (:func:`graveler.storage.aws_requests.send`)."""
        with self._lock:
            if name.startswith(_TABLES):
                self._counts.tables += 1
            else:
                self._counts.objects += 1
            self._counts.retries += repeated

    def note_file(self, tier: Tier) -> None:
        """Count a file of a tree by where it was found."""
        with self._lock:
            match tier:
                case Tier.MEMORY:
                    self._counts.in_memory += 1
                case Tier.SCRATCH:
                    self._counts.in_scratch += 1
                case Tier.SHARED:
                    self._counts.shared += 1
                case Tier.STORE:
                    self._counts.missed += 1

    def note_cache_failure(self) -> None:
        """Count a cache's failure to read, write or remove a copy."""
        with self._lock:
            self._counts.cache_failures += 1

    def take(self) -> Counts:
        """Return the counts, and reset them."""
        with self._lock:
            counts, self._counts = self._counts, Counts()
        return counts
