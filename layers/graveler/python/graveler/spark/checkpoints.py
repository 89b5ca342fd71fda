"""The results of an import so far, in the object store, so that it can continue after an interruption.

::

    _graveler/imports/<listing's id>/<run>-<partition>     the result of a task

A subtree stands for *all* rows of the listing between two keys, whatever the partitions of the run were. A later run of the same
listing skips those rows and builds the rest; trees of intervals join to the same tree however they were split (law F1).

Files of trees that no commit holds become garbage after a while, so results older than a quarter of the collector's grace period
no longer count: their files might be gone before the import is committed.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Final

import msgspec

from graveler.errors import UNREADABLE, CorruptError
from graveler.spark.results import Span, Subtree, Subtrees, pack, unpack
from graveler.storage.objects.port import Objects, StoredObject

FOLDER: Final = "_graveler/imports"
_THREADS: Final = 16


class Checkpoint:
    """The state of the import of one listing into a repository whose namespace is ``objects``. Picklable.

    ``identity`` are texts that distinguish this import from all others: its listing, options and split parameters.
    """

    def __init__(self, objects: Objects, identity: Iterable[str]) -> None:
        self._objects = objects
        self.id = sha256(msgspec.msgpack.encode(list(identity))).hexdigest()[:32]

    def note(self, done: Subtrees) -> None:
        """Record the result of a task. One object write; none for an empty result, or one with bad rows, which have to be counted
        again."""
        if done.trees and not done.bad:
            task = done.trees[0]
            self._objects.put(f"{FOLDER}/{self.id}/{task.run}-{task.partition:06}", pack(done))

    def read(self, since: float) -> tuple[list[Subtree], float]:
        """Return the results recorded since that time (Unix seconds), ascending, and the time of the oldest. One listing; one
        object read per task."""
        young = [stored for stored in self._stored() if stored.modified >= since]
        with ThreadPoolExecutor(_THREADS) as threads:
            stored_subtrees = [subtree for done in threads.map(self._get, young) for subtree in done.trees]
        subtrees: list[Subtree] = []
        for subtree in sorted(stored_subtrees, key=lambda subtree: (subtree.first, subtree.last)):
            # Two concurrent runs build some intervals twice: either copy will do, and the rest of the other run is built again.
            if not subtrees or subtrees[-1].last < subtree.first:
                subtrees.append(subtree)
        return subtrees, min((stored.modified for stored in young), default=float("inf"))

    def drop(self) -> None:
        """Delete all of it. One listing, one deletion per result."""
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(lambda stored: self._objects.delete(stored.key), self._stored()))

    def _stored(self) -> list[StoredObject]:
        return list(self._objects.list(f"{FOLDER}/{self.id}/"))

    def _get(self, stored: StoredObject) -> Subtrees:
        try:
            return unpack(self._objects.get(stored.key))
        except UNREADABLE as error:
            raise CorruptError(
                f"{self._objects.namespace}/{stored.key} cannot be read ({error}); remove it, and import again"
            ) from None


def forget_old(objects: Objects, before: float) -> int:
    """Remove the results of imports left unfinished since ``before`` (Unix seconds) and return their number. One listing of
    all."""
    old = [stored.key for stored in objects.list(f"{FOLDER}/") if stored.modified < before]
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(objects.delete, old))
    return len(old)


def spans_of(subtrees: Sequence[Subtree]) -> list[Span]:
    """Return the intervals that these ascending trees cover; as few as possible: neighbouring trees of one run, which skipped
    nothing between them, have no rows between them."""
    spans: list[Span] = []
    before: Subtree | None = None
    for subtree in subtrees:
        if (
            before is not None
            and (before.run, before.partition + 1) == (subtree.run, subtree.partition)
            and before.ends
            and subtree.begins
            and subtree.after <= before.last
        ):
            spans[-1] = spans[-1][0], subtree.last
        else:
            spans.append((subtree.first, subtree.last))
        before = subtree
    return spans
