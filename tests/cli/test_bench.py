"""bench as a command: it measures, and leaves the lake as it was."""

from pathlib import Path

from tests.cli.support import commit, done, put, run

READING = ["scan", "stat of one object", "list a page of 3"]
WRITING = ["create a branch", "stage one change", "commit one change", "diff of those"]


def three_objects() -> None:
    for name in "abc":
        put("main", f"data/{name}", name)
    commit("main", "Three")


def test_a_bench_measures_and_leaves_refs_as_they_were(lake: Path) -> None:
    three_objects()
    before = done("log", "lakefs://lake/main", "--json").lines, done("branch", "list", "lakefs://lake", "--json").lines
    lines = done("bench", "lakefs://lake/main/", "--repeat", "2", "--json").lines
    assert [line["operation"] for line in lines] == READING + WRITING
    for line in lines:
        assert 0 < line["fastest_ms"] <= line["median_ms"] <= line["slowest_ms"]
    assert [line["items"] for line in lines] == [3, 1, 3, 1, 1, 1, 2]
    after = done("log", "lakefs://lake/main", "--json").lines, done("branch", "list", "lakefs://lake", "--json").lines
    assert after == before
    table = done("bench", "lakefs://lake/main/data/").out
    assert all(operation in table for operation in READING + WRITING)


def test_a_bench_that_only_reads_changes_nothing_at_all(lake: Path) -> None:
    three_objects()
    before = done("reflog", "lakefs://lake/main", "--json").lines
    lines = done("bench", "lakefs://lake/main@/", "--read-only", "--json").lines
    assert [line["operation"] for line in lines] == READING
    assert done("reflog", "lakefs://lake/main", "--json").lines == before


def test_a_bench_of_nothing_and_of_what_is_not_there(lake: Path) -> None:
    assert [line["operation"] for line in done("bench", "lakefs://lake/main/", "--json").lines] == ["create a branch"]
    assert run("bench", "lakefs://lake/nowhere/").code == 3
    assert run("bench", "lakefs://lake/main/", "--repeat", "0").code == 2
