"""All that the verbs need of this package, loaded at once: for a process that lives long and is to answer each verb quickly, the
first time too. Elsewhere a verb loads its own when it is first called, so that who only reads begins sooner."""

from importlib import import_module
from typing import Final

from graveler.lake.repository import FUNCTIONS, function_of

_BESIDES: Final = (
    "lake.in_parts.opening",
    "lake.in_parts.parted",
    "lake.objects.collected",
    "lake.objects.joint",
    "lake.objects.withdraw",
    "runtime.writes",
    "tree.reads",
)
"""What no request loads by itself."""


def load_verbs() -> None:
    """Load what verbs load when they are first called, but for RocksDB (13 ms), which the first commit of many records loads."""
    for kind in FUNCTIONS:
        function_of(kind)
    for name in _BESIDES:
        import_module(f"graveler.{name}")
