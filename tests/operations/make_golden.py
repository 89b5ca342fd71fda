"""Records tests/golden/operations: lakes in the middle of operations in parts, as the version of their recording stored them.

    python -m tests.operations.make_golden

Each file holds a lake before the operation is planned, the rows and objects that planning and working on all parts add, and the
commit that publishing gives. Run it only to add a kind of operation: files of older versions must stay readable.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, SplitParameters
from graveler.operations.steps import Steps
from graveler.operations.store import Operations, PartFailure
from graveler.requests.importing import AddressType, ImportAddress
from graveler.storage.limits import encode_item
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Key
from tests.lake.support import NAME, World, put
from tests.operations.support import SMALL, commit_ask, diverged, merge_ask, write_down
from tests.support.pinned import Asked, pinned_cherry_pick, pinned_import, pinned_revert, pinned_rewrite

FOLDER: Final = Path(__file__).parent.parent / "golden" / "operations"

Rows = dict[str, str]
"""Items of the table and objects: names, and contents in base64."""


def rows_of(world_tables: MemoryTables) -> Rows:
    rows: Rows = {}
    for partition in sorted(world_tables.partitions):
        for sort, item in world_tables.query(partition).items:
            body = encode_item(Key(partition, sort), item)
            rows[f"{partition} {sort.hex()}"] = b64encode(body).decode()
    return rows


def objects_of(world: World) -> Rows:
    objects = world.objects()
    return {entry.key: b64encode(objects.get(entry.key)).decode() for entry in objects.list("")}


def revert_ask(repository: OpenRepository) -> Asked:
    head = repository.commit_of("main")
    put(repository, {"200": "later"})
    repository.commit("main", "later")
    return pinned_revert(branch="main", ref="main", ref_id=head.id, parent_number=1)


def cherry_pick_ask(repository: OpenRepository) -> Asked:
    return pinned_cherry_pick(branch="main", ref="dev", ref_id=repository.commit_of("dev").id)


def rewrite_ask(repository: OpenRepository) -> Asked:
    del repository
    return pinned_rewrite(branch="main", split=SplitParameters(min_size=50, max_size=400, raggedness=3))


def import_ask(folder: Path) -> Callable[[OpenRepository], Asked]:
    def ask(repository: OpenRepository) -> Asked:
        del repository
        (folder / "a.txt").write_text("a")
        return pinned_import("main", (ImportAddress(AddressType.COMMON_PREFIX, f"file://{folder}/", "in/"),), "import")

    return ask


def contents(commit: Commit) -> dict[str, Any]:
    """The parts of a commit that do not depend on the moment."""
    return {"tree": commit.metarange_id, "parents": list(commit.parents), "message": commit.message}


def record(name: str, ask: Callable[[OpenRepository], Asked], *, publish: bool = True) -> None:
    """Record one operation."""
    world = World()
    diverged(world.main, 40)
    operation = write_down(world, ask(world.main))
    tables = world.tables
    assert isinstance(tables, MemoryTables)
    operations = Operations(tables, world.main.repository.uid)
    Steps(world.repository(), operation, SMALL).plan(0)  # a commit seals its changes, under a random name
    world.objects().delete("_graveler/operations/op/plans/0000")
    operations.change("op", lambda now: now.claimed("machine-1", 300.0))
    clock, rows, objects = world.clock.time, rows_of(tables), objects_of(world)

    operation = operations.get("op")
    planned = Steps(world.repository(), operation, SMALL).plan(0)
    steps = Steps(world.repository(), operations.get("op"), SMALL)
    for number in planned.left:
        steps.run_part(number, 0)
    operations.note_failure(operation, PartFailure(1, "BusyError", "why"))
    assert operations.claim_part(operation, 1, "beat", None)
    added = {row: body for row, body in rows_of(tables).items() if rows.get(row) != body}
    added_objects = {key: data for key, data in objects_of(world).items() if objects.get(key) != data}
    document: Mapping[str, Any] = {
        "clock": clock,
        "uid": world.main.repository.uid,
        "rows": rows,
        "objects": objects,
        "added_rows": added,
        "added_objects": added_objects,
        "operation": msgspec.to_builtins(operations.get("op")),
        "commit": None,
    }
    if publish:
        commit = Steps(Lake(tables, world.objects, clock=world.clock).repository(NAME), operation, SMALL).publish(0)
        assert commit is not None
        document = {**document, "commit": contents(commit)}
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    record("merge", merge_ask)
    record("commit", commit_ask)
    record("revert", revert_ask)
    record("cherry-pick", cherry_pick_ask)
    record("rewrite", rewrite_ask)
    with TemporaryDirectory() as folder:
        record("import", import_ask(Path(folder)), publish=False)
