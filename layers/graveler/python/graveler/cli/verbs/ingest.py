"""The ingest verbs: rules about objects that arrive in a bucket or a folder, and the work by them on this machine."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.exits import ExitCode, InterruptedVerbError
from graveler.cli.local_files import refused, warn_of_defaults
from graveler.cli.locations import Named, connection_to, expect_local_files, open_own_lake, own_folder, refuse_own_lake
from graveler.cli.options import (
    OF_USE,
    AsJson,
    Exclude,
    LakeOption,
    Metadata,
    NoIgnore,
    check_utf8,
    parse_exclude,
    parse_metadata,
)
from graveler.cli.sums import excluded_text
from graveler.cli.terminal import Json, Screen, output
from graveler.cli.uris import parse_prefix, parse_repository
from graveler.cli.values import commit_line, count, moment
from graveler.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from graveler.cli.local_ingest import LocalIngest
    from graveler.ingest.results import Batch
    from graveler.ingest.rules import Rule
    from graveler.ingest.status import IngestAmount, IngestStatus, IngestWindow
    from graveler.ingest.watcher import Round
    from graveler.remote.ingest import RemoteIngest
    from graveler.values.ignore_rules import Reason

    Ingest = LocalIngest | RemoteIngest

_BATCH = 480
_SHOWN = 20
_FIRST_PAUSE = 0.2
"""Seconds between the first two polls of a folder."""

app = Commands(help="Commit files as they arrive in a bucket or a folder, without copying them.")
rules = Commands(help="Manage what is ingested, where to, and when it is committed.")
app.add_typer(rules, name="rules")

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
RuleName = Annotated[str, typer.Argument(metavar="NAME", help="The rule's name.")]


@rules.command()
def add(
    name: RuleName,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Where files arrive: a folder, file:///… or s3://BUCKET/PREFIX/.",
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
    suffixes: Annotated[
        list[str] | None,
        typer.Option("--suffix", metavar="TEXT", help="Only keys that end with this; repeatable. [default: all]"),
    ] = None,
    keep_deleted: Annotated[
        bool, typer.Option("--keep-deleted", help="Keep objects on the branch when they are deleted at the source.")
    ] = False,
    refuse_overwrites: Annotated[
        bool, typer.Option("--refuse-overwrites", help="Refuse objects that are overwritten at the source.")
    ] = False,
    after_objects: Annotated[
        int | None, typer.Option("--after-objects", metavar="N", help="Commit after N changes.")
    ] = None,
    after_seconds: Annotated[
        int | None, typer.Option("--after-seconds", metavar="N", help="Commit N seconds after the first change.")
    ] = None,
    marker: Annotated[
        str,
        typer.Option("--marker", metavar="NAME", help="Commit when an object of this name arrives, such as _SUCCESS."),
    ] = "",
    window: Annotated[
        int | None, typer.Option("--window", metavar="SECONDS", help="Commit each window of the clock, such as 3600.")
    ] = None,
    layout: Annotated[
        str,
        typer.Option(
            "--window-layout", metavar="TEXT", help="Where keys contain their window, such as YYYY/MM/DD/hh:mm/."
        ),
    ] = "",
    lateness: Annotated[
        int, typer.Option("--lateness", metavar="SECONDS", help="How long to wait for late objects of a window.")
    ] = 0,
    message: Annotated[
        str, typer.Option("--message", "-m", metavar="TEXT", help="The commit message, with fields such as {objects}.")
    ] = "",
    meta: Metadata = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check size and ETag in the store before staging.")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Add a rule: objects that arrive at SOURCE appear on a branch.

    Without --after-objects, --after-seconds, --marker or --window nothing is committed automatically. Messages and metadata may
    contain {rule} {branch} {source} {objects} {deleted} {window} {reason}.

    \b
    Examples:
      graveler ingest rules add drop ~/drop lakefs://quickstart/main/drop/ \\
        --after-seconds 60
      graveler ingest rules add hourly s3://landing/input/ \\
        lakefs://quickstart/main/input/ --window 3600 \\
        --window-layout YYYY/MM/DD/hh:mm/ --lateness 300 -m "Hour {window}"

    JSON: one document, the rule.
    """
    from graveler.ingest.rules import CommitPolicy, Deletes, Overwrites, Rule
    from graveler.ingest.windows import Window

    to = parse_prefix(uri)
    for option, value in (("--after-objects", after_objects), ("--after-seconds", after_seconds), ("--window", window)):
        if value is not None and value < 1:
            raise InvalidError(
                f"{option} {value} is less than 1: `--after-objects 1` commits at once; to commit nothing automatically, leave "
                f"{option} out"
            )
    if (layout or lateness) and not window:
        raise InvalidError("--window-layout and --lateness work only with --window")
    policy = CommitPolicy(
        after_objects or 0, after_seconds or 0, marker, Window(window, layout, lateness) if window else None
    )
    rule = Rule(
        name,
        _source(source, lake),
        to.ref,
        to.path,
        tuple(suffixes or ()),
        Deletes.KEEP if keep_deleted else Deletes.APPLY,
        Overwrites.REFUSE if refuse_overwrites else Overwrites.REPLACE,
        policy,
        metadata=parse_metadata(meta),
        verify=verify,
    )
    if message:
        import msgspec

        rule = msgspec.structs.replace(rule, message=message)
    rule = _ingest(lake).add(to.repository, rule)
    screen = output(as_json=as_json)
    arrow = f"{screen.safe(rule.source)} → {screen.safe(str(to))}"
    screen.answer(_rule_json(to.repository, rule), f"added rule {screen.paint(rule.name, 'bold')}: {arrow}")


@rules.command("list")
def list_(name: DefaultRepository = None, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List the rules of a repository.

    \b
    Example:
      graveler ingest rules list lakefs://quickstart

    \b
    JSON: a line for each rule
      {name, source, repository, branch, destination, suffixes, deletes,
      overwrites, commit, message, metadata, verify, id, since}.
    """
    repository = parse_repository(name)
    screen = output(as_json=as_json)
    for rule in _ingest(lake).rules(repository):
        screen.answer(_rule_json(repository, rule), _rule_line(screen, rule))


@rules.command()
def show(name: Repository, rule: RuleName, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show a rule, and what it has staged but not committed.

    \b
    Example:
      graveler ingest rules show lakefs://quickstart drop

    \b
    JSON: one document, the rule as in `list`, and its status
      {rule, pending, due, commits, committing, due_at, late, ahead};
      pending is {objects, deleted, since, window, windows}.
    """
    import msgspec

    repository = parse_repository(name)
    stored, status = _ingest(lake).rule(repository, rule)
    screen = output(as_json=as_json)
    screen.answer(
        {**_rule_json(repository, stored), "status": msgspec.to_builtins(status)},
        _rule_line(screen, stored),
        *_status_lines(screen, status),
    )


@rules.command()
def remove(name: Repository, rule: RuleName, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Remove a rule. Changes that it has staged stay.

    \b
    Example:
      graveler ingest rules remove lakefs://quickstart drop

    JSON: one document, the removed rule.
    """
    repository = parse_repository(name)
    removed = _ingest(lake).remove(repository, rule)
    output(as_json=as_json).answer(_rule_json(repository, removed), f"removed rule {Screen.safe(removed.name)}")


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file with one message per line.")],
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Process recorded events, for example from a dead-letter queue.

    Each line is JSON: an S3 notification, an EventBridge event, or {address, kind, sequencer, size, etag, time}. Events that were
    already processed change nothing. The exit code is 5 if any line could not be processed.

    \b
    Example:
      graveler ingest replay events.jsonl

    JSON: a line {line, outcome, reason} for each line of the file.
    """
    from graveler.ingest.results import Message

    ingester = _ingest(lake)
    screen = output(as_json=as_json)
    counts: Counter[str] = Counter()
    failed = 0
    for lines in _batches(_lines(file)):
        results, batch = ingester.process_messages([Message(str(number), text) for number, text in lines])
        for (number, _), result in zip(lines, results, strict=True):
            outcome = result.outcome.value
            counts[outcome] += 1
            failed += not result.outcome.is_done
            failure = [] if result.outcome.is_done else [f"line {number}: {outcome}: {screen.safe(result.reason)}"]
            screen.answer({"line": number, "outcome": outcome, "reason": result.reason}, *failure)
        screen.note(*_commit_lines(screen, batch))
    screen.note(", ".join(f"{number:,} {name}" for name, number in sorted(counts.items())) or "no events")
    if failed:
        raise typer.Exit(ExitCode.PRECONDITION)


@app.command()
def watch(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to watch; rules must apply to it.")],
    interval: Annotated[float, typer.Option("--interval", metavar="SECONDS", help="How often to check.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Ingest what is there, commit what is due, and exit.")] = False,
    exclude: Exclude = None,
    no_ignore: NoIgnore = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Ingest files as they arrive in a folder, until Ctrl-C.

    Applies the rules whose source is in FOLDER or contains it. A file is ingested once two checks in a row find it unchanged.
    Files that came or went while nothing was watching are handled first. A file that cannot be ingested, for example while the
    branch is protected, is reported once and retried, first after 2 seconds, then at most every 5 minutes; with --once, the exit
    code is then 5. Ctrl-C leaves nothing half done.

    Files that a .gravelerignore in the source of a rule or below it names are left alone, and so are those that --exclude names,
    and what is never data, such as .git and .env: `graveler import --help` says more. What is on the branch stays there.

    \b
    Examples:
      graveler ingest watch ~/drop
      graveler ingest watch ~/drop --once --exclude '*.part'

    \b
    JSON: a line {events, staged, failed, commits} for each check that found
      something; failed lists {address, outcome, reason}, each only once,
      commits lists commit IDs.
    """
    if interval < 0.1:
        raise InvalidError(f"--interval {interval} is too short; use at least 0.1 seconds")
    expect_local_files(f"watch {str(folder)!r}", lake)
    lake_folder = own_folder(lake)
    ingest = _ingest(lake)
    root = folder.resolve()
    if not root.is_dir():
        raise NotFoundError(f"folder {str(folder)!r} does not exist; check its name")
    try:
        screen, patterns = output(as_json=as_json), parse_exclude(exclude)
        _watch(screen, ingest, root, lake_folder, interval, patterns, once=once, ignore=not no_ignore)
    except KeyboardInterrupt:
        raise InterruptedVerbError("changes staged so far are kept; watch again to continue") from None


@app.command()
def reconcile(
    name: Repository,
    rule: Annotated[str, typer.Argument(metavar="[NAME]", help="A single rule. [default: all]")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the differences, without repairing them.")] = False,
    exclude: Exclude = None,
    no_ignore: NoIgnore = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Compare sources with their branches, and repair differences.

    Finds events that were lost, and objects that are older than the rule. The exit code is 5 if something could not be repaired.
    Of a folder, the files that `graveler ingest watch` leaves alone are left alone.

    \b
    Examples:
      graveler ingest reconcile lakefs://quickstart
      graveler ingest reconcile lakefs://quickstart drop --dry-run

    \b
    JSON: a line for each rule
      {rule, objects, linked, deleted, linked_count, deleted_count, refused,
      commits}; refused are {path, reason}.
    """
    patterns = parse_exclude(exclude)
    repository, ingest = parse_repository(name), _ingest(lake)
    chosen = [stored for stored in ingest.rules(repository) if not rule or stored.name == rule]
    if rule and not chosen:
        raise NotFoundError(
            f"repository {repository!r} has no ingest rule {rule!r}; list its rules with `graveler ingest rules list`"
        )
    screen = output(as_json=as_json)
    would = "would be " if dry_run else ""
    refused = 0
    for stored in chosen:
        report = ingest.reconcile(repository, stored, dry_run=dry_run, exclude=patterns, ignore=not no_ignore)
        refused += len(report.refused)
        screen.answer(
            {
                "rule": stored.name,
                "objects": report.objects,
                "linked": list(report.linked),
                "deleted": list(report.deleted),
                "linked_count": report.linked_count,
                "deleted_count": report.deleted_count,
                "refused": [{"path": refusal.path, "reason": refusal.reason} for refusal in report.refused],
                "commits": [commit.id for commit in report.commits],
            },
            f"{screen.paint(stored.name, 'bold')}: {count(report.objects, 'object')}, "
            f"{report.linked_count:,} {would}linked, {report.deleted_count:,} {would}deleted",
            *(f"  + {screen.safe(path)}" for path in islice(report.linked, _SHOWN)),
            *(f"  - {screen.safe(path)}" for path in islice(report.deleted, _SHOWN)),
            *(
                screen.paint(f"  ! {screen.safe(refusal.path)}: {screen.safe(refusal.reason)}", "red")
                for refusal in report.refused[:_SHOWN]
            ),
            *(commit_line(screen, "  committed", commit) for commit in report.commits),
        )
    if refused:
        raise typer.Exit(ExitCode.PRECONDITION)


def _watch(
    screen: Screen,
    ingest: "Ingest",
    root: Path,
    lake_folder: Path | None,
    interval: float,
    exclude: Sequence[str],
    *,
    once: bool,
    ignore: bool,
) -> None:
    from graveler.ingest.folder_watch import FolderWatch
    from graveler.ingest.watcher import Watcher
    from graveler.lake.clock import SystemClock

    clock = SystemClock()

    def active_rules() -> Iterator[tuple[str, "Rule"]]:
        return _rules_about(ingest, root)

    sources = {rule.source.removeprefix("file://") for _, rule in active_rules()}
    if not sources:
        raise NotFoundError(f"no ingest rule applies to {str(root)!r}; add one with `graveler ingest rules add`")

    def ignoring() -> "Callable[[str], Reason | None]":
        return _reasons(sources, f"{root}/", exclude, ignore=ignore)

    folder = FolderWatch(root, time.time_ns, lambda path: path.resolve() == lake_folder, ignoring)
    watcher = Watcher(ingest, folder, active_rules, clock, exclude=exclude, ignore=ignore)
    folder.look()
    warn_of_defaults(folder.left_out.by_default, folder.left_out.paths)
    if folder.left_out.by_pattern:
        screen.note(screen.paint(excluded_text(folder.left_out.by_pattern), "dim"))
    clock.sleep(min(interval, _FIRST_PAUSE))
    while True:
        for done in watcher.round():
            _show_round(screen, done)
        if once:
            break
        clock.sleep(interval)
    if watcher.failing:
        raise typer.Exit(ExitCode.PRECONDITION)


def _reasons(
    sources: Collection[str], root: str, exclude: Sequence[str], *, ignore: bool
) -> "Callable[[str], Reason | None]":
    """Return a function that tells why a file is left out of all the sources, folders, that it is in; of one that is in none, as
    for a rule that is added later, why it is left out of ``root``."""
    from graveler.values.ignore_rules import IGNORE_FILE, IgnoreRules

    def reader(source: str) -> Callable[[str], bytes | None]:
        def read(folder: str) -> bytes | None:
            file = Path(f"{source}{folder}{IGNORE_FILE}")
            try:
                return file.read_bytes() if file.is_file() else None  # reading a pipe would wait for ever
            except FileNotFoundError:
                return None
            except OSError as error:
                raise refused("read", file, error) from None

        return read

    rules = {folder: IgnoreRules(reader(folder), exclude, ignore=ignore) for folder in (*sources, root)}

    def reason(path: str) -> "Reason | None":
        folders = [source for source in sources if path.startswith(source)] or [root]
        reasons = [rules[folder].reason(path.removeprefix(folder)) for folder in folders]
        return None if None in reasons else reasons[0]

    return reason


def _rules_about(ingest: "Ingest", root: Path) -> Iterator[tuple[str, "Rule"]]:
    folder = f"file://{root}/"
    for repository, listed in ingest.all_rules():
        for rule in listed:
            if rule.source.startswith(folder) or folder.startswith(rule.source):
                yield repository, rule


def _show_round(screen: Screen, done: "Round") -> None:
    staged = [f"staged {count(done.staged, 'change')}"] if done.staged else []
    failures = (f"{f.outcome}: {screen.safe(f.address)}: {screen.safe(f.reason)}" for f in done.failed)
    screen.note(*staged, *failures, *_commit_lines(screen, done))
    if screen.as_json and (done.staged or done.failed or done.commits):
        failed = [{"address": f.address, "outcome": f.outcome, "reason": f.reason} for f in done.failed]
        commits = [rule_commit.commit.id for rule_commit in done.commits]
        screen.json({"events": done.events, "staged": done.staged, "failed": failed, "commits": commits})


def _commit_lines(screen: Screen, batch: "Batch | Round") -> Iterator[str]:
    for rule_commit in batch.commits:
        yield commit_line(screen, f"committed by rule {rule_commit.rule}", rule_commit.commit)
    for failed in batch.commits_failed:
        named = f"rule {failed.rule} could not commit: " if failed.rule else ""
        yield screen.paint(f"{named}{screen.safe(failed.reason)}", "red")


def _source(named: str, lake: Named | None) -> str:
    """Return the source's address; a folder's name becomes one."""
    check_utf8("SOURCE", named)
    if "://" in named and not named.startswith("file://"):
        return named if named.endswith("/") else named + "/"
    folder = Path(named.removeprefix("file://")).expanduser().resolve()
    expect_local_files(f"ingest {named!r}", lake)
    refuse_own_lake(folder, lake)
    return f"file://{folder}/" if folder != Path("/") else "file:///"


def _ingest(lake: Named | None) -> "Ingest":
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.ingest import RemoteIngest

        return RemoteIngest(connection)
    from graveler.cli.local_ingest import LocalIngest

    return LocalIngest(open_own_lake(lake))


def _rule_json(repository: str, rule: "Rule") -> Json:
    import msgspec

    described: Json = msgspec.to_builtins({"repository": repository, **msgspec.structs.asdict(rule)})
    return described


def _rule_line(screen: Screen, rule: "Rule") -> str:
    arrow = f"{screen.safe(rule.source)} → {screen.safe(f'{rule.branch}/{rule.destination}')}"
    return f"{screen.paint(rule.name, 'bold')}  {arrow}  {_policy(rule)}"


def _status_lines(screen: Screen, status: "IngestStatus") -> Iterator[str]:
    from msgspec import UNSET

    pending, due = status.pending, ""
    if status.due:
        due = f", due ({status.due})"
    elif status.due_at is not UNSET:
        due = f", due at {moment(status.due_at)}"
    yield f"pending: {_changes(pending)}{due}"
    for window in () if pending.windows is UNSET else pending.windows:
        yield f"  window {window.window}: {_changes(window)}"
    if status.late is not UNSET:
        yield screen.paint(f"overdue by {status.late:,} s", "red")
    if status.committing is not UNSET:
        work = status.committing
        by = "" if work.operation is UNSET else f", operation {screen.safe(work.operation)}"
        yield f"being committed ({work.reason}): {_changes(work.amount)}{by}"
    if status.ahead is not UNSET:
        yield f"dated too far in the future: {screen.safe(status.ahead.key)} ({status.ahead.window})"
    yield f"{count(status.commits, 'commit')} started"


def _changes(counted: "IngestAmount | IngestWindow") -> str:
    return f"{count(counted.objects, 'object')}, {counted.deleted:,} deleted"


def _policy(rule: "Rule") -> str:
    policy = rule.commit
    parts: list[tuple[object, str]] = [
        (policy.objects, f"after {policy.objects:,} changes"),
        (policy.seconds, f"after {policy.seconds:,} s"),
        (policy.marker, f"on {policy.marker}"),
        (policy.window, f"every {policy.window.seconds:,} s" if policy.window else ""),
    ]
    return "commits " + (", ".join(text for condition, text in parts if condition) or "nothing automatically")


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        with file.open(encoding="utf-8", errors="surrogateescape") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        raise NotFoundError(f"file {str(file)!r} does not exist; check its name") from None
    except OSError as error:
        raise refused("read", file, error) from None


def _batches(lines: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    while batch := list(islice(lines, _BATCH)):
        yield batch
