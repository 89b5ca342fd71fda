"""The verb for the checks of rules: check run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.exits import ExitCode
from graveler.cli.local_files import file_named
from graveler.cli.locations import open_repository
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import output
from graveler.cli.uris import parse_ref, parse_ref_of
from graveler.cli.values import SHORT
from graveler.errors import UNREADABLE, InvalidError

if TYPE_CHECKING:
    from graveler.model import CheckOutcome, CheckTrial
    from graveler.remote.any_repository import AnyRepository

app = Commands(help="Try the checks of a branch's rules.")

_MOST_DEFINITION: Final = 1 << 20
_COLOURS: Final = {
    "success": "green",
    "failure": "red",
    "error": "red",
    "pending": "yellow",
}


@app.command()
def run(
    ref: Annotated[
        str, typer.Argument(metavar="REF", help="lakefs://REPOSITORY/REF", autocompletion=completion.branches)
    ],
    branch: Annotated[
        str | None,
        typer.Option(
            "--branch",
            metavar="BRANCH",
            help="The branch that REF is to be published on. [default: REF, if it is a branch, else the default branch]",
            autocompletion=completion.other_refs,
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="REF",
            help="Compare with this commit. [default: the branch's, or if that is REF's, its first parent]",
            autocompletion=completion.other_refs,
        ),
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option("--check", metavar="NAME", help="Only this check; repeatable. [default: all]")
    ] = None,
    definition: Annotated[
        Path | None,
        typer.Option(
            "--definition",
            metavar="FILE",
            help="A check in JSON instead of those of the rules; - reads it from stdin.",
            parser=file_named,
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Try the checks of a branch's rules on any commit.

    Uncommitted changes are not included. Nothing is published, and no status is posted. Checks run where the lake is: on this
    machine, or on the server, with the commands and functions of its GRAVELER_CHECKS. A server needs a key that may write to the
    branch, and for a --definition that of an admin.

    \b
    Examples:
      graveler check run lakefs://quickstart/experiment --branch main
      graveler check run lakefs://quickstart/main --definition check.json

    \b
    JSON: a line {name, state, description, url, commit, base} for each;
      state is success, failure, error or pending, base may be null.
    The exit code is 5 unless all checks are a success.
    """
    uri = parse_ref(ref)
    definitions: dict[str, Any] = {}
    if definition is not None:
        definitions = {definition.stem if str(definition) != "-" else "check": _read(definition)}
    repository = open_repository(lake, uri.repository)
    request = requests.statuses.RunChecks(
        ref=uri.ref,
        branch=parse_ref_of(uri.repository, branch) if branch else _branch_of(repository, uri.ref),
        base=parse_ref_of(uri.repository, base) if base else "",
        checks=tuple(check or ()),
        definitions=definitions,
    )
    trial = repository.run(request)
    for outcome in trial.outcomes:
        _show(outcome, trial, as_json=as_json)
    if any(outcome.state.value != "success" for outcome in trial.outcomes):
        raise typer.Exit(ExitCode.PRECONDITION)


def _branch_of(repository: "AnyRepository", ref: str) -> str:
    description = repository.describe_ref(ref)
    return ref if description.type == "branch" else repository.repository.default_branch


def _read(file: Path) -> Any:
    """Return the definition in a file."""
    import sys

    import msgspec

    data = sys.stdin.buffer.read() if str(file) == "-" else file.expanduser().read_bytes()
    if len(data) > _MOST_DEFINITION:
        raise InvalidError(f"{str(file)!r} has {len(data):,} bytes, more than any definition of a check")
    try:
        document = msgspec.json.decode(data)
    except UNREADABLE as error:
        raise InvalidError(f"{str(file)!r} is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidError(f'{str(file)!r} is no JSON object, such as {{"kind": "no-deletes"}}')
    return document


def _show(outcome: "CheckOutcome", trial: "CheckTrial", *, as_json: bool) -> None:
    screen = output(as_json=as_json)
    document = {
        "name": outcome.name,
        "state": outcome.state.value,
        "description": outcome.description,
        "url": outcome.url,
        "commit": trial.commit_id,
        "base": trial.base_id,
    }
    state = screen.paint(outcome.state.value.ljust(7), _COLOURS[outcome.state.value])
    compared = f" against {trial.base_id[:SHORT]}" if trial.base_id is not None else ""
    screen.answer(
        document,
        f"{state}  {screen.safe(outcome.name)}  {screen.paint(f'{trial.commit_id[:SHORT]}{compared}', 'dim')}",
        *(f"         {screen.safe(line)}" for line in outcome.description.splitlines()),
        *([f"         {screen.safe(outcome.url)}"] if outcome.url else []),
    )
