"""The verb that exports a ref's objects as files of a folder, incrementally: export."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.exits import InterruptedVerbError, ListedError
from graveler.cli.locations import open_repository, refuse_inside_of_lake, refuse_own_lake
from graveler.cli.options import AsJson, LakeOption, Quiet
from graveler.cli.progress import counting, shows_progress
from graveler.cli.request_options import request_fields, run_request, with_options
from graveler.cli.skipped import report_left_out
from graveler.cli.terminal import Screen, output
from graveler.cli.uris import parse_prefix, refuse_address_as_target
from graveler.cli.values import SHORT, count, human_size
from graveler.errors import InvalidError

if TYPE_CHECKING:
    from graveler.requests.exporting import ExportReport


@with_options(lambda: requests.exporting.Export, before="quiet")
def export(
    context: typer.Context,
    uri: Annotated[
        str,
        typer.Argument(
            metavar="URI",
            help="lakefs://REPOSITORY/REF/, optionally with a folder",
            autocompletion=completion.objects,
        ),
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new or empty folder, or one from an earlier export.")
    ],
    quiet: Quiet = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Export a ref's objects to a folder, writing only those that differ.

    An earlier export in the folder is updated to the ref's commit: files from it that differ are rewritten or removed, and other
    files stay. Uncommitted changes are not exported. Objects that cannot be files are left out and listed; the exit code is then
    2, unless all of them are empty folder markers. Each file appears only when it is complete and its bytes match the lake. An
    interrupted export is finished by the next one.

    \b
    Examples:
      graveler export lakefs://quickstart/v1/data/ ./data
      graveler export lakefs://quickstart/main/ /srv/main --verify --threads 16

    \b
    JSON: one document {commit_id, written, removed, bytes, problems, modified};
      problems are {path, why} of objects that cannot be files and were left
      out, modified are files that someone changed. If there are any of those,
      commit_id is null.
    """
    from graveler.lake.exporting.export import ModifiedExportError
    from graveler.model import CommitID

    refuse_address_as_target(folder, "FOLDER", "graveler export URI FOLDER")
    source = parse_prefix(uri)
    if source.path and not source.path.endswith("/"):
        raise InvalidError(
            f"only a folder can be exported, but {source.path!r} does not end with '/': write {source.path + '/'!r}"
        )
    refuse_own_lake(folder, lake)
    refuse_inside_of_lake(folder, lake)
    repository = open_repository(lake, source.repository)
    request = requests.exporting.Export(ref=source.ref, folder=folder, prefix=source.path, **request_fields(context))
    screen = output(as_json=as_json)
    try:
        is_first = shows_progress(quiet=quiet) and (not folder.is_dir() or not any(folder.iterdir()))
        total = repository.du(repository.commit_of(source.ref).id, source.path).size if is_first else None
        with counting("exporting", total, quiet=quiet) as progress:
            report = run_request(repository, request, progress=progress)
    except KeyboardInterrupt:
        if request.dry_run:
            raise InterruptedVerbError from None
        raise InterruptedVerbError(
            f"{str(folder)!r} may contain a part of the export, of complete files; run the export again to finish it"
        ) from None
    except ModifiedExportError as error:
        nothing = requests.exporting.ExportReport(CommitID(""))
        screen.answer(_export_json(nothing) | {"modified": list(error.paths)})
        raise ListedError(error, error.paths) from None
    screen.answer(_export_json(report), _sentence(screen, report, folder, dry_run=request.dry_run))
    report_left_out(report.left_out)


def _sentence(screen: Screen, report: "ExportReport", folder: Path, *, dry_run: bool) -> str:
    target = f"{screen.safe(str(folder))}, at {screen.paint(report.commit_id[:SHORT], 'yellow')}"
    if not report.written and not report.removed:
        return f"nothing to export to {target}"
    written = f"{count(report.written, 'file')} ({human_size(report.size)})"
    removed = count(report.removed, "file")
    if dry_run:
        return f"would write {written} and remove {removed} in {target}; nothing was changed"
    return f"wrote {written} and removed {removed} in {target}"


def _export_json(report: "ExportReport") -> dict[str, object]:
    return {
        "commit_id": report.commit_id or None,
        "written": report.written,
        "removed": report.removed,
        "bytes": report.size,
        "problems": [{"path": path, "why": reason} for path, reason in report.left_out],
        "modified": [],
    }
