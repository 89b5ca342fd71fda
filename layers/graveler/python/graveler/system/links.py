"""Entries of a walked folder: symbolic links to follow, and entries that are neither a file nor a folder."""

import os
import stat
from collections.abc import Collection, Sequence
from typing import Final

_SHOWN: Final = 10


def folder_behind(link: str, root: str, above: Collection[str]) -> str | None:
    """Return the real path of the folder that a link leads to; None if a walk of ``root`` must not follow it: it leads out of
    ``root``, to no folder, or to one of the folders ``above``, through which the walk came. ``root`` and ``above`` are real
    paths."""
    real = os.path.realpath(link)
    inside = real.startswith(root.rstrip("/") + "/")
    return real if inside and real not in above and os.path.isdir(real) else None  # noqa: PTH112 - a hot path


def is_special(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry of a folder, or what a link leads to, is a pipe, a socket or a device."""
    try:
        mode = entry.stat().st_mode
    except OSError:  # a link that leads nowhere; or the file is gone meanwhile
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def special_files(paths: Sequence[str]) -> str:
    """Return the number of pipes, sockets and devices, and the names of the first ones."""
    kinds = "pipe, socket or device" if len(paths) == 1 else "pipes, sockets or devices"
    return f"{len(paths):,} {kinds} ({shown(paths)})"


def shown(paths: Sequence[str]) -> str:
    """Return the first paths, as a message names them."""
    return ", ".join(map(repr, paths[:_SHOWN])) + (", …" if len(paths) > _SHOWN else "")


def kind_of_file(mode: int) -> str:
    """Return what a file is, with an article, by its ``st_mode``: of what is neither a file nor a folder."""
    for is_kind, name in (
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ):
        if is_kind(mode):
            return name
    return "no file"
