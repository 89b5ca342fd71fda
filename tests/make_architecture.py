"""Writes the rooms of ``docs/architecture.md`` from the import contracts of ``pyproject.toml`` and the docstrings of the rooms:
``python -m tests.make_architecture``. A test holds the page to them."""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.count_house import PACKAGE, ROOT

PAGE: Final = ROOT / "docs" / "architecture.md"
BEGIN: Final = "<!-- rooms: made by `python -m tests.make_architecture` -->\n"
END: Final = "<!-- end of rooms -->\n"
_REFERENCE: Final = re.compile(r":\w+:`~?\.?(?:[\w.]*\.)?(\w+)`")


def contracts() -> Sequence[dict[str, Any]]:
    """Return the import contracts, that of the layers first."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return sorted(table, key=lambda contract: str(contract["type"] != "layers"))


def rows() -> list[list[str]]:
    """Return the rooms of each row, from the top."""
    return [re.findall(r"\w+", layer) for layer in contracts()[0]["layers"]]


def purpose(room: str) -> str:
    """Return the first paragraph of a room's docstring, as Markdown."""
    folder = PACKAGE / room / "__init__.py"
    docstring = ast.get_docstring(ast.parse((folder if folder.exists() else PACKAGE / f"{room}.py").read_text())) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split()).rstrip(":").removesuffix(".")
    text = _REFERENCE.sub(r"`\1`", paragraph).replace("``", "`").replace("|", "\\|")
    page = ROOT / "docs" / f"{room}.md"
    return f"{text} ([{room}]({page.name}))" if page.exists() else text


def lines() -> Iterator[str]:
    """Yield the table of the rooms, and the other contracts."""
    yield "| row | room | what it is for |"
    yield "|---:|---|---|"
    for number, rooms in enumerate(rows(), 1):
        for room in rooms:
            shown = f"{room}/" if (PACKAGE / room).is_dir() else f"{room}.py"
            yield f"| {number} | `{shown}` | {purpose(room)} |"
    together = [re.findall(r"\w+", layer) for layer in contracts()[0]["layers"] if ":" in layer]
    if together:
        groups = "; ".join(", ".join(f"`{room}`" for room in rooms) for rooms in together)
        yield ""
        yield f"These rooms of one row may import each other, as long as no modules form a circle: {groups}."
    yield ""
    yield "Further contracts:"
    yield ""
    for contract in contracts()[1:]:
        yield f"- {contract['name']}."


def page() -> str:
    """Return the page as it should be."""
    begin, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, end = rest.partition(END)
    return begin + BEGIN + "".join(f"{line}\n" for line in lines()) + END + end


if __name__ == "__main__":
    PAGE.write_text(page())
