"""What notebooks show: tables of listings and handles, escaped, without taking anything from what is listed."""

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import islice
from typing import Protocol

import pytest

from graveler.model import ObjectEntry, Page
from graveler.sdk.lake import Lake
from graveler.sdk.listing import listing
from graveler.sdk.repository import Repository

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
        assert "http" not in html
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
    return Table(value._repr_html_())


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
        "from graveler.storage.memory_objects import MemoryObjects\n"
        "from graveler.storage.memory_tables import MemoryTables\n"
        "repo = graveler.Lake(Lake(MemoryTables(), MemoryObjects)).repository('demo').create('mem://demo')\n"
        "repr(repo.branch('main').objects()), list(repo.branches()), repo.ref('main').get_commit()\n"
        "loaded = {'graveler.markup', 'graveler.readable', 'graveler.sdk.tables', 'html'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
