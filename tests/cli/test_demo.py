"""The demo: its text is true, its command lines work when typed, and it deletes nothing but its own lake."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from graveler.cli.demo import tables
from graveler.cli.demo.stage import DemoFailedError, Stage, quoted
from tests.cli.support import done, run, write_tree
from tests.support.shell import Shell

STEPS = 10
"""Of the story with files alone."""
STEPS_WITH_TABLES = 13


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Some files in folders, one of them a text that both sides can change."""
    tree: dict[str, str | bytes] = {f"d{n % 4}/it's file {n}.bin": f"contents of file {n}" for n in range(30)}
    return write_tree(tmp_path / "files", tree | {"README.md": "A text.\n" * 40})


def test_it_tells_each_step_with_what_it_cost(files: Path) -> None:
    *steps, last = done("demo", "--from", files, "--json").lines
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    assert all(set(step) == {"step", "title", "commands", "seconds", "written"} for step in steps)
    written = [{kind: n for kind, n in step["written"].items() if n} for step in steps]
    assert written == [
        {"commit record": 1},
        {"range": 1, "metarange": 1, "commit record": 1},
        {},
        {"data file": 2},
        {"range": 1, "metarange": 1, "commit record": 1},
        {"range": 1, "metarange": 1, "commit record": 1, "data file": 1},
        {},
        {"commit record": 1},
        {},
        {},
    ]
    assert [c["exit_code"] for step in steps for c in step["commands"] if c["exit_code"]] == [4]
    assert last["lake"] == str(Path("demo-lake").absolute())


@pytest.mark.ci
@pytest.mark.parametrize("with_tables", [False, True])
def test_its_command_lines_work_when_typed(
    files: Path, working_folder: Path, shell: Shell, *, with_tables: bool
) -> None:
    *steps, last = done("demo", *(() if with_tables else ("--from", files)), "--json").lines
    commands = [command for step in steps for command in step["commands"]]
    elsewhere = working_folder / "elsewhere"
    elsewhere.mkdir()
    script = "\n".join(f'{command["command"]}; echo "exit $?"' for command in commands)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    typed = subprocess.run(
        ["bash", "-c", script], cwd=elsewhere, env=environment, capture_output=True, text=True, check=True
    )
    codes = [line for line in typed.stdout.splitlines() if line.startswith("exit ")]
    assert codes == [f"exit {command['exit_code']}" for command in commands]
    # What was typed made the same history: same messages, same contents.
    theirs, ours = (
        [
            (line["message"], line["metarange_id"], len(line["parents"]))
            for line in done("log", "lakefs://demo/main", "--json", "--lake", lake).lines
        ]
        for lake in (elsewhere / "demo-lake", working_folder / "demo-lake")
    )
    assert sorted(theirs) != []
    assert [(m, p) for m, _, p in sorted(theirs)] == [(m, p) for m, _, p in sorted(ours)]
    assert with_tables or theirs[0] == ours[0]
    # And the hints at the end, and all commands that only read, work on the lake that was kept.
    shell.export("GRAVELER_LAKE", last["lake"])
    reading = tuple(f"graveler {verb}" for verb in ("cat", "diff", "log", "status"))
    for line in (*(c["command"] for c in commands if c["command"].startswith(reading)), *last["next"]):
        program, *arguments = shlex.split(line)
        assert program == "graveler"
        assert done(*arguments).out


def test_the_told_form_shows_commands_and_the_graph(files: Path) -> None:
    out = done("demo", "--from", files).out
    assert (
        "    $ graveler merge lakefs://demo/experiment main\n    error: merging 'experiment' into 'main': 1 conflict"
        in out
    )
    assert "    ├─╮\n" in out
    assert f"All {STEPS} steps worked" in out
    assert out.endswith("Or look at it in a browser:\n    $ graveler ui lakefs://demo/main/\n")
    assert "\x1b" not in out


def test_it_replaces_its_own_lake_and_nothing_else(files: Path, working_folder: Path) -> None:
    done("demo", "--from", files)
    done("demo", "--from", files, "--no-keep")
    assert not Path("demo-lake").exists()
    write_tree(Path("mine"), {"precious": "x"})
    Path("link").symlink_to("mine")
    Path("file").write_text("x")
    done("demo", "--from", files, "--lake", "added")
    Path("added/precious").write_text("x")
    done("init", "a-lake")
    for name in ("mine", "link", "file", "added", "a-lake"):
        before = sorted(p for p in Path(name).rglob("*"))
        result = run("demo", "--from", files, "--lake", name)
        assert (result.code, "it was left alone" in result.err) == (5, True), name
        assert sorted(p for p in Path(name).rglob("*")) == before
    assert Path("mine/precious").read_text() == "x"


def test_it_refuses_what_it_cannot_play_with(files: Path, tmp_path: Path) -> None:
    assert run("demo", "--from", tmp_path / "nothing").code == 3
    assert run("demo", "--from", files, "--lake", files / "lake").code == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    result = run("demo", "--from", empty)
    assert (result.code, "the demo needs at least two" in result.err) == (2, True)


def test_two_files_are_enough(tmp_path: Path) -> None:
    done("demo", "--from", write_tree(tmp_path / "two", {"a": "1", "b": "2"}))


def test_a_step_that_does_not_do_what_it_says_is_an_error(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "demo", lambda _arguments: 3, None)
    with pytest.raises(DemoFailedError, match="exited with code 3, not 0"), stage.step("A step"):
        stage.run("ls")
    with pytest.raises(DemoFailedError, match=r"step 1 .* did not do what it says: too few"), stage.step("A step"):
        stage.check(False, "too few")


def test_the_real_thing_on_this_pythons_packages() -> None:
    shown = run("demo", "--json", "--no-keep")
    assert shown.code == 0, shown
    assert "left out" in shown.err, "a demo on packages takes no __pycache__"
    *steps, last = shown.lines
    assert len(steps) == STEPS_WITH_TABLES
    assert last == {"lake": None, "next": []}
    imported = steps[1]["commands"][0]["output"].split()
    assert int(imported[1].replace(",", "")) > 2000
    outputs = {step["title"]: [command["output"] for command in step["commands"]] for step in steps}
    assert outputs["Query both states at once"][0].split() == ["changed", "more", "10000", "247995000"]
    before, _, after = outputs["Travel in time, and take it back"]
    assert before == after
    assert "Load November again" in outputs["Blame"][0]
    assert outputs["Append to an Iceberg table on two branches"][3] == "shop.visits on main has 3 rows\n"
    _, _, shown_table, history = outputs["Merge the table by its rows"]
    assert "rows:            6\n" in shown_table
    assert len([line for line in history.splitlines() if not line.startswith(" ")]) == 4


def test_without_duckdb_the_story_is_one_of_files(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "can_query", lambda: False)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(files))
    *steps, last = done("demo", "--json").lines
    assert len(steps) == STEPS
    assert not any("sql" in command["command"] for step in steps for command in step["commands"])
    assert not any("sql" in line for line in last["next"])


@pytest.mark.parametrize(
    ("word", "typed"),
    [("a b", "'a b'"), ("SELECT 'x'", "\"SELECT 'x'\""), ("it's $5", "'it'\"'\"'s $5'"), ("main", "main")],
)
def test_words_are_typed_as_people_do(word: str, typed: str) -> None:
    assert quoted(word) == typed
    assert shlex.split(typed) == [word]
