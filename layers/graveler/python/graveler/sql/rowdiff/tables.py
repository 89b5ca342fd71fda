"""The files that make up a table at a commit."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from graveler.errors import InvalidError, NotFoundError
from graveler.model import CommitID, ObjectEntry
from graveler.values.data_files import is_marker, is_visible
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

_PAGE: Final = 1000
_SPECIAL: Final = re.compile(r"[*?[]")
_PARTITION: Final = re.compile(r"(?:^|(?<=/))([^/=]+)=[^/]*/")


class Format(Enum):
    """The formats of tables."""

    PARQUET = "Parquet"
    CSV = "CSV"
    JSON = "JSON"


_FORMATS: Final = {
    ".parquet": Format.PARQUET,
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
}
_COMPRESSED: Final = ".gz"


class AnySides(Protocol):
    """A table's files at two commits, by path; an empty mapping where there is no table. ``partitions`` are the columns that
    folders ``column=value/`` give all of them."""

    @property
    def format(self) -> Format:
        """The format of all files."""
        ...

    @property
    def base(self) -> Mapping[str, Any]:
        """The files of the first commit."""
        ...

    @property
    def changed(self) -> Mapping[str, Any]:
        """The files of the second commit."""
        ...

    @property
    def partitions(self) -> frozenset[str]:
        """Columns whose values are in the names of folders."""
        ...

    def differing(self) -> Self:
        """Return the files without those that have the same rows on both sides. For multisets of rows, with C what is equal:
        (C + L) - (C + R) = L - R."""
        ...


@dataclass(frozen=True)
class Sides:
    """A table of files at two commits: the entries of its files, by path."""

    format: Format
    base: dict[str, ObjectEntry]
    changed: dict[str, ObjectEntry]
    partitions: frozenset[str]

    def differing(self) -> "Sides":
        """Return the files without those that have the same bytes at the same path on both sides."""
        same = {path for path, entry in self.base.items() if _is_same(entry, self.changed.get(path))}
        base, changed = (
            {path: entry for path, entry in side.items() if path not in same} for side in (self.base, self.changed)
        )
        return Sides(self.format, base, changed, self.partitions)


def sides_of(repository: "AnyRepository", base: CommitID, changed: CommitID, path: str) -> Sides:
    """Return the files of the table at ``path``: a file, a folder, or a pattern. In a folder or a pattern, files of other kinds
    are left out, and so are those that are no data (:func:`~graveler.values.data_files.is_data`), by their paths below the
    folder or what the pattern spells out. A file of CSV or JSON without a byte is a table without rows, too, where the path
    names it.

    Cost: a listing at both commits. :class:`NotFoundError` if there is no file at either; :class:`InvalidError` for a file that
    is no table, and for two formats.
    """
    listings = [{entry.path: entry for entry in _files(repository, commit, path)} for commit in (base, changed)]
    visible = listings[0].keys() | listings[1].keys()
    if not visible:
        raise NotFoundError(
            f"there is no table at {path!r} on either side: no file whose name ends with {', '.join(_FORMATS)}"
        )
    with_rows = {entry.path for side in listings for entry in side.values() if entry.size}
    paths = sorted(with_rows or visible)
    by_format: dict[Format, str] = {}
    for data_path in paths:
        by_format.setdefault(_known_format_of(data_path), data_path)
    if len(by_format) > 1:
        examples = " and ".join(f"{kind.value} ({example!r})" for kind, example in by_format.items())
        raise InvalidError(f"{path!r} has files of {examples}; give a pattern for those of one format")
    format_ = next(iter(by_format))
    partitions = frozenset[str].intersection(*(frozenset(_PARTITION.findall(data_path)) for data_path in paths))
    # A Parquet file without bytes is none, which DuckDB says of one that the caller names.
    named = path if format_ is Format.PARQUET else None
    base_files, changed_files = (
        {name: entry for name, entry in side.items() if entry.size or name == named} for side in listings
    )
    return Sides(format_, base_files, changed_files, partitions)


def _files(repository: "AnyRepository", commit: CommitID, path: str) -> Iterator[ObjectEntry]:
    """Yield the file at a path, whatever it is; or the visible files of a folder, or those that a pattern matches."""
    exact = next(iter(_listed(repository, commit, path, amount=1)), None) if path and not is_marker(path) else None
    if exact is not None and exact.path == path:
        yield exact
        return
    special = _SPECIAL.search(path)
    if special is None:
        prefix = f"{path.rstrip('/')}/" if path else ""
        pattern = None
    else:
        from fsspec.utils import glob_translate

        prefix = path[: special.start()]
        pattern = re.compile(glob_translate(path))
    base = prefix.rpartition("/")[0]
    for entry in _listed(repository, commit, prefix, amount=_PAGE):
        matches = (pattern is None or pattern.match(entry.path)) and _format_of(entry.path)
        if matches and is_visible(entry.path[len(base) :].lstrip("/")):
            yield entry


def _listed(repository: "AnyRepository", commit: CommitID, prefix: str, *, amount: int) -> Iterator[ObjectEntry]:
    for entry in items(lambda after: repository.list_objects(commit, prefix=prefix, after=after, amount=amount)):
        assert isinstance(entry, ObjectEntry)
        yield entry


def _is_same(entry: ObjectEntry, other: ObjectEntry | None) -> bool:
    return other is not None and (entry.address, entry.size, entry.checksum) == (
        other.address,
        other.size,
        other.checksum,
    )


def _format_of(path: str) -> Format | None:
    name = path.rpartition("/")[2].lower()
    plain = name.removesuffix(_COMPRESSED)
    format_ = _FORMATS.get(f".{plain.rpartition('.')[2]}") if "." in plain else None
    return None if format_ is Format.PARQUET and plain != name else format_


def _known_format_of(path: str) -> Format:
    format_ = _format_of(path)
    if format_ is None:
        raise InvalidError(f"{path!r} is no table: its name does not end with {', '.join(_FORMATS)}, or .gz after one")
    return format_
