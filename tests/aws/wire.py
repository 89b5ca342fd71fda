"""The requests that really reach the servers: all of this process to DynamoDB and S3, including repetitions."""

from collections import Counter
from threading import Lock

from graveler.storage.aws_requests import observers


class Wire:
    """Counts requests by operation, from :meth:`begin` to :meth:`stop`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.tables: Counter[str] = Counter()
        self.objects: Counter[str] = Counter()
        self.repeated = 0
        self._on = False
        observers.append(self._note)

    @property
    def requests(self) -> int:
        """All together."""
        return self.tables.total() + self.objects.total()

    def begin(self) -> None:
        """Count from zero."""
        self.tables.clear()
        self.objects.clear()
        self.repeated = 0
        self._on = True

    def stop(self) -> None:
        """Count no more."""
        self._on = False

    def _note(self, what: str, repeated: bool) -> None:
        if not self._on:
            return
        operation = what.rpartition(" ")[2] if what.startswith("DynamoDB") else what.rpartition(": ")[2]
        with self._lock:
            (self.tables if what.startswith("DynamoDB") else self.objects)[operation] += 1
            self.repeated += repeated


WIRE = Wire()
