"""Completion: the shell asks the command for possible words."""

import os
import pty
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.support import done, put, write_tree

GRAVELER = Path(sys.executable).parent / "graveler"


def offered(line: str, command_path: str) -> list[str]:
    """What fish would offer at the end of a line, without descriptions."""
    asked = subprocess.run(
        ["graveler"],
        env={
            **os.environ,
            "PATH": command_path,
            "_GRAVELER_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        | {"_TYPER_COMPLETE_ARGS": line},
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stderr == ""
    return [one.split("\t")[0] for one in asked.stdout.splitlines() if one]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("graveler bra", ["branch"]),
        ("graveler repo show l", ["lake"]),
        ("graveler repo show lakefs://l", ["lakefs://lake"]),
        ("graveler repo show nothing", []),
        ("graveler branch delete lak", ["lakefs://lake/"]),
        ("graveler branch delete lakefs://", ["lakefs://lake/"]),
        ("graveler branch delete lakefs://lake/d", ["lakefs://lake/dev"]),
        ("graveler ls lakefs://none/d", []),
        ("graveler ls g", ["graveler://lake/"]),
        ("graveler ls graveler://lake/main/f", ["graveler://lake/main/folder/"]),
        ("graveler branch delete graveler://lake/d", ["graveler://lake/dev"]),
        ("graveler tag delete lakefs://lake/v", ["lakefs://lake/v1"]),
        ("graveler tag delete lakefs://lake/n", ["lakefs://lake/nightly%2F1"]),
        ("graveler tag delete lakefs://lake/nightly%2", ["lakefs://lake/nightly%2F1"]),
        ("graveler tag delete lakefs://lake/nightly/", ["lakefs://lake/nightly/1"]),
        ("graveler log lakefs://lake/m", ["lakefs://lake/main"]),
        ("graveler put file lakefs://lake/main/f", ["lakefs://lake/main/folder/"]),
        ("graveler put da", ["data.csv", "days/"]),
        ("graveler put data.csv days/", ["days/one"]),
        ("graveler put nothing/", []),
        ("graveler import da", ["data.csv", "days/"]),
        ("graveler import lakefs://l", []),
        ("graveler ingest rules add drop da", ["data.csv", "days/"]),
        ("graveler merge lakefs://lake/dev m", ["main"]),
        ("graveler merge lakefs://lake/dev lakefs://lake/m", ["lakefs://lake/main"]),
        ("graveler merge lakefs://none/dev m", []),
        ("graveler revert lakefs://lake/dev v", []),
        ("graveler diff lakefs://lake/dev v", ["v1"]),
        ("graveler diff lakefs://lake/dev ", ["dev", "main", "nightly/1", "v1"]),
        ("graveler branch create lakefs://lake/new --source n", ["nightly/1"]),
        ("graveler branch create lakefs://lake/new d", ["dev"]),
        ("graveler tag create lakefs://lake/v2 d", ["dev"]),
        ("graveler log lakefs://lake/main --stop-at v", ["v1"]),
        ("graveler reset lakefs://lake/main --hard v", ["v1"]),
        ("graveler keys create ann --role w", ["writer"]),
        ("graveler principals create arn --role ''", ["reader", "checker", "writer", "admin"]),
    ],
)
def test_names_are_offered(lake: Path, command_path: str, line: str, expected: list[str]) -> None:
    done("branch", "create", "lakefs://lake/dev")
    done("tag", "create", "lakefs://lake/v1", "main")
    done("tag", "create", "lakefs://lake/nightly%2F1", "main")
    put("main", "folder/a", "1")
    write_tree(Path(), {"data.csv": "1", "days/one": "1"})
    assert offered(line, command_path) == expected


IN_BASH = {
    "graveler ls lakefs://lake/d": "//lake/dev",
    "graveler branch delete lakefs:": "//lake/",
    "graveler cat lakefs://lake/main/da": "//lake/main/data/",
    "graveler put file lakefs://lake/main/da": "//lake/main/data/",
    "graveler merge lakefs://lake/dev lakefs://lake/m": "//lake/main",
    "graveler cat lakefs://lake/main/t:": "1 2",
    "graveler merge lakefs://lake/dev m": "main",
    "graveler cherry": "cherry-pick",
}
"""What is offered for the last word, as bash cuts it."""


def test_bash_is_offered_the_rest_of_words_that_it_cuts_at_colons(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    for path in ("data/a", "t:1", "t:2"):
        put("main", path, "1")
    asking = """
        read -ra COMP_WORDS <<< "${line//:/ : }"
        COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
        _graveler_completion graveler
        echo "${COMPREPLY[@]}"
    """
    lines = [f"line={shlex.quote(line)}\n{asking}" for line in IN_BASH]
    script = "\n".join(['eval "$(graveler --show-completion bash)"', *lines])
    path = f"{GRAVELER.parent}{os.pathsep}{os.environ['PATH']}"
    asked = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert (asked.stdout.splitlines(), asked.stderr) == (list(IN_BASH.values()), "")


ON_TAB = {
    "graveler merge lakefs://lake/dev m": "main",
    "graveler merge lakefs://lake/dev lakefs://lake/m": "lakefs://lake/main",
    "graveler diff lakefs://lake/dev v": "v1",
    "graveler branch create lakefs://lake/new --source d": "dev",
    "graveler keys create ann --role w": "writer",
    "graveler put da": "data.csv",
    "graveler ingest rules add drop da": "data.csv",
}
"""What the last word becomes when the user presses Tab."""


def test_tab_in_bash_completes_second_refs_roles_and_sources(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    done("tag", "create", "lakefs://lake/v1", "main")
    write_tree(Path(), {"data.csv": "1"})
    # In front of the completed line, after Ctrl-A, comes a command that prints its words.
    lines = [f"{line}\t\x01printf '<%s>' \n" for line in ON_TAB]
    typed = "".join(['eval "$(graveler --show-completion bash)"\n', *lines, "exit\n"])
    terminal, other_end = pty.openpty()
    environment = {
        **os.environ,
        "PATH": f"{GRAVELER.parent}{os.pathsep}{os.environ['PATH']}",
        "TERM": "dumb",
        "PS1": "",
    }
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-i"],
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env={**environment, "INPUTRC": os.devnull, "HISTFILE": ""},
        start_new_session=True,
    ):
        os.close(other_end)
        os.write(terminal, typed.encode())
        shown = b""
        with suppress(OSError):  # as reading a terminal ends
            while some := os.read(terminal, 1 << 16):
                shown += some
    os.close(terminal)
    printed = re.findall("(?:<[^<>%]*>)+", shown.decode())
    expected = [[*line.split()[:-1], word] for line, word in ON_TAB.items()]
    assert [re.findall("<(.*?)>", words) for words in printed] == expected, shown


def test_without_a_lake_nothing_is_offered(working_folder: Path, command_path: str) -> None:
    assert offered("graveler repo show l", command_path) == []


def test_a_shell_can_be_named(working_folder: Path) -> None:
    for shell, has in (("zsh", "#compdef graveler"), ("fish", "complete --command graveler")):
        completed = subprocess.run([GRAVELER, "--show-completion", shell], capture_output=True, text=True, check=True)
        assert has in completed.stdout
    environment = {**os.environ, "HOME": str(working_folder)}
    subprocess.run([GRAVELER, "--install-completion", "fish"], env=environment, capture_output=True, check=True)
    assert (working_folder / ".config/fish/completions/graveler.fish").read_text()


def test_installing_it_works(working_folder: Path) -> None:
    # Which shell it is, the command sees from the process that started it; so bash stays there, and is not replaced by it.
    asked = subprocess.run(
        ["bash", "-c", f"{shlex.quote(str(GRAVELER))} --install-completion; exit $?"],
        env={**os.environ, "HOME": str(working_folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked
    assert "_graveler_completion" in (working_folder / ".bash_completions/graveler.sh").read_text()
