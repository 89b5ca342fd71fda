"""check run: a definition on any commit, its base, what it prints, and its exit code."""

import json
from pathlib import Path

import pytest

from tests.cli.support import commit, done, put, run
from tests.support.shell import Shell


def test_a_definition_on_a_branch_and_a_commit(lake: Path) -> None:
    put("main", "t/a", "1")
    put("main", "t/b", "2")
    first = commit("main", "two")
    done("rm", "lakefs://lake/main/t/a")
    commit("main", "one less")
    Path("kept.json").write_text(json.dumps({"kind": "no-deletes", "prefix": "t/"}))
    result = run("check", "run", "lakefs://lake/main", "--definition", "kept.json")
    assert result.code == 5
    assert result.out.startswith("failure  kept  ")
    assert result.out.endswith("         1 object would be removed: 't/a'\n")
    assert done("check", "run", f"lakefs://lake/{first}", "--definition", "kept.json").out.startswith("success  kept")
    against = run("check", "run", "lakefs://lake/main", "--base", "main", "--definition", "kept.json", "--json")
    assert against.code == 0
    [line] = against.lines
    assert (line["name"], line["state"], line["base"]) == ("kept", "success", line["commit"])
    other = run("check", "run", f"lakefs://lake/{first}", "--branch", "new", "--definition", "kept.json", "--json")
    assert other.lines[0]["base"] is None


def test_a_definition_from_stdin(lake: Path) -> None:
    result = run(
        "check",
        "run",
        "lakefs://lake/main",
        "--definition",
        "-",
        stdin=b'{"kind": "metadata", "keys": {"ticket": "*"}}',
    )
    assert result.code == 5
    assert "metadata 'ticket' is missing" in result.out


def test_definitions_that_cannot_be(lake: Path) -> None:
    for text, words in (
        ("[]", "is no JSON object"),
        ("{", "is no JSON"),
        ('{"kind": "magic"}', "a check has the kind 'magic'"),
    ):
        Path("check.json").write_text(text)
        result = run("check", "run", "lakefs://lake/main", "--definition", "check.json")
        assert result.code == 2
        assert words in result.err
    nothing = run("check", "run", "lakefs://lake/main")
    assert nothing.code == 2
    assert "have no checks that graveler runs" in nothing.err


@pytest.mark.parametrize("document", ['{"commands": {"dbt": []}}', '{"comands": {}}', "/nowhere/checks.toml"])
def test_a_server_does_not_start_with_settings_of_checks_that_are_wrong(
    lake: Path, shell: Shell, document: str
) -> None:
    shell.export("GRAVELER_CHECKS", document)
    refused = run("serve", "--port", 0)
    assert (refused.code, refused.out) == (9, "")
    assert "GRAVELER_CHECKS" in refused.err
