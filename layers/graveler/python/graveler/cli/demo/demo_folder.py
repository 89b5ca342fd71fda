"""The folder of the demo's lake. Nothing else is ever deleted."""

import shutil
from pathlib import Path
from typing import Final

from graveler.errors import InvalidError, PreconditionError, UnavailableError
from graveler.lake.opening.folder_permissions import OWN

MARKER: Final = ".graveler-demo"
"""A file that marks the folder as made by `graveler demo`, which may replace it."""

_OURS: Final = OWN | {MARKER}
_TABLES: Final = "tables.sqlite"


def prepare(folder: Path, source: Path) -> None:
    """Make ``folder`` empty except for the marker. A demo's own lake is replaced; :class:`PreconditionError` for anything
    else."""
    inner, outer = folder.resolve(), source.resolve()
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        raise InvalidError(
            f"the demo's lake {str(folder)!r} and the files to import, {str(source)!r}, overlap; "
            "name another folder with --lake"
        )
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise _not_ours(folder, "is not a folder")
        names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
        if names and MARKER not in names:
            raise _not_ours(folder, "is not empty, and was not made by the demo")
        strangers = sorted(name for name in names if name not in _OURS and not name.startswith(_TABLES))
        if strangers:
            raise _not_ours(folder, f"contains {strangers[0]!r}, which the demo did not make")
        remove(folder)
        folder.mkdir(parents=True)
        (folder / MARKER).write_text("Made by `graveler demo`, which replaces this folder when it runs again.\n")
    except OSError as error:
        raise UnavailableError(f"cannot make the demo's lake in {str(folder)!r}: {error.strerror}") from None


def remove(folder: Path) -> None:
    """Delete a folder that :func:`prepare` has checked."""
    if folder.exists():
        shutil.rmtree(folder)


def _not_ours(folder: Path, reason: str) -> PreconditionError:
    return PreconditionError(f"{str(folder)!r} {reason}; it was left alone. Name another folder with --lake")
