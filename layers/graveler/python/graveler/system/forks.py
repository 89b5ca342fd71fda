"""Locks that are free in forked processes.

A fork copies the memory and one thread. A lock that another thread of the parent held stays locked in the child, where no thread
can release it, and the first verb there would hang. Loaders of training data fork their workers while other threads work.
"""

import os
from threading import Lock
from typing import Final
from weakref import WeakSet


def new_lock() -> Lock:
    """Return a lock that is free in a forked child, even if a thread held it in the parent.

    The data that it guards must be usable at any moment at which the parent may fork: caches and tables of handles, whose single
    steps are atomic. Resources of the parent alone (connections, pipes, temporary folders) need more than this.
    """
    lock = Lock()
    locks.add(lock)
    return lock


def _free_all() -> None:
    """Release all locks. Runs in a forked child, before anything else and with no other thread."""
    for lock in locks:
        if lock.locked():
            lock.release()


locks: Final[WeakSet[Lock]] = WeakSet()
"""All locks that :func:`new_lock` has made and somebody holds on to."""
os.register_at_fork(after_in_child=_free_all)
