"""What an import has built so far, in the object store, so that it can go on where it was interrupted.

::

    _graveler/imports/<listing's id>/<run>-<partition>     a task's :class:`Subtrees`

What a task built stands for *all* rows of the listing between two keys, whatever the partitions of the run were. A later run of
the same listing leaves those rows out and builds the rest; trees of intervals join to the same tree however they were cut
(law F1).

Files of trees that no commit holds are garbage after a while, so what is older than a quarter of the collector's grace does not
count any more: its files might be gone before the import is committed.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Final

import msgspec

from graveler.errors import CorruptError
from graveler.spark.subtrees import Span, Subtrees, pack, unpack
from graveler.storage.objects import Objects, StoredObject

FOLDER: Final = "_graveler/imports"
_THREADS: Final = 16


class Checkpoint:
    """The state of the import of one listing into a repository whose namespace is ``objects``. Picklable.

    ``said`` are texts that tell this import from every other: of its listing, of the options, of the split parameters.
    """

    def __init__(self, objects: Objects, said: Iterable[str]) -> None:
        self._objects = objects
        self.id = sha256(msgspec.msgpack.encode(list(said))).hexdigest()[:32]

    def note(self, done: Subtrees) -> None:
        """Note what a task built. One object write; none for one that built nothing, or that has bad rows, which have to be
        counted again."""
        if done.span is not None and not done.bad:
            self._objects.put(f"{FOLDER}/{self.id}/{done.run}-{done.partition:06}", pack(done))

    def read(self, since: float) -> tuple[list[Subtrees], float]:
        """What was built since that time (Unix seconds), by keys, each interval once; and when the oldest of it was noted. One
        listing; one object read for each."""
        young = [stored for stored in self._stored() if stored.modified >= since]
        with ThreadPoolExecutor(_THREADS) as threads:
            found = list(threads.map(self._get, young))
        spans = sorted(
            (done.span, stored.modified, number)
            for number, (done, stored) in enumerate(zip(found, young, strict=True))
            if done.span is not None
        )
        kept: list[Subtrees] = []
        oldest = float("inf")
        end = b""
        for (first, last), modified, number in spans:
            if kept and first <= end:
                continue  # built by two runs at the same time: either will do, and what is left out is built again
            kept.append(found[number])
            end = last
            oldest = min(oldest, modified)
        return kept, oldest

    def drop(self) -> None:
        """Forget it all. One listing, one deletion for each."""
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(lambda stored: self._objects.delete(stored.key), self._stored()))

    def _stored(self) -> list[StoredObject]:
        return list(self._objects.list(f"{FOLDER}/{self.id}/"))

    def _get(self, stored: StoredObject) -> Subtrees:
        try:
            return unpack(self._objects.get(stored.key))
        except msgspec.MsgspecError as error:
            raise CorruptError(
                f"{self._objects.namespace}/{stored.key} cannot be read ({error}); remove it, and import again"
            ) from None


def forget_old(objects: Objects, before: float) -> int:
    """Remove the notes of imports that nobody finished since ``before`` (Unix seconds); how many. One listing of all notes."""
    old = [stored.key for stored in objects.list(f"{FOLDER}/") if stored.modified < before]
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(objects.delete, old))
    return len(old)


def spans_of(done: Sequence[Subtrees]) -> list[Span]:
    """The intervals that were built, ascending, as few as possible: neighbours of one run have nothing between them."""
    spans: list[Span] = []
    before: Subtrees | None = None
    for one in done:
        if one.span is None:
            continue
        if before is not None and before.run == one.run and before.partition + 1 == one.partition:
            spans[-1] = spans[-1][0], one.span[1]
        else:
            spans.append(one.span)
        before = one
    return spans
