"""The verbs that copy and move objects inside the lake."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from graveler import requests
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
    old, new = _locations(source, target, recursive=recursive)
    repository = open_repository(lake, old.repository)
    branch = repository.branch(new.ref).name
    screen = output(as_json=as_json)
    copied = 0
    with staging(str(RefURI(new.repository, branch))):
        if recursive:
            below = requests.staging.CopyPrefix(
                branch=branch, source_prefix=old.path, destination_prefix=new.path, source_ref=old.ref
            )
            entries = _some(repository.run(below), old)
        else:
            single = requests.staging.Copy(
                branch=branch, source_path=old.path, destination_path=new.path, source_ref=old.ref
            )
            entries = iter([repository.run(single)])
        for copied, entry in enumerate(entries, 1):  # noqa: B007 - the last number counts
            rest = entry.path.removeprefix(new.path) if recursive else ""
            screen.answer({"from": old.path + rest, **entry_json(entry)})
    screen.note(f"copied {count(copied, 'object')} to {screen.safe(str(new))}")


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
    from_uri, to_uri = _locations(source, target, recursive=recursive)
    if from_uri.ref != to_uri.ref:
        raise InvalidError(
            f"cannot move objects from {from_uri.ref!r} to {to_uri.ref!r}: a move stays on one branch; copy them with "
            "`graveler cp`"
        )
    repository = open_repository(lake, from_uri.repository)
    branch = repository.branch(to_uri.ref).name
    screen = output(as_json=as_json)
    moved = 0
    with staging(str(RefURI(to_uri.repository, branch))):
        for old, new in _moves(repository, branch, from_uri, to_uri, recursive=recursive, dry_run=dry_run):
            moved += 1
            lines = [f"would move {screen.safe(old)} to {screen.safe(new)}"] if dry_run else []
            screen.answer({"from": old, "path": new, "moved": not dry_run}, *lines)
    screen.note(f"{'would move' if dry_run else 'moved'} {count(moved, 'object')} to {screen.safe(str(to_uri))}")


def _moves(
    repository: "AnyRepository", branch: str, source: ObjectURI, target: ObjectURI, *, recursive: bool, dry_run: bool
) -> Iterator[tuple[str, str]]:
    """Yield old and new paths; unless it is a dry run, each is moved before it is yielded."""
    if not recursive:
        if dry_run:
            repository.stat(branch, source.path)
        else:
            single = requests.staging.Move(branch=branch, source_path=source.path, destination_path=target.path)
            repository.run(single)
        yield source.path, target.path
        return
    if dry_run:
        for entry in _some(repository.objects(branch, source.path), source):
            yield entry.path, target.path + entry.path.removeprefix(source.path)
        return
    below = requests.staging.MovePrefix(branch=branch, source_prefix=source.path, destination_prefix=target.path)
    for old, entry in _some(repository.run(below), source):
        yield old, entry.path


def _locations(source: str, target: str, *, recursive: bool) -> tuple[ObjectURI, ObjectURI]:
    old = parse_prefix(source) if recursive else parse_object(source)
    new = parse_prefix(target)
    expect_branch(new.repository, new.ref)
    if old.repository != new.repository:
        raise InvalidError(
            f"{source!r} and {target!r} are in different repositories; download the objects and upload them there"
        )
    if recursive:
        for path in (old.path, new.path):
            if path and not path.endswith("/"):
                raise InvalidError(f"-r needs folders, but {path!r} does not end with '/': write {path + '/'!r}")
    elif not new.path or new.path.endswith("/"):
        name = old.path[old.path.rstrip("/").rfind("/") + 1 :]  # with a slash at its end, if the path has one there
        new = parse_object(f"{RefURI(new.repository, new.ref)}/{new.path}{name}")
    return old, new


def _some(entries: Iterator[One], folder: ObjectURI) -> Iterator[One]:
    """Return the entries of a folder. :class:`NothingBelowError` without any."""
    for entry in entries:
        return chain([entry], entries)
    raise NothingBelowError(folder.path, folder.ref)
