"""The lines of "Use it" do what they say, for every tool but Spark (:mod:`tests.spark.test_use_it`), whatever the names."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graveler
from tests.support.shell import Shell
from tests.support.use_it import LINES, contents, make_lake

TOOLS = ("Python", "pandas", "DuckDB", "Polars", "Command line")
RECIPES = [
    pytest.param(place, recipe, id=f"{recipe['tool']}-{number}")
    for number, place in enumerate(LINES["places"])
    for recipe in place["recipes"]
    if recipe["tool"] in TOOLS
    # A download does not depend on the format, and takes a process.
    if recipe["tool"] != "Command line" or not place["path"].endswith(("parquet", "tsv", "json", "arrow", "txt", "bin"))
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("use-it") / "lake"
    make_lake(place)
    return place


@pytest.fixture
def folder(lake: Path, tmp_path: Path, shell: Shell) -> Path:
    """An empty working folder, and the lake in the environment."""
    shell.name_nothing(tmp_path)
    shell.export_all({"GRAVELER_LAKE": str(lake), "GRAVELER_USER": "ada", "LC_ALL": "C.UTF-8"})
    shell.export("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def run(line: str) -> str:
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(("place", "recipe"), RECIPES)
def test_lines_read_what_they_name(
    place: dict[str, Any], recipe: dict[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool, lines = recipe["tool"], recipe["lines"]
    if tool == "Command line":
        for line in lines.splitlines():
            run(line)
        if place["kind"] == "object":
            (file,) = folder.iterdir()
            assert file.read_bytes() == contents(place["path"])
        elif place["kind"] == "folder":
            assert [file.name for file in folder.rglob("*.parquet")] == ["part.parquet"]
        return
    names: dict[str, Any] = {}
    exec(compile(lines, tool, "exec"), names)
    if "frame" in names:
        assert len(names["frame"]) >= 2
    elif "data" in names:
        assert names["data"] == contents(place["path"])
    else:
        assert capsys.readouterr().out


def test_every_place_has_lines_of_python_and_of_the_command_line() -> None:
    for place in LINES["places"]:
        assert {recipe["tool"] for recipe in place["recipes"]} >= {"Python", "Command line"}


def test_lines_fill_an_empty_folder(folder: Path, lake: Path) -> None:
    put, put_folder, program = LINES["puts"]
    (folder / "one.csv").write_bytes(contents("one.csv"))
    (folder / "folder").mkdir()
    (folder / "folder" / "two.csv").write_bytes(contents("two.csv"))
    run(put_folder.replace("FOLDER", "folder"))
    run(put.replace("FILE", "one.csv"))
    exec(compile(program, "program", "exec"), {})
    with graveler.open(lake) as opened:
        paths = [item.path for item in opened.repository("sales").ref("main").objects(prefix="new/")]
    assert [path.rpartition("/")[2] for path in paths] == ["hello.txt", "one.csv", "two.csv"]
