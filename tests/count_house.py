"""Counts of the code: ``python -m tests.count_house`` prints them beside the wanted figures.

Those of ``tests/house.toml`` only may fall. ``--check`` fails if one rose, or fell and was not written; ``--write`` writes them.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grimp

from tests import count_calls

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "layers" / "graveler" / "python" / "graveler"
TESTS: Final = ROOT / "tests"
FIGURES: Final = TESTS / "house.toml"

VAGUE: Final = re.compile(
    "found|at|one|made|what|wanted|known|told|mine|kept|given|asked|taken|there|here|others|seen|gone|left|own|first|behind|"
    "beside|ahead|each|why"
)
"""Names that say nothing about the thing that they name."""

LOOSE: Final = "loose"
"""The folder of modules that are in no folder."""

_QUESTION: Final = re.compile(r"(What|Who|Which|Where|How|Whose|Whether)\b")
_PRIVATE: Final = re.compile(r"(?<!self)\._[a-z]")
_PER_FOLDER: Final = ("vague", "forwarders")
_TOTALS: Final = (
    "docstring_openings",
    "circles",
    "string_imports",
    "loose_modules",
    "shared_file_names",
    "private_names_in_tests",
    "monkeypatches",
)

_HEAD: Final = """\
# Figures that only may fall: `make check` compares them with the code, `make count WRITE=1` writes them again. `by_hand` are the
# code files that a change touches, counted by hand after the recipes of CONTRIBUTING.md.
"""


@dataclass
class Source:
    """Counts of one folder of the package, or of all."""

    files: int = 0
    statements: int = 0
    names: int = 0
    vague: int = 0
    forwarders: int = 0
    docstrings: int = 0
    docstring_openings: int = 0

    def add(self, tree: ast.Module) -> None:
        """Count a module, too."""
        self.files += 1
        for node in ast.walk(tree):
            self.statements += isinstance(node, ast.stmt)
            if name := bound_name(node):
                self.names += 1
                self.vague += bool(VAGUE.fullmatch(name.strip("_")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.forwarders += is_forwarder(node)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                docstring = ast.get_docstring(node)
                self.docstrings += docstring is not None
                self.docstring_openings += bool(docstring and _QUESTION.match(docstring))


def bound_name(node: ast.AST) -> str | None:
    """Return the name that a node binds as a variable or as a parameter."""
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return None


def is_forwarder(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether all that a function does is to hand all its parameters on to one call."""
    body = [
        statement
        for statement in function.body
        if not isinstance(statement, ast.Import | ast.ImportFrom)
        and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]
    parameters = {parameter.arg for parameter in function.args.args + function.args.kwonlyargs} - {"self", "cls"}
    call = getattr(body[0], "value", None) if len(body) == 1 else None
    if not parameters or not isinstance(call, ast.Call):
        return False
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    plain = all(isinstance(argument, ast.Name | ast.Attribute | ast.Starred) for argument in arguments)
    names = {node.id for argument in arguments for node in ast.walk(argument) if isinstance(node, ast.Name)}
    return plain and parameters <= names


def count_source(package: Path) -> Mapping[str, Source]:
    """Return the counts of each folder of a package."""
    folders: defaultdict[str, Source] = defaultdict(Source)
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).parts
        folders[parts[0] if len(parts) > 1 else LOOSE].add(ast.parse(file.read_text()))
    return dict(sorted(folders.items()))


def total(folders: Mapping[str, Source]) -> Source:
    """Return the sum of all folders."""
    counts: Counter[str] = Counter()
    for source in folders.values():
        counts.update(vars(source))
    return Source(**counts)


def loose_modules(package: Path) -> list[str]:
    """Return the modules beside the folders of a package."""
    return sorted(file.name for file in package.glob("*.py") if file.name not in ("__init__.py", "__main__.py"))


def shared_file_names(package: Path) -> list[str]:
    """Return the names of modules that stand in three rooms or more."""
    rooms: defaultdict[str, set[str]] = defaultdict(set)
    for file in package.rglob("*.py"):
        rooms[file.name].add(file.relative_to(package).parts[0])
    return sorted(name for name, places in rooms.items() if len(places) >= 3 and not name.startswith("__"))


def string_imports(package: Path) -> list[tuple[str, str]]:
    """Return who imports a module of the package by a string, and the module."""
    return [
        (importer, node.args[0].value)
        for importer, tree in _modules(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", None)) in ("import_module", "__import__")
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
        and node.args[0].value.startswith(f"{package.name}.")
    ]


def _modules(package: Path) -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(file.read_text())


def imports_between(package: Path) -> dict[str, set[str]]:
    """Return what each module of the package imports of it, also within functions and for type checkers.

    The package itself names the Python API for type checkers, and imports nothing at run time: it is left out.
    """
    graph = grimp.build_graph(package.name, cache_dir=None)
    modules = graph.modules - {package.name}
    imports = {module: graph.find_modules_directly_imported_by(module) - {package.name} for module in modules}
    for importer, imported in string_imports(package):
        imports[importer].add(imported)
    return imports


def circles(imports: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Yield groups of modules each of which imports all others of its group, directly or not."""
    reached = {module: _reached(imports, module) for module in imports}
    grouped: set[str] = set()
    for module in sorted(imports):
        if module in grouped or module not in reached[module]:
            continue
        circle = sorted(other for other in reached[module] if module in reached[other])
        grouped.update(circle)
        yield circle


def _reached(imports: Mapping[str, set[str]], module: str) -> set[str]:
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        for imported in imports[waiting.pop()] - reached:
            reached.add(imported)
            waiting.append(imported)
    return reached


def private_names(text: str) -> int:
    """Return how often a test uses a private name of another object or of a module of the package."""
    imported = (
        name.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name)
        for name in node.names
    )
    return len(_PRIVATE.findall(text)) + sum(name.startswith("_") for name in imported)


def monkeypatches(text: str) -> int:
    """Return how often a test calls a method of the fixture ``monkeypatch``."""
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "monkeypatch"
        for node in ast.walk(ast.parse(text))
    )


def count_tests() -> tuple[int, int]:
    """Return the uses of private names in all tests, and those of ``monkeypatch``."""
    texts = [file.read_text() for file in TESTS.rglob("*.py")]
    return sum(map(private_names, texts)), sum(map(monkeypatches, texts))


def figures(folders: Mapping[str, Source]) -> dict[str, Any]:
    """Return the figures that only may fall: those of the whole package by name, and those of each folder in ``folders``."""
    private, patches = count_tests()
    values = (
        total(folders).docstring_openings,
        sum(map(len, circles(imports_between(PACKAGE)))),
        len(string_imports(PACKAGE)),
        len(loose_modules(PACKAGE)),
        len(shared_file_names(PACKAGE)),
        private,
        patches,
    )
    per_folder = {
        folder: {name: getattr(source, name) for name in _PER_FOLDER if getattr(source, name)}
        for folder, source in folders.items()
    }
    return dict(zip(_TOTALS, values, strict=True)) | {"folders": {k: v for k, v in per_folder.items() if v}}


def compare(written: Mapping[str, Any], counted: Mapping[str, Any], *, exact: bool) -> Iterator[str]:
    """Yield a sentence for each figure that rose and, if the comparison is exact, for each that fell."""
    bounds, numbers = dict(_flat(written)), dict(_flat(counted))
    for name in sorted(bounds.keys() | numbers.keys()):
        bound, number = bounds.get(name, 0), numbers.get(name, 0)
        if number > bound:
            yield f"{name} rose from {bound} to {number}: it only may fall"
        elif exact and number < bound:
            yield f"{name} fell from {bound} to {number}: lower it in tests/house.toml by `make count WRITE=1`"


def _flat(counts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    for name, value in counts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def rendered(counted: Mapping[str, Any], by_hand: Mapping[str, int]) -> str:
    """Return the text of ``tests/house.toml``."""
    lines = [_HEAD, *(f"{name} = {counted[name]}" for name in _TOTALS), "", "[by_hand]"]
    lines += [f"{name} = {value}" for name, value in by_hand.items()]
    lines += ["", "[folders]"]
    for folder, counts in counted["folders"].items():
        shown = ", ".join(f"{name} = {value}" for name, value in counts.items())
        lines.append(f"{folder} = {{ {shown} }}")
    return "\n".join(lines) + "\n"


def table(folders: Mapping[str, Source], counted: Mapping[str, Any], by_hand: Mapping[str, int]) -> Iterator[str]:
    """Yield the rows of the table of all counts, with the wanted figures."""
    whole = total(folders)
    calls = count_calls.counted()
    share = 100 * whole.vague / whole.names
    rows = [
        ("", "738bb63a", "now", "wanted"),
        (
            "statements of the package",
            "54,911 in 612 files",
            f"{whole.statements:,} in {whole.files} files",
            "≤ 50,500",
        ),
        ("vague names", "2,349 of 33,677, 6.98 %", f"{whole.vague:,} of {whole.names:,}, {share:.2f} %", "≤ 0.5 %"),
        ("code files (places) for a field of `merge`", "6 (9)", f"{by_hand['field']} ({by_hand['places']})", "3 (4)"),
        ("code files for a verb", "16", str(by_hand["verb"]), "≤ 7"),
        ("functions that only pass all parameters on", "154", str(whole.forwarders), "≤ 60"),
        ("functions (files) of a cold `put`", "225 (60)", calls["put"], "≤ 177 (49)"),
        ("functions (files) of a cold `commit`", "402 (75)", calls["commit"], "≤ 315 (61)"),
        ("functions (files) before a request's commit", "76 (28)", calls["request"], "≤ 50 (20)"),
        ("modules in a circle, with imports by a string", "22", str(counted["circles"]), "0"),
        ("imports of the package by a string", "2", str(counted["string_imports"]), "≤ 1"),
        ("loose modules beside the folders", "22", str(counted["loose_modules"]), "≤ 5"),
        ("file names that stand in three rooms or more", "26", str(counted["shared_file_names"]), "≤ 8"),
        ("uses of private names in tests", "499", str(counted["private_names_in_tests"]), "≤ 150"),
        ("monkeypatches", "493", str(counted["monkeypatches"]), "≤ 250"),
        ("docstrings that open with a question word", "34", str(whole.docstring_openings), "0"),
        ("lock files in the root", "7", str(len(list(ROOT.glob("*.lock")))), "0"),
        ("lines of the README", "206", str(len((ROOT / "README.md").read_text().splitlines())), "≤ 130"),
    ]
    for name, then, now, wanted_figure in rows:
        yield f"{name:46} {then:>24} {now:>24} {wanted_figure:>11}"
    yield ""
    yield f"{'folder':24} {'statements':>10} {'names':>7} {'vague':>6} {'forwarders':>10}"
    for folder_name, source in folders.items():
        counts = f"{source.statements:10,} {source.names:7,} {source.vague:6,} {source.forwarders:10,}"
        yield f"{folder_name:24} {counts}"


def main() -> None:
    """Print, compare or write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the figures of tests/house.toml with the code")
    parser.add_argument("--write", action="store_true", help="write tests/house.toml again")
    options = parser.parse_args()
    folders = count_source(PACKAGE)
    counted = figures(folders)
    written = tomllib.loads(FIGURES.read_text())
    by_hand = written.pop("by_hand")
    if options.check:
        faults = list(compare(written, counted, exact=True))
        sys.exit("\n".join(faults) if faults else 0)
    sys.stdout.writelines(f"{line}\n" for line in table(folders, counted, by_hand))
    if options.write:
        FIGURES.write_text(rendered(counted, by_hand))


if __name__ == "__main__":
    main()
