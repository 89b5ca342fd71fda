"""The files, functions, methods, targets and commands that the guides for developers name exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import graveler
from graveler.cli.app import app
from tests.test_references import names_in

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "layers/graveler/python/graveler"
GUIDES = ("CONTRIBUTING.md", "docs/reading.md")

MADE = {
    ".venv",
    ".venv-spark",
    ".venv-spark35",
    ".venv-deploy",
    ".venv-docs",
    ".venv-newest",
    "build/docs/html",
    "tests/gateway/clients/javascript/node_modules",
}
"""What `make` makes, maybe later than these tests run: environments, and the site."""
ENDINGS = (".py", ".md", ".json", ".toml", ".lock", ".txt")
NAME = re.compile(r"\w+(\.\w+)*(\(\))?")
PAIR = re.compile(r"`([\w./-]+\.py)`,? ((?:`(?![\w.]*\.py`)\w[\w.]*`(?:, | and )?)+)")
"""A file, and behind it names that are in it."""


def sections(guide: str) -> Iterator[tuple[str, str]]:
    """The heading and the text of each section, without its fenced blocks."""
    text = re.sub(r"^```.*?^```", "", (ROOT / guide).read_text(), flags=re.M | re.S)
    for part in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
        heading, _, rest = part.partition("\n")
        yield heading, rest


each = pytest.mark.parametrize(
    ("guide", "heading", "text"),
    [(guide, heading, text) for guide in GUIDES for heading, text in sections(guide)],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def is_path(text: str) -> bool:
    return " " not in text and ("/" in text or text in MADE or text.endswith(ENDINGS))


def file_of(path: str) -> Path | None:
    """The file or folder that a guide names, from the top of the repository, of the package, or from its name on."""
    return next((base / path for base in (ROOT, PACKAGE, PACKAGE.parent) if (base / path).exists()), None)


@each
def test_files_are_there(guide: str, heading: str, text: str) -> None:
    for path in filter(is_path, quoted(text)):
        assert path in MADE or file_of(path) is not None, path


PAGES = sorted(path.relative_to(ROOT).as_posix() for folder in ("", "docs") for path in (ROOT / folder).glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_python_files_that_a_page_names_are_there(page: str) -> None:
    """Also by their last part alone, where the text around it tells the folder."""
    for path in re.findall(r"`([\w./-]+\.py)`", (ROOT / page).read_text()):
        assert file_of(path) is not None or path in named_alone(), path


@cache
def named_alone() -> set[str]:
    return {path.name for folder in ("tests", "infra") for path in (ROOT / folder).rglob("*.py")}


@each
def test_a_name_behind_a_file_is_in_it(guide: str, heading: str, text: str) -> None:
    for path, names in PAIR.findall(" ".join(text.split())):
        for name in quoted(names):
            assert is_in(path, name), f"{path} has no {name}"


@each
def test_other_words_stand_in_a_file_that_the_section_names(guide: str, heading: str, text: str) -> None:
    files = [file for path in filter(is_path, quoted(text)) if (file := file_of(path)) is not None and file.is_file()]
    for word in quoted(text):
        if is_path(word) or not NAME.fullmatch(word) or "GRAVELER_" in word:
            continue
        last = word.removesuffix("()").rpartition(".")[2]
        found = [file for file in files if re.search(rf"\b{last}\b", file.read_text())]
        assert found, f"{word} is in none of {[file.name for file in files]}"


def is_in(path: str, name: str) -> bool:
    """Whether a module binds a name, or a class of it a dotted one."""
    file = file_of(path)
    assert file is not None, path
    body = ast.parse(file.read_text()).body
    for part in name.split("."):
        found = dict(names_in(body)).get(part)
        if found is None:
            return False
        body = found.body if isinstance(found, ast.ClassDef) else []
    return True


def commands(guide: str) -> Iterator[str]:
    """The commands of a guide: lines of its shell blocks, without comments, and what is quoted and begins like one."""
    text = (ROOT / guide).read_text()
    for block in re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from (line.partition(" #")[0].strip() for line in block.splitlines())
    yield from (word for word in quoted(text) if re.match(r"(make|python|\.venv\S*|graveler) ", word))


@pytest.mark.parametrize("guide", GUIDES)
def test_commands_can_be_run(guide: str) -> None:
    for command in set(commands(guide)):
        program, *words = command.split()
        match program.rpartition("/")[2]:
            case "make":
                assert words[0] in targets(), command
                assert {word.partition("=")[0] for word in words[1:]} <= variables(), command
            case "python":
                assert words[0] == "-m", command
                assert words[1] == "pytest" or file_of(f"{words[1].replace('.', '/')}.py") is not None, command
                named = [word for word in words[2:] if word.startswith("tests/")]
                assert all((ROOT / path.partition("::")[0]).exists() for path in named), command
            case "graveler":
                assert is_command(words), command
            case _:
                pytest.fail(f"{guide} shows {command!r}, which nobody checks")


@pytest.mark.parametrize("guide", GUIDES)
def test_variables_of_the_environment_are_those_of_the_campaigns(guide: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for name in re.findall(r"\bGRAVELER_\w+", (ROOT / guide).read_text()):
        assert f"export {name} " in makefile, name


@cache
def targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@cache
def variables() -> set[str]:
    return set(re.findall(r"^([A-Z]+) \?=", (ROOT / "Makefile").read_text(), re.MULTILINE))


def is_command(words: list[str]) -> bool:
    command: Any = get_command(app)
    for word in words:
        below = getattr(command, "commands", None)
        if below is None or word.startswith("-"):
            return True
        if word not in below:
            return False
        command = below[word]
    return True


def test_what_is_not_there_is_noticed() -> None:
    assert is_in("lake/repository.py", "OpenRepository.run")
    assert not is_in("lake/repository.py", "OpenRepository.nobody")
    assert not is_in("lake/repository.py", "run")
    assert PAIR.findall("`a.py` `b`, `C.d` and `e.py` `f`") == [("a.py", "`b`, `C.d` and "), ("e.py", "`f`")]
    assert file_of("lake/nobody.py") is None
    assert is_command(["branch", "create"])
    assert not is_command(["branch", "nobody"])


@pytest.mark.parametrize("page", ["README.md", *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/*.md"))])
def test_pages_for_users_import_public_modules_only(page: str) -> None:
    imported = re.findall(r"^\s*(?:from|import) (graveler[\w.]*)", (ROOT / page).read_text(), flags=re.M)
    assert set(imported) <= {
        "graveler",
        "graveler.duckdb",
        "graveler.errors",
        "graveler.filesystem",
        "graveler.model",
        "graveler.polars",
        "graveler.spark",
    }


def test_everything_public_has_a_docstring() -> None:
    for name in graveler.__all__:
        if not name.startswith("__"):
            assert getattr(graveler, name).__doc__, name
