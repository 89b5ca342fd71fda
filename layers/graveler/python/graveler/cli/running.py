"""Run one command line and map its outcome to an exit code."""

import os
from collections.abc import Sequence
from typing import Any, Protocol

import typer

from graveler.cli.completion import join_words
from graveler.cli.defaults import begin_command
from graveler.cli.exits import ExitCode, report, report_usage
from graveler.cli.locations import forget_named
from graveler.cli.terminal import json_if_wanted
from graveler.cli.uris import forget_parsed


class CommandTree(Protocol):
    """The command tree that Typer makes of the verbs."""

    def main(self, args: Sequence[str], prog_name: str, *, standalone_mode: bool) -> Any:
        """Run one command line and return the exit code, or the verb's result."""
        ...


def run_line(command: CommandTree, arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors are reported on stderr."""
    with json_if_wanted(arguments):
        return _run_line(command, arguments)


def _run_line(command: CommandTree, arguments: Sequence[str]) -> int:
    forget_named()
    forget_parsed()
    begin_command(None)
    os.environ.update(join_words(dict(os.environ)))
    try:
        result = command.main(list(arguments) or ["--help"], prog_name="graveler", standalone_mode=False)
        return result if isinstance(result, int) else ExitCode.OK
    except typer.TyperException as error:
        from graveler.cli.usage import usage_context, usage_message  # only for a wrong command line

        context = usage_context(error, command, arguments)
        return report_usage(usage_message(error, context), context.command_path)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last place that can turn it into words
        return report(error)
