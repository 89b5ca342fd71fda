"""The verbs for branches and tags."""

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.groups import RefGroup
from graveler.cli.locations import open_repository
from graveler.cli.options import (
    OF_USE,
    AsJson,
    DryRun,
    LakeOption,
    Message,
    Metadata,
    Prefix,
    Yes,
    named_location,
)
from graveler.cli.request_options import commit_info, request_fields, run_request, with_options
from graveler.cli.terminal import Screen, expect_yes, output, warn
from graveler.cli.uris import NoAddressError, RefURI, parse_branch, parse_ref_of, parse_repository, parse_tag
from graveler.cli.values import SHORT, branch_json, commit_json, commit_line, ref_json
from graveler.errors import InvalidError, RefNotFoundError
from graveler.history.names import is_branch
from graveler.values.addresses import scheme_of, unquote_ref, without_scheme
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

branches = Commands(
    cls=RefGroup,
    invoke_without_command=True,
    help="Create, list, rename, rewrite and delete branches. Without a command, list those of the default repository.",
)
tags = Commands(
    cls=RefGroup,
    invoke_without_command=True,
    help="Create, list and delete tags. Without a command, list those of the default repository.",
)

DefaultRepository = Annotated[
    str | None,
    typer.Argument(
        metavar="REPOSITORY", help=f"lakefs://NAME, or just NAME. {OF_USE}", autocompletion=completion.repositories
    ),
]
BranchURI = Annotated[
    str, typer.Argument(metavar="BRANCH", help="lakefs://REPOSITORY/BRANCH", autocompletion=completion.branches)
]
TagURI = Annotated[str, typer.Argument(metavar="TAG", help="lakefs://REPOSITORY/TAG", autocompletion=completion.tags)]

_NO_NAME: Final = re.compile("[^A-Za-z0-9_-]+")
"""Letters that the name of a branch has not."""

Start = Annotated[
    str | None,
    typer.Argument(
        metavar="REF",
        help="Where it starts, like --source: a ref in the same repository, or its URI.",
        autocompletion=completion.other_refs,
    ),
]


@branches.callback()
def list_without_command(context: typer.Context) -> None:
    """List branches if no command follows."""
    if context.invoked_subcommand is None:
        list_branches(lake=named_location(context))


@branches.command("create")
@with_options(lambda: requests.refs.CreateBranch, before="lake")
def create_branch(
    context: typer.Context,
    branch: BranchURI,
    start: Start = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            "-s",
            metavar="REF",
            help="Where the branch starts. [default: the default branch]",
            autocompletion=completion.other_refs,
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a branch. Nothing is copied, whatever the size of the lake. Uncommitted changes of the source are not included.

    \b
    Examples:
      graveler branch create lakefs://quickstart/experiment
      graveler branch create lakefs://quickstart/fix v1~2
      graveler branch create lakefs://quickstart/fix --source v1~2

    JSON: one document {name, commit_id, hidden}.
    """
    if start is not None and source is not None and start != source:
        raise InvalidError(f"{start!r} and --source {source!r} both say where the branch starts; give one of them")
    uri = _parse_new_branch(branch)
    repository = open_repository(lake, uri.repository)
    ref = start if start is not None else source
    begin = parse_ref_of(uri.repository, ref) if ref is not None else repository.repository.default_branch
    request = requests.refs.CreateBranch(name=uri.ref, source=begin, **request_fields(context))
    new_branch = run_request(repository, request)
    _warn_of_tag(repository, new_branch.name)
    screen = output(as_json=as_json)
    head = screen.paint(new_branch.commit_id[:SHORT], "yellow")
    screen.answer(branch_json(new_branch), f"created branch {screen.paint(new_branch.name, 'bold')} at {head}")


@branches.command("list")
def list_branches(
    repository: DefaultRepository = None,
    prefix: Prefix = "",
    all_: Annotated[bool, typer.Option("--all", "-a", help="Include hidden branches.")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """List branches and the commits they point to.

    \b
    Examples:
      graveler branch list quickstart
      graveler branch list lakefs://quickstart --prefix feature-

    JSON: a line {name, commit_id, hidden} for each.
    """
    opened = open_repository(lake, parse_repository(repository))
    screen = output(as_json=as_json)
    for branch in items(lambda after: opened.branches(prefix, after, 1000, show_hidden=all_)):
        note = "  (default)" if branch.name == opened.repository.default_branch else ""
        note += "  (hidden)" if branch.hidden else ""
        head = screen.paint(branch.commit_id[:SHORT], "yellow")
        screen.answer(branch_json(branch), f"{head}  {branch.name}{screen.paint(note, 'dim')}")


@branches.command("rewrite")
def rewrite_branch(
    branch: BranchURI,
    min_size: Annotated[
        int, typer.Option("--min-size", metavar="BYTES", help="The smallest size of a range, in bytes of keys.")
    ],
    max_size: Annotated[
        int, typer.Option("--max-size", metavar="BYTES", help="The largest size of a range, in bytes of keys.")
    ],
    raggedness: Annotated[
        int, typer.Option("--raggedness", metavar="N", help="Between these sizes, one key in N ends its range.")
    ],
    message: Message = "",
    meta: Metadata = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Split a branch's tree into ranges of another size. No object changes.

    Creates a commit, and the branch keeps the new sizes; other branches stay as they are. Larger ranges make commits to a very
    large lake cheaper, smaller ones make reading single objects cheaper. Each key counts as 32 bytes more than its length. Reads
    and writes the tree once.

    \b
    Example:
      graveler branch rewrite lakefs://quickstart/main \\
        --min-size 1000000 --max-size 8000000 --raggedness 10000

    JSON: one document, the commit.
    """
    from graveler.model import SplitParameters  # not for --help

    uri = parse_branch(branch)
    split = SplitParameters(min_size, max_size, raggedness)
    repository = open_repository(lake, uri.repository)
    request = requests.committing.Rewrite(branch=uri.ref, split=split, info=commit_info(message, meta))
    commit = run_request(repository, request)
    screen = output(as_json=as_json)
    screen.answer(commit_json(commit), commit_line(screen, f"rewrote {uri.ref}", commit))


@branches.command("delete")
def delete_branch(
    branch: BranchURI, dry_run: DryRun = False, yes: Yes = False, lake: LakeOption = None, as_json: AsJson = False
) -> None:
    """Delete a branch. Its commits stay; its uncommitted changes are lost.

    If there are uncommitted changes, it asks for confirmation on a terminal; elsewhere it needs --yes.

    \b
    Examples:
      graveler branch delete lakefs://quickstart/experiment
      graveler branch delete lakefs://quickstart/experiment --yes

    \b
    JSON: one document {deleted, commit_id, uncommitted, dry_run}; uncommitted
      tells whether there were uncommitted changes.
    """
    uri = parse_branch(branch)
    repository = open_repository(lake, uri.repository)
    head = repository.branch(uri.ref).commit_id
    deletable = uri.ref != repository.repository.default_branch  # otherwise the lake refuses, without a question
    uncommitted = bool(repository.uncommitted(uri.ref, amount=1).results)
    if not yes and not dry_run and deletable and uncommitted:
        expect_yes(
            f"Branch {uri.ref!r} has uncommitted changes, which would be lost. Delete it?",
            f"branch {uri.ref!r} has uncommitted changes, which would be lost: commit them, or use --yes",
            "nothing was deleted",
        )
    if not dry_run or not deletable:
        run_request(repository, requests.refs.DeleteBranch(name=uri.ref))
    screen = output(as_json=as_json)
    screen.answer(
        {"deleted": uri.ref, "commit_id": head, "uncommitted": uncommitted, "dry_run": dry_run},
        _deletion(screen, "branch", uri.ref, head, dry_run=dry_run)
        + (", with its uncommitted changes" if uncommitted else ""),
    )


@branches.command("rename")
def rename_branch(
    branch: BranchURI,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Rename a branch. Its uncommitted changes move with it.

    \b
    Example:
      graveler branch rename lakefs://quickstart/experiment trial

    JSON: one document {renamed, name, commit_id}.
    """
    uri = parse_branch(branch)
    repository = open_repository(lake, uri.repository)
    renamed = run_request(repository, requests.refs.RenameBranch(old=uri.ref, new=name))
    _warn_of_tag(repository, renamed.name)
    output(as_json=as_json).answer(
        {"renamed": uri.ref, "name": renamed.name, "commit_id": renamed.commit_id},
        f"renamed branch {uri.ref} to {renamed.name}",
    )


def _parse_new_branch(text: str) -> RefURI:
    """Parse the URI of a branch. :class:`InvalidError` for a name that no branch can have, with one that is like it."""
    try:
        return parse_branch(text)
    except NoAddressError:
        raise
    except InvalidError as error:
        whole = unquote_ref(without_scheme(text)) if scheme_of(text) else text
        repository, slash, name = whole.partition("/") if scheme_of(text) else ("", "", whole)
        suggestion = _NO_NAME.sub("-", name).strip("-")
        if suggestion == name or not is_branch(suggestion) or any(mark in name for mark in "~^@"):
            raise
        form = f"{scheme_of(text)}{repository}{slash}{suggestion}"
        raise InvalidError(f"{error}; write `graveler branch create {form}`") from None


def _deletion(screen: Screen, kind: str, name: str, commit_id: str, *, dry_run: bool) -> str:
    """Return a sentence on a ref that is or would be deleted."""
    verb, tense = ("would delete", "is") if dry_run else ("deleted", "was")
    return f"{verb} {kind} {screen.safe(name)}, which {tense} at {screen.paint(commit_id[:SHORT], 'yellow')}"


def _warn_of_tag(repository: "AnyRepository", branch: str) -> None:
    """Warn if the new name of a branch is that of a tag."""
    with suppress(RefNotFoundError):
        repository.tag(branch)
        _warn_of_namesake("tag", branch)


def _warn_of_namesake(kind: str, name: str) -> None:
    warn(
        f"a {kind} is called {name!r}, too: as a ref, {name!r} means the branch, so the tag can only be listed and deleted; "
        "give one of them another name"
    )


@tags.callback()
def list_tags_without_command(context: typer.Context) -> None:
    """List tags if no command follows."""
    if context.invoked_subcommand is None:
        list_tags(lake=named_location(context))


@tags.command("create")
def create_tag(
    tag: TagURI,
    ref: Annotated[
        str | None,
        typer.Argument(
            metavar="REF",
            help=f"The commit to tag: a ref in the repository, or its URI. {OF_USE}",
            autocompletion=completion.other_refs,
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Tag a commit. A tag cannot be moved. Names follow git's rules for tags. Before a path, a slash in the name of a tag is
    written %2F: lakefs://quickstart/2026%2Fjune/data/.

    \b
    Examples:
      graveler tag create lakefs://quickstart/v1 main
      graveler tag create lakefs://quickstart/2026/june main~3

    JSON: one document {name, commit_id}.
    """
    uri = parse_tag(tag)
    repository = open_repository(lake, uri.repository)
    request = requests.refs.CreateTag(name=uri.ref, ref=parse_ref_of(uri.repository, ref))
    new_tag = run_request(repository, request)
    if is_branch(new_tag.name):
        with suppress(RefNotFoundError):
            repository.branch(new_tag.name)
            _warn_of_namesake("branch", new_tag.name)
    screen = output(as_json=as_json)
    name, commit_id = screen.safe(new_tag.name), screen.paint(new_tag.commit_id[:SHORT], "yellow")
    screen.answer(ref_json(new_tag), f"created tag {screen.paint(name, 'bold')} at {commit_id}")


@tags.command("list")
def list_tags(
    repository: DefaultRepository = None, prefix: Prefix = "", lake: LakeOption = None, as_json: AsJson = False
) -> None:
    """List tags and the commits they point to.

    \b
    Example:
      graveler tag list quickstart

    JSON: a line {name, commit_id} for each.
    """
    opened = open_repository(lake, parse_repository(repository))
    screen = output(as_json=as_json)
    for tag in items(lambda after: opened.tags(prefix, after, 1000)):
        line = f"{screen.paint(tag.commit_id[:SHORT], 'yellow')}  {screen.safe(tag.name)}"
        screen.answer(ref_json(tag), line)


@tags.command("delete")
def delete_tag(tag: TagURI, dry_run: DryRun = False, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Delete a tag. The commit stays.

    \b
    Example:
      graveler tag delete lakefs://quickstart/v1

    JSON: one document {deleted, commit_id, dry_run}.
    """
    uri = parse_tag(tag)
    repository = open_repository(lake, uri.repository)
    named = repository.tag(uri.ref).commit_id
    if not dry_run:
        run_request(repository, requests.refs.DeleteTag(name=uri.ref))
    screen = output(as_json=as_json)
    screen.answer(
        {"deleted": uri.ref, "commit_id": named, "dry_run": dry_run},
        _deletion(screen, "tag", uri.ref, named, dry_run=dry_run),
    )
