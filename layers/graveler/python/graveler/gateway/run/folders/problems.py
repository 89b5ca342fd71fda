"""Problems of a folder in words."""

from collections.abc import Sequence
from typing import Final

from graveler.gateway.run.folders.folder_scan import Problem

_SHOWN: Final = 10


def listed(problems: Sequence[Problem]) -> str:
    """Return the first problems with their reasons, and how many there are besides."""
    shown = "; ".join(f"{path[:200]!r} {reason}" for path, reason in problems[:_SHOWN])
    return f"{shown}; and {len(problems) - _SHOWN:,} more" if len(problems) > _SHOWN else shown
