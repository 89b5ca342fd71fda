"""The costs in docs/deploy.md are based on the requests and units that the functions use now."""

from pathlib import Path

import pytest

from infra import prices
from infra.settings import Settings
from tests.functions.cost_table import Used, counted, transitions
from tests.functions.costs import counting, of_requests

OBJECTS = 2_000
"""Enough for several ranges."""


@pytest.mark.ci
def test_what_was_counted_is_what_is_counted_now(tmp_path: Path) -> None:
    """`python -m tests.functions.costs --write` counts again, of all verbs; times are not compared."""
    with counting(tmp_path, OBJECTS) as (served, meter, repository):
        now = of_requests(served, meter, repository)
    before = counted().verbs
    assert {name: _counts(used) for name, used in now.items()} == {name: _counts(before[name]) for name in now}


def _counts(used: Used) -> dict[str, float]:
    return {
        "read units": round(used.read_units, 3),
        "write units": round(used.write_units, 3),
        "requests to the table": used.table_requests,
        "reads from S3": used.gets,
        "writes to S3": used.puts,
    }


def test_dollars_are_counts_times_prices() -> None:
    settings = Settings()
    used = Used(
        read_units=8,
        write_units=4,
        table_requests=2,
        gets=3,
        puts=1,
        cpu=0.01,
        transitions=2,
        events=1,
        queue_requests=1.2,
    )
    seconds = 0.01 + 2 * 0.005 + 4 * 0.03
    expected = (
        8 * prices.READ_UNIT
        + 4 * prices.WRITE_UNIT
        + 3 * prices.S3_GET
        + prices.S3_PUT
        + seconds * settings.memory / 1024 * prices.GB_SECOND
        + seconds * (settings.scratch - 512) / 1024 * prices.SCRATCH_GB_SECOND
        + prices.HTTP_REQUEST
        + prices.INVOCATION
        + 1500 / 1e9 * prices.LOG_GB
        + 2 * prices.TRANSITION
        + prices.OBJECT_EVENT
        + 1.2 * prices.QUEUE_REQUEST
    )
    assert abs(used.dollars - expected) < 1e-12
    assert abs((used * 3 + used).dollars - 4 * expected) < 1e-12
    assert (transitions(1), transitions(40), transitions(41)) == (9, 48, 131)
