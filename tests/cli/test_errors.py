"""Exit codes, error messages, and how the lake is found."""

import json
from pathlib import Path

import pytest

from graveler import errors
from graveler.cli.exits import MEANINGS, ExitCode, exit_code
from graveler.errors import GravelerError
from tests.cli.conftest import FailToOpen
from tests.cli.support import done, put, run
from tests.support.shell import Shell

GROUPS = {
    errors.NotFoundError: 3,
    errors.ConflictError: 4,
    errors.InvalidError: 2,
    errors.PreconditionError: 5,
    errors.ForbiddenError: 6,
    errors.BusyError: 7,
    errors.CorruptError: 8,
    errors.UnavailableError: 9,
}


def test_every_group_of_errors_has_its_exit_code() -> None:
    assert {type(group): exit_code(group("x")) for group in GROUPS} == {
        type(group): code for group, code in GROUPS.items()
    }
    assert set(GROUPS) == {e for e in GravelerError.__subclasses__() if e.__module__ == errors.__name__}
    assert exit_code(GravelerError("x")) is ExitCode.UNEXPECTED
    assert exit_code(errors.RepositoryNotFoundError("x")) is ExitCode.NOT_FOUND
    assert exit_code(errors.LaterVersionError("x", 2, 1)) is ExitCode.LATER_VERSION


def test_the_help_documents_every_exit_code() -> None:
    shown = done("help", "exit-codes").out
    assert '{"error": {code, message, fields, hint, exit_code}}' in shown
    for code, meaning in MEANINGS.items():
        assert f"{code.value:>5}  {meaning}" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("cat",), "Missing argument"),
        (("ls", "--nonsense", "x"), "No such option"),
        (("gc",), "a command is missing: `graveler gc plan`"),
        (("--prefix", "x", "repo", "list"), "come after its name"),
        (("log", "lakefs://lake/main", "-n", "many"), "is not a whole number"),
    ],
)
def test_a_command_line_that_makes_no_sense(arguments: tuple[str, ...], says: str) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert says in result.err
    assert "--help`" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("message", ["", " \n"])
def test_a_commit_says_what_changed(lake: Path, message: str) -> None:
    put("main", "a", "1")
    refused = run("commit", "lakefs://lake/main", "-m", message)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "error: the commit message is empty; say what changed, as in -m 'Add June'\n"
    assert done("status", "lakefs://lake/main", "--json").lines[0]["path"] == "a"


@pytest.mark.parametrize("verb", [("get",), ("cp", "lakefs://lake/main/b/"), ("mv", "lakefs://lake/main/b/"), ("rm",)])
def test_a_folder_without_r_is_told_what_to_do(lake: Path, verb: tuple[str, ...]) -> None:
    put("main", "a/1", "1")
    result = run(verb[0], "lakefs://lake/main/a/", *verb[1:])
    assert result.code == 3
    assert result.err == (
        "error: object 'a/' does not exist in 'main'. To work on everything below it, use -r (get, cp, mv, rm)\n"
    )


def test_without_a_lake_it_is_told_how_to_make_one() -> None:
    result = run("repo", "list")
    assert result.code == 3
    assert "create one with `graveler init`" in result.err


def test_the_lake_is_named_by_option_then_by_variable(lake: Path, shell: Shell, tmp_path: Path) -> None:
    done("init", tmp_path / "other")
    done("repo", "create", "another", "--lake", tmp_path / "other")
    names = ["another"], ["lake"]
    shell.export("GRAVELER_LAKE", str(tmp_path / "other"))
    assert [line["name"] for line in done("repo", "list", "--json").lines] == names[0]
    for arguments in (
        ("--lake", lake, "repo", "list"),
        ("repo", "list", "--lake", lake),
        ("--lake", lake.parent, "repo", "list"),
    ):
        assert [line["name"] for line in done(*arguments, "--json").lines] == names[1]
    shell.export("GRAVELER_LAKE", str(tmp_path / "nothing"))
    assert run("repo", "list").code == 3
    shell.unset("GRAVELER_LAKE")
    shell.cd(tmp_path / "other" / "objects" / "another")
    assert [line["name"] for line in done("repo", "list", "--json").lines] == names[0]


def test_the_committer_is_the_login_name_unless_told(lake: Path, shell: Shell) -> None:
    shell.unset("GRAVELER_USER")
    shell.export("LOGNAME", "ada")
    assert done("commit", "lakefs://lake/main", "-m", "x", "--allow-empty", "--json").json["committer"] == "ada"


def test_a_lake_of_a_newer_format_is_left_alone(lake: Path) -> None:
    (lake / "graveler.json").write_text(json.dumps({"format_version": 99}))
    result = run("repo", "list")
    assert (result.code, "was made by a later version of graveler" in result.err) == (10, True)


def test_a_damaged_lake_is_told(lake: Path) -> None:
    (lake / "graveler.json").write_text("{")
    assert run("repo", "list").code == 8


def test_a_damaged_range_is_named(lake: Path) -> None:
    put("main", "a", "1")
    done("commit", "lakefs://lake/main", "-m", "One")
    (range_file,) = (lake / "objects/lake/_graveler/ranges").iterdir()
    range_file.write_bytes(range_file.read_bytes()[:100])
    result = run("ls", "lakefs://lake/main@/")
    assert result.code == 8
    assert range_file.name in result.err
    range_file.unlink()
    assert run("ls", "lakefs://lake/main@/").code == 8


def test_a_folder_that_cannot_be_made(working_folder: Path) -> None:
    (working_folder / "file").write_text("")
    result = run("init", "file/lake")
    assert (result.code, "making a lake in" in result.err) == (9, True)


def test_a_bug_is_called_a_bug_without_a_traceback(fail_to_open: FailToOpen, shell: Shell) -> None:
    fail_to_open(RuntimeError("boom"))
    result = run("repo", "list")
    assert result.code == 1
    assert result.err == "error: this is a bug in graveler: RuntimeError: boom (set GRAVELER_DEBUG=1 to see where)\n"
    shell.export("GRAVELER_DEBUG", "1")
    assert "Traceback (most recent call last)" in run("repo", "list").err


def test_arguments_that_are_not_utf_8_are_refused(lake: Path) -> None:
    assert run("stat", "lakefs://lake/main/\udcff").code == 2
    assert run("put", "\udcff", "lakefs://lake/main/x").code == 3
