"""The verbs for pull requests: propose a merge, look at it, discuss and approve it, and merge it."""

from typing import TYPE_CHECKING, Annotated

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.changed_objects import Patch, Stat, patches_of, show_changes
from graveler.cli.commands import Commands
from graveler.cli.interrupts import moving
from graveler.cli.locations import open_repository, user_name
from graveler.cli.options import OF_USE, AsJson, LakeOption, Message, Metadata
from graveler.cli.pager import NoPager, paged
from graveler.cli.request_options import commit_info, request_fields, run_request, with_options
from graveler.cli.terminal import Json, Screen, output
from graveler.cli.uris import RefURI, parse_branch, parse_branch_of, parse_pull, parse_repository
from graveler.cli.values import SHORT, first_line, moment
from graveler.cli.verbs.merges import IsolationLevel, Strategy, StrategyFor, conflicts_as_json, parse_strategies
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.model import CommitID
    from graveler.remote.any_repository import AnyRepository
    from graveler.requests.pulls import PullComment, PullRequest, StatusFilter

app = Commands(help="Propose merges, discuss, approve and merge them: pull requests.")

_PAGE = 1000

Pull = Annotated[
    str, typer.Argument(metavar="PULL", help="lakefs://REPOSITORY/NUMBER, or the NUMBER in the default repository.")
]
Reviewers = Annotated[
    list[str] | None, typer.Option("--reviewer", metavar="NAME", help="Ask this person to approve it; repeatable.")
]


@app.command()
@with_options(lambda: requests.pulls.CreatePullRequest, before="reviewer")
def create(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="The branch to merge, lakefs://REPOSITORY/BRANCH", autocompletion=completion.branches
        ),
    ],
    destination: Annotated[
        str | None,
        typer.Argument(
            metavar="BRANCH",
            help=f"The destination: a branch in the same repository, or its URI. {OF_USE}",
            autocompletion=completion.other_branches,
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option("--title", "-t", metavar="TEXT", help="What it brings. [default: the last commit's message]"),
    ] = None,
    reviewer: Reviewers = None,
    strategy: Strategy = None,
    strategy_for: StrategyFor = None,
    isolation: IsolationLevel = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Propose to merge a branch into another one.

    Nothing changes yet. The message and the strategies are those of the merge, unless it states others; approvals cover the
    strategies and --squash, so another choice later makes them stale.

    \b
    Examples:
      graveler pr create lakefs://quickstart/june main -t "Measurements of June"
      graveler pr create lakefs://quickstart/june main --draft --reviewer ann

    \b
    JSON: one document {id, status, title, description, author, principal,
      source_branch, destination_branch, creation_date, closed_date,
      merged_commit_id, closed_by, reason, draft, reviewers, approvals, message,
      strategy, strategies, squash_merge, when_ready, version}, without dates
      and commits that it does not have yet.
    """
    uri = parse_branch(source)
    branch = parse_branch_of(uri.repository, destination)
    strategies = parse_strategies(strategy, strategy_for, isolation)
    repository = open_repository(lake, uri.repository)
    if title is None:
        title = (
            first_line(repository.commit_of(repository.branch(uri.ref).commit_id).message)[:200] or f"Merge {uri.ref}"
        )
    request = requests.pulls.CreatePullRequest(
        title=title,
        source=uri.ref,
        destination=branch,
        reviewers=tuple(reviewer or ()),
        strategies=strategies,
        **request_fields(context),
    )
    pull = run_request(repository, request, by=user_name())
    screen = output(as_json=as_json)
    screen.answer(pull_json(pull), f"created pull request {_name(screen, pull)}")


@app.command("list")
def list_(
    repository: Annotated[
        str | None,
        typer.Argument(
            metavar="REPOSITORY", help=f"lakefs://NAME, or just NAME. {OF_USE}", autocompletion=completion.repositories
        ),
    ] = None,
    status: Annotated[
        str,
        typer.Option("--status", metavar="STATUS", help="open, closed (also merged ones), merged or all."),
    ] = "open",
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """List pull requests, the newest first.

    \b
    Examples:
      graveler pr list quickstart
      graveler pr list quickstart --status merged --json | jq -r .merged_commit_id

    JSON: a line for each, as in `pr create`.
    """
    opened = open_repository(lake, parse_repository(repository))
    screen = output(as_json=as_json)
    filtered: StatusFilter = status  # type: ignore[assignment]  # an unknown one is refused
    for pull in items(lambda after: opened.pull_requests(filtered, after=after, amount=_PAGE)):
        screen.answer(pull_json(pull), f"{_name(screen, pull)}  {screen.paint(_sides(pull), 'dim')}{_note(pull)}")


@app.command()
def show(pull: Pull, no_pager: NoPager = False, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show a pull request, who approved it, and the comments on it.

    \b
    Example:
      graveler pr show lakefs://quickstart/7

    JSON: one document, as in `pr create`, with comments, each {id, author, principal, creation_date, text}.
    """
    uri, repository = _opened(pull, lake)
    shown = repository.pull_request(uri.ref)
    comments = list(items(lambda after: repository.pull_comments(uri.ref, after=after, amount=_PAGE)))
    with paged(direct=no_pager, as_json=as_json) as screen:
        document = {**pull_json(shown), "comments": [_comment_json(comment) for comment in comments]}
        screen.answer(document, *_described(screen, shown), *_said(screen, comments))


@app.command()
def diff(
    pull: Pull,
    stat: Stat = False,
    patch: Patch = False,
    no_pager: NoPager = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what a pull request brings, or brought: what its source changed since the common base, or the merge.

    \b
    Examples:
      graveler pr diff lakefs://quickstart/7
      graveler pr diff lakefs://quickstart/7 -p

    JSON: a line for each change, as in `diff`.
    """
    uri, repository = _opened(pull, lake)
    start, end = _compared(repository, repository.pull_request(uri.ref))
    changes = items(lambda after: repository.diff(start, end, after=after, amount=_PAGE))
    patches = patches_of(repository, start, end) if patch else None
    with paged(direct=no_pager, as_json=as_json) as screen:
        show_changes(screen, changes, "no differences", stat=stat, patches=patches)


@app.command()
def approve(
    pull: Pull,
    commit: Annotated[
        str | None,
        typer.Option(
            "--commit",
            metavar="COMMIT",
            help="The commit of the source that you looked at; fail if it has another one. [default: its head now]",
        ),
    ] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take your approval back.")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Approve a pull request.

    The approval covers the commit of the source, the common base, and the terms of the merge. It counts no more once one of these
    is another, or once the destination has changed an object that the source changed, too. The author of the pull request or of a
    commit in it cannot approve it.

    \b
    Examples:
      graveler pr approve lakefs://quickstart/7 --commit 1eedb312535f
      graveler pr approve lakefs://quickstart/7 --withdraw

    JSON: one document, as in `pr create`.
    """
    uri, repository = _opened(pull, lake)
    screen = output(as_json=as_json)
    if withdraw:
        changed = run_request(repository, requests.pulls.WithdrawApproval(pull=uri.ref), by=user_name())
        screen.answer(pull_json(changed), f"took back the approval of {_name(screen, changed)}")
        return
    source = repository.commit_of(commit if commit is not None else f"{repository.pull_request(uri.ref).source}@").id
    changed = run_request(
        repository, requests.pulls.ApprovePullRequest(pull=uri.ref, source_commit=source), by=user_name()
    )
    head = screen.paint(source[:SHORT], "yellow")
    screen.answer(pull_json(changed), f"approved {_name(screen, changed)} at {head}", *_merged_line(screen, changed))


@app.command()
def comment(
    pull: Pull,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The comment.")],
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Comment on a pull request.

    \b
    Example:
      graveler pr comment lakefs://quickstart/7 "Where is Lake Thun?"

    JSON: one document {id, author, principal, creation_date, text}.
    """
    uri, repository = _opened(pull, lake)
    request = requests.pulls.CommentOnPullRequest(pull=uri.ref, text=text)
    said = run_request(repository, request, by=user_name())
    output(as_json=as_json).answer(_comment_json(said), f"comment {said.number} on pull request {uri.ref}")


@app.command()
def ready(
    pull: Pull,
    draft: Annotated[bool, typer.Option("--draft", help="Make it a draft again.")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Mark a draft as ready to be merged.

    \b
    Examples:
      graveler pr ready lakefs://quickstart/7
      graveler pr ready lakefs://quickstart/7 --draft

    JSON: one document, as in `pr create`.
    """
    uri, repository = _opened(pull, lake)
    changed = run_request(repository, requests.pulls.UpdatePullRequest(pull=uri.ref, draft=draft), by=user_name())
    screen = output(as_json=as_json)
    screen.answer(pull_json(changed), f"{_name(screen, changed)} is {'a draft' if draft else 'ready'}")


@app.command()
@with_options(lambda: requests.pulls.MergePullRequest, before="message")
def merge(
    context: typer.Context,
    pull: Pull,
    strategy: Strategy = None,
    strategy_for: StrategyFor = None,
    isolation: IsolationLevel = None,
    squash: Annotated[bool, typer.Option("--squash", help="Merge as a commit with one parent.")] = False,
    message: Message = "",
    meta: Metadata = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Merge a pull request.

    It becomes merged in the moment in which its destination gets the merge commit. The terms are its own, unless others are
    given here. If both sides changed an object in different ways, nothing is changed, all conflicts are listed, and the exit code
    is 4. A pull request that is merged already stays as it is.

    \b
    Examples:
      graveler pr merge lakefs://quickstart/7
      graveler pr merge lakefs://quickstart/7 --expect-head 1eedb312535f
      graveler pr merge lakefs://quickstart/7 --when-ready

    \b
    JSON: one document, as in `pr create`; on conflicts {commit, conflicts}, as
      in `merge`.
    """
    uri, repository = _opened(pull, lake)
    by_options = any(option is not None for option in (strategy, strategy_for, isolation))
    request = requests.pulls.MergePullRequest(
        pull=uri.ref,
        info=commit_info(message, meta),
        strategies=parse_strategies(strategy, strategy_for, isolation) if by_options else None,
        squash=True if squash else None,
        **request_fields(context, repository),
    )
    screen = output(as_json=as_json)
    with moving(repository, repository.pull_request(uri.ref).destination), conflicts_as_json(screen):
        merged = run_request(repository, request, by=user_name())
    screen.answer(
        pull_json(merged), *(_merged_line(screen, merged) or [f"{_name(screen, merged)} is merged when ready"])
    )


@app.command()
def close(pull: Pull, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Close a pull request without a merge. Its branches stay.

    \b
    Example:
      graveler pr close lakefs://quickstart/7

    JSON: one document, as in `pr create`.
    """
    _set_status(pull, lake, closed=True, as_json=as_json)


@app.command()
def reopen(pull: Pull, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Open a closed pull request again.

    \b
    Example:
      graveler pr reopen lakefs://quickstart/7

    JSON: one document, as in `pr create`.
    """
    _set_status(pull, lake, closed=False, as_json=as_json)


def _set_status(pull: str, lake: LakeOption, *, closed: bool, as_json: bool) -> None:
    uri, repository = _opened(pull, lake)
    request = requests.pulls.UpdatePullRequest(pull=uri.ref, status="closed" if closed else "open")
    changed = run_request(repository, request, by=user_name())
    screen = output(as_json=as_json)
    screen.answer(pull_json(changed), f"{'closed' if closed else 'opened'} pull request {_name(screen, changed)}")


def pull_json(pull: "PullRequest") -> Json:
    """Return the document of a pull request."""
    import msgspec

    from graveler.wire.pull_documents import pull_document  # not for --help

    document: Json = msgspec.to_builtins(pull_document(pull))
    return document


def _comment_json(said: "PullComment") -> Json:
    import msgspec

    from graveler.wire.pull_documents import comment_document  # not for --help

    document: Json = msgspec.to_builtins(comment_document(said))
    return document


def _opened(pull: str, lake: LakeOption) -> "tuple[RefURI, AnyRepository]":
    uri = parse_pull(pull)
    return uri, open_repository(lake, uri.repository)


def _compared(repository: "AnyRepository", pull: "PullRequest") -> "tuple[CommitID, CommitID]":
    """Return the commits whose difference a pull request brings or brought."""
    if pull.merged_commit:
        return repository.commit_of(pull.merged_commit).parents[0], pull.merged_commit
    source = repository.commit_of(f"{pull.source}@").id
    base = repository.merge_base(source, repository.commit_of(f"{pull.destination}@").id)
    return source if base is None else base.id, source


def _name(screen: Screen, pull: "PullRequest") -> str:
    return f"{screen.paint(pull.id, 'yellow')}  {screen.safe(pull.title)}"


def _sides(pull: "PullRequest") -> str:
    return f"{pull.source} into {pull.destination}"


def _note(pull: "PullRequest") -> str:
    if pull.is_open:
        return "  (draft)" if pull.draft else ""
    return f"  ({pull.state.value})"


def _merged_line(screen: Screen, pull: "PullRequest") -> list[str]:
    if not pull.merged_commit:
        return []
    commit_id = screen.paint(pull.merged_commit[:SHORT], "yellow")
    return [f"merged {_name(screen, pull)} as {commit_id}"]


def _described(screen: Screen, pull: "PullRequest") -> list[str]:
    strategy = ", ".join([pull.strategies.default.value, *(f"{p}={s.value}" for p, s in pull.strategies.by_prefix)])
    fields = {
        "pull request": f"{pull.id}, {pull.state.value}{', a draft' if pull.draft else ''}",
        "title": pull.title,
        "branches": _sides(pull),
        "author": pull.author,
        "created": moment(pull.created),
        "closed": moment(pull.closed) if pull.closed else "",
        "because": pull.reason,
        "merged as": pull.merged_commit,
        "message": pull.message,
        "strategies": strategy,
        "squash": "yes" if pull.squash else "",
        "reviewers": ", ".join(pull.reviewers),
        "waits": "to be merged when the rules are fulfilled" if pull.is_open and pull.when_ready is not None else "",
        **{
            f"approved by {approval.name}": f"commit {approval.commit_id[:SHORT]}, {moment(approval.created)}"
            for approval in pull.approvals
        },
    }
    lines = screen.fields({name: text for name, text in fields.items() if text})
    if pull.is_open:
        lines += [screen.safe(f"lacked: {lack.rule}: {lack.words}") for lack in pull.lacks]
    return [*lines, *(["", *map(screen.safe, pull.description.splitlines())] if pull.description else [])]


def _said(screen: Screen, comments: "list[PullComment]") -> list[str]:
    lines = []
    for said in comments:
        lines += ["", screen.paint(f"{screen.safe(said.author)}, {moment(said.created)}", "dim")]
        lines += map(screen.safe, said.text.splitlines())
    return lines
