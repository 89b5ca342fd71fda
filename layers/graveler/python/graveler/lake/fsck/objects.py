"""Asking the object store: for the files that hold the history, and whether the users' objects are there."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError, UnavailableError
from graveler.lake.fsck.findings import Counts, FindingKind
from graveler.model import ObjectEntry
from graveler.storage.objects import ObjectMissingError, Objects, StoredObject

_AT_ONCE: Final = 8
"""Requests under way."""

_IN_A_ROW: Final = 16
"""So many requests refused one after another are no damage of single files: the store is out of reach."""

_REMEMBERED: Final = 500_000
"""Objects that are not looked for again: most records of a range are those of an older range. Some 60 MB."""


class Trouble(Struct, frozen=True):
    """Why a file's bytes cannot be had."""

    missing: bool
    why: str


class Store:
    """The namespace of the repository, read past every cache."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._refused = 0

    def get(self, key: str) -> bytes | Trouble:
        """The whole object. One object read. :class:`UnavailableError` only when the store refuses again and again."""
        return self._answered(lambda: self.objects.get(key))

    def get_many(self, keys: Sequence[str]) -> list[bytes | Trouble]:
        """As :meth:`get`, some at once."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="graveler-fsck") as pool:
            return list(pool.map(self.get, keys))

    def has(self, key: str) -> bool:
        """Is it there? One object read."""
        try:
            self.objects.head(key)
        except ObjectMissingError:
            return False
        return True

    def _answered(self, ask: Callable[[], bytes]) -> bytes | Trouble:
        try:
            data = ask()
        except ObjectMissingError:
            return Trouble(True, "is missing from the object store")
        except UnavailableError as error:
            self._refused += 1
            if self._refused >= _IN_A_ROW:
                raise
            return Trouble(False, f"cannot be read now: {error}")
        self._refused = 0
        return data


class Lack(Struct, frozen=True):
    """An object that is not as its record says."""

    entry: ObjectEntry
    kind: FindingKind
    why: str


class ObjectCheck:
    """Looks for the objects of records. ``outside`` finds those outside the namespace; None: these are left alone."""

    def __init__(self, objects: Objects, outside: Callable[[str], tuple[Objects, str]] | None, counts: Counts) -> None:
        self._objects = objects
        self._inside = objects.namespace + "/"
        self._outside = outside
        self._counts = counts
        self._seen: set[tuple[str, int]] = set()

    def look(self, entries: Sequence[ObjectEntry]) -> list[Lack]:
        """Those that are missing or have another size. One object read for each that was not looked for lately."""
        wanted = [entry for entry in entries if (entry.address, entry.size) not in self._seen]
        if not wanted:
            return []
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="graveler-fsck") as pool:
            lacks = [lack for lack in pool.map(self._look_for, wanted) if lack is not None]
        lacking = {lack.entry.address for lack in lacks}
        if len(self._seen) + len(wanted) > _REMEMBERED:
            self._seen.clear()
        self._seen.update((entry.address, entry.size) for entry in wanted if entry.address not in lacking)
        return lacks

    def _look_for(self, entry: ObjectEntry) -> Lack | None:
        try:
            stored = self._head(entry.address)
        except ObjectMissingError:
            return Lack(entry, FindingKind.OBJECT_MISSING, "does not exist")
        except UnavailableError as error:
            return Lack(entry, FindingKind.UNREADABLE, f"cannot be looked at now: {error}")
        except InvalidError:  # a store that this process cannot reach
            stored = None
        if stored is None:
            self._counts.objects_not_checked += 1
            return None
        self._counts.objects += 1
        if stored.size != entry.size:
            return Lack(
                entry, FindingKind.OBJECT_SIZE, f"has {stored.size:,} bytes, and its record says {entry.size:,}"
            )
        return None

    def _head(self, address: str) -> StoredObject | None:
        if address.startswith(self._inside):
            return self._objects.head(address.removeprefix(self._inside))
        if self._outside is None:
            return None
        objects, key = self._outside(address)
        return objects.head(key)
