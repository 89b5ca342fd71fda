"""Who wants to know how far an import has come."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the number of objects and of bytes that were added since the last call."""


def no_progress(objects: int, size: int) -> None:
    """Tells nobody."""
