"""The display of sums: differences and usage; a line per folder, and one for all."""

from typing import TYPE_CHECKING

from graveler.cli.terminal import Json, Screen
from graveler.cli.values import count, human_size

if TYPE_CHECKING:
    from graveler.lake.reading.summary import Summary, Usage
    from graveler.model import Totals
    from graveler.requests.importing import ImportChanges
    from graveler.retention.runs import Tally
    from graveler.retention.space import Space


def show_summary(screen: Screen, summary: "Summary", prefix: str, if_none: str, *, as_json: bool) -> None:
    """Show how much differs. ``prefix`` is the requested one."""
    for part in summary.parts:
        if as_json:
            screen.json({"type": _kind(part.path, prefix), "path": part.path, **_totals_json(part.totals)})
        else:
            screen.line(f"{totals_text(screen, part.totals)}  {_folder(screen, part.path, prefix)}")
    if as_json:
        screen.json({"type": "total", "path": prefix, **_totals_json(summary.total)})
    else:
        total = totals_text(screen, summary.total)
        behind = f"  {screen.paint('total', 'dim')}" if summary.parts else ""
        screen.line(f"{total}{behind}" if total else screen.paint(if_none, "dim"))


def show_import(screen: Screen, changes: "ImportChanges", *, would: bool = False) -> None:
    """Show what an import added, replaced and removed at its destination, or ``would``; a line for each that is not zero, and one
    for what is unchanged."""
    verb = "would be " if would else ""
    before_and_after = f"{human_size(changes.replaced_bytes_before)} → {human_size(changes.replaced_bytes_after)}"
    lines = (
        ("+", "added", changes.added, human_size(changes.added_bytes), "green"),
        ("~", "replaced", changes.replaced, before_and_after, "yellow"),
        ("-", "removed", changes.removed, human_size(changes.removed_bytes), "red"),
        (" ", "unchanged", changes.unchanged, human_size(changes.unchanged_bytes), "dim"),
    )
    for mark, done, number, size, colour in lines:
        if number:
            screen.line(screen.paint(f"  {mark} {count(number, 'object')} {verb}{done}, {size}", colour))
    if changes.excluded:
        screen.line(screen.paint(f"    {excluded_text(changes.excluded)}", "dim"))


def excluded_text(number: int) -> str:
    """Return how many files and folders patterns have left out."""
    return f"{number:,} left out by .gravelerignore or --exclude"


def show_usage(screen: Screen, usage: "Usage", prefix: str, *, as_json: bool) -> None:
    """Show the usage. ``prefix`` is the requested one."""
    for part in usage.parts:
        if as_json:
            fields: Json = {"type": _kind(part.path, prefix), "path": part.path}
            screen.json({**fields, "objects": part.objects, "size": part.size})
        else:
            screen.line(f"{_usage_text(part.objects, part.size)}  {_folder(screen, part.path, prefix)}")
    if as_json:
        screen.json({"type": "total", "path": prefix, "objects": usage.objects, "size": usage.size})
    else:
        screen.line(f"{_usage_text(usage.objects, usage.size)}  {screen.paint('total', 'dim')}")


def show_space(screen: Screen, space: "Space", *, as_json: bool) -> None:
    """Show the space by holder."""
    if as_json:
        from msgspec import to_builtins

        screen.json(to_builtins(space))
        return
    screen.line(screen.paint(f"{'HELD':>10}  {'ALONE':>10}  {'HISTORY':>10}", "dim"))
    for holding in space.holders:
        sizes = "  ".join(
            f"{human_size(tally.bytes):>10}" for tally in (holding.held, holding.exclusive, holding.history)
        )
        screen.line(screen.safe(f"{sizes}  {holding.kind.value} {holding.name}".rstrip()))
    unheld = f", of which {_space_text(space.unheld)} unreferenced" if space.unheld.files else ""
    screen.line(f"{_space_text(space.objects)}{unheld}")
    own = ", ".join(f"{folder} {human_size(tally.bytes)}" for folder, tally in sorted(space.own.items()))
    screen.line(screen.safe(f"graveler's own files: {own}"))
    if space.unknown.files:
        screen.line(f"unknown files: {count(space.unknown.files, 'file')}, {human_size(space.unknown.bytes)}")


def totals_text(screen: Screen, totals: "Totals") -> str:
    """Return ``+ 2 objects, 3.4 MiB; ~ 1 object, 5 B → 7 B``. Empty if nothing differs."""
    words = []
    if totals.added:
        words.append(screen.paint(f"+ {count(totals.added, 'object')}, {human_size(totals.added_bytes)}", "green"))
    if totals.removed:
        words.append(screen.paint(f"- {count(totals.removed, 'object')}, {human_size(totals.removed_bytes)}", "red"))
    if totals.changed:
        sizes = f"{human_size(totals.changed_bytes_before)} → {human_size(totals.changed_bytes_after)}"
        words.append(screen.paint(f"~ {count(totals.changed, 'object')}, {sizes}", "yellow"))
    return "; ".join(words)


def _space_text(tally: "Tally") -> str:
    return f"{count(tally.files, 'object')}, {human_size(tally.bytes)}"


def _kind(path: str, prefix: str) -> str:
    return "direct" if path == prefix else "prefix"


def _folder(screen: Screen, path: str, prefix: str) -> str:
    """Return a common prefix; for what is in none, a text that says so."""
    if path == prefix:
        return screen.paint("(in no folder)", "dim")
    return screen.paint(screen.safe(path), "blue", "bold")


def _totals_json(totals: "Totals") -> Json:
    return {
        "added": totals.added,
        "added_bytes": totals.added_bytes,
        "removed": totals.removed,
        "removed_bytes": totals.removed_bytes,
        "changed": totals.changed,
        "changed_bytes_before": totals.changed_bytes_before,
        "changed_bytes_after": totals.changed_bytes_after,
    }


def _usage_text(objects: int, size: int) -> str:
    return f"{human_size(size):>10}  {count(objects, 'object'):>16}"
