"""Where the lake is, and who is asking: the only code that looks at the environment and the working folder.

Faces that run in a user's own process ask here; a server does not.
"""

import getpass
import os
from pathlib import Path
from typing import Final

from graveler.errors import NotFoundError, UnavailableError

LAKE: Final = "GRAVELER_LAKE"
"""Names the lake's folder."""

USER: Final = "GRAVELER_USER"
"""Names whoever commits."""

HIDDEN: Final = ".graveler"
"""Folder that `graveler init` makes in a working folder."""

_MARKER: Final = "graveler.json"


def find_lake(named: Path | None) -> Path:
    """The lake's folder: ``named`` (from ``--lake``), else GRAVELER_LAKE, else the nearest one upward from the working folder.

    A folder is one if it holds ``graveler.json``, or ``.graveler`` that does. :class:`NotFoundError`, with what to do.
    """
    if named is None and os.environ.get(LAKE):
        named = Path(os.environ[LAKE])
    if named is not None:
        return lake_in(named) or named
    start = working_folder()
    for folder in (start, *start.parents):
        found = lake_in(folder)
        if found is not None:
            return found
    raise NotFoundError(
        f"there is no lake in {str(start)!r} or above it; make one with `graveler init`, "
        f"or name one with --lake FOLDER or {LAKE}"
    )


def lake_in(folder: Path) -> Path | None:
    """The lake that ``folder`` is, or holds as ``.graveler``."""
    for candidate in (folder, folder / HIDDEN):
        try:
            if (candidate / _MARKER).is_file():
                return candidate
        except OSError:  # no permission to look: then it is not ours to find
            continue
    return None


def working_folder() -> Path:
    """The working folder, absolute."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UnavailableError(f"the working folder cannot be read: {error.strerror}; change to another one") from None


def cache_folder() -> Path:
    """Where this user's copies of what lies elsewhere are kept: ``graveler`` in XDG_CACHE_HOME, else in ``~/.cache``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # XDG: a path that is not absolute does not count.
        home = Path(named) if named.startswith("/") else Path.home() / ".cache"
    except RuntimeError:  # a user without an entry, as in containers
        raise UnavailableError("this user has no home folder to keep a cache in; set XDG_CACHE_HOME") from None
    return home / "graveler"


def user_name() -> str:
    """Who commits: GRAVELER_USER, else the login name, else nobody."""
    named = os.environ.get(USER)
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in containers
        return ""
