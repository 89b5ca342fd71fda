"""What is wrong with a built site: links that lead nowhere, and whatever a browser would load from another host."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LOADED: Final = {
    "audio": ("src",),
    "embed": ("src",),
    "form": ("action",),
    "iframe": ("src", "srcdoc"),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
"""Attributes of elements that make a browser load something, or send it."""
ELSEWHERE: Final = re.compile(r"(?:^|[\s,])(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
IN_STYLES: Final = re.compile(r"""@import\s+["']([^"']+)|url\(\s*["']?([^"')]+)""")
UNREAD: Final = re.compile(r"```|\]\(|\*\*|\|---|^\|.*\|$|^ *(?:[-*]|\d+\.) ", re.MULTILINE)
"""Marks of Markdown that a reader would see in a paragraph, since the generator did not understand them."""
DRAWN_BY_OTHERS: Final = {"mermaid", "arithmatex", "glightbox", "pyodide"}
"""Classes of elements for which the generator's script would load a library from another host."""


@dataclass
class Page(HTMLParser):
    """What a page has: its anchors, its links, and what a browser loads for it."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._style = self._code = False
        self._paragraph: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        named = {name: value or "" for name, value in attrs}
        self._style = tag == "style"
        self._code = self._code or tag == "code"
        self._paragraph = "" if tag == "p" else self._paragraph
        self.anchors |= {named[name] for name in ("id", "name") if name in named}
        self.classes |= set(named.get("class", "").split())
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        canonical = tag == "link" and named.get("rel") in ("canonical", "next", "prev")
        found = [named[name] for name in LOADED.get(tag, ()) if name in named]
        (self.links if canonical else self.loaded).extend(found)
        self.loaded += resources(named.get("style", ""))

    def handle_data(self, data: str) -> None:
        """Note what a style sheet within the page loads, and the text of a paragraph."""
        if self._style:
            self.loaded += resources(data)
        if self._paragraph is not None:
            self._paragraph += "code" if self._code else data

    def handle_endtag(self, tag: str) -> None:
        """Note the end of a style sheet, and what is unread in a paragraph that ends."""
        self._style = False
        if tag == "code":
            self._code = False
        elif tag == "p" and self._paragraph is not None:
            text, self._paragraph = self._paragraph, None
            self.unread += [text[mark.start() :].partition("\n")[0] for mark in UNREAD.finditer(text)]


def resources(style: str) -> list[str]:
    """What a style sheet loads, but for what it has within itself (``data:``, ``#id``)."""
    found = [first or second for first, second in IN_STYLES.findall(style)]
    return [each for each in map(str.strip, found) if not each.startswith(("data:", "#"))]


def read(path: Path) -> Page:
    """A page of HTML, or a drawing in SVG."""
    page = Page()
    page.feed(path.read_text())
    page.close()
    return page


def faults(site: Path) -> list[str]:
    """What is wrong with a site, a sentence each: a link or a resource of a page that is not in the site, an anchor that its
    page does not have, whatever is loaded from another host, and Markdown that the generator did not understand."""
    pages = {path: read(path) for ending in ("html", "svg") for path in sorted(site.rglob(f"*.{ending}"))}
    found: list[str] = []
    for path, page in pages.items():
        where = path.relative_to(site).as_posix()
        found += [f"{where} loads {each} from another host" for each in page.loaded if ELSEWHERE.search(each)]
        found += [f"{where} has a {each}, which a script draws" for each in sorted(page.classes & DRAWN_BY_OTHERS)]
        found += [f"{where} shows Markdown as it is written: {each}" for each in page.unread]
        local = [
            each for each in [*page.links, *page.loaded] if not urlsplit(each).scheme and not each.startswith("//")
        ]
        found += [f"{where} refers to {each}: {why}" for each in local for why in _missing(site, path, each, pages)]
    for sheet in sorted(site.rglob("*.css")):
        where = sheet.relative_to(site).as_posix()
        for each in resources(sheet.read_text()):
            if ELSEWHERE.search(each):
                found.append(f"{where} loads {each} from another host")
            elif not (sheet.parent / urlsplit(each).path).exists():
                found.append(f"{where} loads {each}, which does not exist")
    return list(dict.fromkeys(found))


def _missing(site: Path, path: Path, link: str, pages: dict[Path, Page]) -> Iterator[str]:
    parts = urlsplit(link)
    there = unquote(parts.path)
    base = site if there.startswith("/") else path.parent
    target = base / there.lstrip("/") if there else path
    target = target.resolve()
    if target.is_dir():
        yield "a folder, which has no page without a server"
    elif not target.is_file():
        yield "no such file"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        yield "no such anchor"
