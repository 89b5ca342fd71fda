"""The report of a run as a Parquet table: one row per unneeded file."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from graveler.errors import PreconditionError
from graveler.retention.runs import Candidate, Outcome
from graveler.storage.durable_files import temporary_files
from graveler.storage.objects.port import Objects
from graveler.system.extras import not_installed
from graveler.system.temporary_files import own_folder

_ROWS: Final = 50_000


def is_possible() -> bool:
    """Return whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


def check_possible() -> None:
    """Raise :class:`PreconditionError` if pyarrow is not installed."""
    if not is_possible():
        raise PreconditionError(
            not_installed("the report of garbage collection, which is Parquet,", "pyarrow", "listing")
        )


def write_report(objects: Objects, key: str, rows: Iterable[tuple[Candidate, Outcome]]) -> None:
    """Write the report. Columns: ``kind``, ``key`` (below the namespace), ``size`` (bytes), ``modified`` (time, UTC), ``etag``,
    ``why``, ``outcome``. One object write; memory for 50,000 rows."""
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    schema = arrow.schema(
        [
            ("kind", arrow.string()),
            ("key", arrow.string()),
            ("size", arrow.int64()),
            ("modified", arrow.timestamp("ms", tz="UTC")),
            ("etag", arrow.string()),
            ("why", arrow.string()),
            ("outcome", arrow.string()),
        ]
    )
    source = iter(rows)
    with temporary_files("writing the report"), TemporaryDirectory(dir=own_folder(), prefix="gc-") as folder:
        path = Path(folder) / "report.parquet"
        with parquet.ParquetWriter(str(path), schema, compression="zstd") as writer:
            while some := list(islice(source, _ROWS)):
                columns = [
                    [c.kind.value for c, _ in some],
                    [c.key for c, _ in some],
                    [c.size for c, _ in some],
                    [int(c.modified * 1000) for c, _ in some],
                    [c.etag for c, _ in some],
                    [c.why for c, _ in some],
                    [outcome.value for _, outcome in some],
                ]
                arrays = [arrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
                writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
        objects.put(key, path)
