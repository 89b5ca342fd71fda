"""Restarts of workers that ended unexpectedly, and the point at which the server gives up.

One death may have any cause: memory that ran out, an operator's signal. So the worker is replaced at once. If its successor dies
young, the next one waits, each time twice as long. A worker that dies young :data:`MOST` times in a row will not get better: then
the server ends, and leaves the decision to its supervisor.
"""

from typing import Final

YOUNG: Final = 5.0
"""Seconds of life after which a worker counts as healthy: its death is the first of a row again."""

MOST: Final = 6
"""The number of young deaths in a row, of one worker and its successors, at which the server ends."""

_FIRST: Final = 0.5
"""Seconds before the second restart in a row; twice as much before each further one."""


class Restarts:
    """The deaths of the workers so far."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}

    def died(self, worker: int, lived: float) -> float | None:
        """Note that the worker with this number ended after ``lived`` seconds. Return the seconds to wait before it is started
        again; None if the server is to end."""
        row = self._row.get(worker, 0) + 1 if lived < YOUNG else 1
        self._row[worker] = row
        if row >= MOST:
            return None
        return 0.0 if row == 1 else _FIRST * 2.0 ** (row - 2)
