"""Imports that copy: files may change afterwards, in one commit, and nothing half-done is left."""

import os
import resource
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from graveler.errors import GravelerError, InvalidError, UnavailableError
from graveler.lake.importing import folder_uploads as module
from graveler.lake.objects.uploads import size_and_md5
from graveler.lake.opening.folder import create_folder_lake
from tests.lake.support import World, commit, messages, put, texts, write_files
from tests.support.instruments import Fault, FaultyTables

FILES = {f"d{n % 3}/{n:03}": f"text {n}" for n in range(100)} | {"empty": "", "ü ñ": "x"}


def test_copied_files_may_change(tmp_path: Path) -> None:
    world = World()
    put(world.main, {"in/old": "1", "kept": "2"})
    world.main.commit("main", "before")
    folder = write_files(tmp_path, FILES)
    told: list[tuple[int, int]] = []
    dry = world.main.import_folder("main", folder, "in/", copy=True, dry_run=True)
    stored = len(list(world.objects().list("data/")))
    made = world.main.import_folder("main", folder, "in/", copy=True, progress=lambda *new: told.append(new))
    assert made.changes == dry.changes
    assert len(list(world.objects().list("data/"))) == stored + len(FILES), "a dry run copies nothing"
    assert sum(objects for objects, _ in told) == len(FILES)
    assert sum(size for _, size in told) == sum(len(text.encode()) for text in FILES.values())
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_text("changed")
    wanted = {f"in/{name}": text for name, text in FILES.items()} | {"kept": "2"}
    assert {
        entry.path: b"".join(world.main.stream("main", entry.path)).decode() for entry in world.main.objects("main")
    } == wanted
    assert all(
        entry.address.startswith(f"{world.main.repository.namespace}/data/") for entry in world.main.objects("main")
    )


def test_what_was_imported_in_place_is_copied_later(tmp_path: Path) -> None:
    world = World()
    folder = write_files(tmp_path, FILES)
    world.main.import_folder("main", folder)
    changes = world.main.import_folder("main", folder, copy=True).changes
    assert (changes.replaced, changes.objects) == (len(FILES), len(FILES)), "they are elsewhere"
    for dry_run in (True, False):
        again = world.main.import_folder("main", folder, copy=True, dry_run=dry_run).changes
        assert (again.unchanged, again.objects) == (len(FILES), len(FILES)), "the bytes are the same"
    for file in folder.rglob("*"):
        if file.is_file():
            file.unlink()
    assert texts(world.main) == FILES


@pytest.mark.parametrize("text", ["more than before, while it is being copied", "same 50"])
def test_a_file_that_changes_meanwhile_stops_the_import(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    folder = write_files(tmp_path, FILES)

    def growing(file: Path) -> tuple[int, str]:
        found = size_and_md5(file)
        if file.name == "050":
            file.write_text(text)
            os.utime(file, ns=(1, 1))
        return found

    monkeypatch.setattr(module, "size_and_md5", growing)
    with pytest.raises(UnavailableError, match=r"050' changed while it was being copied; nothing was imported"):
        world.main.import_folder("main", folder, copy=True)
    assert messages(world.main) == ["Repository created"]


@pytest.mark.parametrize("objects", [1, 60])
def test_an_interrupted_copy_leaves_the_branch_as_it_was(objects: int, tmp_path: Path) -> None:
    world = World()
    head = world.main.branch("main").commit_id
    folder = write_files(tmp_path, FILES)
    seen = 0

    def interrupt(number: int, _: int) -> None:
        nonlocal seen
        seen += number
        if seen >= objects:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.main.import_folder("main", folder, copy=True, progress=interrupt)
    assert world.main.branch("main").commit_id == head
    assert list(world.objects().list("data/")) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("graveler-copy")]
    world.main.import_folder("main", folder, copy=True)
    assert texts(world.main) == FILES


@pytest.mark.parametrize("moment", range(24))
@pytest.mark.parametrize("fault", ["fail_before", "fail_after", "refuse"])
def test_a_failed_request_leaves_all_or_nothing(moment: int, fault: Fault, tmp_path: Path) -> None:
    folder = write_files(tmp_path, dict(list(FILES.items())[:5]))
    world = World()
    commit(world.main, {"kept": "1"})
    stored = names(world)
    faulty = world.repository(lambda _, number: fault if number == moment else None)
    try:
        faulty.import_folder("main", folder, "in/", copy=True)
        failed = False
    except GravelerError:
        failed = True
    found = texts(world.repository())
    assert len(found) == 6 or (failed and set(found) == {"kept"})
    if set(found) == {"kept"}:
        assert names(world) == stored
        world.repository().import_folder("main", folder, "in/", copy=True)
    assert len(texts(world.repository())) == 6
    assert len(names(world)) == 6


def names(world: World) -> set[str]:
    """The objects with the users' bytes."""
    return {stored.key for stored in world.objects().list("data/")}


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """No file may be longer than a limit, as on a disk that has room for nothing more."""
    folder = write_files(tmp_path / "files", {f"{n:02}": "x" * 1000 for n in range(30)} | {"31": "y" * (8 << 20)})
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("repo", "local://repo")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, hard))
        try:
            with pytest.raises(UnavailableError, match="would be larger than"):
                repository.import_folder("main", folder, copy=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [path for path in (tmp_path / "lake/objects/repo").rglob("*") if "data" in path.parts] == []
        assert not any((tmp_path / "lake/objects/repo/.graveler-tmp/writes").glob("*"))
        repository.import_folder("main", folder, copy=True)
        assert len(repository.list_objects("main").results) == 31


def test_copies_are_removed_even_if_the_store_refuses_each_at_first(tmp_path: Path) -> None:
    world = World()
    folder = write_files(tmp_path, FILES)
    puts, deletes = count(1), count(1)

    def schedule(method: str, _: int) -> Fault:
        if method == "objects.put":
            return "fail_before" if next(puts) == 50 else None
        return "fail_before" if method == "objects.delete" and next(deletes) <= 40 else None

    with pytest.raises(UnavailableError, match="fault on purpose"):
        world.repository(schedule).import_folder("main", folder, copy=True)
    assert next(deletes) > 80
    assert names(world) == set()


def test_the_copies_of_an_attempt_that_another_one_overtook_are_removed(tmp_path: Path) -> None:
    world = World()
    folder = write_files(tmp_path, FILES)
    overtaken = False

    def overtake(*_: int) -> None:
        nonlocal overtaken
        if not overtaken:
            overtaken = True
            world.repository().import_folder("main", folder, copy=True, request_id="one")

    world.main.import_folder("main", folder, copy=True, request_id="one", progress=overtake)
    assert overtaken
    assert names(world) == {
        entry.address.removeprefix(f"{world.main.repository.namespace}/") for entry in world.main.objects("main")
    }
    assert texts(world.main) == FILES


@pytest.mark.parametrize("reads", ["refuse", None])
@pytest.mark.parametrize("loss", ["fail_after", "late"])
def test_copies_that_a_commit_may_have_stay(loss: Fault, reads: Fault, tmp_path: Path) -> None:
    """The response to the transaction is lost, and it may be made later; or nobody can tell whether it was made."""
    world = World()
    folder = write_files(tmp_path, FILES)
    lost = False

    def schedule(method: str, _: int) -> Fault:
        nonlocal lost
        if method == "tables.transact":
            lost = True
            return loss
        return reads if lost and method == "tables.get_many" else None

    repository = world.repository(schedule)
    with suppress(GravelerError):
        repository.import_folder("main", folder, copy=True)
    assert lost
    assert isinstance(repository.tables, FaultyTables)
    repository.tables.boundaries.deliver()
    assert texts(world.repository()) == FILES


def test_copies_are_not_for_trusted_times(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="copy reads every file"):
        World().main.import_folder("main", write_files(tmp_path, {"a": "1"}), copy=True, trust_mtime=True)
