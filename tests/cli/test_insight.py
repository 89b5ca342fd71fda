"""log with filters, blame, du and summaries as commands: their output, JSON and errors."""

import time
from pathlib import Path
from typing import Any

import pytest

from graveler.cli.times import parse_moment
from graveler.errors import InvalidError
from tests.cli.support import commit, done, make_conflict, put, run
from tests.support.shell import Shell

TIMES = (
    "write a date (2026-06-01), a date with time (2026-06-01T12:00, local; with Z, UTC), how long ago (1 hour ago, 90m, 3d or "
    "yesterday), or Unix seconds (@1780000000)"
)


@pytest.fixture
def three(lake: Path) -> list[str]:
    """Commits: data/a and top; data/b; data/a again."""
    put("main", "data/a", "1")
    put("main", "top", "22")
    made = [commit("main", "One")]
    put("main", "data/b", "333")
    made.append(commit("main", "Two\n\nmore"))
    put("main", "data/a", "4444")
    return [*made, commit("main", "Three")]


def subjects(*arguments: object) -> list[str]:
    return [
        line["message"].partition("\n")[0] for line in done("log", "lakefs://lake/main", *arguments, "--json").lines
    ]


def test_a_log_shows_only_what_was_asked_for(three: list[str]) -> None:
    assert subjects("--path", "data/a") == ["Three", "One"]
    assert subjects("--path", "data/b", "--path", "top") == ["Two", "One"]
    assert subjects("--prefix", "data/", "-n", "2") == ["Three", "Two"]
    assert subjects("--path", "data") == []
    assert subjects("--stop-at", "main~1") == ["Three", "Two"]
    assert subjects("--stop-at", "lakefs://lake/main~1", "--path", "data/a") == ["Three"]
    assert subjects("--since", "1d", "-n", "1") == ["Three"]
    assert subjects("--since", f"@{int(time.time()) + 1000}") == []


def test_a_log_of_the_first_parent_shows_what_merges_brought(lake: Path) -> None:
    make_conflict()
    done("merge", "lakefs://lake/dev", "main", "--strategy", "source-wins", "-m", "Merged")
    first, second, last = subjects("--path", "a.txt")
    assert ({first, second}, last) == ({"On dev", "On main"}, "Base")  # both sides are of one second
    assert subjects("--path", "a.txt", "--first-parent") == ["Merged", "On main", "Base"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ("--since", "tomorrow"),
            2,
            f"--since 'tomorrow' is not a time; {TIMES}",
        ),
        (("--path", ""), 2, "path"),
        (("--graph", "--path", "a"), 2, "--graph draws the whole history"),
        (("--stop-at", "nowhere"), 3, "nowhere"),
        (("--stop-at", "lakefs://other/main"), 2, "must be in the same repository"),
    ],
)
def test_what_a_log_refuses(lake: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    refused = run("log", "lakefs://lake/main", *arguments)
    assert (refused.code, refused.out, said in refused.err) == (code, "", True), refused.err


def test_times(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    shell.export("TZ", "UTC-2")
    time.tzset()
    try:
        assert parse_moment("--since", "@1780000000") == 1_780_000_000
        assert parse_moment("--since", "2026-06-01T12:00Z") == 1_780_315_200
        assert parse_moment("--since", "2026-06-01T12:00+01:00") == 1_780_315_200 - 3600
        assert parse_moment("--since", "2026-06-01T12:00") == 1_780_315_200 - 7200
        assert parse_moment("--since", "2026-06-01") == 1_780_315_200 - 43_200 - 7200
        monkeypatch.setattr(time, "time", lambda: 1_000_000.5)
        assert parse_moment("--since", "90m") == 1_000_000 - 5400
        assert parse_moment("--since", "2w") == 1_000_000 - 1_209_600
        assert parse_moment("--since", "1 hour ago") == 1_000_000 - 3600
        assert parse_moment("--since", "yesterday") == 1_000_000 - 86_400
    finally:
        monkeypatch.undo()
        time.tzset()
    for wrong in ("", "3", "3y", "-3d", "2026-13-01", "@", "12:00"):
        with pytest.raises(InvalidError, match=r"--since .* is not a time"):
            parse_moment("--since", wrong)


def test_a_state_by_how_long_ago_it_was(three: list[str]) -> None:
    assert done("show", "lakefs://lake/main@{now}", "--json").lines[0]["id"] == three[-1]
    assert done("ls", "lakefs://lake/main@{0.seconds.ago}/").out.splitlines()[-1].endswith("top")
    early = run("ls", "lakefs://lake/main@{1 hour ago}/")
    assert (early.code, early.out) == (3, "")
    assert early.err.startswith(
        "error: ref 'main@{1 hour ago}' not found: branch 'main' did not exist yet: it was created"
    )


def test_blame_names_the_commit_that_made_an_object_what_it_is(three: list[str]) -> None:
    one, two, last = three
    line = done("blame", "lakefs://lake/main/data/b").out
    assert line.startswith(two[:12])
    assert line.endswith("  tester  data/b  Two\n")
    (document,) = done("blame", "lakefs://lake/main~1/data/a", "--json").lines
    assert (document["type"], document["path"], document["commit"]["id"]) == ("object", "data/a", one)
    put("main", "new", "1")

    def listed(*arguments: str) -> list[tuple[str, str, str]]:
        lines: list[Any] = done("blame", *arguments, "--json").lines
        return [(line["type"], line["path"], line["commit"]["id"]) for line in lines]

    assert listed("lakefs://lake/main/") == [("prefix", "data/", last), ("object", "top", one)]
    assert listed("lakefs://lake/main/data/") == [("object", "data/a", last), ("object", "data/b", two)]
    assert listed("-r", "lakefs://lake/main/") == [
        ("object", "data/a", last),
        ("object", "data/b", two),
        ("object", "top", one),
    ]
    uncommitted = run("blame", "lakefs://lake/main/new")
    assert (uncommitted.code, "'new' is an uncommitted change of 'main'" in uncommitted.err) == (3, True)
    assert run("blame", "lakefs://lake/main/none").code == 3


def test_du_sums_up_what_ls_shows(three: list[str]) -> None:
    put("main", "new", "1")
    assert [line.split() for line in done("du", "lakefs://lake/main/").out.splitlines()] == [
        ["3", "B", "2", "objects", "(in", "no", "folder)"],
        ["7", "B", "2", "objects", "data/"],
        ["10", "B", "4", "objects", "total"],
    ]
    assert done("du", "-s", "lakefs://lake/main@/", "--json").lines == [
        {"type": "total", "path": "", "objects": 3, "size": 9}
    ]
    assert done("du", "lakefs://lake/main/data/", "--json").lines == [
        {"type": "direct", "path": "data/", "objects": 2, "size": 7},
        {"type": "total", "path": "data/", "objects": 2, "size": 7},
    ]
    assert done("du", "lakefs://lake/main/none").out.split() == ["0", "B", "0", "objects", "total"]
    assert run("du", "lakefs://lake/nowhere/").code == 3


def test_a_summary_of_differences(three: list[str]) -> None:
    done("rm", "lakefs://lake/main/top")
    put("main", "data/a", "55555")
    assert done("status", "lakefs://lake/main", "--summary").out.splitlines()[1:] == [
        "- 1 object, 2 B; ~ 1 object, 4 B → 5 B"
    ]
    commit("main", "Four")
    assert done("diff", "lakefs://lake/main~3..main", "--summary", "--folders").out.splitlines() == [
        "- 1 object, 2 B  (in no folder)",
        "+ 1 object, 3 B; ~ 1 object, 1 B → 5 B  data/",
        "+ 1 object, 3 B; - 1 object, 2 B; ~ 1 object, 1 B → 5 B  total",
    ]
    assert done("diff", "lakefs://lake/main..main", "--summary").out == "no differences\n"
    (total,) = done("diff", "lakefs://lake/main~1...main", "--summary", "--prefix", "data/", "--json").lines
    assert total == {
        "type": "total",
        "path": "data/",
        "added": 0,
        "added_bytes": 0,
        "removed": 0,
        "removed_bytes": 0,
        "changed": 1,
        "changed_bytes_before": 4,
        "changed_bytes_after": 5,
    }


def test_du_says_which_branch_or_tag_holds_what_is_stored(lake: Path) -> None:
    put("main", "a", "12345")
    commit("main", "One")
    done("branch", "create", "lakefs://lake/side", "--source", "lakefs://lake/main")
    put("side", "b", "1234567")
    told = done("du", "--physical", "lakefs://lake", "--json").json
    holders = {holder["name"]: holder for holder in told["holders"] if holder["kind"] == "branch"}
    assert holders["main"]["held"] == {"files": 1, "bytes": 5}
    assert holders["main"]["exclusive"] == {"files": 0, "bytes": 0}
    assert holders["side"]["held"] == {"files": 2, "bytes": 12}
    assert holders["side"]["exclusive"] == {"files": 1, "bytes": 7}
    assert told["objects"] == {"files": 2, "bytes": 12}
    text = done("du", "--physical", "lake").out
    assert "      12 B         7 B         0 B  branch side" in text
    assert "2 objects, 12 B" in text
    refused = run("du", "-s", "--physical", "lake")
    assert (refused.code, "leave out --total" in refused.err) == (2, True)
