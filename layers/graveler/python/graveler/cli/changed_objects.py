"""Lists of changed objects: their paths, with their sizes or with the lines that differ."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli.sums import totals_text
from graveler.cli.terminal import Screen
from graveler.cli.values import change_json, change_line, change_summary
from graveler.text.readable import human_size, printable

if TYPE_CHECKING:
    from graveler.cli.patches import Patches
    from graveler.cli.table_changes import TableChanges
    from graveler.model import Change
    from graveler.remote.any_repository import AnyRepository

Stat = Annotated[bool, typer.Option("--stat", help="Show the sizes of the objects, and their sums.")]
Patch = Annotated[
    bool, typer.Option("--patch", "-p", help="Show the lines that differ, of texts of at most 256 KiB in UTF-8.")
]

_WIDTH = len("1023.9 KiB → 1023.9 KiB")


def patches_of(repository: "AnyRepository", before: str, after: str) -> "Patches":
    """Return the patches of changes from one ref to another."""
    from graveler.cli.patches import Patches  # difflib: only with --patch

    return Patches(repository, before, after)


def show_changes(
    screen: Screen,
    changes: "Iterable[Change]",
    if_none: str,
    *,
    stat: bool = False,
    patches: "Patches | None" = None,
    tables: "TableChanges | None" = None,
) -> None:
    """Show the changes and a line with their sum, which is ``if_none`` without any. As JSON, with ``patches``, a change has a
    ``patch``, null if there is none. With ``tables``, tables, views and namespaces are shown by their names."""
    counts: Counter[str] = Counter()
    for change in changes:
        kind = change.type.value
        counts[kind] += 1
        before, after = (0 if entry is None else entry.size for entry in (change.before, change.after))
        counts[f"{kind} before"] += before
        counts[f"{kind} after"] += after
        if tables is not None and tables.show(screen, change):
            continue
        patch = None if patches is None else patches.of(change)
        if screen.as_json:
            text = None if not isinstance(patch, list) else "".join(f"{line}\n" for line in patch)
            screen.json({**change_json(change), **({} if patches is None else {"patch": text})})
            continue
        screen.line(_stat_line(screen, change) if stat else change_line(screen, change))
        for line in () if patch is None else _patch_lines(screen, patch):
            screen.line(line)
    total = _totals(screen, counts) if stat else change_summary(counts)
    screen.note(screen.paint(total or if_none, "dim"))


def _stat_line(screen: Screen, change: "Change") -> str:
    sizes = " → ".join(human_size(entry.size) for entry in (change.before, change.after) if entry is not None)
    return change_line(screen, change, f"{sizes:>{_WIDTH}}  ")


def _totals(screen: Screen, counts: "Counter[str]") -> str:
    from graveler.model import Totals

    fields = ("added", "added after", "removed", "removed before", "changed", "changed before", "changed after")
    return totals_text(screen, Totals(*(counts[field] for field in fields)))


def _patch_lines(screen: Screen, patch: list[str] | str) -> Iterator[str]:
    if isinstance(patch, str):
        yield screen.paint(f"  ({patch})", "dim")
        return
    for index, line in enumerate(patch):
        style = "bold" if index < 2 else {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        # On a terminal, nothing in an object may move the cursor or hide something.
        shown = "\t".join(map(printable, line.split("\t"))) if sys.stdout.isatty() else line
        yield screen.paint(shown, style) if style else shown
