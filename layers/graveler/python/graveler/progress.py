"""How work in phases tells how far it is."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a phase, how much of it is done, and how much is known to be in it; the last may grow while it works."""


def no_progress(phase: str, done: int, total: int) -> None:
    """Tells nobody."""
