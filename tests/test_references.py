"""Modules, classes, functions, methods and constants exist that docstrings refer to, or tests replace, by their whole names."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "layers/graveler/python"
PATCHED = re.compile(r"""(?:setattr|delattr|patch)\(\s*"(graveler(?:\.\w+)+)\"""")
REFERENCE = re.compile(r":(?:class|meth|func|mod|data|attr|exc):`~?(graveler(?:\.\w+)+)`")


def names_in(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """What statements bind, also under ``if TYPE_CHECKING``."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Assign():
                yield from ((target.id, node) for target in node.targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case ast.If():
                yield from names_in([*node.body, *node.orelse])
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name, node) for alias in node.names)


@cache
def bindings_of(module: Path) -> dict[str, ast.stmt]:
    """Return the names that a module binds, each with its statement."""
    return dict(names_in(ast.parse(module.read_text()).body))


@cache
def is_there(name: str) -> bool:
    """Whether a dotted name is a module of the package, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        base = PACKAGE.joinpath(*parts[:length])
        module = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if not module.is_file():
            continue
        names = bindings_of(module)
        for part in parts[length:]:
            statement = names.get(part)
            if statement is None:
                return False
            if isinstance(statement, ast.Import):
                return True  # what is in that module is not ours
            names = dict(names_in(statement.body)) if isinstance(statement, ast.ClassDef) else {}
        return True
    return False


def references() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        for name in REFERENCE.findall(file.read_text()):
            found.setdefault(name, []).append(str(file.relative_to(PACKAGE)))
    return found


@pytest.mark.parametrize(
    ("name", "files"), references().items(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_a_docstring_refers_to_is_there(name: str, files: list[str]) -> None:
    assert is_there(name), f"{', '.join(files)} refer to {name}"


def patched() -> dict[str, list[str]]:
    """The names that tests replace, with the tests that do. Some of these run in `make test-all` only."""
    names: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for name in PATCHED.findall(file.read_text()):
            names.setdefault(name, []).append(str(file.relative_to(ROOT)))
    return names


@pytest.mark.parametrize(
    ("name", "files"), patched().items(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_a_test_replaces_is_there(name: str, files: list[str]) -> None:
    assert is_there(name), f"{name}, which is replaced in {', '.join(files)}, is no module, nor anything in one"
