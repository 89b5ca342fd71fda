"""Requests that wait for one another are as many as docs/performance.md says: what could go out at the same time does."""

from tests.lake.depth import documented, table


def test_each_verb_waits_as_often_as_is_written() -> None:
    assert table() == documented()
