"""A working folder of its own for each test, without the user's environment; and a lake in it for tests that request one."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import graveler.lake.opening.folder
from tests.cli.support import done
from tests.support.shell import Shell

FailToOpen = Callable[[BaseException], None]
"""Lets each command fail with an exception when it opens the lake."""


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, shell: Shell) -> Path:
    shell.unset("GRAVELER_LAKE", "GRAVELER_DEBUG", "NO_COLOR", "FORCE_COLOR")
    shell.export("GRAVELER_USER", "tester")
    shell.export("GRAVELER_CONFIG", str(tmp_path / "configuration/config.toml"))
    shell.export("TERM", "xterm-256color")
    shell.export("COLUMNS", "80")
    shell.export("GRAVELER_PAGER", "")
    folder = tmp_path / "work"
    folder.mkdir()
    shell.cd(folder)
    return folder


@pytest.fixture
def lake(working_folder: Path) -> Path:
    """A lake in ``.graveler`` of the working folder, with the repository ``lake``."""
    done("init")
    done("repo", "create", "lake")
    return working_folder / ".graveler"


@pytest.fixture
def fail_to_open(lake: Path, monkeypatch: pytest.MonkeyPatch) -> FailToOpen:
    def begin(error: BaseException) -> None:
        def fail(folder: Path, **_: object) -> NoReturn:
            raise error

        monkeypatch.setattr(graveler.lake.opening.folder, "open_folder_lake", fail)

    return begin
