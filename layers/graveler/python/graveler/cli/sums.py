"""The display of sums: differences and usage; a line per folder, and one for all."""

from typing import TYPE_CHECKING

from graveler.cli.terminal import Json, Screen
from graveler.cli.values import count, human_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graveler.lake.reading.summary import Summary, Usage
    from graveler.model import Totals
    from graveler.requests.importing import ImportChanges
    from graveler.retention.runs import Tally
    from graveler.retention.space import Space

_SIZES = "{} → {}"


def show_summary(screen: Screen, summary: "Summary", prefix: str, if_none: str) -> None:
    """Show how much differs. ``prefix`` is the requested one."""
    from msgspec.structs import asdict

    for part in summary.parts:
        _show_part(screen, part.path, prefix, asdict(part.totals), totals_text(screen, part.totals))
    total = totals_text(screen, summary.total)
    label = f"  {screen.paint('total', 'dim')}" if summary.parts else ""
    document: Json = {"type": "total", "path": prefix, **asdict(summary.total)}
    screen.answer(document, f"{total}{label}" if total else screen.paint(if_none, "dim"))


def show_import(screen: Screen, changes: "ImportChanges", *, would: bool = False) -> None:
    """Show what an import added, replaced and removed at its destination, or ``would``; a line for each that is not zero, and one
    for what is unchanged."""
    verb = "would be " if would else ""
    replaced = _SIZES.format(human_size(changes.replaced_bytes_before), human_size(changes.replaced_bytes_after))
    lines = (
        ("+", "added", changes.added, human_size(changes.added_bytes), "green"),
        ("~", "replaced", changes.replaced, replaced, "yellow"),
        ("-", "removed", changes.removed, human_size(changes.removed_bytes), "red"),
        (" ", "unchanged", changes.unchanged, human_size(changes.unchanged_bytes), "dim"),
    )
    for mark, done, number, size, colour in lines:
        if number:
            screen.note(screen.paint(f"  {mark} {count(number, 'object')} {verb}{done}, {size}", colour))
    if changes.excluded:
        screen.note(screen.paint(f"    {excluded_text(changes.excluded)}", "dim"))


def excluded_text(number: int) -> str:
    """Return how many files and folders patterns have left out."""
    return f"{number:,} left out by .gravelerignore or --exclude"


def show_usage(screen: Screen, usage: "Usage", prefix: str) -> None:
    """Show the usage. ``prefix`` is the requested one."""
    for part in usage.parts:
        numbers = {"objects": part.objects, "size": part.size}
        _show_part(screen, part.path, prefix, numbers, _usage_text(part.objects, part.size))
    screen.answer(
        {"type": "total", "path": prefix, "objects": usage.objects, "size": usage.size},
        f"{_usage_text(usage.objects, usage.size)}  {screen.paint('total', 'dim')}",
    )


def show_space(screen: Screen, space: "Space") -> None:
    """Show the space by holder."""
    if screen.as_json:
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
    folders = ", ".join(f"{folder} {human_size(tally.bytes)}" for folder, tally in sorted(space.own.items()))
    screen.line(screen.safe(f"graveler's own files: {folders}"))
    if space.unknown.files:
        screen.line(f"unknown files: {count(space.unknown.files, 'file')}, {human_size(space.unknown.bytes)}")


def totals_text(screen: Screen, totals: "Totals") -> str:
    """Return ``+ 2 objects, 3.4 MiB; ~ 1 object, 5 B → 7 B``. Empty if nothing differs."""
    return "; ".join(
        screen.paint(f"{mark} {count(number, 'object')}, {size}", colour)
        for mark, _, number, size, colour in _changed(totals, _SIZES)
    )


def total_lines(screen: Screen, totals: "Totals") -> list[str]:
    """Return a line for each kind of change: ``~ 1 changed, 5 B before and 7 B after``."""
    return [
        screen.paint(f"{mark} {number:,} {kind}, {size}", colour)
        for mark, kind, number, size, colour in _changed(totals, "{} before and {} after")
    ] or ["no changes"]


def _changed(totals: "Totals", sizes: str) -> "Iterator[tuple[str, str, int, str, str]]":
    """Yield mark, name, number, size and colour of each kind of change that there is. ``sizes`` joins two sizes."""
    before, after = human_size(totals.changed_bytes_before), human_size(totals.changed_bytes_after)
    if totals.added:
        yield "+", "added", totals.added, human_size(totals.added_bytes), "green"
    if totals.removed:
        yield "-", "removed", totals.removed, human_size(totals.removed_bytes), "red"
    if totals.changed:
        yield "~", "changed", totals.changed, sizes.format(before, after), "yellow"


def _space_text(tally: "Tally") -> str:
    return f"{count(tally.files, 'object')}, {human_size(tally.bytes)}"


def _show_part(screen: Screen, path: str, prefix: str, numbers: Json, text: str) -> None:
    """Show the sums of a folder, or of what is in none."""
    is_folder = path != prefix
    name = screen.paint(screen.safe(path), "blue", "bold") if is_folder else screen.paint("(in no folder)", "dim")
    screen.answer({"type": "prefix" if is_folder else "direct", "path": path, **numbers}, f"{text}  {name}")


def _usage_text(objects: int, size: int) -> str:
    return f"{human_size(size):>10}  {count(objects, 'object'):>16}"
