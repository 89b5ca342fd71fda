"""What the work of an operation tells while it goes on, and what it is told."""

from threading import Event, Lock
from typing import Final, Protocol

from graveler.errors import PreconditionError
from graveler.lake.repository import OpenRepository
from graveler.requests.importing import ImportChanges

CANCELLED: Final = "Canceled by a user"


class CancelledError(PreconditionError):
    """Somebody asked to cancel the operation."""

    code = "operation_cancelled"


class GivenUpError(Exception):
    """The process is going down; somebody else will take the operation over. For this room only."""


class Report:
    """What the work tells while it goes on, from any of its threads; and at its end the ``changes`` of an import."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.objects = 0
        self.bytes = 0
        self.changes: ImportChanges | None = None
        self.cancelled = Event()
        self.interrupted = Event()

    def __call__(self, objects: int, size: int) -> None:
        """So many more objects (and bytes) are done. :class:`CancelledError` if there is no point in going on."""
        with self._lock:
            self.objects += objects
            self.bytes += size
        self.check()

    def check(self) -> None:
        """:class:`CancelledError` if somebody asked to cancel."""
        if self.cancelled.is_set():
            raise CancelledError(CANCELLED)
        if self.interrupted.is_set():
            raise GivenUpError


class Work(Protocol):
    """A kind of operation: does what the request asks for and returns what came of it, an ID, or nothing if nothing came of it
    that has one. It may be run again from the
    beginning, with the same ``operation_id``, and must then have the effect of one (promise C4)."""

    def __call__(self, repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str: ...
