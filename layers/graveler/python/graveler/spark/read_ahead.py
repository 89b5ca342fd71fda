"""Read-ahead: a task knows which ranges it will read, so the next ones are fetched while it works on one.

A range is some 10,000 records: 10 to 20 ms of work. An object store takes longer to send it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

from graveler.tree.store import RANGES, TreeFiles
from graveler.tree.tree import Tree

_AT_ONCE: Final = 4
"""Files being fetched while one is read."""


@contextmanager
def read_ahead(*trees: Tree) -> Iterator[list[Tree]]:
    """Provide the same trees of one store, whose ranges are read in the order of their keys. It makes the same requests as
    without read-ahead, and up to four more if the reader stops early or skips ranges. For one thread."""
    infos = sorted((tree.info(number) for tree in trees for number in range(len(tree))), key=attrgetter("first"))
    names = list(dict.fromkeys(info.name for info in infos))
    if len(names) < 2:
        yield list(trees)
        return
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="graveler-ahead") as threads:
        try:
            store = trees[0].store.through(lambda files: _Ahead(files, names, threads))
            yield [Tree(store, tree.lasts, tree.packed) for tree in trees]
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


class _Ahead:
    """The files of trees, of which ``names`` will be read next, in this order or nearly so."""

    def __init__(self, files: TreeFiles, names: Sequence[str], threads: ThreadPoolExecutor) -> None:
        self._files = files
        self._threads = threads
        self._left = deque(names)
        self._under_way: dict[str, Future[bytes]] = {}

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        """See :class:`graveler.tree.store.TreeFiles`."""
        if kind != RANGES or fresh:
            return self._files.get(kind, name, fresh=fresh)
        coming = self._taken(name)
        while self._left and len(self._under_way) < _AT_ONCE:
            following = self._left.popleft()
            self._under_way[following] = self._threads.submit(self._files.get, RANGES, following)
        return self._files.get(kind, name) if coming is None else coming.result()

    def put(self, kind: str, name: str, data: bytes) -> None:
        """See :class:`graveler.tree.store.TreeFiles`."""
        self._files.put(kind, name, data)

    def _taken(self, name: str) -> "Future[bytes] | None":
        """Return the file if it is being fetched. Files before it were skipped."""
        if name in self._under_way:
            for earlier in list(self._under_way):
                coming = self._under_way.pop(earlier)
                if earlier == name:
                    return coming
        elif name in self._left:
            self._under_way.clear()
            while self._left.popleft() != name:
                pass
        return None
