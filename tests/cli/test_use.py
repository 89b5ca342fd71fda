"""The default repository and branch: who sets it, and what arguments without ``lakefs://`` mean."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graveler.location.configuration import configuration_file, find_profile
from tests.cli.support import commit, done, put, run
from tests.support.shell import Shell

pytestmark = pytest.mark.usefixtures("lake")


@pytest.fixture
def used(lake: Path) -> None:
    """A lake with a commit and a tag, after `graveler use`."""
    put("main", "raw/a.csv", "1")
    commit("main", "One")
    done("tag", "create", "lakefs://lake/v1", "main")
    assert done("use", "lakefs://lake/main").out == "lakefs://lake/main  (`graveler use` in this lake)\n"


@pytest.mark.usefixtures("used")
def test_an_hour_without_uris(working_folder: Path) -> None:
    assert done("ls").out == done("ls", "lakefs://lake/main/").out
    assert done("ls", "raw/").out == done("ls", "lakefs://lake/main/raw/").out
    assert done("du", "raw/").out == done("du", "lakefs://lake/main/raw/").out
    assert done("cat", "raw/a.csv").out == "1"
    (working_folder / "b.csv").write_text("22")
    assert done("put", "b.csv", "raw/").out == "uploaded 2 B to lakefs://lake/main/raw/b.csv\n"
    assert "raw/b.csv" in done("status").out
    assert "committed main" in done("commit", "-m", "Two").out
    assert done("log", "-n", "1", "--json").json["message"] == "Two"
    assert done("show", "v1", "--json").lines[0]["message"] == "One"
    assert done("diff", "v1..main").out == done("diff", "v1", "main").out == done("diff", "lakefs://lake/v1..main").out
    done("branch", "create", "fix", "--source", "v1")
    assert done("branch", "list").out == done("branch", "list", "lake").out
    assert done("tag", "list").out == done("tag", "list", "lakefs://lake").out
    assert done("repo", "show").out == done("repo", "show", "lake").out
    done("put", "b.csv", "lakefs://lake/fix/fixed.csv")
    done("commit", "fix", "-m", "Fixed")
    assert "merged fix into main" in done("merge", "fix").out
    assert done("get", "fixed.csv", "here.csv").out == "downloaded 2 B to here.csv\n"
    assert (working_folder / "here.csv").read_text() == "22"
    done("cp", "fixed.csv", "copies/")
    done("mv", "copies/fixed.csv", "moved.csv")
    done("reset", "moved.csv")
    done("rm", "raw/a.csv")
    assert [change["path"] for change in done("status", "--json").lines] == ["raw/a.csv"]
    done("reset", "raw/a.csv")
    assert done("undo").out.startswith("moved main back to ")
    assert done("reflog", "-n", "1", "--json").json["operation"] == "undo"
    done("ingest", "rules", "add", "drop", working_folder / "in", "lakefs://lake/main/in/")
    assert done("ingest", "rules", "list").out == done("ingest", "rules", "list", "lake").out != ""
    assert done("operations", "list", "--json").lines == done("operations", "list", "lake", "--json").lines


@pytest.mark.parametrize("words", [("reset",), ("rm",), ("repo", "delete"), ("branch", "delete")])
@pytest.mark.usefixtures("used")
def test_what_drops_or_deletes_something_needs_its_argument(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert (result.code, "Missing argument" in result.err) == (2, True)


@pytest.mark.usefixtures("used")
def test_a_uri_is_what_it_was() -> None:
    done("repo", "create", "other")
    done("put", "-", "lakefs://other/main/x", stdin=b"1")
    assert done("ls", "lakefs://other/main/").out == "x\n"
    assert "raw/" not in done("ls", "lakefs://other/main/").out
    refused = run("merge", "lakefs://other/main")
    assert (refused.code, "the default repository is 'lake', but this is in 'other'" in refused.err) == (2, True)


@pytest.mark.parametrize("text", ["/raw/a.csv", "./a.csv", "../a.csv", "~/a.csv"])
@pytest.mark.usefixtures("used")
def test_a_path_of_this_machine_is_not_taken_for_one_in_the_lake(text: str) -> None:
    for words in (("cat", text), ("put", "-", text), ("rm", text), ("cp", "raw/a.csv", text)):
        result = run(*words)
        assert (result.code, "looks like a path of this machine" in result.err) == (2, True), result


@pytest.mark.parametrize(
    "words",
    [("ls", ""), ("rm", "-r", "", "--yes"), ("status", ""), ("commit", "", "-m", "m"), ("log", ""), ("put", "-", "")],
)
@pytest.mark.usefixtures("used")
def test_an_empty_argument_is_no_default(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert (result.code, "an argument is empty" in result.err) == (2, True), result


@pytest.mark.usefixtures("used")
def test_another_scheme_is_refused() -> None:
    assert "does not start with lakefs://" in run("cat", "s3://bucket/key").err


@pytest.mark.parametrize(
    "words", [("ls", "raw/"), ("cat", "a"), ("status",), ("log",), ("commit", "-m", "m"), ("branch", "list")]
)
def test_without_a_default_the_error_names_the_command_that_sets_one(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert (result.code, "`graveler use lakefs://" in result.err, result.err.count("\n")) == (2, True, 1)


def test_it_is_shown_with_where_it_comes_from_and_forgotten(shell: Shell) -> None:
    assert "no default repository" in done("use").out
    assert done("use", "--json").json == {"repository": None, "branch": None, "by": None}
    assert done("use", "lakefs://lake", "--json").json == {
        "repository": "lake",
        "branch": None,
        "by": "`graveler use` in this lake",
    }
    assert done("use").out == "lakefs://lake  (`graveler use` in this lake)\n"
    assert "on branch main" in done("status").out, "the repository's own default branch"
    shell.export("GRAVELER_REPO", "lake/main")
    assert done("use").out == "lakefs://lake/main  (GRAVELER_REPO)\n"
    told = run("use", "lake/main")
    assert (told.code, "GRAVELER_REPO is set" in told.err) == (0, True)
    shell.unset("GRAVELER_REPO")
    assert "no default repository" in done("use", "--unset").out
    assert "no default repository" in done("use", "--unset").out


@pytest.mark.usefixtures("used")
def test_a_choice_counts_only_in_the_lake_that_it_was_made_in(working_folder: Path, shell: Shell) -> None:
    other = working_folder / "elsewhere"
    other.mkdir()
    for words in (("init",), ("repo", "create", "lakefs://lake")):
        shell.cd(other)
        done(*words)
    refused = run("put", "-", "x", stdin=b"1")
    assert (refused.code, "there is no default repository" in refused.err) == (2, True)
    assert run("commit", "-m", "m").code == 2
    assert "no default repository" in done("use").out
    done("use", "lakefs://lake")
    done("put", "-", "x", stdin=b"1")
    shell.cd(working_folder)
    assert done("use").out == "lakefs://lake/main  (`graveler use` in this lake)\n"
    assert done("ls").out == "raw/\n"
    # However the lake is named, it is the same one.
    (working_folder / "link").symlink_to(other)
    for place in (str(other), "elsewhere", "link", str(other / ".graveler")):
        assert done("ls", "--lake", place).out == "x\n", place
    shell.cd(other)
    done("use", "--unset")
    shell.cd(working_folder)
    assert done("ls").out == "raw/\n"
    assert run("ls", "--lake", str(other)).code == 2


def test_a_repository_that_an_older_version_kept_for_no_lake_is_named_and_not_used(working_folder: Path) -> None:
    path = configuration_file()
    assert path is not None
    path.parent.mkdir()
    path.write_text('[profiles.default]\nrepository = "lake"\nbranch = "main"\n')
    for words in (("put", "-", "x"), ("ls", "x"), ("status",)):
        refused = run(*words, stdin=b"1")
        assert refused.code == 2
        assert (
            "; profile 'default' names lakefs://lake/main but no lake, so it counts for none: `graveler use lakefs://lake/main` "
            "chooses it here" in refused.err
        )
    assert "on branch main" in done("status", "--profile", "default").out, "this time it is named"
    done("use", "lakefs://lake/main")
    assert "on branch main" in done("status").out
    path.write_text(f'[profiles.default]\nlake = "{working_folder}"\nrepository = "lake"\n')
    assert done("use").out == "lakefs://lake  (profile 'default')\n"
    done("use", "--unset")
    assert path.read_text() == f'[profiles.default]\nlake = "{working_folder}"\n'
    path.write_text('[profiles.default]\nrepository = "lake"\n')
    done("use", "--unset")
    assert "no default" in done("use").out
    found = find_profile()
    assert found is not None
    assert found.repository == ""


@pytest.mark.usefixtures("used")
def test_an_error_says_where_the_default_comes_from(shell: Shell) -> None:
    refused = run("cat", "nope")
    assert refused.err.endswith("The default repository, lakefs://lake/main, comes from `graveler use` in this lake\n")
    assert "The default" not in run("cat", "lakefs://lake/main/nope").err
    shell.export("GRAVELER_REPO", "gone")
    for words in (("ls",), ("commit", "-m", "m"), ("put", "-", "x"), ("merge", "fix"), ("tag", "list")):
        refused = run(*words, stdin=b"1")
        assert refused.code == 3, words
        assert refused.err.endswith("The default repository, lakefs://gone, comes from GRAVELER_REPO\n"), words


def test_a_damaged_file_of_choices_is_named() -> None:
    done("use", "lakefs://lake/main")
    path = configuration_file()
    assert path is not None
    defaults = path.with_name("config-defaults.json")
    assert defaults.stat().st_mode & 0o777 == 0o600
    defaults.write_text("{")
    refused = run("status")
    assert (refused.code, f"{str(defaults)!r}, the file of default repositories, is damaged" in refused.err) == (
        2,
        True,
    )


def test_only_what_is_there_can_be_used() -> None:
    for place, code in (("lakefs://nope/main", 3), ("lakefs://lake/nope", 3), ("lakefs://lake/a/b", 2), ("", 2)):
        assert run("use", place).code == code, place
    path = configuration_file()
    assert path is not None
    assert not path.exists()
    assert run("use", "lakefs://lake/main", "--unset").code == 2


def test_a_profile_keeps_its_own(working_folder: Path) -> None:
    path = configuration_file()
    assert path is not None
    path.parent.mkdir()
    path.write_text(f'# mine\n[profiles.work]\nlake = "{working_folder}"\n')
    assert "profile 'work'" in done("use", "lakefs://lake/main", "--profile", "work").out
    assert done("--profile", "work", "status").out == done("status", "--profile", "work").out
    assert run("status").code == 2, "the profile default has none"
    assert path.read_text().startswith("# mine\n")
    refused = run("use", "lakefs://lake/main", "--profile", "nope")
    assert (refused.code, "the profile 'nope' is not in" in refused.err) == (3, True)


def test_a_new_lake_that_commands_would_not_use_is_told(working_folder: Path, shell: Shell) -> None:
    path = configuration_file()
    assert path is not None
    path.parent.mkdir()
    path.write_text(f'[profiles.default]\nlake = "{working_folder}"\n')
    (working_folder / "other").mkdir()
    shell.cd(working_folder / "other")
    told = run("init")
    assert (told.code, told.err) == (
        0,
        f"warning: commands use '{working_folder}', of profile 'default', unless --lake or GRAVELER_LAKE names this lake\n",
    )
    assert done("repo", "list").out.startswith("lake")
    assert done("repo", "list", "--lake", ".").out == ""


def test_a_variable_that_names_nothing_is_told(shell: Shell) -> None:
    shell.export("GRAVELER_REPO", "Not A Name/main")
    result = run("ls")
    assert (result.code, result.err.startswith("error: GRAVELER_REPO names no repository")) == (2, True), result
    shell.export("GRAVELER_REPO", "nope/main")
    assert run("ls").code == 3


@pytest.mark.usefixtures("used")
def test_a_shell_is_offered_paths_of_the_default_branch() -> None:
    asked = {"_GRAVELER_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "graveler cat ra"}
    command = [sys.executable, "-m", "graveler.cli"]
    shown = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert "raw/" in shown.stdout, shown
