"""Options: each command takes those that its help names, and the ones that say where the lake is stand before it or behind it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from graveler.cli.app import app
from graveler.cli.location_options import add_location_options
from tests.cli.support import done, run

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def _leaves(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in getattr(group, "commands", {}).items():
        yield (*words, name), inner
        yield from _leaves(inner, (*words, name))


ROOT: Any = typer.main.get_command(app)
add_location_options(ROOT)
COMMANDS = dict(_leaves(ROOT))


def options(command: Any) -> set[str]:
    return {text for param in command.params for text in param.opts if text.startswith("--")} | {"--help"}


def command_in(line: str) -> Any:
    """The command that a line such as ``graveler --lake x branch list quickstart`` runs; None for other lines."""
    words = tuple(word for word in line.split() if re.fullmatch(r"[a-z-]+", word) and word != "graveler")
    for at in range(len(words)):
        for length in (3, 2, 1):
            if words[at : at + length] in COMMANDS:
                return COMMANDS[words[at : at + length]]
    return None


def texts(command: Any) -> Iterator[tuple[str, Any]]:
    """Pieces of a command's help, each with the command whose options it may name."""
    help_text = (command.help or "").replace("\\\n", " ")
    for text in (help_text, *(getattr(param, "help", None) or "" for param in command.params)):
        for line in text.splitlines():
            if line.strip().startswith("graveler "):
                yield line, command_in(line) or command
                continue
            for quoted in re.findall(r"`([^`]*)`", line):
                yield quoted, command_in(quoted) or command
            yield re.sub(r"`[^`]*`", "", line), command


@pytest.mark.parametrize("words", sorted(COMMANDS), ids=" ".join)
def test_a_command_takes_each_option_that_its_help_names(words: tuple[str, ...]) -> None:
    unknown = {
        name
        for text, command in texts(COMMANDS[words])
        for name in OPTION.findall(text)
        if name not in options(command) | options(ROOT)
    }
    assert unknown == set()


@pytest.mark.parametrize("words", sorted(COMMANDS), ids=" ".join)
def test_a_command_that_can_use_a_table_takes_where_its_objects_are(words: tuple[str, ...]) -> None:
    own = options(COMMANDS[words])
    assert ("--lake" in own) <= ({"--objects", "--tables", "--endpoint", "--region"} <= own)


@pytest.mark.usefixtures("lake")
def test_where_the_lake_is_can_be_said_behind_the_command(tmp_path: Path) -> None:
    for arguments in (("fsck", "lake"), ("ls", "lakefs://lake/main/"), ("repo", "list")):
        before = run("--lake", "dynamodb://t", "--objects", "nowhere", *arguments)
        behind = run(*arguments, "--objects", "nowhere", "--lake", "dynamodb://t")
        assert (before.code, behind.code) == (2, 2)
        assert behind.err == before.err
        assert "nowhere" in behind.err
    assert done("repo", "list", "--json").json["name"] == "lake", "one command line says nothing for the next"
    wrong = run("repo", "list", "--objects", "s3://b/p")
    assert "--objects needs --tables" in wrong.err


def test_what_is_read_comes_first_and_what_changes_last() -> None:
    """The order of arguments of each command that has a source and a destination."""
    orders = {
        " ".join(words): [param.metavar for param in command.params if param.param_type_name == "argument"]
        for words, command in COMMANDS.items()
    }
    expected = {
        "put": ["FILE...", "URI"],
        "get": ["URI", "FILE"],
        "export": ["URI", "FOLDER"],
        "cp": ["SOURCE", "TARGET"],
        "mv": ["SOURCE", "TARGET"],
        "import": ["SOURCE...", "URI"],
        "merge": ["SOURCE", "BRANCH"],
        "revert": ["SOURCE", "BRANCH"],
        "cherry-pick": ["SOURCE", "BRANCH"],
        "restore": ["NAMESPACE", "DUMP", "REPOSITORY"],
        "ingest rules add": ["NAME", "SOURCE", "URI"],
    }
    assert {name: orders[name] for name in expected} == expected
    destinations = {"TARGET", "BRANCH", "URI", "FOLDER"}
    assert {
        name
        for name, order in orders.items()
        if any(str(one).startswith("SOURCE") for one in order) and order[-1] not in destinations
    } == set()
