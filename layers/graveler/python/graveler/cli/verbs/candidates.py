"""The verbs for candidates: commits that wait before a branch with rules."""

from typing import TYPE_CHECKING, Annotated

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.locations import open_repository, user_name
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.request_options import request_fields, run_request, with_options
from graveler.cli.terminal import Screen, output
from graveler.cli.uris import parse_ref, parse_repository
from graveler.cli.values import (
    SHORT,
    change_line,
    change_summary,
    commit_json,
    commit_line,
    document_of,
    first_line,
    moment,
)
from graveler.cli.verbs.repositories import DefaultName
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.model import Candidate

app = Commands(help="Show, publish and withdraw commits that wait before a branch with rules.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="CANDIDATE",
        help="lakefs://REPOSITORY/ID, its ID or that of its commit",
        autocompletion=completion.repositories,
    ),
]
_OPEN = ("building", "open")


@app.command("list")
def list_(
    name: DefaultName = None,
    every: Annotated[bool, typer.Option("--all", help="Also those that ended in the last 30 days.")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """List the candidates of a repository, the newest first.

    \b
    Example:
      graveler candidate list quickstart

    JSON: a line for each, as in `candidate show`, without lacks.
    """
    repository = open_repository(lake, parse_repository(name))
    screen = output(as_json=as_json)
    shown = [
        c for c in items(lambda after: repository.gates.candidates(after, 1000)) if every or c.state.value in _OPEN
    ]
    for candidate in sorted(shown, key=lambda candidate: (-candidate.created, candidate.id)):
        when = screen.paint(moment(candidate.created), "dim")
        text = screen.safe(f"{candidate.destination}  {candidate.author}  {first_line(candidate.message)}".rstrip())
        line = f"{when}  {candidate.id}  {candidate.state.value:<9}  {text}"
        screen.answer(document_of(candidate), line)


@app.command()
def show(name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show a candidate, and what it lacks.

    \b
    Example:
      graveler candidate show lakefs://quickstart/0123456789abcdef0123456789abcdef

    JSON: one document {candidate, lacks}.
    """
    target = parse_ref(name)
    details = open_repository(lake, target.repository).gates.candidate(target.ref)
    screen = output(as_json=as_json)
    lacks = [f"lacks: {screen.safe(lack.rule)}: {screen.safe(lack.words)}" for lack in details.lacks]
    screen.answer(document_of(details), *screen.fields(_fields(details.candidate)), *lacks)


@app.command()
def diff(name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show what a candidate would change on its branch.

    \b
    Example:
      graveler candidate diff lakefs://quickstart/0123456789abcdef0123456789abcdef

    JSON: a line {type, path, before, after} for each, as in `graveler diff`.
    """
    target = parse_ref(name)
    repository = open_repository(lake, target.repository)
    candidate = repository.gates.candidate(target.ref).candidate
    screen = output(as_json=as_json)
    counts: dict[str, int] = {}
    for change in items(lambda after: repository.diff(candidate.head, candidate.commit_id, after=after, amount=1000)):
        counts[change.type.value] = counts.get(change.type.value, 0) + 1
        screen.answer(document_of(change), change_line(screen, change))
    if not as_json:
        screen.line(change_summary(counts) or "no changes")


@app.command()
@with_options(lambda: requests.committing.PublishCandidate, before="lake")
def publish(context: typer.Context, name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Point the branch at a candidate, if it lacks nothing any more.

    The same as a repetition of the command that made it. Ends with code 5 if something is lacking.

    \b
    Example:
      graveler candidate publish \\
        lakefs://quickstart/0123456789abcdef0123456789abcdef

    JSON: one document, the commit.
    """
    target = parse_ref(name)
    repository = open_repository(lake, target.repository)
    request = requests.committing.PublishCandidate(candidate=target.ref, **request_fields(context))
    commit = run_request(repository, request, by=user_name())
    screen = output(as_json=as_json)
    screen.answer(commit_json(commit), commit_line(screen, "published", commit))


@app.command()
def withdraw(name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """End a candidate. The uncommitted changes that it holds are the branch's again.

    \b
    Example:
      graveler candidate withdraw \\
        lakefs://quickstart/0123456789abcdef0123456789abcdef

    JSON: one document {withdrawn}.
    """
    target = parse_ref(name)
    repository = open_repository(lake, target.repository)
    run_request(repository, requests.committing.WithdrawCandidate(candidate=target.ref), by=user_name())
    output(as_json=as_json).answer({"withdrawn": target.ref}, f"withdrew candidate {Screen.safe(target.ref[:SHORT])}")


def _fields(candidate: "Candidate") -> dict[str, str]:
    fields = {
        "candidate": candidate.id,
        "state": f"{candidate.state.value}{f' ({candidate.reason})' if candidate.reason else ''}",
        "verb": candidate.verb,
        "branch": candidate.destination,
        "commit": candidate.commit_id,
        "on": candidate.head,
        "author": candidate.author,
        "message": first_line(candidate.message),
        "created": moment(candidate.created),
        "ends by itself": moment(candidate.expires),
    }
    if candidate.pull_request:
        fields["pull request"] = str(candidate.pull_request)
    return {name: text for name, text in fields.items() if text}
