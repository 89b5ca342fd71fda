"""The work of an export's tasks: check names, remove, write. The driver's part is :mod:`graveler.spark.exports`.

An attempt of a task may still run when its export is over: another attempt was faster, the job was cancelled, or its executor is
unreachable. By then the next export may have written other bytes at the same location. So every writing or removing attempt
checks, twice a second, that the marker is still that of its own export. What it has already sent may still arrive.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from hashlib import md5
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
from msgspec import Struct

from graveler.errors import UNREADABLE, BusyError, DamagedObjectError, GravelerError, InvalidError
from graveler.lake.exporting.export_folder import MARKER, OWN_NAMES, ExportMarker, same_bytes
from graveler.lake.exporting.export_names import IS_FOLDER, FileNames
from graveler.lake.objects.verification import checked, vouches
from graveler.model import ObjectEntry
from graveler.spark.destinations import Destination
from graveler.spark.slices import TwoSlices
from graveler.storage.limits import check_object_key
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.system.temporary_files import own_folder
from graveler.tree.diff import diff
from graveler.tree.listing import prefix_end
from graveler.tree.record import RecordCodec
from graveler.tree.tree import Tree

LEASE: Final = ".graveler-export-lease"
"""The object next to the marker that excludes other exports while one is running."""
_NOTICED: Final = 0.5
"""Seconds within which an attempt notices that its export is over."""
_THREADS: Final = 8
_CHUNK: Final = 256
_KNOWN_FOLDERS: Final = 4096
_WHOLE: Final = 64 << 20
"""Largest object copied through memory; others go through a temporary file."""

RESULT: Final = pa.schema(
    [
        ("path", pa.string()),
        ("why", pa.string()),
        ("damaged", pa.bool_()),
        ("written", pa.int64()),
        ("removed", pa.int64()),
        ("kept", pa.int64()),
        ("size", pa.int64()),
    ]
)
"""The schema of the tasks' results: a row per failed object, with its path, the reason, and whether its bytes differ from the
commit's; and a row of sums per part."""

T = TypeVar("T")
R = TypeVar("R")
Locate = Callable[[str], tuple[Objects, str]]


class ExportWork(Struct, frozen=True):
    """The work order for tasks. ``called`` is the destination's URL, ``marker`` marks there that the export is running; ``look``:
    an object at the destination may already be as wanted."""

    destination: Destination
    called: str
    marker: ExportMarker
    namespace: str
    inside: Objects
    outside: Locate
    commit: str
    look: bool

    def source(self, address: str) -> tuple[Objects, str]:
        """Return where an object's bytes are."""
        begin = f"{self.namespace}/"
        return (self.inside, address.removeprefix(begin)) if address.startswith(begin) else self.outside(address)


class Names(Struct, frozen=True):
    """The file names that a folder accepts, and the tree of the other files that it will hold."""

    files: FileNames
    tree: Tree


def folder_names(location: Destination, target: Tree) -> Names | None:
    """Return the restrictions on names at a destination; None for a bucket, which accepts all keys."""
    if not isinstance(location.objects, FolderObjects):
        return None
    return Names(FileNames.below(location.objects.file_of("x").parent, frozenset((*OWN_NAMES, LEASE))), target)


def expect_turn(work: ExportWork) -> None:
    """Check that the destination waits for this export; else :class:`BusyError`. One request."""
    try:
        data = work.destination.objects.get(f"{work.destination.prefix}{MARKER}")
        if msgspec.json.decode(data, type=ExportMarker) == work.marker:
            return
    except (ObjectMissingError, *UNREADABLE):
        pass
    raise BusyError(f"another export to {work.called!r} is in progress, or has been since; export again")


class _Turn:
    """The check that a task's export is still current. Threads share one."""

    def __init__(self, work: ExportWork) -> None:
        self._work = work
        self._lock = Lock()
        self._looked = float("-inf")
        self.over = False

    def expect(self) -> None:
        """Check as :func:`expect_turn`, with a result that is at most half a second old."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked < _NOTICED and not self.over:
                return
            self.over = True
            expect_turn(self._work)
            self.over, self._looked = False, now


class _Failed(NamedTuple):
    """An object that could not be exported, and the reason."""

    path: str
    why: str
    damaged: bool = False


def check_names(part: TwoSlices, work: ExportWork, names: Names | None) -> Iterator[pa.RecordBatch]:
    """Yield the objects that the destination cannot hold. In a folder, two tree lookups for each new one, and one for each folder
    above it."""
    failed = []
    is_object = lru_cache(_KNOWN_FOLDERS)(lambda key: names is not None and names.tree.get(key) is not None)
    for key, before, after in diff(part.left, part.right, part.keys.start, part.keys.end):
        if after is None:
            continue
        path = key.decode()
        name = path[work.destination.strip :]
        try:
            check_object_key(work.destination.key(path))
        except InvalidError as error:
            failed.append(_Failed(path, str(error)))
            continue
        if names is None:
            if name.partition("/")[0] in (*OWN_NAMES, LEASE):
                failed.append(_Failed(path, "has the name of an object in which the export keeps its own state"))
            continue
        if (problem := names.files.problem(name)) is not None:
            failed.append(_Failed(path, problem))
        elif before is None:
            failed += [
                _Failed(failed_name, IS_FOLDER)
                for failed_name in _in_the_way(key, work.destination.strip, names, is_object)
            ]
    yield _rows(failed)


def _in_the_way(key: bytes, strip: int, names: Names, is_object: Callable[[bytes], bool]) -> Iterator[str]:
    """Yield the objects that are also folders: this one, and those above it."""
    inside = key + b"/"
    if next(names.tree.records(inside, prefix_end(inside)), None) is not None:
        yield key.decode()
    slash = key.find(b"/", len(key.decode()[:strip].encode()))
    while slash > 0:
        if is_object(key[:slash]):
            yield key[:slash].decode()
        slash = key.find(b"/", slash + 1)


def remove(part: TwoSlices, work: ExportWork) -> Iterator[pa.RecordBatch]:
    """Remove objects that the commit does not have. A head and a delete per existing object."""
    turn = _Turn(work)

    def remove_one(key: bytes) -> _Failed | bool:
        path = key.decode()
        try:
            work.destination.objects.head(work.destination.key(path))
            turn.expect()
            work.destination.objects.delete(work.destination.key(path))
        except ObjectMissingError:
            return False
        except GravelerError as error:
            if turn.over:
                raise
            return _Failed(path, str(error))
        return True

    removed_keys = (
        key for key, _, after in diff(part.left, part.right, part.keys.start, part.keys.end) if after is None
    )
    results = list(_at_once(remove_one, removed_keys))
    yield _rows([r for r in results if isinstance(r, _Failed)], removed=results.count(True))


def write(part: TwoSlices, work: ExportWork) -> Iterator[pa.RecordBatch]:
    """Write objects that differ. A read and a write per object, and a head before if it may already exist."""
    codec = RecordCodec(work.namespace)
    turn = _Turn(work)

    def write_one(change: tuple[bytes, bytes | None, bytes]) -> _Failed | int:
        """Return the bytes written, -1 if nothing was to do, or the failure."""
        key, before, after = change
        entry = codec.decode(key, after)
        try:
            if work.look:
                if _holds(work.destination, entry):
                    return -1
            elif before is not None and same_bytes(codec.decode(key, before), entry):
                return -1
            with _fetched(work, entry) as data:
                turn.expect()
                work.destination.objects.put(work.destination.key(entry.path), data)
        except GravelerError as error:
            if turn.over:
                raise
            return _Failed(entry.path, str(error), isinstance(error, DamagedObjectError))
        return entry.size

    written_entries = (
        (key, before, after)
        for key, before, after in diff(part.left, part.right, part.keys.start, part.keys.end)
        if after is not None
    )
    results = list(_at_once(write_one, written_entries))
    sizes = [r for r in results if isinstance(r, int) and r >= 0]
    yield _rows(
        [r for r in results if isinstance(r, _Failed)], written=len(sizes), kept=results.count(-1), size=sum(sizes)
    )


def _at_once(work: Callable[[T], R], items: Iterator[T]) -> Iterator[R]:
    """Run several at a time; memory for some hundred."""
    with ThreadPoolExecutor(_THREADS, "graveler-export") as pool:
        while some := list(islice(items, _CHUNK)):
            yield from pool.map(work, some)


def _holds(location: Destination, entry: ObjectEntry) -> bool:
    """Return whether the destination has the object, as far as size and digest can tell."""
    key = location.key(entry.path)
    try:
        stored = location.objects.head(key)
        if stored.size != entry.size:
            return False
        if isinstance(location.objects, FolderObjects):
            digest = md5(usedforsecurity=False)
            for piece in location.objects.stream(key):
                digest.update(piece)
            return digest.hexdigest() == entry.checksum
    except ObjectMissingError:
        return False
    return stored.etag == entry.checksum


@contextmanager
def _fetched(work: ExportWork, entry: ObjectEntry) -> Iterator[bytes | Path]:
    """Provide an object's bytes, or a file of them. :class:`DamagedObjectError` if they are not those of the commit."""
    objects, key = work.source(entry.address)
    vouch = partial(vouches, objects, key, entry.checksum)
    bytes_of = checked(entry, work.commit, objects.stream(key), 0, None, vouch)
    if entry.size <= _WHOLE:
        yield b"".join(bytes_of)
        return
    with NamedTemporaryFile(dir=own_folder(), prefix="export-") as file:
        for piece in bytes_of:
            file.write(piece)
        file.flush()
        yield Path(file.name)


def _rows(failed: Sequence[_Failed], **sums: int) -> pa.RecordBatch:
    rows = [
        *({**failure._asdict(), "written": 0, "removed": 0, "kept": 0, "size": 0} for failure in failed),
        {
            "path": None,
            "why": None,
            "damaged": False,
            **{name: sums.get(name, 0) for name in ("written", "removed", "kept", "size")},
        },
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RESULT)
