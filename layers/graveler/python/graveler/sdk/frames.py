"""Listings as Arrow tables and data frames."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from graveler.errors import UnavailableError
from graveler.system.extras import not_installed
from graveler.system.tracebacks import short_traceback
from graveler.values.paging import Pages

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from graveler.sdk.display_tables import Row
    from graveler.sql.rowdiff.table_reader import TableReader
    from graveler.sql.session import Session


def stream(
    pages: "Pages[Row]", kind: "type[Row]", whole: "Callable[[], pyarrow.RecordBatchReader] | None" = None
) -> "pyarrow.RecordBatchReader":
    """Return the pages that are still to come as record batches; of one that was begun, its rest. ``kind`` is the type of the
    rows. ``whole`` returns everything, for pages of which none was begun: it takes them all."""
    try:
        from graveler.sql.arrow.columns import KINDS, batches

        if whole is not None and not pages.begun:
            reader = whole()
            pages.end()
            return reader
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("an Arrow table", error.name, "arrow")) from None

    def groups() -> Iterator[list["Row"]]:
        yield pages.rest()
        for page in pages:
            yield [*page]

    return batches(KINDS[kind], groups())


def pandas_frame(reader: "pyarrow.RecordBatchReader", *, exact: bool = False) -> "pandas.DataFrame":
    """Return all of a stream as a data frame of pandas; if ``exact``, integers beside nulls stay integers, as Python's objects.
    :class:`UnavailableError` without pandas."""
    try:
        import pandas  # noqa: F401 - pyarrow needs it
    except ModuleNotFoundError as error:
        raise UnavailableError(_to_install("pandas", error.name)) from None
    return reader.read_pandas(integer_object_nulls=exact)


def polars_frame(reader: "pyarrow.RecordBatchReader") -> "polars.DataFrame":
    """Return all of a stream as a data frame of Polars. :class:`UnavailableError` without Polars."""
    try:
        import polars
    except ModuleNotFoundError as error:
        raise UnavailableError(_to_install("polars", error.name)) from None
    frame = polars.from_arrow(reader.read_all())
    assert isinstance(frame, polars.DataFrame)
    return frame


class Frames(ABC):
    """Rows of DuckDB that become data frames. In those of pandas, integers beside nulls stay integers if ``_exact``."""

    _session: "Session | TableReader"
    _exact: ClassVar[bool] = False

    @abstractmethod
    def to_arrow(self) -> "pyarrow.RecordBatchReader":
        """Return the rows as Arrow record batches."""

    @short_traceback
    def to_pandas(self) -> "pandas.DataFrame":
        """Return :meth:`to_arrow` as a data frame of pandas: :class:`UnavailableError` without it."""
        with self._session.explained():
            return pandas_frame(self.to_arrow(), exact=self._exact)

    @short_traceback
    def to_polars(self) -> "polars.DataFrame":
        """Return :meth:`to_arrow` as a data frame of Polars: :class:`UnavailableError` without it."""
        with self._session.explained():
            return polars_frame(self.to_arrow())


def _to_install(package: str, missing: str | None) -> str:
    return f"a data frame needs the package {missing!r}, which is not installed; pip install {package}"
