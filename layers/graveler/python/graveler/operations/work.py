"""Interface between a worker and the work of an operation: progress, cancellation, interruption."""

from threading import Event, Lock
from typing import Final, Protocol

from graveler.errors import PreconditionError
from graveler.lake.repository import OpenRepository
from graveler.requests.importing import ImportChanges

CANCELLED: Final = "Canceled by a user"


class CancelledError(PreconditionError):
    """The operation was cancelled by a user."""

    code = "operation_cancelled"


class GivenUpError(Exception):
    """The process is shutting down; another one will take the operation over. For this room only."""


class Report:
    """Progress that work reports while it runs, from any of its threads, and the ``changes`` of a finished import."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.objects = 0
        self.bytes = 0
        self.changes: ImportChanges | None = None
        self.cancelled = Event()
        self.interrupted = Event()

    def __call__(self, objects: int, size: int) -> None:
        """Count more finished objects (and bytes). :class:`CancelledError` or :class:`GivenUpError` if going on is pointless."""
        with self._lock:
            self.objects += objects
            self.bytes += size
        self.check()

    def check(self) -> None:
        """Raise :class:`CancelledError` if the operation was cancelled, :class:`GivenUpError` if it was interrupted."""
        if self.cancelled.is_set():
            raise CancelledError(CANCELLED)
        if self.interrupted.is_set():
            raise GivenUpError


class Work(Protocol):
    """A kind of operation: does the request's work and returns the ID of its result, or nothing if the result has none. It may be
    run again from the beginning, with the same ``operation_id``, and must then have the effect of one run (promise C4)."""

    def __call__(self, repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str: ...
