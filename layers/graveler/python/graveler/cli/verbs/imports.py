"""The verb that imports existing objects, without copying them: import."""

import os
from pathlib import Path
from typing import Annotated

import typer

from graveler.cli import completion
from graveler.cli.interrupts import moving
from graveler.cli.local_files import LeftOut, files_below, warn_of_defaults
from graveler.cli.locations import expect_local_files, open_repository, refuse_own_lake
from graveler.cli.options import (
    AsJson,
    Exclude,
    LakeOption,
    Message,
    Metadata,
    NoIgnore,
    Quiet,
    check_utf8,
    parse_exclude,
    parse_metadata,
)
from graveler.cli.progress import counting, shows_progress
from graveler.cli.request_options import commit_info, run_request
from graveler.cli.sums import show_import
from graveler.cli.terminal import Json, output, warn
from graveler.cli.uris import expect_branch, parse_prefix, refuse_addresses
from graveler.cli.values import commit_json, commit_line, count, human_size
from graveler.errors import GravelerError, InvalidError
from graveler.values.ignore_rules import FolderRules

IN_PLACE = (
    "the files stay where they are: whoever changes or deletes one damages the commits that have it. `graveler import --copy` "
    "keeps their bytes in the lake"
)
_COUNTED = 100_000
"""The most files whose sizes are summed up before an import, for its progress: that takes about a second."""


def import_(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="A folder or s3://BUCKET/PREFIX/; with --listing, one or more listings.",
            autocompletion=completion.files,
        ),
    ],
    uri: Annotated[
        str,
        typer.Argument(
            metavar="URI",
            help="lakefs://REPOSITORY/BRANCH/, optionally with a folder",
            autocompletion=completion.objects,
        ),
    ],
    listing: Annotated[
        bool,
        typer.Option("--listing", help="Import objects named in tables: CSV, Parquet, S3 Inventory's manifest.json."),
    ] = False,
    source: Annotated[
        str,
        typer.Option(
            "--source", metavar="PREFIX", help="Only rows whose key or URL starts with this, which is removed."
        ),
    ] = "",
    base: Annotated[str, typer.Option("--base", metavar="URL", help="URL that the keys are appended to.")] = "",
    columns: Annotated[
        str, typer.Option("--columns", metavar="A,B,C", help="Column names for CSV files without a header.")
    ] = "",
    url_encoded: Annotated[
        bool | None,
        typer.Option(
            "--url-encoded/--no-url-encoded",
            help="Whether keys are URL-encoded. [default: only in S3 Inventory's CSV files]",
        ),
    ] = None,
    folders: Annotated[
        bool, typer.Option("--folders", help="Include empty objects whose key ends with a slash: S3's folder markers.")
    ] = False,
    last_wins: Annotated[
        bool, typer.Option("--last-wins", help="If a key occurs twice, use its last row. [default: an error]")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Read the sources and show what the import would change, without changing it."),
    ] = False,
    allow_empty: Annotated[
        bool,
        typer.Option("--allow-empty", help="Accept an empty source, which removes everything at the destination."),
    ] = False,
    trust_mtime: Annotated[
        bool,
        typer.Option("--trust-mtime", help="Do not read the files; rely on their size and modification time."),
    ] = False,
    exclude: Exclude = None,
    no_ignore: NoIgnore = False,
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy the files of a folder into the lake, instead of using them in place.")
    ] = False,
    message: Message = "",
    meta: Metadata = None,
    quiet: Quiet = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Import files of a folder or bucket, or listed objects, without copying them.

    They stay where they are, and become one commit. They replace everything at the destination, and nothing else: what the source
    does not list is removed there. An empty source, such as a mistyped one, is therefore refused without --allow-empty. --dry-run
    shows what would be added, replaced and removed.

    Each file of a folder is read once, for its checksum. Do not change the files afterwards: the lake does not keep their bytes.
    With --copy it does: the files are copied, still as one commit, and may change. A lake on AWS imports only from S3.

    With --trust-mtime no file is read: its size and its modification time, in nanoseconds, stand in for its bytes. That is many
    times faster, but misses changes that keep both. The checksum of such an object is mtime:NANOSECONDS, so later reads compare
    the file's size and time instead of an MD5. Do not alternate with imports that read the files: each kind takes all objects of
    the other kind to be changed.

    Files that a .gravelerignore names, in its folder and below, are left out, and so are those that --exclude names. Both have
    the patterns of .gitignore. What is never data is left out with a warning: .git, .env, .ssh, __pycache__ and the like. With
    --exclude '!.env' one of them is taken, with --no-ignore all are, and .gravelerignore does not count.

    With --listing, the arguments before URI are tables of objects, or folders with such tables; the options from --source to
    --last-wins apply to them. The objects themselves are not examined: the listing is trusted. It has a column Key or path;
    Bucket, physical_address or --base to say where the objects are; Size and ETag; and optionally LastModifiedDate, content_type
    and metadata. --folders also applies to a prefix of a store.

    \b
    Examples:
      graveler import /data/2026 lakefs://quickstart/main/2026/
      graveler import ~/data lakefs://quickstart/main/data/ -m "First data"
      graveler import ~/data lakefs://quickstart/main/data/ --dry-run
      graveler import ~/drafts lakefs://quickstart/main/drafts/ --copy
      graveler import ~/data lakefs://quickstart/main/data/ --exclude '*.tmp'
      graveler import /archive lakefs://quickstart/main/ --trust-mtime
      graveler import s3://raw/2026/ lakefs://quickstart/main/2026/
      graveler import --listing inventory/manifest.json lakefs://quickstart/main/
      graveler import --listing --base s3://old/ --columns Key,Size,ETag \\
        list-1.csv list-2.csv lakefs://quickstart/main/old/

    \b
    JSON: one document {commit, objects, bytes, skipped_links, special_files,
      left_out, changes}; commit as in `commit`, null with --dry-run;
      skipped_links lists symbolic links that were not followed, special_files
      pipes, sockets and devices; changes {added, added_bytes, replaced,
      replaced_bytes_before, replaced_bytes_after, removed, removed_bytes,
      unchanged, unchanged_bytes, excluded, left_out}, of which the last two
      count what patterns and the defaults left out; left_out lists the latter.
    """
    from graveler.requests import importing  # not for the help

    to = parse_prefix(uri)
    expect_branch(to.repository, to.ref)
    refuse_addresses(sources, "graveler import SOURCE URI")
    if to.path and not to.path.endswith("/"):
        raise InvalidError(
            f"a folder is imported into a folder, but {to.path!r} does not end with '/': write {to.path + '/'!r}"
        )
    if listing and trust_mtime:
        raise InvalidError(
            "--trust-mtime applies only to files, and with --listing the objects are not examined; leave it out"
        )
    parse_metadata(meta)
    patterns = parse_exclude(exclude)
    sources = [source.removeprefix("file://") for source in sources]
    at_address = not listing and "://" in sources[0]
    if copy and (listing or at_address):
        raise InvalidError("--copy is for the files of a folder; objects of a store stay where they are: leave it out")
    if listing or at_address:
        for option, value in (("--exclude", patterns), ("--no-ignore", no_ignore)):
            if value:
                raise InvalidError(f"{option} applies to the files of a folder; leave it out")
    if not listing:
        _refuse_options(
            {
                "--source": source,
                "--base": base,
                "--columns": columns,
                "--url-encoded": url_encoded is not None,
                "--last-wins": last_wins,
            }
        )
        if folders and not at_address:
            raise InvalidError(
                "--folders applies to objects of a store or a listing; files have no folder markers: leave it out"
            )
        if len(sources) > 1:
            raise InvalidError(f"cannot import {len(sources)} folders at a time; import them one by one")
        if not at_address:
            expect_local_files(f"import {sources[0]!r}", lake)
            refuse_own_lake(Path(sources[0]), lake)
    repository = open_repository(lake, to.repository)
    reads = not (listing or at_address or trust_mtime)
    rules = FolderRules.of(patterns, ignore=not no_ignore)
    total = _size_of(Path(sources[0]), rules) if reads and shows_progress(quiet=quiet) else None
    with moving(repository, to.ref), counting("importing", total, noun="objects", quiet=quiet) as progress:
        request: importing.ImportListing | importing.ImportAddresses | importing.ImportFolder
        if listing:
            options = importing.ListingOptions(
                check_utf8("--source", source),
                to.path,
                check_utf8("--base", base),
                tuple(name.strip() for name in columns.split(",")) if columns else (),
                url_encoded,
                folders,
                last_wins,
            )
            request = importing.ImportListing(
                branch=to.ref,
                listing=tuple(Path(source) for source in sources),
                options=options,
                info=commit_info(message, meta),
                allow_empty=allow_empty,
                dry_run=dry_run,
            )
        elif at_address:
            address = sources[0] if sources[0].endswith("/") else f"{sources[0]}/"
            request = importing.ImportAddresses(
                branch=to.ref,
                sources=(importing.ImportAddress(importing.AddressType.COMMON_PREFIX, address, to.path),),
                info=commit_info(message or f"Import {address}", meta),
                allow_empty=allow_empty,
                dry_run=dry_run,
                trust_mtime=trust_mtime,
                folders=folders,
            )
        else:
            request = importing.ImportFolder(
                branch=to.ref,
                folder=Path(sources[0]),
                destination=to.path,
                info=commit_info(message, meta),
                allow_empty=allow_empty,
                dry_run=dry_run,
                trust_mtime=trust_mtime,
                copy=copy,
                exclude=patterns,
                ignore=not no_ignore,
            )
        imported = run_request(repository, request, progress=progress)
    if not (listing or at_address or copy or dry_run) and os.access(sources[0], os.W_OK):
        warn(IN_PLACE)
    from msgspec.structs import asdict

    screen = output(as_json=as_json)
    changes = imported.changes
    LeftOut(list(imported.skipped), list(imported.special)).warn()
    warn_of_defaults(changes.left_out, imported.left_out)
    commit = None if dry_run else commit_json(imported)
    document: Json = {"commit": commit, "objects": changes.objects, "bytes": changes.bytes}
    left_out = {"skipped_links": imported.skipped, "special_files": imported.special, "left_out": imported.left_out}
    amount = f"{count(changes.objects, 'object' if listing else 'file')}, {human_size(changes.bytes)}"
    sentence = f"import {amount}, into {screen.safe(str(to))}"
    screen.answer(
        {**document, **left_out, "changes": asdict(changes)},
        f"would {sentence}; nothing was changed"
        if dry_run
        else commit_line(screen, sentence.replace("import", "imported", 1), imported),
    )
    show_import(screen, changes, would=dry_run)


def _size_of(folder: Path, rules: FolderRules) -> int | None:
    """Return the bytes of the files that an import of this folder reads, for its progress; None if there are too many to count
    them first, or if something in the folder cannot be read, which the import reports."""
    total = 0
    try:
        for number, (file, _) in enumerate(files_below(folder, rules=rules)):
            if number == _COUNTED:
                return None
            total += file.stat().st_size
    except (GravelerError, OSError):
        return None
    return total


def _refuse_options(options: dict[str, str | bool]) -> None:
    for name, value in options.items():
        if value:
            raise InvalidError(f"{name} applies to the rows of a listing; it works only with --listing")
