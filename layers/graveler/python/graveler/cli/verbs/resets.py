"""The verbs that go back: reset drops uncommitted changes or moves a branch, undo goes back along the reference log."""

from typing import TYPE_CHECKING, Annotated

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.locations import open_repository
from graveler.cli.options import OF_USE, AsJson, LakeOption, Yes
from graveler.cli.request_options import run_request
from graveler.cli.sums import totals_text
from graveler.cli.terminal import expect_yes, output, warn
from graveler.cli.uris import RefURI, parse_branch, parse_prefix, parse_ref_of
from graveler.cli.values import SHORT, change_json, change_line, count
from graveler.errors import InvalidError
from graveler.values.addresses import scheme_of
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.model import Change
    from graveler.remote.any_repository import AnyRepository

_PAGE = 1000


def reset(
    uri: Annotated[
        str,
        typer.Argument(
            metavar="URI", help="lakefs://REPOSITORY/BRANCH, optionally with /PATH", autocompletion=completion.objects
        ),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Reset all objects whose path starts with PATH.")
    ] = False,
    hard: Annotated[
        str | None,
        typer.Option(
            "--hard",
            metavar="REF",
            help="Move the branch to a ref's commit instead.",
            autocompletion=completion.other_refs,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be dropped or moved, without doing it.")
    ] = False,
    yes: Yes = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Drop uncommitted changes, or move a branch to another commit.

    Resets the whole branch, one object, or with -r all objects whose path starts with PATH. For more than one object it asks for
    confirmation on a terminal; elsewhere it needs --yes; --dry-run lists the changes. With --hard the branch moves, which fails
    while it has uncommitted changes.

    \b
    Examples:
      graveler reset lakefs://quickstart/main/data/part-0.csv
      graveler reset -r lakefs://quickstart/main/tmp/ --yes
      graveler reset lakefs://quickstart/main --dry-run
      graveler reset lakefs://quickstart/main --hard main~2

    \b
    JSON: a line {type, path, before, after} for each dropped change, as in
      `status`; with --hard one document {branch, commit_id, from, dry_run}.
    """
    address = parse_prefix(uri) if uri.count("/") > 3 or not scheme_of(uri) else None
    branch = parse_branch(uri).ref if address is None else address.ref
    name = parse_branch(uri).repository if address is None else address.repository
    target = None if hard is None else parse_ref_of(name, hard)
    repository = open_repository(lake, name)
    path = "" if address is None else address.path
    screen = output(as_json=as_json)
    if target is not None:
        if path or recursive:
            raise InvalidError("--hard moves the whole branch: leave out the path and -r")
        before = repository.branch(branch).commit_id
        if dry_run:
            after = repository.commit_of(target).id
        else:
            request = requests.refs.HardReset(branch=branch, ref=target)
            after = run_request(repository, request).commit_id
        old, new = (screen.paint(commit[:SHORT], "yellow") for commit in (before, after))
        screen.answer(
            {"branch": branch, "commit_id": after, "from": before, "dry_run": dry_run},
            f"{'would move' if dry_run else 'moved'} {branch} from {old} to {new}",
        )
        return
    whole = recursive or not path
    verb = "would drop" if dry_run else "dropped"
    if whole and not dry_run and not as_json:
        totals = repository.uncommitted_summary(branch, prefix=path).total
        number = totals.added + totals.removed + totals.changed
        _confirm_drop(branch, path, number, yes=yes)
        _drop(repository, branch, path, whole=whole)
        sums = totals_text(screen, totals)
        screen.line(f"{verb} {count(number, 'uncommitted change')}{f': {sums}' if sums else ''}")
        return
    dropped = list(_changes(repository, branch, path, whole=whole))
    if not dry_run:
        if whole:
            _confirm_drop(branch, path, len(dropped), yes=yes)
        _drop(repository, branch, path, whole=whole)
    for change in dropped:
        screen.answer(change_json(change), change_line(screen, change))
    screen.note(f"{verb} {count(len(dropped), 'uncommitted change')}")
    if not dropped and not as_json and not scheme_of(uri):
        _warn_of_path(repository, RefURI(name, branch), path)


def _warn_of_path(repository: "AnyRepository", branch: RefURI, path: str) -> None:
    """Warn if a path without a change is the name of a branch, which the user may have meant, or nothing has this path."""
    from graveler.cli.hints import path_taken_for

    remedy = f"`graveler reset {RefURI(branch.repository, path)}` drops changes of that branch"
    if warning := path_taken_for(repository, branch, path, remedy):
        warn(warning)


def undo(
    branch: Annotated[
        str | None,
        typer.Argument(
            metavar="BRANCH", help=f"lakefs://REPOSITORY/BRANCH {OF_USE}", autocompletion=completion.branches
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Move a branch back to where it was before its last move.

    That move may be a commit, a merge, an import, a `reset --hard`, or an undo: a second undo redoes it. Fails while the branch
    has uncommitted changes.

    \b
    Example:
      graveler undo lakefs://quickstart/main

    JSON: one document {branch, commit_id}.
    """
    uri = parse_branch(branch)
    repository = open_repository(lake, uri.repository)
    moved = run_request(repository, requests.refs.Undo(branch=uri.ref))
    screen = output(as_json=as_json)
    screen.answer(
        {"branch": uri.ref, "commit_id": moved.commit_id},
        f"moved {uri.ref} back to {screen.paint(moved.commit_id[:SHORT], 'yellow')}",
    )


def _changes(repository: "AnyRepository", branch: str, path: str, *, whole: bool) -> "list[Change]":
    changes = items(lambda after: repository.uncommitted(branch, prefix=path, after=after, amount=_PAGE))
    return [change for change in changes if whole or change.path == path]


def _drop(repository: "AnyRepository", branch: str, path: str, *, whole: bool) -> None:
    prefix, single = (path or None, None) if whole else (None, path)
    run_request(repository, requests.staging.Reset(branch=branch, path=single, prefix=prefix))


def _confirm_drop(branch: str, path: str, changes: int, *, yes: bool) -> None:
    """Ask before ``changes`` are dropped. :class:`PreconditionError` unless the answer is yes."""
    if yes or not changes:
        return
    these = f"{count(changes, 'uncommitted change')} of branch {branch!r}{f' below {path!r}' if path else ''}"
    expect_yes(f"Drop {these}?", f"this drops {these}: use --yes", "nothing was dropped. --dry-run lists them")
