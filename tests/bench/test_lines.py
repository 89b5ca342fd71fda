"""The goals in a run's table, and how tables are kept."""

from bench.lines import Goal, Line
from bench.results import replaced

DOCUMENT = """# Results

<!-- all -->
## 2026-01-01, commit a: `python -m bench`

| what | measured |
|---|---|
| import | 3 s |
| commit | 1 s |
<!-- end -->

## Earlier

<!-- earlier -->
| date | commit, command | headline |
|---|---|---|
| 2025-12-31 | commit 0: `python -m bench` | import: 4 s |
"""


def test_a_row_meets_its_goals_if_it_meets_all_of_them() -> None:
    met, missed, unknown = Goal("CPU", 2, 2), Goal("rate", 0.3, 0.4, least=True), Goal("time", None, 1)
    assert Line("a", "1 s").met == ""
    assert Line("a", "1 s", goals=(met,)).met == "yes"
    assert Line("a", "1 s", goals=(met, unknown)).met == "?"
    assert Line("a", "1 s", goals=(met, unknown, missed)).met == "**no**: rate"
    assert Line("a", "1 s", goals=(met,), failed="3 errors").met == "**failed**"
    assert "CPU 2.00 (≤ 2); rate 0.30 (≥ 0.4); time not measured (≤ 1)" in str(
        Line("a", "1 s", goals=(met, missed, unknown))
    )


def test_the_newest_table_takes_the_place_of_the_one_before_which_becomes_a_line() -> None:
    text = "About it.\n\n| what | measured |\n|---|---|\n| import | 2 s |\n"
    found = replaced(DOCUMENT, "all", "2026-01-02, commit b: `python -m bench`", text)
    assert found == DOCUMENT.replace(
        "## 2026-01-01, commit a: `python -m bench`\n\n| what | measured |\n|---|---|\n| import | 3 s |\n| commit | 1 s |\n",
        f"## 2026-01-02, commit b: `python -m bench`\n\n{text}",
    ).replace("|---|---|---|\n", "|---|---|---|\n| 2026-01-01 | commit a: `python -m bench` | import: 3 s |\n")
