"""`graveler status`: a branch's uncommitted changes, and the statuses of commits."""

from pathlib import Path

from tests.cli.support import commit, done, put, run

MAIN = "lakefs://lake/main"


def test_a_status_from_its_post_to_its_list(lake: Path) -> None:
    put("main", "a", "1")
    commit("main", "One")
    posted = done("status", "post", MAIN, "gx/%+", "failure", "--description", "2 of 41\nfail", "--json").json
    assert (posted["name"], posted["state"], posted["of"], posted["expires"]) == ("gx/%+", "failure", "tree", None)
    assert posted["by"] == posted["principal"] != ""
    brief = done("status", "post", MAIN, "fresh", "success", "--expires", "7d", "--of-commit", "--json").json
    assert (brief["expires"] - brief["created"], brief["of"], len(brief["commit_id"])) == (7 * 86_400, "commit", 64)
    assert done("status", "list", MAIN, "--json").lines == [posted, brief]
    failure, success = done("status", "list", MAIN).out.splitlines()
    assert failure.startswith("failure  gx/%+  2 of 41 fail  by ")
    assert success.startswith("success  fresh    by ")
    assert "until " in success
    assert done("status", "list", f"{MAIN}~1").out == "no statuses\n"


def test_other_words_are_those_of_uncommitted_changes(lake: Path) -> None:
    put("main", "a", "1")
    assert done("status", MAIN).out == done("status", "show", MAIN).out
    assert "+ a" in done("status", MAIN).out


def test_what_is_no_status_is_refused(lake: Path) -> None:
    for words in (
        ("succes",),
        ("success", "--expires", "7"),
        ("success", "--expires", "1 hour ago"),
        ("success", "--url", "x"),
    ):
        refused = run("status", "post", MAIN, "dbt", *words)
        assert (refused.code, refused.out) == (2, ""), refused
    assert run("status", "post", "lakefs://lake/none", "dbt", "success").code == 3
    assert done("status", "list", MAIN).out == "no statuses\n"
