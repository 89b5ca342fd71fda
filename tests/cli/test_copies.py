"""cp and mv: objects get other paths, their bytes stay where they are."""

from pathlib import Path

import pytest

from tests.cli.support import commit, done, put, run


@pytest.fixture
def filled(lake: Path) -> Path:
    for name in ("a/1", "a/2", "b"):
        put("main", name, name)
    commit("main", "One")
    return lake


def paths(ref: str = "main") -> list[str]:
    return done("ls", "-r", f"lakefs://lake/{ref}/").out.split()


def test_cp_copies_one_object(filled: Path) -> None:
    copied = done("cp", "lakefs://lake/main/b", "lakefs://lake/main/c", "--json").json
    assert (copied["from"], copied["path"]) == ("b", "c")
    assert done("stat", "lakefs://lake/main/b", "--json").json["address"] == copied["address"]
    assert "copied 1 object" in done("cp", "lakefs://lake/main/a/1", "lakefs://lake/main/").out
    assert paths() == ["1", "a/1", "a/2", "b", "c"]
    assert done("cat", "lakefs://lake/main/1").out == "a/1"
    assert run("cp", "lakefs://lake/main/none", "lakefs://lake/main/x").code == 3


def test_cp_copies_a_folder_of_any_ref(filled: Path) -> None:
    put("main", "a/1", "new")
    lines = done("cp", "-r", "lakefs://lake/main@/a/", "lakefs://lake/main/old/", "--json").lines
    assert [(line["from"], line["path"]) for line in lines] == [("a/1", "old/1"), ("a/2", "old/2")]
    assert done("cat", "lakefs://lake/main/old/1").out == "a/1"
    assert run("cp", "-r", "lakefs://lake/main/none/", "lakefs://lake/main/x/").code == 3


def test_mv_moves(filled: Path) -> None:
    assert done("mv", "lakefs://lake/main/b", "lakefs://lake/main/c", "--dry-run").out.startswith("would move b to c\n")
    assert paths() == ["a/1", "a/2", "b"]
    assert done("mv", "lakefs://lake/main/b", "lakefs://lake/main/a/", "--json").json == {
        "from": "b",
        "path": "a/b",
        "moved": True,
    }
    dry = done("mv", "-r", "lakefs://lake/main/a/", "lakefs://lake/main/z/", "--dry-run", "--json").lines
    assert [line["moved"] for line in dry] == [False] * 3
    assert "moved 3 objects" in done("mv", "-r", "lakefs://lake/main/a/", "lakefs://lake/main/z/").out
    assert paths() == ["z/1", "z/2", "z/b"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cp", "lakefs://lake/main/b", "lakefs://other/main/b"), "different repositories"),
        (("mv", "lakefs://lake/main@/b", "lakefs://lake/main/c"), "graveler cp"),
        (("mv", "lakefs://lake/main/b", "lakefs://lake/main/b"), "itself"),
        (("mv", "-r", "lakefs://lake/main/a", "lakefs://lake/main/c/"), "'a/'"),
        (("mv", "-r", "lakefs://lake/main/a/", "lakefs://lake/main/a/b/"), "overlap"),
    ],
)
def test_what_cannot_be_copied_or_moved_says_why(filled: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = run(*arguments)
    assert (refused.code, said in refused.err) == (2, True), refused
    assert paths() == ["a/1", "a/2", "b"]


def test_cp_goes_to_branches_alone(filled: Path) -> None:
    done("tag", "create", "lakefs://lake/v1", "main")
    assert run("cp", "lakefs://lake/main/b", "lakefs://lake/v1/c").code == 3
