"""How many requests a function has sent, repetitions among them, and how often its cache had what was looked for."""

from threading import Lock
from typing import Final

from msgspec import Struct

_TABLES: Final = "DynamoDB"


class Counts(Struct):
    """Since the counts were last taken."""

    objects: int = 0
    tables: int = 0
    retries: int = 0
    found: int = 0
    missed: int = 0


class Traffic:
    """Counts for one process, which works on one event at a time, in several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = Counts()

    def note_request(self, what: str, repeated: bool) -> None:
        """A request is sent. ``what`` is its name in errors (:func:`graveler.storage.aws_requests.send`)."""
        with self._lock:
            if what.startswith(_TABLES):
                self._counts.tables += 1
            else:
                self._counts.objects += 1
            self._counts.retries += repeated

    def note_cache(self, found: bool) -> None:
        """The cache was asked."""
        with self._lock:
            if found:
                self._counts.found += 1
            else:
                self._counts.missed += 1

    def take(self) -> Counts:
        """The counts, which begin anew."""
        with self._lock:
            taken, self._counts = self._counts, Counts()
        return taken
