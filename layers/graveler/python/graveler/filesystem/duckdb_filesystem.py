"""The filesystem with the rules of DuckDB for folders and empty files."""

from glob import has_magic
from typing import TYPE_CHECKING, Any, Final

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.values.data_files import is_marker

if TYPE_CHECKING:
    from graveler.filesystem.metadata import Info


_NO_TABLE: Final = (".parquet", ".csv", ".tsv", ".gz", ".zst")
"""Endings of names, in any case, for which DuckDB fails on a file without bytes: on any, or on the first one of several."""


class FileSystemForDuckDB(GravelerFileSystem):
    """DuckDB makes a folder, and lists it, before it writes several files into it: here a folder that has no objects is empty."""

    def glob(self, path: str, maxdepth: int | None = None, **options: Any) -> "list[str] | dict[str, Info]":
        """Return the objects that a pattern matches, as :meth:`GravelerFileSystem.glob`, without folders, which DuckDB's patterns
        match on no disk, and without markers of folders. Parquet, CSV and compressed files of no bytes are left out beside other
        files; if there are no others, DuckDB says what they are to it. A path that is no pattern matches the object there,
        whatever it is."""
        detail = options.pop("detail", False)
        infos: dict[str, Info] = super().glob(path, maxdepth, detail=True, **options)
        files = {name: info for name, info in infos.items() if info["type"] == "file"}
        if has_magic(path):
            files = {name: info for name, info in files.items() if not is_marker(name)}
            tables = {
                name: info for name, info in files.items() if info["size"] or not name.lower().endswith(_NO_TABLE)
            }
            files = tables or files
        return files if detail else list(files)

    def ls(self, path: str, detail: bool = True, **options: Any) -> "list[Info] | list[str]":
        """List a folder as :meth:`GravelerFileSystem.ls`; nothing, where there is none on a ref that exists."""
        try:
            return super().ls(path, detail, **options)
        except FileNotFoundError as error:
            if isinstance(error.__cause__, ObjectNotFoundError):
                return []
            raise
