"""Positions in files of position deletes of format version 2: Parquet and ORC by pyarrow, if it is installed, Avro by the reader
of manifests. The files are untrusted input: the sizes of Parquet's pages are checked before they are decompressed."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any, Final

from graveler.errors import InvalidError
from graveler.lake.importing.parquet_pages import pages
from graveler.system.extras import not_installed
from graveler.table_format.avro_files import read_avro_file
from graveler.table_format.damaged_files import damaged_file
from graveler.table_format.merge_results import ReadPositions
from graveler.table_format.plain_documents import Document, ReadFile
from graveler.table_format.relocation import MoveLocation, rewrite_avro_positions

MAX_POSITIONS: Final = 8_000_000
"""Positions of a file that are read into memory: about 100 bytes each."""
_LARGEST_PAGE: Final = 64 << 20
_PATH, _POSITION = "file_path", "pos"
_BATCH: Final = 65_536


def missing_reader() -> str:
    """Return the sentence that says which package reading positions in Parquet and ORC files needs; empty if it is installed."""
    return (
        "" if find_spec("pyarrow") else not_installed("reading positions in Parquet and ORC files", "pyarrow", "arrow")
    )


def position_reader(read_file: ReadFile) -> ReadPositions:
    """Return a reader of positions by data file. It returns None for a file that it cannot read: Parquet or ORC without
    pyarrow, or one with more than :data:`MAX_POSITIONS`. One read of the file, 0.5 µs for each position.
    :class:`CorruptError`."""

    def read(data_file: Document) -> Mapping[str, frozenset[int]] | None:
        read_pairs = {"PARQUET": _parquet_pairs, "ORC": _orc_pairs, "AVRO": _avro_pairs}.get(
            data_file["format"].upper()
        )
        is_missing = read_pairs is not _avro_pairs and bool(missing_reader())
        if read_pairs is None or is_missing or data_file["record_count"] > MAX_POSITIONS:
            return None
        location = data_file["path"]
        positions: dict[str, set[int]] = {}
        for path, position in read_pairs(read_file(location), location):
            if not isinstance(path, str) or not isinstance(position, int) or position < 0:
                raise damaged_file(location, "a position has no data file, or no number")
            positions.setdefault(path, set()).add(position)
        return {path: frozenset(numbers) for path, numbers in positions.items()}

    return read


def rewrite_positions(contents: bytes, file_format: str, location: str, move: MoveLocation) -> bytes:
    """Return a file of position deletes with the new locations of its data files, in the order that the table specification
    demands. All of its positions are in memory.

    :class:`InvalidError` for ORC, and for Parquet without pyarrow; :class:`CorruptError`.
    """
    if file_format == "AVRO":
        return rewrite_avro_positions(contents, location, move)
    if file_format != "PARQUET":
        raise InvalidError(
            f"{location!r} has position deletes in {file_format}, which cannot be written anew; compact the table where it was "
            "before, so that it has none"
        )
    if not find_spec("pyarrow"):
        raise InvalidError(not_installed(f"writing the position deletes {location!r} anew", "pyarrow", "arrow"))
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    with _parquet_file(contents, location) as file:
        table = file.read()
        index = table.schema.get_field_index(_PATH)
        paths = arrow.array([move(path) for path in table.column(index).to_pylist()], table.schema.field(index).type)
        moved = table.set_column(index, table.schema.field(index), paths)
        moved = moved.sort_by([(_PATH, "ascending"), (_POSITION, "ascending")]).replace_schema_metadata(
            table.schema.metadata
        )
        stream = BytesIO()
        parquet.write_table(moved, stream, compression="zstd")
        return stream.getvalue()


def _avro_pairs(contents: bytes, location: str) -> Iterator[tuple[Any, Any]]:
    for record in read_avro_file(contents, location).records():
        yield record.get(_PATH), record.get(_POSITION)


def _parquet_pairs(contents: bytes, location: str) -> Iterable[tuple[Any, Any]]:
    pairs: list[tuple[Any, Any]] = []
    with _parquet_file(contents, location) as file:
        for batch in file.iter_batches(batch_size=_BATCH, columns=[_PATH, _POSITION]):
            pairs += zip(batch.column(_PATH).to_pylist(), batch.column(_POSITION).to_pylist(), strict=True)
            if len(pairs) > MAX_POSITIONS:
                raise damaged_file(location, "it has more positions than its manifest states")
    return pairs


@contextmanager
def _parquet_file(contents: bytes, location: str) -> Iterator[Any]:
    """Open a Parquet file of positions, whose pages have no more bytes than are allowed. :class:`CorruptError`, also for errors
    of the work on it."""
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    try:
        with parquet.ParquetFile(BytesIO(contents)) as file:
            _check_pages(contents, file, location)
            yield file
    except (arrow.ArrowException, ValueError, OverflowError, KeyError, TypeError, OSError) as error:
        raise damaged_file(location, f"it is not a valid Parquet file of positions: {error}") from None


def _orc_pairs(contents: bytes, location: str) -> Iterable[tuple[Any, Any]]:
    arrow: Any = import_module("pyarrow")
    orc: Any = import_module("pyarrow.orc")
    try:
        opened = orc.ORCFile(BytesIO(contents))
        if opened.nrows > MAX_POSITIONS:
            raise damaged_file(location, "it has more positions than its manifest states")
        pairs: list[tuple[Any, Any]] = []
        for stripe in range(opened.nstripes):
            batch = opened.read_stripe(stripe, columns=[_PATH, _POSITION])
            pairs += zip(batch.column(_PATH).to_pylist(), batch.column(_POSITION).to_pylist(), strict=True)
        return pairs
    except (arrow.ArrowException, ValueError, OverflowError, KeyError, OSError) as error:
        raise damaged_file(location, f"it is not a valid ORC file of positions: {error}") from None


def _check_pages(contents: bytes, opened: Any, location: str) -> None:
    """Raise :class:`CorruptError` for a page that claims too much."""
    for group in range(opened.num_row_groups):
        for number in range(opened.metadata.num_columns):
            column = opened.metadata.row_group(group).column(number)
            starts = [offset for offset in (column.dictionary_page_offset, column.data_page_offset) if offset]
            if column.path_in_schema not in (_PATH, _POSITION) or not starts:
                continue
            for page in pages(BytesIO(contents), min(starts), min(starts) + column.total_compressed_size):
                if page.unpacked > _LARGEST_PAGE:
                    raise damaged_file(
                        location, f"it has a page of {page.unpacked:,} bytes, and {_LARGEST_PAGE:,} are allowed"
                    )
