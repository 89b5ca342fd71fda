"""The pages of the documentation site, as the generator of the site reads them.

The pages lie as in the repository, so every link between two of them works on the site as it does in a checkout. What differs:
GitHub's Markdown becomes that of Python-Markdown, the navigation is written out, and pages that are made from the code are added.
"""

import json
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIGURATION: Final = ROOT / "zensical.toml"
COPIED: Final = ("*.md", "docs/**/*.*", "bench/*.md", "bench/*.svg")
"""What the site has of the repository: patterns, relative to its top."""


class NavigationError(ValueError):
    """A page that the navigation names and that does not exist, or the other way round."""


def copied() -> list[str]:
    """The repository's files that the site has, relative to the top of the repository."""
    return sorted({path.relative_to(ROOT).as_posix() for pattern in COPIED for path in ROOT.glob(pattern)})


def navigation() -> list[Any]:
    """The navigation of the configuration, with each pattern of pages replaced by the pages."""
    items: list[Any] = tomllib.loads(CONFIGURATION.read_text())["project"]["nav"]
    return items


def written_out(items: Iterable[Any], pages: Iterable[str]) -> list[Any]:
    """Entries in which each pattern, such as ``docs/design/*.md``, is replaced by the pages that fit it and that no other entry
    names, in their order. The page of a folder comes first."""
    items = list(items)
    named = {page for page in pages_in(items) if "*" not in page}
    free = sorted((page for page in dict.fromkeys(pages) if page not in named), key=_not_of_a_folder)

    def each(entries: Iterable[Any]) -> Iterator[Any]:
        for entry in entries:
            if isinstance(entry, str) and "*" in entry:
                yield from (page for page in free if Path(page).match(entry))
            elif isinstance(entry, dict):
                ((title, inner),) = entry.items()
                below = list(each(inner)) if isinstance(inner, list) else inner
                if below:  # a section whose patterns fit nothing is left out
                    yield {title: below}
            else:
                yield entry

    return list(each(items))


def pages_in(items: Iterable[Any]) -> Iterator[str]:
    """The pages, or patterns of pages, that entries of a navigation name."""
    for item in items:
        if isinstance(item, str):
            yield item
        else:
            for inner in item.values():
                yield from pages_in(inner if isinstance(inner, list) else [inner])


def check(items: Iterable[Any], pages: Iterable[str]) -> None:
    """Raise a :class:`NavigationError` unless the navigation names each page once, and nothing else."""
    named = list(pages_in(items))
    pages = set(pages)
    faults = [f"{page} does not exist" for page in named if page not in pages]
    faults += [f"{page} is not in the navigation" for page in sorted(pages - set(named))]
    faults += [f"{page} is there twice" for page in sorted({page for page in named if named.count(page) > 1})]
    if faults:
        raise NavigationError("zensical.toml: " + "; ".join(faults))


def assemble(into: Path, generated: Mapping[str, str]) -> Path:
    """Write the sources of the site into a new folder, and return the configuration of its build into ``html`` there.

    ``generated`` are pages that are not in the repository: their text by their path. Patterns name them in their order, behind
    those that are there.
    """
    shutil.rmtree(into, ignore_errors=True)
    pages = into / "pages"
    for name in copied():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            (pages / name).write_text(for_python_markdown((ROOT / name).read_text()))
        else:
            shutil.copyfile(ROOT / name, pages / name)
    for name, text in generated.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text)
    page_names = [*(name for name in copied() if name.endswith(".md")), *generated]
    items = written_out(navigation(), page_names)
    check(items, page_names)

    project: dict[str, Any] = tomllib.loads(CONFIGURATION.read_text())["project"]
    project |= {"nav": items, "docs_dir": pages.name, "site_dir": "html"}
    python = project["plugins"]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(ROOT / path) for path in python["paths"]]
    configuration = into / "zensical.toml"
    configuration.write_text(f"project = {_toml(project)}\n")
    return configuration


def for_python_markdown(text: str) -> str:
    """A page in GitHub's Markdown, as Python-Markdown understands it.

    Fences name their language only, what belongs to an item of a list is indented by four spaces, and an empty line follows an
    item of several paragraphs.
    """
    lines: list[str] = []
    fence, indent, parted = "", 0, False
    for line in text.splitlines():
        opened = re.match(r" *(`{3,})(\w*)", line)
        item = re.match(r"(?:[-*]|\d+\.) ", line)
        if not fence and item:
            lines += [""] if indent and parted and lines[-1] else []
            indent, parted = len(item[0]), False
        elif not fence and line and not line.startswith(" " * (indent or 1)):
            indent = indent if lines and lines[-1] and not opened else 0
        if opened and not fence:
            fence = opened[1]
            line = opened[0]
        elif fence and line.strip() == fence:
            fence = ""
        parted = parted or not line
        lines.append(" " * (4 - indent) + line if 0 < indent < 4 and line.startswith(" " * indent) else line)
    return "\n".join(lines) + "\n"


def _not_of_a_folder(page: str) -> bool:
    return not page.endswith(("README.md", "index.md"))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
