"""Datasets written on a branch: all writes of a transaction become visible at once, or not at all.

Spark's own writers write files straight to their final locations in the namespace (a data folder,
:mod:`graveler.lake.objects.issued_addresses`); they are linked to a hidden branch, which is committed and merged in the end. No
file is renamed or copied, and the files of a failed transaction are unreferenced garbage.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from threading import Lock

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from graveler.errors import InvalidError, UnavailableError
from graveler.history.names import check_tag
from graveler.lake.committing.applications import check_application
from graveler.lake.refs.hidden_branch import hidden_branch
from graveler.lake.repository import OpenRepository
from graveler.location.environment import ServedLake, user_name
from graveler.model import Application, Commit, ObjectEntry, RepositoryUID
from graveler.spark.datasets import FORMAT, dataset_path, expect_plain, read_at
from graveler.spark.handles import LakeLike, Reachable, Reached
from graveler.spark.jvm import Value, WrittenFile, write_files
from graveler.spark.landing import Work, expect_free, finish, give_tag, later_write, no_changes
from graveler.spark.linking import MODES, Mode, expect_clean, expect_partitions, link_files, remove_below
from graveler.spark.transaction_session import Beginning
from graveler.spark.urls import hadoop_url, stored_below
from graveler.values.addresses import Address


class Written(Struct, frozen=True):
    """The result of a write: ``files`` and their ``size`` (bytes), the number of older files that it ``removed``; the seconds of
    Spark's job, and of linking."""

    path: str
    files: int
    size: int
    removed: int
    write_seconds: float
    link_seconds: float


class Begun(Struct, frozen=True):
    """The state of a transaction that has begun: a repository, and its hidden branch there. Or, for a numbered write of this
    application that was done before, its commit."""

    repository: Reached
    hidden: str
    done: Commit | None = None
    application: Application | None = None


class Transaction:
    """One transaction, for its ``with`` block; threads may share it. ``message``, ``metadata`` and ``tag`` may be set until the
    block ends; ``merged`` is the merge commit after a successful end, None if ``allow_empty`` let it end without one."""

    def __init__(
        self,
        beginning: Beginning[Begun],
        branch: str,
        message: str,
        metadata: Mapping[str, str],
        tag: str | None,
    ) -> None:
        self._beginning = beginning
        self._linking = Lock()
        """Held by the thread that links: of two that replace one folder, the second replaces what the first has linked."""
        self.branch = branch
        self.message = message
        self.metadata = metadata
        self.tag = tag
        self.merged: Commit | None = None
        self.written: list[Written] = []
        self.replaced: list[str] = []
        """Prefixes that were replaced completely: the transaction fails on a concurrent change there."""

    @property
    def hidden(self) -> str:
        """The branch with everything written so far, which listings do not show. :class:`InvalidError` if no session has
        determined the lake yet. Empty for a :attr:`repeated` transaction."""
        return self._beginning.known().hidden

    @property
    def repository_uid(self) -> RepositoryUID:
        """The repository's identity, whatever it was called by. :class:`InvalidError` as of :attr:`hidden`."""
        return self._beginning.known().repository.repository.uid

    @property
    def repeated(self) -> bool:
        """True if the branch already has this version of the application: then the transaction writes and removes nothing, and
        ``merged`` is the existing commit. In a thread without a session this is known from the first frame on."""
        begun = self._beginning.begun
        return begun is not None and begun.done is not None

    @property
    def later(self) -> Commit | None:
        """For a :attr:`repeated` transaction, the commit of a later version of the application, if the branch has one. Cost as
        :func:`graveler.spark.landing.later_write`; no request if it is not repeated."""
        begun = self._beginning.begun
        if begun is None or begun.done is None or begun.application is None:
            return None
        return later_write(begun.repository, self.branch, begun.application)

    def write(
        self,
        frame: DataFrame,
        path: str,
        *,
        format: str = FORMAT,  # noqa: A002 - as Spark's own
        partition_by: str | Sequence[str] = (),
        mode: Mode = "append",
        **options: Value,
    ) -> Written:
        """Write a frame to the folder ``path``, in any file format that Spark writes.

        ``append`` adds files; ``overwrite`` replaces everything in the folder; ``dynamic`` replaces everything in those
        partitions of which the frame has rows. ``partition_by`` names columns, ``options`` are Spark's. The frame may read what
        it replaces. Files are not added to a table of Delta, Hudi or Iceberg, whose log would not know of them, nor to a dataset
        with other partition columns.

        Cost: Spark's job, one object write per file; the branch read twice, to replace a folder three times, else also five
        listings; on S3 one listing per thousand files; one table write per 25 files added or removed. :class:`InvalidError` for
        what the format or the columns do not allow, and for a job that took longer than half the grace period;
        :class:`UnavailableError` if the job fails.
        """
        folder = dataset_path(path)
        spelled = {name.lower(): name for name in frame.columns}  # the name of a folder is that of the frame's column
        columns = [
            name if name in frame.columns else spelled.get(name.lower(), name)
            for name in ([partition_by] if isinstance(partition_by, str) else partition_by)
        ]
        if not folder:
            raise InvalidError("a dataset needs its own folder; name one, such as 'tables/events'")
        if mode not in MODES:
            raise InvalidError(f"mode {mode!r} is not one of {', '.join(MODES)}")
        if mode == "dynamic" and not columns:
            raise InvalidError("mode 'dynamic' replaces partitions, but there are none without partition_by")
        begun = self._beginning.by(frame.sparkSession)
        if begun.done is not None:
            return Written(folder, 0, 0, 0, 0.0, 0.0)
        if mode == "overwrite":
            expect_clean(begun.repository, self.branch, folder)
        else:
            expect_plain(begun.repository, begun.hidden, folder)
            expect_partitions(begun.repository, begun.hidden, folder, columns)
        prefix = f"{begun.repository.repository.namespace}/"
        key = begun.repository.new_address(begun.hidden, f"{folder}/").removeprefix(prefix)
        folder_url = hadoop_url(begun.repository.namespace, key)
        began = time.monotonic()
        files = write_files(frame, folder_url, format, columns, options)
        done = time.monotonic()
        entries = _entries(begun.repository, key, folder, files)
        with self._linking:
            removed = link_files(begun.repository, begun.hidden, folder, mode, entries, self.replaced)
        size = sum(file.size for file in files)
        report = Written(folder, len(files), size, removed, done - began, time.monotonic() - done)
        self.written.append(report)
        return report

    def read(
        self,
        spark: SparkSession,
        path: str,
        *,
        format: str = FORMAT,  # noqa: A002 - as Spark's own
        schema: StructType | str | None = None,
        **options: Value,
    ) -> DataFrame:
        """Return the dataset at ``path`` as the transaction sees it: its writes so far, on top of the branch as of its beginning.
        Otherwise as :func:`graveler.spark.read`."""
        begun = self._beginning.by(spark)
        ref = begun.hidden if begun.done is None else begun.done.id
        called = str(Address(begun.repository.repository.name, ref, path))
        return read_at(spark, begun.repository, ref, path, called, format=format, schema=schema, options=options)

    def delete(self, path: str) -> int:
        """Remove a dataset: all objects of the folder ``path``. Returns their number. Cost: one table write per 25."""
        folder = dataset_path(path)
        if not folder:
            raise InvalidError("name the folder of a dataset; a transaction cannot remove a whole branch")
        begun = self._beginning.known()
        if begun.done is not None:
            return 0
        expect_clean(begun.repository, self.branch, folder)
        with self._linking:
            return remove_below(begun.repository, begun.hidden, f"{folder}/", self.replaced)


@contextmanager
def transaction(
    repository: Reachable,
    branch: str,
    *,
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    tag: str | None = None,
    committer: str | None = None,
    keep_on_error: bool = False,
    keep_unlanded: bool = True,
    allow_empty: bool = False,
    app_id: str | None = None,
    version: int | None = None,
    lake: LakeLike | ServedLake = None,
    spark: SparkSession | None = None,
) -> Iterator[Transaction]:
    """Write datasets on ``branch``: the writes of the ``with`` block are committed and merged when it ends, and invisible before.

    An exception in the block leaves the branch unchanged; with ``keep_on_error`` the hidden branch stays for inspection.
    Concurrent commits to the branch are allowed: the merge combines both. Uncommitted changes of the branch stay where they are;
    they refuse the merge only where it would change the same objects, or below what was replaced (:class:`DirtyBranchError`). A
    transaction that replaced a dataset or partitions that were changed concurrently fails with
    :class:`graveler.errors.TouchedError`; that cannot happen to appends. If the block ended well, but the transaction could not
    land, its writes are not lost: they stay committed on the hidden branch, which the error names (``error.kept``), until
    :func:`graveler.spark.land` lands it or the branch is deleted. Without ``keep_unlanded``, it is deleted. ``tag`` names the
    merge. ``committer`` is by default the user who runs this. With ``allow_empty``, a block that wrote nothing ends without a
    commit.

    With ``app_id`` and ``version``, the transaction is one of the numbered writes of an application, and takes effect once,
    however often and after whatever time it is tried (promise C4): the merge records the version. If the branch's history has
    that version of the application, or a later one, the transaction is :attr:`Transaction.repeated`. Versions must increase from
    write to write, and an application writes its versions one after the other: one that ends after a later one that was begun
    after it is a :class:`graveler.errors.ConflictError`, and its work is kept. For streams: :func:`graveler.spark.each_batch`.

    The lake is the one that ``lake`` names, or the options of ``spark``; without both, those of the session that is active in
    this thread, and if none is, as in a thread of the user's own, those of the first frame's session. Then the transaction begins
    with that frame. A frame whose session names another lake is refused (:class:`InvalidError`).

    ``lake`` may be the URL of a server of the HTTP API (or ``spark.graveler.endpoint``, GRAVELER_ENDPOINT): the server checks
    that the access key may change the branch, and ``tx-*``, the names of hidden branches; it links, commits and merges.
    ``committer`` is then the key's owner; a key limited to branches creates no tags. Files go straight to the object store, with
    the job's own credentials there.

    Cost besides the writes: creating, committing, merging and deleting a branch, whatever its size; with an ``app_id`` three
    table reads. :class:`graveler.errors.NoChangesError` if nothing was written, :class:`DirtyBranchError`,
    :class:`AlreadyExistsError` for the tag, :class:`graveler.errors.TouchedError`, :class:`graveler.errors.MergeConflictError`,
    :class:`graveler.errors.BusyError`.
    """
    by = user_name() if committer is None else committer
    if tag is not None:
        check_tag(tag)
    application = application_of(app_id, version)

    def begin(block: ExitStack, opened: Reached) -> Begun:
        if not isinstance(opened, OpenRepository):
            opened.expect_permitted(branch)
        if application is not None and (done := opened.written_by(branch, application)) is not None:
            return Begun(opened, "", done, application)
        if tag is not None:
            expect_free(opened, tag)
        return Begun(
            opened,
            block.enter_context(hidden_branch(opened, branch, by, keep_on_error=keep_on_error)),
        )

    with ExitStack() as outer:
        with ExitStack() as block:
            beginning = Beginning(outer, repository, lake, lambda opened: begin(block, opened))
            beginning.early(spark or SparkSession.getActiveSession())
            work = Transaction(beginning, branch, message, dict(metadata or {}), tag)
            yield work
            begun = beginning.begun
            if begun is not None:
                folders = tuple(dataset.path for dataset in work.written)
                work_terms = Work(
                    work.branch, tuple(work.replaced), folders, work.message, work.metadata, application, work.tag
                )
                work.merged = begun.done or finish(
                    begun.repository, begun.hidden, work_terms, by, allow_empty=allow_empty, keep=keep_unlanded
                )
            elif not allow_empty:
                raise no_changes(branch, "no frame was written")
        if begun is not None and work.merged is not None and work.tag is not None:
            give_tag(begun.repository, work.tag, work.merged.id, by)


def _entries(repository: Reached, key: str, folder: str, files: Sequence[WrittenFile]) -> list[ObjectEntry]:
    """Return entries of Spark's files as they are in the store. :class:`UnavailableError` if the store's differ."""
    stored = {
        stored_object.key: stored_object
        for stored_object in stored_below(repository.namespace, key, [file.name for file in files])
    }
    entries = []
    for file in files:
        stored_file = stored.get(f"{key}/{file.name}")
        if stored_file is None or stored_file.size != file.size:
            has = "it has none" if stored_file is None else f"it has {stored_file.size}"
            raise UnavailableError(
                f"Spark wrote {file.size} bytes to {key}/{file.name}, but the object store says that {has}; "
                "nothing was linked"
            )
        address = f"{repository.repository.namespace}/{stored_file.key}"
        entries.append(
            ObjectEntry(f"{folder}/{file.name}", address, stored_file.size, stored_file.etag, int(stored_file.modified))
        )
    return entries


def application_of(app_id: str | None, version: int | None) -> Application | None:
    """Return the numbered write, or None without a number. :class:`InvalidError` for half of one, or an invalid one."""
    if (app_id is None) != (version is None):
        raise InvalidError("app_id and version belong together: the writer, and the number of this write")
    if app_id is None or version is None:
        return None
    application = Application(app_id, version)
    check_application(application)
    return application
