"""Every regular expression of the package takes time that grows linearly with the text."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import graveler
from tests.security.patterns import shared

ROOT = Path(graveler.__file__).parent
TRUSTED = {
    "graveler.spark.error_translation": "reads what Spark's own JVM says, of a bounded length",
    "graveler.remote.error_responses": "reads what the server says that a user chose",
}
"""Modules whose expressions see nothing that a stranger wrote, and why."""

MADE = {
    "api/namespace_checks.py:check_namespace": "the deployment's own expression",
    "api/openapi.py:_path_parameters": "our own routes",
    "cli/demo/stage.py:show_command": "the demo's own commands",
    "values/ignore_rules.py:_any": "patterns of ignore files, whose time tests/test_ignore_rules.py bounds",
    "values/ignore_rules.py:_level": "the same",
    "ingest/windows.py:_pattern": "digits of fixed numbers between text that is escaped",
    "table_format/avro_types.py:_numbers": "one expression of two disjoint sets of bytes, repeated up to 512 times",
    "sql/rowdiff/tables.py:_files": "the caller's own pattern of files, in the caller's own process",
}
"""Functions that compile expressions, and of what."""


def modules() -> Iterator[str]:
    """Those that have an expression, by their text: not all can be imported everywhere."""
    for file in sorted(ROOT.rglob("*.py")):
        name = ".".join(("graveler", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        if "re.compile(" in file.read_text():
            yield name


def literals(name: str) -> list[re.Pattern[str] | re.Pattern[bytes]]:
    """The expressions of a module, compiled as it does: those that stand in its text, and those that it makes when loaded."""
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"{name} needs {error.name}, which is not installed here")
    found = [value for value in vars(module).values() if isinstance(value, re.Pattern)]
    for value in vars(module).values():
        if isinstance(value, dict):
            found += [inner for inner in value.values() if isinstance(inner, re.Pattern)]
    return found


@pytest.mark.parametrize(
    "name", [name for name in modules() if name not in TRUSTED and not name.startswith("graveler.spark")]
)
def test_each_pattern_takes_linear_time(name: str) -> None:
    for pattern in literals(name):
        assert shared(pattern) == [], pattern.pattern


def test_no_pattern_is_made_where_this_test_does_not_look() -> None:
    """Other functions compile what they are given each time: they are named here."""
    made = set()
    for file in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(file.read_text())
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
            for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
                if (
                    isinstance(call.func, ast.Attribute)
                    and ast.unparse(call.func.value) == "re"
                    and call.func.attr != "escape"
                ):
                    made.add(f"{file.relative_to(ROOT)}:{function.name}")
    assert made == MADE.keys()


@pytest.mark.parametrize(
    "pattern",
    [
        r"\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*",
        r"(a+)+b",
        r"a*a*b",
        r"\d+[0-9a-f]+!",
        r"(\w+\s?)*!",
        r".*=.*;",
        r"(?i)[a-z]+[A-Z]*!",
    ],
)
def test_patterns_that_take_longer_are_found(pattern: str) -> None:
    assert shared(re.compile(pattern)) != []


@pytest.mark.parametrize(
    "pattern", [r"[a-z]+-[0-9]+", r"\d{1,20}(\.\d{0,20})?", r"[0-9a-f]{64}-[0-9a-f]{32}", r"a+b+c+", r"\d{8}T\d{6}Z"]
)
def test_patterns_that_do_not_are_not(pattern: str) -> None:
    assert shared(re.compile(pattern)) == []
