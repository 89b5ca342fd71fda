"""What notebooks show: tables of listings and handles, escaped, without taking anything from what is listed."""

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from typing import Protocol

import pytest

import graveler
from graveler.lake.reading.summary import Summary
from graveler.model import ObjectEntry, Page, Totals
from graveler.sdk.lake import Lake
from graveler.sdk.listing import listing
from graveler.sdk.repository import Repository
from tests.support.notebooks import html_of

HOSTILE = "<script>alert('1')</script>&\"\u202etxt\u200f\n\x1b[31m„odd“"
SHOWN = "<script>alert('1')</script>&\"\\u202etxt\\u200f\\n\\x1b[31m„odd“"


class Displayed(Protocol):
    """Whatever a notebook shows as HTML."""

    def _repr_html_(self) -> str: ...


class Table(HTMLParser):
    """A table, read as a browser reads it. Fails for whatever could run, load something or end another element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.caption = ""
        self.rows: list[list[str]] = []
        self.right: list[list[bool]] = []
        self.titles: dict[str, str] = {}
        self.notes: list[str] = []
        self._open: list[str] = []
        self._title = ""
        self.feed(html)
        self.close()
        assert self._open == []
        assert html.encode()
        assert "http" not in html.partition("</caption>")[2], "but in a caption, which may be the address of a lake"
        assert "url(" not in html
        assert all(line.isprintable() for line in html.split("\n"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span"}
        given = {name: value or "" for name, value in attributes}
        assert set(given) <= {"style", "title", "scope"}
        self._open.append(tag)
        self._title = given.get("title", "")
        if tag == "tr":
            self.rows.append([])
            self.right.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
            self.right[-1].append("text-align:right" in given["style"])
        elif tag == "div" and self._open != ["div"]:
            self.notes.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "caption" in self._open:
            self.caption += data
        elif "th" in self._open or "td" in self._open:
            self.rows[-1][-1] += data
            if self._title:
                self.titles[data] = self._title
        elif self._open == ["div", "div"]:
            self.notes[-1] += data

    @property
    def fields(self) -> dict[str, str]:
        """The values by their names."""
        return {row[0]: row[1] for row in self.rows}


def shown(value: Displayed) -> Table:
    return Table(html_of(value))


@pytest.fixture
def changed(repo: Repository) -> Repository:
    """A repository with a commit of three objects, and three uncommitted changes."""
    main = repo.branch("main")
    for name, size in (("raw/a", 16), ("raw/b", 2048), ("raw/c", 5)):
        main.object(name).upload("x" * size)
    main.commit("Three objects\n\nand why", {"source": "test"})
    main.object("raw/a").delete()
    main.object("raw/b").upload("y" * 1024)
    main.object("raw/d").upload("z" * 3)
    return repo


def test_what_is_shown_is_still_to_come(repo: Repository) -> None:
    main = repo.branch("main")
    for n in range(25):
        main.object(f"o/{n:02}").upload(str(n))
    objects = main.objects()
    assert isinstance(objects, Iterator)
    assert repr(objects) == "Listing('objects of lakefs://demo/main')"
    table = shown(objects)
    assert [row[0] for row in table.rows] == ["path", *(f"o/{n:02}" for n in range(20))]
    assert table.notes == ["first 20; more follow"]
    assert shown(objects).rows == table.rows
    assert next(objects).path == "o/00"
    running = iter(objects)
    assert [item.path for item in islice(running, 2)] == ["o/01", "o/02"]
    table = shown(objects)
    assert (table.rows[1][0], table.notes) == ("o/03", ["next 20; more follow"])
    assert [item.path for item in running] == [f"o/{n:02}" for n in range(3, 25)], "a loop that runs loses nothing"
    assert shown(objects).notes == ["nothing more"]
    assert list(objects) == []


def test_a_whole_listing_says_so(repo: Repository) -> None:
    main = repo.branch("main")
    assert shown(main.objects()).notes == ["nothing"]
    main.object("a").upload("")
    main.object("b").upload("")
    objects = main.objects()
    assert shown(objects).notes == ["2 in all"]
    next(objects)
    assert shown(objects).notes == ["the last 1"]
    assert shown(main.objects(max_amount=1)).notes == ["1 in all"]


def test_objects_have_sizes_with_units_at_the_right(changed: Repository) -> None:
    table = shown(changed.ref("main@").objects())
    assert table.caption == "objects of lakefs://demo/main@"
    assert [row[:2] for row in table.rows[1:]] == [["raw/a", "16 B"], ["raw/b", "2.0 KiB"], ["raw/c", "5 B"]]
    assert all(right == [False, True, False, False] for right in table.right)
    assert table.titles["2.0 KiB"] == "2,048 bytes"
    assert shown(changed.ref("main").objects(delimiter="/")).rows[1] == ["raw/", "", "", ""]


def test_changes_have_marks_and_sums(changed: Repository) -> None:
    main = changed.branch("main")
    uncommitted = shown(main.uncommitted())
    assert uncommitted.rows[1:] == [
        ["-", "raw/a", "16 B", ""],
        ["~", "raw/b", "2.0 KiB", "1.0 KiB"],
        ["+", "raw/d", "", "3 B"],
    ]
    assert uncommitted.notes == ["3 in all", "+ 1 object, 3 B; - 1 object, 16 B; ~ 1 object, 2.0 KiB → 1.0 KiB"]
    assert uncommitted.titles["~"] == "changed"
    first = changed.ref("main~1")
    assert shown(first.diff(main)).notes == ["3 in all", "+ 3 objects, 2.0 KiB"]
    prefixes = shown(main.uncommitted(delimiter="/"))
    assert (prefixes.rows[1:], prefixes.notes) == ([["*", "raw/", "", ""]], ["1 in all"])


def test_sums_of_a_part_say_so(repo: Repository) -> None:
    main = repo.branch("main")
    for n in range(21):
        main.object(f"{n:02}").upload("1")
    assert shown(main.uncommitted()).notes == ["first 20; more follow", "in these rows: + 20 objects, 20 B"]


def test_a_commit_is_shown_by_its_fields(changed: Repository) -> None:
    commit = changed.ref("main").get_commit()
    table = shown(commit)
    assert table.fields == {
        "ID": commit.id[:12],
        "message": "Three objects\n\nand why",
        "author": "ada",
        "date": table.fields["date"],
        "parents": commit.parents[0][:12],
        "metadata": "source = test",
    }
    assert table.fields["date"].endswith(" UTC")
    assert table.titles[commit.id[:12]] == commit.id
    assert table.titles[commit.parents[0][:12]] == commit.parents[0]
    log = shown(changed.ref("main").log())
    assert [(row[0], row[3]) for row in log.rows[1:]] == [
        (commit.id[:12], "Three objects"),
        (commit.parents[0][:12], "Repository created"),
    ]
    assert log.titles["Three objects"] == "Three objects\\n\\nand why"


def test_handles_show_what_they_name(changed: Repository) -> None:
    changed.set_metadata({"team": "sales"})
    main, commit = changed.branch("main"), changed.ref("main").get_commit()
    branch = shown(main)
    assert branch.caption == "branch lakefs://demo/main"
    assert (branch.fields["head"], branch.fields["uncommitted"]) == (commit.id[:12], "3 changes")
    tag = shown(changed.tag("v1").create("main"))
    assert (tag.caption, tag.fields) == ("tag lakefs://demo/v1", shown(commit).fields)
    by_id = changed.ref(commit.id)
    assert shown(by_id).caption == f"reference lakefs://demo/{commit.id[:12]}"
    assert f'title="reference lakefs://demo/{commit.id}"' in html_of(by_id)
    compared = shown(by_id.diff(commit.id, type="two_dot"))
    assert compared.caption == f"diff of lakefs://demo/{commit.id[:12]} and {commit.id[:12]}"
    assert shown(changed.ref("main~1")).fields["ID"] == commit.parents[0][:12]
    repository = shown(changed)
    assert repository.caption == "repository demo"
    assert repository.fields["storage namespace"] == changed.properties.namespace
    assert repository.fields["default branch"] == "main"
    assert repository.fields["head"] == f"{commit.id[:12]}\nThree objects"
    assert repository.fields["metadata"] == "team = sales"
    assert shown(changed.branches()).rows[1:] == [["main", commit.id[:12]]]
    assert shown(changed.tags()).rows[1:] == [["v1", commit.id[:12]]]


def test_a_branch_without_changes_says_so(repo: Repository) -> None:
    main = repo.branch("main")
    assert shown(main).fields["uncommitted"] == "none"
    for n in range(21):
        main.object(str(n)).upload("1")
    assert shown(main).fields["uncommitted"] == "more than 20 changes"


def test_repositories_are_shown(lake: Lake, repo: Repository) -> None:
    found = {row[0]: row[1:3] for row in shown(lake.repositories()).rows[1:]}
    assert found["demo"] == [repo.properties.namespace, "main"]


def test_what_does_not_exist_is_said(lake: Lake, repo: Repository) -> None:
    for value in (repo.branch("nobody"), repo.tag("nobody"), repo.ref("nobody"), repo.branch("nobody").objects()):
        table = shown(value)
        assert table.rows == []
        assert "'nobody'" in table.notes[0]
    assert "'absent' does not exist" in shown(lake.repository("absent")).notes[0]


def test_an_empty_diff_says_which_question_it_answers(changed: Repository) -> None:
    main = changed.ref("main@")
    three, two = main.diff("main~1"), main.diff("main@", type="two_dot")
    assert repr(three) == "Listing('changes of main~1 since its merge base with lakefs://demo/main@')"
    assert shown(three).caption == "changes of main~1 since its merge base with lakefs://demo/main@"
    assert shown(three).notes == ["nothing that a merge would bring; type='two_dot' compares the two commits"]
    assert shown(two).caption == "diff of lakefs://demo/main@ and main@"
    assert shown(two).notes == ["the two commits have the same objects"]
    for empty in (three, two):  # the caption of a table without rows would be as narrow as a letter
        assert "width:100%" in html_of(empty).partition("<caption")[0]
    assert "width:100%" not in html_of(main.objects())
    assert len(list(main.diff("main~1", type="two_dot"))) == 3


def test_a_lake_is_called_by_its_address(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "lake") as lake:
        assert shown(lake).caption == f"lake {tmp_path / 'lake'}"


def test_a_lake_shows_its_repositories(lake: Lake, repo: Repository) -> None:
    table = shown(lake)
    assert table.caption.startswith("lake ")
    assert [repo.id, repo.properties.namespace, "main"] in [row[:3] for row in table.rows[1:]]
    assert table.notes[-1] == "changes are made by ada"


def test_a_stat_shows_all_fields(repo: Repository) -> None:
    entry = repo.branch("main").object("a").upload("x" * 2048, metadata={"k": "v"}).stat()
    table = shown(entry)
    assert table.caption == "object a"
    assert table.fields == {
        "size": "2.0 KiB",
        "modified": table.fields["modified"],
        "content type": "application/octet-stream",
        "checksum": entry.checksum,
        "address": entry.address,
        "metadata": "k = v",
    }
    assert "a" in repr(entry)


def test_summaries_are_tables_and_text(changed: Repository) -> None:
    changed.branch("main").object("top").upload("1")
    changed.branch("main").commit("More")
    summary = changed.ref("main~1").diff_summary("main", delimiter="/")
    rows = [["(no folder)", "1, 1 B", "", ""], ["raw/", "1, 3 B", "1, 16 B", "1, 2.0 KiB → 1.0 KiB"]]
    total = ["total", "2, 4 B", "1, 16 B", "1, 2.0 KiB → 1.0 KiB"]
    assert shown(summary).rows == [["path", "added", "removed", "changed"], *rows, total]
    assert str(summary).splitlines() == [
        "changes of main since its merge base with lakefs://demo/main~1",
        "path          added  removed               changed",
        "(no folder)  1, 1 B",
        "raw/         1, 3 B  1, 16 B  1, 2.0 KiB → 1.0 KiB",
        "total        2, 4 B  1, 16 B  1, 2.0 KiB → 1.0 KiB",
    ]
    backwards = changed.ref("main").diff_summary("main~1")
    assert str(backwards).splitlines() == [
        "changes of main~1 since its merge base with lakefs://demo/main",
        "nothing that a merge would bring; type='two_dot' compares the two commits",
    ]
    same = changed.ref("main").diff_summary("main", type="two_dot")
    assert str(same) == "diff of lakefs://demo/main and main\nthe two commits have the same objects"
    assert str(Summary(Totals())) == "differences\nnone"
    usage = changed.ref("main").usage(delimiter="/")
    assert shown(usage).rows[1:] == [["(no folder)", "1", "1 B"], ["raw/", "3", "1.0 KiB"], ["total", "4", "1.0 KiB"]]
    assert str(usage).splitlines()[-1] == "total              4  1.0 KiB"


def test_rows_of_a_query_are_shown_and_still_to_come(lake: Lake, repo: Repository) -> None:
    hostile = HOSTILE.replace("'", "''").replace("\n", " ")
    with lake.sql(f"SELECT range AS n, '{hostile}' AS t, NULL AS nix FROM range(25)") as result:
        table = shown(result)
        assert table.rows[:2] == [["n", "t", "nix"], ["0", SHOWN.replace("\\n", " "), "NULL"]]
        assert (len(table.rows), table.right[0], table.notes) == (21, [True, False, False], ["first 20; more follow"])
        assert [row[0] for row in islice(result, 3)] == [0, 1, 2]
        assert repr(result).splitlines()[2].startswith(" 3  ")
        assert [row[0] for row in result] == list(range(3, 25))
        assert repr(result).endswith("no rows")
    with lake.sql("SELECT repeat('x', 1000000) AS t FROM range(20)") as result:
        assert len(html_of(result)) < 100_000, "a notebook keeps what it shows"
        assert shown(result).titles[f"{'x' * 71}…"] == f"{'x' * 1999}…"
    with lake.sql("SELECT 1 AS x") as result:
        assert repr(result) == "result\nx\n1\n1 row"
        assert result.to_arrow().read_all().num_rows == 1, "showing takes nothing"
    with lake.sql("CREATE TABLE t AS SELECT 1 AS x") as result:
        assert repr(result) == "result\nthe statement returns no rows"
    with lake.sql("PIVOT (SELECT 'a' AS k, 1 AS v) ON k USING sum(v)") as result:
        assert (repr(result), list(result)) == ("result\na\n1\n1 row", [(1,)])
    with lake.sql("SELECT CAST('x' || range AS INTEGER) AS n FROM range(3)") as result:
        assert "Conversion Error" in shown(result).notes[0]
        assert "Conversion Error" not in repr(result)


def test_changed_rows_have_columns_before_and_after(repo: Repository) -> None:
    main = repo.branch("main")
    main.object("t.csv").upload("id,amount,note\n1,10,same\n2,20,same\n3,30,same\n")
    main.commit("One")
    main.object("t.csv").upload("id,amount,note,more\n1,11,same,\n2,20,same,\n4,40,<b>,\n")
    main.commit("Two")
    with repo.ref("main~1").diff_rows("main", "t.csv", keys=["id"]) as diff:
        table = shown(diff)
        assert table.caption == "rows: + 1 added, - 1 removed, ~ 1 changed"
        columns = ["", "id", "amount before", "amount after", "note before", "note after", "more before", "more after"]
        assert table.rows == [
            columns,
            ["~", "1", "10", "11", "same", "same", "NULL", "NULL"],
            ["-", "3", "30", "", "same", "", "NULL", ""],
            ["+", "4", "", "40", "", "<b>", "", "NULL"],
        ]
        assert table.notes == ["column more: none → VARCHAR"]
        assert repr(diff).splitlines()[:3] == [
            "rows: + 1 added, - 1 removed, ~ 1 changed",
            "   id  amount before  amount after  note before  note after  more before  more after",
            "~  1   10             11            same         same        NULL         NULL",
        ]
    with repo.ref("main~1").diff_rows("main~1", "t.csv") as diff:
        assert repr(diff) == "rows: equal"
    main.object("t.csv").upload("id,amount,note,more\n1,12,same,\n2,20,same,\n4,40,<b>,\n")
    main.commit("Three")
    with repo.ref("main~1").diff_rows("main", "t.csv", keys=["id"]) as diff:
        assert shown(diff).rows == [["", "id", "amount before", "amount after"], ["~", "1", "11", "12"]]
        assert shown(diff).notes == ["2 columns without a difference are left out"]
    with repo.ref("main~2").diff_rows("main~1", "t.csv") as diff:
        assert [row[:3] for row in shown(diff).rows[:2]] == [["", "id", "amount"], ["-", "1", "10"]]


def test_hostile_names_are_text(repo: Repository) -> None:
    main = repo.branch("main")
    main.object(HOSTILE).upload("", metadata={HOSTILE: HOSTILE})
    assert shown(main.objects()).rows[1][0] == SHOWN
    assert shown(main.uncommitted()).rows[1][1] == SHOWN
    main.commit(HOSTILE, {HOSTILE: HOSTILE})
    assert shown(main).fields["metadata"] == f"{SHOWN} = {SHOWN}"
    assert shown(main.log()).rows[1][3] == SHOWN.partition("\\n")[0]
    segment = SHOWN.replace("/", "%2F")  # of an address
    assert segment in shown(repo.branch(HOSTILE)).caption
    assert segment in shown(repo.ref(HOSTILE).objects()).caption


def test_halves_of_characters_are_shown() -> None:
    entry = ObjectEntry("a\udcff\ud800", "mem://a", 1, "", 2**62)
    table = shown(listing("\udcff", ObjectEntry, lambda _: Page((entry,))))
    assert (table.caption, table.rows[1][:3]) == ("\\udcff", ["a\\udcff\\ud800", "1 B", f"@{2**62}"])


def test_who_shows_nothing_loads_nothing() -> None:
    program = (
        "import sys, graveler\n"
        "from graveler.lake.lake import Lake\n"
        "from graveler.storage.objects.memory import MemoryObjects\n"
        "from graveler.storage.tables.memory import MemoryTables\n"
        "repo = graveler.Lake(Lake(MemoryTables(), MemoryObjects)).repository('demo').create('mem://demo')\n"
        "repr(repo.branch('main').objects()), list(repo.branches()), repo.ref('main').get_commit()\n"
        "loaded = {'graveler.text.markup', 'graveler.text.readable', 'graveler.sdk.display_tables', 'html'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
