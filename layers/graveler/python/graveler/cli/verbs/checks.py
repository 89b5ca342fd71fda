"""The verb for the checks of rules: check run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.exits import ExitCode
from graveler.cli.local_files import file_named
from graveler.cli.locations import Named, open_own_lake
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import output
from graveler.cli.uris import parse_ref, parse_ref_of
from graveler.cli.values import SHORT
from graveler.errors import UNREADABLE, InvalidError

if TYPE_CHECKING:
    from graveler.lake.repository import OpenRepository
    from graveler.model import Commit, Status

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

    Uncommitted changes are not included. Nothing is published, and no status is posted. Commands and functions run as entries of
    GRAVELER_CHECKS. Needs the lake itself, not a server's: checks run on this machine.

    \b
    Examples:
      graveler check run lakefs://quickstart/experiment --branch main
      graveler check run lakefs://quickstart/main --definition check.json

    \b
    JSON: a line {name, state, description, url, commit, base} for each;
      state is success, failure, error or pending, base may be null.
    The exit code is 5 unless all checks are a success.
    """
    from graveler.lake.gates.checks.trial import checks_of_branch, try_checks

    uri = parse_ref(ref)
    repository = _open(lake, uri.repository)
    on_branch = parse_ref_of(uri.repository, branch) if branch else _branch_of(repository, uri.ref)
    if definition is not None:
        definitions: dict[str, Any] = {definition.stem if str(definition) != "-" else "check": _read(definition)}
    else:
        definitions = dict(checks_of_branch(repository, on_branch))
    if check:
        definitions = {name: _expect_check(name, definitions) for name in check}
    if not definitions:
        raise InvalidError(
            f"the rules of branch {on_branch!r} have no checks that graveler runs; give one with --definition FILE"
        )
    commit, previous, statuses = try_checks(
        repository, uri.ref, on_branch, definitions, parse_ref_of(uri.repository, base) if base else ""
    )
    for status in statuses.values():
        _show(status, commit, previous, as_json=as_json)
    if any(status.state.value != "success" for status in statuses.values()):
        raise typer.Exit(ExitCode.PRECONDITION)


def _open(lake: Named | None, repository: str) -> "OpenRepository":
    return open_own_lake(lake).repository(repository)


def _branch_of(repository: "OpenRepository", ref: str) -> str:
    description = repository.describe_ref(ref)
    return ref if description.type == "branch" else repository.repository.default_branch


def _expect_check(name: str, definitions: dict[str, Any]) -> Any:
    if name not in definitions:
        raise InvalidError(f"there is no check {name!r}, but: {', '.join(sorted(definitions)) or 'none'}")
    return definitions[name]


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


def _show(status: "Status", commit: "Commit", base: "Commit | None", *, as_json: bool) -> None:
    screen = output(as_json=as_json)
    document = {
        "name": status.name,
        "state": status.state.value,
        "description": status.description,
        "url": status.url,
        "commit": commit.id,
        "base": None if base is None else base.id,
    }
    state = screen.paint(status.state.value.ljust(7), _COLOURS[status.state.value])
    compared = f" against {base.id[:SHORT]}" if base is not None else ""
    screen.answer(
        document,
        f"{state}  {screen.safe(status.name)}  {screen.paint(f'{commit.id[:SHORT]}{compared}', 'dim')}",
        *(f"         {screen.safe(line)}" for line in status.description.splitlines()),
        *([f"         {screen.safe(status.url)}"] if status.url else []),
    )
