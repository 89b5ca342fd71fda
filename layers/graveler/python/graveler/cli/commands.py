"""Commands whose options are completed when they are first needed.

The options that say where the lake is (:mod:`graveler.cli.location_options`) and those that come from the fields of a request
(:mod:`graveler.cli.request_options`) cost time: the help of the whole command needs none of them, a command line those of one
command.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import typer
from typer.core import TyperCommand

Verb = TypeVar("Verb", bound=Callable[..., Any])

Completion: TypeAlias = Callable[[list[Any]], None]
"""Adds options to the parameters of a command."""

COMPLETIONS = "completions"
"""The attribute of a verb with what completes its options."""


SEPARATED = "graveler.separated"
"""The key in the ``meta`` of a command's context that says whether its words have a ``--``."""


class Command(TyperCommand):
    """A command that completes its parameters when they are first read."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        self.completions: list[Completion] = []
        """Functions that complete the parameters."""
        super().__init__(*arguments, **keywords)
        self.completions += getattr(self.callback, COMPLETIONS, ())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line."""
        ctx.meta[SEPARATED] = "--" in args
        return super().parse_args(ctx, args)

    @property
    def params(self) -> list[Any]:
        """The arguments and options."""
        while self.completions:
            self.completions.pop(0)(self._params)
        return self._params

    @params.setter
    def params(self, params: list[Any]) -> None:
        self._params = params


class Commands(typer.Typer):
    """Commands of this kind, by name."""

    def command(self, *arguments: Any, **keywords: Any) -> Callable[[Verb], Verb]:
        """Return a decorator of a verb."""
        return super().command(*arguments, cls=Command, **keywords)
