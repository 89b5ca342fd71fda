"""Folders of a run: what a program changes there is what is published."""

import mmap
import os
import resource
import socket
import stat
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graveler.errors import (
    BusyError,
    ConflictError,
    DamagedObjectError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    PreconditionError,
    UnavailableError,
)
from graveler.gateway.control import Tally
from graveler.gateway.run.folders.places import FolderPlace
from graveler.gateway.run.folders.run_folders import RunFolders
from graveler.lake.objects.uploads import begin_upload, finish_upload, upload_part
from graveler.lake.repository import OpenRepository
from graveler.requests.base import CommitInfo
from graveler.requests.committing import Commit
from graveler.requests.staging import Delete
from graveler.system.progress import ObjectProgress, no_object_progress
from tests.gateway.run.folders.support import Prefix, files_in

NAMES: Final = ("a", "b", "d/a", "d/b", "d/e/c", "d/e/ö #%?", "f", "f/g", "a.b/c\\d", "d/ \n")
FILES: Final = st.dictionaries(st.sampled_from(("a", "b", "d/a", "d/e/c", "f/g")), st.binary(max_size=4))
KINDS: Final = (
    "write",
    "replace",
    "rewrite",
    "map",
    "rename",
    "rename folder",
    "swap",
    "delete",
    "delete folder",
    "touch",
    "truncate",
    "append",
    "chmod",
    "link",
    "name twice",
    "folder",
)
EDITS: Final = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMES), st.sampled_from(NAMES), st.binary(max_size=4)), max_size=8
)
_numbers: Final = count()


def make_room(folder: Path, name: str) -> Path:
    """Remove what is in the way of a file, and make the folders above it."""
    path = folder / name
    for above in reversed(path.relative_to(folder).parents[:-1]):
        if (folder / above).is_symlink() or (folder / above).is_file():
            (folder / above).unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        rmtree(path)
    return path


def edit(folder: Path, kind: str, name: str, other: str, data: bytes) -> None:
    """Change a folder as programs do."""
    path, other_path = folder / name, folder / other
    if kind in ("write", "replace", "folder"):
        path = make_room(folder, name)
        if kind == "folder":
            path.unlink(missing_ok=True)
            path.mkdir()
        elif kind == "replace":
            (folder / "new").write_bytes(data)
            (folder / "new").replace(path)
        else:
            path.unlink(missing_ok=True) if path.is_symlink() else None
            path.write_bytes(data)
    elif kind in ("rename folder", "delete folder"):
        if path.parent == folder or not path.parent.is_dir() or path.parent.is_symlink():
            return
        if kind == "delete folder":
            rmtree(path.parent)
        elif not (folder / "renamed").exists():
            path.parent.rename(folder / "renamed")
    elif not path.is_file():
        return
    elif kind in ("rewrite", "map"):
        edit_unnoticed(path, mapped=kind == "map")
    elif kind == "swap":
        if other_path.is_file() and other != name:
            path.rename(folder / "between")
            other_path.rename(path)
            (folder / "between").rename(other_path)
    elif kind in ("rename", "link", "name twice"):
        if name == other or other.startswith(f"{name}/"):
            return
        target = make_room(folder, other)
        if not path.is_file():
            return  # it was in the folder that was in the way
        target.unlink(missing_ok=True)
        if kind == "link":
            target.symlink_to(path)
        elif kind == "rename":
            path.rename(target)
        else:
            os.link(path.resolve(), target)
    elif kind == "delete":
        path.unlink()
    elif kind == "touch":
        path.touch()
    elif kind == "truncate":
        os.truncate(path, len(data))
    elif kind == "append":
        with path.open("ab") as file:
            file.write(data)
    elif kind == "chmod":
        path.chmod(0o600)


def edit_unnoticed(path: Path, *, mapped: bool) -> None:
    """Change a byte and restore the time, as careful programs do that do not want to be noticed."""
    status = path.stat()
    if not status.st_size:
        return
    with path.open("r+b") as file:
        if mapped:
            with mmap.mmap(file.fileno(), 0) as memory:
                memory[0] = (memory[0] + 1) % 256
        else:
            first = file.read(1)[0]
            file.seek(0)
            file.write(bytes([(first + 1) % 256]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def published_as_edited(
    repository: OpenRepository, folder: Path, files: dict[str, bytes], edits: Sequence[tuple[str, str, str, bytes]]
) -> None:
    """Check that a branch has what a folder had after some edits, and that older commits have what they had."""
    events = Prefix(repository, f"random-{next(_numbers)}/", folder)
    base = events.commit({**files, "seed": b""})
    expected: dict[str, bytes] = {}

    def program(_: str) -> None:
        assert files_in(folder) == {**files, "seed": b""}
        for change in edits:
            edit(folder, *change)
        for path in folder.rglob("*"):
            if path.is_symlink() and not path.exists():
                path.unlink()
        expected.update(files_in(folder))

    tally = events.run(program)
    assert events.objects() == expected
    assert events.objects(base) == {**files, "seed": b""}
    assert not folder.exists()
    before = {**files, "seed": b""}
    assert tally.written.objects == sum(before.get(name) != data for name, data in expected.items())
    assert tally.deleted == len(before.keys() - expected.keys())


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, EDITS)
def test_the_branch_has_what_the_folder_had(
    repository: OpenRepository, tmp_path: Path, files: dict[str, bytes], edits: list[tuple[str, str, str, bytes]]
) -> None:
    published_as_edited(repository, tmp_path / "data", files, edits)


@pytest.mark.ci
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, EDITS)
def test_the_branch_has_what_the_folder_had_at_length(
    repository: OpenRepository, tmp_path: Path, files: dict[str, bytes], edits: list[tuple[str, str, str, bytes]]
) -> None:
    published_as_edited(repository, tmp_path / "data", files, edits)


def test_each_kind_of_change_alone(repository: OpenRepository, tmp_path: Path) -> None:
    files = {"a": b"1", "b": b"22", "d/a": b"333", "d/e/c": b"", "f/g": b"g"}
    changes = [(kind, "d/a", "b", b"new") for kind in KINDS]
    changes += [("write", "f", "a", b"no folder any more"), ("write", "a/x", "a", b"no file any more")]
    for change in changes:
        published_as_edited(repository, tmp_path / "data", files, [change])


def test_a_write_through_memory_is_seen_where_times_stay(repository: OpenRepository) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir():
        pytest.skip("there is no tmpfs")
    events = Prefix(repository, "memory/", memory / f"graveler-test-{os.getpid()}")
    events.commit({"a": b"1234", "b": b"1234"})

    def program(_: str) -> None:
        with (events.folder / "a").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            assert mapped[0] == ord("1")  # a page that was read first is then written without a fault
            mapped[0] = ord("x")

    tally = events.run(program)
    assert events.objects() == {"a": b"x234", "b": b"1234"}
    assert tally.written.objects == 1


def test_nothing_changed_is_nothing_written(events: Prefix) -> None:
    head = events.commit({"a": b"1", "d/b": b"2"})

    def program(_: str) -> None:
        for path in events.folder.rglob("*"):
            path.touch()

    assert events.run(program) == Tally()
    assert events.repository.commit_of("main").id == head


def test_files_have_the_times_of_their_objects(events: Prefix) -> None:
    events.commit({"a": b"1"})
    (entry,) = events.repository.objects("main", events.prefix)
    with events.filled():
        assert (events.folder / "a").stat().st_mtime == entry.mtime


def test_a_changed_file_keeps_what_describes_it(events: Prefix) -> None:
    metadata = {"http:content-encoding": "gzip", "md5": "of the old bytes"}
    events.commit({"a": b"1", "b": b"1"}, "text/csv", **metadata)
    events.run(lambda _: [(events.folder / name).write_bytes(b"2") for name in ("a", "new")])
    entries = {
        entry.path.removeprefix(events.prefix): entry for entry in events.repository.objects("main", events.prefix)
    }
    assert entries["a"].content_type == entries["b"].content_type == "text/csv"
    assert entries["a"].metadata == {"http:content-encoding": "gzip"}
    assert entries["b"].metadata == metadata
    assert entries["new"].content_type == "application/octet-stream"


def test_bytes_without_a_known_checksum_are_compared(events: Prefix) -> None:
    parts = events.repository.parts
    for name in ("touched", "changed"):
        path = events.prefix + name
        upload = begin_upload(parts, "main", path, events.repository.new_address("main", path))
        etag = upload_part(parts, "main", path, upload, 1, b"1234")
        finish_upload(parts, "main", path, upload, [(1, etag)])
    events.commit({})

    def program(_: str) -> None:
        (events.folder / "touched").touch()
        edit_unnoticed(events.folder / "changed", mapped=False)

    assert events.run(program).written.objects == 1
    assert events.objects() == {"changed": b"2234", "touched": b"1234"}


def test_an_imported_file_that_changed_since_is_not_used(events: Prefix, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(b"1")
    events.repository.import_folder("main", source, events.prefix, trust_mtime=True)
    with events.filled():
        assert files_in(events.folder) == {"a": b"1"}
    (source / "a").write_bytes(b"2")
    with pytest.raises(DamagedObjectError, match="modified since"), events.filled():
        raise AssertionError("it was filled")


def test_folder_markers_are_folders_and_stay(events: Prefix) -> None:
    events.commit({"": b"", "out/": b"", "a": b"1", "a/": b""})

    def program(_: str) -> None:
        assert (events.folder / "out").is_dir()
        (events.folder / "out" / "b").write_bytes(b"2")
        (events.folder / "empty").mkdir()

    events.run(program)
    assert events.objects() == {"": b"", "out/": b"", "out/b": b"2", "a": b"1", "a/": b""}


@pytest.mark.parametrize(
    "names", [("a", "a/b"), ("a//b",), ("d/../a",), (".",), ("x" * 300,)], ids=lambda names: names[0][:6]
)
def test_objects_that_cannot_be_files_are_refused_before(events: Prefix, names: tuple[str, ...]) -> None:
    events.commit(dict.fromkeys((*names, "good"), b"1"))
    with pytest.raises(InvalidError, match="The program did not run") as raised, events.filled():
        raise AssertionError("it was filled")
    assert repr(events.prefix + names[0])[:40] in str(raised.value)
    assert not events.folder.exists()


def test_a_prefix_that_is_an_object_is_refused(events: Prefix) -> None:
    path = events.prefix.rstrip("/")
    events.repository.upload("main", path, b"1")
    events.commit({})
    with pytest.raises(InvalidError, match="is an object") as raised, events.filled():
        raise AssertionError("it was filled")
    assert repr(path) in str(raised.value)
    assert not events.folder.exists()


def test_what_no_object_can_be_is_named_and_nothing_is_published(events: Prefix, tmp_path: Path) -> None:
    events.commit({"a": b"1"})
    (tmp_path / "outside").write_bytes(b"1")
    long = "/".join(["x" * 250] * 5)

    def program(_: str) -> None:
        data = events.folder
        (data / "good").write_bytes(b"1")
        os.mkfifo(data / "pipe")
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.bind(f"/proc/self/fd/{os.open(data, os.O_RDONLY)}/socket")  # the path of a socket is short
        (data / "out").symlink_to(tmp_path / "outside")
        (data / "out-of-here").symlink_to(tmp_path)
        (data / "nowhere").symlink_to("nothing")
        (data / "round").symlink_to(".")
        (data / "itself").symlink_to("itself")
        Path(os.fsdecode(os.fsencode(data) + b"/\xff")).write_bytes(b"1")
        (data / long).parent.mkdir(parents=True)
        (data / long).write_bytes(b"1")

    with pytest.raises(InvalidError) as raised:
        events.run(program)
    for text in (
        "/pipe' is a named pipe",
        "/socket' is a socket",
        "/out' is a symbolic link that leads out of the folder",
        "/out-of-here' is a symbolic link that leads out",
        "/nowhere' is a symbolic link that leads nowhere",
        "/round' is a symbolic link that leads in circles",
        "/itself' is a symbolic link that leads nowhere",
        "is not UTF-8",
        "at most 1,024 are allowed",
    ):
        assert text in str(raised.value)
    assert "/good'" not in str(raised.value)
    assert events.objects() == {"a": b"1"}
    assert events.remaining == (events.folder,)
    with pytest.raises(PreconditionError, match="is not empty"), events.filled():
        raise AssertionError("it was filled")
    assert (events.folder / "good").exists()


def test_many_problems_are_a_short_message(events: Prefix) -> None:
    events.commit({})

    def program(_: str) -> None:
        for number in range(100):
            os.mkfifo(events.folder / str(number))

    with pytest.raises(InvalidError, match=r"and 90 more$"):
        events.run(program)


def test_a_read_only_folder(events: Prefix) -> None:
    events.commit({"a": b"1", "d/b": b"2"})

    def program(_: str) -> None:
        for path in (events.folder, *events.folder.rglob("*")):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o222
        (events.folder / "a").touch()

    assert events.run(program, read_only=True) == Tally()
    assert not events.folder.exists()


@pytest.mark.parametrize("name", ["a", "d/b", "new"])
def test_a_change_of_a_read_only_folder_is_refused(events: Prefix, name: str) -> None:
    events.commit({"a": b"1", "d/b": b"2"})

    def program(_: str) -> None:
        path = events.folder / name
        path.parent.chmod(0o755)
        if path.exists():
            path.unlink()
        else:
            path.write_bytes(b"x")

    with pytest.raises(ForbiddenError, match=f"{name}' in a folder that is only read, and nothing was published"):
        events.run(program, read_only=True)
    assert events.objects() == {"a": b"1", "d/b": b"2"}
    assert events.remaining == (events.folder,)


@pytest.mark.parametrize("committed", [False, True])
def test_an_object_that_changed_in_both_places_is_a_conflict(events: Prefix, committed: bool) -> None:
    events.commit({"a": b"1", "b": b"1", "c": b"1"})

    def program(hidden: str) -> None:
        for name in ("a", "c"):
            events.upload(hidden, name, b"2")
        events.repository.run(Delete(branch=hidden, objects=(f"{events.prefix}b",)))
        if committed:
            events.repository.run(Commit(branch=hidden, info=CommitInfo("Early")))
        (events.folder / "a").write_bytes(b"3")
        (events.folder / "b").unlink()

    with pytest.raises(ConflictError, match="both in folder") as raised:
        events.run(program)
    assert f"'{events.prefix}a', '{events.prefix}b' both" in str(raised.value)
    assert events.objects() == {"a": b"1", "b": b"1", "c": b"1"}


def test_both_ways_to_write_go_together(events: Prefix) -> None:
    events.commit({"a": b"1", "b": b"1"})

    def program(hidden: str) -> None:
        events.upload(hidden, "a", b"2")
        (events.folder / "a").touch()
        (events.folder / "b").write_bytes(b"2")

    events.run(program)
    assert events.objects() == {"a": b"2", "b": b"2"}


def test_a_disk_that_is_full_while_files_are_written(events: Prefix) -> None:
    events.commit({"a": b"1", "large": bytes(10 << 20)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full(_: str) -> AbstractContextManager[ObjectProgress]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, limits[1]))
        return nullcontext(no_object_progress)

    folders = RunFolders([FolderPlace(folder=events.folder, prefix=events.prefix)], full)
    try:
        with folders.made(), pytest.raises(UnavailableError, match="large' failed: the file would be larger"):
            folders.fill(events.repository, "main")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert folders.remaining == ()
    assert not events.folder.exists()


def test_a_file_that_is_still_written_is_not_published(events: Prefix) -> None:
    events.commit({"a": b"1"})
    over = threading.Event()

    def keep_writing() -> None:
        with (events.folder / "log").open("wb", buffering=0) as file:
            while not over.wait(0.0002):
                file.write(b"x")

    thread = threading.Thread(target=keep_writing)

    def program(_: str) -> None:
        thread.start()
        while not (events.folder / "log").exists() or not (events.folder / "log").stat().st_size:
            time.sleep(0.001)

    try:
        with pytest.raises(GravelerError, match=r"changed|still open"):
            events.run(program)
    finally:
        over.set()
        thread.join()
    assert events.objects() == {"a": b"1"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows who has a file open")
@pytest.mark.parametrize("is_mapped", [False, True])
def test_a_file_that_is_open_for_writing_is_not_published(events: Prefix, is_mapped: bool) -> None:
    events.commit({"a": b"1", "b": b"1"})
    with ExitStack() as stack:

        def program(_: str) -> None:
            (events.folder / "b").write_bytes(b"2")
            file = (events.folder / "a").open("r+b", buffering=0)
            file.write(b"2")
            if is_mapped:
                stack.enter_context(mmap.mmap(file.fileno(), 1))
                file.close()
            else:
                stack.enter_context(file)

        with pytest.raises(InvalidError, match=r"a' is still open for writing"):
            events.run(program)
    assert events.objects() == {"a": b"1", "b": b"1"}


def test_a_folder_that_is_gone_deletes_nothing(events: Prefix, tmp_path: Path) -> None:
    events.commit({"a": b"1"})

    def program(_: str) -> None:
        rmtree(events.folder)

    def program_with_link(_: str) -> None:
        rmtree(events.folder)
        events.folder.symlink_to(tmp_path)

    for each in (program, program_with_link):
        with pytest.raises(InvalidError, match="is gone, is no folder any more"):
            events.run(each)
    assert events.folder.is_symlink()
    assert tmp_path.is_dir()
    assert events.objects() == {"a": b"1"}


def test_a_link_to_a_folder_leads_there_at_the_end_too(events: Prefix, tmp_path: Path) -> None:
    events.commit({"a": b"1"})
    (tmp_path / "real").mkdir()
    events.folder.symlink_to(tmp_path / "real")

    def program(text: str) -> None:
        (events.folder / text).write_bytes(b"1")

    def program_with_another_folder(_: str) -> None:
        events.folder.unlink()
        events.folder.mkdir()
        program("lost")

    events.run(lambda _: program("b"))
    assert events.objects() == {"a": b"1", "b": b"1"}
    with pytest.raises(InvalidError, match="or leads elsewhere"):
        events.run(program_with_another_folder)
    assert files_in(events.folder) == {"lost": b"1"}


def test_a_folder_that_is_new_is_taken(events: Prefix) -> None:
    events.commit({"a": b"1", "b": b"1"})

    def program(_: str) -> None:
        rmtree(events.folder)
        events.folder.mkdir()
        (events.folder / "b").write_bytes(b"1")

    assert events.run(program).deleted == 1
    assert events.objects() == {"b": b"1"}


def test_an_empty_folder_stays_empty(events: Prefix) -> None:
    events.commit({"a": b"1", "d/b": b"1"})
    events.folder.mkdir(0o750)

    def program(_: str) -> None:
        (events.folder / "d" / "b").write_bytes(b"2")
        (events.folder / "d").chmod(0o500)

    events.run(program)
    assert events.objects() == {"a": b"1", "d/b": b"2"}
    assert files_in(events.folder) == {}
    assert stat.S_IMODE(events.folder.stat().st_mode) == 0o750


def test_a_folder_that_cannot_be_made(events: Prefix, tmp_path: Path) -> None:
    events.commit({})
    (tmp_path / "file").write_bytes(b"1")
    for folder, sentence in ((tmp_path / "no" / "data", "the one above it"), (tmp_path / "file", "is not a folder")):
        with pytest.raises(PreconditionError, match=sentence), Prefix(events.repository, "x/", folder).filled():
            raise AssertionError("it was filled")
    assert (tmp_path / "file").read_bytes() == b"1"


def test_two_runs_do_not_share_a_folder(events: Prefix) -> None:
    events.commit({})
    second = Prefix(events.repository, "x/", events.folder)
    with events.filled(), pytest.raises(BusyError, match="another run works in folder"), second.filled():
        raise AssertionError("it was filled")
    assert not events.folder.exists()


def test_an_interruption_leaves_nothing(events: Prefix) -> None:
    events.commit({"a": b"1"})

    def program(_: str) -> None:
        (events.folder / "new").write_bytes(b"2")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        events.run(program)
    assert not events.folder.exists()
    assert events.objects() == {"a": b"1"}


def test_the_committed_file_is_another_one(events: Prefix) -> None:
    events.commit({"a": b"1"})
    (entry,) = events.repository.objects("main", events.prefix)
    committed = Path(events.repository.native("main", entry))
    before = committed.stat()
    with events.filled():
        path = events.folder / "a"
        assert not path.samefile(committed)
        path.chmod(0o777)
        os.truncate(path, 0)
    assert (committed.stat().st_mode, committed.stat().st_nlink, committed.read_bytes()) == (before.st_mode, 1, b"1")
