"""The counts of ``tests.count_house``, on small examples. ``make check`` compares those of the package."""

import ast
from pathlib import Path

import pytest

from tests import count_house
from tests.count_house import Source, circles, compare, is_forwarder, loose_modules, shared_file_names, string_imports


def counted(text: str) -> Source:
    source = Source()
    source.add(ast.parse(text))
    return source


def test_vague_names_are_variables_and_parameters() -> None:
    source = counted("found = 1\nfor _at_ in found: pass\ndef made(one, path): return one.kept\n")
    assert (source.names, source.vague) == (4, 3)


@pytest.mark.parametrize(
    ("function", "forwards"),
    [
        ("def f(a, b): return g(b, a)", True),
        ("def f(self, a):\n    'Docstring.'\n    self.other.f(a)", True),
        ("def f(a, b): return g(a)", False),
        ("def f(a): return g(a + 1)", False),
        ("def f(): return g()", False),
        ("def f(a):\n    check(a)\n    return g(a)", False),
    ],
)
def test_a_forwarder_only_hands_all_its_parameters_on(function: str, forwards: bool) -> None:
    definition = ast.parse(function).body[0]
    assert isinstance(definition, ast.FunctionDef)
    assert is_forwarder(definition) is forwards


def test_first_words_of_docstrings() -> None:
    source = counted("'''What it is.'''\ndef f():\n    '''Whatever.'''\nclass C:\n    '''Who asks.'''\n")
    assert (source.docstrings, source.docstring_openings) == (3, 2)


def test_files_of_a_package(tmp_path: Path) -> None:
    package = tmp_path / "package"
    for name in ("a/x.py", "b/x.py", "c/x.py", "a/y.py", "b/y.py", "z.py", "__main__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    (package / "a" / "y.py").write_text(
        "import_module('package.z')\nimport_module('other.z')\nimportlib.import_module(name)\n"
    )
    assert loose_modules(package) == ["z.py"]
    assert shared_file_names(package) == ["x.py"]
    assert string_imports(package) == [("package.a.y", "package.z")]


def test_circles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert sorted(circles(imports)) == [["b", "c"], ["e", "f"]]


def test_uses_of_private_names_and_of_monkeypatch() -> None:
    text = "from graveler.lake import _a, b\nself._own = lake._tables\nmonkeypatch.setattr(b, 'c', 1)\n"
    assert count_house.private_names(text) == 2
    assert count_house.monkeypatches(text) == 1


def test_a_figure_may_only_fall() -> None:
    written = {"circles": 1, "folders": {"api": {"vague": 2}, "cli": {"vague": 3}}}
    counts = {"circles": 1, "folders": {"api": {"vague": 3}, "cli": {"vague": 2}, "sdk": {"vague": 1}}}
    rose = [
        "folders.api.vague rose from 2 to 3: it only may fall",
        "folders.sdk.vague rose from 0 to 1: it only may fall",
    ]
    assert list(compare(written, counts, exact=False)) == rose
    fell = "folders.cli.vague fell from 3 to 2: lower it in tests/house.toml by `make count WRITE=1`"
    assert list(compare(written, counts, exact=True)) == [rose[0], fell, rose[1]]
