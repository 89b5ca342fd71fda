"""Law L1: the tree asks nothing of the system around it. ``pyproject.toml`` lists our modules that it may not import."""

import ast
from pathlib import Path
from typing import Final

import pytest

import graveler.tree

SOURCES: Final = sorted(Path(graveler.tree.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_tree_reads_no_environment_variable_and_opens_no_file(source: Path) -> None:
    imported, named = set[str](), set[str]()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Name):
            named.add(node.id)
    assert not imported & {"os", "posix", "nt", "sys", "pathlib", "io", "importlib", "dotenv"}
    assert not named & {"open", "__import__"}
