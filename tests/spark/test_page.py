"""The page on Spark: its Python examples are run, from top to bottom."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

import graveler
from tests.support.shell import Shell

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "spark.md"


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```py\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_page_works(spark: SparkSession, tmp_path: Path, shell: Shell) -> None:
    assert len(blocks(PAGE)) >= 7
    with graveler.create(tmp_path / ".graveler") as lake:
        lake.repository("sales").create()
    shell.cd(tmp_path)
    shell.unset("GRAVELER_LAKE")
    names: dict[str, object] = {
        "spark": spark,
        "published": f"file://{tmp_path}/published",
        "folder": str(tmp_path / ".graveler"),
    }
    for number, block in enumerate(blocks(PAGE), 1):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
    assert "report" in names
