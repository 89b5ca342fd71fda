"""`graveler pr`: a pull request from its creation to its merge."""

from pathlib import Path

import pytest

from tests.cli.support import commit, done, make_conflict, put, run
from tests.support.shell import Shell

SEVEN = "lakefs://lake/1"


@pytest.fixture
def proposed(lake: Path, shell: Shell) -> str:
    """Ann proposes bob's commit; returns the commit."""
    put("main", "a", "1")
    commit("main", "Base")
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "b", "2")
    shell.export("GRAVELER_USER", "bob")
    head = commit("dev", "On dev")
    shell.export("GRAVELER_USER", "ann")
    done("pr", "create", "lakefs://lake/dev", "main", "--description", "why\nnot", "--reviewer", "cyd", "--draft")
    return head


def test_it_is_shown_discussed_approved_and_merged(proposed: str, shell: Shell) -> None:
    assert done("pr", "list", "lake").out == "1  On dev  dev into main  (draft)\n"
    assert done("pr", "diff", SEVEN).out.splitlines()[0].split() == ["+", "b"]
    assert (run("pr", "merge", SEVEN).code, run("pr", "approve", SEVEN).code) == (5, 6)
    assert done("pr", "ready", SEVEN).out == "1  On dev is ready\n"
    shell.export("GRAVELER_USER", "cyd")
    done("pr", "comment", SEVEN, "Where is a\nlake?")
    assert run("pr", "approve", SEVEN, "--commit", "main").code == 4, "that is not what it brings"
    assert done("pr", "approve", SEVEN).out == f"approved 1  On dev at {proposed[:12]}\n"
    shown = done("pr", "show", SEVEN).out
    for line in ("1, open", "dev into main", f"commit {proposed[:12]}", "not", "Where is a", "lake?"):
        assert line in shown, line
    assert done("pr", "approve", SEVEN, "--withdraw", "--json").json["approvals"] == []
    merged = done("pr", "merge", SEVEN, "--expect-head", proposed[:12], "--squash", "-m", "June", "--json").json
    head = done("log", "lakefs://lake/main", "-n", "1", "--json").json
    assert (merged["status"], merged["merged_commit_id"], merged["closed_by"]) == ("merged", head["id"], "cyd")
    assert (head["message"], len(head["parents"])) == ("June", 1)
    assert done("pr", "merge", SEVEN).out == f"merged 1  On dev as {head['id'][:12]}\n"
    assert done("pr", "diff", SEVEN).out.splitlines()[0].split() == ["+", "b"]
    assert done("pr", "list", "lake").out == ""
    assert done("pr", "list", "lake", "--status", "merged").out == "1  On dev  dev into main  (merged)\n"


def test_what_it_lacked_is_shown_and_that_it_waits(proposed: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [{"name": "reviewed", "branches": ["main"], "approvals": [{"number": 1}]}]}')
    done("rules", "set", str(rules), "lake")
    done("pr", "ready", SEVEN)
    done("pr", "merge", SEVEN, "--when-ready")
    shown = done("pr", "show", SEVEN).out
    assert "to be merged when the rules are fulfilled" in shown
    assert "lacked: reviewed: it has 0 of 1 approval; ask for more" in shown


def test_a_branch_that_does_not_exist_is_not_proposed(lake: Path) -> None:
    refused = run("pr", "create", "lakefs://lake/nope", "main")
    assert refused.code == 3
    assert "'nope'" in refused.err
    assert "@" not in refused.err


def test_it_is_closed_and_opened_again(proposed: str) -> None:
    assert done("pr", "close", SEVEN).out == "closed pull request 1  On dev\n"
    assert run("pr", "merge", SEVEN).code == 4
    assert done("pr", "reopen", SEVEN, "--json").json["status"] == "open"
    done("branch", "delete", "lakefs://lake/dev")
    shown = done("pr", "show", SEVEN, "--json").json
    assert (shown["status"], shown["comments"]) == ("closed", [])
    assert "was deleted or renamed" in done("pr", "show", SEVEN).out


def test_conflicts_are_listed_and_wrong_numbers_refused(lake: Path) -> None:
    make_conflict()
    done("pr", "create", "lakefs://lake/dev", "main", "-t", "Both")
    result = run("pr", "merge", SEVEN)
    assert result.code == 4
    assert "conflict" in result.err
    assert done("pr", "merge", SEVEN, "--strategy", "source-wins", "--json").json["strategy"] == "source-wins"
    assert run("pr", "show", "lakefs://lake/dev").err == (
        "error: 'dev' is not the number of a pull request; `graveler pr list lake` lists them\n"
    )
    assert run("pr", "show", "lakefs://lake/2").code == 3
    assert run("pr", "list", "lake", "--status", "none").code == 2
