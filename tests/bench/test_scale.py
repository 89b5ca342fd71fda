"""Lakes of which one range is real: verbs work there as in any other, and what another state of the code lacks is said."""

from pathlib import Path

import pytest
from bench.lines import Goal
from bench.scale import (
    BEFORE,
    BILLION,
    HERE,
    NOW,
    PACKAGE,
    RECORDS,
    ROWS,
    WARM,
    Asked,
    LackingError,
    Measured,
    Worker,
    fill,
    line,
    path,
    summary,
)

from graveler.lake.lake import Lake
from graveler.model import SplitParameters
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from graveler.tree.split import first_cut, is_candidate

OBJECTS = 100_000


def test_the_real_range_ends_where_the_rule_says() -> None:
    keys = [path(number).encode() for number in range(2 * RECORDS)]
    assert first_cut(SplitParameters(), keys) == RECORDS
    assert is_candidate(SplitParameters(), keys[RECORDS - 1])


def test_a_lake_has_as_many_objects_as_it_should_in_ranges_of_the_usual_length() -> None:
    objects = MemoryObjects("mem://bench")
    repository = Lake(MemoryTables(), lambda _: objects).create_repository("bench", "mem://bench")
    size = fill(repository, OBJECTS)
    tree = repository.tree("main")
    counts = [tree.info(number).count for number in range(len(tree))]
    assert tree.lasts == sorted(tree.lasts)
    assert all(9_300 <= count <= 10_000 for count in counts)
    assert OBJECTS <= sum(counts) < OBJECTS + 20_000
    assert all(tree.info(number).first > tree.lasts[number - 1] for number in range(1, len(tree)))
    assert size == len(tree.file())
    assert [stored.key for stored in objects.list("_graveler/ranges/")] == [
        f"_graveler/ranges/{tree.info(counts.index(RECORDS)).name}"
    ]


@pytest.mark.parametrize("bare", [False, True])
def test_each_verb_works_in_a_warm_process_as_often_as_it_is_asked_for(*, bare: bool, tmp_path: Path) -> None:
    worker = Worker(OBJECTS, tmp_path / "lake", bare=bare)
    for verb in WARM:
        for _ in range(2):
            assert worker.answer(f"warm {verb}")["cpu"] >= 0


def test_each_verb_works_in_a_cold_process(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with Asked(HERE, OBJECTS, lake) as asked:
        size = asked.ask("make")["metarange"]
    with Asked(HERE, OBJECTS, lake) as asked:
        assert 0 < asked.ask("cold stat")["read"] <= size
    with Asked(HERE, OBJECTS, lake) as asked:
        answer = asked.ask("cold commits")
    assert answer["memory"] >= 0
    assert answer["cpu"] > 0


def test_what_another_state_of_the_code_lacks_is_noted_and_this_one_must_lack_nothing(tmp_path: Path) -> None:
    package = tmp_path / PACKAGE / "graveler"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    with Asked(tmp_path, OBJECTS, tmp_path / "lake") as asked, pytest.raises(LackingError, match="graveler") as caught:
        asked.ask("warm commit")
    measured = Measured()
    measured.lacks("commit", BEFORE, OBJECTS, caught.value)
    assert "Not measured before: commit at 100,000 objects" in measured.remarks[0]
    with pytest.raises(SystemExit):
        measured.lacks("commit", NOW, OBJECTS, caught.value)


def test_a_line_compares_with_the_smallest_lake_and_with_the_state_before() -> None:
    measured = Measured()
    for seconds in (0.004, 0.005, 0.009):
        measured.add("commit", NOW, 1_000, seconds)
        measured.add("commit", NOW, BILLION, 10 * seconds)
    measured.add("commit", BEFORE, BILLION, 1.0)
    shown = line("commit", BILLION, 1_000, measured)
    assert shown.measured == "50 ms"
    assert shown.beside == "before: 1.00 s, 20 × as much"
    assert shown.goals == (Goal("× the smallest lake's", 10.0, 8),)
    assert shown.met == "**no**: × the smallest lake's"
    assert line("commit", 1_000, 1_000, measured).met == ""
    measured.add("read", NOW, BILLION, 128 << 10)
    assert line("read", BILLION, 1_000, measured).goals == (Goal("KiB", 128, 256),)


def test_the_table_of_the_page_has_a_column_for_each_lake_and_one_for_the_largest_before() -> None:
    medians = {NOW: {"commit": {1_000: 0.004, 2_000: 0.005}, "memory": {2_000: 3e5}}, BEFORE: {"commit": {2_000: 1.0}}}
    lines = summary(medians).splitlines()
    assert lines[0] == "| | 1,000 objects | 2,000 objects | before |"
    assert lines[2] == f"| {ROWS['commit'].title} | 4 ms | 5 ms | 1.00 s |"
    assert f"| {ROWS['memory'].title} |  | 300 KB |  |" in lines
