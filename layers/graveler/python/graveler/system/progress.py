"""Progress reports of long work."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a phase, the amount that is done, and the amount that is known; the last may grow during the work."""


def no_progress(phase: str, done: int, total: int) -> None:
    """Ignore the report."""


ObjectProgress: TypeAlias = Callable[[int, int], None]
"""Called with the number of objects and of bytes that were done since the last call, from any thread."""


def no_object_progress(objects: int, size: int) -> None:
    """Ignore the report."""
