"""The verbs that apply changes of other commits: merge, revert, cherry-pick."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.exits import ExitCode
from graveler.cli.failures import WHAT_DECIDES, ReplayConflictError
from graveler.cli.interrupts import moving
from graveler.cli.locations import open_repository
from graveler.cli.options import OF_USE, AsJson, LakeOption, Message, Metadata, Quiet, check_utf8
from graveler.cli.progress import MANY, counting, shows_progress
from graveler.cli.request_options import commit_info, request_fields, run_request, with_options
from graveler.cli.sums import total_lines
from graveler.cli.table_changes import MergedTables
from graveler.cli.terminal import Screen, output
from graveler.cli.uris import RefURI, parse_branch_of, parse_ref, parse_ref_of
from graveler.cli.values import (
    SHORT,
    commit_json,
    commit_line,
    conflict_json,
    conflict_lines,
    count,
    document_of,
)
from graveler.errors import GravelerError, InvalidError, MergeConflictError, RefNotFoundError, UnexpectedHeadError

if TYPE_CHECKING:
    from graveler.model import Commit, CommitID, Isolation, MergePreview, MergeStrategies
    from graveler.remote.any_repository import AnyRepository
    from graveler.requests.merging import CherryPick, Revert

Replayed = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="The commit, lakefs://REPOSITORY/REF", autocompletion=completion.branches),
]
Branch = Annotated[
    str | None,
    typer.Argument(
        metavar="BRANCH",
        help=f"The branch that gets the new commit: one in the same repository, or its URI. {OF_USE}",
        autocompletion=completion.other_branches,
    ),
]

Strategy = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        metavar="WHO|TABLE=WHO",
        help="Which side wins if both changed an object, source-wins or dest-wins; or an Iceberg table, shop.orders=source-wins; "
        "repeatable. [default: neither, a conflict]",
    ),
]
StrategyFor = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy-for",
        metavar="PREFIX=WHO",
        help="Which side wins below a prefix, source-wins or dest-wins; repeatable, the longest prefix applies.",
    ),
]

IsolationLevel = Annotated[
    Literal["snapshot", "serializable"] | None,
    typer.Option(
        "--isolation",
        help="May one side remove rows of a partition of an Iceberg table to which the other added some: snapshot, yes. "
        "[default: as the table's properties say]",
    ),
]

_WINNERS = ("source-wins", "dest-wins")


@with_options(lambda: requests.merging.Merge, before="message", earlier={"squash": "dry_run"})
def merge(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="lakefs://REPOSITORY/REF", autocompletion=completion.branches)
    ],
    destination: Annotated[
        str | None,
        typer.Argument(
            metavar="BRANCH",
            help=f"The destination: a branch in the same repository, or its URI. {OF_USE}",
            autocompletion=completion.other_branches,
        ),
    ] = None,
    strategy: Strategy = None,
    strategy_for: StrategyFor = None,
    isolation: IsolationLevel = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what the merge would do, without doing it.")] = False,
    message: Message = "",
    meta: Metadata = None,
    quiet: Quiet = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Merge another branch into a branch.

    What SOURCE changed since the common base becomes a commit on BRANCH, with two parents. If both sides changed an object in
    different ways, nothing is changed, all conflicts are listed, and the exit code is 4; the same goes for a dry run. A merge
    into a BRANCH with uncommitted changes fails, unless --beside-uncommitted is given. An Iceberg table that both sides changed
    is merged by its rows; a dry run says what happens to it, and why.

    If data is checked before it is published, --expect-head names the commit that was checked: the merge brings exactly that
    commit, or fails with exit code 5 if SOURCE has moved since. With --expect-destination, the same goes for BRANCH, so that the
    merged data are those that were checked and nothing else.

    \b
    Examples:
      graveler merge lakefs://quickstart/experiment main
      graveler merge lakefs://quickstart/experiment main --dry-run
      graveler merge lakefs://quickstart/experiment main --strategy dest-wins
      graveler merge lakefs://quickstart/experiment main \\
        --strategy-for raw/=dest-wins --strategy-for raw/new/=source-wins
      graveler merge lakefs://quickstart/audit main --expect-head 1eedb312535f
      graveler merge lakefs://quickstart/dev main --strategy shop.orders=dest-wins

    \b
    JSON: one document {commit, conflicts}: commit as in `commit`, or null;
      conflicts are {path, base, source, destination}, each side an object
      as in `stat`, or null. With conflicts also tables, Iceberg tables among
      them: {path, name, outcome, reasons, notes}; reasons are {kind, sentence,
      partition, files, columns, source_rows, destination_rows}.
      With --dry-run {base, totals, conflicts, tables}: base is a commit ID,
      totals is {added, added_bytes, removed, removed_bytes, changed,
      changed_bytes_before, changed_bytes_after}, tables are all that both sides
      changed; outcome is merged, source, destination or conflict, and source
      and destination are their changes, as table in `diff`.
    """
    uri = parse_ref(source)
    branch = parse_ref_of(uri.repository, destination)
    info = commit_info(message, meta)
    strategies = parse_strategies(strategy, strategy_for, isolation)
    repository = open_repository(lake, uri.repository)
    screen = output(as_json=as_json)
    fields = request_fields(context, repository)
    request = requests.merging.Merge(source=uri.ref, destination=branch, info=info, strategies=strategies, **fields)
    if dry_run:
        _check_expected(repository, uri.ref, request.expected_head)
        _check_expected(repository, branch, request.expected_destination)
        preview = repository.preview_merge(uri.ref, branch, strategies)
        _show_preview(screen, preview, uri.ref, branch, MergedTables(repository, preview))
        if preview.conflicts:
            raise typer.Exit(ExitCode.CONFLICT)
        return
    with (
        moving(repository, branch),
        conflicts_as_json(screen),
        counting(
            "merging",
            _objects_of(repository, branch, quiet=quiet),
            noun="objects",
            moves=False,
            least=MANY,
            quiet=quiet,
        ) as progress,
    ):
        commit = run_request(repository, request, progress=progress)
    _say(screen, f"{'squashed' if request.squash else 'merged'} {screen.safe(uri.ref)} into {branch}", commit)


@with_options(lambda: requests.merging.Revert, before="message", earlier={"parent_number": "strategy"})
def revert(
    context: typer.Context,
    source: Replayed,
    branch: Branch = None,
    strategy: Strategy = None,
    strategy_for: StrategyFor = None,
    isolation: IsolationLevel = None,
    message: Message = "",
    meta: Metadata = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Undo the changes of one commit on a branch.

    Creates a new commit; later changes to other objects stay. If the branch has since changed the same objects, nothing is
    changed, all conflicts are listed, and the exit code is 4. With --strategy source-wins, these objects become those before the
    commit; with dest-wins, they stay as they are on the branch.

    \b
    Examples:
      graveler revert lakefs://quickstart/main main
      graveler revert lakefs://quickstart/main~3 main -m "Without June"
      graveler revert lakefs://quickstart/v2 main --parent 1   (a merge)
      graveler revert lakefs://quickstart/main~3 main --strategy dest-wins

    \b
    JSON: one document {commit, conflicts}, as in `merge`; a conflict's source
      is the object before the commit, its base the object in the commit.
    """
    fields = _replay_fields(context, parse_strategies(strategy, strategy_for, isolation), message, meta)
    _replay(requests.merging.Revert, source, branch, fields, lake, as_json=as_json)


@with_options(lambda: requests.merging.CherryPick, before="message", earlier={"parent_number": "strategy"})
def cherry_pick(
    context: typer.Context,
    source: Replayed,
    branch: Branch = None,
    strategy: Strategy = None,
    strategy_for: StrategyFor = None,
    isolation: IsolationLevel = None,
    message: Message = "",
    meta: Metadata = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Apply the changes of a commit from elsewhere to a branch.

    Creates a commit with the message and metadata of the original. If the branch has other versions of the same objects, nothing
    is changed, all conflicts are listed, and the exit code is 4. With --strategy source-wins, these objects become those of the
    commit; with dest-wins, they stay as they are on the branch.

    \b
    Examples:
      graveler cherry-pick lakefs://quickstart/experiment~2 main
      graveler cherry-pick lakefs://quickstart/v2 main --parent 1   (a merge)
      graveler cherry-pick lakefs://quickstart/fix main \\
        --strategy-for raw/=source-wins

    \b
    JSON: one document {commit, conflicts}, as in `merge`; a conflict's source
      is the object in the commit, its base the object before it.
    """
    fields = _replay_fields(context, parse_strategies(strategy, strategy_for, isolation), message, meta)
    _replay(requests.merging.CherryPick, source, branch, fields, lake, as_json=as_json)


def _replay_fields(
    context: typer.Context, strategies: "MergeStrategies", message: str, meta: Metadata
) -> dict[str, Any]:
    return {"strategies": strategies, "info": commit_info(message, meta), **request_fields(context)}


def _replay(
    kind: "type[Revert] | type[CherryPick]",
    source: str,
    destination: str | None,
    fields: Mapping[str, Any],
    lake: LakeOption,
    *,
    as_json: bool,
) -> None:
    from graveler.history.names import is_branch

    is_revert = issubclass(kind, requests.merging.Revert)
    verb = "revert" if is_revert else "cherry-pick"
    if ".." in source:
        order = "the newest first" if is_revert else "the oldest first"
        raise InvalidError(f"{source!r} is a range, and each {verb} takes one commit: name them one by one, {order}")
    uri = parse_ref(source)
    try:
        branch = parse_branch_of(uri.repository, destination)
    except InvalidError:
        if destination is not None and is_branch(uri.ref):
            raise _swapped(verb, uri, parse_ref_of(uri.repository, destination)) from None
        raise
    repository = open_repository(lake, uri.repository)
    screen = output(as_json=as_json)
    request = kind(branch=branch, ref=uri.ref, **fields)
    try:
        with conflicts_as_json(screen), moving(repository, branch):
            commit = run_request(repository, request)
    except MergeConflictError as error:
        doing = f"reverting {uri.ref!r} on" if is_revert else f"picking {uri.ref!r} onto"
        side = f"before {uri.ref}" if is_revert else uri.ref
        raise ReplayConflictError(f"{doing} {branch!r}", side, branch, error.conflicts, error.tables) from None
    except RefNotFoundError as error:
        if error.ref == branch and _is_swapped(repository, uri.ref, branch):
            raise _swapped(verb, uri, branch) from None
        raise
    except InvalidError:
        parents = 0 if request.parent_number else _number_of_parents(repository, uri.ref)
        if parents > 1:
            raise InvalidError(
                f"{uri.ref!r} is a merge of {parents} commits; choose the parent to compare with: `--parent 1` (the branch "
                f"merged into) or `--parent {parents}`"
            ) from None
        raise
    action = f"reverted {uri.ref} on {branch}" if is_revert else f"picked {uri.ref} onto {branch}"
    _say(screen, screen.safe(action), commit)


def _number_of_parents(repository: "AnyRepository", ref: str) -> int:
    """Return the number of a commit's parents; 0 if it cannot be read."""
    try:
        return len(repository.commit_of(ref).parents)
    except GravelerError:  # the error that is being reported matters, not this one
        return 0


def _is_swapped(repository: "AnyRepository", source: str, branch: str) -> bool:
    """Return whether the source is a branch and the branch a commit, as in lakectl's order of these arguments."""
    try:
        repository.branch(source)
        repository.commit_of(branch)
    except GravelerError:  # the error that is being reported matters, not this one
        return False
    return True


def _swapped(verb: str, source: RefURI, destination: str) -> InvalidError:
    command = f"`graveler {verb} {RefURI(source.repository, destination)} {source.ref}`"
    return InvalidError(f"{destination!r} is not a branch; the commit comes first, then the branch: {command}")


@contextmanager
def conflicts_as_json(screen: Screen) -> Iterator[None]:
    """Print the conflicts for programs, if the merge within fails by some."""
    try:
        yield
    except MergeConflictError as error:
        tables = {"tables": [document_of(table) for table in error.tables]} if error.tables else {}
        screen.answer({"commit": None, "conflicts": [conflict_json(item) for item in error.conflicts], **tables})
        raise


def _objects_of(repository: "AnyRepository", branch: str, *, quiet: bool) -> int | None:
    """Return the number of objects of the branch, which is about that of the merged tree; None if no progress is shown."""
    return repository.du(repository.branch(branch).commit_id).objects if shows_progress(quiet=quiet) else None


def _say(screen: Screen, action: str, commit: "Commit") -> None:
    screen.answer({"commit": commit_json(commit), "conflicts": []}, commit_line(screen, action, commit))


def _check_expected(repository: "AnyRepository", ref: str, expected: "CommitID | None") -> None:
    """Refuse a dry run as the merge would be refused. One lookup; nothing unless a commit is expected."""
    if expected is not None and (head := repository.commit_of(ref).id) != expected:
        raise UnexpectedHeadError(ref, expected, head)


def parse_strategies(
    strategies: list[str] | None, by_prefix: list[str] | None, isolation: "Isolation | None" = None
) -> "MergeStrategies":
    """Parse strategies. :class:`InvalidError` for what is not ``WHO`` or ``TABLE=WHO``, or in ``by_prefix`` ``PREFIX=WHO``, or
    comes twice; ``WHO`` is ``source-wins`` or ``dest-wins``."""
    from msgspec import UNSET

    from graveler.model import MergeStrategies, MergeStrategy

    default = MergeStrategy.NONE
    pairs: list[tuple[str, MergeStrategy]] = []
    for text in strategies or ():
        name, separator, winner = text.rpartition("=")
        if winner not in _WINNERS or (separator and not name):
            raise InvalidError(
                f"--strategy {text!r} is none of source-wins, dest-wins, TABLE=source-wins, TABLE=dest-wins"
            )
        if name:
            pairs.append((_table_path(name), MergeStrategy(winner)))
        elif default is not MergeStrategy.NONE:
            raise InvalidError("--strategy names the side that wins twice; give it once, and once for each table")
        else:
            default = MergeStrategy(winner)
    for text in by_prefix or ():
        prefix, _, winner = text.rpartition("=")
        if not prefix or winner not in _WINNERS:
            raise InvalidError(f"--strategy-for {text!r} is not of the form PREFIX=source-wins or PREFIX=dest-wins")
        pairs.append((check_utf8("--strategy-for", prefix), MergeStrategy(winner)))
    prefixes = [prefix for prefix, _ in pairs]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise InvalidError(f"--strategy-for names prefix {prefix!r} twice; give each prefix once")
    return MergeStrategies(default, tuple(pairs), isolation or UNSET)


def _table_path(name: str) -> str:
    """Return the path of the entry of a table, by its name."""
    from graveler.lake.iceberg.catalog_paths import parse_table, relation_key  # few merges name a table

    return relation_key(parse_table(check_utf8("--strategy", name)), "table").decode()


def _show_preview(screen: Screen, preview: "MergePreview", source: str, branch: str, tables: MergedTables) -> None:
    from msgspec.structs import asdict

    totals, conflicts = preview.totals, preview.conflicts
    base = screen.paint(preview.base[:SHORT], "yellow")
    heading = [screen.paint(f"and {count(len(conflicts), 'conflict')}:", "red")] if conflicts else []
    screen.answer(
        {
            "base": preview.base,
            "totals": asdict(totals),
            "conflicts": [conflict_json(conflict) for conflict in conflicts],
            "tables": tables.documents() if screen.as_json else [],
        },
        f"merging {screen.safe(source)} into {branch} (base {base}) would bring:",
        *(f"  {line}" for line in total_lines(screen, totals)),
        *heading,
        *conflict_lines(screen, conflicts, source, branch),
        *(() if screen.as_json else tables.lines(screen, source, branch)),
        screen.paint(f"nothing was changed{f'. {WHAT_DECIDES}' if conflicts else ''}", "dim"),
    )
