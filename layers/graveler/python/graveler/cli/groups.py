"""Groups of commands that answer the names of other tools' commands."""

import itertools
from typing import Any

from typer.core import TyperGroup

from graveler.errors import InvalidError


class Group(TyperGroup):
    """A command group that answers the name of another tool's command with what to use here."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if self.get_command(ctx, word) is None:
            from graveler.cli.suggestions import instead_of  # only for an unknown command

            instead = instead_of(ctx.command_path, word)
            if instead:
                raise InvalidError(f"there is no command `{ctx.command_path} {word}`: {instead}")
        return super().resolve_command(ctx, args)


class RefGroup(Group):
    """The commands of branches or tags, which answer a name where a command belongs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if self.get_command(ctx, word) is None:
            from difflib import get_close_matches  # only for an unknown command

            from graveler.cli.suggestions import instead_of

            if word in ctx.find_root().command.commands and not instead_of(ctx.command_path, word):
                raise InvalidError(f"there is no command `{ctx.command_path} {word}`: use `graveler {word}`")
            if not instead_of(ctx.command_path, word) and not get_close_matches(word, self.commands):
                names = " ".join(itertools.takewhile(lambda name: not name.startswith("-"), args))
                raise InvalidError(
                    f"there is no command `{ctx.command_path} {word}`: `{ctx.command_path} create {names}` creates it, "
                    f"`{ctx.command_path} list` lists what there is"
                )
        return super().resolve_command(ctx, args)
