"""Every verb, every request to a port, every kind of fault: what may be there afterwards, by a model in plain dicts.

One :class:`Case` is a verb in a small lake. :func:`boundaries` lists the requests of an undisturbed run; :func:`experiment`
runs the verb with faults at given requests, and then lets a fresh process go on: it repeats the verb, or goes on without it. Then

- all or nothing: the lake is as before, or as after the verb (verbs that say that they work piece by piece: each piece is);
- acknowledged is done: without an error, it is as after the verb; and a repeated verb succeeds, once;
- the next commits work, and wait no longer than a turn and a lease;
- each branch's reference log is a line that ends at its head, and fsck finds nothing wrong (garbage is no wrong).

To add a verb: append a :class:`Case` to the ``CASES`` of a module of :mod:`.cases`, with what it does to the model.
"""

from tests.lake.faults.case import Case
from tests.lake.faults.cases import CASES
from tests.lake.faults.experiment import Start, attempt, boundaries, experiment, go_on, settled, start
from tests.lake.faults.kinds import KINDS, READ_KINDS, READS, WAYS, Faults, Kind
from tests.lake.faults.model import public, seen
from tests.lake.faults.scenes import FolderScene, MemoryScene, Scene, TickingClock, client

__all__ = [
    "CASES",
    "KINDS",
    "READS",
    "READ_KINDS",
    "WAYS",
    "Case",
    "Faults",
    "FolderScene",
    "Kind",
    "MemoryScene",
    "Scene",
    "Start",
    "TickingClock",
    "attempt",
    "boundaries",
    "client",
    "experiment",
    "go_on",
    "public",
    "seen",
    "settled",
    "start",
]
