"""Work that is cut into small parts."""

import pytest

from graveler.lake.repository import OpenRepository
from graveler.operations.steps import Steps
from graveler.operations.store import Operation
from tests.operations.support import SMALL


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations have parts of :data:`SMALL`."""
    whole = Steps.__init__

    def small(self: Steps, repository: OpenRepository, operation: Operation, sizes: object = None) -> None:
        whole(self, repository, operation, SMALL)

    monkeypatch.setattr(Steps, "__init__", small)
