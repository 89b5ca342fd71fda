"""Garbage collection and retention: gc plan, run, report, rules, restore, hold, release, holds, deleted, purge."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli.exits import InterruptedVerbError
from graveler.cli.locations import Named, connection_to, open_own_lake, open_repository, user_name
from graveler.cli.options import AsJson, LakeOption, Yes
from graveler.cli.progress import phases
from graveler.cli.terminal import Json, Screen, confirm, output
from graveler.cli.uris import parse_ref, parse_ref_of, parse_repository
from graveler.cli.values import SHORT, count, human_size, moment
from graveler.errors import InvalidError, PreconditionError
from graveler.values.addresses import without_scheme

if TYPE_CHECKING:
    from graveler.model import RetentionRules
    from graveler.remote.garbage import RemoteGarbage, RemoteLeftovers
    from graveler.retention.forecast import Outlook
    from graveler.retention.garbage import Garbage
    from graveler.retention.leftovers import Leftovers
    from graveler.retention.run_document import RunDescription
    from graveler.retention.runs import Mode

_SHOWN = 20

app = typer.Typer(help="Collect garbage: remove what no ref, uncommitted change or rule needs.")

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
        made = _collect(name, lake, Mode.DRY_RUN)
    except KeyboardInterrupt:
        raise InterruptedVerbError("nothing was removed") from None
    _show(output(), made, as_json=as_json)


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
        made = _collect(name, lake, mode)
    except KeyboardInterrupt:
        if connection_to(lake) is not None:
            raise InterruptedVerbError("the run continues on the server; `graveler gc report` shows it") from None
        raise InterruptedVerbError("files already removed stay removed; run it again for the rest") from None
    _show(output(), made, as_json=as_json)


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
    garbage, screen = _garbage(name, lake), output()
    if run:
        for candidate, outcome in garbage.rows(run):
            if as_json:
                screen.json(
                    {
                        "kind": candidate.kind.value,
                        "key": candidate.key,
                        "size": candidate.size,
                        "modified": candidate.modified,
                        "why": candidate.why,
                        "outcome": outcome.value,
                    }
                )
            else:
                row = (
                    f"{outcome.value:<12} {candidate.kind.value:<14} {human_size(candidate.size):>10}  {candidate.key}"
                )
                screen.line(f"{screen.safe(row)}  {screen.paint(candidate.why, 'dim')}")
        return
    for made in garbage.described_runs():
        if as_json:
            screen.json(_json(made))
            continue
        files = sum(tally.files for tally in made.found.values())
        size = sum(tally.bytes for tally in made.found.values())
        state = "  unfinished: run gc again to finish it" if made.ended is None else ""
        screen.line(
            f"{made.run}  {screen.paint(moment(int(made.began)), 'dim')}  {made.mode:<10}  "
            f"{count(files, 'file')}, {human_size(size)}{state}"
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
    wanted = _parse_rules(default_days, branch or [], clear=clear)
    screen = output()
    if preview:
        _preview(screen, _garbage(name, lake), wanted if wanted or clear else repository.retention(), as_json=as_json)
        return
    if clear:
        repository.delete_retention()
    elif wanted is not None:
        repository.set_retention(wanted)
    current = repository.retention()
    if as_json:
        screen.json(
            {
                "default_days": None if current is None else current.default_days,
                "branches": {} if current is None else dict(current.branches),
            }
        )
    elif current is None:
        screen.line("no rules: every commit reachable from a ref keeps its objects")
    else:
        screen.line(f"{'default':<20} {count(current.default_days, 'day')}")
        for one, days in sorted(current.branches.items()):
            screen.line(f"{screen.safe(f'{one:<20}')} {count(days, 'day')}")


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
    screen = output()
    done = left = 0
    for key, restored in _garbage(name, lake).restore(run, prefix):
        done += restored
        left += not restored
        if as_json:
            screen.json({"key": key, "restored": restored})
        elif not restored:
            screen.line(f"{screen.paint('already there:', 'yellow')} {screen.safe(key)}")
    if not as_json:
        screen.line(f"restored {count(done, 'file')}" + (f", left {left:,} in quarantine" if left else ""))


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
    screen = output()
    if as_json:
        screen.json({"files": done.files, "bytes": done.bytes, "wrong": list(done.wrong)})
    else:
        for why in done.wrong:
            screen.line(f"{screen.paint('not brought back:', 'yellow')} {screen.safe(why)}")
        verb = "would bring back" if dry_run else "brought back"
        screen.line(f"{verb} {count(done.files, 'file')}, {human_size(done.bytes)}")
    if done.wrong:
        raise PreconditionError(
            f"{count(len(done.wrong), 'file')} could not be brought back; fix the problems listed above and run it again"
        )


@app.command()
def hold(
    uri: RefUri,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason for the hold.")] = "",
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Put a ref's commit under a legal hold. It keeps its objects, whatever happens to refs and rules.

    \b
    Example:
      graveler gc hold lakefs://quickstart/main --why "audit 2026"

    JSON: one document {commit, why, by, at}.
    """
    at = parse_ref(uri)
    made = _garbage(at.repository, lake).hold(at.ref, why, user_name())
    screen = output()
    if as_json:
        screen.json({"commit": made.commit_id, "why": made.why, "by": made.by, "at": made.at})
    else:
        screen.line(f"holding {made.commit_id[:SHORT]}")


@app.command()
def release(uri: RefUri, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """End the legal hold of a ref's commit.

    \b
    Example:
      graveler gc release lakefs://quickstart/main

    JSON: one document {commit}.
    """
    at = parse_ref(uri)
    commit = _garbage(at.repository, lake).release(at.ref)
    screen = output()
    if as_json:
        screen.json({"commit": commit})
    else:
        screen.line(f"released {commit[:SHORT]}")


@app.command()
def holds(name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List the legal holds.

    \b
    Example:
      graveler gc holds lakefs://quickstart

    JSON: a line {commit, why, by, at} for each; at is in Unix seconds.
    """
    screen = output()
    for found in _garbage(name, lake).holds():
        if as_json:
            screen.json({"commit": found.commit_id, "why": found.why, "by": found.by, "at": found.at})
        else:
            row = screen.safe(f"{found.by}  {found.why}")
            screen.line(f"{found.commit_id[:SHORT]}  {screen.paint(moment(found.at), 'dim')}  {row}")


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
    screen = output()
    for found in leftovers_of(lake).all():
        if as_json:
            fields: Json = {"uid": found.uid, "name": found.name, "namespace": found.namespace}
            screen.json({**fields, "at": found.at, "purging": found.purging})
        else:
            state = "  partly purged: purge it again" if found.purging else ""
            named = screen.safe(f"{found.name}  {found.namespace}")
            screen.line(f"{found.uid}  {screen.paint(moment(found.at), 'dim')}  {named}{state}")


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
        answer = confirm(
            f"Permanently remove everything that repository {repository.name!r} left in {repository.namespace or 'the table'}?"
        )
        if not answer:
            reason = "not confirmed" if answer is False else "a permanent removal without a terminal needs --yes"
            raise PreconditionError(f"{reason}; nothing was removed")
    with phases("purging:") as progress:
        done = leftovers.purge(repository.uid, force=force, at_once=at_once, progress=progress)
    screen = output()
    if as_json:
        unknown: Json = {"files": done.unknown.files, "bytes": done.unknown.bytes}
        removed: Json = {
            "name": repository.name,
            "files": done.files.files,
            "bytes": done.files.bytes,
            "rows": done.rows,
        }
        screen.json({**removed, "unknown": unknown})
        return
    screen.line(
        f"removed {count(done.files.files, 'file')}, {human_size(done.files.bytes)}, and {count(done.rows, 'row')}"
    )
    if done.unknown.files:
        screen.line(f"kept, not created by graveler: {count(done.unknown.files, 'file')}")


def leftovers_of(lake: Named | None) -> "Leftovers | RemoteLeftovers":
    """Return what deleted repositories have left in a lake."""
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.garbage import RemoteLeftovers

        return RemoteLeftovers(connection)
    from graveler.retention.leftovers import Leftovers

    opened = open_own_lake(lake)
    return Leftovers(opened.tables, opened.store_of, opened.clock, opened.grace, opened.skew)


def _garbage(name: str, lake: Named | None) -> "Garbage | RemoteGarbage":
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.garbage import RemoteGarbage

        return RemoteGarbage(connection, parse_repository(name))
    return _own_garbage(name, lake, None)


def _own_garbage(name: str, lake: Named | None, mode: "Mode | None") -> "Garbage":
    from graveler.retention.collector import Options
    from graveler.retention.garbage import Garbage

    repository = open_own_lake(lake).repository(parse_repository(name))
    return Garbage(repository, Options(mode, repository.grace, repository.skew))


def _collect(name: str, lake: Named | None, mode: "Mode | None") -> "RunDescription":
    """Run the collector, here or at the lake's server."""
    from graveler.retention.runs import Mode

    if (connection := connection_to(lake)) is not None:
        from graveler.remote.garbage import RemoteGarbage

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
    for one in branches:
        branch, separator, number = one.rpartition("=")
        if not separator or not branch or not number.isdecimal():
            raise InvalidError(f"--branch {one!r} is not of the form BRANCH=DAYS")
        days[branch] = int(number)
    from graveler.model import RetentionRules  # not for --help

    return RetentionRules(default_days, days)


def _preview(
    screen: Screen, garbage: "Garbage | RemoteGarbage", rules: "RetentionRules | None", *, as_json: bool
) -> None:
    found = garbage.preview(rules)
    if as_json:
        screen.json({"reached": found.reached, "kept": found.kept, "lost": [commit.id for commit in found.lost]})
        return
    screen.line(f"{found.kept:,} of {count(found.reached, 'reachable commit')} would keep their objects")
    for commit in islice(found.lost, _SHOWN):
        line = f"{commit.id[:SHORT]}  {screen.paint(moment(commit.created), 'dim')}  {screen.safe(commit.message)}"
        screen.line(f"  would lose its objects: {line}")
    rest = len(found.lost[_SHOWN:]) + found.more
    if rest:
        screen.line(f"  and {rest:,} more")


def _show(screen: Screen, made: "RunDescription", *, as_json: bool) -> None:
    if as_json:
        screen.json(_json(made))
        return
    screen.line(f"run {made.run}, {made.mode}")
    screen.line(
        f"{count(made.commits, 'commit')}, {made.kept:,} of which keep their objects; {count(made.ranges, 'range')}"
    )
    if made.expired or made.revived:
        screen.line(f"marked as expired: {made.expired:,}; unmarked: {made.revived:,}")
    for kind, outcomes in made.outcomes.items():
        for outcome, tally in outcomes.items():
            screen.line(f"{outcome:<12} {count(tally.files, kind)}, {human_size(tally.bytes)}")
    if not made.outcomes:
        screen.line("nothing to collect")
    if made.outlook is not None:
        _show_outlook(screen, made.outlook, nothing=not made.outcomes)
    if made.unknown.files:
        some = ", ".join(made.unknown_examples[:3])
        screen.line(screen.safe(f"kept, not created by graveler: {count(made.unknown.files, 'file')} ({some}, …)"))
    if made.transactions:
        screen.line(f"deleted the hidden branches of {count(made.transactions, 'transaction')} whose process is gone")
    if made.ownerless:
        some = ", ".join(made.ownerless_examples[:3])
        screen.line(
            screen.safe(
                f"kept, not part of any transaction: {count(made.ownerless, 'hidden branch')} ({some}, …); "
                "`graveler branch delete` removes one"
            )
        )
    for what in made.unlisted:
        screen.line(screen.safe(f"not examined: {what}"))


def _show_outlook(screen: Screen, outlook: "Outlook", *, nothing: bool) -> None:
    """Say what keeps the commits, and when later runs can free more."""
    if nothing and outlook.heads:
        others = f", {outlook.pinned:,} by tags, holds, dumps or the latest moves" if outlook.pinned else ""
        screen.line(f"kept: {count(outlook.heads, 'commit')} as heads of branches{others}")
    if outlook.replaced and not outlook.has_rules:
        screen.line(
            f"kept for want of rules: {count(outlook.replaced, 'replaced commit')}; `graveler gc rules --default-days DAYS "
            "--preview` shows which of them a rule would free"
        )
    elif outlook.replaced:
        screen.line(f"kept by the rules for now: {count(outlook.replaced, 'replaced commit')}")
    if outlook.to_mark:
        screen.line(f"needed by nothing: {count(outlook.to_mark, 'commit')} that `graveler gc run` has to mark first")
    for release in outlook.releases:
        screen.line(f"from {moment(release.at)}: runs can free {count(release.commits, 'commit')}")
    if outlook.later:
        screen.line(f"later: {count(outlook.later, 'commit')}")
    if nothing:
        screen.line("a file is collected when it is a day old and a run finds it needed by nothing")


def _json(made: "RunDescription") -> Json:
    from msgspec import to_builtins

    document: Json = to_builtins(made)
    return document
