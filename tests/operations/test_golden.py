"""Operations that an earlier version recorded are understood, and their rows and files are still written the same way.

``make_golden`` recorded them.
"""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import RepositoryUID
from graveler.operations.parts.part_files import PartResult, Plan
from graveler.operations.steps import Steps
from graveler.operations.store import Operation, Operations, PartFailure
from graveler.storage.limits import decode_item
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Item, Key
from tests.lake.support import NAME, NAMESPACE, FakeClock
from tests.operations.make_golden import contents
from tests.operations.support import SMALL

GOLDEN = {
    file.stem: json.loads(file.read_bytes()) for file in (Path(__file__).parent.parent / "golden/operations").iterdir()
}
KINDS = pytest.mark.parametrize("kind", sorted(GOLDEN))
COMMITTED = pytest.mark.parametrize("kind", sorted(kind for kind, golden in GOLDEN.items() if golden["commit"]))


def items(rows: dict[str, str]) -> dict[Key, Item]:
    keys = {Key(name.rpartition(" ")[0], bytes.fromhex(name.rpartition(" ")[2])): body for name, body in rows.items()}
    return {key: decode_item(key, b64decode(body)) for key, body in keys.items()}


class Restored:
    """The lake of a recording: before the operation was planned, or ``after`` all its parts are done."""

    def __init__(self, golden: dict[str, Any], *, after: bool) -> None:
        self.clock = FakeClock(golden["clock"])
        self.tables = MemoryTables()
        self.objects = MemoryObjects(NAMESPACE, self.clock.now)
        for key, item in items(golden["rows"] | (golden["added_rows"] if after else {})).items():
            self.tables.put(key, item)
        for name, data in (golden["objects"] | (golden["added_objects"] if after else {})).items():
            self.objects.put(name, b64decode(data))
        self.operations = Operations(self.tables, RepositoryUID(golden["uid"]))

    def repository(self) -> OpenRepository:
        return Lake(self.tables, lambda _: self.objects, clock=self.clock).repository(NAME)

    def steps(self) -> Steps:
        return Steps(self.repository(), self.operations.get("op"), SMALL)


@KINDS
def test_a_recorded_operation_is_read_and_written_alike(kind: str) -> None:
    golden = GOLDEN[kind]
    restored = Restored(golden, after=True)
    operation = restored.operations.get("op")
    assert msgspec.to_builtins(operation) == golden["operation"]
    stored = restored.tables.get(Key(f"{golden['uid']}/operations", b"op"))
    assert stored is not None
    assert msgspec.msgpack.encode(operation) == stored["operation"]
    assert restored.operations.failure(operation) == PartFailure(1, "BusyError", "why")
    assert restored.operations.part_claim(operation, 1) == "beat"
    assert restored.operations.progress(operation).parts == operation.parts


@KINDS
def test_recorded_plans_and_results_are_read_and_written_alike(kind: str) -> None:
    files = {name: b64decode(data) for name, data in GOLDEN[kind]["added_objects"].items() if "/operations/" in name}
    assert len(files) == GOLDEN[kind]["operation"]["parts"] + 1
    for name, data in files.items():
        of = Plan if "/plans/" in name else PartResult
        assert msgspec.msgpack.encode(msgspec.msgpack.decode(data, type=of)) == data, name


@COMMITTED
def test_the_same_steps_write_the_same_rows_and_files(kind: str) -> None:
    golden = GOLDEN[kind]
    restored = Restored(golden, after=False)
    operation = restored.operations.get("op")
    for number in restored.steps().plan(0).left:
        restored.steps().run_part(number, 0)
    restored.operations.note_failure(operation, PartFailure(1, "BusyError", "why"))
    assert restored.operations.claim_part(operation, 1, "beat", None)
    for key, item in items(golden["added_rows"]).items():
        if "/operation" in key.partition:
            assert restored.tables.get(key) == item, key
    for name, data in golden["added_objects"].items():
        assert restored.objects.get(name) == b64decode(data), name


@COMMITTED
def test_an_operation_begun_by_the_recording_version_ends_with_the_same_tree(kind: str) -> None:
    restored = Restored(GOLDEN[kind], after=True)
    commit = restored.steps().publish(0)
    assert commit is not None
    assert contents(commit) == GOLDEN[kind]["commit"]
    assert restored.repository().branch("main").commit_id == commit.id


def test_an_operation_of_any_version_lacks_fields_that_came_later() -> None:
    golden = GOLDEN["merge"]["operation"]
    fields = ("id", "kind", "request", "state", "created", "updated")
    first = msgspec.convert({name: golden[name] for name in fields}, Operation)
    assert (first.claim, first.known_by, first.is_finished) == (0.0, "op", False)
