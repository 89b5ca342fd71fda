"""Random schedules of clients on a branch with rules: nothing unchecked is published, and every candidate ends."""

import os

import pytest

from tests.lake.gates.interleaving import explore

SCHEDULES = int(os.environ.get("GRAVELER_SCHEDULES", "480")) // 12
"""A short run; ``python -m tests.mutations`` and ``make soak`` set more."""


@pytest.mark.search
def test_no_schedule_publishes_what_the_rules_refuse() -> None:
    for seed in range(SCHEDULES):
        explore(seed)


@pytest.mark.ci
@pytest.mark.search
@pytest.mark.parametrize("chunk", range(4))
def test_no_schedule_of_many_publishes_what_the_rules_refuse(chunk: int) -> None:
    for seed in range(chunk, 800, 4):
        explore(seed)
