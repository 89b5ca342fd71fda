"""Verbs on a disk whose syncs and writes fail: their answers are true. See :mod:`tests.lake.disk_faults`, ``docs/faults.md``.

``GRAVELER_FAULTS`` tries all verbs and all calls.
"""

import os
from pathlib import Path

import msgspec
import pytest

from tests.lake.disk_faults import Campaign, Outcome
from tests.lake.faults import CASES
from tests.support import brittle

LONG = bool(os.environ.get("GRAVELER_FAULTS"))
VERBS = (
    "create repository",
    "create branch",
    "create tag",
    "set metadata",
    "upload",
    "delete many",
    "reset",
    "commit",
    "merge",
)
PROGRAM = "import runpy; runpy.run_module('tests.lake.disk_faults', run_name='__main__')"


@pytest.mark.parametrize(
    "files",
    ["/lake/tables.sqlite", "/lake/objects/"] if LONG else ["/lake/tables.sqlite"],
    ids=lambda files: files.split("/")[2].removesuffix(".sqlite"),
)
@pytest.mark.parametrize("lasting", [False, True] if LONG else [False], ids=lambda lasting: "all" if lasting else "one")
@pytest.mark.parametrize("kind", [brittle.Kind.SYNC, brittle.Kind.WRITE], ids=lambda kind: kind.name.lower())
def test_what_a_verb_says_of_a_failing_disk_is_so(
    kind: brittle.Kind, lasting: bool, files: str, tmp_path: Path
) -> None:
    cases = [case.name for case in CASES if case.name in VERBS or LONG]
    every = 1 if LONG or kind is brittle.Kind.SYNC else 7
    campaign = Campaign(str(tmp_path), cases, int(kind), files, lasting, every)
    printed = brittle.run(PROGRAM, msgspec.json.encode(campaign).decode())
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in printed.splitlines()]
    tried = {outcome.case for outcome in outcomes}
    assert tried == set(cases) if files.endswith(".sqlite") else tried < set(cases), "all change the table"
    assert {outcome.told for outcome in outcomes} >= {"unknown" if kind is brittle.Kind.SYNC else "nothing"}
    assert [outcome for outcome in outcomes if not outcome.is_true] == []
