"""The rows of a listing's files, some thousands at a time, column by column: CSV or Parquet, plain or gzip.

The first bytes of a file decide its format, not its name. pyarrow, which reads Parquet, is imported only when needed.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import chain, islice
from tempfile import TemporaryFile
from typing import IO, Any, Final, Protocol

import msgspec

from graveler.errors import PreconditionError
from graveler.lake.importing.listing_files import ListingError, ListingFile
from graveler.lake.importing.listing_gzip import ListingGzip, UnpacksTooFarError
from graveler.lake.importing.parquet_pages import longest_text, pages
from graveler.storage.durable_files import temporary_files, unavailable
from graveler.system.extras import not_installed

BUCKET: Final = "bucket"
KEY: Final = "key"
ADDRESS: Final = "physical_address"
SIZE: Final = "size"
CHECKSUM: Final = "checksum"
MTIME: Final = "mtime"
CONTENT_TYPE: Final = "content_type"
METADATA: Final = "metadata"
IS_LATEST: Final = "is_latest"
IS_DELETE_MARKER: Final = "is_delete_marker"

_COLUMNS: Final[Mapping[str, str]] = {
    "bucket": BUCKET,
    "key": KEY,
    "path": KEY,
    "physicaladdress": ADDRESS,
    "address": ADDRESS,
    "size": SIZE,
    "etag": CHECKSUM,
    "checksum": CHECKSUM,
    "lastmodifieddate": MTIME,
    "lastmodified": MTIME,
    "mtime": MTIME,
    "contenttype": CONTENT_TYPE,
    "metadata": METADATA,
    "islatest": IS_LATEST,
    "isdeletemarker": IS_DELETE_MARKER,
}
"""The meanings of column names in lower case, without ``_``, ``-`` and spaces. Other columns are not read."""

_BATCH: Final = 4096
_BLOCK: Final = 1 << 18
_LONGEST_LINE: Final = 1 << 22
_LARGEST_PAGE: Final = 1 << 27
"""The limit on the bytes of a Parquet page, unpacked. Writers make pages of 1 MB, DuckDB some of 100."""

_SMALL_DICTIONARY: Final = 1 << 16
_LONGEST_VALUE: Final = 1 << 16
"""Bytes. A dictionary below the first limit is harmless to a batch of rows, whatever its values; in a larger one, each value is
at most as long as the second."""

_HADOOP: Final = 8
"""The bytes at the beginning of Hadoop's form of LZ4, which old files have: two sizes."""

_GZIP: Final = b"\x1f\x8b"
_PARQUET: Final = b"PAR1"
_BOM: Final = b"\xef\xbb\xbf"
_REFUSED: Final[Mapping[bytes, str]] = {
    b"ORC": "is ORC; convert it to CSV or Parquet",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; decompress it first",
    b"\xfd7zXZ": "is compressed with xz; decompress it first",
    b"BZh": "is compressed with bzip2; decompress it first",
    b"PK\x03\x04": "is a zip archive; unpack it first",
    b"\xff\xfe": "is UTF-16; save it as UTF-8",
    b"\xfe\xff": "is UTF-16; save it as UTF-8",
}


class _Stream(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class Batch(msgspec.Struct):
    """Some rows of a file. ``rows`` are their numbers, ``columns`` their values by the column's meaning.

    Values of a CSV are ``str``, with surrogate escapes for invalid UTF-8. From Parquet, text is ``bytes``, times are ``int`` in
    Unix seconds, None stands for null, and the rest is as pyarrow returns it.
    """

    rows: Sequence[int]
    columns: dict[str, list[Any]]


class Table(Protocol):
    """A file's rows. Cheap to make; each call of :meth:`batches` opens the file."""

    @property
    def names(self) -> Mapping[str, str]:
        """The names of columns in the file, by their meanings."""
        ...

    @property
    def has_header(self) -> bool:
        """True if the file itself names its columns."""
        ...

    @property
    def parts(self) -> int:
        """The number of parts that can be read independently: 1 for a CSV, the row groups of a Parquet."""
        ...

    def batches(self, part: int, only: Collection[str]) -> Iterator[Batch]:
        """Yield the rows of a part, with those columns alone. Memory for some thousand rows. :class:`ListingError`,
        :class:`graveler.errors.UnavailableError`."""
        ...


def open_table(file: ListingFile) -> Table:
    """Open the table in a file. Reads its beginning (of Parquet, its end).

    :class:`ListingError` for a file that is not a table, :class:`PreconditionError` for Parquet without pyarrow,
    :class:`graveler.errors.UnavailableError`.
    """
    head = _head(file)
    if head.startswith(_PARQUET):
        return ParquetTable(file)
    return CsvTable(file)


class CsvTable:
    """A CSV according to RFC 4180, in UTF-8: ``,`` between fields, ``"`` around them where needed. Blank lines do not count."""

    def __init__(self, file: ListingFile) -> None:
        self._file = file
        self.parts = 1
        self.has_header = not file.columns
        header = file.columns
        if self.has_header:
            with _opened(file) as stream:
                header = tuple(self._header(stream))
        self._width = len(header)
        self.names, self._columns = meanings(file, header)
        if self.has_header and not self.names:
            raise ListingError(
                file.path,
                "does not start with a header that names any known column (such as Key, Size, ETag); "
                "specify its columns, in order",
                1,
                value=",".join(header),
            )

    def batches(self, part: int, only: Collection[str]) -> Iterator[Batch]:  # noqa: ARG002 - there is one
        """See :class:`Table`."""
        columns = {meaning: column for meaning, column in self._columns.items() if meaning in only}
        with _opened(self._file) as stream:
            lines = self._lines(stream)
            if self.has_header:
                next(lines, None)
            number = 1 + self.has_header
            while True:
                rows: list[list[str]] = []
                try:
                    rows.extend(islice(lines, _BATCH))
                except csv.Error as error:
                    raise ListingError(self._file.path, f"is not CSV: {error}", number + len(rows)) from None
                if not rows:
                    return
                numbers: Sequence[int] = range(number, number + len(rows))
                number += len(rows)
                if set(map(len, rows)) != {self._width}:
                    numbers, rows = self._not_blank(numbers, rows)
                yield Batch(numbers, {meaning: [row[column] for row in rows] for meaning, column in columns.items()})

    def _header(self, stream: _Stream) -> list[str]:
        try:
            return next(self._lines(stream), [])
        except csv.Error as error:
            raise ListingError(self._file.path, f"is not CSV: {error}", 1) from None

    def _not_blank(self, numbers: Sequence[int], rows: list[list[str]]) -> tuple[list[int], list[list[str]]]:
        for number, row in zip(numbers, rows, strict=True):
            if row and len(row) != self._width:
                raise ListingError(
                    self._file.path,
                    f"has {len(row)} fields, but there are {self._width} columns; is a comma unquoted, or the file truncated?",
                    number,
                )
        full = [(number, row) for number, row in zip(numbers, rows, strict=True) if row]
        if not full and len(rows) == _BATCH:
            raise ListingError(
                self._file.path, f"has {_BATCH:,} blank lines in a row, so it is not a listing", numbers[0]
            )
        return [number for number, _ in full], [row for _, row in full]

    def _lines(self, stream: _Stream) -> "Iterator[list[str]]":
        return csv.reader(chain.from_iterable(self._blocks(stream)), strict=True)

    def _blocks(self, stream: _Stream) -> Iterator[io.StringIO]:
        """Yield the file in pieces that end where a line does."""
        rest = b""
        begins = True
        while True:
            with _read_errors(self._file):
                piece = stream.read(_BLOCK)
            if begins:
                piece = piece.removeprefix(_BOM)
                begins = False
            if not piece:
                break
            end = piece.rfind(b"\n") + 1
            if end:
                yield _text(rest + piece[:end])
                rest = piece[end:]
            else:
                rest += piece
            if len(rest) > _LONGEST_LINE:
                raise ListingError(
                    self._file.path, f"has a line of more than {_LONGEST_LINE:,} bytes, so it is not CSV"
                )
        yield _text(rest)


class ParquetTable:
    """A Parquet file, possibly inside gzip (then it is unpacked to a temporary file at each opening)."""

    def __init__(self, file: ListingFile) -> None:
        self._file = file
        self.has_header = True
        with self._opened() as parquet:
            self._rows = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
            self.names, _ = meanings(file, parquet.schema_arrow.names)
        self.parts = len(self._rows)

    def batches(self, part: int, only: Collection[str]) -> Iterator[Batch]:
        """See :class:`Table`."""
        number = 1 + sum(self._rows[:part])
        names = {name: meaning for meaning, name in self.names.items() if meaning in only}
        with self._opened(part, names) as parquet:
            read = parquet.iter_batches(batch_size=_BATCH, row_groups=[part], columns=list(names))
            while (batch := next(read, None)) is not None:
                columns = {
                    names[name]: _values(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }
                yield Batch(range(number, number + batch.num_rows), columns)
                number += batch.num_rows

    @contextmanager
    def _opened(self, part: int = 0, only: Collection[str] = ()) -> Iterator[Any]:
        """Open the file in pyarrow, which has no types, to read these columns of a part. Their pages are checked before
        they are unpacked."""
        parquet, arrow = _pyarrow(self._file)
        with _seekable(self._file) as stream:
            try:
                with parquet.ParquetFile(stream, buffer_size=_BLOCK) as opened:
                    self._check_pages(stream, opened, part, only)
                    yield opened
            except (arrow.ArrowException, ValueError, OverflowError) as error:
                raise self._damaged(error) from None
            except OSError as error:
                if error.errno is None:  # Arrow's way to report invalid bytes
                    raise self._damaged(error) from None
                raise unavailable(error, f"reading {str(self._file.path)!r}") from None

    def _check_pages(self, stream: IO[bytes], opened: Any, part: int, only: Collection[str]) -> None:
        """Raise :class:`ListingError` for a page that claims too much, and for a value so long that rows of it would not fit into
        memory: a dictionary stores it only once."""
        for number in range(opened.metadata.num_columns if only else 0):
            column = opened.metadata.row_group(part).column(number)
            name: str = column.path_in_schema
            if name.partition(".")[0] not in only:
                continue
            self._check_length(name, opened.schema.column(number).length)
            # No page lies at 0: a column without rows has a dictionary alone, or nothing.
            begins = [offset for offset in (column.dictionary_page_offset, column.data_page_offset) if offset]
            if not begins:
                continue
            start = min(begins)
            for page in pages(stream, start, start + column.total_compressed_size):
                if page.unpacked > _LARGEST_PAGE:
                    raise ListingError(
                        self._file.path,
                        f"has a page of {page.unpacked:,} bytes in column {name!r}, but at most {_LARGEST_PAGE:,} are allowed; "
                        "write it with smaller pages",
                    )
                if page.is_dictionary and page.unpacked > _SMALL_DICTIONARY and column.physical_type == "BYTE_ARRAY":
                    stream.seek(page.begin)
                    stored = stream.read(page.stored)
                    self._check_length(name, longest_text(_unpacked(stored, column.compression, page.unpacked)))
        stream.seek(0)

    def _check_length(self, column: str, length: int) -> None:
        if length > _LONGEST_VALUE:
            raise ListingError(
                self._file.path,
                f"has a value of {length:,} bytes in column {column!r}, but at most {_LONGEST_VALUE:,} are allowed",
            )

    def _damaged(self, error: Exception) -> ListingError:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return ListingError(self._file.path, f"is not a valid Parquet file: {reason}")


def _pyarrow(file: ListingFile) -> tuple[Any, Any]:
    try:
        return import_module("pyarrow.parquet"), import_module("pyarrow")
    except ImportError:
        raise PreconditionError(
            not_installed(f"reading {str(file.path)!r}, which is Parquet,", "pyarrow", "listing")
        ) from None


def _values(column: Any) -> list[Any]:
    """Return a pyarrow column as Python values."""
    arrow = import_module("pyarrow")
    kind = column.type
    if arrow.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
        column = column.cast(arrow.large_binary())
    elif arrow.types.is_timestamp(kind):
        unit = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.unit]
        return [None if value is None else value // unit for value in column.cast(arrow.int64()).to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _unpacked(page: bytes, compression: str, size: int) -> bytes:
    """Return a page as it was before its column's compression. ``ValueError`` if it is not compressed like that."""
    arrow: Any = import_module("pyarrow")
    if compression == "UNCOMPRESSED":
        return page
    codec = arrow.Codec("lz4_raw" if compression == "LZ4" else compression.lower())
    try:
        unpacked: bytes = codec.decompress(page, decompressed_size=size, asbytes=True)
    except (OSError, ValueError):
        if compression != "LZ4":
            raise
        unpacked = codec.decompress(page[_HADOOP:], decompressed_size=size, asbytes=True)
    return unpacked


def meanings(file: ListingFile, header: Sequence[str]) -> tuple[dict[str, str], dict[str, int]]:
    """Return the columns known here, by meaning: their names and their positions. :class:`ListingError` for two of one
    meaning."""
    names: dict[str, str] = {}
    columns: dict[str, int] = {}
    for column, name in enumerate(header):
        meaning = _COLUMNS.get(name.strip().lower().translate({ord("_"): None, ord("-"): None, ord(" "): None}))
        if meaning is None:
            continue
        if meaning in names:
            raise ListingError(
                file.path, f"has two columns for the same thing, {names[meaning]!r} and {name!r}; rename one of them"
            )
        names[meaning], columns[meaning] = name, column
    return names, columns


def _head(file: ListingFile) -> bytes:
    """Return the first bytes of a file's contents, inside gzip."""
    with _opened(file) as stream, _read_errors(file):
        head = stream.read(8)
    if not head:
        raise ListingError(file.path, "is empty; a listing has a row for each object")
    for magic, reason in _REFUSED.items():
        if head.startswith(magic):
            raise ListingError(file.path, reason)
    return head


@contextmanager
def _opened(file: ListingFile) -> Iterator[IO[bytes] | ListingGzip]:
    """Open a file's contents, unpacked."""
    try:
        raw = file.path.open("rb")
    except OSError as error:
        raise unavailable(error, f"reading {str(file.path)!r}") from None
    with raw:
        with _read_errors(file):
            packed = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
        if not packed:
            yield raw
            return
        with ListingGzip(raw) as stream:
            yield stream


@contextmanager
def _seekable(file: ListingFile) -> Iterator[IO[bytes]]:
    """Open a file's contents, unpacked, for a reader that seeks."""
    with _opened(file) as stream:
        if not isinstance(stream, ListingGzip):
            yield stream
            return
        with temporary_files(f"unpacking {str(file.path)!r}"):
            unpacked = TemporaryFile()  # noqa: SIM115 - closed below
        try:
            while piece := _piece_of(stream, file):
                with temporary_files(f"unpacking {str(file.path)!r}"):
                    unpacked.write(piece)
            with temporary_files(f"unpacking {str(file.path)!r}"):
                unpacked.seek(0)
            yield unpacked
        finally:
            with suppress(OSError):  # flushes its buffer, which is not needed any more
                unpacked.close()


def _piece_of(stream: ListingGzip, file: ListingFile) -> bytes:
    with _read_errors(file):
        return stream.read(_BLOCK)


@contextmanager
def _read_errors(file: ListingFile) -> Iterator[None]:
    try:
        yield
    except EOFError:
        raise ListingError(file.path, "is a truncated gzip file; download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ListingError(file.path, f"is a damaged gzip file ({error}); download it again") from None
    except UnpacksTooFarError as error:
        raise ListingError(file.path, str(error)) from None
    except OSError as error:
        raise unavailable(error, f"reading {str(file.path)!r}") from None


def _text(data: bytes) -> io.StringIO:
    return io.StringIO(data.decode("utf-8", "surrogateescape"), newline="\n")
