"""Manifests that Spark's Iceberg runtime writes, of versions 1 to 3: they are read, follow the specification, and survive."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import fastavro
import pytest

from graveler.table_format.file_locations import normal_location
from graveler.table_format.manifest_lists import manifests_of
from graveler.table_format.manifests import read_manifest, record_of
from graveler.table_format.plain_documents import Document
from graveler.table_format.reached_files import added_files, reached_files
from graveler.table_format.spec_check import check_table
from graveler.table_format.table_metadata import read_table
from tests.support.table_formats import table_format_jars

pytestmark = pytest.mark.ci
ROOT = Path(__file__).resolve().parents[2]
TABLES = ("v1", "v2", "v3", "plain3")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Document]]:
    """The states of each table, in their order."""
    if not table_format_jars():
        pytest.skip("no mvn here to fetch the Spark package of Iceberg, so its manifests are not tested")
    folder = tmp_path_factory.mktemp("tables")
    command = [sys.executable, "-m", "tests.spark.iceberg_tables_driver", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    states: dict[str, list[Document]] = {}
    for table in TABLES:
        paths = (folder / "ns" / table / "metadata").glob("v*.metadata.json")
        ordered = sorted(paths, key=lambda path: int(path.name.partition(".")[0][1:]))
        states[table] = [read_table(path.read_bytes(), table) for path in ordered]
    return states


def read(location: str) -> bytes:
    return Path(normal_location(location).removeprefix("file://")).read_bytes()


@pytest.mark.parametrize("table", TABLES)
def test_each_state_follows_the_specification(table: str, tables: dict[str, list[Document]]) -> None:
    for state in tables[table]:
        assert check_table(state, read) == []


@pytest.mark.parametrize("table", TABLES)
def test_each_commit_adds_what_the_state_before_did_not_reach(table: str, tables: dict[str, list[Document]]) -> None:
    states = tables[table]
    for before, after in zip([None, *states], states, strict=False):
        expected = set(reached_files(after, read)) - (set(reached_files(before, read)) if before else set())
        added = {file.location for file in added_files(before, after, read).values() if not file.presumed}
        assert added >= expected
        assert added == expected or table == "v1", "whose rewritten manifests do not tell how old their files are"


@pytest.mark.parametrize("table", TABLES)
def test_manifests_survive(table: str, tables: dict[str, list[Document]]) -> None:
    state = tables[table][-1]
    vectors = 0
    for snapshot in state["snapshots"]:
        for described in manifests_of(snapshot, read):
            contents = read(described.path)
            manifest = read_manifest(contents, described)
            number = described.sequence_number
            again, listed = manifest.write(manifest.entries, described.path, snapshot_id=1, sequence_number=number)
            assert (listed.added_files, listed.partitions) == (described.added_files, described.partitions)
            theirs, ours = fastavro.reader(BytesIO(contents)), fastavro.reader(BytesIO(again))
            assert theirs.writer_schema == ours.writer_schema
            for entry, record, rewritten in zip(manifest.entries, theirs, ours, strict=True):
                assert isinstance(record, dict)
                assert isinstance(rewritten, dict)
                assert _without_nan(rewritten["data_file"]) == _without_nan(record["data_file"]), (
                    "but a row ID that was inherited"
                )
                assert entry.path == record["data_file"]["file_path"]
                assert record_of(entry)["data_file"]["lower_bounds"] == record["data_file"]["lower_bounds"]
                vectors += entry.is_deletion_vector
    assert (vectors > 0) == (table in ("v3", "plain3"))


def _without_nan(file: Document) -> str:
    return repr(file | {"first_row_id": None})
