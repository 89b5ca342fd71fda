"""The verbs for the upkeep of a repository: fsck, dump, dumps, restore."""

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli import completion
from graveler.cli.exits import ExitCode, InterruptedVerbError
from graveler.cli.locations import Named, connection_to, open_own_lake, user_name
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.progress import phases
from graveler.cli.terminal import Json, Screen, output
from graveler.cli.uris import SCHEME, parse_repository
from graveler.cli.values import SHORT, count, human_size, repository_json
from graveler.errors import InvalidError
from graveler.values.addresses import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graveler.lake.dump.chunks import Manifest
    from graveler.lake.dump.restore import Restored
    from graveler.lake.fsck.findings import Finding, Report
    from graveler.remote.checks_and_dumps import RemoteUpkeep
    from graveler.wire.upkeep_documents import DumpDocument

_SHOWN_REFS = 8
_SHOWN_COMMITS = 5
_SHOWN_MISSING = 20

Name = Annotated[
    str,
    typer.Argument(metavar="REPOSITORY", help="lakefs://NAME, or just NAME.", autocompletion=completion.repositories),
]


def fsck(
    name: Name,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")] = False,
    objects: Annotated[
        bool, typer.Option("--all-objects", help="Also check existence and size of the objects of all commits.")
    ] = False,
    outside: Annotated[
        bool, typer.Option("--outside", help="Include objects in other stores, such as imported ones in a bucket.")
    ] = False,
    read_bytes: Annotated[
        bool,
        typer.Option("--bytes", help="Read all these objects and verify size and checksum; implies --all-objects."),
    ] = False,
    no_reflog: Annotated[
        bool, typer.Option("--no-reflog", help="Skip commits that only the reference logs lead to.")
    ] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Check everything reachable in a repository, and report what is wrong.

    Reads refs, uncommitted changes, commits and trees, and checks existence and size of uncommitted objects, and of imported or
    linked files on this machine. In a folder, SQLite checks the table's file, too. The repository stays usable meanwhile. With
    --bytes every byte of the objects is read, several objects at a time. A checksum that is not an MD5 (of
    multipart uploads, and of imports from stores with other ETags) cannot be verified, so only the size of such an object is
    compared; counts.objects_by_size says how many there are. The last lines say what was not checked.

    The exit code is 8 if anything is still wrong at the end. If nothing is wrong, but the check is incomplete, it is 10 if a
    later version of graveler made a commit, which this version cannot check, and 9 if an object cannot be read from here, or
    --all-objects met one in another store without --outside.

    \b
    Examples:
      graveler fsck lakefs://quickstart
      graveler fsck lakefs://quickstart --all-objects --outside
      graveler fsck lakefs://quickstart --bytes
      graveler fsck lakefs://quickstart --repair

    \b
    JSON: one document
      {repository, clean, complete, checked, findings, counts, garbage};
      clean is true if the check is complete, and nothing is wrong in what
      was checked; checked is {reflog, committed_objects, outside_objects,
      object_bytes, table, garbage}, table is sound, damaged, not
      applicable, or not checked, garbage is false if nothing is known
      about it because of a later version's commits;
      findings are {kind, what, why, remedy, first, last, refs, commits,
      commit_count, repaired}, first and last are paths or null, refs are
      {kind, name, in_history};
      counts and garbage (unreachable files) are numbers by name.
    """
    name = parse_repository(name)
    scope: dict[str, bool] = {
        "repair": repair,
        "reflog": not no_reflog,
        "committed_objects": objects,
        "outside_objects": outside,
        "object_bytes": read_bytes,
    }
    try:
        if (upkeep := _served(lake, name)) is not None:
            report = upkeep.fsck(**scope)
        else:
            with phases("checking") as progress:
                report = open_own_lake(lake).repository(name).fsck(**scope, progress=progress)
    except KeyboardInterrupt:
        if not repair:
            raise InterruptedVerbError from None
        raise InterruptedVerbError("repairs made so far are kept; run it again for the rest") from None
    screen = output(as_json=as_json)
    screen.answer(_report_json(report), *_report_lines(screen, report, repair=repair))
    if report.remaining:
        raise typer.Exit(ExitCode.CORRUPT)
    if not report.complete:
        raise typer.Exit(ExitCode.LATER_VERSION if report.later else ExitCode.UNAVAILABLE)


def dump(name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Save a repository's refs and uncommitted changes next to its objects.

    If the lake's table is lost, `graveler restore` recreates the repository from such a dump and the objects. Commits are stored
    there anyway. The reference log is not included. The repository stays usable meanwhile.

    \b
    Example:
      graveler dump lakefs://quickstart

    \b
    JSON: one document
      {id, repository, namespace, created, branches, tags, staged}
    """
    name = parse_repository(name)
    manifest: Manifest | DumpDocument
    if (upkeep := _served(lake, name)) is not None:
        try:
            manifest = upkeep.dump()
        except KeyboardInterrupt:
            raise InterruptedVerbError("the dump continues on the server") from None
    else:
        try:
            with phases("dumping") as progress:
                manifest = open_own_lake(lake).repository(name).dump(progress=progress)
        except KeyboardInterrupt:
            raise InterruptedVerbError("no dump was created") from None
    screen = output(as_json=as_json)
    screen.answer(
        _dump_json(manifest),
        f"dumped {name} as {screen.paint(manifest.id, 'bold')}: {_contents(manifest)}",
        screen.paint(f"to restore: graveler restore {manifest.namespace} {manifest.id} {SCHEME}NAME", "dim"),
    )


def dumps(
    location: Annotated[
        str, typer.Argument(metavar="PLACE", help="A repository's namespace (a URL), or lakefs://REPOSITORY.")
    ],
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """List the complete dumps in a namespace, oldest first.

    \b
    Examples:
      graveler dumps lakefs://quickstart
      graveler dumps local://quickstart     (a lost repository)

    JSON: a line {id, namespace} for each.
    """
    screen = output(as_json=as_json)
    for dump_id, namespace in _dumps(lake, location):
        screen.answer({"id": dump_id, "namespace": namespace}, screen.safe(dump_id))


def restore(
    namespace: Annotated[
        str, typer.Argument(metavar="NAMESPACE", help="Where the dump and the objects are, such as local://quickstart.")
    ],
    dump_id: Annotated[str, typer.Argument(metavar="DUMP", help="The dump's ID; see `graveler dumps`.")],
    name: Name,
    looser_rules: Annotated[
        bool, typer.Option("--looser-rules", help="Restore it even if its lake had rules for it that this one has not.")
    ] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Recreate a repository from a dump.

    Its branches point where they did, and have their uncommitted changes. Its rules come with it, and this lake's take the place
    of those that its former lake had for it. The name must be free, and no other lake may still use the namespace.

    \b
    Example:
      graveler restore local://quickstart 20260131T120000Z-0a1b2c3d \\
        lakefs://quickstart

    \b
    JSON: one document
      {repository, dump_id, branches, tags, staged, commits, missing};
      repository as in `repo create`; missing lists lost commits as
      {commit, parent}, where commit names parent as its parent.
    """
    if "://" not in namespace or scheme_of(namespace):
        raise InvalidError(
            f"{namespace!r} is not a storage namespace; name one, such as local://quickstart (see `graveler repo show`)"
        )
    name = parse_repository(name)
    namespace = namespace.rstrip("/")
    try:
        if (upkeep := _served(lake, name)) is not None:
            restored = upkeep.restore(namespace, dump_id, looser_rules=looser_rules)
        else:
            with phases("restoring") as progress:
                restored = open_own_lake(lake).restore(
                    namespace, dump_id, name, by=user_name(), progress=progress, looser_rules=looser_rules
                )
    except KeyboardInterrupt:
        raise InterruptedVerbError(
            f"if `graveler repo show {name}` does not find the repository, run the restore again"
        ) from None
    screen = output(as_json=as_json)
    contents = f"{_contents(restored)}, {count(restored.commits, 'commit')}"
    screen.answer(
        _restored_json(restored),
        f"restored {screen.paint(SCHEME + name, 'bold')}: {contents}",
        *_missing_lines(screen, restored, name),
    )


def _contents(saved: "Manifest | DumpDocument | Restored") -> str:
    return f"{count(saved.branches, 'branch')}, {count(saved.tags, 'tag')}, {count(saved.staged, 'uncommitted change')}"


def _missing_lines(screen: Screen, restored: "Restored", name: str) -> "Iterator[str]":
    for lost in restored.missing[:_SHOWN_MISSING]:
        named = f"parent of {lost.commit[:SHORT]}" if lost.commit else "named by a ref"
        yield screen.paint(f"  lost: commit {lost.parent[:SHORT]}, {named}", "red")
    if len(restored.missing) > _SHOWN_MISSING:
        yield f"  … and {len(restored.missing) - _SHOWN_MISSING:,} more; --json lists all"
    if restored.missing:
        yield f"see `graveler fsck {SCHEME}{name}` for what that affects"


def _report_lines(screen: Screen, report: "Report", *, repair: bool) -> "Iterator[str]":
    kind = attrgetter("kind.value")
    for heading, group in groupby(sorted(report.findings, key=kind), key=kind):
        findings = list(group)
        yield screen.paint(f"{heading} ({len(findings):,})", "bold")
        for finding in findings:
            yield from _finding_lines(screen, finding)
        yield ""
    counts, garbage = report.counts, report.garbage
    refs = f"{count(counts.branches, 'branch')}, {count(counts.tags, 'tag')}"
    trees = f"{count(counts.commits, 'commit')}, {count(counts.metaranges, 'tree')}, {count(counts.ranges, 'range')}"
    records = f"{count(counts.records, 'record')}, {count(counts.staged, 'uncommitted change')}"
    read = f" with {human_size(counts.bytes)}" if counts.bytes else ""
    yield f"checked {refs}, {trees}, {records}, {count(counts.objects, 'object')}{read}"
    if counts.objects_by_size:
        compared = count(counts.objects_by_size, "object")
        yield f"compared only by size (or size and time): {compared} whose checksum is not an MD5"
    left_out = list(_not_checked(report))
    for line in left_out:
        yield screen.safe(f"not checked: {line}")
    files = garbage.commit_records + garbage.metaranges + garbage.ranges
    if files or garbage.commit_items:
        commits = count(garbage.commit_items, "commit")
        sums = f"{count(files, 'file')}, {human_size(garbage.bytes)}, {commits} in the table"
        yield screen.paint(f"harmless garbage: {sums}", "dim")
    remaining = len(report.remaining)
    repaired = len(report.findings) - remaining - len(report.later)
    if repaired:
        yield screen.paint(f"repaired: {repaired:,}", "green")
    if remaining:
        advice = "" if repair else "; --repair fixes what can be fixed"
        yield screen.paint(f"wrong: {remaining:,}{advice}", "red", "bold")
    elif report.complete:
        covered = " in what was checked" if left_out else ""
        yield screen.paint(f"nothing is wrong{' now' * bool(repaired)}{covered}", "green")
    else:
        advice = ": upgrade graveler, and check again" if report.later else ""
        verdict = f"nothing is wrong in what was checked, but the check is incomplete{advice}"
        yield screen.paint(verdict, "yellow", "bold")


def _not_checked(report: "Report") -> "Iterator[str]":
    """Yield what the check did not look at, and what to do about it."""
    from graveler.lake.fsck.findings import TableState

    counts, scope = report.counts, report.scope
    if report.later:
        later = count(len(report.later), "commit")
        yield f"{later} that a later version of graveler made, and what only such commits lead to: upgrade graveler"
    if not scope.garbage:
        yield "what is garbage: commits of later versions may need it"
    if counts.objects_out_of_reach:
        lost = count(counts.objects_out_of_reach, "object")
        yield f"{lost} that cannot be read from here: {report.obstacle}"
    if elsewhere := counts.objects_not_checked - counts.objects_out_of_reach:
        yield f"{count(elsewhere, 'object')} in other stores (--outside includes them)"
    if not scope.committed_objects:
        yield "objects of commits, except files on this machine outside of the lake (--all-objects)"
    if not scope.object_bytes:
        yield "the objects' bytes (--bytes)"
    if not scope.reflog:
        yield "what only reference logs lead to, because of --no-reflog"
    if scope.table is TableState.NOT_CHECKED:
        yield "the file of the table: the server has an older version of graveler"


def _finding_lines(screen: Screen, finding: "Finding") -> "Iterator[str]":
    mark = screen.paint("repaired", "green") if finding.repaired else screen.paint("wrong", "red")
    if finding.kind.value == "later-version":
        mark = screen.paint("not checked", "yellow")
    yield f"  {mark}: {screen.safe(f'{finding.what} {finding.why}')}"
    if finding.first is not None:
        yield f"      paths    {screen.safe(f'{finding.first!r} to {finding.last!r}')}"
    if finding.refs:
        names = [f"{ref.kind} {ref.name}{' (in its history)' if ref.in_history else ''}" for ref in finding.refs]
        yield f"      of       {screen.safe(_some(names, _SHOWN_REFS, len(names)))}"
    if finding.commits:
        ids = [commit[:SHORT] for commit in finding.commits]
        yield f"      commits  {_some(ids, _SHOWN_COMMITS, finding.commit_count)}"
    yield f"      {'done' if finding.repaired else 'to do':<7}  {screen.safe(finding.remedy)}"


def _some(names: list[str], shown: int, total: int) -> str:
    rest = total - len(names[:shown])
    return ", ".join(names[:shown]) + (f", and {rest:,} more" if rest > 0 else "")


def _report_json(report: "Report") -> Json:
    from msgspec import to_builtins

    return {
        "repository": report.repository,
        "clean": report.clean,
        "complete": report.complete,
        "checked": to_builtins(report.scope),
        "findings": to_builtins(report.findings),
        "counts": to_builtins(report.counts),
        "garbage": to_builtins(report.garbage),
    }


def _served(lake: Named | None, name: str) -> "RemoteUpkeep | None":
    """Return the upkeep of a repository behind a server; None for a local lake."""
    connection = connection_to(lake)
    if connection is None:
        return None
    from graveler.remote.checks_and_dumps import RemoteUpkeep

    return RemoteUpkeep(connection, name)


def _dumps(lake: Named | None, location: str) -> list[tuple[str, str]]:
    """Return the IDs of dumps, and the namespace that holds them."""
    of_repository = scheme_of(location) != "" or "://" not in location
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.checks_and_dumps import RemoteUpkeep, dumps_in

        if of_repository:
            return RemoteUpkeep(connection, parse_repository(location)).dumps()
        return dumps_in(connection, location.rstrip("/"))
    opened = open_own_lake(lake)
    namespace = location.rstrip("/")
    if of_repository:
        namespace = opened.repository(parse_repository(location)).repository.namespace
    return [(dump_id, namespace) for dump_id in opened.dumps(namespace)]


def _dump_json(manifest: "Manifest | DumpDocument") -> Json:
    return {
        "id": manifest.id,
        "repository": manifest.repository,
        "namespace": manifest.namespace,
        "created": manifest.created,
        "branches": manifest.branches,
        "tags": manifest.tags,
        "staged": manifest.staged,
    }


def _restored_json(restored: "Restored") -> Json:
    return {
        "repository": repository_json(restored.repository),
        "dump_id": restored.dump_id,
        "branches": restored.branches,
        "tags": restored.tags,
        "staged": restored.staged,
        "commits": restored.commits,
        "missing": [{"commit": lost.commit, "parent": lost.parent} for lost in restored.missing],
    }
