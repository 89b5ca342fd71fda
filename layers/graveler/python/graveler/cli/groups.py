"""Groups of commands that refuse the commands of other tools with a hint at those of graveler."""

import itertools
from typing import Any

from typer.core import TyperGroup

from graveler.errors import InvalidError


class Group(TyperGroup):
    """A group of commands. Its refusal of another tool's command names the command to use instead."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if self.get_command(ctx, word) is None:
            from graveler.cli.suggestions import instead_of  # only for an unknown command

            instead = instead_of(ctx.command_path, word)
            if instead:
                raise InvalidError(f"there is no command `{ctx.command_path} {word}`: {instead}")
        return super().resolve_command(ctx, args)


class StatusGroup(Group):
    """The commands of statuses. Without one of them, the words are those of ``show``: ``graveler status BRANCH``."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


class RefGroup(Group):
    """The commands of branches or of tags. A ref's name in the place of a command is refused with the commands that take it."""

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
