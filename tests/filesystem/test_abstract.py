"""fsspec's own suite, on each kind of lake."""

from secrets import token_hex
from typing import Any

import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

from graveler.filesystem.filesystem import GravelerFileSystem
from tests.filesystem.conftest import shared_repository

pytestmark = pytest.mark.filterwarnings("ignore:Class-scoped fixture")  # fsspec's own


@pytest.fixture(
    params=["folder", pytest.param("aws", marks=pytest.mark.ci), pytest.param("served", marks=pytest.mark.share(3))]
)
def storage_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The storage options of a lake of each kind."""
    found: dict[str, Any] = request.getfixturevalue(f"{request.param}_options")
    return {**found, "user": "ada"}


class LakeFixtures(AbstractFixtures):  # type: ignore[misc]  # fsspec has no types
    """A repository for each kind of lake; the tests remove what they write."""

    @pytest.fixture
    def fs(self, storage_options: dict[str, Any]) -> GravelerFileSystem:
        return GravelerFileSystem(**storage_options)

    @pytest.fixture
    def fs_path(self, storage_options: dict[str, Any]) -> str:
        return f"{shared_repository(storage_options)}/main/{token_hex(4)}"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestCopy(AbstractCopyTests, LakeFixtures):  # type: ignore[misc]
    """See :mod:`fsspec.tests.abstract.copy`."""


class TestGet(AbstractGetTests, LakeFixtures):  # type: ignore[misc]
    """See :mod:`fsspec.tests.abstract.get`."""


class TestPut(AbstractPutTests, LakeFixtures):  # type: ignore[misc]
    """See :mod:`fsspec.tests.abstract.put`."""


class TestPipe(AbstractPipeTests, LakeFixtures):  # type: ignore[misc]
    """See :mod:`fsspec.tests.abstract.pipe`."""


class TestOpen(AbstractOpenTests, LakeFixtures):  # type: ignore[misc]
    """See :mod:`fsspec.tests.abstract.open`."""
