"""Faults on SQLite and folders, and ``GRAVELER_FAULTS`` pairs of faults for each verb: one in the verb, one in its repetition.

Collected only where that is set, as by `make soak`.
"""

from pathlib import Path
from random import Random

from tests.lake.faults import KINDS, WAYS, Case, FolderScene, Kind, MemoryScene, boundaries, experiment, start
from tests.lake.test_faults import PAIRS, by_verb, made, one_by_one


@by_verb
def test_after_a_fault_at_any_request_on_sqlite_and_folders_a_verb_has_happened_or_not(
    case: Case, tmp_path: Path
) -> None:
    one_by_one(case, tmp_path, FolderScene)


@by_verb
def test_after_a_fault_and_another_one_in_the_repetition_a_verb_has_happened_or_not(case: Case, tmp_path: Path) -> None:
    begin = start(case, MemoryScene(made(tmp_path, "start")))
    number = len(boundaries(case, begin, made(tmp_path, "count")))
    random = Random(case.name)
    for serial in range(PAIRS):
        pair: list[tuple[int, Kind]] = [(random.randrange(number), random.choice(KINDS)) for _ in range(2)]
        way = random.choice(WAYS)
        try:
            experiment(case, begin, made(tmp_path, str(serial)), pair, way)
        except AssertionError as error:
            raise AssertionError(f"{case.name}, {pair}, {way}: {error}") from error
