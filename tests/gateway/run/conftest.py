"""A lake for each test of runs."""

from pathlib import Path

import pytest

import graveler
from tests.gateway.run.support import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A lake in a folder, whose repository ``sales`` has the object ``seed``."""
    folder = tmp_path / "lake"
    with graveler.create(folder, user="bob") as lake:
        main = lake.repository("sales").create().branch("main")
        main.object("seed").upload("1")
        main.commit("Seed")
    return Place(folder, {})
