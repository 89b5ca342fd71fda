"""The options that say where the lake is, after a command as well as before it."""

from collections.abc import Mapping
from copy import copy
from functools import partial
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
"""The one option shown in every command's help; a DynamoDB lake cannot work without it."""


def add_location_options(root: Any) -> None:
    """Give each command that has --lake the other options of ``root`` that say where the lake is, where it has no option of this
    name already."""
    options = {option.name: option for option in root.params if option.name in _NAMES}
    for command in _commands(root):
        command.completions.append(partial(_insert, options))


def _insert(options: Mapping[str, Any], params: list[Any]) -> None:
    position = next((number for number, param in enumerate(params, 1) if param.name == "lake"), None)
    if position is not None:
        names = {text for param in params for text in param.opts}
        params[position:position] = [_copy(options[name]) for name in _NAMES if names.isdisjoint(options[name].opts)]


def _commands(group: Any) -> list[Any]:
    inner = getattr(group, "commands", None)
    return [group] if inner is None else [command for child in inner.values() for command in _commands(child)]


def _copy(option: Any) -> Any:
    """Return a copy of an option of the root that sets the same value; first, since --lake reads all of them."""

    def keep(context: Any, _: Any, value: str | None) -> None:
        if value is not None:
            context.find_root().params[option.name] = value

    twin = copy(option)
    twin.name = f"{option.name}_behind"  # apart from the command's own parameters
    twin.expose_value, twin.is_eager, twin.hidden = False, True, option.name != _SHOWN
    twin.callback = keep
    return twin
