"""A working folder of its own for each test, without the user's environment; and a lake in it for tests that request one."""

from pathlib import Path

import pytest

from tests.cli.support import done


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GRAVELER_LAKE", "GRAVELER_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GRAVELER_USER", "tester")
    monkeypatch.setenv("GRAVELER_CONFIG", str(tmp_path / "configuration/config.toml"))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("GRAVELER_PAGER", "")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def lake(working_folder: Path) -> Path:
    """A lake in ``.graveler`` of the working folder, with the repository ``lake``."""
    done("init")
    done("repo", "create", "lake")
    return working_folder / ".graveler"
