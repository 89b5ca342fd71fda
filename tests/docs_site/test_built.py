"""A link that leads nowhere is found in a built site, and so is whatever a browser would load from another host."""

from pathlib import Path

import pytest

from tests.docs_site.built import faults, resources

GOOD = """<html><head><link rel="stylesheet" href="a/style.css"><link rel="canonical" href="index.html"></head><body>
<h1 id="top">A page</h1><a href="#top">up</a> <a href="b.html#there">b</a> <a href="https://example.org/">elsewhere</a>
<a href="mailto:ada@example.org">write</a><svg><use href="#top"/></svg><img src="data:image/png;base64,">
<p>code: <code>**a**</code> - and <code>
- b</code></p><h2>1. A heading</h2><table><tr><td>2. A cell</td></tr></table>
</body></html>"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "b.html").write_text('<p id="there">b</p><a href="index.html">back</a>')
    (tmp_path / "a").mkdir()
    (tmp_path / "a/style.css").write_text("a { background: url(data:image/png;base64,) } b { filter: url(#top) }")
    return tmp_path


def test_a_site_without_faults(site: Path) -> None:
    assert faults(site) == []


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ('<a href="c.html">', "b.html refers to c.html: no such file"),
        ('<a href="index.html#bottom">', "b.html refers to index.html#bottom: no such anchor"),
        ('<a href="#bottom">', "b.html refers to #bottom: no such anchor"),
        ('<a href="a">', "b.html refers to a: a folder, which has no page without a server"),
        ('<img src="c.svg">', "b.html refers to c.svg: no such file"),
        ('<img src="//example.org/c.png">', "b.html loads //example.org/c.png from another host"),
        (
            '<img srcset="a.png 1x, https://example.org/c.png 2x" src="index.html">',
            "b.html loads a.png 1x, https://example.org/c.png 2x from another host",
        ),
        ('<script src="HTTPS://example.org/x.js"></script>', "b.html loads HTTPS://example.org/x.js from another host"),
        (
            '<link rel="preconnect" href="https://fonts.example.org">',
            "b.html loads https://fonts.example.org from another host",
        ),
        (
            "<style>@import 'https://example.org/x.css';</style>",
            "b.html loads https://example.org/x.css from another host",
        ),
        (
            '<p style="background: url(https://example.org/x.png)">',
            "b.html loads https://example.org/x.png from another host",
        ),
        ("<p>text\n- item</p>", "b.html shows Markdown as it is written: - item"),
        ("<p><b>text</b>\n2. item</p>", "b.html shows Markdown as it is written: 2. item"),
        ("<p>| a | b |</p>", "b.html shows Markdown as it is written: | a | b |"),
        ("<p>[a](b.html)</p>", "b.html shows Markdown as it is written: ](b.html)"),
        ('<pre class="mermaid">', "b.html has a mermaid, which a script draws"),
    ],
)
def test_a_fault_of_a_page_is_found(site: Path, planted: str, fault: str) -> None:
    page = site / "b.html"
    page.write_text(page.read_text() + planted)
    assert fault in faults(site)


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ("@import url('https://example.org/x.css');", "a/style.css loads https://example.org/x.css from another host"),
        ("p { src: url(//example.org/x.woff) }", "a/style.css loads //example.org/x.woff from another host"),
        ("p { src: url(x.woff) }", "a/style.css loads x.woff, which does not exist"),
    ],
)
def test_a_fault_of_a_style_sheet_is_found(site: Path, planted: str, fault: str) -> None:
    (site / "a/style.css").write_text(planted)
    assert faults(site) == [fault]


def test_a_drawing_is_looked_at_too(site: Path) -> None:
    (site / "c.svg").write_text('<svg><image href="https://example.org/c.png"/></svg>')
    assert faults(site) == ["c.svg loads https://example.org/c.png from another host"]


def test_style_sheets_in_both_spellings() -> None:
    assert resources("@import 'a.css'; @import url(\"b.css\"); p { background: url( c.png ) }") == [
        "a.css",
        "b.css",
        "c.png",
    ]
