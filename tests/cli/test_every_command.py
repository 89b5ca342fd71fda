"""Properties of every command: examples, JSON, dry runs, one sentence for wrong use."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from graveler.cli.app import app
from tests.cli.support import commit, done, put, run, write_tree


def leaves(group: typer.Typer = app, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command that does something."""
    for info in group.registered_commands:
        assert info.callback is not None
        yield (*words, info.name or info.callback.__name__.rstrip("_"))
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from leaves(inner.typer_instance, (*words, str(inner.name)))


COMMANDS = sorted(leaves())
WITHOUT_JSON = {("cat",), ("gateway",), ("help",), ("run",)}
"""Their output is the object, the help, the program's, or nothing."""
DELETING = {
    ("rm",),
    ("mv",),
    ("reset",),
    ("import",),
    ("export",),
    ("branch", "delete"),
    ("tag", "delete"),
    ("repo", "delete"),
}

each = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def test_the_commands_are_all_there() -> None:
    assert len(COMMANDS) > 45
    assert set(COMMANDS) > DELETING | WITHOUT_JSON


@each
def test_its_help_has_examples_and_says_what_its_json_is(words: tuple[str, ...]) -> None:
    shown = done(*words, "--help").out
    assert f"  graveler {' '.join(words)}" in shown.partition("Example")[2]
    assert ("JSON: " in shown, "--json" in shown.partition("Options:")[2]) == (words not in WITHOUT_JSON,) * 2
    assert "\b" not in shown
    assert [line for line in shown.splitlines() if len(line) > 80] == []


@each
def test_what_deletes_or_replaces_has_a_dry_run(words: tuple[str, ...]) -> None:
    if words in DELETING:
        assert "--dry-run" in done(*words, "--help").out


@each
def test_wrong_use_is_one_sentence_that_names_the_help(words: tuple[str, ...]) -> None:
    result = run(*words, "--no-such-option")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith("error: ")
    assert f"graveler {' '.join(words)} --help`" in result.err


@pytest.mark.parametrize(
    ("arguments", "told", "fields"),
    [
        (("branch", "delete", "lakefs://lake/dev"), "would delete branch dev", {"deleted": "dev", "uncommitted": True}),
        (("tag", "delete", "lakefs://lake/v1"), "would delete tag v1", {"deleted": "v1"}),
        (("repo", "delete", "lake"), "would delete repository lake with 2 branches", {"deleted": "lake"}),
        (("reset", "lakefs://lake/main", "--hard", "main~1"), "would move main from", {"branch": "main"}),
    ],
)
@pytest.mark.usefixtures("lake")
def test_a_dry_run_tells_and_changes_nothing(arguments: tuple[str, ...], told: str, fields: dict[str, object]) -> None:
    put("main", "a", "1")
    commit("main", "One")
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "b", "1")
    done("tag", "create", "lakefs://lake/v1", "main")
    before = state()
    assert told in done(*arguments, "--dry-run").out
    found = done(*arguments, "--dry-run", "--json").json
    assert found.items() >= (fields | {"dry_run": True}).items()
    assert state() == before
    assert (
        done(*arguments, *(() if arguments[0] in {"tag", "reset"} else ("--yes",)), "--json").json["dry_run"] is False
    )
    assert state() != before


def state() -> list[str]:
    repositories = done("repo", "list", "--json").out
    if not repositories:
        return []
    refs = [done(kind, "list", "lake", "--json").out for kind in ("branch", "tag")]
    return [repositories, *refs, *(done("ls", "-r", f"lakefs://lake/{name}/", "--json").out for name in names(refs[0]))]


def names(lines: str) -> list[str]:
    return [json.loads(line)["name"] for line in lines.splitlines()]


@pytest.mark.usefixtures("lake")
def test_a_dry_run_of_what_would_be_refused_is_refused() -> None:
    for arguments, code in (
        (("branch", "delete", "lakefs://lake/main"), 6),
        (("branch", "delete", "lakefs://lake/nope"), 3),
        (("tag", "delete", "lakefs://lake/nope"), 3),
        (("repo", "delete", "nope"), 3),
        (("reset", "lakefs://lake/main", "--hard", "nope"), 3),
        (("import", write_tree(Path("source"), {"b": "1"}), "lakefs://lake/nope/"), 3),
    ):
        assert run(*arguments, "--dry-run").code == code, arguments


@pytest.mark.usefixtures("lake")
def test_a_dry_run_of_an_import_tells_what_would_be_replaced() -> None:
    put("main", "in/a", "12")
    put("main", "other", "1")
    commit("main", "One")
    folder = write_tree(Path("source"), {"b": "1"})
    before = state()
    arguments = ("import", folder, "lakefs://lake/main/in/", "--dry-run")
    assert done(*arguments).out.splitlines() == [
        "would import 1 file, 1 B, into lakefs://lake/main/in/; nothing was changed",
        "  + 1 object would be added, 1 B",
        "  - 1 object would be removed, 2 B",
    ]
    document = done(*arguments, "--json").json
    assert (document["commit"], document["changes"]["added"], document["changes"]["removed"]) == (None, 1, 1)
    assert state() == before
