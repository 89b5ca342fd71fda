"""The filesystem as DuckDB needs it."""

from typing import TYPE_CHECKING, Any

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.filesystem import GravelerFileSystem

if TYPE_CHECKING:
    from graveler.filesystem.describing import Info


class FileSystemForDuckDB(GravelerFileSystem):
    """DuckDB makes a folder, and lists it, before it writes several files into it: here a folder that has no objects is empty."""

    def ls(self, path: str, detail: bool = True, **options: Any) -> "list[Info] | list[str]":
        """List a folder as :meth:`GravelerFileSystem.ls`; nothing, where there is none on a ref that exists."""
        try:
            return super().ls(path, detail, **options)
        except FileNotFoundError as error:
            if isinstance(error.__cause__, ObjectNotFoundError):
                return []
            raise
