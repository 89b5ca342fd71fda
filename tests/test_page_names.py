"""What the pages name in code exists: modules and what is in them, classes, fields and settings, commands with their options,
targets of make.

A page's code is what stands in backticks, and its shell blocks. Records of the past (the changelog, measurements) name what was.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from graveler.cli.app import app
from tests.test_guides import file_of, targets, variables
from tests.test_references import is_there

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = sorted(
    {page.relative_to(ROOT).as_posix() for pattern in ("*.md", "docs/**/*.md") for page in ROOT.glob(pattern)}
    - {"CHANGELOG.md"}
)
SOURCES: Final = ("*.py", "*.toml", "*.json", "Makefile", "zensical.toml")
FOLDERS: Final = ("layers/graveler/python", "functions", "infra", "tests", "bench", "docs")

OTHERS: Final = {
    "AvailableNow": "Spark",
    "BASIC": "EventBridge",
    "BasicAuthParameters": "EventBridge",
    "CHECKOUT": "a placeholder",
    "CLIENT_ID": "DuckDB",
    "CLIENT_SECRET": "DuckDB",
    "CNAME": "DNS",
    "DataLoader": "PyTorch",
    "FsspecFileIO": "PyIceberg",
    "OAUTH2_SERVER_URI": "DuckDB",
    "PROVIDER": "DuckDB",
    "RSGIProtocolClosed": "granian",
    "RoleSessionName": "AWS STS",
    "S3FileIO": "Iceberg",
    "S3SingleDriverLogStore": "Delta Lake",
    "SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE": "SQLite",
    "SizeRestrictions_BODY": "AWS WAF",
    "T08": "a time",
    "TableReadThrottles": "an alarm, whose name infra/observability.py puts together",
    "TableWriteThrottles": "an alarm, whose name infra/observability.py puts together",
    "ValidateTagID": "lakeFS",
    "VpcIds": "AWS IAM",
    "additional_headers": "the package lakefs",
    "create_branch_ok": "lakefs-spec",
    "credential_chain": "DuckDB",
    "expire_snapshots": "Iceberg",
    "fast_forward": "Iceberg",
    "include_samples": "the package lakefs",
    "logStore": "Delta Lake",
    "multi_decompress_to_buffer": "zstandard",
    "processingTime": "Spark",
    "prometheus_client": "a library that is not used",
    "protected_hardlinks": "Linux",
    "s3_url_style": "DuckDB",
    "typing_extensions": "a library",
}
"""Names of other programs, each with whose it is. A name that a page gets right, and that is in no source file, goes here."""
OPTIONS_OF_OTHERS: Final = {
    "--auth-parameters": "aws",
    "--authorization-type": "aws",
    "--custom-permissions-boundary": "cdk",
    "--download": "rclone",
    "--exclusively": "cdk",
    "--execution-role-arn": "aws",
    "--pre-sign": "lakectl",
    "--sample-data": "lakectl",
    "--sse-specification-override": "aws",
    "--stack-name": "aws",
    "--summarize": "aws",
    "--vfs-cache-mode": "rclone",
}
MODULES_OF_OTHERS: Final = {"http.server", "pip", "pytest", "venv"}
OPTION: Final = re.compile(r"(?<![\w-])--[a-z][\w-]*")

each: Final = pytest.mark.parametrize("page", PAGES)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each fenced block."""
    yield from re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)


def quoted(text: str) -> list[str]:
    """What stands in backticks outside of fenced blocks, each on one line."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]


def command_lines(text: str) -> Iterator[str]:
    """The commands of a page: each part of a pipe or a list in a shell block, or of what is quoted."""
    shells = [
        line.strip().removeprefix("$ ").partition(" #")[0]
        for language, block in blocks(text)
        if language in ("bash", "console", "sh")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    for line in [*shells, *quoted(text)]:
        for part in re.split(r"\||&&|;|\$\(|[<>]", line):
            yield re.sub(r"^(?:[A-Z_]+=\S+ )+", "", part.strip()).rstrip(')"')


@cache
def sources() -> str:
    """The text of all source files."""
    files = {path for pattern in SOURCES for path in ROOT.glob(pattern)}
    files |= {
        path
        for folder in FOLDERS
        for pattern in SOURCES
        for path in (ROOT / folder).rglob(pattern)
        if "node_modules" not in path.parts and path.name != Path(__file__).name
    }
    return "\n".join([Path(__file__).stem, *(f"{path.stem}\n{path.read_text()}" for path in sorted(files))])


@cache
def words() -> frozenset[str]:
    """The words of all source files, and the names of the files."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", sources()))


def is_name(word: str) -> bool:
    """Whether a word can only be a name of a program: it has an underscore, a capital behind a small letter, or only capitals."""
    return "_" in word.strip("_") or bool(re.search(r"[a-z][A-Z]", word)) or (word.isupper() and len(word) > 2)


@cache
def is_ending(word: str) -> bool:
    """Whether a word is the end of a variable's name, as ``_SECRET_ACCESS_KEY`` beside ``GRAVELER_ACCESS_KEY_ID``."""
    return word.startswith("_") and word.isupper() and any(name.endswith(word) for name in words())


def unknown_names(text: str) -> Iterator[str]:
    """Names in the code of a page that stand in no source file, nor in a block of the page itself."""
    shown = set(re.findall(r"[A-Za-z_]\w*", " ".join(block for _, block in blocks(text))))
    for code in quoted(text):
        for dotted in re.findall(r"(?<![\w./-])graveler(?:\.\w+)+", code):
            if not is_there(dotted) and f'"{dotted}"' not in sources():
                yield dotted
        called = re.findall(r"\b[A-Za-z_]\w*(?=\()", code)
        for word in {*filter(is_name, re.findall(r"[A-Za-z_]\w*", code)), *called}:
            if word not in shown | words() | set(OTHERS) and not is_ending(word):
                yield word


@cache
def tree() -> Any:
    """The commands of ``graveler``."""
    return get_command(app)


def fault_of_command(line: str) -> str:
    """What a line names that ``graveler`` does not have: a command, or an option of it; or nothing."""
    command: Any = tree()
    options = {name: parameter for parameter in command.params for name in parameter.opts}
    values = 0
    for word in line.split()[1:]:
        below = getattr(command, "commands", None)
        name = word.partition("=")[0]
        if word == "--":
            return ""  # the rest is a program of others
        if values:
            values -= 1
        elif re.match(r"--?[A-Za-z]", word):
            if name not in options:
                return "" if name == "--help" else f"{name} of {line!r}"
            if "=" not in word and not getattr(options[name], "is_flag", False):
                values = 1
        elif below is not None and re.fullmatch(r"[a-z-]+", word):
            if word not in below:
                return f"{word} of {line!r}"
            command = below[word]
            options |= {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
    return ""


def fault_of_make(line: str) -> str:
    """What a line names that the Makefile does not have: a target, or a variable; or nothing."""
    _, *rest = line.split()
    names = {word.partition("=")[0] for word in rest if "=" in word}
    if unknown := {word for word in rest if "=" not in word} - targets() | names - variables():
        return f"{', '.join(sorted(unknown))} of {line!r}"
    return ""


@each
def test_names_in_code_exist(page: str) -> None:
    unknown = set(unknown_names((ROOT / page).read_text()))
    assert not unknown, f"{page} names {sorted(unknown)}; the names of other programs are in OTHERS"


@each
def test_commands_and_their_options_exist(page: str) -> None:
    lines = list(command_lines((ROOT / page).read_text()))
    faults = [fault_of_command(line) for line in lines if line.startswith("graveler ")]
    faults += [fault_of_make(line) for line in lines if re.match(r"make [a-z]", line)]
    for module in (line.split()[2] for line in lines if re.match(r"python\d? -m \S", line)):
        path = module.replace(".", "/")
        if module not in MODULES_OF_OTHERS and not (file_of(f"{path}.py") or file_of(f"{path}/__main__.py")):
            faults.append(f"python -m {module}")
    assert not list(filter(None, faults)), page


@each
def test_options_exist(page: str) -> None:
    named = {option for code in quoted((ROOT / page).read_text()) for option in OPTION.findall(code)}
    assert named <= known_options() | set(OPTIONS_OF_OTHERS), page


@cache
def known_options() -> set[str]:
    """The options of all commands of ``graveler``, and those that source files name."""

    def below(command: Any) -> Iterator[str]:
        for parameter in command.params:
            yield from (*parameter.opts, *parameter.secondary_opts)
        for inner in getattr(command, "commands", {}).values():
            yield from below(inner)

    return {*below(tree()), *OPTION.findall(sources()), "--help"}


def test_each_name_of_others_is_needed() -> None:
    texts = [(ROOT / page).read_text() for page in PAGES]
    code = " ".join(part for text in texts for part in quoted(text))
    assert set(OTHERS) <= set(re.findall(r"[A-Za-z_]\w*", code))
    assert set(OPTIONS_OF_OTHERS) <= set(OPTION.findall(code))


def test_what_does_not_exist_is_noticed() -> None:
    page = (
        "`graveler.lake.nowhere`, `Machine(lake).part(no_such_field=1)` and `graveler.open`, `NobodysName`\n"
        "```py\nmine_x\n```\n`mine_x`"
    )
    assert set(unknown_names(page)) == {"graveler.lake.nowhere", "no_such_field", "NobodysName"}
    assert fault_of_command("graveler --lake x branch create lakefs://r/b --source main") == ""
    assert "--sauce" in fault_of_command("graveler branch create lakefs://r/b --sauce main")
    assert "brunch" in fault_of_command("graveler --lake x brunch create")
    assert fault_of_make("make bench BENCH=--write") == ""
    assert "nothing" in fault_of_make("make nothing")
    shown = "```bash\nA=1 graveler log x | head   # a comment\n```\n`make test` and `make\nit`"
    assert list(command_lines(shown)) == ["graveler log x", "head", "make test", "make it"]
