"""Exports: the folder has the commit's contents, whatever it had before, and however an earlier export ended."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from hashlib import md5
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic
from unicodedata import normalize

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graveler.errors import (
    BusyError,
    BytesGoneError,
    CorruptError,
    InvalidError,
    LaterVersionError,
    PreconditionError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.lake.exporting.export import ModifiedExportError
from graveler.lake.exporting.export_folder import MARKER, ExportFolder, ExportFolderError
from graveler.lake.exporting.export_names import IS_ALIKE, FileNames, alike, files_that_are_folders, folds_case
from graveler.lake.reading.reader import RepositoryReader
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.requests.exporting import ExportReport
from tests.lake.support import NAMESPACE, World, commit, put, texts, write_files
from tests.support.campaigns import examples
from tests.support.patience import PATIENCE

FILES = {"a/1": "one", "a/2": "two", "b": "", "ü ñ/x": "three"}


def held(folder: Path) -> dict[str, str]:
    """All files of a folder, without the export's own."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MARKER
    }


def folders(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir()}


def marker(folder: Path) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode((folder / MARKER).read_bytes())
    return found


def to_state(repository: OpenRepository, state: Mapping[str, str]) -> str:
    """Commit exactly these objects."""
    now = texts(repository)
    changed: dict[str, str | None] = {path: None for path in now if path not in state}
    changed |= {path: text for path, text in state.items() if now.get(path) != text}
    put(repository, changed)
    return repository.commit("main", "m", allow_empty=True).id


class Killed(BaseException):
    """The process ended here."""


class Dying:
    """Ends an export at the ``number``-th change of a file (from 0), before or after it."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
        self.left = number
        for name in ("remove", "write", "mark"):
            patch.setattr(ExportFolder, name, self._wrap(getattr(ExportFolder, name), after=after))

    def _wrap(self, method: Callable[..., object], *, after: bool) -> Callable[..., object]:
        def wrapped(*arguments: object) -> object:
            self.left -= 1
            if self.left == -1 and not after:
                raise Killed
            if self.left < -1:
                raise Killed  # what other threads do after the end
            result = method(*arguments)
            if self.left == -1:
                raise Killed
            return result

        return wrapped


def export_and_die(repository: OpenRepository, ref: str, folder: Path, number: int, *, after: bool) -> bool:
    """True if the export came to its end before."""
    with pytest.MonkeyPatch.context() as patch:
        Dying(patch, number, after=after)
        try:
            repository.export(ref, folder, threads=1)
        except Killed:
            return False
    return True


# What is in the folder


def test_the_folder_holds_the_objects_of_the_commit(tmp_path: Path) -> None:
    world = World()
    made = commit(world.main, dict(FILES))
    seen: list[tuple[int, int]] = []
    report = world.main.export("main", tmp_path / "new" / "x", progress=lambda n, size: seen.append((n, size)))
    assert held(tmp_path / "new" / "x") == FILES
    assert report == ExportReport(world.main.commit_of("main").id, written=4, removed=0, size=11)
    assert report.commit_id == made
    assert (sum(n for n, _ in seen), sum(size for _, size in seen)) == (4, 11)
    assert {path.name for path in (tmp_path / "new" / "x").iterdir()} == {"a", "b", "ü ñ", MARKER}
    assert marker(tmp_path / "new" / "x") == {
        "format_version": 1,
        "repository": world.main.repository.uid,
        "prefix": "",
        "state": "complete",
        "base": made,
        "targets": [],
        "run": "",
    }


def test_uncommitted_changes_are_not_exported(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    put(world.main, {"c": "new", "b": None})
    world.main.export("main", tmp_path)
    assert held(tmp_path) == FILES


def test_files_are_named_by_what_follows_the_prefix(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    world.main.export("main", tmp_path, prefix="a/")
    assert held(tmp_path) == {"1": "one", "2": "two"}


def test_an_empty_commit_makes_an_empty_export(tmp_path: Path) -> None:
    world = World()
    assert world.main.export("main", tmp_path / "x").written == 0
    assert held(tmp_path / "x") == {}
    commit(world.main, {"a": "1"})
    assert world.main.export("main", tmp_path / "x").written == 1


# What differs


def test_the_next_export_reads_and_writes_what_differs(tmp_path: Path) -> None:
    world = World()
    first = commit(world.main, {f"d/{n:03}": str(n) for n in range(200)})
    world.main.export(first, tmp_path)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "d").iterdir()}
    commit(world.main, {"d/007": "changed", "d/100": None, "e/f/g": "added", "d/150": "150"})
    client = world.counted()
    report = client.repository.export("main", tmp_path)
    assert (report.written, report.removed, report.size) == (2, 1, 12)
    assert sum(method == "stream" for method, key in client.objects.keys if "/data/" in f"/{key}") == 2
    assert held(tmp_path) == texts(world.main)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "d").iterdir()}
    assert {path.name for path in times if after.get(path) != times[path]} == {"007", "100"}
    world.main.export(first, tmp_path)
    assert held(tmp_path) == texts(world.main, first)
    assert folders(tmp_path) == {"d"}


def test_nothing_is_touched_when_nothing_differs(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    world.main.export("main", tmp_path)
    before = (tmp_path / MARKER).stat().st_mtime_ns
    assert world.main.export("main", tmp_path) == ExportReport(world.main.commit_of("main").id)
    assert (tmp_path / MARKER).stat().st_mtime_ns == before
    world.main.commit("main", "empty", allow_empty=True)
    assert world.main.export("main", tmp_path).written == 0
    assert marker(tmp_path)["base"] == world.main.commit_of("main").id


def test_a_file_becomes_a_folder_and_a_folder_a_file(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"a": "file", "b/c/d": "deep"})
    world.main.export("main", tmp_path)
    commit(world.main, {"a": None, "a/x": "1", "b/c/d": None, "b": "file"})
    world.main.export("main", tmp_path)
    assert held(tmp_path) == {"a/x": "1", "b": "file"}


def test_a_dry_run_counts_and_changes_nothing(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    planned = world.main.export("main", tmp_path / "x", dry_run=True)
    assert not (tmp_path / "x").exists()
    assert world.main.export("main", tmp_path / "x") == planned
    commit(world.main, {"a/1": None, "b": "now"})
    planned = world.main.export("main", tmp_path / "x", dry_run=True)
    assert held(tmp_path / "x") == FILES
    assert world.main.export("main", tmp_path / "x") == planned
    assert (planned.written, planned.removed) == (1, 1)


# Folders that are refused


def test_a_folder_that_is_no_export_is_refused(tmp_path: Path) -> None:
    world = World()
    write_files(tmp_path, {"mine": "1"})
    with pytest.raises(ExportFolderError, match=r"neither empty nor an export \(it contains 'mine'\)"):
        world.main.export("main", tmp_path)
    with pytest.raises(ExportFolderError, match="not a folder"):
        world.main.export("main", tmp_path / "mine")
    assert held(tmp_path) == {"mine": "1"}


def test_an_export_of_something_else_is_refused(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    world.main.export("main", tmp_path)
    with pytest.raises(ExportFolderError, match="of prefix '', not of 'a/'"):
        world.main.export("main", tmp_path, prefix="a/")
    other = world.lake().create_repository("other", "mem://other")
    with pytest.raises(ExportFolderError, match="another repository than 'other'"):
        other.export("main", tmp_path)
    assert held(tmp_path) == FILES


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b'{"format_version": 2}', LaterVersionError),
        (b"{}", CorruptError),
        (b"", CorruptError),
        (b'\xff"', CorruptError),
        (b'{"format_version": 1, "repository": "x", "prefix": "", "state": "half", "base": ""}', CorruptError),
    ],
)
def test_a_marker_that_cannot_be_read_is_refused(tmp_path: Path, data: bytes, error: type[Exception]) -> None:
    (tmp_path / MARKER).write_bytes(data)
    with pytest.raises(error, match=r"later version|damaged"):
        World().main.export("main", tmp_path)


def test_an_export_whose_commit_is_gone_is_refused(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    world.main.export("main", tmp_path)
    (tmp_path / MARKER).write_bytes(msgspec.json.encode(marker(tmp_path) | {"base": "ab" * 32}))
    with pytest.raises(PreconditionError, match="commit abababababababab, which is gone"):
        world.main.export("main", tmp_path)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    world = World()
    with pytest.raises(InvalidError, match=r"must be empty or end with '/'"):
        world.main.export("main", tmp_path, prefix="a")
    with pytest.raises(InvalidError, match="threads is 0"):
        world.main.export("main", tmp_path, threads=0)
    with pytest.raises(RefNotFoundError):
        world.main.export("nothing", tmp_path)


def test_two_exports_to_one_folder_do_not_mix(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    with ExportFolder(tmp_path).claimed(), pytest.raises(BusyError, match="another export"):
        world.main.export("main", tmp_path)
    world.main.export("main", tmp_path)
    assert held(tmp_path) == FILES


# Keys that cannot be files


def test_keys_that_cannot_be_files_are_left_out_and_the_rest_is_written(tmp_path: Path) -> None:
    world = World()
    bad = {
        "/x": "component",
        "a//b": "component",
        "a/../b": "component",
        "./a": "component",
        "folder/": "folder marker",
        "full/": "component",
        "n\0l": "NUL",
        "x" * 256: "too long",
        "ü" * 128: "too long",
        MARKER: "own state",
        ".graveler-export-unfinished/1": "own state",
        "file": "also a folder",
    }
    good = {"fine": "1", "file/below": "2", "file!": "3", "x" * 255: "4"}
    commit(world.main, {**dict.fromkeys(bad, "0"), "folder/": "", **good})
    for dry_run in (True, False):
        left_out = dict(world.main.export("main", tmp_path / "x", dry_run=dry_run).left_out)
        assert left_out.keys() == bad.keys()
        assert all(why in left_out[path] for path, why in bad.items())
        assert list(left_out) == sorted(left_out)
    assert held(tmp_path / "x") == good
    commit(world.main, {"fine": "5"})
    assert world.main.export("main", tmp_path / "x", verify=True).left_out == ()
    assert held(tmp_path / "x") == {**good, "fine": "5"}


def test_a_path_may_be_too_long_in_all(tmp_path: Path) -> None:
    world = World()
    deep = tmp_path.joinpath(*["d" * 200] * 16)
    commit(world.main, {"/".join(["x" * 200] * 5): "1"})
    ((path, why),) = world.main.export("main", deep).left_out
    assert (path, "too long" in why) == ("/".join(["x" * 200] * 5), True)


def test_a_key_that_became_a_folder_gives_way_to_the_files_below(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"old/below": "1", "file": "2", "other": "3"})
    world.main.export("main", tmp_path)
    commit(world.main, {"old": "4", "file/x/y": "5", "file/x/z": "6", "other": "7"})
    assert [path for path, _ in world.main.export("main", tmp_path).left_out] == ["file", "old"]
    assert held(tmp_path) == {"old/below": "1", "file/x/y": "5", "file/x/z": "6", "other": "7"}
    world.main.delete("main", ["file/x/y", "file/x/z", "old/below"])
    world.main.commit("main", "Only the files themselves")
    assert world.main.export("main", tmp_path).left_out == ()
    assert held(tmp_path) == {"old": "4", "file": "2", "other": "7"}


def test_below_a_key_only_what_can_be_a_file_takes_its_place(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"a": "1", "a/": "", "a//b": "2", "b": "3"})
    assert [path for path, _ in world.main.export("main", tmp_path).left_out] == ["a/", "a//b"]
    assert held(tmp_path) == {"a": "1", "b": "3"}


@given(st.sets(st.text("a/!0", min_size=1, max_size=6)))
def test_files_that_are_folders_are_found(names: set[str]) -> None:
    expected = {name for name in names if any(other.startswith(name + "/") for other in names)}
    assert set(files_that_are_folders(sorted(names))) == expected


# File systems that ignore case


@pytest.fixture
def ignoring_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports take the file system for one that ignores case, as macOS does; this machine has none."""
    monkeypatch.setattr(
        FileNames, "below", classmethod(lambda cls, *_: cls(255, 4000, frozenset((MARKER,)), folds=True))
    )


def folded(name: str) -> str:
    return normalize("NFC", normalize("NFC", name).casefold())


@given(st.sets(st.text("aAé/É\u0301e", min_size=1, max_size=5)))
@example({"/\u00c9", "/e\u0301/a"})
def test_names_that_differ_only_by_case_are_found(names: set[str]) -> None:
    names -= set(files_that_are_folders(sorted(names)))
    above = {folded(name[:at]) for name in names for at in range(1, len(name)) if name[at] == "/"}
    ordered = sorted(names)
    expected = [
        name
        for at, name in enumerate(ordered)
        if folded(name) in above or folded(name) in {folded(other) for other in ordered[:at]}
    ]
    assert list(alike(lambda: ordered)) == expected


@pytest.mark.usefixtures("ignoring_case")
def test_names_that_differ_only_by_case_are_left_out(tmp_path: Path) -> None:
    world = World()
    first = to_state(world.main, {"a": "1", "b/x": "2", "c": "3"})
    second = to_state(world.main, {"A": "4", "a": "1", "B": "5", "b/x": "2", "c": "3"})
    third = to_state(world.main, {"a": "1", "B/y": "6", "b/x": "2", "c": "3"})
    world.main.export(first, tmp_path)
    report = world.main.export(second, tmp_path)
    assert report.left_out == (("B", IS_ALIKE), ("a", IS_ALIKE))
    assert (report.removed, report.written) == (1, 1)
    assert held(tmp_path) == {"A": "4", "b/x": "2", "c": "3"}
    assert world.main.export(second, tmp_path, verify=True).left_out == ()
    report = world.main.export(third, tmp_path)
    assert report.left_out == ()
    assert held(tmp_path) == {"a": "1", "B/y": "6", "b/x": "2", "c": "3"}  # here the two folders are apart


ALIKE = st.dictionaries(st.sampled_from(["a", "A", "a/b", "A/b", "a/B", "B", "b"]), st.sampled_from("12"))


@given(st.lists(ALIKE, max_size=4))
@settings(max_examples=examples(60), deadline=None)
def test_exports_to_a_file_system_that_ignores_case_keep_one_of_each_name(states: list[dict[str, str]]) -> None:
    world = World()
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        names = FileNames(255, 4000, frozenset((MARKER,)), folds=True)
        patch.setattr(FileNames, "below", classmethod(lambda *_: names))
        for state in states:
            world.main.export(to_state(world.main, state), Path(name))
            for path in set(files_that_are_folders(sorted(state))):
                del state[path]
            ordered = sorted(state)
            for path in list(alike(ordered.copy)):
                del state[path]
            assert held(Path(name)) == state


def test_a_file_system_with_case_is_one(tmp_path: Path) -> None:
    (tmp_path / "Folder").mkdir()
    assert not folds_case(tmp_path / "Folder")
    (tmp_path / "fOLDER").mkdir()
    assert not folds_case(tmp_path / "Folder")


# Interruption


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fresh", [False, True])
def test_an_export_that_ended_anywhere_is_finished_by_the_next(tmp_path: Path, *, fresh: bool, after: bool) -> None:
    world = World()
    first = to_state(world.main, {"a": "1", "b": "2", "c/d": "3", "e": "4"})
    second = to_state(world.main, {"a": "9", "c": "8", "e/f": "7", "g": "6"})
    third = to_state(world.main, {"a": "1", "b": "5", "c/d": "3", "e/f": "0"})
    number = 0
    while True:
        folder = tmp_path / str(number)
        if not fresh:
            world.main.export(first, folder)
        complete = export_and_die(world.main, second, folder, number, after=after)
        if not complete and number % 2:
            export_and_die(world.main, first, folder, number // 2, after=after)
        world.main.export(third, folder)
        assert held(folder) == texts(world.main, third)
        assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == [MARKER]
        if complete:
            break
        number += 1
    assert number > 4


def test_finishing_writes_no_file_that_is_right(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {f"{n:02}": str(n) for n in range(20)})
    assert not export_and_die(world.main, "main", tmp_path, 12, after=True)
    assert marker(tmp_path)["state"] == "started"
    there = len(held(tmp_path))
    assert 10 <= there <= 12
    assert world.main.export("main", tmp_path).written == 20 - there
    assert held(tmp_path) == texts(world.main)


def test_finishing_finds_a_file_of_the_same_size_with_other_bytes(tmp_path: Path) -> None:
    world = World()
    first = commit(world.main, {"a": "old", "b": "old"})
    world.main.export(first, tmp_path)
    commit(world.main, {"a": "new", "b": "new"})
    assert not export_and_die(world.main, "main", tmp_path, 2, after=False)
    assert sorted(held(tmp_path).values()) == ["new", "old"]
    assert world.main.export("main", tmp_path).written == 1
    assert held(tmp_path) == {"a": "new", "b": "new"}


def test_ctrl_c_stops_all_threads_and_leaves_no_half_file(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {f"{n:03}": str(n) * 100 for n in range(300)})

    def interrupt(objects: int, size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.main.export("main", tmp_path, progress=interrupt)
    some = held(tmp_path)
    assert 0 < len(some) < 300
    assert some.items() <= texts(world.main).items()
    world.main.export("main", tmp_path)
    assert held(tmp_path) == texts(world.main)


PATHS = ("a", "a/b", "a/b/c", "a!", "b", "b/c", "c")
STATES = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["", "x", "y", "zz"]), max_size=5),
        st.none() | st.tuples(st.integers(0, 12), st.booleans()),
    ),
    min_size=1,
    max_size=6,
)


@given(STATES)
@settings(max_examples=examples(60), deadline=None)
def test_whatever_happened_before_an_export_makes_the_folder_right(
    states: list[tuple[dict[str, str], tuple[int, bool] | None]],
) -> None:
    world = World()
    with TemporaryDirectory() as name:
        folder = Path(name, "x")
        for state, death in states:
            ref = to_state(world.main, state)
            for path in set(files_that_are_folders(sorted(state))):
                del state[path]
            if death is not None:
                export_and_die(world.main, ref, folder, death[0], after=death[1])
            else:
                world.main.export(ref, folder)
                assert held(folder) == state
                assert folders(folder) == {path[: path.rindex("/")] for path in state if "/" in path} | {
                    "a" for path in state if path.startswith("a/")
                }


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    assert not export_and_die(world.main, "main", tmp_path, 2, after=False)
    write_files(tmp_path, {".graveler-export-unfinished/0": "half", ".graveler-export.json.new": "half"})
    world.main.export("main", tmp_path)
    assert held(tmp_path) == FILES


def test_a_process_killed_before_its_marker_leaves_a_folder_that_can_be_used(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    write_files(tmp_path, {".graveler-export.json.new": "half"})
    world.main.export("main", tmp_path)
    assert held(tmp_path) == FILES


def test_an_export_that_was_overtaken_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    commit(world.main, dict(FILES))
    claimed, others = ExportFolder.claimed, iter([world.main])

    def overtaken(place: ExportFolder) -> AbstractContextManager[None]:
        for repository in others:
            repository.export("main", tmp_path)
        return claimed(place)

    monkeypatch.setattr(ExportFolder, "claimed", overtaken)
    with pytest.raises(BusyError, match="has finished meanwhile"):
        world.main.export("main", tmp_path)


def test_an_error_stops_the_other_threads_between_two_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    commit(world.main, {"a": "fails", "b": "takes long"})
    begun, came_to_its_end = Event(), Event()

    def stream(_: object, ref: str, path: str) -> Iterator[bytes]:
        if path == "a":
            begun.wait(PATIENCE)
            raise UnavailableError("the network is down")
        until = monotonic() + PATIENCE
        while monotonic() < until:
            yield b"x"
            begun.set()
        came_to_its_end.set()

    monkeypatch.setattr(RepositoryReader, "stream", stream)
    with pytest.raises(UnavailableError, match="network is down"):
        world.main.export("main", tmp_path, threads=2)
    assert not came_to_its_end.is_set()


# What others did in the folder


def test_modified_files_are_told_with_verify_and_missing_ones_written(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    world.main.export("main", tmp_path)
    write_files(tmp_path, {"a/1": "eno", "mine": "stays", "ü ñ/x": "longer than before"})
    (tmp_path / "a/2").unlink()
    before = held(tmp_path)
    commit(world.main, {"b": "changed"})
    with pytest.raises(ModifiedExportError, match=r"2 files in .* were changed since the export") as caught:
        world.main.export("main", tmp_path, verify=True)
    assert caught.value.paths == ("a/1", "ü ñ/x")
    assert held(tmp_path) == before
    for path in caught.value.paths:
        (tmp_path / path).unlink()
    report = world.main.export("main", tmp_path, verify=True)
    assert report.written == 4
    assert held(tmp_path) == texts(world.main) | {"mine": "stays"}
    assert world.main.export("main", tmp_path, verify=True).written == 0


def test_a_file_in_the_place_of_a_new_object_is_told_with_verify(tmp_path: Path) -> None:
    world = World()
    commit(world.main, dict(FILES))
    world.main.export("main", tmp_path)
    write_files(tmp_path, {"c": "mine"})
    commit(world.main, {"c": "theirs"})
    with pytest.raises(ModifiedExportError, match=r"1 file in .* was changed since the export: 'c'"):
        world.main.export("main", tmp_path, verify=True)
    world.main.export("main", tmp_path)
    assert held(tmp_path) == texts(world.main)


def test_verify_knows_the_states_of_an_interrupted_export(tmp_path: Path) -> None:
    world = World()
    world.main.export(commit(world.main, {"a": "1", "b": "1", "c": "1"}), tmp_path)
    second = commit(world.main, {"a": "2", "b": "2", "c": None})
    assert not export_and_die(world.main, second, tmp_path, 2, after=True)
    third = commit(world.main, {"a": "3", "b": "3"})
    write_files(tmp_path, {"b": "?"})
    with pytest.raises(ModifiedExportError) as caught:
        world.main.export(third, tmp_path, verify=True)
    assert caught.value.paths == ("b",)
    (tmp_path / "b").unlink()
    world.main.export(third, tmp_path, verify=True)
    assert held(tmp_path) == texts(world.main)


def test_a_checksum_that_is_no_md5_is_compared_by_size(tmp_path: Path) -> None:
    world = World()
    write_files(tmp_path, {"source": "12345"})
    link(world.main, "a", tmp_path / "source", 5, "abc-2")
    world.main.commit("main", "m")
    world.main.export("main", tmp_path / "x")
    write_files(tmp_path / "x", {"a": "54321"})
    assert world.main.export("main", tmp_path / "x", verify=True).written == 0
    write_files(tmp_path / "x", {"a": "other"[:4]})
    with pytest.raises(ModifiedExportError):
        world.main.export("main", tmp_path / "x", verify=True)


def test_objects_of_which_nobody_knows_a_checksum_are_written_again(tmp_path: Path) -> None:
    world = World()
    out = tmp_path / "out"
    for text in ("one", "two"):
        (tmp_path / text).write_text(text)
        link(world.main, "x", tmp_path / text, 3, "")
        world.main.commit("main", text)
        assert world.main.export("main", out).written == 1
        assert held(out) == {"x": text}
    world.main.upload("main", "y", b"other")
    world.main.commit("main", "other")
    assert world.main.export("main", out).written == 1, "the same object has the same bytes"


def test_a_checksum_that_only_looks_like_an_md5_is_no_modification(tmp_path: Path) -> None:
    """ETags of S3 with keys of KMS are not the MD5 of the bytes, and nobody sees that in them."""
    world = World()
    out = tmp_path / "out"
    store = world.objects()

    def linked(path: str, text: str) -> None:
        address = world.main.new_address("main", path)
        stored = store.put(address.removeprefix(NAMESPACE + "/"), text.encode())
        etag = md5(b"encrypted " + text.encode()).hexdigest()
        store.objects[stored.key] = text.encode(), msgspec.structs.replace(stored, etag=etag, encrypted=True)
        world.main.link("main", ObjectEntry(path, address, len(text), etag, 1))

    linked("a", "12345")
    linked("b", "123")
    put(world.main, {"c": "ours"})
    first = world.main.commit("main", "m").id
    assert world.main.export("main", out).written == 3
    assert world.main.export("main", out, verify=True).written == 0
    linked("a", "67890")
    world.main.commit("main", "n")
    assert world.main.export("main", out, verify=True).written == 1
    assert world.main.export(first, out, verify=True).written == 1
    assert held(out) == {"a": "12345", "b": "123", "c": "ours"}
    write_files(out, {"a": "54321", "c": "mine"})
    with pytest.raises(ModifiedExportError) as caught:
        world.main.export("main", out, verify=True)
    assert caught.value.paths == ("a", "c")


def test_what_is_in_the_way_is_left_alone(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"a": "1"})
    world.main.export("main", tmp_path / "x")
    write_files(tmp_path / "x", {"b/mine": "1", "c": "mine"})
    for path in ("b", "c/d"):
        commit(world.main, {path: "2"})
        with pytest.raises(ExportFolderError, match=rf"{path[0]}' is in the way"):
            world.main.export("main", tmp_path / "x")
        commit(world.main, {path: None})
    world.main.export("main", tmp_path / "x")
    assert held(tmp_path / "x") == {"a": "1", "b/mine": "1", "c": "mine"}


def test_an_empty_folder_gives_way_to_a_file(tmp_path: Path) -> None:
    world = World()
    world.main.export("main", tmp_path)
    (tmp_path / "a").mkdir()
    commit(world.main, {"a": "1"})
    world.main.export("main", tmp_path)
    assert held(tmp_path) == {"a": "1"}


def test_links_lead_nowhere(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"d/1": "1", "d/2": "2", "e": "3"})
    world.main.export("main", tmp_path / "x")
    outside = write_files(tmp_path / "outside", {"1": "keep", "2": "keep", "e": "keep"})
    for path in (tmp_path / "x/d/1", tmp_path / "x/d/2", tmp_path / "x/e"):
        path.unlink()
    (tmp_path / "x/d").rmdir()
    (tmp_path / "x/d").symlink_to(outside)
    (tmp_path / "x/e").symlink_to(outside / "e")
    commit(world.main, {"d/1": None, "e": "new"})
    world.main.export("main", tmp_path / "x")
    assert held(outside) == {"1": "keep", "2": "keep", "e": "keep"}
    assert (tmp_path / "x/e").read_text() == "new"
    commit(world.main, {"d/2": "new"})
    with pytest.raises(ExportFolderError, match="d' is in the way"):
        world.main.export("main", tmp_path / "x")
    assert held(outside) == {"1": "keep", "2": "keep", "e": "keep"}


# What fails


def link(repository: OpenRepository, path: str, source: Path, size: int, checksum: str) -> None:
    repository.link("main", ObjectEntry(path, f"file://{source}", size, checksum, 1))


@pytest.mark.parametrize(("size", "checksum"), [(5, "0" * 32), (4, "abc-1")])
def test_bytes_that_are_not_the_lakes_are_told_and_not_exported(tmp_path: Path, size: int, checksum: str) -> None:
    world = World()
    write_files(tmp_path, {"source": "12345"})
    put(world.main, {"fine": "1"})
    link(world.main, "wrong", tmp_path / "source", size, checksum)
    world.main.commit("main", "m")
    with pytest.raises(
        CorruptError, match=r"the bytes of 'wrong' are not the ones .* has (5 bytes with MD5 827ccb|more than 4)"
    ):
        world.main.export("main", tmp_path / "x", threads=1)
    assert held(tmp_path / "x") == {"fine": "1"}
    assert marker(tmp_path / "x")["state"] == "started"


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    commit(world.main, {"a": "1"})

    stream, failures = RepositoryReader.stream, iter([OSError(28, "No space left on device")])

    def full(reader: RepositoryReader, ref: str, path: str) -> Iterable[bytes]:
        for failure in failures:
            raise failure
        return stream(reader, ref, path)

    monkeypatch.setattr(RepositoryReader, "stream", full)
    with pytest.raises(UnavailableError, match="disk is full"):
        world.main.export("main", tmp_path)
    world.main.export("main", tmp_path)
    assert held(tmp_path) == {"a": "1"}


def test_a_lost_object_is_told(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"a": "1", "b": "2"})
    address = world.main.stat("main", "a").address
    world.objects().delete(address.removeprefix(NAMESPACE + "/"))
    with pytest.raises(
        BytesGoneError, match=r"the bytes of object 'a' in .* are gone: there is no longer anything at mem://"
    ):
        world.main.export("main", tmp_path)
    assert "a" not in held(tmp_path)
