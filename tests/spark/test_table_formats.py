"""Tables of Delta and Iceberg in branches: with their own Spark packages, through s3a, in a driver of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graveler.errors import InvalidError
from graveler.model import ObjectEntry
from graveler.spark.datasets import data_files
from tests.support.s3a import s3a_jars
from tests.support.table_formats import table_format_jars

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not s3a_jars() or not table_format_jars():
        pytest.skip("no mvn here to fetch the Spark packages of Delta and Iceberg, so neither is tested")
    command = [sys.executable, "-m", "tests.spark.table_formats_driver", str(tmp_path_factory.mktemp("cache"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(said, dict)
    return said


@pytest.mark.ci
def test_tables_of_delta_have_versions_by_ref(found: dict[str, Any]) -> None:
    delta = found["delta"]
    assert delta["old"] == [0, 1, 2, 3, 4]
    assert delta["new"] == [2, 3, 4]
    assert delta["first version"] == [0, 1, 2, 3, 4], "Delta's own time travel, within a ref"
    assert delta["gone"] == [0, 1], "two refs in one join"
    assert delta["changes"] == ["added"], "a change of the table adds files, and changes none"
    assert delta["markers"] == ["tables/events/_delta_log/_staged_commits/"], "s3a's, of an empty folder"


@pytest.mark.ci
def test_two_branches_that_write_one_table_conflict(found: dict[str, Any]) -> None:
    delta = found["delta"]
    assert delta["after the first"] == [2, 3, 4, 100]
    assert delta["second merge"].startswith("MergeConflictError: merging 'right' into 'main'")
    assert "'tables/events/_delta_log/" in delta["second merge"]


@pytest.mark.ci
def test_copies_of_iceberg_tables_lead_to_where_they_were_written(found: dict[str, Any]) -> None:
    iceberg = found["iceberg"]
    assert iceberg["copy"] == [0, 1, 2, 3, 4]
    assert iceberg["its files"] == ["ice"], "not the copy's: the metadata has absolute locations"
    assert "version-hint.text" in iceberg["changed in place"], "a file that Iceberg overwrites is not what was imported"


@pytest.mark.ci
def test_tables_with_a_log_are_not_read_as_files(found: dict[str, Any]) -> None:
    assert "InvalidError: 'tables/events' is a table in Delta format" in found["delta"]["read as files"]
    assert "InvalidError: 'tables/events' is a table in Delta format" in found["delta"]["read above"]
    assert "InvalidError: 'tables/iced' is a table in Iceberg format" in found["iceberg"]["read as files"]


@pytest.mark.parametrize(
    ("path", "kind", "table"),
    [
        ("t/_delta_log/00000000000000000000.json", "Delta", "t"),
        ("t/day=1/_delta_log/_last_checkpoint", "Delta", "t/day=1"),
        ("t/metadata/v3.metadata.json", "Iceberg", "t"),
        ("t/.hoodie/hoodie.properties", "Hudi", "t"),
    ],
)
def test_what_says_that_a_folder_has_a_log(path: str, kind: str, table: str) -> None:
    entries = [ObjectEntry(path=name, address="a", size=1, checksum="00", mtime=1) for name in ("t/a.parquet", path)]
    with pytest.raises(InvalidError, match=f"'{table}' is a table in {kind} format, whose log"):
        list(data_files(entries, "t"))


def test_a_folder_called_metadata_is_no_log() -> None:
    names = ["t/_SUCCESS", "t/a.parquet", "t/metadata/b.parquet"]
    entries = [ObjectEntry(path=name, address="a", size=1, checksum="00", mtime=1) for name in names]
    assert [entry.path for entry in data_files(entries, "t")] == names[1:]
