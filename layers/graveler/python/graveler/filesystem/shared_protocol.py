"""The filesystem that fsspec opens for ``lakefs://``, by its entry point: ours, unless the package ``lakefs-spec`` is installed.

That package has the same protocol, and fsspec knows it by name. A user who installed it works with a lakeFS server, so it keeps
the protocol; ``fsspec.register_implementation("lakefs", GravelerFileSystem, clobber=True)`` overrides this.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

__all__ = ["SharedFileSystem"]

if TYPE_CHECKING:
    from graveler.filesystem.filesystem import GravelerFileSystem as SharedFileSystem


def __getattr__(name: str) -> object:
    if name != "SharedFileSystem":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("lakefs_spec") is None:
        from graveler.filesystem.filesystem import GravelerFileSystem

        return GravelerFileSystem
    from lakefs_spec import LakeFSFileSystem  # type: ignore[import-not-found, unused-ignore]

    return LakeFSFileSystem
