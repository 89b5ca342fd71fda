"""Reads from the object store: the files that hold the history, and the users' objects and their bytes."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event, Lock
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError, ForbiddenError, InvalidError, UnavailableError
from graveler.lake.fsck.findings import Counts, FindingKind
from graveler.lake.objects.noted_times import noted_time
from graveler.lake.objects.verification import Comparison, has_noted_time, vouches
from graveler.model import ObjectEntry
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.system.progress import Progress

_AT_ONCE: Final = 8
"""The number of concurrent requests."""

_IN_A_ROW: Final = 16
"""The number of consecutive refused requests after which the store counts as unavailable, rather than single files as damaged."""

_WAITING: Final = 64
"""The number of objects that are requested ahead of the one that is waited for."""

_TELL_EVERY: Final = 1.0
"""Seconds after which progress is reported even if no object is done."""

_FILE: Final = "file://"

_MAX_REMEMBERED: Final = 500_000
"""The number of objects that are not looked for again: most records of a range are those of an older range. Some 60 MB."""


class Trouble(Struct, frozen=True):
    """The reason why a file's bytes are not available."""

    missing: bool
    reason: str


class Store:
    """The namespace of the repository, read without any cache."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._refused = 0

    def get(self, key: str) -> bytes | Trouble:
        """Return the whole object. One object read. :class:`UnavailableError` only when the store refuses again and again."""
        return self._answered(lambda: self.objects.get(key))

    def get_many(self, keys: Sequence[str]) -> list[bytes | Trouble]:
        """Return several objects as :meth:`get`, read concurrently."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="graveler-fsck") as pool:
            return list(pool.map(self.get, keys))

    def has(self, key: str) -> bool:
        """Return whether an object exists. One object read."""
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
    """An object that does not match its record."""

    entry: ObjectEntry
    kind: FindingKind
    reason: str


_UNCHECKED: Final = Lack(ObjectEntry("", "", 0, "", 0), FindingKind.UNREADABLE, "")


class _Outcome(Struct, frozen=True):
    """The result of looking at an object. ``looked``: it was looked at; ``obstacle``: why it could not be; ``compared``: more
    than its size was compared."""

    lack: Lack | None = None
    looked: bool = True
    obstacle: str = ""
    compared: bool = True


class ObjectCheck:
    """A check that the objects of records exist, and with ``read_bytes`` of all their bytes. ``outside`` finds those outside the
    namespace: files on this machine always, objects in other stores only with ``other_stores``."""

    def __init__(
        self,
        objects: Objects,
        outside: Callable[[str], tuple[Objects, str]],
        counts: Counts,
        progress: Progress,
        *,
        other_stores: bool = False,
        read_bytes: bool = False,
    ) -> None:
        self._objects = objects
        self._prefix = objects.namespace + "/"
        self._outside = outside
        self._other_stores = other_stores
        self.obstacle = ""
        """The reason why the first object that is out of reach cannot be read."""
        self._counts = counts
        self._progress = progress
        self._read_bytes = read_bytes
        self._checked: dict[tuple[str, int, str], Lack | None] = {}
        self._expected = 0
        self._expected_bytes = 0
        self._done = 0
        self._done_bytes = 0
        self._lock = Lock()
        self._stopped = Event()

    def is_file_outside(self, entry: ObjectEntry) -> bool:
        """Return whether an object is a file on this machine outside the namespace, which others may change at any time."""
        return entry.address.startswith(_FILE) and not entry.address.startswith(self._prefix)

    def look(self, entries: Sequence[ObjectEntry]) -> list[Lack]:
        """Return the objects that are missing, or have another size or other bytes. One object read for each that was not looked
        for recently; one more if only its MD5 is wrong. Memory: a piece of 1 MiB for each of 8 threads."""
        lacks = []
        unchecked = []
        for entry in entries:
            recent = self._checked.get((entry.address, entry.size, entry.checksum), _UNCHECKED)
            if recent is _UNCHECKED:
                unchecked.append(entry)
            elif recent is not None:
                lacks.append(Lack(entry, recent.kind, recent.reason))
        if not unchecked:
            return lacks
        self._expected += len(unchecked)
        self._expected_bytes += sum(entry.size for entry in unchecked)
        if len(self._checked) + len(unchecked) > _MAX_REMEMBERED:
            self._checked.clear()
        for entry, lack in zip(unchecked, self._look_for_all(unchecked), strict=True):
            if lack is not None:
                lacks.append(lack)
            if lack is None or lack.kind is not FindingKind.UNREADABLE:
                self._checked[entry.address, entry.size, entry.checksum] = lack
        return lacks

    def _look_for_all(self, entries: Sequence[ObjectEntry]) -> Iterator[Lack | None]:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="graveler-fsck") as pool:
            waiting: deque[tuple[int, Future[_Outcome]]] = deque()
            try:
                for entry in entries:
                    waiting.append((entry.size, pool.submit(self._look_for, entry)))
                    if len(waiting) >= _WAITING:
                        yield self._note(*waiting.popleft())
                while waiting:
                    yield self._note(*waiting.popleft())
            except BaseException:  # Ctrl-C does not wait for the end of large objects
                self._stopped.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _note(self, size: int, future: Future[_Outcome]) -> Lack | None:
        while self._read_bytes and not wait((future,), _TELL_EVERY).done:
            self._tell()
        outcome = future.result()
        self._done += 1
        self._done_bytes += size
        self._tell()
        if not outcome.looked:
            self._counts.objects_not_checked += 1
            self._counts.objects_out_of_reach += bool(outcome.obstacle)
            self.obstacle = self.obstacle or outcome.obstacle
            return None
        self._counts.objects += outcome.lack is None or outcome.lack.kind in (
            FindingKind.OBJECT_SIZE,
            FindingKind.OBJECT_BYTES,
        )
        self._counts.objects_by_size += not outcome.compared
        return outcome.lack

    def _tell(self) -> None:
        self._progress("objects", self._done, self._expected)
        if self._read_bytes:
            read = min(self._counts.bytes, self._expected_bytes)
            self._progress("bytes", max(read, self._done_bytes), self._expected_bytes)

    def _look_for(self, entry: ObjectEntry) -> _Outcome:
        try:
            location = self._location(entry.address)
            if location is None:
                return _Outcome(looked=False)
            return self._read(entry, *location) if self._read_bytes else self._ask(entry, *location)
        except ObjectMissingError:
            return _Outcome(Lack(entry, FindingKind.OBJECT_MISSING, "does not exist"))
        except CorruptError as error:  # the store itself reports the damage
            return _Outcome(Lack(entry, FindingKind.OBJECT_BYTES, f"has different bytes: {error}"))
        except UnavailableError as error:
            return _Outcome(Lack(entry, FindingKind.UNREADABLE, f"cannot be examined now: {error}"))
        except (ForbiddenError, InvalidError) as error:  # a store or a place that this process may not or cannot read
            return _Outcome(looked=False, obstacle=str(error))

    def _location(self, address: str) -> tuple[Objects, str] | None:
        if address.startswith(self._prefix):
            return self._objects, address.removeprefix(self._prefix)
        return self._outside(address) if self._other_stores or address.startswith(_FILE) else None

    def _ask(self, entry: ObjectEntry, objects: Objects, key: str) -> _Outcome:
        stored = objects.head(key)
        if stored.size != entry.size:
            return _Outcome(_other_size(entry, f"{stored.size:,}"))
        if has_noted_time(objects, stored, entry.checksum):
            return _Outcome()
        return _Outcome(_modified(entry))

    def _read(self, entry: ObjectEntry, objects: Objects, key: str) -> _Outcome:
        comparison = Comparison(entry)
        for piece in objects.stream(key):
            if self._stopped.is_set():
                raise UnavailableError("the check was stopped")
            comparison.add(piece)
            with self._lock:
                self._counts.bytes += len(piece)
            if comparison.size > entry.size:
                return _Outcome(_other_size(entry, f"more than {entry.size:,}"))
        if comparison.size != entry.size:
            return _Outcome(_other_size(entry, f"{comparison.size:,}"))
        difference = comparison.found(partial(vouches, objects, key, entry.checksum))
        if difference is None:
            return _Outcome(compared=comparison.matches)
        if noted_time(entry.checksum) is not None:
            return _Outcome(_modified(entry))
        return _Outcome(
            Lack(entry, FindingKind.OBJECT_BYTES, f"has {difference}, but its record says {entry.checksum}")
        )


def _modified(entry: ObjectEntry) -> Lack:
    return Lack(entry, FindingKind.OBJECT_BYTES, "was modified after an import that trusted its size and time")


def _other_size(entry: ObjectEntry, size: str) -> Lack:
    return Lack(entry, FindingKind.OBJECT_SIZE, f"has {size} bytes, but its record says {entry.size:,}")
