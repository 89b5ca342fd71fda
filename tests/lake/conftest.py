"""Folders that other users may enter: those of pytest are for their owner alone. The long form of the faults, where it is asked
for."""

import os
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import mkdtemp

import pytest

from tests.lake.fsck_support import FolderLake, build

collect_ignore = [] if os.environ.get("GRAVELER_FAULTS") else ["test_faults_long.py"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    folder = Path(mkdtemp(prefix="graveler-open-"))
    folder.chmod(0o777)
    yield folder
    rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def fsck_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "lake"
    folder.mkdir()
    lake = build(folder)
    lake.tables.close()
    return folder


@pytest.fixture
def lake(fsck_template: Path, tmp_path: Path) -> Iterator[FolderLake]:
    copytree(fsck_template, tmp_path / "lake")
    opened = FolderLake(tmp_path / "lake")
    yield opened
    opened.tables.close()
