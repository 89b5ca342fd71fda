"""The sources of listings: tables in files, an S3 Inventory, a prefix of a bucket that is listed in parallel."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as arrow
from msgspec import Struct, field
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType

from graveler.errors import UNREADABLE, InvalidError
from graveler.lake.importing.listing_files import find_near
from graveler.location.environment import ServedLake
from graveler.spark.connect import cores
from graveler.spark.cutting import Look, Piece, cut_points, groups, look
from graveler.spark.error_translation import spark_errors
from graveler.spark.frames import in_tasks
from graveler.spark.handles import LakeLike, Reachable, reached
from graveler.spark.listing_frames import MALFORMED
from graveler.storage.objects.port import Objects

FORMATS: Final = ("parquet", "orc", "csv")
LISTED: Final = arrow.schema(
    [
        arrow.field("key", arrow.string()),
        arrow.field("physical_address", arrow.string()),
        arrow.field("size", arrow.int64()),
        arrow.field("etag", arrow.string()),
        arrow.field("mtime", arrow.int64()),
    ]
)
"""Columns of :func:`list_prefix`."""

_LOOKS: Final = arrow.schema([arrow.field("number", arrow.int64()), arrow.field("look", arrow.binary())])
_NO_ROWS: Final = "Bucket string, Key string, Size long, ETag string"
"""Columns of an inventory without files."""

_SUFFIXES: Final = {".parquet": "parquet", ".orc": "orc", ".csv": "csv", ".csv.gz": "csv"}
SYMLINK: Final = "symlink.txt"
"""Name of the file that lists an inventory's files in its Hive layout."""
_BUCKET: Final = "arn:aws:s3:::"
_ROWS: Final = 10_000


class Source(Struct, frozen=True):
    """A listing: its rows, whether the keys are URL-encoded, a text for messages (``label``), and one that identifies it
    (``version``)."""

    rows: DataFrame
    url_encoded: bool
    label: str
    version: str


class _ManifestFile(Struct, frozen=True):
    key: str
    size: int | None = None
    md5: str | None = field(default=None, name="MD5checksum")


class _Manifest(Struct, frozen=True, rename="camel"):
    file_format: str
    file_schema: str
    files: list[_ManifestFile]
    destination_bucket: str = ""


def read_tables(spark: SparkSession, paths: Sequence[str], kind: str = "", columns: Sequence[str] = ()) -> Source:
    """Return tables in files or folders, wherever Spark can read them. ``kind`` is one of :data:`FORMATS`, by default that of the
    first path's suffix; ``columns`` are the column names of a CSV without a header.

    Rows of CSV have an additional column, :data:`graveler.spark.listing_frames.MALFORMED`, by which an import recognizes
    truncated lines. Cost: a listing of the files. :class:`InvalidError`, :class:`NotFoundError`.
    """
    if not paths:
        raise InvalidError("no listing to import; name at least one file or folder")
    kind = kind or _kind(paths[0])
    if kind not in FORMATS:
        raise InvalidError(f"{kind!r} is not a format of listings; use {', '.join(FORMATS)}")
    label = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    with spark_errors(f"reading {label!r}"):
        files = _files(spark, paths)
        return Source(_read(spark, paths, kind, columns), False, label, _digest([repr(files), kind, *columns]))


def read_inventory(
    spark: SparkSession, manifest: str, columns: Sequence[str] = (), *, check_digests: bool = True
) -> Source:
    """Return an S3 Inventory by its ``manifest.json``: in its bucket (``s3a://…``), or a copy in a folder near its files. Or by
    the ``symlink.txt`` of its Hive layout, which does not name the ``columns`` of CSV files.

    Cost: two listings; one reading of the files by tasks, each with a file in memory, which ``check_digests=False`` skips.
    :class:`NotFoundError`, :class:`InvalidError` for what is no manifest, and for a file that does not have the manifest's size
    or MD5.
    """
    text = _text(spark, manifest)
    if manifest.endswith(SYMLINK):
        return _read_symlink(spark, manifest, text, columns)
    try:
        decoded = msgspec.json.decode(text, type=_Manifest)
    except UNREADABLE as error:
        raise InvalidError(f"{manifest!r} is not a manifest of S3 Inventory: {error}") from None
    kind = decoded.file_format.lower()
    if kind not in FORMATS:
        raise InvalidError(
            f"{manifest!r} has files in the format {decoded.file_format!r}, which S3 Inventory does not have"
        )
    if not decoded.files:  # that of an empty bucket
        return Source(spark.createDataFrame([], _NO_ROWS), False, manifest, _digest([text]))
    bucket = decoded.destination_bucket.removeprefix(_BUCKET)
    paths = [_beside(manifest, bucket, file.key) for file in decoded.files]
    with spark_errors(f"reading the files of {manifest!r}"):
        digests = check_digests and any(file.md5 for file in decoded.files)
        files = {path.rpartition("/")[2]: rest for path, *rest in _files(spark, paths, digests=digests)}
        for path, file in zip(paths, decoded.files, strict=True):
            size, md5 = files.get(path.rpartition("/")[2], (None, None))
            wrong = f"{path!r} is not the file in {manifest!r}"
            if file.size is not None and size != file.size:
                raise InvalidError(f"{wrong}: it has {size} bytes, but should have {file.size}")
            if digests and file.md5 and md5 != file.md5.lower():
                raise InvalidError(f"{wrong}: its MD5 is {md5}, but should be {file.md5}")
        columns = [name.strip() for name in decoded.file_schema.split(",")] if kind == "csv" else []
        rows = _read(spark, paths, kind, columns)
    return Source(rows, kind == "csv", manifest, _digest([text]))


def _read_symlink(spark: SparkSession, link: str, text: str, columns: Sequence[str]) -> Source:
    urls = text.split()
    if not urls or not all("://" in url for url in urls):
        raise InvalidError(
            f"{link!r} is not a {SYMLINK} of S3 Inventory: it must list the addresses of files, one per line"
        )
    paths = []
    for url in urls:
        bucket, _, key = url.partition("://")[2].partition("/")
        paths.append(_beside(link, bucket, key))
    kind = _kind(paths[0])
    if kind == "csv" and not columns:
        raise InvalidError(f"{link!r} lists CSV files whose columns are unknown; name the columns")
    with spark_errors(f"reading the files of {link!r}"):
        files = _files(spark, paths)
        return Source(_read(spark, paths, kind, columns), kind == "csv", link, _digest([text, repr(files), *columns]))


def _text(spark: SparkSession, path: str) -> str:
    with spark_errors(f"reading {path!r}"):
        row = spark.read.text(path, wholetext=True).head()
    return row.value if row else ""


def _beside(manifest: str, bucket: str, key: str) -> str:
    """Return the location of an inventory's file: in its bucket, reached like the manifest; or near the manifest's copy."""
    scheme, separator, _ = manifest.partition("://")
    if separator and scheme != "file":
        return f"{scheme}://{bucket}/{key}"
    return str(find_near(Path(manifest.removeprefix("file://")), key))


def _kind(path: str) -> str:
    kind = next((kind for suffix, kind in _SUFFIXES.items() if path.lower().endswith(suffix)), "")
    if not kind:
        raise InvalidError(f"the format of table {path!r} is unknown; name it: {', '.join(FORMATS)}")
    return kind


def _read(spark: SparkSession, paths: Sequence[str], kind: str, columns: Sequence[str]) -> DataFrame:
    if kind != "csv":
        return _all_of(spark).format(kind).load(list(paths))
    # As RFC 4180 has it; everything is text, which is validated later, with a reason for each row.
    reader = _all_of(spark).option("escape", '"').option("header", not columns).option("enforceSchema", bool(columns))
    names = columns or reader.csv(list(paths)).columns
    # A truncated line has too few fields, and perhaps half a value: it must not count as a row.
    reader = reader.option("columnNameOfCorruptRecord", MALFORMED).option("columnPruning", False)
    return reader.schema(StructType([StructField(name, StringType()) for name in (*names, MALFORMED)])).csv(list(paths))


def _all_of(spark: SparkSession) -> DataFrameReader:
    """Return a reader that reads files completely or fails, whatever the session's settings."""
    return spark.read.option("ignoreCorruptFiles", False).option("ignoreMissingFiles", False)


def _files(spark: SparkSession, paths: Sequence[str], *, digests: bool = False) -> list[tuple[str, int, str]]:
    """Return paths, sizes (bytes) and MD5s of all files; without ``digests`` the MD5s are empty, and no file is read."""
    files = _all_of(spark).format("binaryFile").option("recursiveFileLookup", True).load(list(paths))
    digest = sql.md5("content") if digests else sql.lit("")
    return sorted(
        (row.path, row.length, row.md5) for row in files.select("path", "length", digest.alias("md5")).collect()
    )


def _digest(texts: Iterable[str]) -> str:
    return sha256(msgspec.msgpack.encode(list(texts))).hexdigest()


def list_prefix(
    spark: SparkSession,
    repository: Reachable,
    address: str,
    tasks: int | None = None,
    *,
    lake: LakeLike | ServedLake = None,
) -> DataFrame:
    """Return the objects whose address begins with ``address`` (``s3://bucket/folder/``), in the columns :data:`LISTED`; keys
    begin after its last slash, as for an import in one process.

    Tasks list intervals of keys, which :func:`graveler.spark.cutting.cut_points` makes about equally large beforehand, by samples
    of the bucket that tasks take as well. Cost: one request for up to 1,000 objects; else some rounds of small jobs, with about
    seven requests for each of the ``tasks`` (four per core), or up to thirty if objects lie in small folders; and then one per
    1,000 objects. An empty prefix has no rows, which an import accepts only if told to. :class:`graveler.errors.ForbiddenError`
    for the repository's own namespace, :class:`InvalidError` for folders of this machine.
    """
    if address.startswith("file://"):
        raise InvalidError(
            f"{address!r} is a folder: import it with the library, whose commit is the same (OpenRepository.import_addresses)"
        )
    above, separator, _ = address.rpartition("/")
    if not separator or "://" not in above:
        raise InvalidError(f"cannot list {address!r}; give an address of the form s3://bucket/folder/")
    with reached(spark, repository, lake) as opened:
        objects, probe = opened.store_at(f"{above}/_")
    folder = probe[:-1]
    prefix = folder + address[len(above) + 1 :]
    at_once = tasks or cores(spark)
    cuts = cut_points(objects, prefix, tasks or 4 * at_once, lambda pieces: _looks(spark, objects, pieces, at_once))
    intervals = list(pairwise(["", *cuts, ""]))
    return in_tasks(spark, intervals, lambda interval: _listed(objects, prefix, folder, above, *interval), LISTED)


def _looks(spark: SparkSession, objects: Objects, pieces: Sequence[Piece], tasks: int) -> list[Look]:
    """Return the looks at pieces, taken by tasks."""

    def run(numbered: list[tuple[int, Piece]]) -> Iterator[arrow.RecordBatch]:
        looks_by_number = [(number, msgspec.msgpack.encode(look(objects, piece))) for number, piece in numbered]
        yield arrow.RecordBatch.from_pylist(
            [{"number": number, "look": look_text} for number, look_text in looks_by_number], schema=_LOOKS
        )

    with spark_errors("cutting a listing"):
        rows = in_tasks(spark, groups(list(enumerate(pieces)), tasks), run, _LOOKS).collect()
    looks_by_number = {row.number: msgspec.msgpack.decode(row.look, type=Look) for row in rows}
    return [looks_by_number[number] for number in range(len(pieces))]


def _listed(
    objects: Objects, prefix: str, folder: str, above: str, after: str, upto: str
) -> Iterator[arrow.RecordBatch]:
    """Yield the objects in an interval of keys, ``after`` exclusive, ``upto`` (unless it is empty) inclusive."""
    end = upto.encode()
    rows: list[tuple[str, str, int, str, int]] = []
    for stored in objects.list(prefix, after):
        if upto and stored.key.encode() > end:
            break
        name = stored.key.removeprefix(folder)
        rows.append((name, f"{above}/{name}", stored.size, stored.etag.strip('"'), int(stored.modified)))
        if len(rows) == _ROWS:
            yield _batch(rows)
            rows = []
    yield _batch(rows)


def _batch(rows: Sequence[tuple[str, str, int, str, int]]) -> arrow.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(LISTED)
    arrays = [arrow.array(column, field.type) for column, field in zip(columns, LISTED, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, schema=LISTED)
