"""fsck, dump, dumps, restore."""

import json
from pathlib import Path

import pytest

from graveler.history.commits import CommitStore
from graveler.lake.opening.repositories import Repositories
from graveler.model import CommitID
from graveler.storage.tables.sqlite import SqliteTables
from tests.cli.support import commit, done, files_of, namespace, put, run, write_tree
from tests.cli.test_terminal import on_terminal

KEYS = {"repository", "clean", "complete", "checked", "findings", "counts", "garbage"}
FINDING = {
    "kind",
    "what",
    "why",
    "remedy",
    "first",
    "last",
    "refs",
    "commits",
    "commit_count",
    "repaired",
}


@pytest.fixture
def two_commits(lake: Path) -> str:
    """Two commits and a staged change; the head."""
    put("main", "a/1", "one")
    put("main", "a/2", "two")
    commit("main", "One")
    put("main", "b", "three")
    made = commit("main", "Two")
    done("tag", "create", "lakefs://lake/v1", "main")
    put("main", "c", "staged")
    return made


def made_later(lake: Path, commit_id: str) -> None:
    """Give both copies of a commit's record the next version."""
    record = files_of(lake) / "_graveler/commits" / commit_id
    record.write_bytes(record.read_bytes().replace(b'"version":1', b'"version":2'))
    with SqliteTables(lake / "tables.sqlite") as tables:
        uid = Repositories(tables).get("lake").repository.uid
        key = CommitStore(tables, uid).key(CommitID(commit_id))
        tables.put(key, {**(tables.get(key) or {}), "record": record.read_bytes()})


def test_a_whole_repository_is_clean(lake: Path, two_commits: str) -> None:
    out = done("fsck", "lakefs://lake").out.splitlines()
    assert out[0].startswith("checked 1 branch, 1 tag, 3 commits, ")
    assert out[1:] == [
        "not checked: objects of commits, except files on this machine outside of the lake (--all-objects)",
        "not checked: the objects' bytes (--bytes)",
        "nothing is wrong in what was checked",
    ]
    assert done("fsck", "lakefs://lake", "--bytes", "--outside").out.splitlines()[1:] == ["nothing is wrong"]
    document = done("fsck", "lake", "--json", "--all-objects", "--outside", "--no-reflog").json
    assert set(document) == KEYS
    assert (document["repository"], document["clean"], document["findings"]) == ("lake", True, [])
    counts = document["counts"]
    assert (counts["branches"], counts["tags"], counts["commits"], counts["staged"]) == (1, 1, 3, 1)
    assert counts["objects"] >= 4
    assert set(document["garbage"]) == {"commit_items", "commit_records", "metaranges", "ranges", "bytes"}
    assert run("fsck", "lakefs://nowhere").code == 3
    assert run("fsck", "lakefs://lake/main").code == 2


def test_what_is_lost_is_told_with_what_it_affects(lake: Path, two_commits: str) -> None:
    for file in (files_of(lake) / "_graveler/ranges").iterdir():
        file.unlink()
    result = run("fsck", "lakefs://lake")
    assert (result.code, result.err) == (8, "")
    assert "range-missing (2)" in result.out
    assert "paths    'a/1' to 'b'" in result.out
    assert "branch main" in result.out
    assert "tag v1" in result.out
    assert f"commits  {two_commits[:12]}" in result.out
    assert "to do" in result.out
    assert result.out.endswith("wrong: 2; --repair fixes what can be fixed\n")
    document = run("fsck", "lakefs://lake", "--json")
    assert (document.code, document.json["clean"], len(document.json["findings"])) == (8, False, 2)
    finding = document.json["findings"][0]
    assert set(finding) == FINDING
    assert (finding["kind"], finding["repaired"]) == ("range-missing", False)
    assert set(finding["refs"][0]) == {"kind", "name", "in_history"}


def test_what_can_be_repaired_is(lake: Path, two_commits: str) -> None:
    record = files_of(lake) / "_graveler/commits" / two_commits
    record.unlink()
    assert run("fsck", "lakefs://lake").code == 8
    result = done("fsck", "lakefs://lake", "--repair")
    assert "commit-record (1)\n  repaired: " in result.out
    assert result.out.endswith("repaired: 1\nnothing is wrong now in what was checked\n")
    assert record.exists()
    assert done("fsck", "lakefs://lake").out.endswith("\nnothing is wrong in what was checked\n")


@pytest.mark.parametrize("options", [(), ("--all-objects",), ("--bytes",), ("--all-objects", "--outside")])
def test_imported_files_are_checked_by_default(lake: Path, working_folder: Path, options: tuple[str, ...]) -> None:
    data = write_tree(working_folder / "data", {"x": "1", "y": "2"})
    done("import", "data", "lakefs://lake/main/d/")
    assert done("fsck", "lakefs://lake", *options, "--json").json["clean"]
    (data / "x").unlink()
    (data / "y").write_text("22")
    result = run("fsck", "lakefs://lake", *options)
    assert (result.code, "object-missing (1)" in result.out, "object-size (1)" in result.out) == (8, True, True)
    assert result.out.endswith("wrong: 2; --repair fixes what can be fixed\n")
    document = run("fsck", "lakefs://lake", *options, "--json")
    assert (document.code, document.json["clean"], document.json["complete"]) == (8, False, True)


def test_the_remedy_of_a_damaged_object_finds_it(lake: Path, working_folder: Path) -> None:
    data = write_tree(working_folder / "data", {"x": "1"})
    done("import", "data", "lakefs://lake/main/d/")
    (data / "x").write_text("2")
    said = run("cat", "lakefs://lake/main/d/x")
    assert said.code == 8
    options = said.err.partition("`graveler fsck ")[2].partition("`")[0].split()
    result = run("fsck", "lakefs://lake", *options)
    assert (result.code, f"file://{data}/x" in result.out) == (8, True)


def test_a_check_that_is_incomplete_says_so_in_words_in_json_and_by_its_code(lake: Path, working_folder: Path) -> None:
    (working_folder / "list.csv").write_text("path,address,size,checksum\na,s3://bucket/a,1,c0ffee\n")
    done("import", "list.csv", "lakefs://lake/main/", "--listing")
    plain = done("fsck", "lakefs://lake").out
    assert "not checked: objects of commits" in plain
    result = run("fsck", "lakefs://lake", "--all-objects")
    assert result.code == 9
    assert "not checked: 1 object in other stores (--outside includes them)\n" in result.out
    assert result.out.endswith("\nnothing is wrong in what was checked, but the check is incomplete\n")
    document = run("fsck", "lakefs://lake", "--all-objects", "--json")
    assert (document.code, document.json["clean"], document.json["complete"]) == (9, False, False)
    assert document.json["counts"]["objects_not_checked"] == 1
    assert document.json["checked"] == {
        "reflog": True,
        "committed_objects": True,
        "outside_objects": False,
        "object_bytes": False,
        "table": "sound",
        "garbage": True,
    }


@pytest.mark.parametrize("damaged", [False, True])
def test_a_commit_of_a_later_version_is_neither_wrong_nor_right(lake: Path, two_commits: str, damaged: bool) -> None:
    done("tag", "create", "lakefs://lake/old", "main~1")
    made_later(lake, two_commits)
    for path in ("lakefs://lake/main/a/1", "lakefs://lake/v1/a/1"):
        said = run("cat", path)
        assert (said.code, said.out) == (10, "")
        assert f"the record of commit {two_commits} was made by a later version of graveler" in said.err
        assert "format 2" in said.err
        assert "Upgrade graveler" in said.err
    document = json.loads(run("log", "lakefs://lake/main", "--json").err)["error"]
    assert (document["code"], document["exit_code"], document["fields"]["version"]) == ("later_version", 10, 2)
    if damaged:
        first = done("log", "lakefs://lake/old", "--json").lines[0]["id"]
        (files_of(lake) / "_graveler/commits" / first).unlink()
    code = 8 if damaged else 10
    for options in ((), ("--repair",)):
        result = run("fsck", "lakefs://lake", *options)
        assert "later-version (1)\n  not checked: commit " in result.out
        assert "not checked: 1 commit that a later version of graveler made, and what only" in result.out
        assert "not checked: what is garbage: commits of later versions may need it\n" in result.out
        assert "harmless garbage" not in result.out
        assert result.code == (10 if options else code), "the damage is repaired; the rest is not checked"
        if result.code == 10:
            verdict = (
                "nothing is wrong in what was checked, but the check is incomplete: upgrade graveler, and check again"
            )
            assert result.out.endswith(f"\n{verdict}\n")
    said = run("fsck", "lakefs://lake", "--json")
    assert said.code == 10
    assert (said.json["clean"], said.json["complete"], said.json["checked"]["garbage"]) == (False, False, False)
    assert [finding["kind"] for finding in said.json["findings"]] == ["later-version"]
    for verb in (("gc", "plan", "lakefs://lake"), ("gc", "run", "lakefs://lake"), ("dump", "lakefs://lake")):
        refused = run(*verb)
        assert (refused.code, "made by a later version of graveler" in refused.err) == (10, True), refused


def test_fsck_shows_progress(lake: Path, two_commits: str) -> None:
    code, screen = on_terminal("fsck", "lakefs://lake")
    assert (code, "checking" in screen, "nothing is wrong" in screen) == (0, True, True)


def test_a_dump_brings_a_repository_back(lake: Path, two_commits: str) -> None:
    assert done("dumps", "lakefs://lake").out == ""
    place = namespace()
    made = done("dump", "lakefs://lake", "--json").json
    assert set(made) == {"id", "repository", "namespace", "created", "branches", "tags", "staged"}
    assert (made["repository"], made["namespace"]) == ("lake", place)
    assert (made["branches"], made["tags"], made["staged"]) == (1, 1, 1)
    out = done("dump", "lake").out.splitlines()
    second = out[0].split()[3].rstrip(":")
    assert out == [
        f"dumped lake as {second}: 1 branch, 1 tag, 1 uncommitted change",
        f"to restore: graveler restore {place} {second} lakefs://NAME",
    ]
    for named in ("lakefs://lake", "lake", place, f"{place}/"):
        assert set(done("dumps", named).out.split()) == {made["id"], second}
    assert {"id": second, "namespace": place} in done("dumps", "lake", "--json").lines
    there = run("restore", place, made["id"], "lakefs://other")
    assert (there.code, "already exists" in there.err) == (4, True)
    done("repo", "delete", "lake", "--yes")
    restored = done("restore", place, made["id"], "lakefs://again", "--json").json
    assert set(restored) == {"repository", "dump_id", "branches", "tags", "staged", "commits", "missing"}
    assert (restored["repository"]["name"], restored["dump_id"], restored["missing"]) == ("again", made["id"], [])
    assert [restored[name] for name in ("branches", "tags", "staged", "commits")] == [1, 1, 1, 3]
    assert done("cat", "lakefs://again/main/c").out == "staged"
    assert done("log", "lakefs://again/v1", "-n", "1", "--json").json["id"] == two_commits
    assert done("fsck", "again").out.endswith("\nnothing is wrong in what was checked\n")


def test_a_restore_says_what_it_brought(lake: Path, two_commits: str) -> None:
    made, place = done("dump", "lakefs://lake", "--json").json["id"], namespace()
    done("repo", "delete", "lake", "--yes")
    out = done("restore", f"{place}/", made, "lakefs://lake").out
    assert out == "restored lakefs://lake: 1 branch, 1 tag, 1 uncommitted change, 3 commits\n"


def test_lost_commits_are_named(lake: Path, two_commits: str) -> None:
    parent = done("log", "lakefs://lake/main~1", "-n", "1", "--json").json["id"]
    made, place, files = done("dump", "lakefs://lake", "--json").json["id"], namespace(), files_of(lake)
    done("repo", "delete", "lake", "--yes")
    (files / "_graveler/commits" / parent).unlink()
    out = done("restore", place, made, "lakefs://lake").out.splitlines()
    assert out[1:] == [
        f"  lost: commit {parent[:12]}, parent of {two_commits[:12]}",
        "see `graveler fsck lakefs://lake` for what that affects",
    ]
    assert run("fsck", "lake").code == 8


def test_dumps_and_restores_are_refused(lake: Path) -> None:
    assert run("dump", "lakefs://nowhere").code == 3
    assert run("dumps", "lakefs://nowhere").code == 3
    assert run("dumps", "nonsense://x").code == 2
    place = namespace()
    assert run("restore", place, "none", "lakefs://other").code == 3
    assert run("restore", "lakefs://lake", "none", "lakefs://other").code == 2
    assert run("restore", "lake", "none", "lakefs://other").code == 2
    assert run("restore", place, "../x", "lakefs://other").code == 2
    assert run("restore", place, "none", "lakefs://other/main").code == 2
