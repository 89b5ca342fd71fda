"""The verbs, by what they are about. To add one: append a :class:`Case` to the ``CASES`` of its module."""

from typing import Final

from tests.lake.faults.case import Case
from tests.lake.faults.cases import commits, gates, merges, pulls, refs, settings, staging, statuses, tables, upkeep

CASES: Final[tuple[Case, ...]] = (
    *refs.CASES,
    *settings.CASES,
    *staging.CASES,
    *commits.CASES,
    *merges.CASES,
    *gates.CASES,
    *pulls.CASES,
    *statuses.CASES,
    *tables.CASES,
    *upkeep.CASES,
)
