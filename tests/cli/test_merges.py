"""merge's dry run, squash and strategies by prefix; revert; cherry-pick."""

from pathlib import Path
from typing import Any

import pytest

from graveler.cli.failures import WHAT_DECIDES
from tests.cli.support import commit, done, make_conflict, put, run


def cat(branch: str, path: str) -> str:
    return done("cat", f"lakefs://lake/{branch}/{path}").out


def head(branch: str = "main") -> Any:
    return done("log", f"lakefs://lake/{branch}", "-n", "1", "--json").json


def test_a_dry_run_tells_what_a_merge_would_bring(lake: Path) -> None:
    put("main", "a", "1")
    put("main", "b", "22")
    base = commit("main", "Base")
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "a", "4444")
    done("rm", "lakefs://lake/dev/b")
    put("dev", "c/d", "333")
    commit("dev", "On dev")
    assert done("merge", "lakefs://lake/dev", "main", "--dry-run").out.splitlines() == [
        f"merging dev into main (base {base[:12]}) would bring:",
        "  + 1 added, 3 B",
        "  - 1 removed, 2 B",
        "  ~ 1 changed, 1 B before and 4 B after",
        "nothing was changed",
    ]
    assert done("merge", "lakefs://lake/dev", "main", "--dry-run", "--json").json == {
        "base": base,
        "totals": {
            "added": 1,
            "added_bytes": 3,
            "removed": 1,
            "removed_bytes": 2,
            "changed": 1,
            "changed_bytes_before": 1,
            "changed_bytes_after": 4,
        },
        "conflicts": [],
        "tables": [],
    }
    assert head()["id"] == base
    assert "  no changes\n" in done("merge", "lakefs://lake/main", "dev", "--dry-run").out
    assert run("merge", "lakefs://lake/nowhere", "main", "--dry-run").code == 3


def test_a_dry_run_lists_all_conflicts(lake: Path) -> None:
    make_conflict()
    before = head()
    result = run("merge", "lakefs://lake/dev", "main", "--dry-run")
    assert (result.code, result.err) == (4, "")
    refused = run("merge", "lakefs://lake/dev", "main")
    assert result.out.splitlines()[1:] == [
        "  no changes",
        "and 2 conflicts:",
        *refused.err.splitlines()[1:],
        f"nothing was changed. {WHAT_DECIDES}",
    ]
    document = run("merge", "lakefs://lake/dev", "main", "--dry-run", "--json")
    assert (document.code, [c["path"] for c in document.json["conflicts"]]) == (4, ["a.txt", "b.txt"])
    assert document.json["conflicts"] == run("merge", "lakefs://lake/dev", "main", "--json").json["conflicts"]
    decided = done("merge", "lakefs://lake/dev", "main", "--dry-run", "--strategy", "source-wins", "--json").json
    assert (decided["conflicts"], decided["totals"]["changed"], decided["totals"]["removed"]) == ([], 1, 1)
    assert head() == before


def test_strategies_by_prefix(lake: Path) -> None:
    make_conflict()
    some = run("merge", "lakefs://lake/dev", "main", "--strategy-for", "a=source-wins", "--json")
    assert (some.code, [c["path"] for c in some.json["conflicts"]]) == (4, ["b.txt"])
    done("merge", "lakefs://lake/dev", "main", "--strategy-for", "a=source-wins", "--strategy-for", "b=dest-wins")
    assert (cat("main", "a.txt"), cat("main", "b.txt")) == ("dev's", "main's")


def test_a_prefix_overrules_the_strategy_for_all(lake: Path) -> None:
    make_conflict()
    done("merge", "lakefs://lake/dev", "main", "--strategy", "source-wins", "--strategy-for", "b.=dest-wins")
    assert (cat("main", "a.txt"), cat("main", "b.txt")) == ("dev's", "main's")


@pytest.mark.parametrize("text", ["a", "a=", "=source-wins", "a=mine", "source-wins"])
def test_a_strategy_by_prefix_that_makes_no_sense(lake: Path, text: str) -> None:
    result = run("merge", "lakefs://lake/main", "main", "--strategy-for", text)
    assert (result.code, "not of the form PREFIX=source-wins" in result.err) == (2, True)


def test_a_prefix_is_given_once_and_may_hold_an_equals_sign(lake: Path) -> None:
    make_conflict()
    twice = ("--strategy-for", "a=source-wins", "--strategy-for", "a=dest-wins")
    assert "'a' twice" in run("merge", "lakefs://lake/dev", "main", *twice).err
    arguments = ("--strategy-for", "day=1/=dest-wins", "--strategy", "dest-wins")
    assert done("merge", "lakefs://lake/dev", "main", *arguments).out.startswith("merged dev into main: ")


def test_a_merge_beside_uncommitted_changes(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "a", "1")
    commit("dev", "On dev")
    put("main", "b", "2")
    merge = "merge", "lakefs://lake/dev", "main"
    refused = run(*merge)
    assert (refused.code, "uncommitted changes" in refused.err) == (5, True)
    done(*merge, "--beside-uncommitted")
    assert cat("main", "a") == "1"
    assert done("status", "lakefs://lake/main", "--json").json["path"] == "b"
    put("dev", "b", "3")
    commit("dev", "The same object")
    both = run(*merge, "--beside-uncommitted")
    assert (both.code, "'b'" in both.err) == (5, True)


def test_a_merge_of_an_expected_commit(lake: Path) -> None:
    put("main", "a", "1")
    onto = commit("main", "Base")
    done("branch", "create", "lakefs://lake/audit")
    put("audit", "b", "1")
    checked = commit("audit", "Checked")
    put("audit", "b", "2")
    later = commit("audit", "Later")
    merge = "merge", "lakefs://lake/audit", "main"
    for more in ((), ("--dry-run",)):
        moved = run(*merge, "--expect-head", checked[:12], *more)
        assert (moved.code, moved.out) == (5, "")
        assert moved.err == (
            f"error: 'audit' is at commit {later[:16]} now, but the merge expected commit {checked[:16]}; nothing was changed. "
            "Check the commit that is there now before you merge. `graveler log lakefs://lake/audit` shows what came since\n"
        )
        other = run(*merge, "--expect-head", later, "--expect-destination", checked, *more)
        assert (other.code, f"'main' is at commit {onto[:16]} now" in other.err) == (5, True)
    for no_commit in ("audit", "main~1", "", "abc"):
        refused = run(*merge, "--expect-head", no_commit)
        assert (
            refused.code,
            f"the ID of a commit, or its first digits, as `graveler log` shows it, not {no_commit!r}" in refused.err,
        ) == (2, True)
    assert run(*merge, "--expect-head", "0000").code == 3
    done("branch", "create", f"lakefs://lake/{later[:9]}", "--source", "main")
    assert run(*merge, "--expect-head", later[:9]).code == 2, "a branch has this name"
    assert done(*merge, "--expect-head", later[:10], "--dry-run").out.startswith("merging audit into main")
    done(*merge, "--expect-head", later[:10], "--expect-destination", onto)
    assert head()["parents"] == [onto, later]


def test_squash_and_empty_merges(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "x", "1")
    commit("dev", "X")
    before = head()["id"]
    made = done("merge", "lakefs://lake/dev", "main", "--squash", "--json").json["commit"]
    assert (made["parents"], cat("main", "x")) == ([before], "1")
    put("dev", "y", "1")
    commit("dev", "Y")
    assert done("merge", "lakefs://lake/dev", "main", "--squash", "-m", "S").out.startswith("squashed dev into main: ")
    done("branch", "create", "lakefs://lake/same")
    assert run("merge", "lakefs://lake/same", "main").code == 5
    assert done("merge", "lakefs://lake/same", "main", "--allow-empty").out.startswith("merged same into main: ")


def test_revert(lake: Path) -> None:
    put("main", "a", "1")
    commit("main", "One")
    put("main", "a", "2")
    bad = commit("main", "Two")
    put("main", "b", "1")
    commit("main", "Three")
    out = done("revert", "lakefs://lake/main~1", "main").out
    assert out.startswith("reverted main~1 on main: ")
    assert out.endswith(" Revert main~1\n")
    assert (cat("main", "a"), cat("main", "b")) == ("1", "1")
    again = run("revert", f"lakefs://lake/{bad}", "main")
    assert (again.code, "nothing to revert" in again.err) == (5, True)
    document = done(
        "revert", f"lakefs://lake/{bad}", "main", "--allow-empty", "-m", "M", "--meta", "k=v", "--json"
    ).json
    assert set(document) == {"commit", "conflicts"}
    assert [document["commit"][name] for name in ("message", "metadata", "committer")] == ["M", {"k": "v"}, "tester"]


def test_revert_lists_conflicts_and_changes_nothing(lake: Path) -> None:
    put("main", "a", "1")
    commit("main", "One")
    put("main", "a", "22")
    commit("main", "Two")
    put("main", "a", "333")
    before = commit("main", "Three")
    result = run("revert", "lakefs://lake/main~1", "lakefs://lake/main")
    assert (result.code, result.out) == (4, "")
    first, *rest = result.err.splitlines()
    assert first.startswith("error: reverting 'main~1' on 'main': 1 conflict, because")
    assert first.endswith(f"; nothing was changed. {WHAT_DECIDES}")
    assert rest[0] == "  a"
    assert rest[1].startswith("      before main~1 (source)  changed: 1 bytes, ")
    assert rest[2].startswith("      main (destination)      changed: 3 bytes, ")
    document = run("revert", "lakefs://lake/main~1", "main", "--json")
    assert (document.code, document.json["commit"]) == (4, None)
    assert [c["path"] for c in document.json["conflicts"]] == ["a"]
    assert head()["id"] == before
    done("revert", "lakefs://lake/main~1", "main", "--strategy-for", "a=source-wins")
    assert cat("main", "a") == "1"
    done("cherry-pick", f"lakefs://lake/{before}", "main", "--strategy", "dest-wins", "--allow-empty")
    assert cat("main", "a") == "1"


def test_cherry_pick(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "a", "1")
    done("commit", "lakefs://lake/dev", "-m", "Add a", "--meta", "k=v")
    put("dev", "b", "1")
    commit("dev", "Add b")
    picked = done("cherry-pick", "lakefs://lake/dev~1", "main", "--json").json["commit"]
    assert (picked["message"], picked["metadata"]["k"]) == ("Add a", "v")
    assert done("ls", "lakefs://lake/main/").out.split()[-1] == "a"
    assert done("cherry-pick", "lakefs://lake/dev", "main", "-m", "B").out.startswith("picked dev onto main: ")
    assert run("cherry-pick", "lakefs://lake/dev", "main").code == 5
    assert done("cherry-pick", "lakefs://lake/dev", "main", "--allow-empty").out.endswith(" Add b\n")


def test_cherry_pick_lists_conflicts(lake: Path) -> None:
    make_conflict()
    result = run("cherry-pick", "lakefs://lake/dev", "main")
    assert (result.code, result.out) == (4, "")
    assert result.err.startswith("error: picking 'dev' onto 'main': 2 conflicts, because")
    assert [line.strip() for line in result.err.splitlines() if line.startswith("  ") and line[2] != " "] == [
        "a.txt",
        "b.txt",
    ]


@pytest.mark.parametrize("verb", ["revert", "cherry-pick"])
def test_of_a_merge_the_parent_is_named(lake: Path, verb: str) -> None:
    make_conflict()
    done("merge", "lakefs://lake/dev", "main", "--strategy", "source-wins")
    refused = run(verb, "lakefs://lake/main", "main")
    assert (refused.code, "choose the parent to compare with" in refused.err) == (2, True)
    assert run(verb, "lakefs://lake/main", "main", "--parent", "3").code == 2
    assert run(verb, "lakefs://lake/main", "main", "--parent", "0").code == 2
    done("branch", "create", "lakefs://lake/other", "--source", "dev" if verb == "revert" else "main~1")
    branch = "main" if verb == "revert" else "other"
    done(verb, "lakefs://lake/main", branch, "--parent", "1")
    assert cat(branch, "a.txt") == ("main's own" if verb == "revert" else "dev's")


@pytest.mark.parametrize("verb", ["revert", "cherry-pick"])
def test_replaying_is_refused(lake: Path, verb: str) -> None:
    assert run(verb, "lakefs://lake/main", "nowhere").code == 3
    assert run(verb, "lakefs://lake/nowhere", "main").code == 3
    assert run(verb, "lakefs://lake/main").code == 2
    assert run(verb, "lakefs://lake/main~1", "v1.0").err.startswith("error: 'v1.0' is not a valid branch name: ")
    commit_id = head()["id"][:12]
    for wrong in ("main~1", commit_id):
        swapped = run(verb, "lakefs://lake/main", wrong)
        assert (swapped.code, swapped.out) == (2, "")
        assert swapped.err == (
            f"error: {wrong!r} is not a branch; the commit comes first, then the branch: "
            f"`graveler {verb} lakefs://lake/{wrong} main`\n"
        )
    assert run(verb, "lakefs://lake/main", "lakefs://other/main").code == 2
    put("main", "a", "1")
    commit("main", "One")
    put("main", "b", "1")
    dirty = run(verb, "lakefs://lake/main", "main")
    assert (dirty.code, "uncommitted changes" in dirty.err) == (5, True)


def test_a_prefix_that_is_not_utf_8_is_refused(lake: Path) -> None:
    result = run("merge", "lakefs://lake/main", "main", "--strategy-for", "\udcff=source-wins")
    assert (result.code, "cannot be written as UTF-8" in result.err) == (2, True)
