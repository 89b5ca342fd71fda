"""``df.write.format("graveler")``: writes a frame as a dataset on a branch by one commit, as one of Spark's own plans.

Spark runs the write, so it appears in the SQL tab, and query listeners see it. The tasks write Parquet files to their final
locations (:mod:`graveler.spark.parquet_files`); once all are done, the driver links the files of the attempts that count to a
hidden branch, commits, and merges, as a transaction does (:mod:`graveler.spark.landing`).

The hidden branch starts at the commit that the branch had when the write was planned, so replacing a dataset that was changed
concurrently is refused. The branch is created when the tasks are done: only its name is needed before, since addresses prove for
which branch they were made. So no process has to renew its lease while the tasks run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from graveler.errors import AlreadyExistsError, GravelerError, InvalidError
from graveler.history.names import check_tag
from graveler.lake.opening.location import LakeLocation, open_at
from graveler.lake.refs.hidden_branch import hidden_branch, hidden_name
from graveler.lake.repository import OpenRepository
from graveler.location.environment import user_name
from graveler.model import Application, CommitID, ObjectEntry
from graveler.spark.datasets import data_files, dataset_path, expect_plain
from graveler.spark.landing import Work, expect_free, finish, give_tag
from graveler.spark.linking import Mode, expect_clean, expect_partitions, link_files
from graveler.spark.locations import LOCATION_OPTIONS, location_of
from graveler.spark.parquet_files import CODECS, ParquetFolder, PutFile
from graveler.spark.schemas import check_columns, leaves
from graveler.spark.source_options import expect_known, flag, needed, number, one_of, words
from graveler.spark.transactions import application_of
from graveler.spark.workers import forget_archives

WRITE_OPTIONS: Final = (
    *LOCATION_OPTIONS,
    "repository",
    "branch",
    "path",
    "partitionBy",
    "partitionOverwriteMode",
    "ifExists",
    "message",
    "metadata",
    "committer",
    "tag",
    "txnAppId",
    "txnVersion",
    "allowEmpty",
    "compression",
)
_WHOLE_NUMBERS: Final = (ByteType, ShortType, IntegerType, LongType)
_IN_FOLDERS: Final = (StringType, BooleanType, DateType, DecimalType, *_WHOLE_NUMBERS)
"""Types whose values have a unique text, and so can name folders."""
_IN_FILES: Final = (*_IN_FOLDERS, FloatType, DoubleType, BinaryType, TimestampType, TimestampNTZType)


class _Plan(Struct, frozen=True):
    """The decisions made before the tasks start. ``done``: nothing needs to be written, since the existing dataset stays as it
    is, or the application wrote this version before, in the commit ``merged``."""

    location: LakeLocation
    repository: str
    branch: str
    folder: str
    mode: Mode
    hidden: str
    base: CommitID
    by: str
    message: str
    metadata: dict[str, str]
    tag: str | None
    application: Application | None
    allow_empty: bool
    unchanged: bool
    """True if the folder must be unchanged, although nothing in it is replaced."""
    done: bool
    merged: CommitID | None


class _Wrote(WriterCommitMessage):
    """The files that an attempt of a task has written."""

    def __init__(self, files: list[PutFile]) -> None:
        self.files = files


class DatasetWriter(DataSourceArrowWriter):
    """One write. Created by the driver, which sends copies to the tasks, and to the process that commits in the end."""

    def __init__(self, plan: _Plan, files: ParquetFolder) -> None:
        self._plan, self._files = plan, files

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows. One object write per partition that it has rows of."""
        forget_archives()
        if self._plan.done:
            return _Wrote([])
        context = TaskContext.get()
        return _Wrote(self._files.write(iterator, 0 if context is None else context.partitionId()))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Link the tasks' files, commit, and merge. Costs and errors as at the end of a :func:`graveler.spark.transaction`."""
        plan = self._plan
        if plan.done:
            self._tag(plan.merged)
            return
        put = [file for message in messages if isinstance(message, _Wrote) for file in message.files]
        with open_at(plan.location) as lake:
            repository = lake.repository(plan.repository)
            address = f"{repository.repository.namespace}/{self._files.key}"
            entries = [
                ObjectEntry(
                    f"{plan.folder}/{file.name}", f"{address}/{file.name}", file.size, file.checksum, file.mtime
                )
                for file in put
            ]
            replaced = [f"{plan.folder}/"] if plan.unchanged else []
            with hidden_branch(repository, plan.branch, plan.by, name=plan.hidden, start=plan.base) as hidden:
                link_files(repository, hidden, plan.folder, plan.mode, entries, replaced)
                work = Work(
                    plan.branch,
                    tuple(replaced),
                    (plan.folder,),
                    plan.message,
                    plan.metadata,
                    plan.application,
                    plan.tag,
                )
                merged = finish(repository, hidden, work, plan.by, allow_empty=plan.allow_empty, keep=True)
        self._tag(None if merged is None else merged.id)

    def _tag(self, merged: CommitID | None) -> None:
        """Tag the merge, including that of an earlier attempt that died before tagging."""
        plan = self._plan
        if merged is not None and plan.tag is not None:
            with open_at(plan.location) as lake:
                give_tag(lake.repository(plan.repository), plan.tag, merged, plan.by)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the tasks' files, if one task failed. Spark also calls this after a failed commit: then all tasks have a
        message, and the files stay, since they may be committed, or kept with the hidden branch; unreferenced ones are left to
        the collector. One listing per thousand files, and their deletion."""
        if self._plan.done or all(message is not None for message in messages):
            return
        objects = self._files.objects
        with suppress(GravelerError):  # left to the collector, like the files of tasks that still run
            objects.delete_many([(stored.key, stored.etag) for stored in objects.list(f"{self._files.key}/")])


def writer_of(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DatasetWriter:
    """Return the writer for these options. Checks the branch before any work: a few table reads. :class:`InvalidError` for
    invalid options and columns, :class:`AlreadyExistsError` for ``ifExists=error``, and errors as at the beginning of a
    :func:`graveler.spark.transaction`."""
    expect_known(options, WRITE_OPTIONS)
    location, name, branch = location_of(options), needed(options, "repository"), needed(options, "branch")
    folder = dataset_path(needed(options, "path"))
    if not folder:
        raise InvalidError("a dataset needs its own folder; name one, such as 'tables/events'")
    columns = words(options, "partitionBy")
    _check_schema(schema, columns)
    dynamic = one_of(options, "partitionOverwriteMode", ("static", "dynamic"), "static") == "dynamic" and overwrite
    if dynamic and not columns:
        raise InvalidError("partitionOverwriteMode dynamic replaces partitions, but there are none without partitionBy")
    exists = one_of(options, "ifExists", ("append", "error", "ignore"), "append")
    if overwrite and exists != "append":
        raise InvalidError(f"ifExists={exists} and mode('overwrite') contradict each other; use mode('append')")
    mode: Mode = "dynamic" if dynamic else "overwrite" if overwrite else "append"
    tag = options.get("tag") or None
    if tag is not None:
        check_tag(tag)
    version = number(options, "txnVersion", -1, least=0)
    application = application_of(options.get("txnappid") or None, None if version < 0 else version)
    with open_at(location) as lake:
        repository = lake.repository(name)
        base = repository.branch(branch).commit_id
        before = None if application is None else repository.written_by(branch, application)
        done = before is not None
        if not done:
            if tag is not None:
                expect_free(repository, tag)
            if overwrite and not dynamic:
                expect_clean(repository, branch, folder)
            else:
                expect_plain(repository, base, folder)
                expect_partitions(repository, base, folder, columns)
            if exists != "append" and _has_files(repository, base, folder):
                if exists == "error":
                    raise AlreadyExistsError("dataset", folder, "append to it, overwrite it, or choose another path")
                done = True
        hidden = hidden_name()
        prefix = f"{repository.repository.namespace}/"
        key = repository.address_ahead(hidden, f"{folder}/").removeprefix(prefix)
        plan = _Plan(
            location=location,
            repository=name,
            branch=branch,
            folder=folder,
            mode=mode,
            hidden=hidden,
            base=base,
            by=options.get("committer") or user_name(),
            message=options.get("message", ""),
            metadata=_metadata(options.get("metadata", "")),
            tag=tag,
            application=application,
            allow_empty=flag(options, "allowEmpty"),
            unchanged=exists != "append",
            done=done,
            merged=None if before is None else before.id,
        )
        codec = one_of(options, "compression", CODECS, "snappy")
        return DatasetWriter(plan, ParquetFolder(repository.namespace, key, schema.json(), columns, codec))


def _has_files(repository: OpenRepository, commit: CommitID, folder: str) -> bool:
    return any(True for _ in data_files(repository.objects(commit, f"{folder}/"), folder))


def _check_schema(schema: StructType, partition_by: Sequence[str]) -> None:
    # Only the session knows whether case matters, and data sources are not told: refuse names that most sessions could not read.
    check_columns(schema, case_matters=False)
    for name, kind in leaves(schema):
        if not isinstance(kind, _IN_FILES):
            raise InvalidError(
                f"column {name!r} is of type {kind.simpleString()}, which the data source graveler cannot write; cast it, or "
                "write with graveler.spark.transaction, which supports everything that Spark's own writers do"
            )
    types: dict[str, DataType] = {field.name: field.dataType for field in schema.fields}
    if len(set(partition_by)) < len(partition_by):
        raise InvalidError(f"partitionBy names a column twice: {', '.join(partition_by)}")
    for name in partition_by:
        if name not in types:
            raise InvalidError(f"the frame has no column {name!r} to partition by; it has {', '.join(types)}")
        if not isinstance(types[name], _IN_FOLDERS):
            raise InvalidError(
                f"column {name!r} is of type {types[name].simpleString()}, which cannot name folders; partition by text, whole "
                "numbers, decimals, booleans or dates"
            )
    if partition_by and len(partition_by) == len(types):
        raise InvalidError("a frame cannot be partitioned by all of its columns; none would be left for the files")


def _metadata(text: str) -> dict[str, str]:
    """Return the commit's metadata. :class:`InvalidError` for what is not a JSON object of texts."""
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        raise InvalidError(
            f"option 'metadata' is {text!r}; give a JSON object of texts, such as " + '{"job": "nightly"}'
        ) from None
