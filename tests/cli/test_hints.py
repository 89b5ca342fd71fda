"""Hints of a command that failed: names that may have been meant, words of other tools, options that decide."""

import subprocess
import sys
from pathlib import Path

import pytest

from graveler.cli import suggestions
from graveler.cli.app import app
from graveler.errors import UnavailableError
from graveler.lake.repository import OpenRepository
from tests.cli.support import commit, done, make_conflict, put, run
from tests.cli.test_every_command import leaves

LISTS_REFS = "`graveler branch list lakefs://lake` and `graveler tag list lakefs://lake` list what there is\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("branch", "list", "lak"),
            "or list the existing ones. Did you mean 'lake'? `graveler repo list` lists all repositories\n",
        ),
        (("ls", "lakefs://quite-other/main/"), "list the existing ones. `graveler repo list` lists all repositories\n"),
        (("ls", "lakefs://lake/mian/"), f"has this name. Did you mean 'main'? {LISTS_REFS}"),
        (("ls", "lakefs://lake/mian~2/"), f"is called 'mian'. Did you mean 'main'? {LISTS_REFS}"),
        (("show", "lakefs://lake/V1.0"), f"has this name. Did you mean 'v1.0'? {LISTS_REFS}"),
        (("show", "lakefs://lake/zzzzzz"), f"has this name. {LISTS_REFS}"),
        (
            ("status", "lakefs://lake/mian"),
            "has this name. Did you mean 'main'? `graveler branch list lakefs://lake` lists what there is\n",
        ),
        (
            ("tag", "delete", "lakefs://lake/v1"),
            "has this name. Did you mean 'v1.0'? `graveler tag list lakefs://lake` lists what there is\n",
        ),
        (
            ("cat", "lakefs://lake/main/raw/juni.csv"),
            "does not exist in 'main'. Did you mean 'raw/june.csv'? `graveler ls lakefs://lake/main/raw/` lists what there is\n",
        ),
        (
            ("cat", "lakefs://lake/main/rwa/june.csv"),
            "does not exist in 'main'. Did you mean 'raw/'? `graveler ls lakefs://lake/main/` lists what there is\n",
        ),
        (
            ("ls", "lakefs://lake/main/Raw/"),
            "starts with 'Raw/'. Did you mean 'raw/'? `graveler ls lakefs://lake/main/` lists what there is\n",
        ),
        (
            ("get", "lakefs://lake/main/raw"),
            "does not exist in 'main'. Did you mean 'raw/'? `graveler ls lakefs://lake/main/` lists what there is\n",
        ),
        (("log", "lakefs://lake/main~99"), "parent"),
    ],
)
def test_a_misspelt_name(lake: Path, arguments: tuple[str, ...], told: str) -> None:
    put("main", "raw/june.csv", "1")
    commit("main", "One")
    done("tag", "create", "lakefs://lake/v1.0", "main")
    failed = run(*arguments)
    assert (failed.code, failed.out) == (3, "")
    assert told in failed.err
    assert failed.err.count("\n") == 1


def test_a_lake_that_does_not_answer_gives_no_hint(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise UnavailableError("gone")

    put("main", "a", "1")
    monkeypatch.setattr(OpenRepository, "list_objects", broken)
    monkeypatch.setattr(OpenRepository, "branches", broken)
    assert run("cat", "lakefs://lake/main/b").err == "error: object 'b' does not exist in 'main'\n"
    assert run("cat", "lakefs://lake/mian/b").err.endswith(f"has this name. {LISTS_REFS}")


def test_conflicts_name_the_options_that_decide_them(lake: Path) -> None:
    make_conflict()
    failed = run("merge", "lakefs://lake/dev", "main")
    assert failed.code == 4
    assert "`--strategy` decides all conflicts, `--strategy-for PREFIX=WHO` those below a prefix\n" in failed.err
    shown = run("merge", "lakefs://lake/dev", "main", "--dry-run")
    assert "--strategy-for" in shown.out


def test_an_import_of_nothing_names_the_option(lake: Path) -> None:
    empty = Path("empty")
    empty.mkdir()
    assert run("import", empty, "lakefs://lake/main/a/").err.endswith(". `--allow-empty` allows it\n")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("checkout", "main"), "graveler branch create"),
        (("add", "."), "graveler put"),
        (("pull",), "graveler export"),
        (("push",), "graveler commit"),
        (("clone", "https://example.com"), "graveler branch create"),
        (("stash",), "graveler branch create"),
        (("rebase", "main"), "graveler merge"),
        (("branch", "checkout", "x"), "lakefs://REPOSITORY/BRANCH/PATH"),
        (("repo", "init"), "graveler repo create"),
        (("tag", "rm", "x"), "graveler tag delete"),
    ],
)
def test_a_word_of_git_is_answered_with_the_one_to_use(words: tuple[str, ...], named: str) -> None:
    failed = run(*words)
    assert (failed.code, failed.out, failed.err.count("\n")) == (2, "", 1)
    assert failed.err.startswith("error: there is no command `graveler ")
    assert named in failed.err


def test_no_word_of_another_tool_is_a_command_here() -> None:
    assert {words[0] for words in leaves(app)}.isdisjoint(suggestions._COMMANDS)
    assert suggestions.instead_of("graveler", "nonsense") == ""
    assert "No such command 'comit'. Did you mean 'commit'" in run("comit").err


def test_a_command_that_succeeds_loads_no_hints(lake: Path) -> None:
    script = (
        "import sys; from graveler.cli.main import main; assert main(['branch', 'list', 'lake']) == 0; "
        "assert 'graveler.cli.hints' not in sys.modules and 'graveler.cli.suggestions' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
