"""The parts that a lake is assembled from: how it keeps its trees, and its surroundings."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from graveler.runtime.local import LocalRuntime
from graveler.storage.objects.cache import Cache, CacheNotes
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.storage.secrets.keyring import Keyring
from graveler.tree.range_notes import Notes
from graveler.tree.store import TreeStore

if TYPE_CHECKING:
    from graveler.lake.opening.folder_permissions import FolderPermissions
    from graveler.storage.machine_queue import MachineQueue


class TreeSettings(Struct, frozen=True, kw_only=True):
    """Settings for reading, writing and caching trees.

    ``cache`` keeps local copies of immutable files; ``notes`` keeps results computed from them that make the next commit cheaper
    (without it, ``cache`` does, or else some memory); ``scratch`` is where RocksDB may write temporary files, best in memory.
    ``workers`` is the number of processes that may share one operation (only where other processes can open the same tables and
    objects); ``writes_at_once`` is the number of files of one tree that are written concurrently, ``reads_at_once`` the number of
    ranges that are fetched before they are opened. ``on_disk`` means that reading a part of an object is as cheap as from a disk.
    ``memory`` is about how many bytes of its tree each repository keeps in memory (None: the default of :class:`TreeStore`), and
    ``found_open`` is called for each file that was there. With ``serves_pages``, the lake keeps rendered listings among its
    notes, for repeated requests.
    """

    cache: Cache | None = None
    notes: Cache | None = None
    found_open: Callable[[], None] | None = None
    scratch: Path | None = None
    workers: int = 1
    writes_at_once: int = 1
    reads_at_once: int = 1
    on_disk: bool = False
    memory: int | None = None
    serves_pages: bool = False

    def store(self, files: ImmutableFiles) -> tuple[TreeStore, Notes | None]:
        """Return a store of a repository's trees, and the notes that keep rendered pages, if any do. No request."""
        cache = self.notes or self.cache
        notes = None if cache is None else CacheNotes(cache)
        runtime = LocalRuntime(
            scratch=self.scratch,
            workers=self.workers,
            writes_at_once=self.writes_at_once,
            reads_at_once=self.reads_at_once,
        )
        store = TreeStore(files, runtime, notes=notes, on_hit=self.found_open, parts=files, on_disk=self.on_disk)
        if self.memory is not None:
            store.limit(self.memory)
        return store, notes if self.serves_pages else None


class Surroundings(Struct, frozen=True, kw_only=True):
    """The surroundings of a lake. ``home`` is the prefix of default namespaces. ``close`` releases the resources of the adapters;
    leaving the lake's context calls it. ``folder_permissions`` checks the permissions of a lake in a folder; ``keyring`` opens
    the secrets in the table. The processes of this machine that want to change a branch wait in ``machine_queue``. ``notice`` is
    a sentence that whoever opened the lake should be told; ``writable``: this process may change the lake."""

    home: str = "local://"
    close: Callable[[], None] = lambda: None
    folder_permissions: "FolderPermissions | None" = None
    keyring: Keyring | None = None
    machine_queue: "MachineQueue | None" = None
    notice: str = ""
    writable: bool = True
