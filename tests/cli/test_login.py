"""login and logout: a key is tried, and kept only if it works; the secret is shown nowhere."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.lake.opening.folder import create_folder_lake
from graveler.location.configuration import configuration_file, find_profile
from tests.cli.support import done, run
from tests.server.support import Running, running
from tests.support.patience import PATIENCE
from tests.support.shell import Shell

Server = tuple[Running, str, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server, and an admin's key whose name is ann."""
    folder = tmp_path_factory.mktemp("served")
    with create_folder_lake(folder / "lake") as lake:
        made = Access(lake.tables).create_key("ann", Role.ADMIN, (), ())
    with running(folder, workers=1, key=False) as server:
        yield server, made.key.key_id, made.secret


@pytest.fixture(autouse=True)
def no_key_elsewhere(shell: Shell, tmp_path: Path) -> None:
    shell.export("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("LAKECTL_", "GRAVELER_")) and name not in {"GRAVELER_CONFIG", "GRAVELER_USER"}:
            shell.unset(name)


def file() -> Path:
    path = configuration_file()
    assert path is not None
    return path


def lines(*texts: str) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def test_from_a_key_to_a_commit_and_back(server: Server) -> None:
    url, (key_id, secret) = server[0].url, server[1:]
    told = done("login", url, stdin=lines(key_id, secret))
    assert told.out == f"logged in to {url} as ann; the key is in profile 'default' of {file()}\n"
    assert stat.S_IMODE(file().stat().st_mode) == 0o600
    done("repo", "create", "sales")
    done("use", "lakefs://sales/main")
    done("put", "-", "a.csv", stdin=b"1")
    assert done("commit", "-m", "First", "--json").json["committer"] == "ann"
    examined = done("doctor").out
    assert f"profile 'default' of '{file()}' has endpoint, key_id, secret_key, repository, branch" in examined
    assert "the default repository is lakefs://sales/main, by profile 'default'" in examined
    assert secret not in examined
    forgotten = done("logout").out
    assert forgotten == f"forgot key {key_id} of profile 'default' in {file()}\n"
    assert secret not in file().read_text()
    refused = run("ls")
    assert (refused.code, "`graveler login`" in refused.err) == (6, True)
    assert done("logout").out == "profile 'default' has no key\n"
    assert done("login", "--json", stdin=lines(key_id, secret)).json == {
        "endpoint": url,
        "name": "ann",
        "profile": "default",
        "file": str(file()),
    }
    assert done("ls").out == "a.csv\n", "the server and the default repository stayed"
    assert done("logout", "--json").json == {"profile": "default", "key_id": key_id, "file": str(file())}


def test_each_profile_has_its_own(server: Server, shell: Shell) -> None:
    url, (key_id, secret) = server[0].url, server[1:]
    done("login", url, "--profile", "work", "--key-id", key_id, stdin=lines(secret))
    assert find_profile() is None
    assert run("repo", "list").code == 3
    assert run("repo", "list", "--profile", "work").code == 0
    shell.export("GRAVELER_PROFILE", "work")
    assert run("repo", "list").code == 0
    assert run("logout", "--profile", "nope").code == 3
    assert "of profile 'work'" in done("logout").out


def test_a_key_that_does_not_work_is_not_kept(server: Server) -> None:
    url, (key_id, secret) = server[0].url, server[1:]
    wrong = secret[::-1]
    refused = run("login", url, stdin=lines(key_id, wrong))
    assert (refused.code, file().exists()) == (6, False), refused
    assert wrong not in refused.out + refused.err
    done("login", url, stdin=lines(key_id, secret))
    before = file().read_bytes()
    assert run("login", url, stdin=lines("AKIANOBODY", secret)).code == 6
    assert run("login", "http://127.0.0.1:9", stdin=lines(key_id, secret)).code == 9
    assert file().read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "given", "says"),
    [
        ((), (), "name the server to log in to"),
        (("lake.example.org",), (), "name the server to log in to"),
        (("https://ann:word@lake.example.org",), (), "holds no user or password"),
        (("https://lake.example.org",), (), "the access key id is missing"),
        (("https://lake.example.org",), ("AKIA",), "the secret access key is missing"),
        (("https://lake.example.org",), ("AKIA", "SECRET\x01TEXT"), "this is no secret access key"),
        (("https://lake.example.org",), ("AKIA", "SECRET" * 1000), "this is no secret access key"),
        (("https://lake.example.org", "--profile", "a b"), (), "not a valid name of a profile"),
        (("https://lake.example.org", "--aws", "--key-id", "AKIA"), (), "leave out --key-id"),
    ],
)
def test_what_cannot_be_a_login_is_refused(arguments: tuple[str, ...], given: tuple[str, ...], says: str) -> None:
    result = run("login", *arguments, stdin=lines(*given))
    assert (result.code, says in result.err, result.err.count("\n")) == (2, True, 1), result
    assert "SECRET" not in result.err
    assert not file().exists()


def test_variables_that_come_first_are_told(server: Server, shell: Shell) -> None:
    shell.export("GRAVELER_ENDPOINT", "https://other.example.org")
    shell.export("GRAVELER_ACCESS_KEY_ID", "other")
    told = run("login", server[0].url, stdin=lines(*server[1:]))
    assert told.code == 0
    assert told.err == (
        "warning: variables of the environment come before the profile: GRAVELER_ENDPOINT, GRAVELER_ACCESS_KEY_ID\n"
    )
    assert "still have credentials: GRAVELER_ACCESS_KEY_ID" in run("logout").err


def test_a_terminal_shows_the_questions_and_not_the_secret(server: Server) -> None:
    url, (key_id, secret) = server[0].url, server[1:]
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "graveler.cli", "login", url]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    seen = b""

    def until(words: bytes) -> None:
        nonlocal seen
        while words not in seen:
            seen += os.read(ours, 1000)

    until(b"Access key ID: ")
    os.write(ours, lines(key_id))
    until(b"Secret access key: ")
    os.write(ours, lines(secret))
    until(b"logged in to")
    assert process.wait(PATIENCE) == 0
    os.close(ours)
    assert secret.encode() not in seen
    found = find_profile()
    assert found is not None
    assert (found.key_id, found.secret_key) == (key_id, secret)
