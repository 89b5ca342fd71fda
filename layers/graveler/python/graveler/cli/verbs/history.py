"""The verbs for the past: the log and its graph, one commit, and the positions of a branch."""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli import completion
from graveler.cli.changed_objects import Patch, Stat, patches_of, show_changes
from graveler.cli.locations import open_repository
from graveler.cli.options import OF_USE, AsJson, LakeOption
from graveler.cli.pager import NoPager, paged
from graveler.cli.terminal import Screen, output
from graveler.cli.times import parse_moment
from graveler.cli.uris import parse_branch, parse_ref, parse_ref_of
from graveler.cli.values import (
    SHORT,
    commit_json,
    first_line,
    moment,
    reflog_json,
)
from graveler.errors import InvalidError
from graveler.history.lanes import Drawn, Lanes, Row
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.model import Commit, CommitID
    from graveler.remote.any_repository import AnyRepository

_PAGE = 100
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")

DefaultRef = Annotated[
    str | None,
    typer.Argument(metavar="REF", help=f"lakefs://REPOSITORY/REF {OF_USE}", autocompletion=completion.branches),
]
Amount = Annotated[int | None, typer.Option("--number", "-n", min=1, metavar="N", help="Show at most N.")]


def log(
    ref: DefaultRef = None,
    number: Amount = None,
    graph: Annotated[bool, typer.Option("--graph", help="Draw the commit graph.")] = False,
    oneline: Annotated[bool, typer.Option("--oneline", help="Show one line per commit.")] = False,
    first_parent: Annotated[
        bool, typer.Option("--first-parent", help="Follow only the first parent of merges.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only commits since a date or a time ago: 2026-06-01, 3d, 12h."),
    ] = None,
    stop_at: Annotated[
        str | None,
        typer.Option(
            "--stop-at",
            metavar="REF",
            help="Stop at this ref's commit, the last one shown.",
            autocompletion=completion.other_refs,
        ),
    ] = None,
    paths: Annotated[
        list[str] | None,
        typer.Option("--path", metavar="PATH", help="Only commits that changed this path; repeatable."),
    ] = None,
    prefixes: Annotated[
        list[str] | None,
        typer.Option(
            "--prefix", metavar="PATH", help="Only commits that changed paths starting with this; repeatable."
        ),
    ] = None,
    author: Annotated[
        str, typer.Option("--author", metavar="NAME", help="Only commits of this committer, by the whole name.")
    ] = "",
    grep: Annotated[
        str, typer.Option("--grep", metavar="TEXT", help="Only commits whose message has this text, in any case.")
    ] = "",
    no_pager: NoPager = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the commits reachable from a ref, newest first.

    With --path or --prefix, only those that changed one of them; a merge is shown if its result differs there from every parent
    (with --first-parent, from the first).

    \b
    Examples:
      graveler log lakefs://quickstart/main -n 10
      graveler log lakefs://quickstart/main --since 3d --prefix data/
      graveler log lakefs://quickstart/main --author etl --grep lakes
      graveler log lakefs://quickstart/main --stop-at v1
      graveler log lakefs://quickstart/main --graph --oneline
      graveler log lakefs://quickstart/main --json | jq -r .message

    JSON: a line {id, parents, message, committer, created, metadata, generation, metarange_id} for each.
    """
    uri = parse_ref(ref)
    created_since = None if since is None else parse_moment("--since", since)
    end = None if stop_at is None else parse_ref_of(uri.repository, stop_at)
    if graph and (paths or prefixes or author or grep):
        raise InvalidError(
            "--graph draws the whole history; it does not work with --path, --prefix, --author or --grep, so leave out --graph "
            "or these"
        )
    repository = open_repository(lake, uri.repository)
    # Both are pinned, so that a branch that moves meanwhile does not mix two logs.
    start = repository.commit_of(uri.ref).id
    last = None if end is None else repository.commit_of(end).id
    # With a filter, a page of the requested size needs no search for whether more follows.
    whole = number is not None and number <= _PAGE
    commits = items(
        lambda after: repository.log(
            start,
            after=_position(after),
            amount=min(number or _PAGE, _PAGE),
            first_parent=first_parent,
            since=created_since,
            stop_at=last,
            paths=paths or (),
            prefixes=prefixes or (),
            author=author,
            text=grep,
            limit=whole,
        ),
        number,
    )
    if as_json:
        for commit in commits:
            output(as_json=True).json(commit_json(commit))
        return
    names = _names(repository)
    with paged(direct=no_pager) as screen:
        lanes = Lanes(boxes=screen.draws_boxes) if graph else None
        for commit in commits:
            text = _oneline(screen, commit, names) if oneline else _paragraph(screen, commit, names)
            if lanes is None:
                for line in text:
                    screen.line(line)
                continue
            drawn = lanes.add(commit.id, commit.parents[:1] if first_parent else commit.parents)
            for line in _beside(screen, drawn, text):
                screen.line(line)


def show(
    ref: DefaultRef = None,
    stat: Stat = False,
    patch: Patch = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a commit and what it changed relative to its first parent.

    \b
    Examples:
      graveler show lakefs://quickstart/main
      graveler show lakefs://quickstart/v1~2 --stat
      graveler show lakefs://quickstart/main -p

    \b
    JSON: a line for the commit, as in `log`,
      then a line {type, path, before, after} for each change; with --patch,
      also patch, as in `diff`.
    """
    uri = parse_ref(ref)
    repository = open_repository(lake, uri.repository)
    commit = repository.commit_of(uri.ref)
    parent = commit.parents[0] if commit.parents else None
    screen = output(as_json=as_json)
    names = None if as_json else _names(repository).get(commit.id)
    parents = {"parents": " ".join(p[:SHORT] for p in commit.parents)} if commit.parents else {}
    metadata = {f"meta {key}": value for key, value in commit.metadata.items()}
    screen.answer(
        commit_json(commit),
        f"commit {screen.paint(commit.id, 'yellow')}{_beside_id(screen, names)}",
        *screen.fields({"committer": commit.committer, "date": moment(commit.created), **parents, **metadata}),
        "",
        *(f"    {screen.safe(line)}" for line in commit.message.splitlines()),
        "",
    )
    if parent is None:
        return
    changes = items(lambda after: repository.diff(parent, commit.id, after=after, amount=1000))
    patches = patches_of(repository, parent, commit.id) if patch else None
    show_changes(screen, changes, "no changes", stat=stat, patches=patches)


def reflog(
    branch: Annotated[
        str | None,
        typer.Argument(
            metavar="BRANCH",
            help=f"lakefs://REPOSITORY/BRANCH, even of a deleted branch {OF_USE}",
            autocompletion=completion.branches,
        ),
    ] = None,
    number: Amount = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show where a branch has been and what moved it, newest first. Entries are kept for 90 days.

    \b
    Examples:
      graveler reflog lakefs://quickstart/main
      graveler reflog lakefs://quickstart/main -n 5 --json

    JSON: a line {time_ns, operation, operation_id, by, old, new} for each; old is null for a creation, new for a deletion.
    """
    uri = parse_branch(branch)
    repository = open_repository(lake, uri.repository)
    entries = repository.reflog(uri.ref, number or 100)
    if not entries:
        repository.branch(uri.ref)  # raises if it does not exist; else its entries are only too old
    screen = output(as_json=as_json)
    for entry in entries:
        old, new = ((commit_id or "")[:SHORT] or "-" for commit_id in (entry.old, entry.new))
        when = moment(entry.event.time_ns // 1_000_000_000)
        screen.answer(
            reflog_json(entry),
            f"{screen.paint(when, 'dim')}  {screen.paint(f'{old:>12} → {new:<12}', 'yellow')}  "
            f"{entry.event.operation:<18} {screen.safe(entry.event.by)}".rstrip(),
        )


def _position(after: str) -> "CommitID | None":
    from graveler.model import CommitID

    return CommitID(after) if after else None


def _names(repository: "AnyRepository") -> dict[str, list[str]]:
    """Return the branches and tags at each commit."""
    from graveler.lake.reading.refs_at_commits import refs_at_commits  # for people only
    from graveler.model import Branch

    return {
        commit_id: [ref.name if isinstance(ref, Branch) else f"tag: {ref.name}" for ref in refs]
        for commit_id, refs in refs_at_commits(repository).by_commit.items()
    }


def _beside_id(screen: Screen, names: list[str] | None) -> str:
    return screen.paint(f" ({screen.safe(', '.join(names))})", "green", "bold") if names else ""


def _oneline(screen: Screen, commit: "Commit", names: dict[str, list[str]]) -> list[str]:
    subject = screen.safe(first_line(commit.message))
    return [f"{screen.paint(commit.id[:SHORT], 'yellow')}{_beside_id(screen, names.get(commit.id))} {subject}".rstrip()]


def _paragraph(screen: Screen, commit: "Commit", names: dict[str, list[str]]) -> list[str]:
    who = f"{screen.safe(commit.committer)}, " if commit.committer else ""
    head = f"{screen.paint(commit.id[:SHORT], 'yellow')}{_beside_id(screen, names.get(commit.id))}"
    lines = [f"{head}  {screen.paint(who + moment(commit.created), 'dim')}"]
    lines += [f"  {screen.safe(line)}".rstrip() for line in commit.message.splitlines()]
    return [*lines, ""]


def _beside(screen: Screen, drawn: Drawn, text: list[str]) -> Iterator[str]:
    """Yield the rows of a graph with a commit's text to their right."""
    rows = chain((drawn.node, *drawn.links), repeat(drawn.padding))
    height = max(len(text), 1 + len(drawn.links))
    for index in range(height):
        row = _painted(screen, next(rows))
        yield f"{row}  {text[index] if index < len(text) else ''}".rstrip()


def _painted(screen: Screen, row: Row) -> str:
    return "".join(screen.paint(s.text, _COLOURS[s.colour % len(_COLOURS)]) if s.text != " " else " " for s in row)
