"""The drawings are what the code makes; they can be read in both schemes, and by screen readers."""

import re
from itertools import chain
from xml.etree import ElementTree

import pytest

from tests.docs_site.sources import ROOT
from tests.make_drawings import COLOURS, DRAWINGS, FOLDER, INK, Drawing
from tests.make_recording import FILE as RECORDING

each = pytest.mark.parametrize("drawing", [make() for make in DRAWINGS], ids=lambda drawing: str(drawing.name))
SVG = "{http://www.w3.org/2000/svg}"


@each
def test_the_file_is_what_the_code_makes(drawing: Drawing) -> None:
    assert (FOLDER / f"{drawing.name}.svg").read_text() == drawing.svg(), "run `python -m tests.make_drawings`"


def test_there_are_no_other_files() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {make().name for make in DRAWINGS} | {RECORDING.stem}


@each
def test_it_has_a_title_and_a_description(drawing: Drawing) -> None:
    root = ElementTree.fromstring(drawing.svg())
    assert root.get("role") == "img"
    named = {element.get("id"): element for element in root}
    parts = [named[name] for name in str(root.get("aria-labelledby")).split()]
    assert [part.tag for part in parts] == [f"{SVG}title", f"{SVG}desc"]
    assert all(part.text for part in parts)


@each
def test_it_has_a_colour_for_all_that_it_draws_in_both_schemes(drawing: Drawing) -> None:
    root = ElementTree.fromstring(drawing.svg())
    light, dark = str(root.findtext(f"{SVG}style")).split("@media (prefers-color-scheme:dark)")
    used = {element.get("class") for element in root.iter() if element.get("class")}
    assert {"paper", "line"} < used
    for name in used:
        assert f".{name}{{" in light
        assert f".{name}{{" in dark
    assert not re.findall(r'(?:fill|stroke)="', drawing.svg())


@each
def test_a_page_shows_it_with_its_title(drawing: Drawing) -> None:
    assert drawing.markdown() in (ROOT / "docs" / "concepts.md").read_text()


def brightness(colour: str) -> float:
    """The relative luminance of WCAG 2.2, from 0 to 1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2, from 1 to 21."""
    dark, light = sorted([brightness(one), brightness(other)])
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", COLOURS)
def test_text_and_edges_stand_out(scheme: str) -> None:
    paper = COLOURS[scheme]["paper"][0]
    for kind, (area, edge) in COLOURS[scheme].items():
        assert contrast(INK[scheme], area) >= 7
        assert kind == "paper" or contrast(edge, paper) >= 3


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_a_text_that_does_not_fit_is_refused() -> None:
    drawing = Drawing("x", 100, 100, "x", "x")
    with pytest.raises(ValueError, match="do not fit into"):
        drawing.box(0, 0, 40, 40, "a longer text")
    with pytest.raises(ValueError, match="does not fit into the drawing"):
        drawing.text(80, 50, "text")


@each
def test_boxes_lie_within_the_drawing_and_do_not_overlap(drawing: Drawing) -> None:
    root = ElementTree.fromstring(drawing.svg())
    boxes = [
        (float(box.get("x", 0)), float(box.get("y", 0)), float(box.get("width", 0)), float(box.get("height", 0)))
        for box in root.iter(f"{SVG}rect")
        if box.get("class") != "paper"
    ]
    assert all(x >= 0 and y >= 0 and x + w <= drawing.width and y + h <= drawing.height for x, y, w, h in boxes)
    for number, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[number + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_arrows_end_in_the_drawing() -> None:
    for drawing in (make() for make in DRAWINGS):
        lines = re.findall(r'points="([^"]+)"', drawing.svg())
        points = [tuple(map(float, point.split(","))) for point in chain.from_iterable(line.split() for line in lines)]
        assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in points)
