"""An import outlives the process that works on it, wherever that is killed: another one brings it to its end, as one commit."""

import subprocess
import sys
from pathlib import Path
from threading import Event

import msgspec
import pytest

from graveler.lake.folder import create_folder_lake
from graveler.lake.importing.prefix_listing import AddressType, ImportAddress
from graveler.lake.in_parts.asks import ImportAsk
from graveler.operations.parted import IMPORT, do_in_parts
from graveler.operations.runner import Runner
from graveler.operations.store import OperationState
from tests.operations.worker import POINTS

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
LEASE = 0.5


@pytest.mark.parametrize("point", POINTS)
def test_another_process_ends_what_a_killed_one_began(tmp_path: Path, point: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(10):
        (source / f"{number}").write_text("x")
    lake = create_folder_lake(tmp_path / "lake")
    opened = lake.create_repository("repo", "local://repo")
    opened.upload("main", "in/old", b"1")
    opened.commit("main", "before")
    address = ImportAddress(AddressType.COMMON_PREFIX, f"file://{source}/", "in")
    request = msgspec.json.encode(ImportAsk("main", (address,), "take over", "me")).decode()
    command = [sys.executable, "-m", "tests.operations.worker", str(tmp_path / "lake"), "repo", "id", request]
    with subprocess.Popen([*command, point, str(LEASE)], stdout=subprocess.PIPE, cwd=ROOT) as worker:
        assert worker.stdout is not None
        try:
            assert worker.stdout.readline() == b"there\n"
            runner = Runner(lake.tables, {IMPORT: do_in_parts}, heartbeat=LEASE / 10, lease=LEASE)
            assert runner.look(opened, "id").attempt == 1, "who works is left alone, however long it takes"
        finally:
            worker.kill()  # SIGKILL: it can tell nobody
    never = Event()
    for _ in range(int(PATIENCE / 0.01)):
        operation = runner.look(opened, "id")
        if operation.is_finished:
            break
        never.wait(0.01)
    runner.close()
    assert (operation.state, operation.attempt) == (OperationState.COMPLETED, 2)
    assert operation.result == opened.branch("main").commit_id
    assert [entry.path for entry in opened.objects("main")] == [f"in/{number}" for number in range(10)]
    assert [commit.message for commit in opened.log("main").results][:2] == ["take over", "before"]
    lake.close()
