"""The chart of README: it is what the code makes of the figures that were kept, and can be seen by everybody."""

import re
from xml.etree import ElementTree

from bench.chart import CHART, HEIGHT, PANELS, WIDTH, Figures, drawn, read, shown

SVG = "{http://www.w3.org/2000/svg}"


def test_the_file_is_what_the_code_draws() -> None:
    assert CHART.read_text() == drawn(read()), "run `python -m bench.chart`"


def test_the_figures_go_from_a_million_to_a_billion() -> None:
    for row in PANELS:
        sizes = read().medians["now"][row]
        assert min(sizes) <= 1_500_000
        assert max(sizes) == 1_000_000_000


def test_every_figure_is_said_to_who_does_not_see_it() -> None:
    figures = read()
    text = ElementTree.fromstring(drawn(figures)).findtext(f"{SVG}desc") or ""
    for state in figures.medians.values():
        for row in PANELS:
            for size, seconds in state[row].items():
                assert f"{shown(seconds)} at {size:,} objects" in text


def test_the_chart_follows_the_colours_of_the_system_and_loads_nothing() -> None:
    svg = drawn(read())
    assert not re.findall(r'(?:fill|stroke)="', svg)
    assert "prefers-color-scheme:dark" in svg
    assert not re.findall(r"(?:href|src|url)\s*[=(]", svg)


def test_everything_lies_within_the_drawing() -> None:
    root = ElementTree.fromstring(drawn(read()))
    for element in root.iter():
        for limit, names in ((WIDTH, ("x", "cx", "x1", "x2")), (HEIGHT, ("y", "cy", "y1", "y2"))):
            assert all(0 <= float(element.get(name, "0")) <= limit for name in names)


def test_without_a_state_before_there_is_one_line_in_each_panel() -> None:
    figures = read()
    alone = Figures(figures.title, "", {"now": figures.medians["now"]})
    assert len(ElementTree.fromstring(drawn(alone)).findall(f"{SVG}polyline")) == len(PANELS)
