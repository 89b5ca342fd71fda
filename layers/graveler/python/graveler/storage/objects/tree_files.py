"""The immutable files of a tree (ranges and metaranges) in the object store, behind a cache of copies.

A name pins a file's contents, so a copy is never out of date. A copy does not tell whether the store still has the file: after
half the garbage collector's grace period the store is asked.
"""

import time
from collections.abc import Callable
from hashlib import sha256

from graveler.errors import AnswerLostError, InvalidError
from graveler.storage.objects.cache import Cache
from graveler.storage.objects.port import NotSyncedError, ObjectConditionError, ObjectMissingError, Objects
from graveler.system.pauses import require_cached

FOLDER = "_graveler"
KINDS = frozenset(("ranges", "metaranges"))


class ImmutableFiles:
    """The files ``_graveler/<kind>/<name>`` of ``objects``, where ``kind`` is ``ranges`` or ``metaranges``.

    ``grace_seconds`` is the garbage collector's grace period: no file younger than it is swept. Give ``cache`` half of it as
    ``recheck_after_seconds``. ``clock`` returns Unix seconds, and agrees with the store's clock to within the skew that the grace
    period allows for.
    """

    def __init__(
        self,
        objects: Objects,
        cache: Cache | None,
        grace_seconds: float = 86400,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._objects = objects
        self._cache = cache
        self._grace = grace_seconds
        self._clock = clock
        # Copies of several namespaces may lie in one cache, and one may lack what another has.
        self._cached_as = sha256(objects.namespace.encode()).hexdigest()[:12]

    def __reduce__(self) -> tuple[object, ...]:
        return ImmutableFiles, (self._objects, self._cache, self._grace, self._clock)

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        """Return the file's bytes; with ``fresh`` from the store itself, and the cached copy is replaced.

        Raises ObjectMissingError. Cost: nothing if cached; one head if the copy is due for a check; otherwise one object read.
        """
        key = self._key(kind, name)
        require_cached()
        if self._cache is None:
            return self._objects.get(key)
        entry = self._entry(kind, name)
        if fresh:
            self._cache.drop(entry)
        else:
            copy = self._cache.get(entry)
            if copy is not None and not copy.due:
                return copy.data
            if copy is not None:
                try:
                    self._objects.head(key)
                except ObjectMissingError:
                    self._cache.drop(entry)
                    raise
                self._cache.confirm(entry)
                return copy.data
        data = self._objects.get(key)
        self._cache.put(entry, data)
        return data

    def get_part(self, kind: str, name: str, start: int, length: int) -> bytes:
        """Return some of the file's bytes: fewer at its end. Raises ObjectMissingError. Cost: one object read; nothing for a part
        of a metarange of which a fresh copy is cached. Parts of ranges are wanted only where that is as cheap as from a disk, so
        no copies of these are kept."""
        if kind == "ranges":
            return self._objects.get_range(self._key(kind, name), start, length)
        return self._part(kind, name, start, length)

    def get_end(self, kind: str, name: str, length: int) -> bytes:
        """Return the file's last bytes, at least ``length`` of them; fewer only if that is all of it. Raises ObjectMissingError.
        Cost: nothing if a fresh copy of the file is cached, which is returned as a whole, or one of its end; otherwise one object
        read."""
        entry = self._entry(kind, name)
        require_cached()
        if self._cache is not None and (copy := self._cache.get(entry)) is not None and not copy.due:
            return copy.data
        end = self._part(kind, name, -length, length)
        if self._cache is not None and len(end) < length:
            self._cache.put(entry, end)
        return end

    def _part(self, kind: str, name: str, start: int, length: int) -> bytes:
        """Return a part of which copies are kept, if it is as long as that: a shorter one may grow."""
        key = self._key(kind, name)
        require_cached()
        if self._cache is None:
            return self._objects.get_range(key, start, length)
        entry = f"{self._entry(kind, name)}-{start}"
        copy = self._cache.get(entry)
        if copy is not None and not copy.due and len(copy.data) == length:
            return copy.data
        data = self._objects.get_range(key, start, length)
        if len(data) == length:
            self._cache.put(entry, data)
        return data

    def _entry(self, kind: str, name: str) -> str:
        """Return the name of the cached copy."""
        return f"{self._cached_as}-{kind}-{name}"

    def put(self, kind: str, name: str, data: bytes) -> None:
        """Make the file durable under this name. An existing one stays, and is made young if it is older than half the grace
        period, so that no sweep that has seen the old one removes it. Cost: one object write; a head if it existed, or if the
        response was lost; a second write if it was old; three more if that has the old one's ETag."""
        key = self._key(kind, name)
        try:
            self._objects.put(key, data, if_absent=True)
        except NotSyncedError:  # it is there, and must not be built on
            raise
        except (ObjectConditionError, AnswerLostError):  # a file of this name has these contents, by any writer
            make_young(self._objects, key, data, self._clock() - self._grace / 2)
        if self._cache is not None:
            self._cache.put(self._entry(kind, name), data)

    def _key(self, kind: str, name: str) -> str:
        if kind not in KINDS or not name or "/" in name:
            raise InvalidError(
                f"no file of a tree can be called {kind}/{name}; the kinds are {', '.join(sorted(KINDS))}"
            )
        return f"{FOLDER}/{kind}/{name}"


def make_young(objects: Objects, key: str, data: bytes, since: float) -> None:
    """Put a file with these contents again if it is from before ``since`` (Unix seconds). It then has a new ETag, by which a
    sweep that has seen the old one recognises it. (S3's ETag is a digest of the contents, except for an object uploaded in parts,
    even one part: then it is a digest of the parts' digests.) Cost: a head; a write if it was old; three more if that has the
    old one's ETag."""
    try:
        stored = objects.head(key)
    except ObjectMissingError:  # swept since the caller met it
        objects.put(key, data)
        return
    if stored.modified >= since or objects.put(key, data).etag != stored.etag:
        return
    upload = objects.create_multipart(key)
    part = objects.put_part(key, upload, 1, data)
    objects.complete_multipart(key, upload, [(1, part)])
