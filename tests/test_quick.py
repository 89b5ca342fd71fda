"""The tests of ``make quick``."""

from tests.mutations import MUTATIONS, ROOT
from tests.quick import OF_ROOMS, OTHER_PROCESSES, SLOW, chosen_tests


def test_slow_tests_are_in_the_table_of_mutations() -> None:
    assert {mutation.test.partition("::")[2].partition("[")[0] for mutation in MUTATIONS} >= SLOW


def test_files_and_rooms_are_there() -> None:
    assert [name for name in (*OF_ROOMS, *OTHER_PROCESSES) if not (ROOT / "tests" / name).exists()] == []


def test_most_lines_that_keep_a_promise_are_watched() -> None:
    assert len([test for test in chosen_tests() if "::" in test]) > len(MUTATIONS) // 2
