"""init, repo, branch, tag: their effects, JSON and errors."""

from pathlib import Path

import pytest

from tests.cli.support import commit, done, put, run
from tests.support.shell import Shell

HEX = 64


def test_init_makes_a_lake_that_is_found_from_below(working_folder: Path, shell: Shell) -> None:
    assert done("init").out == f"created an empty lake in {working_folder / '.graveler'}\n"
    below = working_folder / "a" / "b"
    below.mkdir(parents=True)
    shell.cd(below)
    assert done("repo", "list").out == ""
    again = run("--lake", working_folder / ".graveler", "init")
    assert (again.code, "already exists" in again.err) == (4, True)


def test_init_takes_a_folder(working_folder: Path) -> None:
    assert done("init", "deep/lake", "--json").json == {"lake": str(working_folder / "deep/lake")}
    assert (working_folder / "deep/lake/graveler.json").is_file()


def test_a_repository_from_its_creation_to_its_end(lake: Path) -> None:
    made = done("repo", "create", "lakefs://other", "--default-branch", "trunk", "--json").json
    assert made == {
        "name": "other",
        "namespace": "local://other",
        "default_branch": "trunk",
        "created": made["created"],
        "uid": made["uid"],
        "format_version": 1,
        "read_only": False,
        "protected": [],
        "metadata": {},
    }
    assert [line["name"] for line in done("repo", "list", "--json").lines] == ["lake", "other"]
    assert [line["name"] for line in done("repo", "list", "--prefix", "o", "--json").lines] == ["other"]
    assert done("repo", "show", "other", "--json").json == made
    shown = done("repo", "show", "lakefs://other").out
    assert "default branch:  trunk" in shown
    assert str(lake) in shown
    assert run("repo", "create", "other").code == 4
    refused = run("repo", "delete", "other")
    assert (refused.code, "needs --yes" in refused.err) == (5, True)
    assert done("repo", "delete", "other", "--yes", "--json").json == {
        "deleted": "other",
        "dry_run": False,
        "purge": "other",
    }
    assert run("repo", "show", "other").code == 3


def test_a_repository_elsewhere(lake: Path, tmp_path: Path) -> None:
    done("repo", "create", "elsewhere", "--namespace", f"file://{tmp_path}/data")
    done("put", "-", "lakefs://elsewhere/main/x", stdin=b"1")
    assert done("stat", "lakefs://elsewhere/main/x", "--json").json["address"].startswith(f"file://{tmp_path}/data/")
    taken = run("repo", "create", "another", "--namespace", f"file://{tmp_path}/data")
    assert (taken.code, "choose another one" in taken.err) == (2, True)


def test_branches(lake: Path) -> None:
    put("main", "x", "1")
    first = commit("main", "One")
    made = done("branch", "create", "lakefs://lake/dev", "--json").json
    assert made == {"name": "dev", "commit_id": first, "hidden": False}
    older = done("branch", "create", "lakefs://lake/old", "--source", "lakefs://lake/main~1", "--json").json
    assert older["commit_id"] != first
    assert [line["name"] for line in done("branch", "list", "lake", "--json").lines] == ["dev", "main", "old"]
    assert done("branch", "list", "lakefs://lake", "--prefix", "m").out == f"{first[:12]}  main  (default)\n"
    assert run("branch", "create", "lakefs://lake/dev").code == 4
    assert run("branch", "create", "lakefs://lake/x", "--source", "nowhere").code == 3
    assert run("branch", "create", "lakefs://lake/x/y").code == 2
    assert done("branch", "delete", "lakefs://lake/old").out.startswith("deleted branch old, which was at ")
    assert run("branch", "delete", "lakefs://lake/old").code == 3


def test_the_default_branch_cannot_be_deleted(lake: Path) -> None:
    put("main", "x", "1")
    for arguments in ((), ("--yes",)):
        refused = run("branch", "delete", "lakefs://lake/main", *arguments)
        assert (refused.code, "default branch" in refused.err) == (6, True)


def test_a_branch_with_uncommitted_changes_is_deleted_only_on_purpose(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "x", "1")
    refused = run("branch", "delete", "lakefs://lake/dev")
    assert (refused.code, "use --yes" in refused.err) == (5, True)
    assert done("cat", "lakefs://lake/dev/x").out == "1"
    deleted = done("branch", "delete", "lakefs://lake/dev", "--yes", "--json").json
    assert (deleted["deleted"], len(deleted["commit_id"])) == ("dev", HEX)


def test_tags(lake: Path) -> None:
    put("main", "x", "1")
    head = commit("main", "One")
    assert done("tag", "create", "lakefs://lake/v1/rc", "main", "--json").json == {"name": "v1/rc", "commit_id": head}
    done("tag", "create", "lakefs://lake/v0", "lakefs://lake/main~1")
    assert [line["name"] for line in done("tag", "list", "lake", "--json").lines] == ["v0", "v1/rc"]
    assert done("tag", "list", "lake", "--prefix", "v1").out == f"{head[:12]}  v1/rc\n"
    assert done("log", "lakefs://lake/v1/rc", "-n", "1", "--json").json["id"] == head
    assert run("tag", "create", "lakefs://lake/v0", "main").code == 4
    assert run("tag", "create", "lakefs://lake/a..b", "main").code == 2
    gone = {"deleted": "v1/rc", "commit_id": head, "dry_run": False}
    assert done("tag", "delete", "lakefs://lake/v1/rc", "--json").json == gone
    assert run("tag", "delete", "lakefs://lake/v1/rc").code == 3


def test_a_kind_of_ref_alone_lists_those_of_the_default_repository(lake: Path, working_folder: Path) -> None:
    missing = run("branch")
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert missing.err.startswith(
        "error: an argument is missing: lakefs://REPOSITORY, since there is no default repository; "
    )
    done("tag", "create", "lakefs://lake/v1.0", "main")
    done("use", "lake")
    assert done("branch").out == done("branch", "list").out != ""
    assert run("--lake", str(working_folder / "none"), "branch").code == 2, "it has another default, none"
    assert done("tag").out == done("tag", "list").out != ""


@pytest.mark.usefixtures("lake")
def test_a_branch_starts_at_the_ref_behind_its_name() -> None:
    put("main", "a", "1")
    head = commit("main", "One")
    assert done("branch", "create", "lakefs://lake/old", "main~1", "--json").json["commit_id"] != head
    done("use", "lakefs://lake/old")
    assert done("branch", "create", "new", "main", "--json").json["commit_id"] == head
    assert done("branch", "create", "same", "main", "--source", "main", "--json").json["commit_id"] == head
    refused = run("branch", "create", "x", "main", "--source", "old")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: 'main' and --source 'old' both say where the branch starts; give one of them")
    assert done("tag", "create", "v2.0", "--json").json["commit_id"] != head, "that of the default branch"
    assert done("reflog").out == done("reflog", "old").out != done("reflog", "main").out


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("branch", "experiment"), "branch"),
        (("tag", "lakefs://lake/v1"), "tag"),
        (("branch", "lakefs://lake/x"), "branch"),
    ],
)
def test_a_name_where_a_command_belongs_is_answered(words: tuple[str, str], command: str) -> None:
    refused = run(*words)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"error: there is no command `graveler {' '.join(words)}`: `graveler {' '.join((command, 'create', words[1]))}` creates "
        f"it, `graveler {command} list` lists what there is\n"
    )


@pytest.mark.usefixtures("lake")
def test_a_name_of_a_branch_and_a_tag_is_warned_of() -> None:
    done("branch", "create", "lakefs://lake/dev")
    both = "too: as a ref, 'dev' means the branch, so the tag can only be listed and deleted; give one of them another name\n"
    result = run("tag", "create", "lakefs://lake/dev", "main")
    assert (result.code, result.err) == (0, f"warning: a branch is called 'dev', {both}")
    done("branch", "delete", "lakefs://lake/dev")
    again = run("branch", "create", "lakefs://lake/dev")
    assert (again.code, again.err) == (0, f"warning: a tag is called 'dev', {both}")
    done("branch", "delete", "lakefs://lake/dev")
    done("branch", "create", "lakefs://lake/other")
    assert run("branch", "rename", "lakefs://lake/other", "dev").err == f"warning: a tag is called 'dev', {both}"


def test_hidden_branches_are_listed_when_asked_for(lake: Path) -> None:
    assert done("branch", "create", "lakefs://lake/secret", "--hidden", "--json").json["hidden"] is True
    assert [line["name"] for line in done("branch", "list", "lake", "--json").lines] == ["main"]
    both = done("branch", "list", "lake", "--all", "--json").lines
    assert [(line["name"], line["hidden"]) for line in both] == [("main", False), ("secret", True)]
    assert "secret  (hidden)" in done("branch", "list", "lake", "--all").out
