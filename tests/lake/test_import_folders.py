"""Folders are listed quickly, in batches, by several processes; the result equals that of reading one file after another."""

import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import EmptySourceError, ForbiddenError, UnavailableError
from graveler.lake.importing import file_records, folder_listing
from graveler.lake.importing.file_records import LARGE
from graveler.lake.importing.folder_listing import FolderListing
from graveler.lake.parts import RepositoryParts
from graveler.model import ObjectEntry
from graveler.runtime import crew as crews
from graveler.storage.objects.confined_folder import Confinement, files_below
from graveler.tree.record import RecordCodec
from tests.lake.support import NAMESPACE, World, small_pieces, write_files
from tests.support.campaigns import examples

CODEC = RecordCodec(NAMESPACE)
DESTINATION = "in/"

Records = list[tuple[bytes, bytes]]


def simply(folder: Path) -> Records:
    """The records of a folder, in the simple way."""
    records = []
    for path in folder.rglob("*"):
        if path.is_file():
            key = DESTINATION + path.relative_to(folder).as_posix()
            data, status = path.read_bytes(), path.stat()
            entry = ObjectEntry(key, f"file://{path}", len(data), md5(data).hexdigest(), int(status.st_mtime))
            records.append((key.encode(), CODEC.encode(entry)))
    return sorted(records)


def sum_of(told: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(objects for objects, _ in told), sum(size for _, size in told)


# The same records, however they are read

NAMES = st.text(st.sampled_from("ab.-0~é\U0001f600"), min_size=1, max_size=4).filter(lambda name: name.strip("."))
FOLDERS = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=40) | st.just(b"x" * LARGE), max_size=25
)


@settings(max_examples=examples(100), deadline=None)
@given(FOLDERS, st.integers(1, 9), st.sampled_from([8, LARGE]), st.booleans(), st.booleans())
def test_a_listing_is_what_the_simple_way_gives(
    files: dict[str, bytes], batch: int, large: int, waits: bool, confined: bool
) -> None:
    ticks = iter(range(10**6))
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        small_pieces(patch, batch)
        patch.setattr(file_records, "LARGE", large)
        patch.setattr(file_records, "_TRIAL", 2)
        if waits:  # as if each file was on a slow disk
            patch.setattr(file_records, "_waits", lambda: next(ticks) * 100)
        folder = Path(name).resolve()
        for path, data in files.items():
            whole = folder / path
            if not any(above.is_file() for above in whole.parents) and not whole.is_dir():
                whole.parent.mkdir(parents=True, exist_ok=True)
                whole.write_bytes(data)
        told: list[tuple[int, int]] = []
        place = files_below(folder, Confinement()) if confined else None
        listing = FolderListing(folder, DESTINATION, CODEC, lambda *new: told.append(new), files=place)
        records = list(listing())
        assert records == simply(folder)
        assert sum_of(told) == (len(records), sum(CODEC.decode(*record).size for record in records))


def many(folder: Path) -> Path:
    files = {f"{n % 11}/{n % 3}/f{n:03}": "x" * (n % 50) for n in range(300)}
    write_files(folder, files | {f"large-{n}": str(n) * LARGE for n in range(3)} | {"5/large": "5" * LARGE})
    return folder.resolve()


@pytest.mark.parametrize("confinement", [None, Confinement()])
def test_several_processes_make_the_same_records(
    confinement: Confinement | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_pieces(monkeypatch)
    folder = many(tmp_path)
    files = files_below(folder, confinement)
    assert list(FolderListing(folder, DESTINATION, CODEC, workers=3, files=files)()) == simply(folder)


def test_several_processes_make_the_same_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = many(tmp_path)
    alone = World().main.import_folder("main", folder, DESTINATION)
    small_pieces(monkeypatch)
    world = World()
    monkeypatch.setattr(RepositoryParts, "workers", 2)
    together = world.main.import_folder("main", folder, DESTINATION)
    assert (together.metarange, together.changes) == (alone.metarange, alone.changes)


# What it costs


def test_a_file_is_opened_once_and_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "a/b/c/d/e"
    folder = write_files(tmp_path.resolve(), {f"{deep}/f{n:02}": "1" for n in range(50)})
    opened: list[str] = []
    really = os.open

    def count(path: "str | os.PathLike[str]", *arguments: int, dir_fd: int | None = None) -> int:
        opened.append(str(path))
        return really(path, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", count)
    for confinement in (None, Confinement()):
        listing = FolderListing(folder, "", CODEC, files=files_below(folder, confinement))
        opened.clear()
        assert len(list(listing())) == 50
        assert sorted(name for name in opened if "f" in Path(name).name[:1]) == [f"f{n:02}" for n in range(50)]
        depth = len(folder.parts) + deep.count("/") + 2
        assert len(opened) <= 50 + (1 if confinement is None else 2 * depth * (deep.count("/") + 2))


@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_is_read_ahead_than_some_batches(workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch, batch=2, alone=2)
    folder = write_files(tmp_path, {f"{n % 7}/f{n:03}": "1" for n in range(400)})
    drawn = 0
    really = FolderListing.batches

    def batches(listing: FolderListing) -> Iterator[file_records.Batch]:
        nonlocal drawn
        for batch in really(listing):
            drawn += sum(len(run.names) for run in batch)
            yield batch

    monkeypatch.setattr(FolderListing, "batches", batches)
    most = max(drawn - taken for taken, _ in enumerate(FolderListing(folder, "", CODEC, workers=workers)()))
    assert most <= 2 * (2 + folder_listing._OPENED + folder_listing._PENDING + 1)


# Files that somebody changes


@pytest.mark.parametrize("change", [b"longer than before", b"", b"shrt"])
def test_a_file_that_changes_while_it_is_read_has_a_record_of_one_reading(
    change: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"as it was")
    really, changed = os.read, threading.Event()

    def read(descriptor: int, length: int) -> bytes:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and not changed.is_set():
            changed.set()
            (tmp_path / "f").write_bytes(change)
        return really(descriptor, length)

    monkeypatch.setattr(os, "read", read)
    ((key, packed),) = FolderListing(tmp_path, "", CODEC)()
    entry = CODEC.decode(key, packed)
    assert changed.is_set()
    assert (entry.size, entry.checksum) == (len(change), md5(change).hexdigest())


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def folder_link(path: Path) -> None:
    path.unlink()
    path.parent.rename(path.parent.parent / "moved")
    path.parent.symlink_to("/etc")


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("change", "error", "confined"),
    [
        (Path.unlink, r"g/z'.*No such file.*nothing was imported", False),
        (pipe, r"g/z'.*no longer a regular file", False),
        (pipe, r"g/z'.*no longer a regular file", True),
        (link, r"'g/z' is a symbolic link.*a server does not follow links", True),
        (folder_link, r"'g' is a symbolic link.*a server does not follow links", True),
    ],
)
def test_what_a_file_became_since_it_was_listed_is_told_by_its_name(
    workers: int,
    change: Callable[[Path], None],
    error: str,
    confined: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All names are known before a file is opened.
    small_pieces(monkeypatch, batch=1, alone=40 if workers > 1 else 100)
    folder = write_files(tmp_path.resolve(), {f"f{n:03}": "1" for n in range(60)} | {"g/z": "1"})
    files = files_below(folder, Confinement() if confined else None)
    really = FolderListing.batches

    def batches(listing: FolderListing) -> Iterator[file_records.Batch]:
        listed = list(really(listing))
        change(folder / "g" / "z")
        return iter(listed)

    monkeypatch.setattr(FolderListing, "batches", batches)
    with pytest.raises((UnavailableError, ForbiddenError), match=error):
        list(FolderListing(folder, "", CODEC, workers=workers, files=files)())


# Workers


def worker_processes() -> list[int]:
    """The processes that help to list with two workers."""
    found = crews._crews.get((os.getpid(), 1))
    assert found is not None
    return [worker._process.pid for worker in found._workers if worker._process is not None]


def test_a_killed_worker_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)
    folder = many(tmp_path)
    killed: list[int] = []

    def kill(*_: int) -> None:
        for process in worker_processes():
            if not killed:
                killed.append(process)
                os.kill(process, signal.SIGKILL)

    records = list(FolderListing(folder, DESTINATION, CODEC, kill, workers=2)())
    assert killed
    assert records == simply(folder)


@pytest.mark.parametrize("objects", [1, 150])
def test_an_interrupted_listing_by_several_processes_leaves_no_thread(
    objects: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_pieces(monkeypatch)
    folder = many(tmp_path)
    told = 0

    def progress(number: int, _: int) -> None:
        nonlocal told
        told += number
        if told >= objects:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(FolderListing(folder, "", CODEC, progress, workers=2)())
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("graveler-import")] == []
    assert len(list(FolderListing(folder, "", CODEC, workers=2)())) == 304


@pytest.mark.parametrize("is_confined", [False, True])
def test_rules_leave_out_what_they_name_and_count_it(tmp_path: Path, is_confined: bool) -> None:
    texts = {".gravelerignore": "*.sock\nlost\n", "a": "1", "deep/.env": "2", "deep/b": "3", ".git/objects/x": "4"}
    folder = write_files(tmp_path / "in", texts)
    os.mkfifo(folder / "x.sock")
    if not is_confined:
        (folder / "lost").symlink_to("nowhere")
    files = files_below(folder, Confinement()) if is_confined else None
    listing = FolderListing(folder, "", CODEC, files=files, refuses_special=True, ignore=True)
    assert [key for key, _ in listing()] == [b"a", b"deep/b"]
    assert (listing.special, listing.skipped) == ([], [])
    counted = FolderListing(folder, "", CODEC, files=files, ignore=True).left_out  # another process has listed it
    for left_out in (listing.left_out, counted):
        assert (left_out.by_pattern, left_out.by_default) == (1 if is_confined else 2, 2)
        assert sorted(left_out.paths) == [".git/", "deep/.env"]
    beginning = FolderListing(folder, "", CODEC, files=files, beginning="d", exclude=["b"], ignore=True)
    assert list(beginning()) == []
    assert (beginning.left_out.by_pattern, beginning.left_out.by_default) == (1, 1)


def test_a_link_that_is_left_out_refuses_no_confined_folder(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a": "1", "sub/b": "2"})
    (folder / "sub/latest").symlink_to("b")

    def confined(*exclude: str) -> list[bytes]:
        files = files_below(folder, Confinement())
        return [key for key, _ in FolderListing(folder, "", CODEC, files=files, exclude=exclude, ignore=True)()]

    with pytest.raises(ForbiddenError, match="sub/latest"):
        confined()
    assert confined("latest") == [b"a", b"sub/b"]
    (folder / ".gravelerignore").symlink_to("a")  # its patterns would count
    with pytest.raises(ForbiddenError, match=r"\.gravelerignore"):
        confined("latest")


def test_a_folder_of_which_rules_leave_nothing_is_refused_with_their_number(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {".gravelerignore": "*.csv\n", "a.csv": "1", "b.csv": "2", ".env": "3"})
    says = r"in' \(3 left out by \.gravelerignore, patterns or default\) lists no objects for 'in/'"
    with pytest.raises(EmptySourceError, match=says):
        World().main.import_folder("main", folder, "in/", ignore=True)


def test_a_repeated_import_is_answered_though_its_folder_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a").write_text("1")
    (folder / ".env").write_text("secret")
    repository = World().main
    answers = []
    for _ in range(2):
        answers.append(repository.import_folder("main", folder, "in/", ignore=True, request_id="one"))
        rmtree(folder, ignore_errors=True)
    assert [(answer.id, answer.changes.objects) for answer in answers] == [(answers[0].id, 1)] * 2
    assert [answer.left_out for answer in answers] == [(".env",), ()]
