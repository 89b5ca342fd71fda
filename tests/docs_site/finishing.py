"""What the site needs beyond its generator: copy buttons that copy commands alone, headings of methods with their class, and a
search that works without a server."""

import html
import json
import re
import shutil
from pathlib import Path
from typing import Final

SCRIPT: Final = Path(__file__).with_name("search_in_a_folder.js")
"""The script of pages that are opened from a folder. It stands before the generator's own, which starts a worker at once."""

BUNDLE: Final = re.compile(r'<script src="([^"]*assets/)javascripts/bundle')
BLOCK: Final = re.compile(
    r'(<div class="language-(?:console|text) highlight">.*?<code\b)([^>]*>)(.*?)(</code>)', re.DOTALL
)
MEMBER: Final = re.compile(
    r'(<h\d id="(?:\w+\.)+(?P<owner>[A-Z]\w*)\.(?P<name>\w+)" class="doc doc-heading">\s*<span class="[^"]*">)'
    r"(?P=name)(?=</span>)"
)
PLACE: Final = re.compile(r"#(?:\w+\.)+(?P<owner>[A-Z]\w*)\.(?P<name>\w+)$")


def finish(site: Path) -> None:
    """Change a built site."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        finished = MEMBER.sub(r"\1\g<owner>.\g<name>", BLOCK.sub(_with_copy, text))
        finished = BUNDLE.sub(rf'<script src="\1{SCRIPT.name}"></script>\g<0>', finished)
        if finished != text:
            page.write_text(finished)
    shutil.copyfile(SCRIPT, site / "assets" / SCRIPT.name)
    index = json.loads((site / "search.json").read_text())
    for item in index["items"]:
        place = PLACE.search(item["location"])
        if place and place["name"] == item["title"]:
            item["title"] = f"{place['owner']}.{place['name']}"
    written = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (site / "search.json").write_text(written)
    (site / "search.js").write_text(f"var __index={written}\n")  # what the generator's script loads from a folder


def commands(session: str) -> str:
    """The commands of a session in a console: without prompts, exit codes and what they print."""
    lines = [line.removeprefix("$ ") for line in session.splitlines() if line.startswith("$ ")]
    return "\n".join(re.sub(r"  # exit \d+$", "", line) for line in lines)


def _with_copy(block: re.Match[str]) -> str:
    session = html.unescape(re.sub(r"<[^>]+>", "", block[3]))
    if not session.startswith("$ "):
        return block[0]
    copied = html.escape(commands(session)).replace("\n", "&#10;")
    return f'{block[1]} data-copy="{copied}"{block[2]}{block[3]}{block[4]}'
