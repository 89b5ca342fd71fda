"""``python -m bench.chart``: draws ``bench/chart.svg`` from the figures that ``python -m bench.scale --write`` has kept.

Each panel is a verb: its cost against the size of the lake, before and now. Both axes are logarithmic, so a cost that does not
grow is a level line, and one that grows with the lake a slope. A test holds the file to this module and the figures.
"""

from math import log10
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import msgspec
from msgspec import Struct
from tests.make_drawings import COLOURS, INK

from bench.lines import show

CHART: Final = Path(__file__).with_name("chart.svg")
FIGURES: Final = Path(__file__).with_name("scale.json")
PANELS: Final = {
    "commit": "commit of one change",
    "merge": "merge of one against one",
    "stat": "look up an object",
    "cold stat": "look up, new process",
}
"""The rows of :mod:`bench.scale` that are drawn, and what they are called."""
TITLE: Final = "CPU time of verbs, by the size of the lake"
WIDTH, HEIGHT = 860, 344
LEFT, TOP, BOTTOM = 62, 66, 262
PANEL, GAP = 160, 38
"""The width of a panel, and from one to the next, in units of the drawing."""
FEWEST, MOST = 6, 9
"""Powers of ten: objects in the lake."""
LEAST, LONGEST = -5, 1
"""Powers of ten: seconds."""
FLOOR: Final = 5e-6
"""Seconds at the lower edge."""
LETTERS: Final = 11
"""The height of figures, in units of the drawing."""
POWERS: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹"
DIFFERENT: Final = 1.5
"""From this ratio on, what was before is drawn as a line of its own."""

Points = dict[int, float]
"""Seconds by the number of objects."""


class Figures(Struct, frozen=True):
    """What was measured: the run's title, the commit of the state before, and medians in seconds and bytes by state, row and
    number of objects."""

    title: str
    before: str
    medians: dict[str, dict[str, Points]]


def main() -> None:
    CHART.write_text(drawn(read()))


def read() -> Figures:
    """The figures of the last run that was kept."""
    return msgspec.json.decode(FIGURES.read_bytes(), type=Figures)


def keep(figures: Figures) -> None:
    """Keep the figures of a run, and draw them."""
    FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")
    main()


def drawn(figures: Figures) -> str:
    """The chart, as SVG. It loads nothing, says its figures to screen readers, and follows the colours of the system."""
    said = "; ".join(
        f"{title}: {_said(figures.medians['now'][row])}"
        + (f", before {_said(before)}" if (before := figures.medians.get("before", {}).get(row)) else "")
        for row, title in PANELS.items()
    )
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-labelledby="title desc">',
        f'<title id="title">{TITLE}</title>',
        f'<desc id="desc">{escape(said)}.</desc>',
        f"<style>{_style()}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        f'<text class="head" x="{LEFT}" y="26">{TITLE}</text>',
        *_legend(figures),
    ]
    parts += [
        f'<text x="{LEFT - 8}" y="{_y(10.0**power) + 4:.1f}" text-anchor="end">{_time(power)}</text>'
        for power in range(LEAST, LONGEST + 1)
    ]
    for number, (row, title) in enumerate(PANELS.items()):
        before = figures.medians.get("before", {}).get(row, {})
        parts += _panel(LEFT + number * (PANEL + GAP), title, figures.medians["now"][row], before)
    middle = LEFT + 2 * PANEL + 1.5 * GAP
    parts += [
        f'<text x="{middle:g}" y="{BOTTOM + 40}" text-anchor="middle">objects in the lake</text>',
        f'<text class="soft" x="{middle:g}" y="{BOTTOM + 64}" text-anchor="middle">{escape(figures.title.split(":")[0])}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(left: float, title: str, now: Points, before: Points) -> list[str]:
    """One verb's lines, each with its first and last figure."""
    parts = [f'<text class="name" x="{left + PANEL / 2:g}" y="{TOP - 10}" text-anchor="middle">{escape(title)}</text>']
    for power in range(LEAST, LONGEST + 1):
        y = _y(10.0**power)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + PANEL}" y1="{y:.1f}" y2="{y:.1f}"/>')
    for power in range(FEWEST, MOST + 1):
        x = _x(left, 10.0**power)
        parts.append(f'<text x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">10{POWERS[power]}</text>')
    apart = any(size in before and not 1 / DIFFERENT < before[size] / now[size] < DIFFERENT for size in now)
    if apart:
        parts += _line(left, before, "before")
    parts += _line(left, now, "now", below=apart)
    return parts


def _line(left: float, points: Points, kind: str, *, below: bool = False) -> list[str]:
    """A line with its points, and the figures of the first and the last one above it, or below it, where there is room."""
    places = {size: (_x(left, size), _y(points[size])) for size in sorted(points)}
    parts = [f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places.values())}"/>']
    parts += [f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>' for x, y in places.values()]
    for size, anchor, right in ((min(places), "start", -6), (max(places), *(("start", -4) if below else ("end", 6)))):
        x, y = places[size]
        place = f'x="{x + right:.1f}" y="{y + (LETTERS + 10 if below else -9):.1f}"'
        parts.append(f'<text class="{kind}" {place} text-anchor="{anchor}">{shown(points[size])}</text>')
    return parts


def _legend(figures: Figures) -> list[str]:
    """What the kinds of lines are."""
    kinds = {"now": "now"} | ({"before": f"before ({figures.before})"} if "before" in figures.medians else {})
    parts, x = [], WIDTH - 264.0
    for kind, meaning in kinds.items():
        parts.append(f'<line class="{kind}" x1="{x:g}" x2="{x + 26:g}" y1="22" y2="22"/>')
        parts.append(f'<text x="{x + 34:g}" y="26">{escape(meaning)}</text>')
        x += 90
    return parts


def _x(left: float, objects: float) -> float:
    return left + (log10(objects) - FEWEST) / (MOST - FEWEST) * PANEL


def _y(seconds: float) -> float:
    return BOTTOM - log10(seconds / FLOOR) / (LONGEST - log10(FLOOR)) * (BOTTOM - TOP)


def _time(power: int) -> str:
    """A power of ten of a second."""
    unit, factor = ("s", 0) if power >= 0 else ("ms", 3) if power >= -3 else ("µs", 6)
    return f"{10 ** (power + factor)} {unit}"


def shown(seconds: float) -> str:
    """A time with three digits."""
    return show(seconds) if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _said(points: Points) -> str:
    return ", ".join(f"{shown(seconds)} at {size:,} objects" for size, seconds in sorted(points.items()))


def _style() -> str:
    light, dark = (
        f".paper{{fill:{COLOURS[scheme]['paper'][0]}}}text{{fill:{INK[scheme]}}}.grid{{stroke:{COLOURS[scheme]['plain'][1]}}}"
        + "".join(
            f"line.{kind},polyline.{kind}{{stroke:{colour}}}circle.{kind},text.{kind}{{fill:{colour}}}"
            for kind, colour in (("now", COLOURS[scheme]["other"][1]), ("before", COLOURS[scheme]["plain"][1]))
        )
        + f".soft{{fill:{COLOURS[scheme]['plain'][1]}}}"
        for scheme in ("light", "dark")
    )
    shapes = (
        "text{font:12px system-ui,sans-serif}.head{font-size:15px;font-weight:600}.name{font-size:13px}"
        ".grid{stroke-width:1;opacity:.25}"
        f"text.now,text.before{{font-size:{LETTERS}px}}"
        "line.now,polyline.now,line.before,polyline.before{fill:none;stroke-width:2.2}"
        "line.before,polyline.before{stroke-dasharray:5 4;stroke-width:1.8}"
    )
    return f"{shapes}{light}@media (prefers-color-scheme:dark){{{dark}}}"


if __name__ == "__main__":
    main()
