"""Notes on ranges in a folder lake: whoever made a range, the next commit of any process finds what its writer noted."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import MergeStrategy, ObjectEntry, SplitParameters
from graveler.tree import apply as applying
from graveler.tree import patch as patching
from graveler.tree import writer as writing
from graveler.tree.assembler import table_file
from graveler.tree.range_notes import RangeNote, RangeNotes
from graveler.tree.record import record_ids
from graveler.tree.store import ENOUGH
from tests.support.shell import Shell

SPLIT = SplitParameters(min_size=60_000, max_size=500_000, raggedness=300)
"""Ranges of several blocks: a single one gets no note."""
PATHS = [f"table/day={number // 300:02}/part-{number:05}.parquet" for number in range(8000)]


def entry(path: str, version: int) -> ObjectEntry:
    return ObjectEntry(path, f"s3://elsewhere/{version}/{path}", version, "00" * 16, 0)


class Work(ExitStack):
    """What this process computes for ranges: keys whose records it hashes, files that it writes record by record; and notes."""

    def __init__(self) -> None:
        super().__init__()
        self.hashed: set[bytes] = set()
        self.written = self.read = self.missed = self.put = 0
        get, put = RangeNotes.get, RangeNotes.put

        def ids(keys: Sequence[bytes], packed: Sequence[bytes]) -> bytes:
            self.hashed.update(keys)
            return record_ids(keys, packed)

        def write(*terms: object) -> bytes:
            self.written += 1
            return table_file(*terms)  # type: ignore[arg-type]

        def get_note(notes: RangeNotes, range_id: bytes, suffix: bytes) -> RangeNote | None:
            note = get(notes, range_id, suffix)
            self.read += note is not None
            self.missed += note is None
            return note

        def put_note(notes: RangeNotes, range_id: bytes, suffix: bytes, note: RangeNote) -> None:
            self.put += 1
            put(notes, range_id, suffix, note)

        for module in (applying, patching, writing):
            self.enter_context(patch.object(module, "record_ids", ids))
        self.enter_context(patch.object(writing, "table_file", write))
        self.enter_context(patch.object(RangeNotes, "get", get_note))
        self.enter_context(patch.object(RangeNotes, "put", put_note))


def one_of_each_range(repository: OpenRepository, branch: str, version: int) -> list[ObjectEntry]:
    tree = repository.tree(branch)
    return [entry(tree.info(number).first.decode(), version) for number in range(len(tree))]


@pytest.mark.parametrize("enough", [300, ENOUGH], ids=["by workers", "by one process"])
def test_a_commit_after_a_large_one_finds_its_notes_in_any_process(enough: int, tmp_path: Path, shell: Shell) -> None:
    shell.export("GRAVELER_WORKERS", "2")
    maker = create_folder_lake(tmp_path / "lake").create_repository("first", "local://first", split=SPLIT)
    maker.link_many("main", [entry(path, 1) for path in PATHS])
    with Work() as work, patch.object(applying, "ENOUGH", enough), patch.object(applying, "TASK", 1000):
        maker.commit("main", "all")
    assert (work.put == 0) is (enough < ENOUGH)  # workers put those of theirs
    other = open_folder_lake(tmp_path / "lake").repository("first")
    for version, repository in ((2, maker), (3, other), (4, maker), (5, other)):
        changed = one_of_each_range(repository, "main", version)
        assert len(changed) > 5
        repository.link_many("main", changed)
        with Work() as work:
            repository.commit("main", "one of each range")
        assert (work.read, work.missed, work.put, work.written) == (len(changed), 0, len(changed), 0)
        assert work.hashed == {one.path.encode() for one in changed}


def test_a_merge_of_branches_that_several_processes_changed_finds_their_notes(tmp_path: Path) -> None:
    maker = create_folder_lake(tmp_path / "lake").create_repository("first", "local://first", split=SPLIT)
    maker.link_many("main", [entry(path, 1) for path in PATHS])
    maker.commit("main", "all")
    others = [open_folder_lake(tmp_path / "lake").repository("first") for _ in range(3)]
    changed = one_of_each_range(maker, "main", 2)
    for repository, branch, version in ((others[0], "source", 2), (others[1], "destination", 3)):
        repository.create_branch(branch, "main")
        repository.link_many(branch, [entry(one.path, version) for one in changed])
        repository.commit(branch, "one of each range")
    with Work() as work:
        others[2].merge("source", "destination", strategy=MergeStrategy.SOURCE_WINS)
    assert (work.missed, work.written) == (0, 0)
    assert work.read == len(changed) > 5
    assert work.put == 0  # the source has these ranges
    assert work.hashed == {one.path.encode() for one in changed}
