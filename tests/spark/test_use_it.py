"""The lines that the web page offers for Spark read what they name."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.shell import Shell
from tests.support.use_it import LINES, make_lake


def test_lines_of_the_web_page_read_what_they_name(spark: SparkSession, tmp_path: Path, shell: Shell) -> None:
    make_lake(tmp_path / "lake")
    shell.export("GRAVELER_LAKE", tmp_path / "lake")
    for place in LINES["places"]:
        for recipe in place["recipes"]:
            if recipe["tool"] == "Spark":
                names: dict[str, Any] = {"spark": spark}
                exec(compile(recipe["lines"], place["path"], "exec"), names)
                assert names["frame"].count() >= 2, recipe["lines"]
