"""The verbs for Iceberg tables."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.exits import ExitCode
from graveler.cli.locations import open_own_lake, open_repository, user_name
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.pager import NoPager, paged
from graveler.cli.terminal import Screen, output
from graveler.cli.times import parse_moment
from graveler.cli.uris import parse_ref
from graveler.cli.values import SHORT, commit_json, count, first_line, human_size, moment

if TYPE_CHECKING:
    from graveler.sdk.iceberg_tables import Expiry, Table, Tables, TableVersion

app = Commands(help="Show, check and tidy Iceberg tables.")

Ref = Annotated[str, typer.Argument(metavar="REF", help="lakefs://REPOSITORY/REF", autocompletion=completion.branches)]
Branch = Annotated[
    str, typer.Argument(metavar="BRANCH", help="lakefs://REPOSITORY/BRANCH", autocompletion=completion.branches)
]
Name = Annotated[str, typer.Argument(metavar="TABLE", help="Its namespace and its name, as shop.orders.")]


@app.command("ls")
def list_(
    ref: Ref,
    namespace: Annotated[
        str, typer.Argument(metavar="NAMESPACE", help="Only its tables, and those of namespaces below it.")
    ] = "",
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """List the Iceberg tables of a ref.

    \b
    Examples:
      graveler table ls lakefs://quickstart/main
      graveler table ls lakefs://quickstart/v1 shop

    \b
    JSON: a line {name, uuid, snapshot_id, path, changed} for each;
      snapshot_id is null for a table without a snapshot.
    """
    screen = output(as_json=as_json)
    for table in _tables(lake, ref).list(namespace):
        when = screen.paint(moment(table.entry.mtime), "dim")
        screen.answer(
            {
                "name": table.name,
                "uuid": table.uuid,
                "snapshot_id": table.snapshot_id,
                "path": table.entry.path,
                "changed": table.entry.mtime,
            },
            f"{when}  {screen.safe(table.name)}",
        )


@app.command()
def show(ref: Ref, name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show an Iceberg table: its columns, partitions, snapshot and size.

    \b
    Example:
      graveler table show lakefs://quickstart/main shop.orders

    \b
    JSON: one document {name, commit_id, path, rows, files, delete_files,
      size, metadata}; metadata is the table's, as Iceberg specifies it. A
      number is null if the snapshot does not state it.
    """
    table = _tables(lake, ref).load(name)
    screen = output(as_json=as_json)
    totals = {key: table.total(total) for key, total in _TOTALS.items()}
    screen.answer(
        {
            "name": table.name,
            "commit_id": table.commit_id,
            "path": table.entry.path,
            **totals,
            "metadata": table.metadata,
        },
        *screen.fields(dict(_fields(table, totals))),
    )


@app.command()
def history(
    ref: Ref,
    name: Name,
    limit: Annotated[
        int | None, typer.Option("--number", "-n", metavar="N", min=1, help="Show at most N commits.")
    ] = None,
    no_pager: NoPager = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the commits that changed an Iceberg table, and the snapshots that came with each.

    Follows the first parent of merges, so a merge is one commit. A snapshot that has expired in the table is not shown; its
    commit still has it.

    \b
    Examples:
      graveler table history lakefs://quickstart/main shop.orders
      graveler table history lakefs://quickstart/main shop.orders -n 3 --json

    \b
    JSON: a line {commit, snapshot_id, snapshots} for each commit, the newest
      first: commit as in `commit`, snapshot_id the table's current one there,
      snapshots those that came with it, as in the table's metadata.
    """
    versions = _tables(lake, ref).history(name)
    with paged(direct=no_pager, as_json=as_json) as screen:
        for index, version in enumerate(versions):
            if index == limit:
                return
            document = {
                "commit": commit_json(version.commit),
                "snapshot_id": version.snapshot_id,
                "snapshots": list(version.snapshots),
            }
            screen.answer(document, *_version_lines(screen, version))


@app.command()
def check(ref: Ref, name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Check an Iceberg table: that it follows the table specification, and that no file is missing.

    Reads all manifests of the table, and one byte of each of its files. The exit code is 8 if anything is wrong. `graveler fsck`
    checks a whole repository, but does not look into tables.

    \b
    Example:
      graveler table check lakefs://quickstart/main shop.orders

    \b
    JSON: a line {place, problem} for each rule that the table does not follow.
    """
    violations = _tables(lake, ref).load(name).check()
    screen = output(as_json=as_json)
    for violation in violations:
        screen.answer(violation._asdict(), screen.safe(str(violation)))
    screen.note(screen.paint(f"{count(len(violations), 'problem')} found" if violations else "nothing is wrong", "dim"))
    if violations:
        raise typer.Exit(ExitCode.CORRUPT)


@app.command()
def expire(
    ref: Branch,
    name: Name,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Remove those older than TIME: 2026-11-20, or 7d (ago).")
    ] = "",
    keep_last: Annotated[
        int | None,
        typer.Option("--keep-last", metavar="N", min=1, help="Keep the newest N of each branch of the table."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, without removing it.")
    ] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Remove old snapshots from an Iceberg table's metadata, in one commit of the branch.

    Without options, the table's properties history.expire.max-snapshot-age-ms and history.expire.min-snapshots-to-keep decide: by
    default, all snapshots older than five days except the last one are removed. Snapshots that a branch or a tag of the table
    needs stay. Earlier commits of the repository keep their snapshots; garbage collection removes files once no retained commit
    has them.

    \b
    Examples:
      graveler table expire lakefs://quickstart/main shop.orders --dry-run
      graveler table expire lakefs://quickstart/main shop.orders \\
          --older-than 7d --keep-last 10

    \b
    JSON: one document {snapshots, refs, commit, dry_run}: the snapshots as in
      the table's metadata, refs the names of expired branches and tags of the
      table, commit as in `commit`, null for a dry run or if nothing has
      expired.
    """
    limit = parse_moment("--older-than", older_than) if older_than else None
    expiry = _tables(lake, ref).expire(name, older_than=limit, keep_last=keep_last, dry_run=dry_run)
    screen = output(as_json=as_json)
    document = {
        "snapshots": list(expiry.snapshots),
        "refs": list(expiry.refs),
        "commit": None if expiry.commit is None else commit_json(expiry.commit),
        "dry_run": dry_run,
    }
    screen.answer(document, *_expiry_lines(screen, expiry))


@app.command("rewrite-location")
def rewrite_location(
    ref: Branch,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE]...", help="Tables and views, as shop.orders; all without one."),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite the locations in a branch's Iceberg tables after the lake was moved to another folder, bucket or prefix.

    Metadata and manifests of tables hold absolute locations, so the tables of a lake that was moved cannot be loaded until their
    locations are rewritten. One commit of the branch rewrites all of its tables and views. Snapshots and data files do not
    change, nor do earlier commits: their tables can be read only at the former location. Tables whose locations are right stay
    as they are. Run it where the lake itself is opened, not through a server.

    \b
    Examples:
      graveler table rewrite-location lakefs://quickstart/main
      graveler table rewrite-location lakefs://quickstart/main shop.orders

    \b
    JSON: one document {tables, views, commit}: the names of the tables and
      views that were rewritten, and commit as in `commit`; null if there
      are none.
    """
    from graveler.sdk.iceberg_tables import Tables  # not for the help

    uri = parse_ref(ref)
    own_tables = Tables(open_own_lake(lake).repository(uri.repository), uri.ref, user_name())
    rewritten = own_tables.rewrite_locations(*names or ())
    tables, views = ([str(name) for name in names] for names in (rewritten.tables, rewritten.views))
    screen = output(as_json=as_json)
    if not tables and not views:
        screen.answer({"tables": [], "views": [], "commit": None}, "all locations are right")
        return
    commit = rewritten.commit
    counted = " and ".join(count(len(names), kind) for names, kind in ((tables, "table"), (views, "view")) if names)
    screen.answer(
        {"tables": tables, "views": views, "commit": commit_json(commit)},
        f"rewrote {counted}: {screen.paint(commit.id[:SHORT], 'yellow')} {screen.safe(first_line(commit.message))}",
    )


def _expiry_lines(screen: Screen, expiry: "Expiry") -> Iterator[str]:
    if not expiry.snapshots and not expiry.refs:
        yield "nothing has expired"
        return
    for snapshot in expiry.snapshots:
        when = screen.paint(moment(snapshot["timestamp-ms"] // 1_000), "dim")
        yield f"{when}  snapshot {screen.safe(_snapshot_text(snapshot))}"
    for name in expiry.refs:
        yield f"branch or tag {screen.safe(name)} of the table"
    amount = count(len(expiry.snapshots), "snapshot")
    if expiry.commit is None:  # a dry run
        yield f"would remove {amount}"
        return
    commit_id = screen.paint(expiry.commit.id[:SHORT], "yellow")
    yield f"removed {amount}: {commit_id} {screen.safe(first_line(expiry.commit.message))}"


_TOTALS = {"rows": "records", "files": "data-files", "delete_files": "delete-files", "size": "files-size"}
"""Totals of a snapshot's summary, by their names here."""


def _tables(lake: LakeOption, ref: str) -> "Tables":
    from graveler.sdk.iceberg_tables import Tables  # not for the help

    uri = parse_ref(ref)
    return Tables(open_repository(lake, uri.repository), uri.ref, user_name())


def _fields(table: "Table", totals: dict[str, int | None]) -> Iterator[tuple[str, str]]:
    from graveler.table_format.column_types import type_text
    from graveler.table_format.schema_rules import columns
    from graveler.table_format.table_metadata import current_schema, default_spec

    metadata, snapshot = table.metadata, table.snapshot
    yield "table", table.name
    yield "commit", table.commit_id[:SHORT]
    yield "location", metadata["location"]
    yield "format version", str(metadata["format-version"])
    for column in columns(current_schema(metadata)):
        required = " required" if column.required else ""
        yield f"column {column.name}", f"{type_text(column.type)}{required}"
    fields = default_spec(metadata)["fields"]
    yield "partitioned by", ", ".join(f"{field['name']} ({field['transform']})" for field in fields) or "nothing"
    yield "snapshot", "none" if snapshot is None else _snapshot_text(snapshot)
    yield "snapshots", f"{len(metadata['snapshots']):,}"
    for name, total in totals.items():
        text = "unknown" if total is None else human_size(total) if name == "size" else f"{total:,}"
        yield name.replace("_", " "), text


def _version_lines(screen: Screen, version: "TableVersion") -> Iterator[str]:
    commit = version.commit
    head = screen.paint(commit.id[:SHORT], "yellow")
    yield f"{head}  {screen.paint(moment(commit.created), 'dim')}  {screen.safe(first_line(commit.message))}".rstrip()
    for snapshot in version.snapshots:
        yield f"    snapshot {screen.safe(_snapshot_text(snapshot))}"


def _snapshot_text(snapshot: dict[str, Any]) -> str:
    summary = snapshot.get("summary") or {}
    rows = [f"{sign}{count(int(summary[name]), 'row')}" for sign, name in _ROWS if int(summary.get(name, 0))]
    return " ".join([str(snapshot["snapshot-id"]), str(summary.get("operation", "")), *rows]).rstrip()


_ROWS = (("+", "added-records"), ("-", "deleted-records"))
