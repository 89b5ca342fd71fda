"""Writes the drawings of ``docs/drawings``: ``python -m tests.make_drawings``. A test holds the files to this module.

Each is an SVG file that loads nothing, has a title and a description for screen readers, and follows the colours of the system.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "drawings"
SIZE: Final = 14
"""Of the letters, in units of the drawing."""
LETTER: Final = 7.4
"""The width of an average letter, in units of the drawing."""
LINE: Final = 19
"""From one line of text to the next, in units of the drawing."""

COLOURS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "light": {
        "paper": ("#ffffff", "#ffffff"),
        "plain": ("#f3f6fa", "#57606a"),
        "same": ("#ddf4e4", "#1a7f37"),
        "new": ("#fff1cf", "#9a6700"),
        "other": ("#e0e9ff", "#2f5bd0"),
    },
    "dark": {
        "paper": ("#161b22", "#161b22"),
        "plain": ("#21262d", "#8b949e"),
        "same": ("#12361f", "#3fb950"),
        "new": ("#3d2e00", "#d29922"),
        "other": ("#172a58", "#7aa2ff"),
    },
}
"""For each scheme and kind of box, the colours of its area and of its edge."""
INK: Final = {"light": "#1f2328", "dark": "#e6edf3"}
"""The colour of text and arrows in each scheme."""


class Drawing:
    """A drawing of boxes, arrows and texts. All positions are units from the upper left corner."""

    def __init__(self, name: str, width: int, height: int, title: str, description: str) -> None:
        self.name, self.width, self.height = name, width, height
        self.title, self.description = title, description
        self.parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, *lines: str, kind: str = "plain") -> None:
        """Add a box with lines of text in its middle. Raises a :class:`ValueError` for a text that does not fit."""
        if any(len(line) * LETTER > width - 8 for line in lines) or len(lines) * LINE > height:
            raise ValueError(f"{lines} do not fit into {width} × {height}")
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
        self.parts.append(f'<rect class="{kind}" {shape}/>')
        first = y + height / 2 - (len(lines) - 1) * LINE / 2
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + number * LINE, line, anchor="middle")

    def text(self, x: float, y: float, line: str, anchor: str = "start") -> None:
        """Add a line of text, whose middle is at the height ``y``."""
        reach = {"start": x + len(line) * LETTER, "middle": x + len(line) * LETTER / 2, "end": x}[anchor]
        if reach > self.width or y > self.height:
            raise ValueError(f"{line!r} does not fit into the drawing")
        self.parts.append(f'<text x="{x:g}" y="{y + SIZE * 0.35:g}" text-anchor="{anchor}">{escape(line)}</text>')

    def arrow(self, *points: tuple[float, float]) -> None:
        """Add an arrow through points; it points at the last one."""
        line = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline class="line" points="{line}" marker-end="url(#tip)"/>')

    def svg(self) -> str:
        """The drawing as a file."""
        box = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        shape = 'viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="desc">{escape(self.description)}</desc>',
            f"<style>{_style()}</style>",
            f'<defs><marker id="tip" {shape}><path d="M0 0 10 5 0 10z"/></marker></defs>',
            f'<rect class="paper" width="{self.width}" height="{self.height}" rx="8"/>',
            *self.parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """What shows the drawing on a page in ``docs``."""
        return f"![{self.title}](drawings/{self.name}.svg)"


def _style() -> str:
    light, dark = (
        "".join(f".{kind}{{fill:{area};stroke:{edge}}}" for kind, (area, edge) in COLOURS[scheme].items())
        + f"text,path{{fill:{INK[scheme]}}}.line{{stroke:{INK[scheme]}}}"
        for scheme in ("light", "dark")
    )
    font = f"text{{font:{SIZE}px system-ui,sans-serif}}.line{{fill:none;stroke-width:1.5}}"
    return f"{font}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _keys(drawing: Drawing, y: float, keys: Iterable[tuple[str, str]]) -> None:
    """A line that says what the kinds of boxes mean."""
    x = 20.0
    for kind, meaning in keys:
        drawing.box(x, y - 8, 16, 16, kind=kind)
        drawing.text(x + 24, y, meaning)
        x += 24 + len(meaning) * LETTER + 28


def tree() -> Drawing:
    """A commit and the two levels of its tree."""
    drawing = Drawing(
        "tree",
        760,
        400,
        "The two-level tree of a commit",
        "A branch is a row in a table that names a commit. The commit names one metarange. The metarange "
        "describes three ranges, each with its first and last key. Each range is a sorted file of records, "
        "about ten thousand of them. Each record names an object, which lies where it was written.",
    )
    drawing.box(290, 16, 180, 40, "branch main", kind="new")
    drawing.arrow((380, 56), (380, 84))
    drawing.box(290, 86, 180, 40, "commit 5c0f…")
    drawing.arrow((380, 126), (380, 154))
    drawing.box(200, 156, 360, 42, "metarange: a line for each range")
    for x, keys in ((140, "raw/01 … raw/17"), (350, "raw/18 … raw/44"), (560, "raw/45 … tmp/9")):
        drawing.arrow((380, 198), (x + 90, 236))
        drawing.box(x, 238, 180, 50, "range", keys)
    drawing.text(20, 36, "table")
    drawing.text(20, 106, "object store")
    drawing.text(20, 177, "first level")
    drawing.text(20, 263, "second level")
    drawing.text(20, 351, "your objects")
    for x in (150, 192, 234, 276):
        drawing.box(x, 336, 34, 30, kind="same")
        drawing.arrow((230, 288), (x + 17, 334))
    drawing.text(330, 351, "… stay where they are; a range has about 10,000 records")
    return drawing


def sharing() -> Drawing:
    """Two commits that share most of their files."""
    drawing = Drawing(
        "sharing",
        760,
        340,
        "What a commit shares with its parent",
        "The parent's metarange describes ranges A, B and C. One object in range B changes. The new commit "
        "has a metarange of its own, which describes A, a new range B′ and C. Ranges A and C are the same "
        "files for both commits. Written are B′, the metarange and the commit's record.",
    )
    drawing.box(60, 20, 210, 40, "parent")
    drawing.box(490, 20, 210, 40, "commit of one change", kind="new")
    drawing.arrow((490, 40), (272, 40))
    drawing.box(60, 100, 210, 40, "metarange A B C")
    drawing.box(490, 100, 210, 40, "metarange A B′ C", kind="new")
    drawing.arrow((165, 60), (165, 98))
    drawing.arrow((595, 60), (595, 98))
    for x, name, kind in (
        (60, "range A", "same"),
        (225, "range B", "plain"),
        (400, "range B′", "new"),
        (570, "range C", "same"),
    ):
        drawing.box(x, 220, 130, 46, name, kind=kind)
    for x in (125, 290, 635):
        drawing.arrow((165, 140), (x - 8, 218))
    for x in (125, 465, 635):
        drawing.arrow((595, 140), (x + 8, 218))
    _keys(
        drawing, 308, [("same", "one file for both"), ("new", "written by the commit"), ("plain", "only the parent's")]
    )
    return drawing


def merge() -> Drawing:
    """A three-way merge, range by range."""
    drawing = Drawing(
        "merge",
        760,
        380,
        "A three-way merge",
        "The base has ranges A, B and C. The source changed B to B′, the destination changed C to C′. The "
        "merge compares both sides with the base: A is the same everywhere, only the source changed B, only "
        "the destination changed C. The result takes A, B′ and C′ and has two parents, the destination first."
        " A range that both sides changed would be compared object by object; an object that both changed "
        "differently is a conflict.",
    )
    rows = (
        (270, 20, "base", ("A", "B", "C"), ("same", "plain", "plain")),
        (40, 140, "destination", ("A", "B", "C′"), ("same", "plain", "new")),
        (500, 140, "source", ("A", "B′", "C"), ("same", "other", "plain")),
        (270, 250, "result", ("A", "B′", "C′"), ("same", "other", "new")),
    )
    for x, y, name, ranges, kinds in rows:
        drawing.text(x + 110, y + 8, name, anchor="middle")
        for number, (each, kind) in enumerate(zip(ranges, kinds, strict=True)):
            drawing.box(x + number * 75, y + 22, 70, 40, each, kind=kind)
    drawing.arrow((150, 140), (150, 52), (266, 52))
    drawing.arrow((612, 140), (612, 52), (498, 52))
    drawing.arrow((266, 292), (150, 292), (150, 206))
    drawing.arrow((498, 292), (612, 292), (612, 206))
    drawing.text(20, 292, "first parent")
    drawing.text(626, 292, "second parent")
    _keys(
        drawing,
        350,
        [("same", "same everywhere"), ("new", "the destination's change"), ("other", "the source's change")],
    )
    return drawing


def staging() -> Drawing:
    """Uncommitted changes, before and after a commit."""
    drawing = Drawing(
        "staging",
        760,
        420,
        "Staged changes, and the commit that takes them",
        "Before the commit the branch main names commit 1 and the token t1. Two changes are staged under t1: "
        "a new a.csv and the deletion of b.csv. A reader of the branch sees them over the tree of commit 1. "
        "The commit seals t1, and new changes go to the token t2. It applies the changes of t1 to the tree, "
        "and one transaction then moves the branch to commit 2. Changes that were staged meanwhile, under t2,"
        " stay uncommitted.",
    )
    for x, head, commit, token, kind in (
        (30, "before", "commit 1", "token t1", "new"),
        (410, "after", "commit 2", "token t2", "other"),
    ):
        drawing.text(x + 160, 22, head, anchor="middle")
        drawing.box(x + 80, 44, 160, 40, "branch main")
        drawing.box(x, 130, 150, 40, commit)
        drawing.box(x + 170, 130, 150, 40, token, kind=kind)
        drawing.arrow((x + 130, 84), (x + 75, 128))
        drawing.arrow((x + 190, 84), (x + 245, 128))
    drawing.box(200, 216, 150, 36, "put a.csv", kind="new")
    drawing.box(200, 262, 150, 36, "delete b.csv", kind="new")
    drawing.arrow((275, 170), (275, 214))
    drawing.box(580, 216, 150, 36, "put c.csv", kind="other")
    drawing.arrow((655, 170), (655, 214))
    drawing.box(30, 216, 150, 82, "tree of", "commit 1")
    drawing.arrow((105, 170), (105, 214))
    drawing.box(410, 216, 150, 82, "tree of commit 1", "with the", "changes of t1")
    drawing.arrow((485, 170), (485, 214))
    drawing.text(20, 334, "Readers of main see the staged changes over the tree.")
    drawing.text(
        20, 358, "A commit seals t1, applies its changes to the tree, and moves the branch in one transaction."
    )
    _keys(drawing, 394, [("new", "taken by commit 2"), ("other", "staged since, not yet committed")])
    return drawing


DRAWINGS: Final[tuple[Callable[[], Drawing], ...]] = (tree, sharing, merge, staging)


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for make in DRAWINGS:
        drawing = make()
        (FOLDER / f"{drawing.name}.svg").write_text(drawing.svg())


if __name__ == "__main__":
    main()
