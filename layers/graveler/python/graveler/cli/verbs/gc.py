"""Garbage collection and retention: gc plan, run, report, rules, restore, hold, release, holds, deleted, purge."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from graveler import requests
from graveler.cli.commands import Commands
from graveler.cli.exits import InterruptedVerbError
from graveler.cli.locations import Named, connection_to, open_own_lake, open_repository, user_name
from graveler.cli.options import AsJson, LakeOption, Yes
from graveler.cli.progress import phases
from graveler.cli.terminal import Json, Screen, expect_yes, output
from graveler.cli.uris import parse_ref, parse_ref_of, parse_repository
from graveler.cli.values import SHORT, count, human_size, moment
from graveler.errors import InvalidError, PreconditionError
from graveler.values.addresses import without_scheme

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graveler.model import RetentionRules
    from graveler.remote.garbage_collection import RemoteGarbage, RemoteLeftovers
    from graveler.retention.forecast import Outlook
    from graveler.retention.garbage import Garbage
    from graveler.retention.holds import Hold
    from graveler.retention.leftovers import Leftovers
    from graveler.retention.run_document import RunDescription
    from graveler.retention.runs import Mode

_SHOWN = 20

app = Commands(help="Collect garbage: remove what no ref, uncommitted change or rule needs.")

Name = Annotated[str, typer.Argument(metavar="REPOSITORY", help="lakefs://NAME, or just NAME.")]
RefUri = Annotated[str, typer.Argument(metavar="URI", help="lakefs://REPOSITORY/REF")]


@app.command()
def plan(name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show what a run would remove now, without removing anything.

    The repository stays usable meanwhile. `graveler gc report` lists the files. Below them is what keeps the other commits, and
    when later runs can free some: the files of a commit that nothing keeps go a day after a run has marked it.

    \b
    Example:
      graveler gc plan lakefs://quickstart

    JSON: one document, as in `graveler gc run`.
    """
    from graveler.retention.runs import Mode

    try:
        description = _collect(name, lake, Mode.DRY_RUN)
    except KeyboardInterrupt:
        raise InterruptedVerbError("nothing was removed") from None
    _show(output(as_json=as_json), description)


@app.command()
def run(
    name: Name,
    quarantine: Annotated[
        bool,
        typer.Option("--quarantine", help="Keep removed files in quarantine for a week. [default for the first run]"),
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete files at once. [default for later runs]")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Remove unneeded objects and unreachable history.

    Everything that branches, tags, legal holds, dumps and uncommitted changes need is kept, and so is every file younger than a
    day. A commit that no ref reaches, or that the retention rules drop, is marked by one run; a run at least a day later removes
    its files. The repository stays usable meanwhile. An interrupted run is finished by the next one.

    Hidden branches of transactions whose process was killed are deleted. If there are any such branches, a run waits five minutes
    for a sign of life from their processes.

    \b
    Examples:
      graveler gc run lakefs://quickstart
      graveler gc run lakefs://quickstart --delete

    \b
    JSON: one document {run, mode, began, ended, commits, kept, expired,
      revived, forgotten, rows, ranges, ranges_read, found, outcomes,
      unknown, unknown_examples, unlisted, report, transactions, ownerless,
      ownerless_examples, outlook}; found is {kind: {files, bytes}}, report null
      where none was written, outcomes {kind: {outcome: {files, bytes}}},
      outlook {heads, pinned, replaced, has_rules, to_mark, releases, later}
      in a plan, else null; releases is a list of {at, commits}.
    """
    from graveler.retention.runs import Mode

    if quarantine and delete:
        raise InvalidError("--quarantine and --delete are mutually exclusive; choose one")
    mode = Mode.QUARANTINE if quarantine else Mode.DELETE if delete else None
    try:
        description = _collect(name, lake, mode)
    except KeyboardInterrupt:
        if connection_to(lake) is not None:
            raise InterruptedVerbError("the run continues on the server; `graveler gc report` shows it") from None
        raise InterruptedVerbError("files already removed stay removed; run it again for the rest") from None
    _show(output(as_json=as_json), description)


@app.command()
def report(
    name: Name,
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="The ID of a run, from the list.")] = "",
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """List the runs, or the files of one run.

    For each file it shows why it is garbage, and what happened to it.

    \b
    Examples:
      graveler gc report lakefs://quickstart
      graveler gc report lakefs://quickstart 20261121T120000Z-0a1b2c3d

    \b
    JSON: a line for each run, as in `graveler gc run` (ended is null for
      an unfinished one); with RUN a line for each file,
      {kind, key, size, modified, why, outcome}.
    """
    garbage, screen = _garbage(name, lake), output(as_json=as_json)
    if run:
        for candidate, outcome in garbage.rows(run):
            fields: Json = {
                "kind": candidate.kind.value,
                "key": candidate.key,
                "size": candidate.size,
                "modified": candidate.modified,
                "why": candidate.why,
                "outcome": outcome.value,
            }
            row = f"{outcome.value:<12} {candidate.kind.value:<14} {human_size(candidate.size):>10}  {candidate.key}"
            screen.answer(fields, f"{screen.safe(row)}  {screen.paint(candidate.why, 'dim')}")
        return
    for description in garbage.described_runs():
        files = sum(tally.files for tally in description.found.values())
        size = sum(tally.bytes for tally in description.found.values())
        state = "  unfinished: run gc again to finish it" if description.ended is None else ""
        screen.answer(
            _json(description),
            f"{description.run}  {screen.paint(moment(int(description.began)), 'dim')}  {description.mode:<10}  "
            f"{count(files, 'file')}, {human_size(size)}{state}",
        )


@app.command()
def rules(
    name: Name,
    default_days: Annotated[
        int | None, typer.Option("--default-days", metavar="DAYS", help="For branches without days of their own.")
    ] = None,
    branch: Annotated[
        list[str] | None, typer.Option("--branch", metavar="BRANCH=DAYS", help="For one branch; repeatable.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the rules: every commit keeps its objects.")] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show which commits would lose their objects, without setting the rules.")
    ] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show, preview or set the retention rules. They say for how many days replaced commits keep their objects.

    The latest commit of a branch always keeps its objects, as do commits that are tagged or under a legal hold. The history
    itself is kept: only reading the objects of an expired commit fails.

    \b
    Examples:
      graveler gc rules lakefs://quickstart
      graveler gc rules quickstart --default-days 30 --branch main=90 --preview
      graveler gc rules quickstart --default-days 30 --branch main=90

    \b
    JSON: one document {default_days, branches}; default_days is null
      without rules; with --preview {reached, kept, lost}, lost is a list
      of commit IDs.
    """
    repository = open_repository(lake, parse_repository(name))
    new_rules = _parse_rules(default_days, branch or [], clear=clear)
    screen = output(as_json=as_json)
    if preview:
        _preview(screen, _garbage(name, lake), new_rules if new_rules or clear else repository.retention())
        return
    if clear:
        repository.run(requests.setting_changes.DeleteRetention())
    elif new_rules is not None:
        repository.run(requests.setting_changes.SetRetention(rules=new_rules))
    current = repository.retention()
    if current is None:
        sentence = "no rules: every commit reachable from a ref keeps its objects"
        screen.answer({"default_days": None, "branches": {}}, sentence)
        return
    screen.answer(
        {"default_days": current.default_days, "branches": dict(current.branches)},
        f"{'default':<20} {count(current.default_days, 'day')}",
        *(f"{screen.safe(f'{name:<20}')} {count(days, 'day')}" for name, days in sorted(current.branches.items())),
    )


@app.command()
def restore(
    name: Name,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The ID of the run, from `gc report`.")],
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="Only files whose key starts with this.")
    ] = "",
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Bring back files that a run moved to quarantine.

    They return to their original keys and are safe there for a day; by then a branch, a tag or a rule must need them again.

    \b
    Example:
      graveler gc restore quickstart 20261121T120000Z-0a1b2c3d --prefix data/

    JSON: a line {key, restored} for each file; restored is false if the key is in use.
    """
    screen = output(as_json=as_json)
    done = skipped = 0
    for key, restored in _garbage(name, lake).restore(run, prefix):
        done += restored
        skipped += not restored
        lines = [] if restored else [f"{screen.paint('already there:', 'yellow')} {screen.safe(key)}"]
        screen.answer({"key": key, "restored": restored}, *lines)
    screen.note(f"restored {count(done, 'file')}" + (f", left {skipped:,} in quarantine" if skipped else ""))


@app.command()
def undelete(
    name: Name,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Everything deleted since a date, a date with time, or a time ago such as 3d.",
        ),
    ] = "",
    ref: Annotated[
        str,
        typer.Option(
            "--ref", metavar="REF", help="Everything that this branch, tag or commit needs, whenever it was deleted."
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what --since would bring back, without doing it.")
    ] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Bring back files that runs deleted for good.

    They come back from the versions that the bucket keeps. This is for a table that was restored to an earlier point in time: its
    commits may refer to files that were collected since. Restore the table first, and start no run before the files are back,
    because it would collect again what no ref needs. Works only on the lake itself on S3, not through a server, and needs the
    rights to list versions (s3:ListBucketVersions, s3:GetBucketVersioning) and to remove delete markers (s3:DeleteObjectVersion).

    \b
    Examples:
      graveler gc undelete sales --since 2026-11-20T10:00Z --dry-run
      graveler gc undelete sales --ref v1

    JSON: one document {files, bytes, wrong}.
    """
    from graveler.cli.times import parse_moment
    from graveler.retention.undelete import Undelete

    if bool(since) == bool(ref):
        raise InvalidError("specify the files to bring back: either --since TIME or --ref REF")
    if dry_run and ref:
        raise InvalidError("--dry-run works only with --since: what a ref needs is not known before its tree is back")
    name = parse_repository(name)
    target = parse_ref_of(name, ref) if ref else ""
    undelete = Undelete(open_own_lake(lake).repository(name))
    if target:
        done = undelete.of_commit(target)
    else:
        done = undelete.bring_back(undelete.deleted(parse_moment("--since", since)), dry_run=dry_run)
    screen = output(as_json=as_json)
    screen.answer(
        {"files": done.files, "bytes": done.bytes, "wrong": list(done.wrong)},
        *(f"{screen.paint('not brought back:', 'yellow')} {screen.safe(reason)}" for reason in done.wrong),
        f"{'would bring back' if dry_run else 'brought back'} {count(done.files, 'file')}, {human_size(done.bytes)}",
    )
    if done.wrong:
        raise PreconditionError(
            f"{count(len(done.wrong), 'file')} could not be brought back; fix the problems listed above and run it again"
        )


@app.command()
def hold(
    uri: RefUri,
    reason: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason for the hold.")] = "",
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Put a ref's commit under a legal hold. It keeps its objects, whatever happens to refs and rules.

    \b
    Example:
      graveler gc hold lakefs://quickstart/main --why "audit 2026"

    JSON: one document {commit, why, by, at}.
    """
    target = parse_ref(uri)
    new_hold = _garbage(target.repository, lake).hold(target.ref, reason, user_name())
    output(as_json=as_json).answer(_hold_json(new_hold), f"holding {new_hold.commit_id[:SHORT]}")


@app.command()
def release(uri: RefUri, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """End the legal hold of a ref's commit.

    \b
    Example:
      graveler gc release lakefs://quickstart/main

    JSON: one document {commit}.
    """
    target = parse_ref(uri)
    commit = _garbage(target.repository, lake).release(target.ref)
    output(as_json=as_json).answer({"commit": commit}, f"released {commit[:SHORT]}")


@app.command()
def holds(name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List the legal holds.

    \b
    Example:
      graveler gc holds lakefs://quickstart

    JSON: a line {commit, why, by, at} for each; at is in Unix seconds.
    """
    screen = output(as_json=as_json)
    for legal_hold in _garbage(name, lake).holds():
        row = f"{screen.paint(moment(legal_hold.at), 'dim')}  {screen.safe(f'{legal_hold.by}  {legal_hold.why}')}"
        screen.answer(_hold_json(legal_hold), f"{legal_hold.commit_id[:SHORT]}  {row}")


def _hold_json(legal_hold: "Hold") -> Json:
    return {"commit": legal_hold.commit_id, "why": legal_hold.why, "by": legal_hold.by, "at": legal_hold.at}


@app.command()
def deleted(lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List deleted repositories that still take up storage.

    Their files stay until `graveler gc purge` removes them. Until then `graveler restore` can bring one back from a dump, and no
    other repository can use its storage namespace.

    \b
    Example:
      graveler gc deleted

    JSON: a line {uid, name, namespace, at, purging} for each, newest first.
    """
    screen = output(as_json=as_json)
    for grave in leftovers_of(lake).all():
        state = "  partly purged: purge it again" if grave.purging else ""
        named = screen.safe(f"{grave.name}  {grave.namespace}")
        fields: Json = {"uid": grave.uid, "name": grave.name, "namespace": grave.namespace}
        screen.answer(
            {**fields, "at": grave.at, "purging": grave.purging},
            f"{grave.uid}  {screen.paint(moment(grave.at), 'dim')}  {named}{state}",
        )


@app.command()
def purge(
    name: Annotated[str, typer.Argument(metavar="REPOSITORY", help="Name, uid or namespace, from `gc deleted`.")],
    force: Annotated[bool, typer.Option("--force", help="Purge it even if it has dumps or legal holds.")] = False,
    at_once: Annotated[
        bool,
        typer.Option(
            "--at-once", help="Do not wait for a day: nobody else works with the lake, neither people nor programs."
        ),
    ] = False,
    yes: Yes = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Remove for good what a deleted repository has left.

    This includes its objects, its history and its rows in the table. Possible a day after the deletion, when all work on the
    repository has ended; earlier with --at-once, if you know that it has. A program that still writes to the repository would
    leave files that nothing removes. Files that graveler did not create stay. Objects in its namespace that other repositories
    have imported are removed, too.

    \b
    Example:
      graveler gc purge old-lake
      graveler gc purge old-lake --at-once

    JSON: one document {name, files, bytes, rows, unknown: {files, bytes}}.
    """
    leftovers = leftovers_of(lake)
    repository = leftovers.find(without_scheme(name))
    if not yes:
        expect_yes(
            f"Permanently remove everything that repository {repository.name!r} left in {repository.namespace or 'the table'}?",
            "a permanent removal without a terminal needs --yes",
            "nothing was removed",
        )
    with phases("purging:") as progress:
        done = leftovers.purge(repository.uid, force=force, at_once=at_once, progress=progress)
    files, unknown = done.files, done.unknown
    fields: Json = {"name": repository.name, "files": files.files, "bytes": files.bytes, "rows": done.rows}
    output(as_json=as_json).answer(
        {**fields, "unknown": {"files": unknown.files, "bytes": unknown.bytes}},
        f"removed {count(files.files, 'file')}, {human_size(files.bytes)}, and {count(done.rows, 'row')}",
        *([f"kept, not created by graveler: {count(unknown.files, 'file')}"] if unknown.files else []),
    )


def leftovers_of(lake: Named | None) -> "Leftovers | RemoteLeftovers":
    """Return what deleted repositories have left in a lake."""
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.garbage_collection import RemoteLeftovers

        return RemoteLeftovers(connection)
    from graveler.retention.leftovers import Leftovers

    opened = open_own_lake(lake)
    return Leftovers(opened.tables, opened.store_of, opened.clock, opened.grace, opened.skew)


def _garbage(name: str, lake: Named | None) -> "Garbage | RemoteGarbage":
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.garbage_collection import RemoteGarbage

        return RemoteGarbage(connection, parse_repository(name))
    return _own_garbage(name, lake, None)


def _own_garbage(name: str, lake: Named | None, mode: "Mode | None") -> "Garbage":
    from graveler.retention.collector import Options
    from graveler.retention.garbage import Garbage

    repository = open_own_lake(lake).repository(parse_repository(name))
    return Garbage(repository, Options(mode, repository.grace, repository.skew, repository.table_grace))


def _collect(name: str, lake: Named | None, mode: "Mode | None") -> "RunDescription":
    """Run the collector, here or at the lake's server."""
    from graveler.retention.runs import Mode

    if (connection := connection_to(lake)) is not None:
        from graveler.remote.garbage_collection import RemoteGarbage

        return RemoteGarbage(connection, parse_repository(name)).collect(mode)
    garbage = _own_garbage(name, lake, mode)
    with phases("collecting:") as progress:
        return garbage.describe(garbage.plan(progress) if mode is Mode.DRY_RUN else garbage.run(progress))


def _parse_rules(default_days: int | None, branches: list[str], *, clear: bool) -> "RetentionRules | None":
    if clear and (default_days is not None or branches):
        raise InvalidError("--clear and --default-days or --branch are mutually exclusive; choose one")
    if default_days is None:
        if branches:
            raise InvalidError("--branch needs --default-days for all other branches")
        return None
    days: dict[str, int] = {}
    for text in branches:
        branch, _, number = text.rpartition("=")
        if not branch or not number.isdecimal():
            raise InvalidError(f"--branch {text!r} is not of the form BRANCH=DAYS")
        days[branch] = int(number)
    from graveler.model import RetentionRules  # not for --help

    return RetentionRules(default_days, days)


def _preview(screen: Screen, garbage: "Garbage | RemoteGarbage", rules: "RetentionRules | None") -> None:
    preview = garbage.preview(rules)
    rest = len(preview.lost[_SHOWN:]) + preview.more
    screen.answer(
        {"reached": preview.reached, "kept": preview.kept, "lost": [commit.id for commit in preview.lost]},
        f"{preview.kept:,} of {count(preview.reached, 'reachable commit')} would keep their objects",
        *(
            f"  would lose its objects: {commit.id[:SHORT]}  {screen.paint(moment(commit.created), 'dim')}  "
            f"{screen.safe(commit.message)}"
            for commit in islice(preview.lost, _SHOWN)
        ),
        *([f"  and {rest:,} more"] if rest else []),
    )


def _show(screen: Screen, run: "RunDescription") -> None:
    screen.answer(
        _json(run),
        f"run {run.run}, {run.mode}",
        f"{count(run.commits, 'commit')}, {run.kept:,} of which keep their objects; {count(run.ranges, 'range')}",
        *([f"marked as expired: {run.expired:,}; unmarked: {run.revived:,}"] if run.expired or run.revived else []),
        *(
            f"{outcome:<12} {count(tally.files, kind)}, {human_size(tally.bytes)}"
            for kind, outcomes in run.outcomes.items()
            for outcome, tally in outcomes.items()
        ),
        *([] if run.outcomes else ["nothing to collect"]),
        *([] if run.outlook is None else _outlook_lines(run.outlook, is_idle=not run.outcomes)),
        *map(screen.safe, _exceptions(run)),
    )


def _exceptions(run: "RunDescription") -> "Iterator[str]":
    """Yield what a run did not collect as garbage."""
    if run.unknown.files:
        some = ", ".join(run.unknown_examples[:3])
        yield f"kept, not created by graveler: {count(run.unknown.files, 'file')} ({some}, …)"
    if run.transactions:
        yield f"deleted the hidden branches of {count(run.transactions, 'transaction')} whose process is gone"
    if run.ownerless:
        some = ", ".join(run.ownerless_examples[:3])
        yield (
            f"kept, not part of any transaction: {count(run.ownerless, 'hidden branch')} ({some}, …); "
            "`graveler branch delete` removes one"
        )
    for place in run.unlisted:
        yield f"not examined: {place}"


def _outlook_lines(outlook: "Outlook", *, is_idle: bool) -> "Iterator[str]":
    """Yield what keeps the commits, and when later runs can free more."""
    if is_idle and outlook.heads:
        pinned = f", {outlook.pinned:,} by tags, holds, dumps or the latest moves" if outlook.pinned else ""
        yield f"kept: {count(outlook.heads, 'commit')} as heads of branches{pinned}"
    if outlook.replaced and not outlook.has_rules:
        yield (
            f"kept for want of rules: {count(outlook.replaced, 'replaced commit')}; `graveler gc rules --default-days DAYS "
            "--preview` shows which of them a rule would free"
        )
    elif outlook.replaced:
        yield f"kept by the rules for now: {count(outlook.replaced, 'replaced commit')}"
    if outlook.to_mark:
        yield f"needed by nothing: {count(outlook.to_mark, 'commit')} that `graveler gc run` has to mark first"
    for release in outlook.releases:
        yield f"from {moment(release.at)}: runs can free {count(release.commits, 'commit')}"
    if outlook.later:
        yield f"later: {count(outlook.later, 'commit')}"
    if is_idle:
        yield "a file is collected when it is a day old and a run finds it needed by nothing"


def _json(run: "RunDescription") -> Json:
    from msgspec import to_builtins

    document: Json = to_builtins(run)
    return document
