"""Blocks of row IDs: each branch numbers new rows apart from all others, and its numbers only rise."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.table_format.row_id_blocks import BLOCK_ROWS, CYCLE_ROWS, with_own_row_ids

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
BRANCHES = st.text(min_size=1, max_size=20)


def served(next_row_id: int, branch: str, uuid: str = UUID) -> int:
    number: int = with_own_row_ids({"table-uuid": uuid, "next-row-id": next_row_id}, branch, "main")["next-row-id"]
    return number


@given(st.integers(0, 1 << 62), BRANCHES)
def test_numbers_rise_by_less_than_a_cycle_and_stay_in_a_block(next_row_id: int, branch: str) -> None:
    begin = served(next_row_id, branch)
    assert next_row_id <= begin < max(next_row_id, CYCLE_ROWS) + CYCLE_ROWS
    assert served(begin, branch) == begin
    assert served(begin + 1, branch) == begin + 1
    assert served(begin, branch, UUID.upper()) == begin


@given(st.integers(0, CYCLE_ROWS - 1), BRANCHES)
def test_the_default_branch_has_no_gaps_below_a_cycle(next_row_id: int, branch: str) -> None:
    assert served(next_row_id, "main") == next_row_id
    assert served(next_row_id, branch) >= CYCLE_ROWS or branch == "main"


def test_branches_and_merges_give_no_number_twice() -> None:
    random = Random("row-id-blocks")
    branches = [f"branch-{number}" for number in range(6)]
    blocks = {served(0, branch) // BLOCK_ROWS for branch in branches}
    assert len(blocks) == len(branches)
    counters = dict.fromkeys(["main", *branches], 0)
    numbers: list[tuple[int, int]] = []
    for _ in range(500):
        branch = random.choice(list(counters))
        if random.random() < 0.3:  # a merge
            counters[branch] = max(counters[branch], counters[random.choice(list(counters))])
            continue
        begin = served(counters[branch], branch)
        counters[branch] = begin + random.randint(1, 1000)
        numbers.append((begin, counters[branch]))
    numbers.sort()
    assert all(end <= begin for (_, end), (begin, _) in pairwise(numbers))


def test_a_writer_of_more_rows_than_a_block_has_goes_on_in_its_next_one() -> None:
    begin = served(0, "dev")
    following = served(begin + BLOCK_ROWS, "dev")
    assert following == begin + CYCLE_ROWS


@pytest.mark.parametrize("metadata", [{"table-uuid": UUID}, {"table-uuid": UUID, "next-row-id": (1 << 63) - 2}])
def test_metadata_without_room_for_a_block_stay_as_they_are(metadata: dict[str, object]) -> None:
    assert with_own_row_ids(metadata, "dev", "main") is metadata
