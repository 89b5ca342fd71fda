"""The verbs for statuses: verdicts about trees, which the rules of branches and tags ask for."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.groups import StatusGroup
from graveler.cli.locations import open_repository
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.request_options import request_fields, run_request, with_options
from graveler.cli.terminal import Json, Screen, output
from graveler.cli.uris import parse_ref
from graveler.cli.values import SHORT, moment
from graveler.cli.verbs.changes import status
from graveler.errors import InvalidError
from graveler.history.relative_times import seconds_ago

if TYPE_CHECKING:
    from graveler.model import Status

app = Commands(
    cls=StatusGroup,
    help="Show uncommitted changes; post and list statuses of commits.",
)
app.command("show")(status)

_Ref = Annotated[str, typer.Argument(metavar="REF", help="lakefs://REPOSITORY/REF", autocompletion=completion.branches)]
_COLOURS = {"success": "green", "failure": "red", "error": "red", "pending": "yellow"}


@app.command("post")
@with_options(lambda: requests.statuses.PostStatus, before="of_commit")
def post(
    context: typer.Context,
    ref: _Ref,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The check, as the rule calls it.")],
    state: Annotated[str, typer.Argument(metavar="STATE", help="success, failure, error or pending.")],
    *,
    of_commit: Annotated[
        bool, typer.Option("--of-commit", help="The check read the commit's message, author or metadata.")
    ] = False,
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="How long it is valid, as in 90m or 7d. [default: no end]")
    ] = "",
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Post a verdict about a commit's tree. Rules of branches ask for it by its name.

    Whoever commits the same tree has the verdict, too, unless --of-commit limits it to this commit. Give the ID of the commit
    that was checked: a branch may have moved meanwhile. A later status of the same poster replaces the earlier one of this name.
    Through a server, a key of the role checker is enough.

    \b
    Examples:
      graveler status post lakefs://quickstart/dev dbt success
      graveler status post lakefs://quickstart/1f6c2a90 dbt failure \\
        --description '2 of 41 tests fail' --url https://ci.example.org/17
      graveler status post lakefs://quickstart/dev freshness success \\
        --expires 1d

    JSON: one document {name, state, description, url, by, principal, created, expires, of, commit_id}.
    """
    from graveler.model import StatusState  # not for --help

    states = [choice.value for choice in StatusState]
    if state not in states:
        raise InvalidError(f"the state {state!r} is not one of {', '.join(states)}")
    uri = parse_ref(ref)
    repository = open_repository(lake, uri.repository)
    of: Literal["tree", "commit"] = "commit" if of_commit else "tree"
    request = requests.statuses.PostStatus(
        commit=uri.ref,
        name=name,
        state=StatusState(state),
        expires=_seconds(expires),
        of=of,
        **request_fields(context),
    )
    posted = run_request(repository, request)
    screen = output(as_json=as_json)
    screen.answer(_json(posted), _line(screen, posted))


@app.command("list")
def list_(ref: _Ref, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List the statuses of a commit and of its tree.

    Omits those that have expired, and those whose poster's access key is revoked: they do not count any more.

    \b
    Examples:
      graveler status list lakefs://quickstart/dev
      graveler status list lakefs://quickstart/1f6c2a90 --json

    JSON: a line for each, as in `status post`.
    """
    uri = parse_ref(ref)
    screen = output(as_json=as_json)
    statuses = open_repository(lake, uri.repository).statuses(uri.ref)
    for posted in statuses:
        screen.answer(_json(posted), _line(screen, posted))
    if not statuses:
        screen.note("no statuses")


def _seconds(text: str) -> int:
    """Return a duration in seconds, 0 for none."""
    seconds = seconds_ago(text) if text else 0
    if seconds is None or (text and not seconds) or text.endswith("ago"):
        raise InvalidError(f"--expires {text!r} is not a time from now; write one such as 90m, 12h or 7d")
    return seconds


def _line(screen: Screen, posted: "Status") -> str:
    state = screen.paint(f"{posted.state.value:<7}", _COLOURS[posted.state.value])
    notes = [f"by {posted.by}"] if posted.by else []
    notes += [f"of commit {posted.commit_id[:SHORT]}"] if posted.commit_id else []
    notes += [f"until {moment(posted.expires)}"] if posted.expires else []
    words = "  ".join(filter(None, (posted.description.replace("\n", " "), posted.url)))
    note = screen.paint(screen.safe(", ".join(notes)), "dim")
    return f"{state}  {screen.safe(posted.name)}  {screen.safe(words)}  {note}".rstrip()


def _json(posted: "Status") -> Json:
    return {
        "name": posted.name,
        "state": posted.state.value,
        "description": posted.description,
        "url": posted.url,
        "by": posted.by,
        "principal": posted.principal,
        "created": posted.created,
        "expires": posted.expires or None,
        "of": "commit" if posted.commit_id else "tree",
        "commit_id": posted.commit_id,
    }
