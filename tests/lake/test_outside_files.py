"""The quick look at files outside the lake: what it finds, and what it says it did not look at."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.reading import outside_files
from graveler.lake.reading.outside_files import OutsideFiles
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry, SplitParameters
from tests.lake.support import World, write_files

NAMES = [f"{number:02}" for number in range(20)]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Lake]:
    with create_folder_lake(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_files(tmp_path / "files", dict.fromkeys(NAMES, "text"))
    return tmp_path / "files"


@pytest.fixture
def repository(opened: Lake) -> OpenRepository:
    return opened.create_repository("repo", "local://repo")


def look(repository: OpenRepository, prefix: str = "") -> OutsideFiles:
    result = repository.look_at_outside_files("main", prefix)
    assert result is not None
    return result


@pytest.mark.parametrize("trust_mtime", [False, True])
def test_files_that_are_gone_or_of_another_size_or_time_are_named(
    repository: OpenRepository, files: Path, trust_mtime: bool
) -> None:
    repository.import_folder("main", files, "in/", trust_mtime=trust_mtime)
    repository.upload("main", "inside", b"x")
    repository.commit("main", "m")
    before = look(repository)
    assert (before.objects, before.all_objects, before.files, before.looked_at) == (21, 21, 20, 20)
    assert (before.changed, before.examples, before.complete) == (0, (), True)
    (files / "03").unlink()
    (files / "05").write_text("longer")
    os.utime(files / "07", (1, 1))
    after = look(repository)
    assert {one.path: one.deviation for one in after.examples} == {
        "in/03": "gone",
        "in/05": "other size",
        "in/07": "other time",
    }
    assert after.examples[0].address == f"file://{files}/03"
    assert (after.changed, after.complete) == (3, True)
    assert (look(repository, "in/03").changed, look(repository, "in/04").changed) == (1, 0)
    assert look(repository, "in/1").files == 10


def test_a_bounded_look_spreads_over_all_keys_and_says_that_it_is_not_complete(
    repository: OpenRepository, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.import_folder("main", files, "in/")
    monkeypatch.setattr(outside_files, "_FILES", 5)
    for name in NAMES:
        (files / name).unlink()
    few = look(repository)
    assert (few.files, few.looked_at, few.changed, few.complete) == (20, 5, 5, False)
    assert [one.path for one in few.examples] == ["in/00", "in/04", "in/08", "in/12", "in/16"]


def test_of_a_large_commit_some_ranges_are_searched(opened: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    split = SplitParameters(min_size=200, max_size=1600, raggedness=3)
    repository = opened.create_repository("repo", "local://repo", split=split)
    repository.link_many(
        "main", [ObjectEntry(f"{n:04}", f"file:///nowhere/{n:04}", 1, f"{n:032x}", 1) for n in range(400)]
    )
    repository.commit("main", "m")
    assert len(repository.tree("main")) > 10
    monkeypatch.setattr(outside_files, "_RECORDS", 100)
    some = look(repository)
    assert 20 < some.objects < some.all_objects == 400
    assert some.complete is False
    assert (some.looked_at, some.changed, len(some.examples)) == (some.changed, some.looked_at, 20)


def test_what_may_not_be_read_from_here_was_not_looked_at(repository: OpenRepository, tmp_path: Path) -> None:
    repository.link("main", ObjectEntry("x", "file:///proc/self/environ", 1, "c" * 32, 1))
    repository.commit("main", "m")
    result = look(repository)
    assert (result.files, result.looked_at, result.changed, result.complete) == (1, 0, 0, False)


def test_a_lake_that_is_not_in_a_folder_is_not_looked_at() -> None:
    assert World().main.look_at_outside_files("main") is None
