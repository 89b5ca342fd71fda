"""The verbs that copy and move objects inside the lake."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from graveler.cli import completion
from graveler.cli.failures import NothingBelowError
from graveler.cli.interrupts import staging
from graveler.cli.locations import open_repository
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import output
from graveler.cli.uris import ObjectURI, RefURI, expect_branch, parse_object, parse_prefix
from graveler.cli.values import count, entry_json
from graveler.errors import InvalidError

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

One = TypeVar("One")

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="lakefs://REPOSITORY/REF/PATH", autocompletion=completion.objects)
]
Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="lakefs://REPOSITORY/BRANCH/PATH", autocompletion=completion.objects)
]
Recursive = Annotated[
    bool,
    typer.Option("--recursive", "-r", help="All objects in a folder; both paths must be empty or end with a slash."),
]


def cp(
    source: Source, target: Target, recursive: Recursive = False, lake: LakeOption = None, as_json: AsJson = False
) -> None:
    """Copy objects from any ref to a branch, without copying their bytes.

    The branch must be in the same repository. Both paths share one physical object, which is never changed. The copy is an
    uncommitted change until you commit. A target that is empty or ends with a slash is a folder: the object keeps its name there.

    Both are in the lake; files of this machine are uploaded by `put` and downloaded by `get`. After `graveler use`, either may
    be a path alone.

    \b
    Examples:
      graveler cp lakefs://quickstart/main/a.csv lakefs://quickstart/main/b.csv
      graveler cp lakefs://quickstart/v1/a.csv lakefs://quickstart/main/old/
      graveler cp -r lakefs://quickstart/v1/data/ \\
        lakefs://quickstart/main/data-v1/

    JSON: a line {from, path, size, checksum, mtime, content_type, metadata, address} for each.
    """
    at, to = _locations(source, target, recursive=recursive)
    repository = open_repository(lake, at.repository)
    branch = repository.branch(to.ref).name
    screen = output()
    copied = 0
    with staging(str(RefURI(to.repository, branch))):
        if recursive:
            entries = _some(repository.copy_prefix(branch, at.path, to.path, source_ref=at.ref), at)
        else:
            entries = iter([repository.copy(branch, at.path, to.path, source_ref=at.ref)])
        for entry in entries:
            copied += 1
            if as_json:
                old = at.path + entry.path.removeprefix(to.path) if recursive else at.path
                screen.json({"from": old, **entry_json(entry)})
    if not as_json:
        screen.line(f"copied {count(copied, 'object')} to {screen.safe(str(to))}")


def mv(
    source: Source,
    target: Target,
    recursive: Recursive = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be moved, without moving it.")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Move or rename objects on a branch. Older commits keep the old paths; the move is an uncommitted change until you commit.

    An interrupted move leaves each object at its old path, its new path, or both; run it again to finish.

    \b
    Examples:
      graveler mv lakefs://quickstart/main/a.csv lakefs://quickstart/main/b.csv
      graveler mv -r --dry-run lakefs://quickstart/main/tmp/ \\
        lakefs://quickstart/main/data/

    JSON: a line {from, path, moved} for each; moved is false with --dry-run.
    """
    at, to = _locations(source, target, recursive=recursive)
    if at.ref != to.ref:
        raise InvalidError(
            f"cannot move objects from {at.ref!r} to {to.ref!r}: a move stays on one branch; copy them with `graveler cp`"
        )
    repository = open_repository(lake, at.repository)
    branch = repository.branch(to.ref).name
    screen = output()
    moved = 0
    with staging(str(RefURI(to.repository, branch))):
        for old, new in _moves(repository, branch, at, to, recursive=recursive, dry_run=dry_run):
            moved += 1
            if as_json:
                screen.json({"from": old, "path": new, "moved": not dry_run})
            elif dry_run:
                screen.line(f"would move {screen.safe(old)} to {screen.safe(new)}")
    if not as_json:
        screen.line(f"{'would move' if dry_run else 'moved'} {count(moved, 'object')} to {screen.safe(str(to))}")


def _moves(
    repository: "AnyRepository", branch: str, at: ObjectURI, to: ObjectURI, *, recursive: bool, dry_run: bool
) -> Iterator[tuple[str, str]]:
    """Yield old and new paths; unless it is a dry run, each is moved before it is yielded."""
    if not recursive:
        if dry_run:
            repository.stat(branch, at.path)
        else:
            repository.move(branch, at.path, to.path)
        yield at.path, to.path
        return
    if dry_run:
        for entry in _some(repository.objects(branch, at.path), at):
            yield entry.path, to.path + entry.path.removeprefix(at.path)
        return
    for old, entry in _some(repository.move_prefix(branch, at.path, to.path), at):
        yield old, entry.path


def _locations(source: str, target: str, *, recursive: bool) -> tuple[ObjectURI, ObjectURI]:
    at = parse_prefix(source) if recursive else parse_object(source)
    to = parse_prefix(target)
    expect_branch(to.repository, to.ref)
    if at.repository != to.repository:
        raise InvalidError(
            f"{source!r} and {target!r} are in different repositories; download the objects and upload them there"
        )
    if recursive:
        for path in (at.path, to.path):
            if path and not path.endswith("/"):
                raise InvalidError(f"-r needs folders, but {path!r} does not end with '/': write {path + '/'!r}")
    elif not to.path or to.path.endswith("/"):
        name = at.path[at.path.rstrip("/").rfind("/") + 1 :]  # with a slash at its end, if the path has one there
        to = parse_object(f"{RefURI(to.repository, to.ref)}/{to.path}{name}")
    return at, to


def _some(found: Iterator[One], at: ObjectURI) -> Iterator[One]:
    """Return the findings. :class:`NothingBelowError` without any."""
    first = next(found, None)
    if first is None:
        raise NothingBelowError(at.path, at.ref)
    return chain([first], found)
