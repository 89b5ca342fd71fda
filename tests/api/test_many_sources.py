"""Imports of more sources than one operation can store: the error says how many there are, how many fit, and what else to do."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from graveler.errors import InvalidError
from graveler.operations.operator import MAX_REQUEST_BYTES
from graveler.operations.pinned_requests import MERGE
from graveler.operations.runner import Runner
from tests.api.support import Client, EventClient, make_world

IMPORT = "/repositories/repo/branches/main/import"


@pytest.fixture
def client() -> Client:
    world = make_world()
    world.lake.create_repository("repo", "mem://repo")
    return EventClient(world)


def sources(landed: Path, number: int) -> list[dict[str, Any]]:
    return [{"type": "object", "path": landed.as_uri(), "destination": f"in/{at:05}"} for at in range(number)]


@pytest.mark.parametrize("dry_run", ["", "/dry-run"])
@pytest.mark.parametrize("number", [3_000, 6_000, 20_000])
def test_the_error_says_what_fits_and_that_is_begun(client: Client, tmp_path: Path, number: int, dry_run: str) -> None:
    landed = tmp_path / ("a" * 100)  # which never did, so that what is begun ends soon
    refused = client("POST", IMPORT + dry_run, (), {"paths": sources(landed, number)})
    assert refused.status == 400, refused
    assert f"{number:,} sources" in refused.message
    for internal in ("Key(", "partition", "item "):
        assert internal not in refused.message
    said = re.search(r"here about ([\d,]+) sources", refused.message)
    assert said is not None
    fits = int(said[1].replace(",", "")) * 95 // 100
    begun = client("POST", IMPORT + dry_run, (), {"paths": sources(landed, fits)})
    assert begun.status == 202, begun
    while "error" not in (status := client("GET", IMPORT, {"id": begun.json()["id"]}).json()):
        time.sleep(0.01)
    assert landed.name in status["error"]["message"], "it was begun, and came to the first of them"


@pytest.mark.parametrize("beyond", [0, 1])
def test_no_operation_is_asked_for_more_than_it_can_note(beyond: int) -> None:
    world = make_world()
    repository = world.lake.create_repository("repo", "mem://repo")
    runner = Runner(world.lake.tables, {MERGE: lambda *_: ""})
    try:
        request = b"x" * (MAX_REQUEST_BYTES + beyond)
        if beyond:
            with pytest.raises(InvalidError, match="300,001 bytes, but an operation can store at most 300,000"):
                runner.start(repository, MERGE, request)
        else:
            assert runner.start(repository, MERGE, request).kind == MERGE
    finally:
        runner.close()
