"""Errors of the library name parameters of Python; options of the command line are named only as parts of a command."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import graveler

PACKAGE = Path(graveler.__file__).parent
COMMAND_LINES = ("cli", "spark/jobs", "server", "functions", "api/sample")
"""What is reached by a command line, or with its options, alone."""


def texts(node: ast.AST) -> Iterator[str]:
    """The texts within an expression, each as one, whatever is inserted in it."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)  # type: ignore[misc]
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from texts(child)


def raised(tree: ast.AST) -> Iterator[str]:
    """The texts of errors: of what is raised, what errors make of their fields, and of constants that these insert."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from texts(node.exc)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("Error", "super().__init__")):
            yield from texts(node)
        elif isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
            yield from texts(node.value) if isinstance(node.value, ast.JoinedStr | ast.Constant) else ()


def test_errors_of_the_library_name_no_option_of_the_command_line() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(COMMAND_LINES):
            continue
        for text in raised(ast.parse(path.read_text())):
            if re.search(r"(?<![\w-])--[a-z]", re.sub(r"`[^`]*`", "", text)):
                found[name] = text
    assert found == {}
