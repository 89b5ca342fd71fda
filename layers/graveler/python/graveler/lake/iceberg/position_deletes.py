"""Positions in files of position deletes of format version 2: Parquet by pyarrow, if it is installed, Avro by the reader of
manifests. The files are strangers' bytes: the pages of Parquet are looked at before they are unpacked."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any, Final

from graveler.errors import CorruptError
from graveler.lake.importing.parquet_pages import pages
from graveler.system.extras import not_installed
from graveler.table_format.avro_files import read_avro_file
from graveler.table_format.merge_results import ReadPositions
from graveler.table_format.plain_documents import Document, ReadFile

MAX_POSITIONS: Final = 8_000_000
"""Positions of a file that are read into memory: about 100 bytes each."""
_LARGEST_PAGE: Final = 64 << 20
_PATH, _POSITION = "file_path", "pos"
_BATCH: Final = 65_536


def missing_reader() -> str:
    """Return the sentence about what reading positions in Parquet files lacks; empty if nothing. No request."""
    return "" if find_spec("pyarrow") else not_installed("reading positions in Parquet files", "pyarrow", "arrow")


def position_reader(read_file: ReadFile) -> ReadPositions:
    """Return a reader of positions by data file. It returns None for a file that it cannot read: ORC, Parquet without pyarrow,
    or one with more than :data:`MAX_POSITIONS`. One read of the file, 0.5 µs for each position. :class:`CorruptError`."""

    def read(data_file: Document) -> Mapping[str, frozenset[int]] | None:
        read_pairs = {"PARQUET": _parquet_pairs, "AVRO": _avro_pairs}.get(data_file["format"].upper())
        is_missing = read_pairs is _parquet_pairs and bool(missing_reader())
        if read_pairs is None or is_missing or data_file["record_count"] > MAX_POSITIONS:
            return None
        location = data_file["path"]
        positions: dict[str, set[int]] = {}
        for path, position in read_pairs(read_file(location), location):
            if not isinstance(path, str) or not isinstance(position, int) or position < 0:
                raise _damaged(location, "a position has no data file, or no number")
            positions.setdefault(path, set()).add(position)
        return {path: frozenset(numbers) for path, numbers in positions.items()}

    return read


def _damaged(location: str, reason: object) -> CorruptError:
    return CorruptError(
        f"{location}: {reason}; restore the file from a copy, or go back to a commit that does not have it"
    )


def _avro_pairs(contents: bytes, location: str) -> Iterator[tuple[Any, Any]]:
    for record in read_avro_file(contents, location).records():
        yield record.get(_PATH), record.get(_POSITION)


def _parquet_pairs(contents: bytes, location: str) -> Iterable[tuple[Any, Any]]:
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    try:
        with parquet.ParquetFile(BytesIO(contents)) as opened:
            _check_pages(contents, opened, location)
            pairs: list[tuple[Any, Any]] = []
            for batch in opened.iter_batches(batch_size=_BATCH, columns=[_PATH, _POSITION]):
                pairs += zip(batch.column(_PATH).to_pylist(), batch.column(_POSITION).to_pylist(), strict=True)
                if len(pairs) > MAX_POSITIONS:
                    raise _damaged(location, "it has more positions than its manifest states")
            return pairs
    except (arrow.ArrowException, ValueError, OverflowError, KeyError, OSError) as error:
        raise _damaged(location, f"is not a valid Parquet file of positions: {error}") from None


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
                    raise _damaged(
                        location, f"it has a page of {page.unpacked:,} bytes, and {_LARGEST_PAGE:,} are allowed"
                    )
