"""All modules that the verbs of this package need, loaded at once: for a long-lived process that must answer quickly even the
first time. Elsewhere a verb loads its own modules when it is first called, so that a process that only reads starts sooner."""

from importlib import import_module
from typing import Final

from graveler.lake.repository import FUNCTIONS

_BESIDES: Final = (
    "lake.in_parts.opening",
    "lake.in_parts.parted",
    "lake.objects.collected",
    "lake.objects.joint",
    "lake.objects.withdraw",
    "lake.opening.nesting",
    "lake.reading.blame",
    "lake.reading.states",
    "lake.reading.summary",
    "lake.repeating",
    "runtime.writes",
    "tree.reads",
)
"""Modules that no request loads by itself."""


def load_verbs() -> None:
    """Load what verbs load when they are first called, but for RocksDB (13 ms), which the first commit of many records loads."""
    for function in FUNCTIONS.values():
        import_module(f"graveler.lake.{function.partition(':')[0]}")
    for name in _BESIDES:
        import_module(f"graveler.{name}")
