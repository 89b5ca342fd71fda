"""The requests of a repository's verbs: one frozen struct for each verb, with values only.

A request can be stored and sent. Its context (:mod:`graveler.lake.context`) holds what cannot: the requester, deadlines and
stop signals. The docstring of a request states the verb's meaning, cost and errors.

A module of this package is loaded when it is first named: a process that only reads needs none of them.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graveler.requests import (
        committing,
        exporting,
        iceberg,
        importing,
        merging,
        pulls,
        refs,
        setting_changes,
        staging,
        statuses,
    )

__all__ = [
    "committing",
    "exporting",
    "iceberg",
    "importing",
    "merging",
    "pulls",
    "refs",
    "setting_changes",
    "staging",
    "statuses",
]


def __getattr__(name: str) -> ModuleType:
    """Load a module of this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
