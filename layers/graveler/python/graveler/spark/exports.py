"""Export on Spark: the objects of a ref as plain objects of a bucket or files of a folder, copied by the executors, and updated
incrementally.

The protocol and the marker are those of the library's export (:mod:`graveler.lake.exporting`), so either of them can update a
folder that the other one made: the marker says *started*, unwanted objects are removed, wanted ones are written (each appears as
a whole), the marker says *complete*. If an export is interrupted at any point, the next one finds in the marker which objects may
be in which states, checks those, and finishes.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import SparkSession

from graveler.errors import (
    UNREADABLE,
    CorruptError,
    GravelerError,
    InvalidError,
    LaterVersionError,
    PreconditionError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.lake.clock import Clock
from graveler.lake.exporting.export_folder import (
    FORMAT_VERSION,
    MARKER,
    ExportFolder,
    ExportFolderError,
    ExportMarker,
)
from graveler.location.environment import ServedLake
from graveler.model import CommitID
from graveler.spark.destinations import Destination, destination_at
from graveler.spark.error_translation import spark_errors
from graveler.spark.export_tasks import (
    LEASE,
    RESULT,
    ExportWork,
    check_names,
    expect_turn,
    folder_names,
    remove,
    write,
)
from graveler.spark.frames import in_tasks
from graveler.spark.handles import LakeLike, Reachable, Reached, reached
from graveler.spark.leases import held
from graveler.spark.locations import task_store
from graveler.spark.slices import TwoSlices, pairs
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import ObjectMissingError
from graveler.tree.key_range import KeyRange
from graveler.tree.tree import Tree

OBJECTS_PER_TASK: Final = 1_000
"""Default number of objects that a task copies: some seconds' work."""
_SHOWN: Final = 3


class SparkExportReport(Struct, frozen=True):
    """The result of an export. ``written`` and ``removed`` are numbers of objects, ``kept`` of those that were checked and were
    right; ``size`` is the bytes written."""

    commit_id: CommitID
    written: int = 0
    removed: int = 0
    kept: int = 0
    size: int = 0
    seconds: float = 0


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
    """Export to ``destination`` (``s3://bucket/prefix``, ``file:///folder``) the objects of the ref's commit whose path begins
    with ``prefix``, named by the rest of the path.

    The destination is new, empty, or the result of an earlier export from this repository and prefix, of which only differences
    are written or removed. The next export, of any commit, finishes an interrupted one. Other objects there stay, unless one of
    the lake's has their name. With ``verify``, each exported object is checked (on S3 by size and ETag, in folders by its bytes)
    and rewritten if it differs. One export at a time per destination: another one is refused, for five minutes after a driver
    died. Uncommitted changes are not exported. Each object's bytes are verified with the lake's checksum, where that is an MD5.
    ``lake`` may be the URL of a server, which provides the commit; objects are read and written with the credentials that driver
    and executors find.

    Cost: the differences from the commit exported before (for a new destination: everything), read three times; per object one
    read and one write, and one more read of the destination if it has to be checked.

    :class:`InvalidError` for names that the destination cannot have, before any change; :class:`ExportFolderError`,
    :class:`PreconditionError` if the commit exported before is gone, :class:`BusyError`; :class:`UnavailableError` with the
    number of failed objects, of which the next export writes only those.
    """
    if prefix and not prefix.endswith("/"):
        raise InvalidError(f"prefix {prefix!r} of an export must be empty or end with '/'")
    began = time.monotonic()
    with reached(spark, repository, lake) as opened:
        location = destination_at(opened, destination, len(prefix))
        goal = opened.commit_of(ref).id
        with _claimed(location, opened.clock, destination) as check:
            before = _read_marker(location, destination)
            marker = before or ExportMarker(opened.repository.uid, prefix, "complete", "")
            _refuse_other(marker, opened, prefix, destination)
            interrupted = marker.state == "started"
            if before is not None and not interrupted and marker.base == goal and not verify:
                return SparkExportReport(goal)
            keys = KeyRange.of_prefix(prefix.encode())
            target = opened.tree(goal)
            trees = [_tree(opened, commit, destination) for commit in (marker.base, *marker.targets) if commit]
            if verify or not marker.base:
                trees.append(Tree(target.store))
            parts = [part for tree in trees for part in pairs(opened, tree, target, keys, objects_per_task)]
            look = interrupted or verify
            started = marker.begun(goal)
            work = ExportWork(
                location,
                destination,
                started,
                opened.repository.namespace,
                opened.namespace,
                opened.locate_outside,
                goal,
                look,
            )
            names = folder_names(location, Tree(task_store(opened), target.lasts, target.packed))
            _run(spark, parts, lambda part: check_names(part, work, names), "looking at the names of", destination)
            try:
                _write_marker(location, started)
                old = parts if marker.base or marker.targets else []  # otherwise nothing can need removal
                removed = _run(spark, old, lambda part: remove(part, work), "removing from", destination)
                check()
                written = _run(spark, parts, lambda part: write(part, work), "writing to", destination)
                check()
                expect_turn(work)
                _write_marker(location, started.ended(goal))
            finally:
                location.tidy()
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
def _claimed(location: Destination, clock: Clock, destination: str) -> Iterator[Callable[[], None]]:
    """Exclude other exports: in folders as the library's exports do, elsewhere by a lease. Yields a function that raises
    :class:`BusyError` once that has failed."""
    if isinstance(location.objects, FolderObjects):
        with ExportFolder(location.objects.file_of("x").parent).claimed():
            yield lambda: None
    else:
        with held(location.objects, f"{location.prefix}{LEASE}", clock, f"export to {destination!r}") as lease:
            yield lease.check


def _tree(repository: Reached, commit: str, destination: str) -> Tree:
    """Return the tree of what the destination may hold."""
    try:
        return repository.tree(commit)
    except RefNotFoundError:
        raise PreconditionError(
            f"{destination!r} contains an export of commit {commit[:16]}, which is gone, so it is unknown what differs; export "
            "to a new place"
        ) from None


def _read_marker(location: Destination, destination: str) -> ExportMarker | None:
    try:
        data = location.objects.get(f"{location.prefix}{MARKER}")
    except ObjectMissingError:
        stored_objects = (
            stored for stored in location.objects.list(location.prefix) if stored.key != f"{location.prefix}{LEASE}"
        )
        other = next(stored_objects, None)
        if other is not None:
            raise ExportFolderError(
                f"{destination!r} is neither empty nor an export (it contains {other.key!r}); export to a new place, or to one "
                "that an earlier export made"
            ) from None
        return None
    try:
        marker = msgspec.json.decode(data, type=ExportMarker)
    except UNREADABLE as error:
        raise CorruptError(f"the marker of {destination!r} is damaged: {error}; export to a new place") from None
    if marker.format_version > FORMAT_VERSION:
        raise LaterVersionError(f"the export in {destination!r}", marker.format_version, FORMAT_VERSION)
    return marker


def _write_marker(location: Destination, marker: ExportMarker) -> None:
    location.objects.put(f"{location.prefix}{MARKER}", msgspec.json.format(msgspec.json.encode(marker)) + b"\n")


def _refuse_other(marker: ExportMarker, repository: Reached, prefix: str, destination: str) -> None:
    origin = (
        repository.repository.uid,
        repository.repository.namespace,
    )  # the latter in exports by a server's command line
    if marker.repository not in origin:
        raise ExportFolderError(f"{destination!r} contains an export of another repository; export to a new place")
    if marker.prefix != prefix:
        raise ExportFolderError(
            f"{destination!r} contains an export of {marker.prefix or 'all objects'!r}, not of {prefix or 'all objects'!r}; "
            "export to a new place"
        )


def _run(
    spark: SparkSession,
    parts: Sequence[TwoSlices],
    work: Callable[[TwoSlices], Iterator[pa.RecordBatch]],
    doing: str,
    destination: str,
) -> Mapping[str, int]:
    """Return the sums over all parts. :class:`UnavailableError` with some of the failed objects, :class:`CorruptError` if some
    are damaged."""
    with spark_errors(f"{doing} {destination!r}"):
        rows = in_tasks(spark, parts, work, RESULT).collect()
    failed = list({row.path: row for row in rows if row.path is not None}.values())
    if failed:
        failed.sort(key=lambda row: not row.damaged)
        shown = "; ".join(f"{row.path!r}: {row.why}" for row in failed[:_SHOWN])
        kind: type[GravelerError]
        if doing.startswith("looking"):
            kind, then = InvalidError, "Nothing was changed; rename them"
        else:
            kind = CorruptError if failed[0].damaged else UnavailableError
            then = "Export again: only missing objects are written"
        raise kind(
            f"{doing} {destination!r}: {len(failed):,} objects failed: {shown}{'; …' if len(failed) > _SHOWN else ''}. {then}"
        )
    return {name: sum(row[name] for row in rows) for name in ("written", "removed", "kept", "size")}
