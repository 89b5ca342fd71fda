"""Lakes that are there, but that this user may not open: no command says that there is none, or makes or uses another one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import graveler
from graveler.location.environment import HIDDEN
from tests.support.shell import Shell

_OWNER: Final = 65_534
_RUN: Final = """
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from graveler.cli.main import main
results = []
for folder, words in json.loads(sys.argv[1]):
    os.chdir(folder)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    results.append((code, *(stream.flush() or stream.buffer.getvalue().decode() for stream in (out, err))))
print(json.dumps(results))
"""


def refused_what_is_not_theirs() -> list[str]:
    """Return the beginning of a command that runs without root's right to open everything."""
    if os.geteuid():
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root keeps all rights without setpriv")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]


def results(*commands: tuple[Path, tuple[str, ...]]) -> list[tuple[int, str, str]]:
    """Run commands in these folders, as a user whom the system refuses what is not theirs. Return exit code, stdout and stderr of
    each."""
    arguments = json.dumps([(str(folder), words) for folder, words in commands])
    command = [*refused_what_is_not_theirs(), sys.executable, "-c", _RUN, arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


def close(path: Path, mode: int) -> None:
    """Give a path to another user, with these permissions; only root can, others close it to themselves."""
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, _OWNER, _OWNER)


@pytest.fixture
def outer(tmp_path: Path, shell: Shell) -> Path:
    """A folder with a lake of this user, ``sales`` in it."""
    shell.export("HOME", str(tmp_path / "home"))
    with graveler.create(tmp_path / HIDDEN, user="ada") as lake:
        lake.repository("sales").create().branch("main").object("a").upload("text")
    return tmp_path


@pytest.fixture(params=["folder", "marker"])
def closed(request: pytest.FixtureRequest, outer: Path) -> Path:
    """A lake below it that another user has closed."""
    folder = outer / "theirs" / HIDDEN
    graveler.create(folder, user="bob").close()
    (outer / "theirs" / "deep" / "down").mkdir(parents=True)
    close(folder / "graveler.json", 0o000)
    if request.param == "folder":
        close(folder, 0o000)
    return folder


def test_a_closed_lake_is_there_however_it_is_found(outer: Path, closed: Path) -> None:
    folder = closed.parent
    commands: list[tuple[Path, tuple[str, ...]]] = [
        (folder, ("repo", "list")),
        (folder / "deep" / "down", ("ls", "lakefs://sales/main/")),
        (folder / "deep", ("put", os.devnull, "lakefs://sales/main/b")),
        (folder, ("use", "lakefs://sales/main")),
        (outer, ("repo", "list", "--lake", str(closed))),
        (outer, ("repo", "list", "--lake", str(folder))),
        (folder, ("serve", "--port", "0")),
    ]
    for (place, words), (code, out, err) in zip(commands, results(*commands), strict=True):
        assert (code, out) == (9, ""), (words, place, err)
        assert err.startswith(f"error: the lake in {str(closed)!r} is there, but this user may not open it"), (
            words,
            err,
        )
        assert "create" not in err, (words, err)


def test_neither_init_nor_doctor_calls_it_missing(outer: Path, closed: Path) -> None:
    (code, out, err), (examined, told, _) = results((closed.parent, ("init",)), (closed.parent, ("doctor",)))
    is_named = (code == 9 and "may not open it" in err) or (code == 4 and "already exists" in err)
    assert (is_named, out) == (True, ""), err
    assert examined == 5
    assert f"the lake in {str(closed)!r} is there, but this user may not open it" in told
    assert "there is no lake" not in told


def test_a_folder_on_the_way_up_that_cannot_be_searched_is_not_passed_over(outer: Path) -> None:
    private = outer / "private"
    private.mkdir()
    inside = private / "inside"
    inside.mkdir()
    close(private, 0o000)
    ((code, out, err),) = results((outer, ("repo", "list", "--lake", str(inside))))
    assert (code, out) == (9, "")
    assert err.startswith(
        f"error: cannot look for a lake in {str(inside)!r}: this user may not open {str(private)!r} (it"
    )
    ((code, out, _),) = results((outer, ("repo", "list", "--json")))
    assert (code, json.loads(out)["name"]) == (0, "sales")


def test_python_says_the_same(closed: Path) -> None:
    program = (
        "import graveler, sys\nfrom graveler.errors import UnavailableError\n"
        "try:\n    graveler.open(sys.argv[1])\nexcept UnavailableError as error:\n    print(error)\n"
    )
    command = [*refused_what_is_not_theirs(), sys.executable, "-c", program, str(closed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"the lake in {str(closed)!r} is there, but this user may not open it"), done
