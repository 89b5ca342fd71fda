"""Items with a byte changed, in a table without checksums: reading them raises graveler's errors, and no others."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from graveler.access.keys import Keys
from graveler.access.permissions import Role
from graveler.errors import GravelerError
from graveler.ingest.rules import RuleStore
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.operations.store import Operations
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode
from graveler.storage.tables.memory import MemoryTables
from tests.lake.faults import MemoryScene, client
from tests.lake.faults.model import Model
from tests.lake.faults.story import die_committing, story
from tests.lake.support import NAME

EVERY = 1 if os.environ.get("GRAVELER_FAULTS") else 40
"""One in so many bytes."""

Reading = Callable[[Lake, OpenRepository], object]

READING: dict[str, Reading] = {
    "repositories": lambda lake, _: lake.repositories(),
    "branches": lambda _, repository: repository.branches(show_hidden=True),
    "tags": lambda _, repository: repository.tags(),
    "log": lambda _, repository: [repository.log(branch) for branch in ("main", "side", "v1")],
    "reflog": lambda _, repository: repository.reflog("main"),
    "objects": lambda _, repository: [list(repository.objects(ref)) for ref in ("main", "spare", "side", "v1")],
    "folders": lambda _, repository: [repository.list_objects(ref, delimiter="/") for ref in ("main", "spare")],
    "uncommitted": lambda _, repository: [repository.uncommitted(branch) for branch in ("main", "spare")],
    "diff": lambda _, repository: repository.diff("main", "side"),
    "blame": lambda _, repository: repository.blame("main", "a"),
    "summary": lambda _, repository: repository.uncommitted_summary("spare", delimiter="/"),
    "settings": lambda _, repository: (repository.metadata(), repository.protection(), repository.retention()),
    "fsck": lambda lake, _: lake.fsck(NAME),
    "operations": lambda lake, repository: list(Operations(lake.tables, repository.repository.uid).all()),
    "keys": lambda lake, _: Keys(lake.tables).all(),
    "rules": lambda lake, _: list(RuleStore(lake.tables).all()),
    "plan": lambda _, repository: Garbage(repository, Options(Mode.DRY_RUN, threads=1)).run(),
}


@pytest.mark.parametrize("what", ["body", "key"])
def test_a_changed_byte_in_an_item_raises_no_error_but_graveler_s(what: str, tmp_path: Path) -> None:
    scene = MemoryScene(tmp_path)
    lake = client(scene)
    model: Model = {}
    story(lake, model)
    die_committing(lake, scene, model)
    Keys(lake.tables).create("somebody", Role.ADMIN, now=1)
    tables = scene.tables
    assert isinstance(tables, MemoryTables)
    random = Random(18)
    problems: set[str] = set()
    for partition, (order, bodies) in list(tables.partitions.items()):
        for sort in list(order):
            body = bodies[sort]
            whole = body if what == "body" else sort
            for at in range(random.randrange(EVERY), len(whole), EVERY):
                for byte in (0xFF, whole[at] ^ 1 << random.randrange(8)):
                    changed = whole[:at] + bytes([byte]) + whole[at + 1 :]
                    if what == "body":
                        tables.partitions[partition] = (order, {**bodies, sort: changed})
                    else:
                        others = [key for key in order if key not in (sort, changed)]
                        tables.partitions[partition] = (sorted([*others, changed]), {**bodies, changed: body})
                    for name, verb in READING.items():
                        try:
                            fresh = client(scene)
                            verb(fresh, fresh.repository(NAME))
                        except GravelerError:
                            pass
                        except Exception as error:  # noqa: BLE001 - this is what is looked for
                            problems.add(f"{name}, {what} of {partition.partition('/')[2]}: {error!r}"[:200])
            tables.partitions[partition] = (order, bodies)
    assert not problems, "\n".join(sorted(problems))
