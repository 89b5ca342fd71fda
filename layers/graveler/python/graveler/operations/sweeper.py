"""Sweep of all repositories of a lake for operations whose workers died: once, or periodically from a thread."""

import logging
import random
from collections.abc import Callable, Collection, Iterator
from threading import Event, Thread
from typing import Final

from graveler.errors import GravelerError
from graveler.lake.lake import Lake
from graveler.lake.opening.repositories import PARTITION
from graveler.operations.operator import Operator
from graveler.storage.limits import text_key
from graveler.storage.tables.port import DamagedItemError
from graveler.storage.tables.walking import walk

EVERY: Final = 300.0
"""Seconds between two sweeps of a long-lived process."""

LOOK: Final = 10.0
"""Seconds between two looks at watched operations."""

_log = logging.getLogger(__name__)


def sweep(lake: Lake, operator: Operator, *, go_on: Callable[[], bool] = lambda: True) -> int:
    """Make ``operator`` begin dead operations again, or mark them as failed; return their number. Stops between two repositories
    once ``go_on`` returns False. One table read for each repository and each thousand of its operations; others as
    :meth:`Operator.sweep`."""
    dead = 0
    for name in _repositories(lake):
        if not go_on():
            break
        dead += _sweep_repository(lake, operator, name)
    return dead


def sweep_and_watch(lake: Lake, operator: Operator, *, go_on: Callable[[], bool] = lambda: True) -> int:
    """Sweep as :func:`sweep`, for a short-lived process, which has seen no sign of life yet: it watches each operation that has
    not ended until its worker gives one, or has died. Takes no time if all have ended; a minute at most if a worker is at work;
    otherwise the claim's length and a minute more (six minutes). One table read for each repository with such operations every
    :data:`LOOK` seconds."""
    dead = sweep(lake, operator, go_on=go_on)
    watched: dict[str, dict[str, int]] = {}
    for name in _repositories(lake):
        if not go_on():
            break
        watched[name] = _watched_versions(lake, operator, name)
    while (watched := {name: versions for name, versions in watched.items() if versions}) and go_on():
        lake.clock.sleep(LOOK)
        for name in watched:
            dead += _sweep_repository(lake, operator, name, watched[name])
            now = _watched_versions(lake, operator, name)
            watched[name] = {
                operation_id: version
                for operation_id, version in watched[name].items()
                if now.get(operation_id) == version
            }
    return dead


def _repositories(lake: Lake) -> Iterator[str]:
    """Yield the names of all repositories; one with a damaged item does not stop the others. One table read for each thousand."""
    for sort, item in walk(lake.tables, PARTITION):
        if isinstance(item, DamagedItemError):
            _log.error("operations of a repository cannot be swept: %s", item)
        else:
            yield text_key(PARTITION, sort)


def _sweep_repository(lake: Lake, operator: Operator, name: str, only: Collection[str] | None = None) -> int:
    try:
        return operator.sweep(lake.repository(name), only)
    except GravelerError as error:  # sweep the others nevertheless
        _log.warning("operations of repository %s could not be swept: %s", name, error)
        return 0


def _watched_versions(lake: Lake, operator: Operator, name: str) -> dict[str, int]:
    try:
        return operator.running(lake.repository(name))
    except GravelerError as error:  # as above
        _log.warning("operations of repository %s could not be watched: %s", name, error)
        return {}


class Sweeper:
    """A thread that sweeps soon, and then every ``every`` seconds, until it is closed."""

    def __init__(self, lake: Lake, operator: Operator, every: float = EVERY) -> None:
        self._lake = lake
        self._operator = operator
        self._every = every
        self._closed = Event()
        self._thread = Thread(target=self._run, name="graveler-sweeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, between two repositories if necessary."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        pause = random.uniform(0, min(self._every, 10.0))  # several processes begin at the same time
        while not self._closed.wait(pause):
            pause = self._every * random.uniform(0.8, 1.2)
            try:
                sweep(self._lake, self._operator, go_on=lambda: not self._closed.is_set())
            except GravelerError as error:  # the next sweep finds what this one did not
                _log.warning("operations could not be swept: %s", error)
