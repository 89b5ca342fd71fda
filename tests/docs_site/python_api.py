"""The site's pages about the Python API, which mkdocstrings fills from signatures and docstrings; and docstrings as Markdown."""

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "layers/graveler/python/graveler"
ROLE: Final = re.compile(r":(?:class|meth|func|mod|data|attr|exc):`~?([\w.]+)`")
FIRST: Final = ("open", "create", "Lake", "Repository", "Reference", "Branch", "Tag", "Transaction")
"""The names that a reader needs first, in this order. The others follow by name."""
ENGINES: Final = ("graveler.duckdb", "graveler.polars")
"""The modules for one library each."""


def exported(module: str) -> dict[str, str]:
    """What a package, such as ``graveler``, exports: the whole name of each object where it is defined, by its public name."""
    body = ast.parse(PACKAGE.joinpath(*module.split(".")[1:], "__init__.py").read_text()).body
    (names,) = (ast.literal_eval(node.value) for node in body if isinstance(node, ast.Assign) and _is_all(node))
    defined = {
        name.asname or name.name: f"{node.module}.{name.name}"
        for block in body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    return {name: defined[name] for name in names}


def defined(module: str) -> list[str]:
    """The public classes and functions of a module, in their order."""
    body = ast.parse(PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text()).body
    named = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [name for name in named if not name.startswith("_")]


def listed(module: str) -> list[str]:
    """What a module that is one file exports, in the order of its definitions."""
    body = ast.parse(PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text()).body
    (names,) = (ast.literal_eval(node.value) for node in body if isinstance(node, ast.Assign) and _is_all(node))
    return [name for name in defined(module) if name in names]


def public() -> dict[str, str]:
    """The public name of each documented object, by each name under which docstrings refer to it: public, where it is
    defined, or its last part alone. A name that two objects share is left out."""
    found: dict[str, set[str]] = {}
    for module in ("graveler", "graveler.filesystem", "graveler.spark"):
        for name, whole in exported(module).items():
            own = f"{module}.{name}" if not whole.startswith(("graveler.errors.", "graveler.model.")) else whole
            for known in (own, f"{module}.{name}", whole, name, whole.rpartition(".")[2]):
                found.setdefault(known, set()).add(own)
    for module in ("graveler.errors", "graveler.model", *ENGINES):
        for name in listed(module) if module in ENGINES else defined(module):
            for known in (f"{module}.{name}", name):
                found.setdefault(known, set()).add(f"{module}.{name}")
    return {known: next(iter(own)) for known, own in found.items() if len(own) == 1}


def markdown(docstring: str, names: Mapping[str, str]) -> str:
    """A docstring as Markdown: roles become references to what ``names`` has, or code; literal blocks become fences."""

    def reference(match: re.Match[str]) -> str:
        parts = ["", *match[1].split(".")]
        before, last = parts[-2], parts[-1]
        shown = f"`{before}.{last}`" if before[:1].isupper() else f"`{last}`"  # a method with its class
        return f"[{shown}][{names[match[1]]}]" if match[1] in names else shown

    lines: list[str] = []
    block: list[str] | None = None
    for line in docstring.splitlines():
        if block is not None:
            if not line.strip() or line.startswith("    "):
                block.append(line[4:])
                continue
            lines += _fenced(block)
            block = None
        line = ROLE.sub(reference, line)
        if line.rstrip().endswith("::"):
            lines.append(line.rstrip().removesuffix("::").rstrip())
            block = []
        else:
            lines.append(line)
    if block is not None:
        lines += _fenced(block)
    return "\n".join(lines)


def fields(rows: Iterable[tuple[str, str, str]]) -> str:
    """A table of fields, each with its type and its default, which may be empty."""
    table = ["| field | type | default |", "|---|---|---|"]
    table += [f"| `{name}` | {_code(kind)} | {_code(default)} |" for name, kind, default in rows]
    return "\n".join(table)


def pages() -> dict[str, str]:
    """The pages, by their path."""
    api = exported("graveler")
    handles = [name for name in api if not api[name].startswith(("graveler.errors.", "graveler.model."))]
    ordered = [*FIRST, *sorted(set(handles) - set(FIRST))]
    spark = sorted(exported("graveler.spark"), key=lambda name: (name[0].isupper(), name))
    return {
        "docs/reference/python.md": _page(
            "Python API",
            "Functions and classes that `graveler` exports. [Python](../python.md) has a tour. "
            "[Values](values.md) and [errors](exceptions.md) have pages of their own, and so have "
            "[data libraries](libraries.md) and [Spark](spark.md).",
            [f"graveler.{name}" for name in ordered],
        ),
        "docs/reference/values.md": _page(
            "Values",
            "Plain values that the Python API takes and returns, of `graveler.model`. All are frozen.",
            [f"graveler.model.{name}" for name in sorted(defined("graveler.model"))],
        ),
        "docs/reference/exceptions.md": _page(
            "Errors in Python",
            "The classes of `graveler.errors`. [Errors](../errors.md) has their codes and statuses.",
            [f"graveler.errors.{name}" for name in defined("graveler.errors")],
        ),
        "docs/reference/libraries.md": _page(
            "Data libraries in Python",
            "What `graveler.filesystem`, `graveler.duckdb` and `graveler.polars` export. "
            "[Data libraries](../python.md#data-libraries) shows them at work.",
            [
                *(f"graveler.filesystem.{name}" for name in exported("graveler.filesystem")),
                *(f"{module}.{name}" for module in ENGINES for name in listed(module)),
            ],
        ),
        "docs/reference/spark.md": _page(
            "Spark in Python",
            "What `graveler.spark` exports. [Spark](../spark.md) explains it.",
            [f"graveler.spark.{name}" for name in spark],
        ),
    }


def _page(title: str, head: str, names: list[str]) -> str:
    return "\n\n".join([f"# {title}", head, *(f"::: {name}" for name in names)]) + "\n"


def _fenced(block: list[str]) -> list[str]:
    text = "\n".join(block).strip("\n")
    words = "python" if re.search(r"^(import|with|for|from) |\w\(", text, re.MULTILINE) else "text"
    return ["", f"```{words}", text, "```", ""] if text else []


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _is_all(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
