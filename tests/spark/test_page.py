"""What the page on Spark shows in Python is run, from top to bottom."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import graveler

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


def test_the_page_works(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    with graveler.create(tmp_path / ".graveler") as lake:
        lake.repository("sales").create()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAVELER_LAKE", raising=False)
    names: dict[str, object] = {
        "spark": spark,
        "published": f"file://{tmp_path}/published",
        "folder": str(tmp_path / ".graveler"),
    }
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
    assert "report" in names
