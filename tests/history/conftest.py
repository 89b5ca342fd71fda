"""The seed of the random loops: Hypothesis' own, so that ``make test SEED=n`` varies both."""

import pytest


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("hypothesis_seed", None)
    return int(given) if given is not None else 20260101
