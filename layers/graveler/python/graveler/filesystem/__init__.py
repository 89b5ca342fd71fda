"""The lake as a filesystem of fsspec, ``graveler://repository/ref/path``, for every Python library that opens files through it.

``filesystem`` has the class that fsspec finds by its entry point. Its methods are fsspec's, and components do the work:
``resolver`` finds the repository and the ref of a place, ``metadata`` looks at one path, ``folders`` lists what is below one,
``selection`` chooses the objects that a method takes and names their targets, ``object_bytes`` reads, ``downloads`` and
``uploads`` copy from and to local files, and ``copies`` copies, moves and deletes. ``async_methods`` adds fsspec's async methods.

``addresses`` splits paths, ``lakes`` opens the lake that the storage options name, and resolves refs, ``object_file`` is a file
for reading, ``compressed`` one for writing, ``local_targets`` checks the files of a download before they are written,
``transactions`` makes several writes one commit, ``paths`` has the paths of universal-pathlib, ``error_translation`` turns the
lake's errors into Python's own.

Needs ``pip install 'graveler[fsspec]'``. Nothing else imports this package.
"""

TYPE_CHECKING = False  # type checkers assume True by its name
if TYPE_CHECKING:
    from graveler.filesystem.filesystem import GravelerFileSystem

__all__ = ["GravelerFileSystem"]


def __getattr__(name: str) -> object:
    if name != "GravelerFileSystem":
        raise AttributeError(f"module 'graveler.filesystem' has no attribute {name!r}")
    try:
        from graveler.filesystem.filesystem import GravelerFileSystem
    except ModuleNotFoundError as error:
        from graveler.errors import UnavailableError
        from graveler.system.extras import not_installed

        raise UnavailableError(not_installed("graveler.filesystem", error.name, "fsspec")) from None
    return GravelerFileSystem
