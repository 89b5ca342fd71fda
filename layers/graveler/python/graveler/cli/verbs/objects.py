"""The verbs that read and remove objects."""

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.failures import NothingBelowError
from graveler.cli.interrupts import staging
from graveler.cli.locations import open_repository
from graveler.cli.options import OF_USE, AsJson, LakeOption, Yes
from graveler.cli.terminal import Json, expect_yes, output
from graveler.cli.uris import ObjectURI, RefURI, expect_branch, parse_object, parse_prefix
from graveler.cli.values import count, entry_json, human_size, moment
from graveler.errors import InvalidError, NotFoundError, ObjectNotFoundError
from graveler.lake.objects.noted_times import noted_time
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.model import ObjectEntry
    from graveler.remote.any_repository import AnyRepository

_PAGE = 1000

Object = Annotated[
    str, typer.Argument(metavar="URI", help="lakefs://REPOSITORY/REF/PATH", autocompletion=completion.objects)
]


def ls(
    uri: Annotated[
        str | None,
        typer.Argument(
            metavar="URI",
            help=f"lakefs://REPOSITORY/REF/, optionally with a prefix of paths {OF_USE}",
            autocompletion=completion.objects,
        ),
    ] = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="List all objects, not just one level.")] = False,
    long: Annotated[bool, typer.Option("--long", "-l", help="Show times and sizes.")] = False,
    delimiter: Annotated[str, typer.Option("--delimiter", metavar="TEXT", help="The separator of levels.")] = "/",
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """List objects, in the byte order of their paths.

    Lists paths that start with the given path. Paths with a further slash are grouped into one line that ends with the slash. End
    the URI with a slash to list the contents of a folder: data lists data/ and data.csv, data/ lists what is in it. If no path
    starts with the given one, the exit code is 3.

    \b
    Examples:
      graveler ls lakefs://quickstart/main/
      graveler ls -l lakefs://quickstart/v1/data/
      graveler ls data/                    (after `graveler use`)
      graveler ls -r --json lakefs://quickstart/main/ | jq -r .path

    \b
    JSON: a line for each, either
      {type: "object", path, size, checksum, mtime, content_type, metadata,
      address}, or {type: "prefix", path}.
    """
    from graveler.model import CommonPrefix

    target = parse_prefix(uri)
    repository = open_repository(lake, target.repository)
    cut = "" if recursive else delimiter
    screen = output(as_json=as_json)
    listing = items(
        lambda after: repository.list_objects(target.ref, prefix=target.path, after=after, delimiter=cut, amount=_PAGE)
    )
    nothing = True
    for item in listing:
        nothing = False
        when = size = ""
        path = screen.safe(item.path)
        if isinstance(item, CommonPrefix):
            fields: Json = {"type": "prefix", "path": item.path}
            path = screen.paint(path, "blue", "bold")
        else:
            fields = {"type": "object", **entry_json(item)}
            when, size = moment(item.mtime), human_size(item.size)
        screen.answer(fields, f"{screen.paint(f'{when:19}', 'dim')}  {size:>10}  {path}" if long else path)
    if nothing and target.path:
        raise NothingBelowError(target.path, target.ref)


def stat(uri: Object, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show what the lake knows about an object.

    \b
    Example:
      graveler stat lakefs://quickstart/main/data/part-0.csv

    JSON: one document {path, size, checksum, mtime, content_type, metadata, address}.
    """
    target = parse_object(uri)
    entry = open_repository(lake, target.repository).stat(target.ref, target.path)
    screen = output(as_json=as_json)
    fields = {
        "path": entry.path,
        "size": f"{entry.size:,} bytes",
        "checksum": entry.checksum
        if noted_time(entry.checksum) is None
        else f"{entry.checksum} (not of the bytes: the import trusted the file's size and time)",
        "modified": moment(entry.mtime),
        "content type": entry.content_type,
        "address": entry.address,
    }
    screen.answer(
        entry_json(entry), *screen.fields(fields | {f"meta {key}": value for key, value in entry.metadata.items()})
    )


def cat(uri: Object, lake: LakeOption = None) -> None:
    """Write an object's bytes to stdout.

    The size and checksum are verified; if they do not match, an error follows the output, and the exit code is 8. (The output
    is the object itself, never JSON; see `stat`.)

    \b
    Examples:
      graveler cat lakefs://quickstart/main/notes.txt
      graveler cat lakefs://quickstart/main~3/data.csv.gz | zcat | head
    """
    target = parse_object(uri)
    repository = open_repository(lake, target.repository)
    entry = repository.stat(target.ref, target.path)
    sys.stdout.flush()
    for piece in repository.bytes_in(target.ref, entry):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def rm(
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="lakefs://REPOSITORY/BRANCH/PATH", autocompletion=completion.objects)
    ],
    recursive: Annotated[
        bool,
        typer.Option(
            "--recursive", "-r", help="All objects whose path starts with this; it must be empty or end with a slash."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, without removing it.")
    ] = False,
    yes: Yes = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Remove objects from a branch. Older commits keep them; the removal is an uncommitted change until you commit.

    A PATH that is no object's can be a pattern, in quotes: * and ? stand for characters other than a slash, [abc] for one of
    several, ** for any folders. For several objects it asks for confirmation on a terminal; elsewhere it needs
    --yes. With -r, PATH is taken as it is, and the exit code is 3 if no path starts with it.

    \b
    Examples:
      graveler rm lakefs://quickstart/main/data/part-0.csv
      graveler rm 'lakefs://quickstart/main/data/2026-*.csv' --yes
      graveler rm -r --dry-run lakefs://quickstart/main/tmp/

    JSON: a line {path, removed} for each; removed is false with --dry-run.
    """
    target = parse_prefix(uri) if recursive else parse_object(uri)
    expect_branch(target.repository, target.ref)
    if target.path and not target.path.endswith("/") and recursive:
        raise InvalidError(
            f"-r needs a folder, but {target.path!r} does not end with '/': write {target.path + '/'!r}, or leave out -r"
        )
    repository = open_repository(lake, target.repository)
    branch = repository.branch(target.ref).name  # neither a tag nor a commit
    screen = output(as_json=as_json)
    named = None if recursive else _named(repository, branch, target.path)
    if named is not None and len(named) > 1 and not dry_run and not yes:
        _confirm_removal(branch, target.path, named)
    is_single = named is not None and len(named) == 1
    paths = (entry.path for entry in (repository.objects(branch, target.path) if named is None else named))
    verb = "would remove" if dry_run else "removed"
    removed = 0
    with staging(str(RefURI(target.repository, branch))):
        while batch := list(islice(paths, _PAGE)):
            if not dry_run:
                repository.run(requests.staging.Delete(branch=branch, objects=tuple(batch)))
            removed += len(batch)
            for path in batch:
                lines = [f"{verb} {screen.safe(path)}"] if dry_run or is_single else []
                screen.answer({"path": path, "removed": not dry_run}, *lines)
    if not removed and target.path:
        raise NothingBelowError(target.path, branch)
    if not is_single:
        screen.note(f"{verb} {count(removed, 'object')}")


def _named(repository: "AnyRepository", branch: str, path: str) -> "list[ObjectEntry]":
    """Return the object with this path; without one, those that the path matches as a pattern. :class:`NotFoundError`."""
    try:
        return [repository.stat(branch, path)]
    except ObjectNotFoundError:
        from graveler.values.globs import beginning, is_pattern, matches  # few paths are patterns

        if not is_pattern(path):
            raise
    start = beginning(path)
    entries = [entry for entry in repository.objects(branch, start) if matches(path, entry.path)]
    if not entries:
        folder = ObjectURI(repository.repository.name, branch, start[: start.rfind("/") + 1])
        raise NotFoundError(f"no path in {branch!r} matches {path!r}; `graveler ls {folder}` lists what there is")
    return entries


def _confirm_removal(branch: str, pattern: str, entries: "list[ObjectEntry]") -> None:
    """Ask before several objects are removed. :class:`PreconditionError` unless the answer is yes."""
    sums = f"{count(len(entries), 'object')}, {human_size(sum(entry.size for entry in entries))}"
    expect_yes(
        f"Remove {sums}, from branch {branch!r}?",
        f"{pattern!r} matches {sums}: use --yes",
        "nothing was removed. --dry-run lists them",
    )
