"""Listings of objects as data frames: a user's table, an S3 Inventory, or a prefix of a bucket.

:func:`canonical` reduces any of them to the few columns that tasks need, in Spark's own expressions: rows filtered, keys without
their URL encoding, times as Unix seconds. The library's own :class:`RowReader` validates the values, in the tasks.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    MapType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from graveler.lake.importing.gate import Gate
from graveler.lake.importing.listing_files import ListingFile
from graveler.lake.importing.listing_rows import RowReader, RowRules
from graveler.lake.importing.listing_tables import (
    ADDRESS,
    BUCKET,
    CHECKSUM,
    CONTENT_TYPE,
    IS_DELETE_MARKER,
    IS_LATEST,
    KEY,
    METADATA,
    MTIME,
    SIZE,
    Batch,
    meanings,
)
from graveler.requests.importing import ListingOptions
from graveler.tree.record import RecordCodec

PROBLEM: Final = "problem"
"""The column with the reason why a row cannot be imported, if Spark's expressions have already found it."""

MALFORMED: Final = "_graveler_malformed"
"""The column for a CSV row whose number of fields differs from that of the columns."""

_REPLACEMENT: Final = "\ufffd"
_ENCODED_REPLACEMENT: Final = "%EF%BF%BD"
_CUT_SHORT: Final = "%(?![0-9A-Fa-f]{2})"
_LONG: Final = (-(1 << 63), (1 << 63) - 1)
_TOO_LARGE: Final = "is a number of more than 64 bits"
_NO_ROW: Final = "has a different number of fields than there are columns; is a comma unquoted, or the file truncated?"
_NOT_ENCODED: Final = "has a % without two hex digits after it, or is not UTF-8 after URL decoding"


class Columns(Struct, frozen=True):
    """The names of a canonical listing's columns in the original listing (``names``, by meaning), and the rules that turn its
    rows into records. For its names it acts as a :class:`graveler.lake.importing.listing_tables.Table`; picklable.

    ``label`` names the listing in messages; ``default_mtime`` (Unix seconds) is used for a listing without times. ``gate`` tells
    which addresses readers of the repository can read; rows with others are bad.
    """

    names: Mapping[str, str]
    rules: RowRules
    label: str
    default_mtime: int
    gate: Gate

    @property
    def namespace(self) -> str:
        """The repository's storage namespace."""
        return self.gate.namespace

    @property
    def has_header(self) -> bool:
        """True: Spark knows the columns' names."""
        return True

    @property
    def parts(self) -> int:
        """Zero: Spark makes the parts."""
        return 0

    def batches(self, part: int, only: Collection[str]) -> Iterator[Batch]:
        """Not implemented: Spark reads the rows."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The column whose order is the order of the keys."""
        return KEY if KEY in self.names else ADDRESS

    def reader(self, codec: RecordCodec) -> RowReader:
        """Return the reader that turns rows into records. :class:`graveler.lake.importing.listing_files.ListingError` for missing
        columns."""
        prefix = self.namespace.rstrip("/") + "/"
        return RowReader(ListingFile(Path(self.label)), self, self.rules, codec, prefix, self.default_mtime, self.gate)

    def raw(self, key: bytes) -> str:
        """Return the listing's name for the object with this key in the lake."""
        return self.rules.source + key[len(self.rules.destination.encode()) :].decode()


def canonical(
    listing: DataFrame, options: ListingOptions, gate: Gate, label: str, default_mtime: int
) -> tuple[DataFrame, Columns]:
    """Return the rows of a listing that count, in columns named by meaning: ``key`` or ``physical_address`` (first) and the other
    existing ones. Runs no job.

    Columns are recognised as :class:`graveler.lake.importing.object_listing.ObjectListing` does.
    :class:`graveler.lake.importing.listing_files.ListingError` for missing ones, and two for the same.
    """
    names, _ = meanings(ListingFile(Path(label)), listing.columns)
    encoded = bool(options.url_encoded)
    rules = RowRules(options.source, options.destination, options.base, False, options.folders)
    Columns(names, rules, label, default_mtime, gate).reader(RecordCodec(gate.namespace))  # raises for missing ones
    types = {meaning: listing.schema[name].dataType for meaning, name in names.items()}
    of = {meaning: listing[f"`{name}`"] for meaning, name in names.items()}
    problems: list[Column] = []
    if MALFORMED in listing.columns:
        problems.append(sql.when(listing[MALFORMED].isNotNull(), sql.lit(_NO_ROW)))
    if KEY in of:
        of[KEY], wrong = _decoded(of[KEY], types[KEY], encoded)
        if wrong is not None:
            problems.append(sql.when(wrong, sql.lit(f"column {names[KEY]!r} {_NOT_ENCODED}")))
    if KEY not in names or "://" in options.source:
        of[ADDRESS] = _address(of, options.base)
        names = {meaning: name for meaning, name in names.items() if meaning not in (KEY, BUCKET)}
        names = {ADDRESS: "address", **names}
        rules = RowRules(options.source, options.destination, "", False, options.folders)
    counts = sql.lit(True)
    for meaning, expected_value in ((IS_LATEST, True), (IS_DELETE_MARKER, False)):
        if meaning in of:
            value = _boolean(of[meaning], types[meaning])
            counts = counts & sql.coalesce(value == sql.lit(expected_value), sql.lit(True))
            problems.append(sql.when(value.isNull(), sql.lit(f"column {names[meaning]!r} is neither true nor false")))
    problems += [
        sql.when(~of[meaning].between(*_LONG), sql.lit(f"column {names[meaning]!r} {_TOO_LARGE}"))
        for meaning in (SIZE, MTIME)
        if _is_whole_decimal(types.get(meaning))
    ]
    used = [ADDRESS] if rules.base == "" and ADDRESS in names else [BUCKET] if rules.base == "" else []
    present = [m for m in dict.fromkeys([KEY, *used, SIZE, CHECKSUM, MTIME, CONTENT_TYPE, METADATA]) if m in names]
    columns = Columns({m: names[m] for m in present}, rules, label, default_mtime, gate)
    selected = [_typed(meaning, of[meaning], types.get(meaning, StringType())).alias(meaning) for meaning in present]
    if problems:
        selected.append(sql.coalesce(*problems).alias(PROBLEM))
    rows = listing.filter(counts).select(*selected)
    if options.source:
        begins = sql.startswith(rows[columns.name], sql.lit(options.source))
        rows = rows.filter(sql.coalesce(begins, sql.lit(True)))
    return rows, columns


def _decoded(key: Column, kind: DataType, encoded: bool) -> tuple[Column, Column | None]:
    """Return a key without its URL encoding, and a condition for keys that cannot be decoded."""
    if not encoded:
        return key, None
    text = key.cast(StringType()) if isinstance(kind, BinaryType) else key
    decoded = sql.when(~text.rlike(_CUT_SHORT), sql.url_decode(text))
    has_any = text.contains("%") | text.contains("+")
    garbled = decoded.contains(_REPLACEMENT) & ~sql.upper(text).contains(_ENCODED_REPLACEMENT)
    wrong = has_any & (decoded.isNull() | garbled)
    return sql.when(has_any, sql.coalesce(decoded, text)).otherwise(text), wrong


def _address(of: Mapping[str, Column], base: str) -> Column:
    if base:
        return sql.concat(sql.lit(base), of[KEY])
    if ADDRESS in of:
        return of[ADDRESS]
    return sql.concat(sql.lit("s3://"), of[BUCKET], sql.lit("/"), of[KEY])


def _boolean(value: Column, kind: DataType) -> Column:
    if isinstance(kind, BooleanType):
        return value
    text = sql.lower(value.cast(StringType()))
    return sql.when(text == "true", sql.lit(True)).when(text == "false", sql.lit(False))


def _is_whole_decimal(kind: DataType | None) -> bool:
    return isinstance(kind, DecimalType) and kind.scale == 0


def _typed(meaning: str, value: Column, kind: DataType) -> Column:
    """Return a column in the type that the row reader expects: numbers as 64 bits, times as Unix seconds, metadata as JSON. Names
    are text, ordered by its bytes: Spark sorts texts in place, and copies binary values for each comparison."""
    if meaning in (KEY, ADDRESS):
        return value.cast(StringType())
    if _is_whole_decimal(kind):
        return sql.when(value.between(*_LONG), value.cast("long"))  # the cast alone would fail the job for one row
    if isinstance(kind, IntegralType):
        return value.cast("long")
    if isinstance(kind, TimestampType):
        return sql.unix_seconds(value)
    if isinstance(kind, TimestampNTZType | DateType):
        moment = value.cast(TimestampNTZType())
        clock = sql.hour(moment) * 3600 + sql.minute(moment) * 60 + sql.second(moment)
        return sql.unix_date(moment.cast(DateType())).cast("long") * 86_400 + clock
    if isinstance(kind, MapType):
        return sql.to_json(value)
    return value
