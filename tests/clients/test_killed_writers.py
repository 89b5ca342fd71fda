"""Writers of tables that are killed while they commit: an append is in the table whole or not at all, and the table goes on.

``GRAVELER_TABLE_KILLS=n`` kills n writers. The seed of ``--hypothesis-seed`` decides when.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from graveler.lake.opening.folder import create_folder_lake
from graveler.table_format.file_locations import normal_location
from graveler.table_format.spec_check import check_table
from graveler.table_format.table_metadata import read_table
from tests.support.campaigns import seed

KILLS: Final = int(os.environ.get("GRAVELER_TABLE_KILLS", "5"))
ROWS: Final = 3
"""Rows of an append."""
WINDOW: Final = 0.3
"""Seconds within which a writer is killed, once it has committed something."""
PROGRAM: Final = """
import sys
import pyarrow as pa
from pyiceberg.catalog import load_catalog

lake, writer, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
catalog = load_catalog("lake", **{"py-catalog-impl": "graveler.iceberg.Catalog", "lake": lake, "warehouse": "sales@main"})
table = catalog.load_table("shop.orders")
for number in range(10_000):
    table.append(pa.table({"writer": pa.array([writer] * rows, pa.int64()), "number": pa.array([number] * rows, pa.int64())}))
    print(number, flush=True)
"""


def opened(lake: Path) -> Catalog:
    return load_catalog(
        "lake", **{"py-catalog-impl": "graveler.iceberg.Catalog", "lake": str(lake), "warehouse": "sales@main"}
    )


def read(location: str) -> bytes:
    return Path(normal_location(location).removeprefix("file://")).read_bytes()


def killed(lake: Path, writer: int, moment: float) -> int:
    """Run a writer, kill it at a moment after its first commit, and return how many commits it has reported."""
    command = [sys.executable, "-c", PROGRAM, str(lake), str(writer), str(ROWS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        time.sleep(moment)  # when it is killed is what the test tries
        process.send_signal(signal.SIGKILL)
        return 1 + len(process.stdout.readlines())


@pytest.mark.ci
def test_a_killed_append_is_whole_or_not_at_all(tmp_path: Path) -> None:
    random = Random(seed())
    folder = tmp_path / "lake"
    with create_folder_lake(folder) as lake:
        lake.create_repository("sales", "local://sales")
    catalog = opened(folder)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", pa.schema([("writer", pa.int64()), ("number", pa.int64())]))
    for writer in range(KILLS):
        reported = killed(folder, writer, random.uniform(0.0, WINDOW))
        table = catalog.load_table("shop.orders")
        rows = table.scan(row_filter=f"writer == {writer}").to_arrow()["number"].to_pylist()
        counts = {number: rows.count(number) for number in set(rows)}
        assert set(counts) in (set(range(reported)), set(range(reported + 1))), (
            "what was reported, and at most one more"
        )
        assert set(counts.values()) == {ROWS}
        assert check_table(read_table(read(table.metadata_location), "orders"), read) == []
    table.append(pa.table({"writer": pa.array([-1], pa.int64()), "number": pa.array([0], pa.int64())}))
    catalog.close()
