"""The verbs about the command itself: its help, its version."""

from platform import python_version
from typing import Annotated

import typer

from graveler import __version__
from graveler.cli.options import AsJson
from graveler.cli.terminal import output
from graveler.cli.topics import help_text


def help_(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND|TOPIC]...", help="A command with its group, or a topic.")
    ] = None,
) -> None:
    """Show the help of a command, or of a topic.

    \b
    Examples:
      graveler help
      graveler help branch create
      graveler help commands
    """
    output().line(help_text(context.find_root(), words or []))


def version(as_json: AsJson = False) -> None:
    """Show the version of graveler, as --version does.

    \b
    Example:
      graveler version

    JSON: one document {version, python}.
    """
    output(as_json=as_json).answer({"version": __version__, "python": python_version()}, f"graveler {__version__}")
