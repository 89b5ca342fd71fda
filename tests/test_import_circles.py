"""No modules of the package import each other in a circle, also not by imports within functions or for type checkers."""

from collections.abc import Iterator

import grimp
import pytest

ROOT = "graveler"
"""The package itself names the Python API for type checkers, and imports nothing at run time."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(ROOT, cache_dir=None)


def test_no_module_is_in_a_circle_of_imports(graph: grimp.ImportGraph) -> None:
    modules = graph.modules - {ROOT}
    assert len(modules) > 400
    assert (
        list(_circles({module: graph.find_modules_directly_imported_by(module) - {ROOT} for module in modules})) == []
    )


def test_circles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert sorted(_circles(imports)) == [["b", "c"], ["e", "f"]]


def _circles(imports: dict[str, set[str]]) -> Iterator[list[str]]:
    """Groups of modules each of which imports all others of its group, directly or not."""
    reached = {module: _reached(imports, module) for module in imports}
    seen: set[str] = set()
    for module in sorted(imports):
        if module in seen or module not in reached[module]:
            continue
        circle = sorted(other for other in reached[module] if module in reached[other])
        seen.update(circle)
        yield circle


def _reached(imports: dict[str, set[str]], module: str) -> set[str]:
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        for imported in imports[waiting.pop()] - reached:
            reached.add(imported)
            waiting.append(imported)
    return reached
