"""A group of commands that knows the words of other tools."""

from typing import Any

from typer.core import TyperGroup

from graveler.errors import InvalidError


class Group(TyperGroup):
    """A command group that answers the name of another tool's command with what to use here."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if self.get_command(ctx, word) is None:
            from graveler.cli.foreign_words import instead_of  # only for an unknown command

            instead = instead_of(ctx.command_path, word)
            if instead:
                raise InvalidError(f"there is no command `{ctx.command_path} {word}`: {instead}")
        return super().resolve_command(ctx, args)
