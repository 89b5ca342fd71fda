"""Export on Spark: the objects of a ref as plain objects of a bucket or files of a folder, copied by the executors, and kept up
to date by what differs.

The same protocol as of the library's export (:mod:`graveler.lake.exporting`), with the same marker, so that a folder that one of
them made, the other can bring to the next commit: marker says *started*, what is not wanted is removed, what is wanted is
written (each object appears as a whole), marker says *complete*. Whatever ends an export before, the next one finds in the marker
which objects may be in which states, looks at those, and finishes.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from hashlib import md5
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import SparkSession

from graveler.errors import (
    UNREADABLE,
    BusyError,
    CorruptError,
    DamagedObjectError,
    GravelerError,
    InvalidError,
    PreconditionError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.lake.checked import checked, vouches
from graveler.lake.clock import Clock
from graveler.lake.exporting.export_folder import (
    FORMAT_VERSION,
    MARKER,
    OWN_NAMES,
    ExportFolder,
    ExportFolderError,
    ExportMarker,
)
from graveler.model import CommitID, ObjectEntry
from graveler.places import ServedLake
from graveler.spark.destinations import Destination, destination_at
from graveler.spark.failures import spark_errors
from graveler.spark.frames import in_tasks
from graveler.spark.handles import LakeLike, Reachable, Reached, reached
from graveler.spark.leases import held
from graveler.spark.slices import KeyRange, TwoSlices, pairs
from graveler.storage.folder_objects import FolderObjects
from graveler.storage.limits import check_object_key
from graveler.storage.objects import ObjectMissingError, Objects
from graveler.temporary import own_folder
from graveler.tree.diff import diff
from graveler.tree.record import RecordCodec
from graveler.tree.tree import Tree

OBJECTS_PER_TASK: Final = 1_000
"""Objects that a task copies, unless the caller says otherwise: some seconds' work."""
LEASE: Final = ".graveler-export-lease"
"""The object beside the marker that keeps others out while an export is going on."""
_THREADS: Final = 8
_CHUNK: Final = 256
_WHOLE: Final = 64 << 20
"""Bytes of an object that is copied through memory; others go through a temporary file."""
_SHOWN: Final = 3

_RESULT: Final = pa.schema(
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
"""Of what tasks return: a row for each object that failed, with its path, why, and whether its bytes are other ones than the
commit noted; and one of sums for each part."""

T = TypeVar("T")
R = TypeVar("R")
Locate = Callable[[str], tuple[Objects, str]]


class SparkExportReport(Struct, frozen=True):
    """What an export did. ``written`` and ``removed`` are numbers of objects, ``kept`` of those that were looked at and were as
    they should be; ``size`` is the bytes written."""

    commit_id: CommitID
    written: int = 0
    removed: int = 0
    kept: int = 0
    size: int = 0
    seconds: float = 0


class _Work(Struct, frozen=True):
    """What tasks need to know. ``look``: an object at the destination may be as wanted already."""

    destination: Destination
    namespace: str
    inside: Objects
    outside: Locate
    commit: str
    look: bool

    def source(self, address: str) -> tuple[Objects, str]:
        """Where an object's bytes are."""
        begin = f"{self.namespace}/"
        return (self.inside, address.removeprefix(begin)) if address.startswith(begin) else self.outside(address)


def export(
    spark: SparkSession,
    repository: Reachable,
    ref: str,
    destination: str,
    *,
    prefix: str = "",
    verify: bool = False,
    objects_per_task: int = OBJECTS_PER_TASK,
    lake: LakeLike | ServedLake = None,
) -> SparkExportReport:
    """Make ``destination`` (``s3://bucket/prefix``, ``file:///folder``) hold the objects of the ref's commit whose path begins
    with ``prefix``, named by what follows it.

    It is new, empty, or what an earlier export from this repository and prefix made, of which what differs is written again or
    removed. An export that did not come to its end is finished by the next one, to whatever commit. Other objects there stay,
    unless one of the lake's has their name. With ``verify``, each exported object is looked at (on S3 by size and ETag, in
    folders by its bytes) and written again if it is another one. One export at a time to one place: another one is refused, for
    five minutes after a driver that died. Uncommitted changes are not exported. Each object's bytes are checked against the
    lake's checksum, where that is an MD5. ``lake`` may be the URL of a server, which says what the commit is; objects are read
    and written with the credentials that driver and executors find.

    Cost: the differences with the commit exported before (of a new place: all), read three times; for each object one read and
    one write, and one more read of the destination if it has to be looked at.

    :class:`InvalidError` for names that the destination cannot have, before anything is changed; :class:`ExportFolderError`,
    :class:`PreconditionError` if the commit that was exported before is gone, :class:`BusyError`; :class:`UnavailableError`
    with how many objects failed, of which the next export writes only those.
    """
    if prefix and not prefix.endswith("/"):
        raise InvalidError(f"prefix {prefix!r} of an export must be empty or end with '/'")
    began = time.monotonic()
    with reached(spark, repository, lake) as found:
        place = destination_at(found, destination, len(prefix))
        goal = found.commit_of(ref).id
        with _claimed(place, found.clock, destination) as check:
            before = _read_marker(place, destination)
            marker = before or ExportMarker(found.repository.uid, prefix, "complete", "")
            _refuse_other(marker, found, prefix, destination)
            interrupted = marker.state == "started"
            if before is not None and not interrupted and marker.base == goal and not verify:
                return SparkExportReport(goal)
            keys = KeyRange.of_prefix(prefix.encode())
            target = found.tree(goal)
            trees = [_tree(found, commit, destination) for commit in (marker.base, *marker.targets) if commit]
            if verify or not marker.base:
                trees.append(Tree(target.store))
            parts = [part for tree in trees for part in pairs(found, tree, target, keys, objects_per_task)]
            look = interrupted or verify
            work = _Work(place, found.repository.namespace, found.namespace, found.locate_outside, goal, look)
            _run(spark, parts, lambda part: _check_names(part, work), "looking at the names of", destination)
            started = msgspec.structs.replace(
                marker, state="started", targets=tuple(dict.fromkeys((*marker.targets, goal)))
            )
            try:
                _write_marker(place, started)
                old = parts if marker.base or marker.targets else []  # else there is nothing that could have to go
                removed = _run(spark, old, lambda part: _remove(part, work), "removing from", destination)
                check()
                written = _run(spark, parts, lambda part: _write(part, work), "writing to", destination)
                check()
                if _read_marker(place, destination) != started:
                    raise BusyError(f"another export to {destination!r} is going on; export again when it is done")
                _write_marker(place, msgspec.structs.replace(marker, state="complete", base=goal, targets=()))
            finally:
                place.tidy()
    return SparkExportReport(
        goal,
        written["written"],
        removed["removed"],
        written["kept"],
        written["size"],
        time.monotonic() - began,
    )


# On the driver


@contextmanager
def _claimed(place: Destination, clock: Clock, destination: str) -> Iterator[Callable[[], None]]:
    """Keep other exports out meanwhile: of folders as the library's exports do, elsewhere by a lease. What it gives raises
    :class:`BusyError` if that has failed."""
    if isinstance(place.objects, FolderObjects):
        with ExportFolder(place.objects.file_of("x").parent).claimed():
            yield lambda: None
    else:
        with held(place.objects, f"{place.prefix}{LEASE}", clock, f"export to {destination!r}") as lease:
            yield lease.check


def _tree(repository: Reached, commit: str, destination: str) -> Tree:
    """What the destination may hold."""
    try:
        return repository.tree(commit)
    except RefNotFoundError:
        raise PreconditionError(
            f"{destination!r} holds an export of commit {commit[:16]}, which is gone, so nobody knows what differs; export to a "
            "new place"
        ) from None


def _read_marker(place: Destination, destination: str) -> ExportMarker | None:
    try:
        data = place.objects.get(f"{place.prefix}{MARKER}")
    except ObjectMissingError:
        there = (one for one in place.objects.list(place.prefix) if one.key != f"{place.prefix}{LEASE}")
        other = next(there, None)
        if other is not None:
            raise ExportFolderError(
                f"{destination!r} is not empty and not an export (it holds {other.key!r}); export to a new place, or to one that "
                "an earlier export made"
            ) from None
        return None
    try:
        marker = msgspec.json.decode(data, type=ExportMarker)
    except UNREADABLE as error:
        raise CorruptError(f"the marker of {destination!r} is damaged: {error}; export to a new place") from None
    if marker.format_version > FORMAT_VERSION:
        raise InvalidError(f"{destination!r} was exported in format {marker.format_version}; use a newer graveler")
    return marker


def _write_marker(place: Destination, marker: ExportMarker) -> None:
    place.objects.put(f"{place.prefix}{MARKER}", msgspec.json.format(msgspec.json.encode(marker)) + b"\n")


def _refuse_other(marker: ExportMarker, repository: Reached, prefix: str, destination: str) -> None:
    known = (
        repository.repository.uid,
        repository.repository.namespace,
    )  # the latter in exports by a server's command line
    if marker.repository not in known:
        raise ExportFolderError(f"{destination!r} holds an export of another repository; export to a new place")
    if marker.prefix != prefix:
        raise ExportFolderError(
            f"{destination!r} holds an export of {marker.prefix or 'all objects'!r}, not of {prefix or 'all objects'!r}; "
            "export to a new place"
        )


def _run(
    spark: SparkSession,
    parts: Sequence[TwoSlices],
    work: Callable[[TwoSlices], Iterator[pa.RecordBatch]],
    doing: str,
    destination: str,
) -> Mapping[str, int]:
    """The sums over all parts. :class:`UnavailableError` with some of the objects that failed, :class:`CorruptError` if some are
    damaged."""
    with spark_errors(f"{doing} {destination!r}"):
        rows = in_tasks(spark, parts, work, _RESULT).collect()
    failed = [row for row in rows if row.path is not None]
    if failed:
        failed.sort(key=lambda row: not row.damaged)
        shown = "; ".join(f"{row.path!r}: {row.why}" for row in failed[:_SHOWN])
        kind: type[GravelerError]
        if doing.startswith("looking"):
            kind, then = InvalidError, "Nothing was changed; rename them"
        else:
            kind = CorruptError if failed[0].damaged else UnavailableError
            then = "Export again: only what is missing is written"
        raise kind(
            f"{doing} {destination!r}: {len(failed):,} objects failed: {shown}{'; …' if len(failed) > _SHOWN else ''}. {then}"
        )
    return {name: sum(row[name] for row in rows) for name in ("written", "removed", "kept", "size")}


# In tasks


class _Failed(NamedTuple):
    """An object that could not be exported, and why."""

    path: str
    why: str
    damaged: bool = False


def _check_names(part: TwoSlices, work: _Work) -> Iterator[pa.RecordBatch]:
    failed = []
    for key, _, after in _differences(part):
        path = key.decode()
        name = path[work.destination.strip :]
        try:
            if after is not None:
                check_object_key(work.destination.key(path))
                if name.partition("/")[0] in (*OWN_NAMES, LEASE):
                    failed.append(_Failed(path, "has the name of an object in which the export keeps its own state"))
        except InvalidError as error:
            failed.append(_Failed(path, str(error)))
    yield _rows(failed)


def _remove(part: TwoSlices, work: _Work) -> Iterator[pa.RecordBatch]:
    def remove(key: bytes) -> _Failed | bool:
        path = key.decode()
        try:
            work.destination.objects.head(work.destination.key(path))
            work.destination.objects.delete(work.destination.key(path))
        except ObjectMissingError:
            return False
        except GravelerError as error:
            return _Failed(path, str(error))
        return True

    gone = (key for key, _, after in _differences(part) if after is None)
    results = list(_at_once(remove, gone))
    yield _rows([r for r in results if isinstance(r, _Failed)], removed=results.count(True))


def _write(part: TwoSlices, work: _Work) -> Iterator[pa.RecordBatch]:
    codec = RecordCodec(work.namespace)

    def write(change: tuple[bytes, bytes | None, bytes]) -> _Failed | int:
        """Bytes written, -1 if there was nothing to do, or why it failed."""
        key, before, after = change
        entry = codec.decode(key, after)
        try:
            if work.look:
                if _holds(work.destination, entry):
                    return -1
            elif before is not None:
                old = codec.decode(key, before)
                if (old.size, old.checksum) == (entry.size, entry.checksum):
                    return -1
            _copy(work, entry)
        except GravelerError as error:
            return _Failed(entry.path, str(error), isinstance(error, DamagedObjectError))
        return entry.size

    wanted = ((key, before, after) for key, before, after in _differences(part) if after is not None)
    results = list(_at_once(write, wanted))
    sizes = [r for r in results if isinstance(r, int) and r >= 0]
    yield _rows(
        [r for r in results if isinstance(r, _Failed)], written=len(sizes), kept=results.count(-1), size=sum(sizes)
    )


def _differences(part: TwoSlices) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    return diff(part.left, part.right, part.keys.start, part.keys.end)


def _at_once(work: Callable[[T], R], items: Iterator[T]) -> Iterator[R]:
    """Several at a time; memory for some hundred."""
    with ThreadPoolExecutor(_THREADS, "graveler-export") as pool:
        while some := list(islice(items, _CHUNK)):
            yield from pool.map(work, some)


def _holds(place: Destination, entry: ObjectEntry) -> bool:
    """Is the object there, as far as size and digest can tell?"""
    key = place.key(entry.path)
    try:
        stored = place.objects.head(key)
        if stored.size != entry.size:
            return False
        if isinstance(place.objects, FolderObjects):
            digest = md5(usedforsecurity=False)
            for piece in place.objects.stream(key):
                digest.update(piece)
            return digest.hexdigest() == entry.checksum
    except ObjectMissingError:
        return False
    return stored.etag == entry.checksum


def _copy(work: _Work, entry: ObjectEntry) -> None:
    """Copy an object's bytes. :class:`DamagedObjectError` if they are not what the commit noted; then nothing is written."""
    objects, key = work.source(entry.address)
    vouch = partial(vouches, objects, key, entry.checksum)
    with NamedTemporaryFile(dir=own_folder(), prefix="export-") as file:
        pieces = []
        for piece in checked(entry, work.commit, objects.stream(key), 0, None, vouch):
            if entry.size <= _WHOLE:
                pieces.append(piece)
            else:
                file.write(piece)
        file.flush()
        work.destination.objects.put(
            work.destination.key(entry.path), b"".join(pieces) if entry.size <= _WHOLE else Path(file.name)
        )


def _rows(failed: Sequence[_Failed], **sums: int) -> pa.RecordBatch:
    rows = [
        *({**one._asdict(), "written": 0, "removed": 0, "kept": 0, "size": 0} for one in failed),
        {
            "path": None,
            "why": None,
            "damaged": False,
            **{name: sums.get(name, 0) for name in ("written", "removed", "kept", "size")},
        },
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_RESULT)
