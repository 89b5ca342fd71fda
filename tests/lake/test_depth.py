"""The number of requests that wait for one another is that of docs/performance.md; others are sent at the same time."""

from tests.lake.depth import documented, measure, table

MOST = {
    "stat on a branch, warm": 1,
    "link, warm": 2,
    "commit, 1 of 255 ranges changes, warm": 8,
    "merge into a branch that has not changed, warm": 8,
}
"""Requests that may wait for one another."""


def test_each_verb_waits_as_often_as_is_written() -> None:
    assert table() == documented()


def test_what_everybody_waits_for_all_day_waits_for_little() -> None:
    found = {each.name: each.depth for each in measure()}
    assert {name: found[name] for name in MOST if found[name] > MOST[name]} == {}
