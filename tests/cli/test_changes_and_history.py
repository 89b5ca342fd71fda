"""status, commit, diff, merge, import, log, show, reflog: their effects, JSON and errors."""

import json
import subprocess
from hashlib import md5
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.cli.patches import LONGEST, MOST_COMPARED, unified
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


def test_a_diff_of_a_path_is_of_that_object_and_what_is_below_it(lake: Path) -> None:
    for path in ("raw", "raw-2", "raw/a", "raw/b/c", "rawest"):
        put("main", path, "1")
    assert done("diff", "lakefs://lake/main/raw").out.splitlines() == ["+ raw", "+ raw/a", "+ raw/b/c", "3 added"]
    assert done("diff", "lakefs://lake/main/raw/").out.splitlines() == ["+ raw/a", "+ raw/b/c", "2 added"]
    assert done("diff", "lakefs://lake/main/raw", "--folders").out.splitlines()[:3] == ["+ raw", "+ raw/a", "* raw/b/"]
    assert done("diff", "lakefs://lake/main/raw-2", "--json").lines[0]["path"] == "raw-2"
    assert done("diff", "lakefs://lake/main/ra").out == "no uncommitted changes\n"
    commit("main", "One")
    assert done("diff", "lakefs://lake/main/raw").out == "no uncommitted changes\n"
    for refs in (("lakefs://lake/main~1..main",), ("lakefs://lake/main~1", "main")):
        assert done("diff", *refs, "raw/").out.splitlines() == ["+ raw/a", "+ raw/b/c", "2 added"]
        assert done("diff", *refs, "raw/", "--summary").out == "+ 2 objects, 2 B\n"
        assert done("diff", *refs, "nothing").out == "no differences\n"
    done("use", "lakefs://lake/main")
    put("main", "raw/a", "22")
    assert done("diff").out.splitlines() == ["~ raw/a", "1 changed"]
    assert done("diff", "raw").out == done("diff", "raw/a").out == done("diff").out
    assert done("diff", "--summary").out == "~ 1 object, 1 B → 2 B\n"
    done("branch", "create", "dev")
    result = run("diff", "dev")
    assert (result.code, result.out) == (0, "no uncommitted changes\n")
    assert result.err == (
        "warning: 'dev' was taken for a path on 'main'; `graveler diff lakefs://lake/main..dev` compares with that ref\n"
    )


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (
            ("lakefs://lake/main",),
            "one ref; name two, as in lakefs://lake/main..OTHER (for a branch's uncommitted changes, use `graveler status`)",
        ),
        (
            ("lakefs://lake/a..b", "c", "d"),
            "'lakefs://lake/a..b' names two refs, so only a path can follow; leave out 'd' or 'c'",
        ),
        (
            ("lakefs://lake/a", "b", "./c"),
            "'./c' is not a path in the repository; behind refs, write it without lakefs://REPO",
        ),
        (
            ("lakefs://lake/main/a", "--prefix", "b"),
            "the path 'a' and --prefix 'b' both choose objects; give one of them",
        ),
        (
            ("lakefs://lake/main/a", "--summary"),
            "--summary sums up a folder; write the path with a slash at its end, 'a' as 'a/'",
        ),
        (
            ("lakefs://lake/main/a", "--stat", "--folders"),
            "--stat and --patch show single objects; leave out --folders and",
        ),
        (("lakefs://lake/main/", "-p", "--rows", "a"), "names one ref"),
        (("lakefs://lake/main/a", "--rows", "a"), "--rows compares one table; leave out PATH"),
        (("lakefs://lake/v1/a",), "no branch has this name"),
    ],
)
def test_a_diff_that_makes_no_sense(lake: Path, arguments: tuple[str, ...], answer: str) -> None:
    refused = run("diff", *arguments)
    assert (refused.code in (2, 3), refused.out, refused.err.count("\n")) == (True, "", 1)
    assert answer in refused.err


TEXTS = {
    "changed.txt": ("one\ntwo\n", "one\n2\ttwo\n"),
    "end.txt": ("one\n", "one"),
    "gone.txt": ("bye\n", None),
    "new/note.txt": (None, "hello\r\nworld\n"),
}
PATCHES = """\
~ changed.txt
--- a/changed.txt
+++ b/changed.txt
@@ -1,2 +1,2 @@
 one
-two
+2\ttwo
~ end.txt
--- a/end.txt
+++ b/end.txt
@@ -1 +1 @@
-one
+one
\\ No newline at end of file
- gone.txt
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
+ new/note.txt
--- /dev/null
+++ b/new/note.txt
@@ -0,0 +1,2 @@
+hello\r
+world
"""


@pytest.fixture
def texts(lake: Path) -> None:
    """What TEXTS change, not committed."""
    for path, (before, _) in TEXTS.items():
        if before is not None:
            put("main", path, before)
    commit("main", "Before")
    for path, (_, after) in TEXTS.items():
        if after is None:
            done("rm", f"lakefs://lake/main/{path}")
        else:
            put("main", path, after)


@pytest.mark.usefixtures("texts")
def test_patches_of_texts(working_folder: Path) -> None:
    done("use", "lakefs://lake/main")
    shown = done("diff", "-p").out
    assert shown == f"{PATCHES}1 added, 1 removed, 2 changed\n"
    commit("main", "After")
    for arguments in (("diff", "main~1..main"), ("diff", "main~1...main")):
        assert done(*arguments, "--patch").out == shown
    assert done("show", "-p").out.endswith(f"\n\n{shown}")
    assert [line["patch"] for line in done("diff", "main~1..main", "-p", "--json", "changed.txt").lines] == [
        PATCHES[PATCHES.index("--- a") : PATCHES.index("~ end")]
    ]
    for path, (before, _) in TEXTS.items():
        if before is not None:
            (working_folder / path).write_text(before)
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=shown.encode(), cwd=working_folder, check=True)
    for path, (_, after) in TEXTS.items():
        assert (after is None) != (working_folder / path).exists()
        assert after is None or (working_folder / path).read_bytes() == after.encode()


@pytest.mark.usefixtures("lake")
def test_a_path_with_any_letters_begins_no_line_of_a_patch(working_folder: Path) -> None:
    paths = ("a b", "a\n+++ b\t", 'q"\\\x1b\x7f', "é ü")
    for path in paths:
        done("put", "-", f"lakefs://lake/main/{path}", stdin=b"1\n")
    commit("main", "One")
    patches = "".join(line["patch"] for line in done("diff", "lakefs://lake/main~1..main", "-p", "--json").lines)
    assert len(patches.splitlines()) == 4 * len(paths)
    subprocess.run(["git", "apply", "-"], input=patches.encode(), cwd=working_folder, check=True)
    assert {path for path in paths if (working_folder / path).read_text() == "1\n"} == set(paths)


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n", "e\n"]), max_size=30)


def applied(patch: list[str], old: list[str]) -> list[str]:
    """Apply a unified diff as patch(1) does: every line of context and every removed line has to be where the hunk says."""
    new: list[str] = []
    done_to = 0
    for line in patch[2:]:
        if line.startswith("@@"):
            begin, number = [*map(int, line.split()[1][1:].split(",")), 1][:2]
            start = begin - 1 if number else begin
            new += old[done_to:start]
            done_to = start
            into, added = [*map(int, line.split()[2][1:].split(",")), 1][:2]
            assert len(new) == (into - 1 if added else into)
        elif line[0] == "+":
            new.append(f"{line[1:]}\n")
        else:
            assert f"{line[1:]}\n" == old[done_to]
            new += old[done_to : done_to + 1] if line[0] == " " else []
            done_to += 1
    return new + old[done_to:]


@given(LINES, LINES, LINES, LINES)
def test_a_patch_makes_the_new_lines_of_the_old(
    begin: list[str], old: list[str], new: list[str], end: list[str]
) -> None:
    numbered = [f"{number}\n" for number in range(9)]
    for before, after in ((begin + old + end, begin + new + end), (begin + numbered + old, new + numbered[::2] + end)):
        patches = [unified(before, after, ("a", "b"), most) for most in (len(before) * len(after), 50)]
        assert patches[0] is not None
        for patch in patches:  # the second one by patience
            if patch is not None:
                assert applied(patch, before) == after
                assert (patch == []) == (before == after)


@pytest.mark.usefixtures("lake")
def test_many_lines_are_compared_by_those_that_are_there_once_or_not_at_all() -> None:
    old = [f"{number}\n" for number in range(40_000)]
    new = [line if number % 2 else f"new {line}" for number, line in enumerate(old)]
    patch = unified(old, new, ("a", "b"))
    assert patch is not None
    assert applied(patch, old) == new
    assert len(patch) == 3 + 60_000
    few = [f"{number % 7}\n" for number in range(70_000)]
    assert unified(few, [*few[:9], "x\n", *few[9:]], ("a", "b")) == [
        "--- a", "+++ b", "@@ -7,6 +7,7 @@", " 6", " 0", " 1", "+x", " 2", " 3", " 4"
    ]  # fmt: skip
    more = round(MOST_COMPARED**0.5) + 1
    assert unified(few[:more], few[3 : more + 3], ("a", "b")) is None
    put("main", "few", "".join(few[:more]))
    commit("main", "Few")
    put("main", "few", "".join(few[3 : more + 3]))
    done("use", "lakefs://lake/main")
    shown = done("diff", "-p").out
    assert "~ few\n  (too many lines differ to compare them, so without a patch: 15.6 KiB → 15.6 KiB)\n" in shown


@pytest.mark.usefixtures("lake")
def test_no_patch_of_what_is_binary_or_large() -> None:
    done("put", "-", "lakefs://lake/main/binary", stdin=b"a\0b")
    done("put", "-", "lakefs://lake/main/latin", stdin="é".encode("latin-1"))
    put("main", "empty", "")
    put("main", "edge", "x" * (LONGEST - 1) + "\n")
    put("main", "large", "x" * (LONGEST + 1))
    commit("main", "One")
    lines = done("diff", "lakefs://lake/main~1..main", "-p").out.splitlines()
    assert lines[:2] == ["+ binary", "  (binary: 3 B)"]
    assert lines[lines.index("+ edge") : lines.index("+ empty")][1:4] == [
        "--- /dev/null",
        "+++ b/edge",
        "@@ -0,0 +1 @@",
    ]
    assert lines[lines.index("+ empty") + 1 :] == [
        "+ large",
        "  (larger than 256.0 KiB, so without a patch: 256.0 KiB)",
        "+ latin",
        "  (binary: 1 B)",
        "5 added",
    ]
    documents = done("show", "lakefs://lake/main", "-p", "--json").lines[1:]
    assert {line["path"]: line["patch"] is None for line in documents} == {
        "binary": True,
        "edge": False,
        "empty": False,
        "large": True,
        "latin": True,
    }


@pytest.mark.usefixtures("texts")
def test_sizes_of_what_changed() -> None:
    expected = [
        "~              8 B → 10 B  changed.txt",
        "~               4 B → 3 B  end.txt",
        "-                     4 B  gone.txt",
        "+                    13 B  new/note.txt",
        "+ 1 object, 13 B; - 1 object, 4 B; ~ 2 objects, 12 B → 13 B",
    ]
    commit("main", "After")
    assert done("show", "lakefs://lake/main", "--stat").out.splitlines()[-5:] == expected
    assert done("diff", "lakefs://lake/main~1..main", "--stat").out.splitlines() == expected


def test_a_change_of_metadata_alone_is_marked(lake: Path) -> None:
    for path in ("both", "bytes", "kind", "meta"):
        put("main", path, "1")
    commit("main", "One")
    file = Path("one")
    file.write_text("1")
    done("put", file, "lakefs://lake/main/meta", "--meta", "k=v")
    done("put", file, "lakefs://lake/main/kind", "--content-type", "text/csv")
    done("put", file, "lakefs://lake/main/both", "--content-type", "text/csv", "--meta", "k=v")
    file.write_text("2")
    done("put", file, "lakefs://lake/main/bytes", "--meta", "k=v")
    expected = [
        "~ both  (content type and metadata alone)",
        "~ bytes",
        "~ kind  (content type alone)",
        "~ meta  (metadata alone)",
        "4 changed",
    ]
    assert done("status", "lakefs://lake/main").out.splitlines()[1:] == expected
    assert done("diff", "lakefs://lake/main/meta", "-p").out == "~ meta  (metadata alone)\n1 changed\n"
    commit("main", "Two")
    assert done("diff", "lakefs://lake/main~1..main").out.splitlines() == expected
    assert done("show", "lakefs://lake/main").out.splitlines()[-5:] == expected


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
