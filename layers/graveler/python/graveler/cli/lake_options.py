"""The lake that the options of the running command name."""

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graveler.location.environment import Named

_NAMED: "Final[ContextVar[Named | None]]" = ContextVar("_NAMED", default=None)


def set_lake_options(named: "Named | None") -> None:
    """Begin a command whose options name this lake, or none."""
    _NAMED.set(named)


def lake_options() -> "Named | None":
    """Return the lake according to the options of the command that runs; None if it has none."""
    return _NAMED.get()
