"""All modules that the verbs of this package need, loaded at once: for a long-lived process that must answer quickly even the
first time. Elsewhere a verb loads its own modules when it is first called, so that a process that only reads starts sooner."""

from importlib import import_module
from typing import Final

from graveler import requests
from graveler.lake.repository import function_of
from graveler.requests.base import Request

_BESIDES: Final = (
    "lake.committing.records",
    "lake.committing.request_results",
    "lake.gates.gate_reader",
    "lake.gates.lake_rules",
    "lake.objects.collector_state",
    "lake.objects.late_puts",
    "lake.objects.staged_with_writes",
    "lake.objects.withdrawal",
    "lake.opening.nesting",
    "lake.reading.blame",
    "lake.reading.states",
    "lake.reading.summary",
    "lake.repetition",
    "runtime.writes",
    "tree.read_ahead",
)
"""Modules that no request loads by itself."""


def load_verbs() -> None:
    """Load what verbs load when they are first called, but for RocksDB (13 ms), which the first commit of many records loads."""
    for module in requests.__all__:
        for kind in vars(import_module(f"{requests.__name__}.{module}")).values():
            if isinstance(kind, type) and issubclass(kind, Request) and hasattr(kind, "implementation"):
                function_of(kind)
    for name in _BESIDES:
        import_module(f"graveler.{name}")
