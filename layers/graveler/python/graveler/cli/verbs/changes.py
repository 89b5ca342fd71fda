"""The verbs for uncommitted changes and commits: status, commit."""

from typing import TYPE_CHECKING, Annotated

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.changed_objects import show_changes
from graveler.cli.interrupts import moving
from graveler.cli.locations import open_repository
from graveler.cli.options import OF_USE, AsJson, LakeOption, Message, Metadata, Quiet
from graveler.cli.progress import MANY, counting
from graveler.cli.request_options import commit_info, request_fields, run_request, with_options
from graveler.cli.sums import show_summary
from graveler.cli.terminal import Screen, output, warn
from graveler.cli.uris import SCHEME, parse_branch
from graveler.cli.values import SHORT, commit_json, commit_line, count
from graveler.errors import GravelerError, InvalidError
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.lake.reading.outside_files import OutsideFiles

_PAGE = 1000
_SHOWN_FILES = 5

PathPrefix = Annotated[str, typer.Option("--prefix", metavar="PATH", help="Only paths that start with this.")]
Folders = Annotated[bool, typer.Option("--folders", help="Show one line per folder, for all that is in it.")]
DefaultBranch = Annotated[
    str | None,
    typer.Argument(
        metavar="BRANCH",
        help=f"lakefs://REPOSITORY/BRANCH {OF_USE}",
        autocompletion=completion.branches,
    ),
]
Summarize = Annotated[bool, typer.Option("--summary", help="Only count objects and bytes; with --folders, per folder.")]


def status(
    branch: DefaultBranch = None,
    prefix: PathPrefix = "",
    folders: Folders = False,
    summary: Summarize = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a branch's uncommitted changes.

    In a lake in a folder, also compare size and time of imported and linked files on this machine with the branch's commit. Of a
    large commit only a part is looked at, and the last line says how much; `graveler fsck` looks at everything.

    \b
    Examples:
      graveler status lakefs://quickstart/main
      graveler status show lakefs://quickstart/main --folders
      graveler status                      (after `graveler use`)
      graveler status show lakefs://quickstart/main --summary

    \b
    JSON: a line {type, path, before, after} for each, in path order;
      type is added, removed, changed or prefix_changed;
      before and after are objects as in `stat`, or null.
      With --summary, lines as in `diff --summary`.
      A warning on stderr says that imported files have changed.
    """
    uri = parse_branch(branch)
    repository = open_repository(lake, uri.repository)
    head = repository.branch(uri.ref).commit_id
    cut = "/" if folders else ""
    screen = output(as_json=as_json)
    screen.note(f"on branch {screen.paint(uri.ref, 'bold')} at {screen.paint(head[:SHORT], 'yellow')}")
    if summary:
        totals = repository.uncommitted_summary(uri.ref, prefix=prefix, delimiter=cut)
        show_summary(screen, totals, prefix, "no uncommitted changes")
    else:
        changes = items(
            lambda after: repository.uncommitted(uri.ref, prefix=prefix, after=after, delimiter=cut, amount=_PAGE)
        )
        show_changes(screen, changes, "no uncommitted changes")
    try:
        look = repository.look_at_outside_files(head, prefix)
    except GravelerError as error:
        warn(f"imported files could not be looked at: {error}")
        return
    if look is not None and look.files:
        _show_outside_files(screen, look, uri.repository)


@with_options(lambda: requests.committing.Commit, before="quiet")
def commit(
    context: typer.Context,
    branch: DefaultBranch = None,
    *,
    message: Message,
    meta: Metadata = None,
    quiet: Quiet = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Commit a branch's uncommitted changes.

    Commits either all of them or none. Changes that are staged meanwhile go into the next commit.

    \b
    Examples:
      graveler commit lakefs://quickstart/main -m "June's numbers"
      graveler commit lakefs://quickstart/main -m "Nightly" --meta job=etl-7

    JSON: one document {id, parents, message, committer, created, metadata, generation, metarange_id}.
    """
    if not message.strip():
        raise InvalidError("the commit message is empty; say what changed, as in -m 'Add June'")
    uri = parse_branch(branch)
    info = commit_info(message, meta)
    repository = open_repository(lake, uri.repository)
    request = requests.committing.Commit(branch=uri.ref, info=info, **request_fields(context, repository))
    doing = f"committing {uri.ref}"
    with moving(repository, uri.ref), counting(doing, noun="changes", moves=False, least=MANY, quiet=quiet) as progress:
        new_commit = run_request(repository, request, progress=progress)
    screen = output(as_json=as_json)
    screen.answer(commit_json(new_commit), commit_line(screen, f"committed {uri.ref}", new_commit))


def _show_outside_files(screen: Screen, look: "OutsideFiles", repository: str) -> None:
    """Report how many imported files were looked at, and on stderr those that are not as the commit has them."""
    files = f"{look.looked_at:,}" + (f" of {look.files:,}" if look.looked_at < look.files else "")
    among = "" if look.objects == look.all_objects else f" among {look.objects:,} of {look.all_objects:,} objects"
    rest = "" if look.complete else f"; `graveler fsck {SCHEME}{repository}` looks at all"
    screen.note(screen.paint(f"imported files: {files}{among} looked at, by size and time, not bytes{rest}", "dim"))
    if look.changed:
        shown = "; ".join(f"{file.path} ({file.deviation})" for file in look.examples[:_SHOWN_FILES])
        more = f"; and {look.changed - _SHOWN_FILES:,} more" if look.changed > _SHOWN_FILES else ""
        files = count(look.changed, "imported file")
        warn(f"{files} may have been changed or removed: {shown}{more}")
