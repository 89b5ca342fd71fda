"""The wheel, built once for each worker."""

from pathlib import Path

import pytest

from tests.installation.wheel import Environment, build_wheel, install


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the plain installation."""
    return install(wheel, tmp_path_factory.mktemp("plain") / "environment")
