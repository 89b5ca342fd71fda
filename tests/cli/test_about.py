"""The help of the whole command, its topics, and its version."""

import re

import pytest

from graveler import __version__
from graveler.cli.app import app
from graveler.cli.topics import TOPICS
from tests.cli.support import done, run
from tests.cli.test_every_command import leaves


def test_the_help_fits_on_a_screen_and_names_every_command_and_topic() -> None:
    shown = done("--help").out
    assert done().out == done("help").out == done("-h").out == shown
    lines = shown.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    words = set(re.findall(r"[a-z][a-z-]*", shown))
    assert {command[0] for command in leaves(app)} | set(TOPICS) <= words
    assert lines[-1] == "`graveler help COMMAND` shows the options of a command, and examples."


def test_a_topic_lists_every_command_with_its_sentence() -> None:
    shown = done("help", "commands").out
    listed = re.findall(r"^  ([a-z-]+)  +[A-Z]", shown, re.MULTILINE)
    assert sorted(listed) == sorted({command[0] for command in leaves(app)})


@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        ("options", "--lake LAKE                  The lake: a folder, dynamodb://TABLE or\n"),
        ("options", "The options that say where the lake is can stand before the command or behind\nit."),
        ("refs", "  main@{1 hour ago}       the branch that long ago; also 90m, 3d, yesterday;\n"),
        ("refs", "Before a PATH, a / in the name of a tag is written %2F"),
        ("environment", "  GRAVELER_USER     the author of commits; default: `graveler config get user`,\n"),
        ("exit-codes", "    3  not found\n"),
    ],
)
def test_topics(topic: str, sentence: str) -> None:
    shown = done("help", topic).out
    assert sentence in shown
    assert "\b" not in shown


@pytest.mark.parametrize("words", [("commit",), ("branch",), ("branch", "create"), ("config", "set")], ids=" ".join)
def test_help_of_a_command_is_its_own(words: tuple[str, ...]) -> None:
    assert done("help", *words).out == done(*words, "--help").out


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("comit",), "there is no command or topic 'comit'; did you mean 'commit'?"),
        (("environ",), "there is no command or topic 'environ'; did you mean 'environment'?"),
        (("branch", "creat"), "there is no command or topic 'branch creat'; did you mean 'create'?"),
        (("qqq",), "there is no command or topic 'qqq'; `graveler help` lists commands and topics"),
        (("pull",), "every command reads the lake itself, so there is no copy to update"),
        (("branch", "rm"), "there is no command or topic 'branch rm'; use `graveler branch delete`"),
        (("commit", "x"), "there is no command or topic 'commit x'; `graveler help` lists commands and topics"),
    ],
)
def test_help_of_something_else(words: tuple[str, ...], answer: str) -> None:
    refused = run("help", *words)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert answer in refused.err


def test_the_version() -> None:
    assert done("version").out == done("--version").out == f"graveler {__version__}\n"
    assert done("version", "--json").json.keys() == {"version", "python"}
    assert done("version", "--json").json["version"] == __version__
