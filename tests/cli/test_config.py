"""The settings in the configuration file, as commands show and change them; the author of commits."""

import getpass
from pathlib import Path

import pytest

import graveler
from graveler.location.configuration import configuration_file
from tests.cli.support import commit, done, put, run
from tests.support.shell import Shell


@pytest.fixture
def file(shell: Shell) -> Path:
    """Where the configuration file will be; nothing else names an author."""
    shell.unset("GRAVELER_USER")
    path = configuration_file()
    assert path is not None
    return path


def committer() -> str:
    return str(done("commit", "lakefs://lake/main", "-m", "m", "--allow-empty", "--json").json["committer"])


@pytest.mark.usefixtures("lake")
def test_the_author_comes_from_the_variable_then_the_file_then_the_login(file: Path, shell: Shell) -> None:
    assert committer() == getpass.getuser()
    assert done("config", "set", "user", "Ada Lovelace").out == f"set user in {file}\n"
    assert file.read_text() == 'user = "Ada Lovelace"\n'
    assert committer() == "Ada Lovelace"
    with graveler.open() as lake:
        assert (
            lake.repository("lake").branch("main").commit("m", allow_empty=True).get_commit().committer
            == "Ada Lovelace"
        )
    assert (
        done("config", "set", "--profile", "work", "user", "A. Lovelace").out == f"set user of profile work in {file}\n"
    )
    assert committer() == "Ada Lovelace"
    at_work = ("commit", "lakefs://lake/main", "-m", "m", "--allow-empty", "--json", "--profile", "work")
    assert (
        done(*at_work).json["committer"] == done("--profile", "work", *at_work[:-2]).json["committer"] == "A. Lovelace"
    )
    shell.export("GRAVELER_PROFILE", "work")
    assert committer() == "A. Lovelace"
    shell.export("GRAVELER_USER", "somebody")
    assert committer() == "somebody"
    shown = run("config", "get", "user")
    assert (shown.code, shown.out) == (0, "A. Lovelace\n")
    assert shown.err == "warning: GRAVELER_USER is set, and comes before 'user': commits are by 'somebody'\n"


def test_settings_are_listed_without_secrets(file: Path) -> None:
    assert done("config", "list").out == f"no settings in {str(file)!r}; `graveler config set user NAME` begins it\n"
    assert done("config", "list", "--json").out == ""
    done("config", "set", "lake", "/data/lake", "--profile", "home")
    file.write_text(f'{file.read_text()}\n# mine\n[profiles.staging]\nkey_id = "ID"\nsecret_key = "SECRET"\n')
    done("config", "set", "user", "Ada")
    assert done("config", "list").out.splitlines() == [
        "user = Ada  (all profiles)",
        "lake = /data/lake  (profile home)",
        "key_id = ID  (profile staging)",
        "secret_key = (not shown)  (profile staging)",
    ]
    assert [tuple(line.values()) for line in done("config", "list", "--json").lines] == [
        ("user", "Ada", None),
        ("lake", "/data/lake", "home"),
        ("key_id", "ID", "staging"),
        ("secret_key", None, "staging"),
    ]
    done("config", "set", "endpoint", "https://ada:SECRET@lake.example.org", "--profile", "staging")
    listed = done("config", "list").out + done("config", "list", "--json").out
    assert ("https://…@lake.example.org" in listed, "SECRET" in listed) == (True, False)
    assert "# mine\n" in file.read_text()
    assert done("config", "get", "lake", "--profile", "home").out == "/data/lake\n"
    assert done("--profile", "home", "config", "get", "lake", "--json").json == {
        "key": "lake",
        "value": "/data/lake",
        "profile": "home",
    }
    assert done("config", "unset", "lake", "--profile", "home").out == f"removed lake of profile home from {file}\n"
    assert done("config", "unset", "user").out == f"removed user from {file}\n"
    assert "Ada" not in file.read_text()


@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (("get", "user"), 3, f"no name is set; commits are by {getpass.getuser()!r}, the login name; `graveler config set"),
        (("get", "branch"), 3, "profile 'default' has no 'branch'; `graveler config set branch VALUE --profile default` sets it"),
        (("get", "secret_key"), 2, "'secret_key' is never shown; `graveler login` replaces it"),
        (("set", "secret_key", "x"), 2, "'secret_key' on a command line would be seen by others; use `graveler login`"),
        (("set", "user", " "), 2, "the value of 'user' is empty; `graveler config unset user` removes the setting"),
        (("set", "user", "a\nb"), 2, "the value of 'user' has a line break or another control character; leave it out"),
        (("set", "user.name", "Ada"), 2, "there is no setting 'user.name'; did you mean 'user'? The settings are endpoint, lake"),
        (("set", "repositry", "x"), 2, "there is no setting 'repositry'; did you mean 'repository'?"),
        (("set", "endpoint", "ftp://x"), 2, "'endpoint' of profile 'default' is not a server's URL, https://HOST"),
        (("set", "lake", "relative"), 2, "'lake' of profile 'default' is neither an absolute folder nor dynamodb://TABLE"),
        (("set", "branch", "main"), 2, "profile 'default' has a branch, but no repository; add 'repository'"),
        (("unset", "user"), 3, "the configuration file has no 'user'"),
        (("unset", "lake", "--profile", "home"), 3, "profile 'home' has no 'lake'"),
        (("user.name", "Ada"), 2, "there is no command `graveler config user.name`: use `graveler config set user NAME`"),
        (("--global", "user.name", "Ada"), 2, "there is no option --global: use `graveler config set KEY VALUE`"),
    ],
)  # fmt: skip
def test_what_is_refused_says_what_to_type(file: Path, words: tuple[str, ...], code: int, answer: str) -> None:
    refused = run("config", *words)
    assert (refused.code, refused.out, refused.err.count("\n")) == (code, "", 1), refused
    assert answer in refused.err
    assert not file.exists()


def test_a_name_that_is_no_text_is_refused_with_its_line(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("# me\nuser = 7\n")
    assert run("config", "list").err == f"error: {str(file)!r}, line 2: 'user' is no text; write it in double quotes\n"


@pytest.mark.usefixtures("lake")
def test_a_name_is_changed_where_it_stands(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('# me\nuser = "A"  # short\n\n[profiles.default]\nrepository = "lake"\n')
    done("config", "set", "user", "Ada")
    assert file.read_text() == '# me\nuser = "Ada"  # short\n\n[profiles.default]\nrepository = "lake"\n'
    put("main", "a", "1")
    commit("main", "One")
    assert "Ada" in done("log", "lakefs://lake/main", "-n", "1").out
