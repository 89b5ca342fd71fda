"""fsck of files outside the lake, which others may change at any time; and what its verdict covers."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from graveler.lake.fsck.findings import FindingKind, Report, TableState
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from tests.lake.support import World, write_files

K = FindingKind
FILES = {"a": "one", "b/c": "two", "b/d": "three"}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Lake]:
    with create_folder_lake(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture
def repository(opened: Lake, tmp_path: Path) -> OpenRepository:
    write_files(tmp_path / "files", FILES)
    made = opened.create_repository("repo", "local://repo")
    made.import_folder("main", tmp_path / "files", "in/")
    return made


def gone(file: Path) -> None:
    file.unlink()


def folder_gone(file: Path) -> None:
    rmtree(file.parent)


def shorter(file: Path) -> None:
    file.write_text("")


def longer(file: Path) -> None:
    file.write_text("longer than before")


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


def dangling(file: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere")


def pipe_instead(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


DAMAGES: list[tuple[Callable[[Path], None], FindingKind]] = [
    (gone, K.OBJECT_MISSING),
    (folder_gone, K.OBJECT_MISSING),
    (folder_instead, K.OBJECT_MISSING),
    (dangling, K.OBJECT_MISSING),
    (pipe_instead, K.OBJECT_MISSING),
    (shorter, K.OBJECT_SIZE),
    (longer, K.OBJECT_SIZE),
]


@pytest.mark.parametrize(("committed", "read_bytes"), [(False, False), (True, False), (True, True)])
def test_imported_files_that_are_gone_or_have_another_size_are_found_by_every_check(
    opened: Lake, tmp_path: Path, committed: bool, read_bytes: bool
) -> None:
    repository = opened.create_repository("repo", "local://repo")
    for damage, _ in DAMAGES:
        write_files(tmp_path / damage.__name__, {"x": "two"})
        repository.create_branch(damage.__name__, "main")
        repository.import_folder(damage.__name__, tmp_path / damage.__name__, f"{damage.__name__}/")

    def check() -> Report:
        return repository.fsck(committed_objects=committed, object_bytes=read_bytes)

    before = check()
    assert (before.findings, before.clean, before.counts.objects) == ((), True, len(DAMAGES))
    for damage, _ in DAMAGES:
        damage(tmp_path / damage.__name__ / "x")
    report = check()
    assert (report.complete, report.clean) == (True, False)
    expected = {(kind, f"{damage.__name__}/x", damage.__name__) for damage, kind in DAMAGES}
    assert {(finding.kind, finding.first, finding.refs[0].name) for finding in report.findings} == expected
    assert all("import them again" in finding.remedy for finding in report.findings)


def test_other_bytes_of_the_same_size_are_found_by_reading_them(repository: OpenRepository, tmp_path: Path) -> None:
    (tmp_path / "files/a").write_text("ONE")
    assert repository.fsck(committed_objects=True).clean
    (finding,) = repository.fsck(object_bytes=True).findings
    assert (finding.kind, finding.first) == (K.OBJECT_BYTES, "in/a")


def test_a_file_that_is_only_staged_is_checked_too(repository: OpenRepository, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    repository.link("main", ObjectEntry("x", f"file://{tmp_path}/x", 1, "c" * 32, 1))
    assert repository.fsck().clean
    (tmp_path / "x").unlink()
    assert [finding.kind for finding in repository.fsck().findings] == [K.OBJECT_MISSING]


def test_a_plain_check_looks_at_no_object_of_a_commit_but_files_outside(
    repository: OpenRepository, opened: Lake, tmp_path: Path
) -> None:
    repository.upload("main", "inside", b"bytes")
    repository.commit("main", "m")
    for path in (tmp_path / "lake/objects/repo/data").rglob("*"):
        if path.is_file():
            path.unlink()
    report = repository.fsck()
    assert (report.clean, report.scope.committed_objects, report.counts.objects) == (True, False, len(FILES))
    assert [finding.first for finding in repository.fsck(committed_objects=True).findings] == ["inside"]


def test_what_may_not_be_read_from_here_is_no_verdict(repository: OpenRepository, tmp_path: Path) -> None:
    with open_folder_lake(tmp_path / "lake", sources=[]) as served:
        report = served.fsck("repo")
    assert (report.findings, report.complete, report.clean) == ((), False, False)
    assert (report.counts.objects_not_checked, report.counts.objects_out_of_reach) == (3, 3)
    assert "outside the sources that this server reads" in report.obstacle
    assert "`graveler serve --import-source file:///" in report.obstacle


def test_a_store_that_no_reader_knows_is_out_of_reach(repository: OpenRepository) -> None:
    repository.link("main", ObjectEntry("x", "gs://bucket/x", 1, "c" * 32, 1))
    plain = repository.fsck()
    assert (plain.clean, plain.counts.objects_not_checked, plain.counts.objects_out_of_reach) == (True, 1, 0)
    report = repository.fsck(outside_objects=True)
    assert (report.findings, report.clean, report.counts.objects_out_of_reach) == ((), False, 1)
    assert "gs://bucket/x" in report.obstacle


def test_the_files_of_another_commit_than_the_head_count_too(repository: OpenRepository, tmp_path: Path) -> None:
    repository.delete("main", ["in/a"])
    repository.commit("main", "m")
    (tmp_path / "files/a").unlink()
    (finding,) = repository.fsck().findings
    assert {(ref.name, ref.in_history) for ref in finding.refs} == {("main", True)}


# The file of the table


def test_a_sound_table_says_so_and_one_without_a_file_makes_no_claim(repository: OpenRepository) -> None:
    assert repository.fsck().scope.table is TableState.SOUND
    assert World().main.fsck().scope.table is TableState.NOT_APPLICABLE


def test_a_key_that_was_changed_in_the_tables_file_is_found(tmp_path: Path) -> None:
    """The index finds a row by a key that the row does not have: no check of rows sees that."""
    folder = tmp_path / "lake"
    with create_folder_lake(folder) as lake:
        made = lake.create_repository("repo", "local://repo")
        for number in range(200):
            made.upload("main", f"a/{number:03}", b"x")
        uid = made.repository.uid
    connection = sqlite3.connect(folder / "tables.sqlite")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    file = folder / "tables.sqlite"
    data = file.read_bytes()
    key = f"{uid}/staged".encode()
    damaged = sum(_check_with(file, data, place, key) for place in _places(data, key)[-3:])
    file.write_bytes(data)
    assert damaged


def _places(data: bytes, key: bytes) -> list[int]:
    places, place = [], data.find(key)
    while place >= 0:
        places.append(place)
        place = data.find(key, place + 1)
    return places


def _check_with(file: Path, data: bytes, place: int, key: bytes) -> bool:
    """Return whether SQLite's check finds a key of which the lake's folder has the last letter changed."""
    changed = place + len(key) - 1
    file.write_bytes(data[:changed] + bytes([data[changed] ^ 1]) + data[changed + 1 :])
    with open_folder_lake(file.parent) as lake:
        report = lake.fsck("repo")
    return report.scope.table is TableState.DAMAGED and not report.clean
