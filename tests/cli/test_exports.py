"""export: its files, output and refusals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.support import commit, done, put, run, write_tree
from tests.cli.test_terminal import on_terminal
from tests.support.patience import PATIENCE

COMMAND = [sys.executable, "-m", "graveler.cli"]


def held(folder: str) -> dict[str, str]:
    """The files of an export."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and not path.name.startswith(".graveler-export")
    }


def test_an_export_follows_its_ref(lake: Path) -> None:
    put("main", "d/a", "one")
    put("main", "d/b/c", "three")
    put("main", "e", "x")
    first = commit("main", "One")
    out = done("export", "lakefs://lake/main/d/", "out").out
    assert out == f"wrote 2 files (8 B) and removed 0 files in out, at {first[:12]}\n"
    assert held("out") == {"a": "one", "b/c": "three"}
    assert done("export", "lakefs://lake/main/d/", "out").out == f"nothing to export to out, at {first[:12]}\n"
    put("main", "d/a", "two!")
    done("rm", "lakefs://lake/main/d/b/c")
    second = commit("main", "Two")
    out = done("export", "lakefs://lake/main/d/", "out", "--dry-run").out
    assert out == f"would write 1 file (4 B) and remove 1 file in out, at {second[:12]}; nothing was changed\n"
    assert held("out") == {"a": "one", "b/c": "three"}
    document = done("export", "lakefs://lake/main/d/", "out", "--json", "--threads", "2").json
    assert document == {
        "commit_id": second,
        "written": 1,
        "removed": 1,
        "bytes": 4,
        "problems": [],
        "modified": [],
    }
    assert held("out") == {"a": "two!"}
    done("export", "lakefs://lake/main~1/d/", "out")
    assert held("out") == {"a": "one", "b/c": "three"}


def test_objects_that_cannot_be_files_are_listed_and_the_rest_is_written(lake: Path) -> None:
    for at in range(12):
        put("main", f"x//{at:02}", "1")
    put("main", "fine", "1")
    head = commit("main", "One")
    result = run("export", "lakefs://lake/main/", "out")
    assert (result.code, held("out")) == (2, {"fine": "1"})
    assert result.out.startswith("wrote 1 file ")
    lines = result.err.splitlines()
    assert lines[0].startswith("error: 12 objects cannot be files, and are left out: ")
    assert lines[1:] == [f"  x//{at:02}  has an empty, '.' or '..' component" for at in range(12)]
    result = run("export", "lakefs://lake/main/", "out2", "--json")
    assert (result.code, result.json["commit_id"], len(result.json["problems"])) == (2, head, 12)
    assert result.json["problems"][0] == {"path": "x//00", "why": "has an empty, '.' or '..' component"}
    assert done("export", "lakefs://lake/main/", "out").out.startswith("nothing to export")


def test_folder_markers_are_left_out_with_a_warning(lake: Path) -> None:
    put("main", "d/", "")
    put("main", "d/a", "1")
    commit("main", "One")
    result = run("export", "lakefs://lake/main/", "out")
    assert (result.code, result.err) == (0, "warning: left out 1 empty folder marker, which no file can be\n")
    assert held("out") == {"d/a": "1"}


def test_all_changed_files_are_listed(lake: Path) -> None:
    for at in range(12):
        put("main", f"{at:02}", "1")
    head = commit("main", "One")
    done("export", "lakefs://lake/main/", "out")
    for path in Path("out").glob("[01]*"):
        path.write_text("other")
    result = run("export", "lakefs://lake/main/", "out", "--verify")
    assert (result.code, result.out) == (4, "")
    lines = result.err.splitlines()
    assert lines[0].startswith("error: 12 files in ")
    assert lines[1:] == [f"  {at:02}" for at in range(12)]
    document = run("export", "lakefs://lake/main/", "out", "--verify", "--json").json
    assert (document["commit_id"], document["modified"]) == (None, [f"{at:02}" for at in range(12)])
    for path in Path("out").glob("[01]*"):
        path.unlink()
    assert done("export", "lakefs://lake/main/", "out", "--verify", "--json").json["commit_id"] == head
    assert len(held("out")) == 12


def test_an_export_is_refused(lake: Path) -> None:
    put("main", "d/a", "1")
    commit("main", "One")
    assert run("export", "lakefs://lake/main/d", "out").code == 2
    assert run("export", "lakefs://lake/nowhere/", "out").code == 3
    assert run("export", "lakefs://lake/main/", "out", "--threads", "0").code == 2
    write_tree(Path("full"), {"mine": "x"})
    full = run("export", "lakefs://lake/main/", "full")
    assert (full.code, "is neither empty nor an export" in full.err) == (4, True)
    around = run("export", "lakefs://lake/main/", ".")
    assert (around.code, "contains the lake itself" in around.err) == (2, True)
    inside = run("export", "lakefs://lake/main/", ".graveler/out")
    assert (inside.code, "is inside the lake" in inside.err) == (2, True)


@pytest.fixture
def endless(lake: Path, working_folder: Path) -> Path:
    """A file, imported, that has become so large that nobody reads it to its end."""
    large = working_folder / "large"
    large.mkdir()
    for name, size in (("a", 8), ("b", 64 << 20)):
        with (large / name).open("wb") as file:
            file.truncate(size)
    done("import", large, "lakefs://lake/main/d/")
    with (large / "b").open("r+b") as file:
        file.truncate(1 << 40)
    return large


def test_after_ctrl_c_the_same_export_finishes(endless: Path) -> None:
    process = subprocess.Popen([*COMMAND, "export", "lakefs://lake/main/d/", "out"], stderr=subprocess.PIPE)
    deadline = time.monotonic() + PATIENCE
    while not Path("out/a").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err == (
        b"interrupted; 'out' may contain a part of the export, of complete files; run the export again to finish it\n"
    )
    os.truncate(endless / "b", 64 << 20)
    done("export", "lakefs://lake/main/d/", "out")
    assert {name: len(text) for name, text in held("out").items()} == {"a": 8, "b": 64 << 20}


def test_an_export_shows_progress(lake: Path) -> None:
    put("main", "a", "1")
    commit("main", "One")
    assert "exporting" in on_terminal("export", "lakefs://lake/main/", "out")[1]
