"""The lake as a filesystem of fsspec, ``graveler://repository/ref/path``, for every Python library that opens files through it.

``filesystem`` has the class that fsspec finds by its entry point. It is made of parts, each a class of its own in the module of
its name: ``resolving`` has the lake, and finds what in it a path names, which all others stand on; ``describing`` looks at one
path, ``listing`` at all below one; ``selecting`` chooses the objects that a verb takes, and names their targets; ``reading`` has
the bytes; ``writing`` writes objects; ``moving`` copies, moves and deletes them; ``awaiting`` has all of that for callers in an
event loop.

``addresses`` splits paths, ``lakes`` opens the lake that the storage options name, and resolves refs, ``object_file`` is a file
for reading, ``compressed`` one for writing, ``local_targets`` judges the files of a download before they are written,
``transactions`` makes several writes one commit, ``paths`` has the paths of universal-pathlib, ``failures`` turns the lake's
errors into Python's own.

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
