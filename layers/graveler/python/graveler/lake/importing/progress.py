"""Progress reports of an import."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the number of objects and of bytes that were added since the last call."""


def no_progress(objects: int, size: int) -> None:
    """Ignore the report."""
