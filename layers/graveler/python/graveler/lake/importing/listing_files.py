"""The files of an object listing: one, several, a folder of them, or those that an S3 Inventory manifest names."""

import os
from collections.abc import Iterator, Sequence
from hashlib import md5
from pathlib import Path
from typing import Final

import msgspec

from graveler.errors import UNREADABLE, InvalidError, NotFoundError
from graveler.storage.durable_files import unavailable

MANIFEST: Final = "manifest.json"
_PIECE: Final = 1 << 20


class ListingError(InvalidError):
    """A listing contains something that cannot be imported.

    ``row`` counts from 1, the header of a CSV included; None for the whole file. ``column`` is named as in the file.
    """

    code = "listing_invalid"
    file: Path = Path()
    why: str
    row: int | None
    column: str
    value: object = None

    def __init__(self, file: Path, why: str, row: int | None = None, column: str = "", value: object = None) -> None:
        self.file, self.why, self.row, self.column, self.value = file, why, row, column, value
        where = "" if row is None else f", row {row:,}"
        where += f", column {column!r}" if column else ""
        where += "" if value is None else f": {_shortened(value)}"
        super().__init__(f"listing {str(file)!r}{where} {why}")


class ListingFile(msgspec.Struct, frozen=True):
    """One file of a listing. ``columns`` are the names that a manifest or the caller gives to a CSV without a header, in order.
    ``size`` (bytes) and ``digest`` (MD5, hex) are the manifest's values for the file; None and empty without one."""

    path: Path
    columns: tuple[str, ...] = ()
    size: int | None = None
    digest: str = ""

    def check(self) -> None:
        """Raise :class:`ListingError` if the file does not match the manifest. Reads it once; not at all without a manifest."""
        if self.size is None:
            return
        digest, size = md5(usedforsecurity=False), 0
        try:
            with self.path.open("rb") as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
                    size += len(piece)
        except OSError as error:
            raise unavailable(error, f"reading {str(self.path)!r}") from None
        if size != self.size or self.digest.lower() not in ("", digest.hexdigest()):
            raise ListingError(
                self.path,
                f"is not the file in the manifest: it has {size:,} bytes with MD5 {digest.hexdigest()} instead of "
                f"{self.size:,} with {self.digest or 'any'}; download it again",
            )


class _ManifestFile(msgspec.Struct, frozen=True):
    key: str
    size: int | None = None
    digest: str = msgspec.field(default="", name="MD5checksum")


class _Manifest(msgspec.Struct, frozen=True, rename="camel"):
    file_format: str
    file_schema: str
    files: list[_ManifestFile]


def find_files(listing: Path | Sequence[Path], columns: Sequence[str] = ()) -> list[ListingFile]:
    """Return the files of a listing, in order; none if an inventory's manifest names none, like that of an empty bucket.

    A path is a CSV or Parquet file, a ``manifest.json`` of S3 Inventory, or a folder: that of a manifest, or of files (also in
    folders below; names that begin with ``.`` or ``_`` are omitted, as Spark and Hive do). ``columns`` are for those that no
    manifest names. :class:`NotFoundError`, :class:`ListingError`.
    """
    paths = [listing] if isinstance(listing, Path) else list(listing)
    if not paths:
        raise InvalidError("no listing to import; name at least one file")
    return [file for path in paths for file in _files_of(path, tuple(columns))]


def _files_of(path: Path, columns: tuple[str, ...]) -> list[ListingFile]:
    if path.is_dir():
        if (path / MANIFEST).is_file():
            return _files_of_manifest(path / MANIFEST)
        files = [ListingFile(file, columns) for file in _below(path)]
        if not files:
            raise ListingError(path, "is a folder without files; name the one with the listing")
        return files
    if not path.exists():
        raise NotFoundError(f"listing {str(path)!r} does not exist")
    if path.suffix == ".json":
        return _files_of_manifest(path)
    return [ListingFile(path, columns)]


def _below(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise unavailable(error, f"reading folder {str(error.filename)!r}") from None

    for folder_path, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(names):
            if name[0] not in "._":
                yield Path(folder_path, name)


def _files_of_manifest(path: Path) -> list[ListingFile]:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except OSError as error:
        raise unavailable(error, f"reading {str(path)!r}") from None
    except UNREADABLE as error:
        raise ListingError(path, f"is not a manifest of S3 Inventory: {error}") from None
    if manifest.file_format not in ("CSV", "Parquet"):
        raise ListingError(
            path, f"says that the inventory's format is {manifest.file_format!r}; configure CSV or Parquet for it"
        )
    columns = [name.strip() for name in manifest.file_schema.split(",")] if manifest.file_format == "CSV" else []
    files: list[ListingFile] = []
    for file in manifest.files:
        place = find_near(path, file.key)
        files.append(
            ListingFile(place, tuple(columns), place.stat().st_size if file.size is None else file.size, file.digest)
        )
    return files


def find_near(manifest: Path, key: str) -> Path:
    """Return the file for this key in the bucket of a manifest. The manifest is a copy, possibly not from the bucket's root on:
    the longest suffix of the key that leads to a file from a folder above the manifest."""
    parts = key.split("/")
    if {"", ".", ".."}.isdisjoint(parts):
        folders = manifest.absolute().parents
        for start in range(len(parts)):
            for folder in folders:
                candidate = folder.joinpath(*parts[start:])
                if os.path.isfile(candidate):  # noqa: PTH113 - Path's raises for names that are too long
                    return candidate
    raise ListingError(
        manifest, "is named in the manifest but not found near it; copy the inventory's data folder, too", value=key
    )


def _shortened(value: object) -> str:
    text = repr(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value)
    return text if len(text) <= 100 else text[:99] + "…"
