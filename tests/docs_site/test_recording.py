"""The recording of a terminal in the README is what the commands print today, and loads nothing."""

import re
from xml.etree import ElementTree

from tests.docs_site.sources import ROOT
from tests.make_recording import FILE, SESSION, TITLE, draw, record, text_of
from tests.test_docs import formed


def test_the_recording_is_what_the_commands_print() -> None:
    lines = record()
    printed = formed("\n".join(line.plain for line in lines))
    assert formed(text_of(draw(lines))) == printed
    assert formed(text_of(FILE.read_text())) == printed, "run `python -m tests.make_recording`"
    assert [line.removeprefix("$ ") for line in printed if line.startswith("$ ")] == list(SESSION)
    assert any(line.style or line.spans for line in lines if not line.plain.startswith("$"))


def test_the_recording_has_a_title_and_loads_nothing() -> None:
    svg = FILE.read_text()
    assert ElementTree.fromstring(svg).get("aria-label") == TITLE
    assert not re.findall(r"(?:href|src|url)\s*[=(]\s*[\"']?https?:", svg)
    assert f"![{TITLE}](docs/drawings/{FILE.name})" in (ROOT / "README.md").read_text()
