"""Symbolic links in a folder that is walked: which of them to follow."""

import os
from collections.abc import Collection


def folder_behind(link: str, root: str, above: Collection[str]) -> str | None:
    """Return the real path of the folder that a link leads to; None if a walk of ``root`` must not follow it: it leads out of
    ``root``, to no folder, or to one of the folders ``above``, through which the walk came. ``root`` and ``above`` are real
    paths."""
    real = os.path.realpath(link)
    inside = real.startswith(root.rstrip("/") + "/")
    return real if inside and real not in above and os.path.isdir(real) else None  # noqa: PTH112 - a hot path
