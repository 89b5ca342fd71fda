"""candidate list, show, diff, publish, withdraw: their output, changes and refusals."""

import json
from pathlib import Path

import pytest

from tests.cli.support import commit, done, put, run

RULES = '[[rules]]\nname = "tested"\nbranches = ["main"]\n\n[[rules.statuses]]\nname = "dbt"\nposters = ["tester"]\n'


@pytest.fixture
def candidate(lake: Path) -> str:
    """The ID of the commit of a merge that waits for its status."""
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "a", "1")
    commit("dev", "Change")
    done("rules", "set", "-", "lake", stdin=RULES.encode())
    refused = run("merge", "lakefs://lake/dev", "main", "-m", "Bring it", "--json")
    assert refused.code == 5
    error = json.loads(refused.err)["error"]
    assert error["code"] == "rule_not_fulfilled"
    assert [lack["name"] for lack in error["fields"]["lacks"]] == ["dbt"]
    return str(error["fields"]["candidate"])


def test_a_candidate_is_listed_shown_and_published(candidate: str) -> None:
    (listed,) = done("candidate", "list", "lake", "--json").lines
    assert (listed["commit_id"], listed["state"]) == (candidate, "open")
    line = done("candidate", "list", "lake").out
    assert listed["id"] in line
    assert line.endswith("open       main  tester  Bring it\n")
    shown = done("candidate", "show", f"lakefs://lake/{listed['id']}").out
    assert "lacks: tested: status 'dbt' is missing; tester may post it\n" in shown
    assert done("candidate", "show", f"lakefs://lake/{candidate}", "--json").json["lacks"][0]["name"] == "dbt"
    assert done("candidate", "diff", f"lakefs://lake/{candidate}").out == "+ a\n1 added\n"
    assert done("ls", f"lakefs://lake/{candidate}/").out == "a\n"
    refused = run("candidate", "publish", f"lakefs://lake/{candidate}")
    assert (refused.code, "'dbt' is missing" in refused.err) == (5, True)
    done("status", "post", f"lakefs://lake/{candidate}", "dbt", "success")
    published = done("candidate", "publish", f"lakefs://lake/{candidate}").out
    assert published == f"published: {candidate[:12]} Bring it\n"
    assert done("ls", "lakefs://lake/main/").out == "a\n"
    assert done("candidate", "list", "lake").out == ""
    assert "published" in done("candidate", "list", "lake", "--all").out


def test_a_candidate_is_withdrawn(candidate: str) -> None:
    assert done("candidate", "withdraw", f"lakefs://lake/{candidate}").out == f"withdrew candidate {candidate[:12]}\n"
    assert done("candidate", "show", f"lakefs://lake/{candidate}", "--json").json["candidate"]["state"] == "withdrawn"
    refused = run("candidate", "publish", f"lakefs://lake/{candidate}")
    assert (refused.code, "is withdrawn, which is final" in refused.err) == (4, True)
    for words in ("show", "publish", "withdraw", "diff"):
        assert run("candidate", words, "lakefs://lake/main").code == 2
        assert run("candidate", words, f"lakefs://lake/{'0' * 32}").code == 3


def test_a_bypass_is_for_those_whom_the_rule_names(candidate: str) -> None:
    refused = run("candidate", "publish", f"lakefs://lake/{candidate}", "--bypass", "the pipeline is down")
    assert (refused.code, "may not bypass it; nobody may" in refused.err) == (5, True)
    named = RULES.replace('branches = ["main"]', 'branches = ["main"]\nbypass = ["tester"]')
    done("rules", "set", "-", "lake", stdin=named.encode())
    done("merge", "lakefs://lake/dev", "main", "--bypass", "the pipeline is down")
    log = done("reflog", "lakefs://lake/main").out
    assert "the pipeline is down" in log
