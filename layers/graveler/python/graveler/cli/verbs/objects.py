"""The verbs that read and remove objects."""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli import completion
from graveler.cli.failures import NothingBelowError
from graveler.cli.interrupts import staging
from graveler.cli.locations import open_repository
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import Json, output
from graveler.cli.uris import RefURI, parse_object, parse_prefix
from graveler.cli.values import count, entry_json, human_size, moment
from graveler.errors import InvalidError
from graveler.lake.objects.noted_times import noted_time
from graveler.paging import items

if TYPE_CHECKING:
    from graveler.anywhere import AnyRepository

_PAGE = 1000

Object = Annotated[
    str, typer.Argument(metavar="URI", help="lakefs://REPOSITORY/REF/PATH", autocompletion=completion.objects)
]


def ls(
    uri: Annotated[
        str,
        typer.Argument(
            metavar="URI",
            help="lakefs://REPOSITORY/REF/, optionally with a prefix of paths",
            autocompletion=completion.objects,
        ),
    ],
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
      graveler ls -r --json lakefs://quickstart/main/ | jq -r .path

    \b
    JSON: a line for each, either
      {type: "object", path, size, checksum, mtime, content_type, metadata,
      address}, or {type: "prefix", path}.
    """
    from graveler.model import CommonPrefix

    at = parse_prefix(uri)
    repository = open_repository(lake, at.repository)
    cut = "" if recursive else delimiter
    screen = output()
    listing = items(
        lambda after: repository.list_objects(at.ref, prefix=at.path, after=after, delimiter=cut, amount=_PAGE)
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
        if as_json:
            screen.json(fields)
        else:
            screen.line(f"{screen.paint(f'{when:19}', 'dim')}  {size:>10}  {path}" if long else path)
    if nothing and at.path:
        raise NothingBelowError(at.path, at.ref)


def stat(uri: Object, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show what the lake knows about an object.

    \b
    Example:
      graveler stat lakefs://quickstart/main/data/part-0.csv

    JSON: one document {path, size, checksum, mtime, content_type, metadata, address}.
    """
    at = parse_object(uri)
    entry = open_repository(lake, at.repository).stat(at.ref, at.path)
    screen = output()
    if as_json:
        screen.json(entry_json(entry))
        return
    screen.fields(
        {
            "path": entry.path,
            "size": f"{entry.size:,} bytes",
            "checksum": entry.checksum
            if noted_time(entry.checksum) is None
            else f"{entry.checksum} (not of the bytes: the import trusted the file's size and time)",
            "modified": moment(entry.mtime),
            "content type": entry.content_type,
            "address": entry.address,
        }
        | {f"meta {key}": value for key, value in entry.metadata.items()}
    )


def cat(uri: Object, lake: LakeOption = None) -> None:
    """Write an object's bytes to stdout.

    The size and checksum are verified; if they do not match, an error follows the output, and the exit code is 8. (There is no
    --json, since the output is the object itself. See stat.)

    \b
    Examples:
      graveler cat lakefs://quickstart/main/notes.txt
      graveler cat lakefs://quickstart/main~3/data.csv.gz | zcat | head
    """
    at = parse_object(uri)
    repository = open_repository(lake, at.repository)
    entry = repository.stat(at.ref, at.path)
    sys.stdout.flush()
    for piece in repository.bytes_in(at.ref, entry):
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
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Remove objects from a branch. Older commits keep them; the removal is an uncommitted change until you commit.

    \b
    Examples:
      graveler rm lakefs://quickstart/main/data/part-0.csv
      graveler rm -r --dry-run lakefs://quickstart/main/tmp/

    With -r, the exit code is 3 if no path starts with the given one.

    JSON: a line {path, removed} for each; removed is false with --dry-run.
    """
    at = parse_prefix(uri) if recursive else parse_object(uri)
    if at.path and not at.path.endswith("/") and recursive:
        raise InvalidError(
            f"-r needs a folder, but {at.path!r} does not end with '/': write {at.path + '/'!r}, or leave out -r"
        )
    repository = open_repository(lake, at.repository)
    branch = repository.branch(at.ref).name  # neither a tag nor a commit
    screen = output()
    removed = 0
    with staging(str(RefURI(at.repository, branch))):
        for paths in _batches(repository, branch, at.path, recursive=recursive):
            if not dry_run:
                repository.delete(branch, paths)
            removed += len(paths)
            for path in paths:
                if as_json:
                    screen.json({"path": path, "removed": not dry_run})
                elif dry_run or not recursive:
                    screen.line(f"{'would remove' if dry_run else 'removed'} {screen.safe(path)}")
    if not removed and at.path:
        raise NothingBelowError(at.path, branch)
    if recursive and not as_json:
        screen.line(f"{'would remove' if dry_run else 'removed'} {count(removed, 'object')}")


def _batches(repository: "AnyRepository", branch: str, path: str, *, recursive: bool) -> Iterator[list[str]]:
    """Yield the paths to remove, a page at a time. :class:`ObjectNotFoundError` for a single one that is missing."""
    if not recursive:
        yield [repository.stat(branch, path).path]
        return
    paths = (entry.path for entry in repository.objects(branch, path))
    while batch := list(islice(paths, _PAGE)):
        yield batch
