"""Writes ``docs/requests.md``, what each request declares and which interface offers it: ``python -m tests.make_request_docs``.
A test holds the page to the code."""

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from typer.main import get_command

import graveler.sdk
from graveler import requests
from graveler.api import iceberg, resources
from graveler.cli.app import app
from graveler.remote.repository import runs_remotely
from graveler.requests.base import Gated, Repetition, Request
from graveler.requests.merging import Replay

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "requests.md"
HEAD: Final = """# Requests

Each verb that changes something, or can take long, is one request: its class in `graveler/requests/` says what it does, what it
costs, which errors there are, and what it needs. One function in `graveler/lake/` does it; the interfaces build requests and hand
them on. *Changes* are the fields that name branches; *long* requests may become operations. *Repeated* says what a second request
under the same `Idempotency-Key` does: it gets the lake's *result* of the first one, or the first *response*, which the API has
kept; otherwise it changes nothing more, even without a key. An empty cell is deliberate: that
interface does not offer the request.

The page is written by `python -m tests.make_request_docs`, and a test compares it with the code.

| request | needs | changes | long | repeated | function | HTTP operations | behind a server | Python API | command line |
|---|---|---|---|---|---|---|---|---|---|
"""

Kind = type[Request[Any]]

SHARED: Final[set[Kind]] = {Gated, Replay}
"""Classes of which requests are made, that are none themselves."""


def every_request() -> list[Kind]:
    """All requests, by name."""
    for module in pkgutil.iter_modules(requests.__path__, f"{requests.__name__}."):
        importlib.import_module(module.name)
    return sorted(set(_below(Request)) - SHARED, key=lambda kind: kind.__name__)


def _below(kind: Kind) -> Iterator[Kind]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def method_of(kind: Kind) -> str:
    """The keyword method that makes such a request."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def operations() -> Mapping[Kind, list[str]]:
    """The HTTP operations by the requests that they may run."""
    found: dict[Kind, list[str]] = {}
    for route in (route for group in (*resources.GROUPS, *iceberg.GROUPS) for route in group.routes):
        for kind in route.requests:
            found.setdefault(kind, []).append(route.operation)
    return found


def commands() -> Mapping[str, list[str]]:
    """The commands by the methods that they call."""
    found: dict[str, list[str]] = {}
    for name, callback in _commands(get_command(app), ()):
        for method in sorted(_calls(callback, "graveler.cli")):
            found.setdefault(method, []).append(name)
    return found


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Each command with its function, those of groups too."""
    below = getattr(command, "commands", None)
    if below is not None:
        for name, each in below.items():
            yield from _commands(each, (*path, name))
    elif not command.hidden:
        yield " ".join(path), inspect.unwrap(command.callback)


def api_methods() -> Mapping[str, list[str]]:
    """The methods of the Python API's handles by the verbs that they call."""
    found: dict[str, list[str]] = {}
    for info in pkgutil.iter_modules(graveler.sdk.__path__, "graveler.sdk."):
        module = importlib.import_module(info.name)
        classes = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == info.name]
        functions = [item for kind in classes for item in vars(kind).values() if inspect.isfunction(item)]
        for function in functions:
            if "._" not in f".{function.__qualname__}":
                for method in sorted(_calls(function, "graveler.sdk")):
                    found.setdefault(method, []).append(function.__qualname__)
    return found


def _calls(function: Callable[..., Any], room: str, seen: frozenset[object] = frozenset()) -> set[str]:
    """The verbs of a repository that a function calls, and the requests that it names, itself or by functions of its room."""
    found: set[str] = set()
    methods = {kind.__name__: method_of(kind) for kind in every_request()}
    for node in ast.walk(ast.parse(dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            helper = vars(sys.modules[function.__module__]).get(node.func.id)
            if inspect.isfunction(helper) and helper not in seen and helper.__module__.startswith(room):
                found |= _calls(helper, room, seen | {function, helper})
        if isinstance(node, ast.Call):
            places = (node.func,) if seen else (node.func, *node.args)  # a helper also compares kinds of requests
            named = [place.id for place in places if isinstance(place, ast.Name)]
            named += [place.attr for place in places if isinstance(place, ast.Attribute)]
            found |= {methods[name] for name in named if name in methods}
        if isinstance(node, ast.Attribute) and _is_repository(node.value):
            found.add(node.attr)
    return found


def _is_repository(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "open_repository"
    name = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
    return name in ("repository", "opened", "verbs")


def page() -> str:
    """The page as it should be."""
    over_http, typed, handles = operations(), commands(), api_methods()
    lines = []
    for kind in every_request():
        method = method_of(kind)
        cells = [
            f"`{kind.__name__}`",
            kind.permission.value,
            ", ".join(f"`{name}`" for name in kind.changes),
            "yes" if kind.can_be_long else "",
            "" if kind.repetition is Repetition.HARMLESS else kind.repetition.value,
            f"`lake/{kind.implementation.replace('.', '/').replace(':', '.py` `')}`",
            ", ".join(f"`{name}`" for name in over_http.get(kind, ())),
            "yes" if runs_remotely(kind) else "",
            ", ".join(f"`{name}`" for name in handles.get(method, ())),
            ", ".join(f"`{name}`" for name in typed.get(method, ())),
        ]
        lines.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
