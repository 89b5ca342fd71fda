"""No modules of the package import each other in a circle, also not by imports within functions, for type checkers or by a
string."""

import ast
from collections.abc import Iterator

from tests.count_house import PACKAGE, circles, imports_between

BY_STRING = {
    "__init__.py": "the names of the Python API, each loaded on first use",
    "spark/__init__.py": "the same for Spark",
    "requests/__init__.py": "its own modules, each loaded on first use",
    "lake/repository.py": "the function of each request, loaded on first use",
    "lake/all_verbs.py": "the same functions, for processes that load all of them when they start",
    "values/error_codes.py": "classes of errors that rooms above declare, for the wire",
}
"""The modules that may import others of the package by a string, each from one table, and the reason."""


def test_no_module_is_in_a_circle_of_imports() -> None:
    imports = imports_between(PACKAGE)
    assert len(imports) > 400
    assert list(circles(imports)) == []


def test_only_a_few_tables_import_modules_by_a_string() -> None:
    importing = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for name in _imported_by_string(path.read_text())
        if name is None or name.partition(".")[0] == PACKAGE.name
    }
    assert importing == BY_STRING.keys()


def test_imports_by_a_string_are_found() -> None:
    source = """
import_module("graveler.sql.session")
importlib.import_module(f"graveler.{name}")
__import__("json")
find_spec("pyarrow")
"""
    assert list(_imported_by_string(source)) == ["graveler.sql.session", None, "json"]


def _imported_by_string(source: str) -> Iterator[str | None]:
    """The modules that a source imports by strings; None for a string that is computed."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function in ("import_module", "__import__"):
            name = node.args[0]
            yield name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None
