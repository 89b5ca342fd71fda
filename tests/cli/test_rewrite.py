"""branch rewrite: other ranges, the same objects."""

from pathlib import Path

from tests.cli.support import commit, done, put, run

SIZES = ("--min-size", "50", "--max-size", "100", "--raggedness", "2")


def test_a_branch_is_rewritten_and_nothing_differs(lake: Path) -> None:
    for name in "abcde":
        put("main", name, name)
    commit("main", "letters")
    made = done("branch", "rewrite", "lakefs://lake/main", *SIZES, "--meta", "why=size", "--json").json
    assert made["message"] == "Rewrite with min_size=50, max_size=100, raggedness=2"
    assert made["metadata"] == {".graveler.split": "50/100/2", "why": "size"}
    assert done("diff", "lakefs://lake/main~1..main").out == "no differences\n"
    assert run("branch", "rewrite", "lakefs://lake/main", *SIZES).code == 5
    again = done("branch", "rewrite", "lakefs://lake/main", *SIZES[:-1], "3", "-m", "Other ranges")
    assert again.out.startswith("rewrote main: ")
    assert again.out.endswith(" Other ranges\n")
    assert done("fsck", "lake").out.endswith("nothing is wrong in what was checked\n")
    assert run("branch", "rewrite", "lakefs://lake/main", *SIZES[:-1], "0").code == 2
