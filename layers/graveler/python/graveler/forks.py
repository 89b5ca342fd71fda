"""Locks that no forked process waits for.

A fork copies the memory and one thread. A lock that another thread of the parent held stays locked in the child, where nobody
can release it, and the first verb there would hang. Loaders of training data fork their workers beside busy threads.
"""

import os
from threading import Lock
from typing import Final
from weakref import WeakSet


def new_lock() -> Lock:
    """Returns a lock which is free in a forked child, whoever held it in the parent.

    What it guards has to be usable at any moment in which the parent may fork: caches and tables of handles, whose single steps
    are whole. What belongs to the parent alone (connections, pipes, temporary folders) needs more than this.
    """
    made = Lock()
    _locks.add(made)
    return made


def _free_all() -> None:
    """Runs in a forked child, before anything else and beside no other thread."""
    for each in _locks:
        if each.locked():
            each.release()


_locks: Final[WeakSet[Lock]] = WeakSet()
os.register_at_fork(after_in_child=_free_all)
