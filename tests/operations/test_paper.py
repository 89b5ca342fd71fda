"""The largest merge on paper: parts, payloads, history, requests and dollars, computed by the code, stay within the limits."""

from pathlib import Path

import pytest
from bench.operations_paper import FUNCTION_SECONDS, MAX_EVENTS, MAX_PAYLOAD, events, paper, payload, table

from infra.state_machine import INLINE, INLINE_ROUNDS

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
LARGEST = (1_000_000_000, 100_000_000, 40)


def test_the_largest_merge_fits_and_the_page_says_what_it_takes() -> None:
    one = paper(*LARGEST)
    assert one.parts == 1_000
    assert one.part_records == 3_000_000
    assert one.part_seconds < FUNCTION_SECONDS / 10
    assert one.part_memory_mb < 1_769 / 2
    assert one.payload < MAX_PAYLOAD / 10
    assert one.events < MAX_EVENTS / 100
    assert 0 < one.dollars < 10
    for row in table(*LARGEST).splitlines()[2:]:
        assert row in DOCUMENT.read_text(), "write what `python -m bench.operations_paper` prints into the page"


def test_a_history_grows_with_parts_only_while_they_are_inline() -> None:
    """Counted by hand: started, plan 5, choice 2, map 4 with 7 for each part, publish 5, choice 2, ended 2, succeeded."""
    assert events(3) == 1 + 5 + 2 + 4 + 3 * 7 + 5 + 2 + 2 + 1
    assert events(INLINE + 1) == events(1_000) == 1 + 5 + 2 + 6 + 5 + 2 + 2 + 1
    assert events(3, rounds=2) == 2 * events(3) - 4
    assert events(3, failures=5) == events(3) + 15
    # Every inline round with as many parts as can be, each of which failed four times.
    assert events(INLINE, INLINE_ROUNDS, failures=4 * INLINE * INLINE_ROUNDS) < MAX_EVENTS
    assert events(1_000, rounds=100) < MAX_EVENTS


@pytest.mark.parametrize("parts", [1, 40, 41, 1_000])
def test_payloads_hold_a_number_and_a_word_for_each_part(parts: int) -> None:
    assert len('0,"publish",') * parts < payload(parts) < 300 + len('999,"publish",') * parts
    assert payload(parts) < MAX_PAYLOAD


def test_work_is_cut_by_records_and_costs_by_what_is_read() -> None:
    small, large = paper(1_000_000, 100_000), paper(10_000_000, 1_000_000)
    assert (small.parts, large.parts) == (6, 60)
    assert small.part_events == 0 < large.part_events
    assert 9 < large.gets / small.gets < 11
    assert paper(1_000_000_000, 10).parts == 1, "ranges that only one side changed are not read"
    assert paper(*LARGEST).seconds > paper(1_000_000_000, 100_000_000, 1_000).seconds
