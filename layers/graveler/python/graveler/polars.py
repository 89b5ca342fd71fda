"""Polars over the files of a lake: ``graveler.polars.scan_parquet("graveler://repository/ref/path")``.

Needs ``pip install 'graveler[polars]'``. ::

    import graveler.polars

    orders = graveler.polars.scan_parquet("graveler://sales/main/orders/*.parquet", "~/lake")
    print(orders.select("amount").sum().collect())

Polars' own readers read the files where they lie, at their own speed. ``source`` is an object, a folder or a pattern, or a list
of these; ``ref`` in it is a branch with its uncommitted changes (``main@`` without them), a tag, a commit or ``main~1``. Which
objects these are is decided when the function is called, not when a lazy frame is collected: what others write meanwhile does
not show. Of a folder, objects are left out that have no bytes, and those whose names, or those of folders in it, begin with ``_``
or ``.``, unless ``hidden_file_prefix`` has other beginnings; of a pattern only those without bytes
(:mod:`graveler.values.data_files`).

``lake`` says where the lake is, and ``storage_options`` has the other options of
:class:`graveler.filesystem.GravelerFileSystem`, as for pandas; options of Polars' own object stores may be among them. All other
arguments are those of Polars' functions of the same names. ``include_file_paths`` gives ``graveler://`` names.

Errors are ``FileNotFoundError``, ``PermissionError`` and the like, with the lake's own error as ``__cause__``, and
:class:`graveler.UnavailableError` if a library is missing. Cost: a listing; behind a server also a request for each object, whose
URL is valid for a while.

There is no ``scan_delta``, since the library behind it finds a table's files by listing an object store of its own.

To write, open a file: ``with fs.open("sales/main/orders.parquet", "wb") as file: frame.write_parquet(file)``.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape, has_magic
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from graveler.errors import UnavailableError
from graveler.system.extras import not_installed
from graveler.values.data_files import is_data, is_empty

__all__ = ["read_csv", "read_ipc", "read_ndjson", "read_parquet", "scan_csv", "scan_ipc", "scan_ndjson", "scan_parquet"]

if TYPE_CHECKING:
    import polars

    from graveler.files.lake import LakeHandle as Lake
    from graveler.filesystem.filesystem import GravelerFileSystem

    Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    Where = str | os.PathLike[str] | Lake | None

_HIDDEN: Final = ("_", ".")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_PLACE: Final = "__graveler_place"
"""The column of places, if the caller wants no column of names."""
_WITH_GLOB: Final = ("scan_parquet", "scan_ipc", "scan_csv", "read_csv")
_WITH_PARTITIONS: Final = ("scan_parquet", "scan_ipc")


def scan_parquet(source: "Source", lake: "Where" = None, **options: Any) -> "polars.LazyFrame":
    """Return a lazy frame of Parquet files. The arguments are those of ``polars.scan_parquet``.

    ``key=value`` folders become columns, with ``hive_partitioning=True`` or, unless it is given, if ``source`` is one folder. A
    filter on these columns opens only the files of the folders that it leaves."""
    return _lazy("scan_parquet", source, lake, options)


def scan_ipc(source: "Source", lake: "Where" = None, **options: Any) -> "polars.LazyFrame":
    """Return a lazy frame of Arrow IPC files. The arguments are those of ``polars.scan_ipc``; folders as :func:`scan_parquet`."""
    return _lazy("scan_ipc", source, lake, options)


def scan_csv(source: "Source", lake: "Where" = None, **options: Any) -> "polars.LazyFrame":
    """Return a lazy frame of CSV files. The arguments are those of ``polars.scan_csv``."""
    return _lazy("scan_csv", source, lake, options)


def scan_ndjson(source: "Source", lake: "Where" = None, **options: Any) -> "polars.LazyFrame":
    """Return a lazy frame of files with a JSON value in each line. The arguments are those of ``polars.scan_ndjson``."""
    return _lazy("scan_ndjson", source, lake, options)


def read_parquet(
    source: "Source", lake: "Where" = None, *, columns: "Sequence[int] | Sequence[str] | None" = None, **options: Any
) -> "polars.DataFrame":
    """Return Parquet files as a frame with some ``columns``, or all. The other arguments are those of :func:`scan_parquet`."""
    return _collected(scan_parquet(source, lake, **options), columns)


def read_ipc(
    source: "Source", lake: "Where" = None, *, columns: "Sequence[int] | Sequence[str] | None" = None, **options: Any
) -> "polars.DataFrame":
    """Return Arrow IPC files as a frame with some ``columns``, or all. The other arguments are those of :func:`scan_ipc`."""
    return _collected(scan_ipc(source, lake, **options), columns)


def read_csv(source: "Source", lake: "Where" = None, **options: Any) -> "polars.DataFrame":
    """Return CSV files as a frame. The arguments are those of ``polars.read_csv``."""
    return _eager("read_csv", source, lake, options)


def read_ndjson(source: "Source", lake: "Where" = None, **options: Any) -> "polars.DataFrame":
    """Return files with a JSON value in each line as a frame. The arguments are those of ``polars.read_ndjson``."""
    return _eager("read_ndjson", source, lake, options)


def _collected(frame: "polars.LazyFrame", columns: "Sequence[int] | Sequence[str] | None") -> "polars.DataFrame":
    import polars

    if columns is not None:
        frame = frame.select(
            polars.nth(column) if isinstance(column, int) else polars.col(column) for column in columns
        )
    return frame.collect()


def _lazy(reader: str, source: "Source", lake: "Where", options: dict[str, Any]) -> "polars.LazyFrame":
    frame: polars.LazyFrame = _scan(reader, source, lake, options)
    return frame


def _eager(reader: str, source: "Source", lake: "Where", options: dict[str, Any]) -> "polars.DataFrame":
    frame: polars.DataFrame = _scan(reader, source, lake, options)
    return frame


def _scan(reader: str, source: "Source", lake: "Where", options: dict[str, Any]) -> Any:
    """Read with Polars' function ``reader`` what ``source`` names."""
    try:
        import polars

        from graveler.filesystem.filesystem import GravelerFileSystem
        from graveler.filesystem.lakes import take_lake_options
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("Polars over a lake", error.name, "polars")) from None
    store = dict(options.pop("storage_options", None) or {})
    where: dict[str, Any] = {**take_lake_options(store), "lake": store.pop("lake", None) if lake is None else lake}
    fs = GravelerFileSystem(**where, snapshot=store.pop("snapshot", False))
    glob, hidden = options.pop("glob", True), options.pop("hidden_file_prefix", None)
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    objects = [stored for path in sources for stored in _objects(fs, path, glob, hidden)]
    store = {**fs.opened.store_options(), **store}
    if store:
        options["storage_options"] = store
    read = getattr(polars, reader)
    if reader in _WITH_GLOB:
        options["glob"] = False  # a place stands for itself, whatever is in it
    else:
        read, objects = _escaped(read), _signed(fs, objects)
    if reader in _WITH_PARTITIONS:
        hive, types = options.pop("hive_partitioning", None), options.pop("hive_schema", None)
        dates = options.pop("try_parse_hive_dates", True)
        options["hive_partitioning"] = False
        if hive or (hive is None and len(sources) == 1 and objects[0].in_folder):
            keys = _keys(objects, types)
            if keys:
                return _partitioned(read, objects, keys, types, dates, options)
    column = options.get("include_file_paths")
    if column is None:
        return read([stored.place for stored in objects], **options)
    index, offset = options.pop("row_index_name", None), options.pop("row_index_offset", 0)
    frames = []
    for numbers in _runs(objects, range(len(objects))):
        run = [objects[number] for number in numbers]
        frame = read([stored.place for stored in run], **options)
        names = polars.Series(column, [stored.name for stored in run])
        frames.append(frame.with_columns(_translated(column, run, names)))
    whole: Any = polars.concat(frames)
    if options.get("n_rows") is not None:
        whole = whole.head(options["n_rows"])
    return whole if index is None else whole.with_row_index(index, offset)


@dataclass(frozen=True)
class _Object:
    """An object: its path in the filesystem, where its bytes are, and the folders that may name partitions. ``in_folder`` says
    whether the caller named a folder, instead of the object or a pattern."""

    name: str
    place: str
    folders: tuple[str, ...]
    in_folder: bool


def _objects(
    fs: "GravelerFileSystem", source: "str | os.PathLike[str]", glob: bool, hidden: "str | Sequence[str] | None"
) -> list[_Object]:
    """Return the objects that one source names: one object, whatever it is; the data files of a folder; or what a pattern matches
    that has bytes. Beginnings of names that the caller gives are those of the hidden names."""
    source_path = fs._strip_protocol(source)
    is_pattern = glob and has_magic(source_path)
    depth = source_path.count("/") + 1
    beginnings = (hidden,) if isinstance(hidden, str) else None if hidden is None else tuple(hidden)

    def takes(name: str, size: int) -> bool:
        if name == source_path:
            return True
        inner = name.split("/")[-1 if is_pattern else depth :]
        if beginnings is None and not is_pattern:
            return is_data("/".join(inner), size)
        return not is_empty(name, size) and not any(part.startswith(beginnings or ()) for part in inner)

    objects = []
    for name, place in fs.places(source_path, glob=glob, takes=takes):
        in_folder = not is_pattern and name != source_path
        folders = name.split("/")[depth if in_folder else 2 : -1]
        objects.append(_Object(fs.unstrip_protocol(name), place, tuple(folders), in_folder))
    if not objects:
        hidden_names = f", and names that begin with one of {list(beginnings or _HIDDEN)}," if not is_pattern else ""
        raise FileNotFoundError(errno.ENOENT, f"only files without bytes{hidden_names} are here", source_path)
    return objects


def _escaped(read: "Callable[..., Any]") -> "Callable[..., Any]":
    """Return a reader of places for one that takes paths of files as patterns."""

    def read_places(places: Sequence[str], **options: Any) -> Any:
        return read([place if "://" in place else escape(place) for place in places], **options)

    return read_places


def _signed(fs: "GravelerFileSystem", objects: list[_Object]) -> list[_Object]:
    """Return the objects with signed URLs, which are no patterns, if Polars would take an ``s3://`` URL as one: in such a URL it
    cannot escape everything."""
    if not any(stored.place.startswith("s3://") and has_magic(stored.place) for stored in objects):
        return objects
    return [replace(stored, place=fs.sign(stored.name)) for stored in objects]


def _runs(objects: Sequence[_Object], numbers: Iterable[int]) -> list[list[int]]:
    """Return the numbers of objects in their order, in runs without two at one place, as an object and its copy are."""
    runs: list[list[int]] = []
    places: set[str] = set()
    for number in numbers:
        if not runs or objects[number].place in places:
            runs.append([])
            places.clear()
        places.add(objects[number].place)
        runs[-1].append(number)
    return runs


def _translated(column: str, run: Sequence[_Object], values: "polars.Series") -> "polars.Expr":
    """Return the column with the name of ``values``: of each place in ``column``, the value of the object there."""
    import polars

    places = [stored.place for stored in run]
    return polars.col(column).replace_strict(places, values, return_dtype=values.dtype).alias(values.name)


def _keys(objects: Sequence[_Object], types: "Mapping[str, Any] | None") -> list[str]:
    """Return the keys that ``key=value`` folders have. ``ValueError`` if they differ, or are not those of ``types``."""
    expected, *_ = keys = [[part.partition("=")[0] for part in stored.folders if "=" in part] for stored in objects]
    for stored, of_object in zip(objects, keys, strict=True):
        if of_object != expected:
            raise ValueError(
                f"{objects[0].name!r} has the partitions {expected}, and {stored.name!r} has {of_object}; read them apart, or "
                "with hive_partitioning=False"
            )
    if types is not None and set(types) != set(expected):
        raise ValueError(f"hive_schema has the columns {list(types)}, and the folders name {expected}")
    return expected


def _values(objects: Sequence[_Object], types: "Mapping[str, Any]", dates: bool) -> "polars.DataFrame":
    """Return the values of the ``key=value`` folders, a row for each object, of the types that Polars gives them."""
    import polars

    rows = [dict(part.split("=", 1) for part in stored.folders if "=" in part) for stored in objects]
    texts = polars.DataFrame([{key: unquote(value) for key, value in row.items()} for row in rows])
    lines = texts.with_columns(polars.all().replace("", None), polars.lit(0).alias(_PLACE))  # no line is empty
    values = polars.read_csv(
        lines.write_csv().encode(),
        null_values=_NULL,
        infer_schema_length=None,
        try_parse_dates=dates,
        schema_overrides=dict(types),
    ).drop(_PLACE)
    empty = [key for key, dtype in values.schema.items() if dtype == polars.String and "" in texts[key]]
    return values.with_columns(
        polars.when(texts[key] != "").then(polars.col(key)).otherwise(texts[key]) for key in empty
    )


def _partitioned(
    read: "Callable[..., polars.LazyFrame]",
    objects: Sequence[_Object],
    keys: Sequence[str],
    types: "Mapping[str, Any] | None",
    dates: bool,
    options: dict[str, Any],
) -> "polars.LazyFrame":
    """Return a lazy frame with the columns that the folders name, which opens no file that a filter on these excludes."""
    import polars
    from polars.io.plugins import register_io_source

    rows, index, offset = (options.pop(name, None) for name in ("n_rows", "row_index_name", "row_index_offset"))
    named = options.pop("include_file_paths", None)
    column = named or _PLACE
    in_files = read([objects[0].place], **options).collect_schema()
    types = {key: in_files[key] for key in keys if key in in_files} if types is None else types
    values = _values(objects, types, dates)

    def scanned(numbers: Sequence[int]) -> "polars.LazyFrame":
        run = [objects[number] for number in numbers]
        frame = read([stored.place for stored in run], include_file_paths=column, **options)
        frame = frame.with_columns(_translated(column, run, series) for series in values[numbers])
        if named is None:
            return frame.drop(column)
        # The names come last, behind the partitions, as Polars has them.
        names = polars.Series(named, [stored.name for stored in run])
        return frame.select(polars.exclude(named), _translated(named, run, names))

    def batches(
        columns: "list[str] | None", predicate: "polars.Expr | None", limit: int | None, size: int | None
    ) -> "Iterator[polars.DataFrame]":
        conditions = _conditions(predicate)
        limits = [amount for amount in (rows, limit) if amount is not None]
        if not limits:
            of_folders: list[polars.Expr] = []
            of_rows: list[polars.Expr] = []
            for condition in conditions:
                (of_folders if set(condition.meta.root_names()) <= set(keys) else of_rows).append(condition)
            numbers = values.with_row_index(_PLACE).filter(polars.lit(True), *of_folders)[_PLACE].to_list()
        else:  # the first rows of all files, of which the conditions then choose
            of_rows, numbers = conditions, list(range(len(objects)))
        frames = [scanned(run) for run in _runs(objects, numbers)]
        frame = polars.concat(frames) if frames else scanned([0]).clear()
        if limits:
            frame = frame.head(min(limits))
        frame = frame.filter(polars.lit(True), *of_rows)
        if columns is not None:
            frame = frame.select(columns)
        yield from frame.collect_batches(chunk_size=size)

    lazy = register_io_source(batches, schema=scanned([0]).collect_schema(), is_pure=True)
    return lazy if index is None else lazy.with_row_index(index, offset or 0)


def _conditions(predicate: "polars.Expr | None") -> "list[polars.Expr]":
    """Return the conditions of which all must hold."""
    if predicate is None:
        return []
    parts = predicate.meta.pop()
    if len(parts) == 2:
        for condition, other in (parts, parts[::-1]):
            if (condition & other).meta.eq(predicate):
                return [*_conditions(condition), *_conditions(other)]
    return [predicate]
