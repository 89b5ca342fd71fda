"""Datasets in a lake, read as ordinary data frames: the lake lists the files, Spark reads them in place."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from graveler.errors import InvalidError, NotFoundError, RefNotFoundError
from graveler.lake.repository import OpenRepository
from graveler.location.environment import ServedLake
from graveler.model import ObjectEntry
from graveler.sdk.repository import Repository as RepositoryHandle
from graveler.spark.as_of import AS_OF, ref_as_of
from graveler.spark.connect import expect_jvm
from graveler.spark.handles import LakeLike, Reached, parse_uri, reached
from graveler.spark.jvm import FoundFile, Value, read_files
from graveler.spark.urls import locator
from graveler.values.addresses import with_tag_meant
from graveler.values.data_files import is_empty, is_visible

FORMAT: Final = "parquet"

_LOGS: Final = ("_delta_log", ".hoodie", "metadata")
"""Folders in which table formats keep their logs."""

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def dataset_path(path: str) -> str:
    """Return the path of a dataset on a branch, without trailing slashes; empty for the whole branch. :class:`InvalidError` for a
    URI, and for segments that are empty, ``.`` or ``..``, which would become names of folders."""
    folder = path.rstrip("/")
    parts = folder.split("/") if folder else []
    odd = next((part for part in parts if part in ("", ".", "..")), None)
    if _URI.match(path):
        reason = "it is a URI"
    elif parts and not parts[0]:
        reason = "it starts with a slash"
    elif odd is not None:
        reason = f"it has a part {odd!r}" if odd else "it has an empty part between two slashes"
    else:
        return folder
    raise InvalidError(
        f"{path!r} is not the path of a dataset: {reason}; give its path on the branch, such as 'tables/events'"
    )


def read(
    spark: SparkSession,
    uri: str,
    *,
    format: str = FORMAT,  # noqa: A002 - as Spark's own
    schema: StructType | str | None = None,
    lake: OpenRepository | RepositoryHandle | LakeLike | ServedLake = None,
    **options: Value,
) -> DataFrame:
    """Return the dataset at ``lakefs://repository/ref/path``, in any file format that Spark reads, as a data frame.
    ``graveler://`` means the same.

    The files are those of the ref's commit now; later commits change nothing, and uncommitted changes do not count. ``path`` is a
    folder, or one object. Folders ``column=value`` below it are partition columns, with types inferred as Spark does, and filters
    on them skip files. With the option ``timestampAsOf``, the ref is a branch, read as of that time; ``versionAsOf`` names a
    commit, or a tag, to read instead of the ref. Objects without bytes, and those whose names begin with ``_`` or ``.``, are not
    data. ``schema`` and ``options`` are Spark's. ``lake`` is the lake's location (also the URL of a server), or the opened
    repository.

    Cost: resolving, :meth:`~graveler.lake.reading.object_reader.ObjectReader.list_objects` per thousand files; no requests to the
    object store. Through a server, as many requests. Under 0.2 ms of the driver per file and 1 ms per partition.
    :class:`NotFoundError` for a path without files, :class:`graveler.errors.ExpiredCommitError`,
    :class:`graveler.errors.InvalidError`.
    """
    expect_jvm(spark, "graveler.spark.read", "run the job in the cluster, with a session of its own")
    where = parse_uri(uri)
    dataset_path(where.path)
    if isinstance(lake, OpenRepository | RepositoryHandle):
        repository = reached(spark, lake)
    else:
        repository = reached(spark, where.repository, lake)
    with repository as opened:
        ref, other_options = ref_as_of(where.ref, options)
        try:
            commit = opened.commit_of(ref).id
        except RefNotFoundError as error:
            raise with_tag_meant(error, where, opened.tags) from None
        opened.expect_kept(ref)
        return read_at(spark, opened, commit, where.path, uri, format=format, schema=schema, options=other_options)


def read_at(
    spark: SparkSession,
    repository: Reached,
    ref: str,
    path: str,
    called: str,
    *,
    format: str,  # noqa: A002 - as Spark's own
    schema: StructType | str | None,
    options: dict[str, Value],
) -> DataFrame:
    """Return the dataset at a path of a ref; ``called`` is its name for errors."""
    base = dataset_path(path)
    for name in options:
        if name.lower() in AS_OF:
            raise InvalidError(f"option {name!r} does not apply here: {called!r} is read as it is now")
    locate = locator(repository)
    prefix = f"{base}/" if base else ""
    files = [
        FoundFile(locate(entry.address), entry.size, entry.mtime, entry.path.rpartition("/")[0])
        for entry in data_files(repository.objects(ref, prefix), base)
    ]
    single = repository.stat_many(ref, [base])[0] if base and not files else None
    if single is not None and single.size:
        files = [FoundFile(locate(single.address), single.size, single.mtime, base)]
    if not files and schema is None and single is None:
        # Some formats, such as text, have columns without a file. With files that have no bytes, the dataset is there.
        visible = any(is_visible(entry.path.removeprefix(prefix)) for entry in repository.objects(ref, prefix))
        if not visible:
            raise NotFoundError(f"{called!r} has no data files; name a folder that has some, or give a schema")
    version = f"{repository.repository.name}/{ref[:16]}"  # plans show some 100 characters
    return read_files(spark, files, format, version=version, base=base, schema=schema, options=options)


def data_files(entries: Iterable[ObjectEntry], base: str) -> Iterator[ObjectEntry]:
    """Yield the entries that are data of the dataset in the folder ``base`` (:func:`~graveler.values.data_files.is_data`).
    :class:`InvalidError` for a table whose own log decides which of its files count, as Delta's does: all files together are rows
    that the table never had."""
    begin = len(base) + 1 if base else 0
    for entry in entries:
        path = entry.path[begin:]
        if is_empty(path, entry.size):
            continue
        parts = path.split("/")
        for number, part in enumerate(parts):
            if (kind := _log_of(part, parts[-1])) is not None:
                table = "/".join(filter(None, (base, *parts[:number])))
                raise InvalidError(
                    f"{table!r} is a table in {kind} format, whose log says which files hold its rows: export the ref, and read "
                    f"it with {kind}'s Spark package"
                )
        if is_visible(path):
            yield entry


def expect_plain(repository: Reached, ref: str, folder: str) -> None:
    """Refuse to add files to a table whose own log decides which files count, since no reader of the table would see them. One
    listing for each of three folders. :class:`InvalidError`."""
    for log in _LOGS:
        for entry in repository.objects(ref, f"{folder}/{log}/"):
            if not is_empty(entry.path, entry.size) and (kind := _log_of(log, entry.path)) is not None:
                raise InvalidError(
                    f"{folder!r} is a table in {kind} format, whose log would not include the files: write it with the Spark "
                    f"package of {kind} and import it, or replace the table with mode 'overwrite'"
                )


def _log_of(folder: str, name: str) -> str | None:
    """Return the table format that keeps its log in a folder of this name, in a file of this one."""
    if folder == "metadata" and name.endswith(".metadata.json"):
        return "Iceberg"
    return {"_delta_log": "Delta", ".hoodie": "Hudi"}.get(folder)
