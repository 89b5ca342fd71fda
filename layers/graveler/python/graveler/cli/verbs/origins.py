"""The verb for the origin of objects: blame."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli import completion
from graveler.cli.failures import NothingBelowError
from graveler.cli.locations import open_repository
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import output
from graveler.cli.uris import ObjectURI, parse_prefix
from graveler.cli.values import SHORT, commit_json, first_line, moment
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.model import Commit
    from graveler.remote.any_repository import AnyRepository

_PAGE = 1000


def blame(
    uri: Annotated[
        str,
        typer.Argument(
            metavar="URI", help="lakefs://REPOSITORY/REF/PATH, or a folder", autocompletion=completion.objects
        ),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Show all objects in the folder, not just one level.")
    ] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show which commit last changed an object.

    For a folder (a path that is empty or ends with a slash), shows each entry with its last commit; for a folder in it, the last
    commit that changed anything there. For a merge, shows the commit on the side that the object came from. Uncommitted changes
    are not included.

    \b
    Examples:
      graveler blame lakefs://quickstart/main/data/part-0.csv
      graveler blame lakefs://quickstart/main/data/
      graveler blame -r lakefs://quickstart/v1/ --json | jq -r .commit.committer

    JSON: a line {type, path, commit} for each; type is object or prefix, commit is as in `log`.
    """
    target = parse_prefix(uri)
    repository = open_repository(lake, target.repository)
    whole_folder = recursive or not target.path or target.path.endswith("/")
    screen = output(as_json=as_json)
    entries = _folder(repository, target, "" if recursive else "/") if whole_folder else _object(repository, target)
    first_entry = next(entries, None)
    if first_entry is None and target.path:
        raise NothingBelowError(target.path, target.ref)
    for path, is_folder, commit in () if first_entry is None else chain((first_entry,), entries):
        origin = f"{moment(commit.created)}  {screen.safe(commit.committer)}".rstrip()
        shown = screen.paint(screen.safe(path), "blue", "bold") if is_folder else screen.safe(path)
        subject = screen.safe(first_line(commit.message))
        screen.answer(
            {"type": "prefix" if is_folder else "object", "path": path, "commit": commit_json(commit)},
            f"{screen.paint(commit.id[:SHORT], 'yellow')}  {screen.paint(origin, 'dim')}  {shown}  {subject}".rstrip(),
        )


def _object(repository: "AnyRepository", target: ObjectURI) -> Iterator[tuple[str, bool, "Commit"]]:
    yield target.path, False, repository.blame(target.ref, target.path)


def _folder(repository: "AnyRepository", folder: ObjectURI, delimiter: str) -> Iterator[tuple[str, bool, "Commit"]]:
    """Yield path, whether it is a folder, and the commit."""
    from graveler.model import CommonPrefix

    start = repository.commit_of(folder.ref).id  # pinned, so that a branch that moves meanwhile does not mix two states
    for item, commit in items(
        lambda after: repository.annotate(start, prefix=folder.path, after=after, delimiter=delimiter, amount=_PAGE)
    ):
        yield item.path, isinstance(item, CommonPrefix), commit
