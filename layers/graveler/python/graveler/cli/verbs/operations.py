"""The verbs for background operations: long-running imports, merges and commits, dumps, garbage collections."""

from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.locations import Named, connection_to, open_own_lake
from graveler.cli.options import OF_USE, AsJson, LakeOption
from graveler.cli.sums import show_import
from graveler.cli.terminal import Json, Screen, output
from graveler.cli.uris import parse_repository
from graveler.cli.values import moment
from graveler.errors import CorruptError

if TYPE_CHECKING:
    from graveler.operations.store import Operation, Operations, WorkDone
    from graveler.remote.background_operations import RemoteOperations

app = Commands(help="Show and cancel operations that run in the background, on a server or on AWS.")

Repository = Annotated[
    str,
    typer.Argument(metavar="REPOSITORY", help="lakefs://NAME, or just NAME.", autocompletion=completion.repositories),
]
DefaultRepository = Annotated[
    str | None,
    typer.Argument(
        metavar="REPOSITORY", help=f"lakefs://NAME, or just NAME. {OF_USE}", autocompletion=completion.repositories
    ),
]
OperationID = Annotated[str, typer.Argument(metavar="ID", help="The operation's ID.")]


@app.command("list")
def list_(
    repository: DefaultRepository = None,
    running: Annotated[bool, typer.Option("--running", help="Only operations that have not ended.")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """List running and recent operations. Those that ended within a week are included.

    Damaged entries are reported as an error at the end.

    \b
    Examples:
      graveler operations list quickstart
      graveler operations list quickstart --running --json

    JSON: a line for each, as in `operations show`, without progress and commit_id.
    """
    operations = _operations(lake, repository)
    screen = output(as_json=as_json)
    damaged: list[CorruptError] = []
    for operation in sorted(operations.all(damaged.append), key=lambda operation: operation.created):
        if running and operation.is_finished:
            continue
        work = screen.safe(f"{operation.kind} {operation.branch}".strip())
        state = screen.paint(operation.state.value, _COLOURS[operation.state.value])
        line = f"{operation.id}  {moment(int(operation.created))}  {state}  {work}"
        screen.answer(_json(operation), line)
    if damaged:
        raise damaged[0]


@app.command()
def show(repository: Repository, operation: OperationID, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show the progress and outcome of an operation.

    \b
    Example:
      graveler operations show quickstart 0f6c1b9a7e624b5e9d3c2a1b4f5e6d70

    JSON: one document {id, kind, branch, state, created, updated, attempt,
    objects, result, error, commit_id, changes, progress: {parts, parts_done,
    records, records_done, bytes, bytes_done}}; commit_id is empty until the
    commit exists; changes (as in `import`) exist only for completed imports,
    progress only for operations that work in parts.
    """
    operations = _operations(lake, repository)
    stored = operations.get(operation)
    _show(output(as_json=as_json), stored, operations.progress(stored), operations.commit(stored))


@app.command()
def cancel(repository: Repository, operation: OperationID, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Cancel an operation: from now on it cannot commit anything.

    Its worker notices within a few seconds. An operation that has already ended, for example with its commit, cannot be
    cancelled. What a dump, a check or a collection has done so far stays.

    \b
    Example:
      graveler operations cancel quickstart 0f6c1b9a7e624b5e9d3c2a1b4f5e6d70

    JSON: one document, as in `operations list`.
    """
    cancelled = _cancel(lake, parse_repository(repository), operation)
    sentence = f"cancelled {cancelled.kind} {cancelled.id}; {cancelled.left}"
    output(as_json=as_json).answer(_json(cancelled), sentence)


def _operations(lake: Named | None, repository: str | None) -> "Operations | RemoteOperations":
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.background_operations import RemoteOperations

        return RemoteOperations(connection, parse_repository(repository))
    from graveler.operations.store import Operations

    opened = open_own_lake(lake)
    return Operations(opened.tables, opened.repository(parse_repository(repository)).repository.uid)


def _cancel(lake: Named | None, repository: str, operation: str) -> "Operation":
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.background_operations import RemoteOperations

        return RemoteOperations(connection, repository).cancel(operation)
    from graveler.operations.dispatcher import Dispatcher

    opened = open_own_lake(lake)
    return Dispatcher(opened.tables, {}).cancel(opened.repository(repository), operation)


def _show(screen: Screen, operation: "Operation", done: "WorkDone", commit: str) -> None:
    from graveler.operations.store import COMMITTING  # not for the help

    progress = {
        "parts": operation.parts,
        "parts_done": done.parts,
        "records": operation.records,
        "records_done": done.records,
        "bytes": operation.bytes,
        "bytes_done": done.bytes,
    }
    document = {**_json(operation), "commit_id": commit, **({"progress": progress} if operation.parts else {})}
    fields = {
        "operation": operation.id,
        "kind": operation.kind,
        "branch": operation.branch,
        "state": operation.state.value,
        "created": moment(int(operation.created)),
        "updated": moment(int(operation.updated)),
        "attempt": str(operation.attempt),
        "parts": f"{done.parts:,} of {operation.parts:,}" if operation.parts else "",
        "records": f"{done.records:,} of about {operation.records:,}" if operation.parts else "",
        "objects": f"{operation.objects:,}" if operation.objects else "",
        "commit": (commit or "none") if operation.kind in COMMITTING else "",
        "result": operation.result if operation.kind not in COMMITTING else "",
        "error": operation.error,
    }
    screen.answer(document, *screen.fields({name: value for name, value in fields.items() if value}))
    if operation.changes is not None:
        show_import(screen, operation.changes, would=not operation.result)  # a dry run made no commit


def _json(operation: "Operation") -> Json:
    from msgspec.structs import asdict  # not for the help

    changes: Json = {} if operation.changes is None else {"changes": asdict(operation.changes)}
    return {
        **changes,
        "id": operation.id,
        "kind": operation.kind,
        "branch": operation.branch,
        "state": operation.state.value,
        "created": int(operation.created),
        "updated": int(operation.updated),
        "attempt": operation.attempt,
        "objects": operation.objects,
        "result": operation.result,
        "error": operation.error,
    }


_COLOURS = {"running": "yellow", "completed": "green", "failed": "red", "cancelled": "dim"}
