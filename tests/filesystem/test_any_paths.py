"""Copying, moving, deleting and downloading of objects with any path, compared with plain dictionaries."""

import asyncio
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.filesystem.filesystem import GravelerFileSystem
from tests.filesystem.conftest import new_repository
from tests.sdk.conftest import CountedLake
from tests.support.campaigns import examples

Objects = dict[str, bytes]

PARTS = st.sampled_from(["", ".", "..", "d", "e", "x"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join).filter(bool)
TREES = st.sets(PATHS, max_size=8).map(lambda paths: {path: path.encode() for path in sorted(paths)})
MARKED = st.tuples(TREES, st.booleans()).map(
    lambda drawn: {
        path: b"" if drawn[1] and path.endswith("/") else data for path, data in drawn[0].items()
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def fs() -> GravelerFileSystem:
    lake = CountedLake()
    lake.repository("rep").create("mem://rep")
    return GravelerFileSystem(lake, skip_instance_cache=True)


def write(fs: GravelerFileSystem, objects: Mapping[str, bytes]) -> None:
    """Make ``rep/main`` have exactly these objects."""
    verbs = fs.opened.verbs("rep")
    verbs.delete("main", [entry.path for entry in verbs.objects("main")])
    for path, data in objects.items():
        verbs.upload("main", path, data)


def written(fs: GravelerFileSystem) -> Objects:
    verbs = fs.opened.verbs("rep")
    return {entry.path: b"".join(verbs.bytes_in("main", entry)) for entry in verbs.objects("main")}


def selected(objects: Objects, source: str) -> list[str]:
    """What a recursive verb takes."""
    name = source.rstrip("/")
    below = [path for path in objects if path.startswith(f"{name}/")]
    return below if below and source.endswith("/") else [path for path in objects if path == name or path in below]


def is_folder(objects: Objects, name: str) -> bool:
    return name not in objects and any(path.startswith(f"{name}/") for path in objects)


def arrivals(objects: Objects, source: str, target: str, *, is_target_folder: bool) -> dict[str, str]:
    """Where they arrive."""
    name = source.rstrip("/")
    is_contents = source.endswith("/") and any(path.startswith(f"{name}/") for path in objects)
    inside = f"/{name}" if (is_target_folder or target.endswith("/")) and not is_contents else ""
    return {path: target.rstrip("/") + inside + path[len(name) :] for path in selected(objects, source)}


SOURCES = st.sampled_from(["d", "d/", "e", "x/"])
TARGETS = st.sampled_from(["d", "d/", "e", "e/", "new", "new/", "d/x", "x/d/"])
LAW = settings(max_examples=examples(100), deadline=None, derandomize=True)


@LAW
@given(TREES, SOURCES)
def test_what_is_deleted_is_what_is_below(fs: GravelerFileSystem, objects: Objects, source: str) -> None:
    write(fs, objects)
    gone = selected(objects, source)
    if gone:
        fs.rm(f"rep/main/{source}", recursive=True)
    else:
        with pytest.raises(FileNotFoundError):
            fs.rm(f"rep/main/{source}", recursive=True)
    assert written(fs) == {path: data for path, data in objects.items() if path not in gone}


@LAW
@given(TREES, SOURCES, TARGETS)
def test_a_copy_has_all_that_the_source_had(fs: GravelerFileSystem, objects: Objects, source: str, target: str) -> None:
    write(fs, objects)
    copied = arrivals(objects, source, target, is_target_folder=is_folder(objects, target.rstrip("/")))
    if not copied:
        with pytest.raises(FileNotFoundError):
            fs.cp(f"rep/main/{source}", f"rep/main/{target}", recursive=True)
        return
    fs.cp(f"rep/main/{source}", f"rep/main/{target}", recursive=True)
    assert written(fs) == objects | {new: objects[old] for old, new in copied.items()}


def test_a_copy_into_a_folder_of_its_own_copies_what_was_there(fs: GravelerFileSystem) -> None:
    write(fs, {"d/e": b"1", "d/x/e": b"2", "d/x/x/e": b"3"})
    fs.cp("rep/main/d/", "rep/main/d/x", recursive=True)
    assert written(fs) == {"d/e": b"1", "d/x/e": b"1", "d/x/x/e": b"2", "d/x/x/x/e": b"3"}


@LAW
@given(TREES, SOURCES, TARGETS)
def test_a_move_loses_nothing(fs: GravelerFileSystem, objects: Objects, source: str, target: str) -> None:
    write(fs, objects)
    moved = arrivals(objects, source, target, is_target_folder=is_folder(objects, target.rstrip("/")))
    name = source.rstrip("/")
    is_own_folder = any(path.startswith(f"{name}/") for path in moved)
    into_itself = any(new in moved or (is_own_folder and new.startswith(f"{name}/")) for new in moved.values())
    if not moved or into_itself:
        with pytest.raises(ValueError if moved else FileNotFoundError):
            fs.mv(f"rep/main/{source}", f"rep/main/{target}", recursive=True)
        assert written(fs) == objects
        return
    fs.mv(f"rep/main/{source}", f"rep/main/{target}", recursive=True)
    rest = {path: data for path, data in objects.items() if path not in moved}
    assert written(fs) == rest | {new: objects[old] for old, new in moved.items()}


@LAW
@given(MARKED, SOURCES)
def test_each_object_is_a_file_of_its_own_or_nothing_is_written(
    fs: GravelerFileSystem, objects: Objects, source: str
) -> None:
    write(fs, objects)
    name = source.rstrip("/")
    files = {path: path[len(name) :] for path in selected(objects, source) if objects[path] or path[-1] != "/"}
    cannot = [
        path
        for path, rest in files.items()
        if not {"", ".", ".."}.isdisjoint(rest.split("/")[1:])
        or any(longer.startswith(f"{path}/") for longer in files)
    ]  # fmt: skip
    with TemporaryDirectory() as folder:
        target = f"{folder}/new"
        if not selected(objects, source):
            with pytest.raises(FileNotFoundError):
                fs.get(f"rep/main/{source}", target, recursive=True)
        elif cannot:
            with pytest.raises(ValueError, match="Nothing was written"):
                fs.get(f"rep/main/{source}", target, recursive=True)
            assert not Path(target).exists()
        else:
            fs.get(f"rep/main/{source}", target, recursive=True)
            assert {
                str(file).removeprefix(target): file.read_bytes()
                for file in [Path(target), *Path(target).rglob("*")]
                if file.is_file()
            } == {rest: objects[path] for path, rest in files.items()}


@LAW
@given(TREES, st.integers(1, 4))
def test_all_ways_of_listing_find_the_same(fs: GravelerFileSystem, objects: Objects, depth: int) -> None:
    write(fs, objects)
    named = sorted(f"rep/main/{path}" for path in objects if not path.endswith("/"))
    assert fs.find("rep/main") == named
    for topdown in (True, False):
        rows = list(fs.walk("rep/main", topdown=topdown, on_error="raise"))
        assert sorted(f"{top}/{file}" for top, _, files in rows for file in files) == named
        assert len({top for top, _, _ in rows}) == len(rows)
    shallow = {path: data for path, data in objects.items() if path.count("/") < depth}
    assert fs.find("rep/main", maxdepth=depth) == [name for name in named if name.count("/") < depth + 2]
    sizes = {f"rep/main/{path}": len(data) for path, data in shallow.items()}
    assert fs.du("rep/main", total=False, maxdepth=depth) == sizes
    assert fs.du("rep/main", maxdepth=depth) == sum(sizes.values())
    assert fs.du("rep/main") == fs.du("rep") == sum(map(len, objects.values()))


AWKWARD: Objects = {
    "t/a": b"1",
    "t/x//y": b"2",
    "t/x/y": b"3",
    "t/d": b"4",
    "t/d/": b"5",
    "t/d/z": b"6",
    "t/./..": b"7",
}


@pytest.fixture(params=["folder", pytest.param("aws", marks=pytest.mark.ci), "served"])
def storage_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.getfixturevalue(f"{request.param}_options")
    return {**found, "user": "ada"}


@pytest.mark.parametrize("is_awaited", [False, True])
def test_awkward_paths_arrive_on_each_kind_of_lake(storage_options: dict[str, Any], is_awaited: bool) -> None:
    fs = GravelerFileSystem(**storage_options, skip_instance_cache=True)

    def do(verb: str, *arguments: Any) -> None:
        if is_awaited:
            asyncio.run(getattr(fs, f"_{verb}")(*arguments, recursive=True))
        else:
            getattr(fs, verb)(*arguments, recursive=True)

    source, other = (f"{new_repository(storage_options)}/main" for _ in range(2))
    verbs, other_verbs = (fs.opened.verbs(branch.split("/")[0]) for branch in (source, other))
    for path, data in AWKWARD.items():
        verbs.upload("main", path, data)
    do("copy", f"{source}/t", f"{source}/u")
    do("copy", f"{source}/t", f"{other}/t")
    fs.mv(f"{source}/t/", f"{source}/v", recursive=True)
    do("rm", f"{source}/u")
    assert [entry.path for entry in verbs.objects("main")] == [path.replace("t", "v", 1) for path in sorted(AWKWARD)]
    assert {
        entry.path: b"".join(other_verbs.bytes_in("main", entry)) for entry in other_verbs.objects("main")
    } == AWKWARD
    with TemporaryDirectory() as folder, pytest.raises(ValueError, match="4 objects cannot be files") as refused:
        do("get", f"{other}/t", f"{folder}/new")
    assert all(repr(path) in str(refused.value) for path in ("t/./..", "t/d", "t/d/", "t/x//y"))
    fs.opened.close()


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_slash_at_the_end_of_a_target_means_a_folder(
    fs: GravelerFileSystem, is_awaited: bool, tmp_path: Path
) -> None:
    write(fs, {"d/a": b"1", "d/b": b"2"})

    def do(verb: str, *arguments: Any) -> None:
        if is_awaited:
            asyncio.run(getattr(fs, f"_{verb}")(*arguments))
        else:
            getattr(fs, verb)(*arguments)

    for get in ("get", "get_file"):
        for name in ("a", "b"):
            do(get, f"rep/main/d/{name}", f"{tmp_path}/{get}/")
        assert [(tmp_path / get / name).read_bytes() for name in "ab"] == [b"1", b"2"]
    do("get", ["rep/main/d/a"], [f"{tmp_path}/listed/"])
    assert (tmp_path / "listed" / "a").read_bytes() == b"1"
    (tmp_path / "file").write_bytes(b"mine")
    for get in ("get", "get_file"):
        with pytest.raises(NotADirectoryError):
            do(get, "rep/main/d/a", f"{tmp_path}/file/")
    with pytest.raises(NotADirectoryError, match="nothing was written"):
        fs.get("rep/main/d", f"{tmp_path}/file", recursive=True)
    assert (tmp_path / "file").read_bytes() == b"mine"
    for put, target in (("put", "e/"), ("put_file", "f/")):
        do(put, f"{tmp_path}/file", f"rep/main/{target}")
        assert fs.cat_file(f"rep/main/{target}file") == b"mine"
    for copy in ("copy", "cp_file"):
        do(copy, "rep/main/d/a", f"rep/main/{copy}/")
        assert fs.cat_file(f"rep/main/{copy}/a") == b"1"


def test_nothing_is_written_to_a_folder_with_a_file_in_the_way(fs: GravelerFileSystem, tmp_path: Path) -> None:
    write(fs, {"d/a": b"1", "d/b/c": b"2"})
    (tmp_path / "out" / "a").mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match="nothing was written"):
        fs.get("rep/main/d/", f"{tmp_path}/out", recursive=True)
    (tmp_path / "out" / "a").rmdir()
    (tmp_path / "out" / "b").touch()
    with pytest.raises(NotADirectoryError, match="nothing was written"):
        fs.get("rep/main/d/", f"{tmp_path}/out", recursive=True)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["b"]


def test_two_never_become_one(fs: GravelerFileSystem, tmp_path: Path) -> None:
    objects = {"a/x": b"1", "b/x": b"2"}
    write(fs, objects)
    names = [f"rep/main/{path}" for path in objects]
    local = [tmp_path / "a" / "x", tmp_path / "b" / "x"]
    for file in local:
        file.parent.mkdir()
        file.touch()
    calls: list[tuple[Any, ...]] = [
        (fs.get, names, f"{tmp_path}/out/"),
        (fs.get, names, [f"{tmp_path}/out/y", f"{tmp_path}/out/z/../y"]),
        (fs.cp, names, "rep/main/c/"),
        (fs.mv, names, ["rep/main/c", "graveler://rep/main/c/"[:-1]]),
        (fs.put, [str(file) for file in local], "rep/main/c/"),
        (fs.put, local, ["rep/main/c", "rep/main/c"]),
    ]
    for verb, sources, target in calls:
        with pytest.raises(ValueError, match="would both be"):
            verb(sources, target)
    with pytest.raises(ValueError, match="onto one another"):
        fs.cp(names, names[::-1])
    with pytest.raises(ValueError, match="give as many of each"):
        fs.get(names, [f"{tmp_path}/out"])
    assert (written(fs), (tmp_path / "out").exists()) == (objects, False)


def test_what_is_no_file_is_not_uploaded(fs: GravelerFileSystem, tmp_path: Path) -> None:
    write(fs, {})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").touch()
    os.mkfifo(tmp_path / "in" / "pipe")
    with pytest.raises(ValueError, match="a named pipe"):
        fs.put(f"{tmp_path}/in", "rep/main/", recursive=True)
    with pytest.raises(ValueError, match="a named pipe"):
        fs.put_file(tmp_path / "in" / "pipe", "rep/main/x")
    (tmp_path / "in" / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "in" / "s"))
        with pytest.raises(ValueError, match="a socket"):
            fs.put(f"{tmp_path}/in", "rep/main/", recursive=True)
    assert written(fs) == {}
