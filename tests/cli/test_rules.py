"""rules show, set, test, reports: their output, changes and refusals."""

import json
from pathlib import Path

from tests.cli.support import commit, done, put, run

RULES = """
[[rules]]
name = "quality"
branches = ["main", "release-*"]
bypass = ["ann"]

[[rules.statuses]]
name = "dbt"
posters = ["ci-*"]
paths = ["gold/"]

[[rules.statuses]]
name = "no deletes"
check = { kind = "no-deletes", prefix = "gold/" }
"""


def test_rules_are_set_shown_and_set_again(lake: Path, working_folder: Path) -> None:
    assert done("rules", "show", "lake").out == "version = 0\nrules = []\n"
    (working_folder / "rules.toml").write_text(RULES)
    assert done("rules", "set", "rules.toml", "lake").out == "1 rule, version 1\n"
    shown = done("rules", "show", "lakefs://lake").out
    document = done("rules", "show", "lake", "--json").json
    assert document["rules"][0]["statuses"][1]["check"] == {"kind": "no-deletes", "prefix": "gold/"}
    (working_folder / "again.toml").write_text(shown)
    assert done("rules", "set", "again.toml", "lake", "--json").json == document
    done("rules", "set", "-", "lake", stdin=json.dumps({"rules": []}).encode())
    refused = run("rules", "set", "again.toml", "lake")
    assert (refused.code, "have version 2" in refused.err) == (5, True), "what others changed meanwhile stays"


def test_a_file_that_has_no_rules_is_refused(lake: Path, working_folder: Path) -> None:
    for text, words in (
        ("", "missing required field `rules`"),
        ("rules = [", "rules.toml has no rules that can be read"),
        ('[[rules]]\nname = "a"\nbranchs = ["main"]', "unknown field `branchs`"),
        ('{"rules": [', "rules.toml has no rules that can be read"),
        ('[[rules]]\nname = "a"\nbranches = ["main"]\nstrategies = []', "it allows no merge strategy"),
    ):
        (working_folder / "rules.toml").write_text(text)
        refused = run("rules", "set", "rules.toml", "lake")
        assert (refused.code, words in refused.err) == (2, True), refused
    assert run("rules", "set", "nowhere.toml", "lake").code == 9


def test_a_commit_is_tried(lake: Path, working_folder: Path) -> None:
    (working_folder / "rules.toml").write_text(RULES)
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "gold/a", "1")
    commit("dev", "Gold")
    assert done("rules", "test", "lakefs://lake/dev", "--branch", "main").out == "no rule matches\n"
    tried = run("rules", "test", "lakefs://lake/dev", "--branch", "main", "--rules", "rules.toml")
    assert tried.code == 5
    assert "quality: status 'dbt' is missing; ci-* may post it\n" in tried.out
    done(
        "rules",
        "set",
        "-",
        "lake",
        stdin=RULES.replace('name = "quality"', 'name = "quality"\nobserve = true').encode(),
    )
    observed = done("rules", "test", "lakefs://lake/dev", "--branch", "main", "--json").json
    assert (observed["rules"], observed["lacks"], len(observed["observed"])) == (["quality"], [], 2)
    assert "would report: quality: status 'dbt'" in done("rules", "test", "lakefs://lake/dev", "--branch", "main").out
    assert done("rules", "test", "lakefs://lake/dev", "--tag", "v1").out == "no rule matches\n"
    for wrong in ([], ["--branch", "main", "--tag", "v1"]):
        assert run("rules", "test", "lakefs://lake/dev", *wrong).code == 2


def test_rules_of_the_lake(lake: Path, working_folder: Path) -> None:
    (working_folder / "rules.toml").write_text(RULES.replace("bypass", 'repositories = ["la*"]\nbypass'))
    assert done("rules", "set", "--of-lake", "rules.toml").out == "1 rule, version 1\n"
    assert 'repositories = ["la*"]' in done("rules", "show", "--of-lake").out
    assert '# name = "quality"\n' in done("rules", "show", "lake").out
    assert run("rules", "show", "--of-lake", "lake").code == 2
    done("rules", "set", "--of-lake", "-", stdin=b"rules = []")
    assert "quality" not in done("rules", "show", "lake").out
    assert done("rules", "reports", "lake").out == ""
