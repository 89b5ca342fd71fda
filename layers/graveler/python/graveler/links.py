"""What is met in a folder that is walked: which symbolic links to follow, and what is neither a file nor a folder."""

import os
import stat
from collections.abc import Collection


def folder_behind(link: str, root: str, above: Collection[str]) -> str | None:
    """Return the real path of the folder that a link leads to; None if a walk of ``root`` must not follow it: it leads out of
    ``root``, to no folder, or to one of the folders ``above``, through which the walk came. ``root`` and ``above`` are real
    paths."""
    real = os.path.realpath(link)
    inside = real.startswith(root.rstrip("/") + "/")
    return real if inside and real not in above and os.path.isdir(real) else None  # noqa: PTH112 - a hot path


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
