"""The verbs that bring files into the lake and out of it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Final

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.exits import InterruptedVerbError
from graveler.cli.failures import NothingBelowError
from graveler.cli.interrupts import staging
from graveler.cli.local_files import (
    LeftOut,
    check_folder,
    check_readable,
    file_for,
    files_below,
    target_file,
    target_folder,
    warn_of_defaults,
    whole,
    write_file,
)
from graveler.cli.locations import Named, open_repository, refuse_own_lake
from graveler.cli.options import AsJson, Exclude, LakeOption, Metadata, NoIgnore, Quiet, parse_exclude, parse_metadata
from graveler.cli.progress import LARGE, counting, shows_progress
from graveler.cli.request_options import request_fields, run_request, with_options
from graveler.cli.skipped import report_left_out
from graveler.cli.sums import excluded_text
from graveler.cli.terminal import Screen, output
from graveler.cli.uris import (
    ObjectURI,
    RefURI,
    expect_branch,
    parse_object,
    parse_prefix,
    refuse_address_as_target,
    refuse_addresses,
)
from graveler.cli.values import count, entry_json, human_size
from graveler.errors import InvalidError, UnavailableError
from graveler.system.daemon_pool import in_threads
from graveler.system.progress import ObjectProgress
from graveler.values.ignore_rules import FolderRules, LeftOutFiles

if TYPE_CHECKING:
    from graveler.model import ObjectEntry
    from graveler.remote.any_repository import AnyRepository

_NAMELESS: Final = "- (stdin) has no name; upload it by a command of its own, to a path that ends in a name"


@with_options(lambda: requests.staging.Upload, before="exclude")
def put(
    context: typer.Context,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Files, - for stdin, or with -r one folder.",
            allow_dash=True,
            autocompletion=completion.files_or_objects,
        ),
    ],
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="lakefs://REPOSITORY/BRANCH/PATH", autocompletion=completion.objects)
    ],
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Upload all files in a folder.")] = False,
    content_type: Annotated[
        str | None, typer.Option("--content-type", metavar="TYPE", help="[default: application/octet-stream]")
    ] = None,
    guess_type: Annotated[
        bool, typer.Option("--guess-type", help="Guess the content type from the ending of PATH, and show it.")
    ] = False,
    exclude: Exclude = None,
    no_ignore: NoIgnore = False,
    meta: Metadata = None,
    quiet: Quiet = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Upload files to a branch.

    They become uncommitted changes, which readers of the branch see at once. The bytes are copied into the lake; `graveler
    import` imports many files in place, without copying them. A PATH that is empty or ends with a slash is a folder: the files
    keep their names there. Several files need such a PATH.

    With -r, files that .gravelerignore or --exclude names are left out, and with a warning what is never data, such as .git and
    .env, as `graveler import` does.

    The last argument is always in the lake, those before it are always files of this machine. After `graveler use` the last one
    may be a path alone: `graveler put june.csv reports/`.

    \b
    Examples:
      graveler put report.csv lakefs://quickstart/main/reports/
      graveler put june.csv july.csv lakefs://quickstart/main/reports/
      date | graveler put - lakefs://quickstart/main/now.txt
      graveler put -r ./photos lakefs://quickstart/main/photos/

    \b
    JSON: {path, size, checksum, mtime, content_type, metadata, address}: one
      document, or with -r or several files a line for each.
    """
    to = parse_prefix(uri)
    expect_branch(to.repository, to.ref)
    refuse_addresses(sources, "graveler put FILE URI")
    metadata = parse_metadata(meta)
    patterns = parse_exclude(exclude)
    if not recursive and (patterns or no_ignore):
        raise InvalidError("--exclude and --no-ignore apply to the files of a folder; they work only with -r")
    if guess_type and content_type:
        raise InvalidError(f"--guess-type would replace --content-type {content_type!r}; give one of them")

    def type_of(path: str) -> str:
        if not guess_type:
            return content_type or ""
        from graveler.values.content_types import content_type_of

        return content_type_of(path)

    fields = request_fields(context)
    if fields.get("if_match") and (recursive or len(sources) > 1):
        raise InvalidError("--if-match is the ETag of one object; upload each file by a command of its own")

    def upload(repository: "AnyRepository", data: bytes | Path, path: str, progress: ObjectProgress) -> "ObjectEntry":
        request = requests.staging.Upload(
            branch=to.ref, path=path, content_type=type_of(path), metadata=metadata, **fields
        )
        return run_request(repository, request, progress=progress, body=data)

    screen = output(as_json=as_json)
    branch = str(RefURI(to.repository, to.ref))
    if recursive or len(sources) > 1:
        ignored = LeftOutFiles()
        rules = FolderRules.of(patterns, ignore=not no_ignore)
        uploads = _files_below(sources, to, lake, rules, ignored) if recursive else _named_files(sources, to)
        repository = open_repository(lake, to.repository)
        repository.branch(to.ref)
        total = sum(file.stat().st_size for file, _ in uploads) if shows_progress(quiet=quiet) else None
        files = size = 0
        types = Counter[str]()
        with staging(branch), counting("uploading", total, quiet=quiet) as progress:
            for entry in in_threads("graveler-transfer", lambda pair: upload(repository, *pair, progress), uploads):
                files, size = files + 1, size + entry.size
                types[entry.content_type] += 1
                screen.answer(entry_json(entry))
        guessed = ", ".join(f"{number} {kind}" for kind, number in types.most_common()) if guess_type else ""
        guessed = guessed and f"; guessed types: {guessed}"
        screen.note(f"uploaded {count(files, 'file')}, {human_size(size)}, to {screen.safe(str(to))}{guessed}")
        if ignored.by_pattern:
            screen.note(screen.paint(f"  {excluded_text(ignored.by_pattern)}", "dim"))
        return
    source = sources[0]
    from_stdin = str(source) == "-"
    if from_stdin and to.path.endswith("/"):
        raise InvalidError(_NAMELESS)
    if not from_stdin and (not to.path or to.path.endswith("/")):
        uri = f"{RefURI(to.repository, to.ref)}/{to.path}{source.name}"
    target = parse_object(uri)
    repository = open_repository(lake, target.repository)
    with whole(source) as data, staging(branch):
        total = len(data) if isinstance(data, bytes) else data.stat().st_size
        with counting("uploading", total, quiet=quiet or total < LARGE) as progress:
            entry = upload(repository, data, target.path, progress)
    guessed = f"; guessed type: {entry.content_type}" if guess_type else ""
    screen.answer(entry_json(entry), f"uploaded {human_size(entry.size)} to {screen.safe(str(target))}{guessed}")


def _files_below(
    folders: list[Path], to: ObjectURI, lake: Named | None, rules: FolderRules, ignored: LeftOutFiles
) -> list[tuple[Path, str]]:
    """Return the files of the one folder, and their paths in the lake."""
    if len(folders) > 1:
        raise InvalidError(f"-r uploads one folder, but {len(folders)} are named; run the command for each of them")
    check_folder(folders[0])
    refuse_own_lake(folders[0], lake)
    prefix = to.path + ("/" if to.path and not to.path.endswith("/") else "")
    left_out = LeftOut([], [])
    files = [(file, prefix + path) for file, path in files_below(folders[0], left_out, rules, ignored)]
    left_out.warn()
    warn_of_defaults(ignored.by_default, ignored.paths)
    return files


def _named_files(files: list[Path], to: ObjectURI) -> list[tuple[Path, str]]:
    """Return several files, and their paths in the lake. :class:`InvalidError` if the target is no folder, or two files have one
    name; other errors for a file that cannot be read."""
    if to.path and not to.path.endswith("/"):
        raise InvalidError(
            f"{len(files)} files need a folder, but {to.path!r} does not end with '/': write {to.path + '/'!r}"
        )
    uploads: dict[str, Path] = {}
    for file in files:
        if str(file) == "-":
            raise InvalidError(_NAMELESS)
        check_readable(file)
        path = to.path + file.name
        if path in uploads:
            raise InvalidError(f"{str(uploads[path])!r} and {str(file)!r} would both be {path!r}; nothing was uploaded")
        uploads[parse_object(f"{RefURI(to.repository, to.ref)}/{path}").path] = file
    return [(file, path) for path, file in uploads.items()]


def get(
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="lakefs://REPOSITORY/REF/PATH", autocompletion=completion.objects)
    ],
    target: Annotated[
        str | None,  # a Path would lose the slash at its end
        typer.Argument(
            metavar="FILE",
            help="A file, a folder, or - for stdout. [default: the object's name, in the working folder]",
            autocompletion=completion.files_or_objects,
        ),
    ] = None,
    recursive: Annotated[
        bool,
        typer.Option(
            "--recursive",
            "-r",
            help="Download all objects in a folder to FILE, a folder. [default: the working folder]",
        ),
    ] = False,
    quiet: Quiet = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Download objects from any ref.

    A FILE that ends with a slash, or is a folder, is a folder: the object keeps its name there. Folders that do not exist are
    made. A file appears only when it is complete and its bytes match the size and checksum in the lake. With -r, objects that
    cannot be files are left out and listed; the exit code is then 2, unless all of them are empty folder markers.

    The first argument is always in the lake, the second one is always a file or folder of this machine. After `graveler use` the
    first one may be a path alone: `graveler get reports/june.csv`.

    \b
    Examples:
      graveler get lakefs://quickstart/main/reports/report.csv
      graveler get lakefs://quickstart/v1~1/report.csv old.csv
      graveler get lakefs://quickstart/v1/report.csv old/
      graveler get -r lakefs://quickstart/main/photos/ ./photos

    JSON: {path, file, size, checksum}: one document, or with -r a line for each.
    """
    refuse_address_as_target(target, "FILE", "graveler get URI FILE")
    if recursive:
        _get_folder(parse_prefix(uri), target_folder(Path(target or ".")), lake, quiet=quiet, as_json=as_json)
        return
    source = parse_object(uri)
    if target == "-":
        from graveler.cli.verbs.objects import cat

        cat(uri, lake)
        return
    repository = open_repository(lake, source.repository)
    entry = repository.stat(source.ref, source.path)
    file = target_file(target, source.path.rpartition("/")[2])
    try:
        with counting("downloading", entry.size, quiet=quiet or entry.size < LARGE) as progress:
            write_file(file, _counted(repository.bytes_in(source.ref, entry), progress))
    except KeyboardInterrupt:
        raise InterruptedVerbError("no file was written") from None
    sentence = f"downloaded {human_size(entry.size)} to {Screen.safe(str(file))}"
    output(as_json=as_json).answer(_download_json(entry, file), sentence)


def _get_folder(source: ObjectURI, folder: Path, lake: Named | None, *, quiet: bool, as_json: bool) -> None:
    from graveler.lake.exporting.export_names import FileNames, unwritable

    if source.path and not source.path.endswith("/"):
        raise InvalidError(f"-r needs a folder, but {source.path!r} does not end with '/': write {source.path + '/'!r}")
    repository = open_repository(lake, source.repository)
    screen = output(as_json=as_json)
    stop = Event()
    names = FileNames.below(folder.absolute(), frozenset())
    left_out = unwritable(lambda: repository.objects(source.ref, source.path), source.path, names)
    writable = (entry for entry in repository.objects(source.ref, source.path) if entry.path not in left_out)
    total = repository.du(source.ref, source.path).size if shows_progress(quiet=quiet) else None
    files = size = 0
    try:
        with counting("downloading", total, quiet=quiet) as progress:

            def download(entry: "ObjectEntry") -> "tuple[ObjectEntry, Path]":
                target = file_for(folder, entry.path.removeprefix(source.path))
                write_file(target, _counted(_until(stop, repository.bytes_in(source.ref, entry)), progress))
                return entry, target

            for entry, target in in_threads("graveler-transfer", download, writable, stop):
                files, size = files + 1, size + entry.size
                screen.answer(_download_json(entry, target))
    except KeyboardInterrupt:
        raise InterruptedVerbError(
            f"{count(files, 'file')} had been written to {str(folder)!r}, all of them complete"
        ) from None
    if not files and not left_out:
        raise NothingBelowError(source.path, source.ref)
    screen.note(f"downloaded {count(files, 'file')}, {human_size(size)}, to {screen.safe(str(folder))}")
    report_left_out(sorted(left_out.items()))


def _download_json(entry: "ObjectEntry", target: Path) -> dict[str, object]:
    return {"path": entry.path, "file": str(target), "size": entry.size, "checksum": entry.checksum}


def _counted(pieces: Iterable[bytes], progress: ObjectProgress) -> Iterator[bytes]:
    """Yield the pieces of an object, and tell of their bytes, and of the object at its end."""
    for piece in pieces:
        yield piece
        progress(0, len(piece))
    progress(1, 0)


def _until(stop: Event, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces until ``stop`` is set, so that Ctrl-C does not wait for the end of a large object."""
    for piece in pieces:
        if stop.is_set():
            raise UnavailableError("stopped because another transfer failed")
        yield piece
    if stop.is_set():  # the caller may be gone, so no file may appear
        raise UnavailableError("stopped because another transfer failed")
