"""Faults at every request of every verb, one by one: see :mod:`tests.lake.faults`, and ``docs/faults.md``.

Every fifth request, beginning where the seed says, and always the last one; all with ``GRAVELER_WHOLE``. ``GRAVELER_FAULTS=n``
tries every kind of fault, and every way to go on, and adds :mod:`tests.lake.test_faults_long`.
"""

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.lake.faults import (
    CASES,
    WAYS,
    Case,
    MemoryScene,
    Scene,
    boundaries,
    experiment,
    start,
)
from tests.support.campaigns import share

PAIRS = int(os.environ.get("GRAVELER_FAULTS", "0"))

by_verb = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def one_by_one(case: Case, folder: Path, make: Callable[[Path], Scene]) -> tuple[int, int]:
    """A share of the requests, all with ``GRAVELER_WHOLE``; of each, every kind of fault, and one of the ways to go on, all with
    ``GRAVELER_FAULTS``. Returns how many requests and how many faults were tried."""
    begin = start(case, make(folder / "start"))
    requests = boundaries(case, begin, made(folder, "count"), short=not PAIRS)
    problems: list[str] = []
    serial = count()
    numbered = list(enumerate(requests))
    tried = dict([*share(numbered, 5, case.name), *numbered[-1:]])
    for ordinal, kinds in tried.items():
        for turn, kind in enumerate(kinds):
            for way in WAYS if PAIRS else [WAYS[(ordinal + turn) % len(WAYS)]]:
                try:
                    experiment(case, begin, made(folder, str(next(serial))), [(ordinal, kind)], way)
                except Exception as error:  # noqa: BLE001 - all that is wrong is told at the end
                    problems.append(f"request {ordinal} of {len(requests)}, {kind}, {way}: {error!r}"[:600])
    begin.scene.close()
    assert not problems, f"{case.name}: {len(problems)} wrong\n" + "\n".join(problems[:20])
    return len(tried), sum(map(len, tried.values()))


def made(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


@pytest.mark.search
@by_verb
def test_after_a_fault_at_any_request_a_verb_has_happened_or_not(
    case: Case, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("faults", one_by_one(case, tmp_path, MemoryScene))
