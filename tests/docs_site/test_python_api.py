"""The pages about the Python API name everything that is public; docstrings become Markdown."""

import ast
import inspect
import re

import pytest

import graveler
import graveler.errors
import graveler.model
from graveler import duckdb, filesystem, polars, spark
from tests.docs_site.python_api import ROOT, defined, exported, fields, markdown, pages, public


def shown() -> set[str]:
    return set(re.findall(r"^::: (.+)$", "\n".join(pages().values()), re.MULTILINE))


def test_every_exported_name_is_on_a_page() -> None:
    names = {public()[f"graveler.{name}"] for name in graveler.__all__}
    assert names <= shown()
    for module in (duckdb, filesystem, polars, spark):
        assert {f"{module.__name__}.{name}" for name in module.__all__} <= shown()


@pytest.mark.parametrize("module", [graveler.errors, graveler.model])
def test_every_class_of_errors_and_values_is_on_a_page(module: object) -> None:
    name = module.__name__  # type: ignore[attr-defined]
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == name and key[0] != "_"]
    classes = {f"{name}.{key}" for key in own if inspect.isclass(getattr(module, key))}
    assert classes
    assert classes <= shown()


def test_what_a_name_stands_for_is_where_the_package_finds_it() -> None:
    for name, whole in exported("graveler").items():
        found = getattr(graveler, name)
        assert f"{found.__module__}.{found.__name__}" == whole
    assert "Branch" not in defined("graveler.errors")


def test_docstrings_refer_by_any_name_of_a_public_object() -> None:
    names = public()
    assert names["InvalidError"] == names["graveler.InvalidError"] == "graveler.errors.InvalidError"
    assert names["open_lake"] == names["graveler.sdk.lake.open_lake"] == "graveler.open"
    assert "Transaction" not in names  # there are two
    assert names["graveler.Transaction"] == "graveler.Transaction"
    assert "graveler.lake.repository.OpenRepository" not in names


@pytest.mark.parametrize(
    ("docstring", "text"),
    [
        ("Raise a :class:`InvalidError`.", "Raise a [`InvalidError`][graveler.errors.InvalidError]."),
        ("As :class:`graveler.errors.InvalidError`.", "As [`InvalidError`][graveler.errors.InvalidError]."),
        ("See :meth:`graveler.lake.repository.OpenRepository.log`.", "See `OpenRepository.log`."),
        ("See :func:`~graveler.tree.merge.merge`.", "See `merge`."),
        (
            "Like this: ::\n\n    with x:\n        y\n\nAnd so on.",
            "Like this:\n\n```python\nwith x:\n    y\n```\n\nAnd so on.",
        ),
        ("::\n\n    a\n    └── b", "\n\n```text\na\n└── b\n```\n"),
    ],
)
def test_a_docstring_becomes_markdown(docstring: str, text: str) -> None:
    assert markdown(docstring, public()) == text


def test_no_role_is_left_in_a_public_module() -> None:
    names = public()
    package = ROOT / "layers/graveler/python/graveler"
    docstrings = [
        ast.get_docstring(node) or ""
        for module in (
            package / "errors.py",
            package / "model.py",
            *package.glob("sdk/*.py"),
            *package.glob("spark/*.py"),
        )
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    assert any(":class:`" in text for text in docstrings)
    for text in docstrings:
        assert not re.search(r":[a-z]+:`[^`]", markdown(text, names)), text


def test_fields_are_a_table() -> None:
    assert fields([("size", "int | None", "None"), ("path", "str", "")]).splitlines()[2:] == [
        "| `size` | `int | None` | `None` |",
        "| `path` | `str` |  |",
    ]
