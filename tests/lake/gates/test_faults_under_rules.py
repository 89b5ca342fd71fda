"""Faults at every request of verbs on a branch with rules, as of :mod:`tests.lake.test_faults`, which has one of them."""

from pathlib import Path

import pytest

from tests.lake.faults import Case, FolderScene, MemoryScene
from tests.lake.faults.cases import pulls
from tests.lake.faults.cases.gates import CASES, MORE
from tests.lake.test_faults import one_by_one

ON_FOLDERS = [*CASES, *MORE, *(case for case in pulls.CASES if case.verify is pulls.merged_behind_the_gate)]


@pytest.mark.ci
@pytest.mark.search
@pytest.mark.parametrize("case", MORE, ids=[case.name for case in MORE])
def test_after_a_fault_nothing_unchecked_is_published_and_nothing_is_held_for_ever(case: Case, tmp_path: Path) -> None:
    one_by_one(case, tmp_path, MemoryScene)


@pytest.mark.ci
@pytest.mark.search
@pytest.mark.parametrize("case", ON_FOLDERS, ids=[case.name for case in ON_FOLDERS])
def test_the_same_on_sqlite_and_folders(case: Case, tmp_path: Path) -> None:
    one_by_one(case, tmp_path, FolderScene)
