"""Started as Lambda starts them: from the built layer, by the runtime's own client, against S3 and DynamoDB over HTTP."""

import pytest

from tests.functions.measure import Figures, cold_starts, prepared

COLD_MS = 450
WARM_MS = 60


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    with prepared(tmp_path_factory.mktemp("start")) as ready:
        return cold_starts("read", ready, starts=3)


def test_a_cold_start_is_short(figures: Figures) -> None:
    """Of a core's time, since a test's machine is shared: on one that is not, it is the time that passes."""
    assert figures.cold_cpu_ms <= COLD_MS, figures


def test_a_warm_answer_is_shorter(figures: Figures) -> None:
    assert figures.warm_cpu_ms <= WARM_MS, figures
