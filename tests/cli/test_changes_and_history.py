"""status, commit, diff, merge, import, log, show, reflog: their effects, JSON and errors."""

import json
from hashlib import md5
from pathlib import Path

from tests.cli.support import commit, done, make_conflict, put, run, write_tree

COMMIT_FIELDS = {"id", "parents", "message", "committer", "created", "metadata", "generation", "metarange_id"}


def test_status_then_commit(lake: Path) -> None:
    put("main", "a", "1")
    put("main", "b", "1")
    commit("main", "One")
    put("main", "a", "2")
    put("main", "c/d", "1")
    done("rm", "lakefs://lake/main/b")
    shown = done("status", "lakefs://lake/main").out.splitlines()
    assert shown[0].startswith("on branch main at ")
    assert shown[1:] == ["~ a", "- b", "+ c/d", "1 added, 1 removed, 1 changed"]
    assert done("status", "lakefs://lake/main", "--folders", "--prefix", "c").out.splitlines()[1] == "* c/"
    lines = done("status", "lakefs://lake/main", "--json").lines
    assert [(line["type"], line["path"]) for line in lines] == [("changed", "a"), ("removed", "b"), ("added", "c/d")]
    assert (lines[0]["before"]["size"], lines[1]["after"], lines[2]["before"]) == (1, None, None)
    made = done("commit", "lakefs://lake/main", "-m", "Two\n\nmore", "--meta", "k=v", "--json").json
    assert set(made) == COMMIT_FIELDS
    assert (made["message"], made["metadata"], made["committer"]) == ("Two\n\nmore", {"k": "v"}, "tester")
    assert done("status", "lakefs://lake/main").out.endswith("no uncommitted changes\n")


def test_commit_without_changes(lake: Path) -> None:
    refused = run("commit", "lakefs://lake/main", "-m", "Nothing")
    assert (refused.code, "nothing to commit" in refused.err) == (5, True)
    assert " Nothing" in done("commit", "lakefs://lake/main", "-m", "Nothing", "--allow-empty").out
    assert run("commit", "lakefs://lake/main").code == 2
    assert run("commit", "lakefs://lake/nowhere", "-m", "x").code == 3


def test_diff_in_two_and_three_dots(lake: Path) -> None:
    make_conflict()
    two = ["~ a.txt", "- b.txt", "1 removed, 1 changed"]
    assert done("diff", "lakefs://lake/main..dev").out.splitlines() == two
    assert done("diff", "lakefs://lake/main", "dev").out.splitlines() == two
    put("main", "new.txt", "x")
    commit("main", "More on main")
    assert [line["path"] for line in done("diff", "lakefs://lake/main..dev", "--json").lines] == [
        "a.txt",
        "b.txt",
        "new.txt",
    ]
    for arguments in (("lakefs://lake/main...dev",), ("lakefs://lake/main", "lakefs://lake/dev", "--three-dot")):
        assert [line["path"] for line in done("diff", *arguments, "--json").lines] == ["a.txt", "b.txt"]
    assert done("diff", "lakefs://lake/main..main").out == "no differences\n"
    assert done("diff", "lakefs://lake/main..dev", "--prefix", "b").out == "- b.txt\n1 removed\n"
    assert run("diff", "lakefs://lake/main").code == 2
    assert run("diff", "lakefs://lake/main..nowhere").code == 3


def test_a_conflict_is_listed_and_nothing_is_changed(lake: Path) -> None:
    make_conflict()
    head = done("log", "lakefs://lake/main", "-n", "1", "--json").json["id"]
    result = run("merge", "lakefs://lake/dev", "main")
    assert (result.code, result.out) == (4, "")
    theirs, ours, other = (md5(text).hexdigest()[:8] for text in (b"dev's", b"main's own", b"main's"))
    assert result.err.splitlines()[1:] == [
        "  a.txt",
        f"      dev (source)        changed: 5 bytes, checksum {theirs}",
        f"      main (destination)  changed: 10 bytes, checksum {ours}",
        "  b.txt",
        "      dev (source)        removed",
        f"      main (destination)  changed: 6 bytes, checksum {other}",
    ]
    document = run("merge", "lakefs://lake/dev", "lakefs://lake/main", "--json").json
    assert document["commit"] is None
    first, second = document["conflicts"]
    assert (first["path"], first["base"]["size"], first["source"]["size"], first["destination"]["size"]) == (
        "a.txt",
        5,
        5,
        10,
    )
    assert (second["path"], second["source"]) == ("b.txt", None)
    assert done("log", "lakefs://lake/main", "-n", "1", "--json").json["id"] == head


def test_merge_with_a_strategy(lake: Path) -> None:
    make_conflict()
    merged = done("merge", "lakefs://lake/dev", "main", "--strategy", "dest-wins", "-m", "Keep ours", "--json").json
    assert (merged["conflicts"], merged["commit"]["message"], len(merged["commit"]["parents"])) == ([], "Keep ours", 2)
    assert done("cat", "lakefs://lake/main/a.txt").out == "main's own"
    again = run("merge", "lakefs://lake/dev", "main")
    assert (again.code, "nothing to merge" in again.err) == (5, True)
    assert run("merge", "lakefs://lake/dev", "main", "--strategy", "mine").code == 2


def test_merge_into_a_branch_with_uncommitted_changes_is_refused(lake: Path) -> None:
    make_conflict()
    put("main", "z", "1")
    refused = run("merge", "lakefs://lake/dev", "main", "--strategy", "source-wins")
    assert (refused.code, "uncommitted changes" in refused.err) == (5, True)


def test_merge_says_what_it_did(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "x", "1")
    commit("dev", "X")
    assert done("merge", "lakefs://lake/dev", "main").out.startswith("merged dev into main: ")


def test_import_takes_a_folder_and_replaces_what_was_there(lake: Path) -> None:
    write_tree(Path("data"), {"a": "1", "b/c": "22"})
    out = done("import", "data", "lakefs://lake/main/d/", "-m", "First data").out
    assert out.startswith("imported 2 files, 3 B, into lakefs://lake/main/d/: ")
    assert out.splitlines()[0].endswith(" First data")
    Path("data/a").unlink()
    document = done("import", "data", "lakefs://lake/main/d/", "--meta", "k=v", "--json").json
    assert (document["objects"], document["bytes"], document["commit"]["metadata"]) == (1, 2, {"k": "v"})
    assert done("ls", "-r", "lakefs://lake/main/").out == "d/b/c\n"


def test_import_is_refused(lake: Path) -> None:
    write_tree(Path("data"), {"a": "1"})
    assert run("import", "nothing", "lakefs://lake/main/").code == 3
    assert run("import", "data/a", "lakefs://lake/main/").code == 2
    assert run("import", "data", "lakefs://lake/main/d").code == 2
    assert run("import", "data", "lakefs://lake/nowhere/").code == 3
    inside = run("import", ".", "lakefs://lake/main/")
    assert (inside.code, "contains the lake itself" in inside.err) == (2, True)
    put("main", "x", "1")
    assert run("import", "data", "lakefs://lake/main/d/").code == 5


def test_log_in_all_its_forms(lake: Path) -> None:
    make_conflict()
    done("merge", "lakefs://lake/dev", "main", "--strategy", "source-wins", "-m", "Merged\n\nwith a reason")
    done("tag", "create", "lakefs://lake/v1", "main")
    lines = done("log", "lakefs://lake/main", "--json").lines
    assert set(lines[0]) == COMMIT_FIELDS
    assert [line["message"].splitlines()[0] for line in (lines[0], *lines[-2:])] == [
        "Merged",
        "Base",
        "Repository created",
    ]
    assert len(done("log", "lakefs://lake/main", "-n", "2", "--json").lines) == 2
    straight = [line["message"] for line in done("log", "lakefs://lake/main", "--first-parent", "--json").lines]
    assert straight == ["Merged\n\nwith a reason", "On main", "Base", "Repository created"]
    short = {line["message"].splitlines()[0]: line["id"][:12] for line in lines}
    oneline = done("log", "lakefs://lake/main", "--oneline").out.splitlines()
    assert oneline[0] == f"{short['Merged']} (main, tag: v1) Merged"
    graph = done("log", "lakefs://lake/main", "--oneline", "--graph").out.splitlines()
    assert graph[:2] == [f"○  {short['Merged']} (main, tag: v1) Merged", "├─╮"]
    assert graph[-3:] == ["├─╯", f"○  {short['Base']} Base", f"○  {short['Repository created']} Repository created"]
    full = done("log", "lakefs://lake/main", "--graph").out.splitlines()
    assert full[1:4] == ["├─╮    Merged", "│ │", "│ │    with a reason"]
    assert "  with a reason" in done("log", "lakefs://lake/main").out.splitlines()
    assert run("log", "lakefs://lake/nowhere").code == 3
    assert run("log", "lakefs://lake/main", "-n", "0").code == 2


def test_a_long_log_goes_on_through_all_pages(lake: Path) -> None:
    for at in range(120):
        done("commit", "lakefs://lake/main", "-m", f"number {at}", "--allow-empty")
    messages = [line["message"] for line in done("log", "lakefs://lake/main", "--json").lines]
    assert messages == [*(f"number {at}" for at in reversed(range(120))), "Repository created"]
    assert len(done("log", "lakefs://lake/main", "--json", "-n", "110").lines) == 110


def test_show(lake: Path) -> None:
    put("main", "a", "1")
    made = commit("main", "Subject\n\nbody")
    out = done("show", "lakefs://lake/main").out
    assert out.startswith(f"commit {made} (main)\n")
    assert "\n    Subject\n    \n    body\n\n" in out
    assert out.endswith("+ a\n1 added\n")
    head, change = done("show", f"lakefs://lake/{made[:10]}", "--json").lines
    assert (head["id"], change["type"], change["path"]) == (made, "added", "a")
    assert "Repository created" in done("show", "lakefs://lake/main~1").out


def test_reflog_also_of_a_deleted_branch(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "a", "1")
    made = commit("dev", "One")
    done("branch", "delete", "lakefs://lake/dev")
    lines = done("reflog", "lakefs://lake/dev", "--json").lines
    assert set(lines[0]) == {"time_ns", "operation", "operation_id", "by", "old", "new"}
    assert [(line["operation"], line["by"]) for line in lines] == [
        ("delete branch", "tester"),
        ("commit", "tester"),
        ("create branch", "tester"),
    ]
    assert (lines[0]["old"], lines[0]["new"], lines[2]["old"]) == (made, None, None)
    assert f"{made[:12]} → -" in done("reflog", "lakefs://lake/dev", "-n", "1").out
    assert run("reflog", "lakefs://lake/never").code == 3


def test_status_tells_that_imported_files_have_changed(lake: Path, working_folder: Path) -> None:
    put("main", "a", "1")
    commit("main", "One")
    assert "imported" not in done("status", "lakefs://lake/main").out
    data = write_tree(working_folder / "data", {"x": "1", "y": "2", "z": "3"})
    done("import", "data", "lakefs://lake/main/d/")
    looked = "imported files: 3 looked at, by size and time, not bytes"
    assert done("status", "lakefs://lake/main").out.splitlines()[-1] == looked
    (data / "x").unlink()
    (data / "y").write_text("22")
    result = run("status", "lakefs://lake/main")
    assert (result.code, result.out.splitlines()[-1]) == (0, looked)
    warning = "warning: 2 imported files may have been changed or removed: d/x (gone); d/y (other size)\n"
    assert result.err == warning
    document = run("status", "lakefs://lake/main", "--json")
    assert (document.code, document.out) == (0, "")
    assert json.loads(document.err) == {"warning": {"message": warning.removeprefix("warning: ").rstrip()}}
    assert "imported" not in done("status", "lakefs://lake/main", "--prefix", "a").out
