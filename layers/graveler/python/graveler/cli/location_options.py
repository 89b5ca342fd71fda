"""The options that say where the lake is, behind a command as well as before it."""

from copy import copy
from typing import Any, Final

_NAMES: Final = (
    "objects",
    "tables",
    "endpoint",
    "region",
    "s3_endpoint_url",
    "dynamodb_endpoint_url",
    "login",
    "profile",
)
_SHOWN: Final = "objects"
"""The one in each command's help: a table that --lake names is nothing without it."""


def add_location_options(root: Any) -> None:
    """Give each command that has --lake the other options of ``root`` that say where the lake is, where it has no option of this
    name already."""
    options = {option.name: option for option in root.params if option.name in _NAMES}
    for command in _commands(root):
        at = next((number for number, param in enumerate(command.params) if param.name == "lake"), None)
        if at is None:
            continue
        taken = {text for param in command.params for text in param.opts}
        command.params[at + 1 : at + 1] = [
            _behind(options[name]) for name in _NAMES if taken.isdisjoint(options[name].opts)
        ]


def _commands(group: Any) -> list[Any]:
    inner = getattr(group, "commands", None)
    return [group] if inner is None else [command for each in inner.values() for command in _commands(each)]


def _behind(option: Any) -> Any:
    """Return a copy of an option of the root that sets the same value; first, since --lake reads all of them."""

    def keep(context: Any, _: Any, value: str | None) -> None:
        if value is not None:
            context.find_root().params[option.name] = value

    behind = copy(option)
    behind.name = f"{option.name}_behind"  # apart from the command's own parameters
    behind.expose_value, behind.is_eager, behind.hidden = False, True, option.name != _SHOWN
    behind.callback = keep
    return behind
