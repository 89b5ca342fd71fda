"""Errors and warnings of commands with ``--json``: one JSON object on each line of stderr."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graveler.access.refusals import NotPermittedError
from graveler.cli.terminal import Screen
from tests.cli.conftest import FailToOpen
from tests.cli.support import Result, make_conflict, put, run, write_tree
from tests.cli.test_every_command import COMMANDS
from tests.support.shell import Shell

each = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def error_of(result: Result) -> dict[str, Any]:
    """The only line of stderr, of a command that failed and printed nothing else."""
    assert result.out == ""
    (line,) = result.err.splitlines()
    document = json.loads(line)
    assert list(document) == ["error"]
    error: dict[str, Any] = document["error"]
    assert error["exit_code"] == result.code
    return error


@each
def test_wrong_use_of_every_command_is_one_json_line(words: tuple[str, ...]) -> None:
    error = error_of(run(*words, "--json", "--no-such-option"))
    command = f"graveler {' '.join(words)}"
    assert (error["code"], error["exit_code"]) == ("usage", 2)
    assert error["fields"] == {"command": command}
    assert error["hint"] == f"see `{command} --help`"
    assert "No such option" in error["message"]


@pytest.mark.parametrize(
    "arguments", [("nonsense", "--json"), ("--json", "repo", "list"), ("branch", "create", "--json"), ("--json",)]
)
def test_a_line_that_no_command_understands_gets_json_too(arguments: tuple[str, ...]) -> None:
    error = error_of(run(*arguments))
    assert (error["code"], error["exit_code"]) == ("usage", 2)


@pytest.mark.usefixtures("lake")
def test_an_error_of_the_lake_has_code_and_fields_and_its_hint_apart() -> None:
    put("main", "a", "1")
    error = error_of(run("stat", "lakefs://lake/man/a", "--json"))
    assert error == {
        "code": "ref_not_found",
        "message": "ref 'man' not found: no branch, tag or commit has this name",
        "fields": {"ref": "man", "kind": ""},
        "hint": (
            "Did you mean 'main'? `graveler branch list lakefs://lake` and `graveler tag list lakefs://lake` list what there is"
        ),
        "exit_code": 3,
    }
    error = error_of(run("ls", "lakefs://lake/main/nothing/", "--json"))
    assert (error["code"], error["fields"]) == ("object_not_found", {"path": "nothing/", "ref": "main"})
    words = run("ls", "lakefs://lake/main/nothing/").err
    assert words.startswith(f"error: {error['message']}")


def test_no_lake_is_an_error_in_json() -> None:
    error = error_of(run("repo", "list", "--json"))
    assert (error["code"], error["fields"], error["exit_code"]) == ("not_found", {}, 3)


@pytest.mark.usefixtures("lake")
def test_conflicts_of_a_merge_are_its_document_and_their_number_the_error() -> None:
    make_conflict()
    result = run("merge", "lakefs://lake/dev", "lakefs://lake/main", "--json")
    assert [conflict["path"] for conflict in result.json["conflicts"]] == ["a.txt", "b.txt"]
    error = json.loads(result.err)["error"]
    assert (error["code"], error["exit_code"], result.code) == ("merge_conflict", 4, 4)
    assert error["fields"] == {"source": "dev", "destination": "main", "count": 2, "tables": []}
    assert "--strategy" in error["hint"]


@pytest.mark.usefixtures("lake")
def test_what_an_error_lists_is_items_and_output_before_it_stays() -> None:
    put("main", "folder", "1")
    put("main", "folder/a", "1")
    result = run("get", "-r", "lakefs://lake/main/", "copy", "--json")
    error = json.loads(result.err)["error"]
    assert (result.code, error["exit_code"]) == (2, 2)
    assert [item.partition("  ")[0] for item in error["items"]] == ["folder"]
    assert result.out.count("\n") == len(result.lines)


def test_a_refusal_by_the_system_names_the_file(fail_to_open: FailToOpen) -> None:
    fail_to_open(PermissionError(13, "Permission denied", "/closed/x"))
    error = error_of(run("repo", "list", "--json"))
    assert (error["code"], error["exit_code"], error["fields"]) == ("unavailable", 9, {"file": "/closed/x"})
    assert error["message"] == "the system refused '/closed/x': Permission denied"


def test_a_bug_is_code_unexpected_with_its_traceback_on_request(fail_to_open: FailToOpen, shell: Shell) -> None:
    fail_to_open(RuntimeError("boom"))
    error = error_of(run("repo", "list", "--json"))
    assert (error["code"], error["exit_code"], error["fields"]) == ("unexpected", 1, {})
    assert "RuntimeError: boom" in error["message"]
    shell.export("GRAVELER_DEBUG", "1")
    assert "Traceback (most recent call last)" in error_of(run("repo", "list", "--json"))["traceback"]


def test_a_refusal_by_role_has_the_fields_of_its_code(fail_to_open: FailToOpen) -> None:
    fail_to_open(NotPermittedError("no", key_id="AKIA", role="reader", permission="write", repository="lake"))
    error = error_of(run("repo", "list", "--json"))
    assert (error["code"], error["exit_code"]) == ("not_permitted", 6)
    assert error["fields"] == {
        "key_id": "AKIA", "role": "reader", "permission": "write", "repository": "lake", "branch": "",
    }  # fmt: skip


def test_ctrl_c_is_json_that_says_what_holds(fail_to_open: FailToOpen) -> None:
    fail_to_open(KeyboardInterrupt())
    error = error_of(run("repo", "list", "--json"))
    assert (error["code"], error["exit_code"], error["fields"]) == ("interrupted", 130, {})
    assert error["message"].startswith("interrupted; ")


def test_warnings_are_json_lines_of_their_own(lake: Path) -> None:
    source = write_tree(Path("source"), {"a": "1"})
    result = run("import", source, "lakefs://lake/main/in/", "--json")
    assert result.code == 0
    assert list(result.json)  # one document
    assert [list(json.loads(line)) for line in result.err.splitlines()] == [["warning"]]
    assert json.loads(result.err)["warning"]["message"] in run("import", source, "lakefs://lake/main/in/").err


def test_json_behind_two_dashes_is_an_argument(lake: Path) -> None:
    result = run("stat", "--", "--json")
    assert result.err.startswith("error: ")


def test_the_option_counts_for_its_own_command_only(lake: Path) -> None:
    assert error_of(run("stat", "lakefs://lake/nope/a", "--json"))["code"] == "ref_not_found"
    assert run("stat", "lakefs://lake/nope/a").err.startswith("error: ")


def test_output_that_cannot_be_written_is_json_too(lake: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done_there = subprocess.run(
            [sys.executable, "-m", "graveler.cli", "repo", "list", "--json"],
            stdout=full, stderr=subprocess.PIPE, env={**os.environ, "GRAVELER_LAKE": str(lake)}, check=False,
        )  # fmt: skip
    error = json.loads(done_there.stderr)["error"]
    assert (done_there.returncode, error["code"], error["exit_code"]) == (9, "unavailable", 9)
    assert "No space left on device" in error["message"]


def test_json_is_ascii_where_the_stream_is_not_utf_8(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="latin-1") as stream:
        Screen(stream).json({"path": "é – 日本"})
    assert json.loads((tmp_path / "out").read_bytes()) == {"path": "é – 日本"}
