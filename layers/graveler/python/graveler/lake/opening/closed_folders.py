"""Errors for folders that this user may not open, and that must not pass for folders without a lake."""

import os
from pathlib import Path

from graveler.errors import UnavailableError


def closed_to_user(folder: Path, *, is_lake: bool) -> UnavailableError:
    """Return the error for a folder that this user may not open, or whose marker they may not read: it must not pass for a folder
    without a lake. ``is_lake``: the folder's name, or its marker, says that it is one; otherwise nobody can tell."""
    from graveler.storage.objects.port import NotPermittedError

    closed = folder
    while (status := _status(closed)) is None and closed != closed.parent:
        closed = closed.parent
    whose = f" (it belongs to {_user_name(status.st_uid)}, with mode {status.st_mode & 0o7777:04o})" if status else ""
    if is_lake and closed == folder:
        said = f"the lake in {str(folder)!r} is there, but this user may not open it{whose}"
    else:
        said = f"cannot look for a lake in {str(folder)!r}: this user may not open {str(closed)!r}{whose}"
    return NotPermittedError(
        f"{said}; let its owner give this user access, use the lake through a server, or name another one"
    )


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _user_name(number: int) -> str:
    import pwd  # only for errors

    try:
        return repr(pwd.getpwuid(number).pw_name)
    except KeyError:
        return f"user {number}"
