"""From uncommitted changes to commits: status, commit, diff, merge, import."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from graveler.cli.interrupts import moving
from graveler.cli.options import AsJson, LakeFolder, Message, Metadata, parse_metadata
from graveler.cli.paging import items
from graveler.cli.places import find_lake, open_repository, refuse_own_lake, user_name
from graveler.cli.progress import counting
from graveler.cli.terminal import Screen, output
from graveler.cli.uris import parse_branch, parse_prefix, parse_ref, parse_ref_of, parse_two_refs
from graveler.cli.values import (
    SHORT,
    change_json,
    change_line,
    change_summary,
    commit_json,
    conflict_json,
    count,
    first_line,
    human_size,
)
from graveler.errors import InvalidError, MergeConflictError

if TYPE_CHECKING:
    from graveler.model import Change, Commit

_PAGE = 1000

PathPrefix = Annotated[str, typer.Option("--prefix", metavar="PATH", help="Only paths that begin so.")]
Folders = Annotated[bool, typer.Option("--folders", help="Sum up what lies behind the next slash.")]


def status(
    branch: Annotated[str, typer.Argument(metavar="BRANCH", help="lakefs://REPOSITORY/BRANCH")],
    prefix: PathPrefix = "",
    folders: Folders = False,
    lake: LakeFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show a branch's uncommitted changes.

    \b
    Examples:
      graveler status lakefs://quickstart/main
      graveler status lakefs://quickstart/main --folders

    \b
    JSON: a line {type, path, before, after} for each, in the order of paths;
      type is added, removed, changed or prefix_changed;
      before and after are objects as of stat, or null.
    """
    uri = parse_branch(branch)
    repository = open_repository(lake, uri.repository)
    head = repository.branch(uri.ref).commit_id
    changes = items(
        lambda after: repository.uncommitted(
            uri.ref, prefix=prefix, after=after, delimiter="/" if folders else "", amount=_PAGE
        )
    )
    screen = output()
    if not as_json:
        screen.line(f"on branch {screen.paint(uri.ref, 'bold')} at {screen.paint(head[:SHORT], 'yellow')}")
    _show_changes(screen, changes, "no uncommitted changes", as_json=as_json)


def commit(
    branch: Annotated[str, typer.Argument(metavar="BRANCH", help="lakefs://REPOSITORY/BRANCH")],
    message: Message,
    meta: Metadata = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Also when nothing changed.")] = False,
    lake: LakeFolder = None,
    as_json: AsJson = False,
) -> None:
    """Make a branch's uncommitted changes a commit.

    All of them at once, or none. What is staged meanwhile goes into the next one.

    \b
    Examples:
      graveler commit lakefs://quickstart/main -m "June's numbers"
      graveler commit lakefs://quickstart/main -m "Nightly" --meta job=etl-7

    JSON: one document {id, parents, message, committer, created, metadata, generation, metarange_id}.
    """
    uri = parse_branch(branch)
    metadata = parse_metadata(meta)
    repository = open_repository(lake, uri.repository)
    with moving(repository, uri.ref):
        made = repository.commit(uri.ref, message, committer=user_name(), metadata=metadata, allow_empty=allow_empty)
    screen = output()
    if as_json:
        screen.json(commit_json(made))
        return
    _say_commit(screen, f"committed {uri.ref}", made)


def diff(
    left: Annotated[str, typer.Argument(metavar="A..B|A", help="lakefs://REPOSITORY/A..B, or A's URI.")],
    right: Annotated[str | None, typer.Argument(metavar="B", help="A ref of the same repository, or its URI.")] = None,
    three_dot: Annotated[
        bool, typer.Option("--three-dot", help="What B changed since its common base with A, as A...B does.")
    ] = False,
    prefix: PathPrefix = "",
    folders: Folders = False,
    lake: LakeFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show what turns one commit into another.

    Uncommitted changes do not count; see status.

    \b
    Examples:
      graveler diff lakefs://quickstart/main..experiment
      graveler diff lakefs://quickstart/main...experiment    (what a merge brings)
      graveler diff lakefs://quickstart/v1 main --prefix data/ --folders

    \b
    JSON: a line {type, path, before, after} for each, in the order of paths;
      type is added, removed, changed or prefix_changed;
      before and after are objects as of stat, or null.
    """
    two = parse_two_refs(left, right, from_base=three_dot)
    repository = open_repository(lake, two.repository)
    # Both are pinned, so that a branch that moves meanwhile does not mix two diffs.
    one, other = (repository.commit_of(ref).id for ref in (two.left, two.right))
    page_of = repository.compare if two.from_base else repository.diff
    changes = items(
        lambda after: page_of(one, other, prefix=prefix, after=after, delimiter="/" if folders else "", amount=_PAGE)
    )
    _show_changes(output(), changes, "no differences", as_json=as_json)


def merge(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="lakefs://REPOSITORY/REF")],
    destination: Annotated[
        str, typer.Argument(metavar="BRANCH", help="Where to: a branch of the same repository, or its URI.")
    ],
    strategy: Annotated[
        Literal["source-wins", "dest-wins"] | None,
        typer.Option(
            "--strategy", help="Who wins where both sides changed an object. [default: nobody, it is a conflict]"
        ),
    ] = None,
    message: Message = "",
    meta: Metadata = None,
    lake: LakeFolder = None,
    as_json: AsJson = False,
) -> None:
    """Bring what another branch changed into a branch.

    What SOURCE changed since the common base comes into BRANCH, as a commit with two parents. If both sides changed an object in
    different ways, nothing is changed, all conflicts are listed, and the exit code is 4.

    \b
    Examples:
      graveler merge lakefs://quickstart/experiment main
      graveler merge lakefs://quickstart/experiment main --strategy dest-wins

    \b
    JSON: one document {commit, conflicts}: commit as of `commit`, or null;
      conflicts are {path, base, source, destination}, each side an object
      as of stat, or null.
    """
    from graveler.model import MergeStrategy

    uri = parse_ref(source)
    branch = parse_ref_of(uri.repository, destination)
    metadata = parse_metadata(meta)
    repository = open_repository(lake, uri.repository)
    screen = output()
    try:
        with moving(repository, branch):
            made = repository.merge(
                uri.ref,
                branch,
                message=message,
                committer=user_name(),
                metadata=metadata,
                strategy=MergeStrategy(strategy or ""),
            )
    except MergeConflictError as error:
        if as_json:
            screen.json({"commit": None, "conflicts": [conflict_json(conflict) for conflict in error.conflicts]})
        raise
    if as_json:
        screen.json({"commit": commit_json(made), "conflicts": []})
        return
    _say_commit(screen, f"merged {screen.safe(uri.ref)} into {branch}", made)


def import_folder(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The files to take over.")],
    uri: Annotated[str, typer.Argument(metavar="URI", help="lakefs://REPOSITORY/BRANCH/ and perhaps a folder there.")],
    message: Message = "",
    meta: Metadata = None,
    lake: LakeFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take over a folder's files without copying them.

    They stay where they lie, and become one commit. They replace all that is at the destination, and nothing else. Each file
    is read once, for its checksum; do not change the files afterwards, since the lake does not keep their bytes.

    \b
    Examples:
      graveler import /data/2026 lakefs://quickstart/main/2026/
      graveler import ~/data lakefs://quickstart/main/data/ -m "First data"

    JSON: one document {commit, objects, bytes}; commit as of `commit`.
    """
    to = parse_prefix(uri)
    if to.path and not to.path.endswith("/"):
        raise InvalidError(
            f"a folder is imported to a folder, and {to.path!r} does not end with '/': write {to.path + '/'!r}"
        )
    metadata = parse_metadata(meta)
    refuse_own_lake(folder, find_lake(lake))
    repository = open_repository(lake, to.repository)
    done = [0, 0]
    with moving(repository, to.ref), counting("importing") as progress:

        def report(objects: int, size: int) -> None:
            done[0] += objects
            done[1] += size
            progress(objects, size)

        made = repository.import_folder(
            to.ref, folder, to.path, message=message, committer=user_name(), metadata=metadata, progress=report
        )
    screen = output()
    if as_json:
        screen.json({"commit": commit_json(made), "objects": done[0], "bytes": done[1]})
        return
    _say_commit(screen, f"imported {count(done[0], 'file')}, {human_size(done[1])}, into {screen.safe(str(to))}", made)


def _show_changes(screen: Screen, changes: "Iterable[Change]", if_none: str, *, as_json: bool) -> None:
    counts: Counter[str] = Counter()
    for change in changes:
        counts[change.type.value] += 1
        if as_json:
            screen.json(change_json(change))
        else:
            screen.line(change_line(screen, change))
    if not as_json:
        screen.line(screen.paint(change_summary(counts) or if_none, "dim"))


def _say_commit(screen: Screen, what: str, made: "Commit") -> None:
    subject = screen.safe(first_line(made.message))
    screen.line(f"{what}: {screen.paint(made.id[:SHORT], 'yellow')} {subject}".rstrip())
