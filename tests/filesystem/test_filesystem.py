"""The filesystem on each kind of lake: what fsspec's own suite does not ask."""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest

from graveler.errors import ObjectNotFoundError
from graveler.filesystem import lakes
from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.sdk.branch import Branch
from graveler.sdk.lake import create_lake
from tests.filesystem.conftest import new_repository
from tests.support.children import end_process
from tests.support.shell import Shell


def branch_of(fs: GravelerFileSystem, branch: str) -> Branch:
    repository, name = branch.split("/")
    return fs.opened.repository(repository).branch(name)


def test_a_path_without_a_ref_is_told(fs: GravelerFileSystem, branch: str) -> None:
    repository = branch.removesuffix("/main")
    fs.pipe_file(f"{branch}/x", b"1")
    path = f"{repository}//x"
    for read in (fs.cat_file, fs.info, fs.ls, fs.open, fs.sign, fs.native, fs.modified):
        with pytest.raises(FileNotFoundError, match=f"'{path}' has no ref between"):
            read(path)
    for write in (lambda name: fs.pipe_file(name, b""), lambda name: fs.open(name, "wb"), fs.rm_file):
        with pytest.raises(ValueError, match=f"'{path}' has no ref between"):
            write(path)
    assert not any(look(path) for look in (fs.exists, fs.isfile, fs.isdir, fs.find))
    for folder in (repository, ""):
        with pytest.raises(IsADirectoryError):
            fs.cat_file(folder)
    with pytest.raises(FileNotFoundError, match="repository"):
        fs.cat_file("none-such")


def test_parts_are_of_several_paths(fs: GravelerFileSystem, branch: str) -> None:
    with pytest.raises(TypeError, match="is one path"):
        fs.cat_ranges(f"{branch}/x", 0, 1)


def test_it_is_known_by_its_protocol(folder_options: dict[str, Any]) -> None:
    assert type(fsspec.filesystem("graveler", **folder_options)) is GravelerFileSystem


def test_every_level_can_be_listed(fs: GravelerFileSystem, branch: str) -> None:
    repository = branch.removesuffix("/main")
    fs.pipe({f"{branch}/a/1": b"1", f"{branch}/a/b/2": b"22", f"graveler://{branch}/a.txt": b"333"})
    branch_of(fs, branch).commit("Three")
    fs.opened.repository(repository).tag("v1").create("main")
    assert repository in fs.ls("", detail=False)
    assert fs.ls(f"graveler://{repository}", detail=False) == [f"{repository}/main", f"{repository}/v1"]
    for ref in ("main", "v1", "main~0", "main@"):
        at = f"{repository}/{ref}"
        assert fs.ls(at, detail=False) == [f"{at}/a", f"{at}/a.txt"]
        assert fs.find(at) == [f"{at}/a.txt", f"{at}/a/1", f"{at}/a/b/2"]
        assert fs.find(at, withdirs=True, maxdepth=2) == [at, f"{at}/a", f"{at}/a.txt", f"{at}/a/1", f"{at}/a/b"]
        assert fs.glob(f"{at}/**/[12]") == [f"{at}/a/1", f"{at}/a/b/2"]
        assert list(fs.walk(at)) == [(at, ["a"], ["a.txt"]), (f"{at}/a", ["b"], ["1"]), (f"{at}/a/b", [], ["2"])]
        assert [top for top, _, _ in fs.walk(at, topdown=False)] == [f"{at}/a/b", f"{at}/a", at]
        assert (fs.du(at), fs.du(f"{at}/a"), fs.du(f"{at}/a.txt")) == (6, 3, 3)
        assert fs.du(f"{at}/a", total=False) == {f"{at}/a/1": 1, f"{at}/a/b/2": 2}
        assert fs.cat(f"{at}/a/b/*") == {f"{at}/a/b/2": b"22"}
    assert fs.find(f"{branch}/a.txt") == [f"{branch}/a.txt"]
    assert fs.find(f"{branch}/none") == []
    assert fs.find(f"{branch}/a", prefix="b/") == [f"{branch}/a/b/2"]


def test_an_object_is_described(fs: GravelerFileSystem, branch: str) -> None:
    path = f"{branch}/x.csv"
    before = datetime.now(UTC).replace(microsecond=0)
    fs.pipe_file(path, b"a,b\n", content_type="text/csv", metadata={"k": "v"})
    info = fs.info(path)
    assert (info["name"], info["size"], info["type"]) == (path, 4, "file")
    assert (info["content_type"], info["metadata"]) == ("text/csv", {"k": "v"})
    assert (fs.size(path), fs.isfile(path), fs.isdir(path), fs.isdir(branch)) == (4, True, False, True)
    assert before <= fs.modified(path) == fs.created(path)
    known = fs.checksum(path), fs.ukey(path)
    assert known == (fs.checksum(path), fs.ukey(path))
    fs.pipe_file(path, b"a,c\n")
    assert known[0] != fs.checksum(path)
    assert known[1] != fs.ukey(path)


def test_parts_are_those_of_the_bytes(fs: GravelerFileSystem, branch: str) -> None:
    data = bytes(range(256)) * 40
    paths = [f"{branch}/{n}" for n in range(3)]
    fs.pipe(dict.fromkeys(paths, data))
    parts = [(None, None), (0, 10), (-10, None), (5, -5), (10_000, 20_000), (20, 10), (20_000, None)]
    for start, end in parts:
        assert fs.cat_file(paths[0], start, end) == data[start:end]
    starts, ends = zip(*parts, strict=True)
    several = [paths[n % 3] for n in range(len(parts))]
    assert fs.cat_ranges(several, starts, ends) == [data[start:end] for start, end in parts]
    found = fs.cat_ranges([paths[0], f"{branch}/none"], 0, 2)
    assert found[0] == data[:2]
    assert isinstance(found[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([f"{branch}/none"], 0, 2, on_error="raise")
    for on_error in ("raise", "omit"):  # as fsspec does: only "return" returns them
        with pytest.raises(FileNotFoundError):
            fs.cat_ranges([paths[0], f"{branch}/none"], 0, 2, on_error=on_error)
    with pytest.raises(ValueError, match="2 paths, 1 starts"):
        fs.cat_ranges(paths[:2], [1], [2])


def test_a_file_shows_the_object_as_it_was_opened(fs: GravelerFileSystem, branch: str) -> None:
    path = f"{branch}/x"
    fs.pipe_file(path, b"one\ntwo\n")
    with fs.open(path) as file:
        fs.pipe_file(path, b"another")
        assert file.readlines() == [b"one\n", b"two\n"]
    with fs.open(path, "r") as text:
        assert text.read() == "another"


@pytest.mark.parametrize("block_size", [1, 7, 0, -1, "default", 2.5, None])
def test_blocks_of_any_size_read_the_same(fs: GravelerFileSystem, branch: str, block_size: Any) -> None:
    fs.pipe_file(f"{branch}/x", b"one\ntwo\n")
    with fs.open(f"{branch}/x", block_size=block_size) as file:
        assert list(file) == [b"one\n", b"two\n"]


def test_what_is_written_appears_as_a_whole_or_never(fs: GravelerFileSystem, branch: str) -> None:
    path = f"{branch}/x"
    with fs.open(path, "wb") as file:
        file.write(b"new")
        assert not fs.exists(path)
    assert fs.cat(path) == b"new"
    for mode, data in (("wb", b"half"), ("w", "half")):
        with pytest.raises(KeyError), fs.open(path, mode) as file:  # noqa: PT012
            file.write(data)
            raise KeyError
    assert fs.cat(path) == b"new"
    with pytest.raises(FileExistsError):
        fs.open(path, "xb")
    with pytest.raises(FileExistsError):
        fs.pipe_file(path, b"", mode="create")
    racing = fs.open(f"{branch}/race", "xb")
    fs.pipe_file(f"{branch}/race", b"first")
    with pytest.raises(FileExistsError):
        racing.close()
    assert fs.cat(f"{branch}/race") == b"first"
    for mode in ("ab", "r+b"):
        with pytest.raises(ValueError, match="written as a whole"):
            fs.open(path, mode)


def test_objects_move_and_go(fs: GravelerFileSystem, branch: str) -> None:
    fs.pipe({f"{branch}/d/{n}": str(n).encode() for n in range(5)})
    address = fs.info(f"{branch}/d/0")["address"]
    fs.mv(f"{branch}/d/0", f"{branch}/e")
    fs.cp(f"{branch}/e", f"{branch}/f")
    assert [fs.info(f"{branch}/{name}")["address"] for name in "ef"] == [address, address]
    assert fs.find(f"{branch}/d") == [f"{branch}/d/{n}" for n in range(1, 5)]
    fs.mv(f"{branch}/d", f"{branch}/g", recursive=True)
    assert not fs.exists(f"{branch}/d")
    with pytest.raises(IsADirectoryError):
        fs.rm(f"{branch}/g")
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{branch}/none")
    with pytest.raises(ValueError, match="no path of an object"):
        fs.rm(branch, recursive=True)
    fs.rm([f"{branch}/g", f"{branch}/e"], recursive=True)
    assert fs.find(branch) == [f"{branch}/f"]


def test_copies_between_repositories_have_the_same_bytes(
    fs: GravelerFileSystem, branch: str, storage_options: dict[str, Any]
) -> None:
    other = f"{new_repository(storage_options)}/main"
    fs.pipe_file(f"{branch}/x.csv", b"a,b\n", content_type="text/csv", metadata={"k": "v"})
    fs.cp_file(f"{branch}/x.csv", f"{other}/y")
    assert fs.cat(f"{other}/y") == b"a,b\n"
    assert (fs.info(f"{other}/y")["content_type"], fs.info(f"{other}/y")["metadata"]) == ("text/csv", {"k": "v"})


def test_errors_are_those_of_files(fs: GravelerFileSystem, branch: str) -> None:
    repository = branch.removesuffix("/main")
    fs.pipe_file(f"{branch}/x", b"1")
    branch_of(fs, branch).commit("One")
    fs.opened.repository(repository).tag("v1").create("main")
    for path in (f"{branch}/none", f"{repository}/none/x", "none-such/main/x", f"{repository}/main~7/x"):
        for look in (fs.info, fs.ls, fs.cat_file, fs.open, fs.modified):
            with pytest.raises(FileNotFoundError):
                look(path)
        assert not fs.exists(path)
    with pytest.raises(FileNotFoundError) as raised:
        fs.info(f"{branch}/none")
    assert isinstance(raised.value.__cause__, ObjectNotFoundError)
    assert raised.value.filename == f"{branch}/none"
    for ref in ("v1", "main~0", branch_of(fs, branch).head.id):
        with pytest.raises(PermissionError, match="is not a branch"):
            fs.pipe_file(f"{repository}/{ref}/x", b"")
    for write in (fs.pipe_file, lambda path, _: fs.open(path, "wb")):
        with pytest.raises(FileNotFoundError):
            write(f"{repository}/none/x", b"")
    with pytest.raises(IsADirectoryError):
        fs.cat_file(branch)
    with pytest.raises(IsADirectoryError):
        fs.modified(branch)


def test_downloads_appear_as_a_whole(fs: GravelerFileSystem, branch: str, tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.bin").write_bytes(data)
    callback = fsspec.callbacks.Callback()
    fs.put_file(str(tmp_path / "in" / "x.bin"), f"{branch}/x.bin", callback=callback)
    assert (callback.size, callback.value) == (len(data), len(data))
    fs.get(branch, str(tmp_path / "out"), recursive=True)
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["x.bin"]
    with (tmp_path / "stream").open("wb") as stream:
        fs.get_file(f"{branch}/x.bin", stream)
    assert (tmp_path / "stream").read_bytes() == data


def test_a_snapshot_stays_what_it_was(fs: GravelerFileSystem, branch: str, storage_options: dict[str, Any]) -> None:
    fs.pipe_file(f"{branch}/x", b"1")
    branch_of(fs, branch).commit("One")
    fixed = GravelerFileSystem(**storage_options, snapshot=True, skip_instance_cache=True)
    assert fixed.cat(f"{branch}/x") == b"1"
    fs.pipe_file(f"{branch}/x", b"2")
    fs.pipe_file(f"{branch}/y", b"2")
    branch_of(fs, branch).commit("Two")
    assert (fixed.cat(f"{branch}/x"), fs.cat(f"{branch}/x")) == (b"1", b"2")
    assert (fixed.find(branch), fs.find(branch)) == ([f"{branch}/x"], [f"{branch}/x", f"{branch}/y"])
    fixed.opened.close()


def test_an_instance_pickles_without_secrets(
    fs: GravelerFileSystem, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs.pipe_file(f"{branch}/x", b"1")
    pickled = pickle.dumps(fs)
    for name in ("GRAVELER_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"):
        assert os.environ.get(name, "no such variable").encode() not in pickled
    script = f"import pickle, sys; fs = pickle.load(sys.stdin.buffer); print(fs.cat({branch + '/x'!r}))"
    run = subprocess.run([sys.executable, "-c", script], input=pickled, capture_output=True, check=True)
    assert run.stdout.decode().strip() == "b'1'"


def test_the_same_words_elsewhere_are_another_lake(tmp_path: Path, shell: Shell) -> None:
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shell.cd(tmp_path / name)
        create_lake("lake").close()
        made = fsspec.filesystem("graveler", lake="lake", user="ada")
        made.opened.repository(f"repository-{name}").create()
        found.append(made)
    shell.cd(tmp_path)
    for each, name in zip(found, ("one", "two"), strict=True):
        assert (
            each.ls("", detail=False) == pickle.loads(pickle.dumps(each)).ls("", detail=False) == [f"repository-{name}"]
        )
    for name in ("one", "two"):
        shell.export("GRAVELER_LAKE", str(tmp_path / name / "lake"))
        assert fsspec.filesystem("graveler").ls("", detail=False) == [f"repository-{name}"]


def test_a_password_in_a_url_is_not_pickled() -> None:
    given: tuple[dict[str, Any], ...] = (
        {"lake": "https://ada:secret@host"},
        {"lake": "dynamodb://t", "objects": "s3://b/p", "s3_endpoint_url": "http://ada:secret@host"},
    )
    for options in given:
        made = GravelerFileSystem(**options, skip_instance_cache=True)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(made)


def test_a_forked_process_reads_on(fs: GravelerFileSystem, branch: str) -> None:
    fs.pipe_file(f"{branch}/x", b"1")
    assert fs.cat(f"{branch}/x") == b"1"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, fs.cat(f"{branch}/x"))
        finally:
            end_process(0)
    os.close(write)
    assert os.read(read, 10) == b"1"
    os.close(read)
    os.waitpid(child, 0)


def test_a_forked_process_leaves_unfinished_writes_to_its_parent(folder_options: dict[str, Any]) -> None:
    branch = f"{new_repository(folder_options)}/main"
    script = f"""
import os, sys
from graveler.filesystem.filesystem import GravelerFileSystem
fs = GravelerFileSystem(**{folder_options!r})
binary, text = fs.open("{branch}/binary", "wb"), fs.open("{branch}/text", "w")
packed = fs.open("{branch}/packed", "wb", compression="gzip")
binary.write(b"one")
text.write("one")
packed.write(b"one")
child = os.fork()
if child == 0:
    refused = 0
    for call in (lambda: binary.write(b"child"), binary.tell, binary.close, text.close, packed.close):
        try:
            call()
        except ValueError as error:
            assert "before this process was forked" in str(error), error
            refused += 1
    sys.exit(refused)  # with all that Python does at its end
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
binary.write(b" two")
for file in (binary, text, packed):
    file.close()
assert fs.cat("{branch}/binary") == b"one two"
assert fs.cat("{branch}/text") == b"one"
assert fs.open("{branch}/packed", compression="gzip").read() == b"one"
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_is_unfinished_when_a_process_ends_is_not_written(fs: GravelerFileSystem, branch: str) -> None:
    options = {**fs.storage_options, "lake": fs.opened.location}
    for end, code in (("", 0), ("raise SystemExit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)):
        script = f"""
import os, signal
from graveler.filesystem.filesystem import GravelerFileSystem
fs = GravelerFileSystem(**{ {**options, "lake": str(options["lake"]), "user": "ada"}!r})
files = [fs.open("{branch}/a", "wb"), fs.open("{branch}/b", "w"), fs.open("{branch}/c", "wb", compression="gzip")]
for file, data in zip(files, (b"half", "half", b"half")):
    file.write(data)
other = GravelerFileSystem(*fs.storage_args, **fs.storage_options, skip_instance_cache=True)
other.start_transaction()
other.pipe_file("{branch}/d", b"whole")
with fs.open("{branch}/e", "wb") as file:
    file.write(b"half")
    {end or "file.discard()"}
"""
        run = subprocess.run([sys.executable, "-c", script], check=False)
        assert run.returncode == code
    assert fs.find(branch) == []


def test_its_asynchronous_methods_do_the_same(
    branch: str, storage_options: dict[str, Any], fs: GravelerFileSystem
) -> None:
    async def work() -> None:
        own = GravelerFileSystem(**storage_options, asynchronous=True, skip_instance_cache=True)
        await own._pipe_file(f"{branch}/a/x", b"12345")
        await own._pipe({f"{branch}/a/y": b"1", f"{branch}/z": b"2"})
        assert await own._cat_file(f"{branch}/a/x", 1, 3) == b"23"
        assert await own._cat_ranges([f"{branch}/a/x"], [0], [2]) == [b"12"]
        assert await own._find(branch) == [f"{branch}/a/x", f"{branch}/a/y", f"{branch}/z"]
        assert await own._glob(f"{branch}/*/x") == [f"{branch}/a/x"]
        assert [top async for top, _, _ in own._walk(branch)] == [branch, f"{branch}/a"]
        assert (await own._info(f"{branch}/z"))["size"] == 1
        assert await own._exists(f"{branch}/z")
        async with await own.open_async(f"{branch}/w", "wb") as file:
            assert await file.write(b"async") == 5
        async with await own.open_async(f"{branch}/w") as file:
            file.seek(1)
            assert (await file.read(), file.tell()) == (b"sync", 5)
        await own._rm(branch + "/a", recursive=True)
        assert await own._ls(branch, detail=False) == [f"{branch}/w", f"{branch}/z"]

    asyncio.run(work())
    assert fs.ls(branch, detail=False) == [f"{branch}/w", f"{branch}/z"]


def test_a_url_for_anyone_where_the_store_has_them(fs: GravelerFileSystem, branch: str) -> None:
    import urllib3

    fs.pipe_file(f"{branch}/x", b"12345")
    if str(fs.storage_options["lake"]).startswith("/"):
        with pytest.raises(OSError, match="URL"):
            fs.sign(f"{branch}/x")
        return
    with urllib3.PoolManager() as pool:
        assert pool.request("GET", fs.sign(f"{branch}/x", 60)).data == b"12345"


def test_native_places_are_of_one_commit(fs: GravelerFileSystem, branch: str) -> None:
    fs.pipe({f"{branch}/t/{n}.csv": str(n).encode() for n in range(3)})
    branch_of(fs, branch).commit("Three")
    fs.pipe_file(f"{branch}/t/9.csv", b"not committed")
    found = fs.native(f"{branch}/t/*.csv")
    assert len(found) == 3

    def unsigned(urls: list[str]) -> list[str]:
        return [url.partition("?")[0] for url in urls]  # a signature tells the second in which it was made

    assert unsigned(fs.native([f"{branch}/t/1.csv", f"graveler://{branch}/t"])) == unsigned([found[1], *found])
    assert unsigned(fs.native(f"{branch}/t")) == unsigned(found)
    with pytest.raises(FileNotFoundError):
        fs.native(f"{branch}/t/*.parquet")
    with pytest.raises(FileNotFoundError):
        fs.native(f"{branch}/t/9.csv")
    if str(fs.storage_options["lake"]).startswith("/"):
        assert [Path(path).read_text() for path in found] == ["0", "1", "2"]
    else:
        scheme = "s3://" if str(fs.storage_options["lake"]).startswith("dynamodb") else "http://"
        assert all(one.startswith(scheme) for one in found)


@pytest.mark.parametrize("codec", ["gzip", "bz2", "xz", "zip"])
def test_a_compressed_object_is_written_as_a_whole_or_never(folder_options: dict[str, Any], codec: str) -> None:
    branch = f"{new_repository(folder_options)}/main"
    fs = GravelerFileSystem(**folder_options, skip_instance_cache=True)
    path = f"{branch}/x.{codec}"
    with fs.open(path, "wb", compression=codec) as file:
        assert (file.write(b"a,b\n"), file.write(memoryview(b"1,2\n")), file.tell()) == (4, 4, 8)
        assert not fs.exists(path)
    with fs.open(path, compression=codec) as file:
        assert file.read() == b"a,b\n1,2\n"
    assert fs.cat(path) != b"a,b\n1,2\n"
    text = fs.open(f"{branch}/y", "w", compression=codec, encoding="latin-1", newline="\r\n")
    text.write("é\n")
    text.close()
    with fs.open(f"{branch}/y", compression=codec) as file:
        assert file.read() == b"\xe9\r\n"
    for mode, data in (("wb", b"half"), ("wt", "half")):
        with pytest.raises(KeyError), fs.open(f"{branch}/z", mode, compression=codec) as file:  # noqa: PT012
            file.write(data)
            raise KeyError
    with pytest.warns(ResourceWarning, match="never closed"):
        fs.open(f"{branch}/z", "wb", compression=codec).write(b"half")
    branch_of(fs, branch).commit("Two")
    with pytest.raises(ValueError, match="still open"), fs.transaction:  # noqa: PT012
        late = fs.open(f"{branch}/late", "wb", compression=codec)
        late.write(b"half")
    with pytest.raises(ValueError, match="is closed"):
        late.write(b"more")
    late.close()
    assert fs.find(branch) == [path, f"{branch}/y"]


def test_a_compressor_that_closes_its_file_uploads_no_half(folder_options: dict[str, Any]) -> None:
    branch = f"{new_repository(folder_options)}/main"
    fs = GravelerFileSystem(**folder_options, skip_instance_cache=True)
    with fs.open(f"{branch}/a.zst", "wb", compression="infer") as file:
        file.write(b"whole")
    with fs.open(f"{branch}/a.zst", compression="infer") as file:
        assert file.read() == b"whole"
    with pytest.raises(KeyError), fs.open(f"{branch}/b.zst", "wb", compression="infer") as file:  # noqa: PT012
        file.write(b"half")
        raise KeyError
    with fs.open(f"{branch}/c.csv", "wb", compression="infer") as file:
        file.write(b"plain")
    assert fs.find(branch) == [f"{branch}/a.zst", f"{branch}/c.csv"]
    assert fs.cat(f"{branch}/c.csv") == b"plain"


def test_a_move_onto_what_moves_changes_nothing(fs: GravelerFileSystem, branch: str) -> None:
    fs.pipe({f"{branch}/g/x": b"1", f"{branch}/g/y": b"2", f"{branch}/g/s/z": b"3"})
    before = fs.cat(fs.find(branch))
    g = f"{branch}/g"
    for source, target, recursive in (
        (g, g, True),
        (f"{g}/", f"{g}/", True),
        (g, f"{g}/s", True),
        (g, f"{g}/new", True),
        (f"{g}/x", f"{g}/x", False),
        (f"{g}/x", f"{g}/", False),
        (f"{g}/x", g, False),
        (f"{g}/*", f"{g}/", False),
        (f"{g}/*", g, True),
        ([f"{g}/x", f"{g}/y"], g, False),
        ([f"{g}/x", f"{g}/y"], [f"{g}/y", f"{g}/n"], False),
    ):
        with pytest.raises(ValueError, match="cannot move"):
            fs.mv(source, target, recursive=recursive)
        assert fs.cat(fs.find(branch)) == before
    with pytest.raises(IsADirectoryError):
        fs.mv(g, f"{branch}/h")
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{branch}/none", f"{branch}/h")
    fs.mv([f"{g}/x", f"{g}/y"], [f"{branch}/1", f"{branch}/2"])
    fs.mv(g, f"{branch}/h", recursive=True)
    assert fs.find(branch) == [f"{branch}/1", f"{branch}/2", f"{branch}/h/s/z"]


def test_a_move_deletes_only_what_it_copied(
    fs: GravelerFileSystem, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs.pipe({f"{branch}/g/x": b"1", f"{branch}/g/y": b"2"})
    copy = fs._copies.copy

    def another_writes(*arguments: Any, **options: Any) -> None:
        copy(*arguments, **options)
        branch_of(fs, branch).object("g/late").upload("late")

    monkeypatch.setattr(fs._copies, "copy", another_writes)
    fs.mv(f"{branch}/g", f"{branch}/h", recursive=True)
    assert fs.find(branch) == [f"{branch}/g/late", f"{branch}/h/x", f"{branch}/h/y"]


def test_one_file_is_deleted_by_its_name_and_not_by_a_pattern(fs: GravelerFileSystem, branch: str) -> None:
    fs.pipe({f"{branch}/1.csv": b"", f"{branch}/[1].csv": b""})
    fs.rm_file(f"{branch}/[1].csv")
    assert fs.find(branch) == [f"{branch}/1.csv"]
    with pytest.raises(FileNotFoundError):
        fs.rm_file(f"{branch}/[1].csv")


def test_folders_without_a_name_and_markers_of_folders(fs: GravelerFileSystem, branch: str) -> None:
    for path in ("m//k", "/top", "mark/", "mark/deep/", "n"):
        branch_of(fs, branch).object(path).upload("1")
    assert fs.ls(branch, detail=False) == [f"{branch}/m", f"{branch}/mark", f"{branch}/n"]
    assert (fs.ls(f"{branch}/m"), fs.ls(f"{branch}/mark", detail=False)) == ([], [f"{branch}/mark/deep"])
    assert fs.ls(f"{branch}/mark/deep") == []
    assert [top for top, _, _ in fs.walk(branch, on_error="raise")] == [
        branch, f"{branch}/", f"{branch}/m", f"{branch}/m/", f"{branch}/mark", f"{branch}/mark/deep",
    ]  # fmt: skip
    assert fs.find(branch) == [f"{branch}//top", f"{branch}/m//k", f"{branch}/n"]
    assert fs.cat_file(f"{branch}//top") == fs.cat_file(f"{branch}/m//k") == b"1"
    fs.rm([f"{branch}/mark", f"{branch}/m"], recursive=True)
    assert not fs.exists(f"{branch}/mark")
    assert not fs.exists(f"{branch}/m")


def test_nothing_exists_at_what_is_no_path(fs: GravelerFileSystem, branch: str) -> None:
    repository = branch.removesuffix("/main")
    for path in (f"{branch}/{'x' * 2000}", f"{repository}/ma in/x", f"{repository}/main~x/y", f"{branch}/\udcff"):
        assert [fs.exists(path), fs.isfile(path), fs.isdir(path)] == [False] * 3
        with pytest.raises(ValueError, match=r"path|ref|surrogates"):
            fs.info(path)


def test_parts_of_more_objects_than_a_process_may_open(folder_options: dict[str, Any]) -> None:
    branch = f"{new_repository(folder_options)}/main"
    script = f"""
import resource
import numpy
from graveler.filesystem.filesystem import GravelerFileSystem
fs = GravelerFileSystem(**{folder_options!r})
paths = [f"{branch}/{{n}}" for n in range(300)]
fs.pipe(dict.fromkeys(paths, b"0123456789"))
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
assert fs.cat_ranges(paths, numpy.int64(1), None, on_error="raise") == [b"123456789"] * 300
assert fs.cat_ranges(paths, numpy.arange(300) % 9, numpy.int64(9)) == [b"0123456789"[n % 9:9] for n in range(300)]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


NAMES = [
    "a b", " lead", "trail ", "100%", "a%20b", "%2F", "h#sh", "q?x", "{y}", "[x]", "star*", "ünï", "e\u0301", "🦆", "..", ".",
    "a/../b", "a/./b", "a//b", "new\nline", "tab\t", "back\\slash", "~", "@", "main~1", "-", "a:b", "s3://x", "graveler://z",
]  # fmt: skip


def test_any_name_stands_for_itself(fs: GravelerFileSystem, branch: str) -> None:
    paths = [f"{branch}/n/{name}" for name in NAMES]
    for path in paths:
        fs.pipe_file(path, path.encode())
    assert fs.find(f"{branch}/n") == sorted(paths)
    for path in paths:
        assert fs.info(path)["name"] == path
        assert fs.cat_file(path) == path.encode()
        with fs.open(f"graveler://{path}") as file:
            assert file.read() == path.encode()
    assert fs.cat_ranges(paths, 0, None) == [path.encode() for path in paths]
    fs.cp_file(paths[0], f"{paths[3]}-copy")
    assert fs.cat_file(f"{paths[3]}-copy") == paths[0].encode()
    for path in paths:
        fs.rm_file(path)
    assert fs.find(f"{branch}/n") == [f"{paths[3]}-copy"]


def test_an_empty_object_is_read_like_any_other(fs: GravelerFileSystem, branch: str, tmp_path: Path) -> None:
    path = f"{branch}/empty"
    fs.touch(path)
    for start, end in ((None, None), (0, 0), (0, 10), (-5, None), (5, 2), (None, -1), (3, None)):
        assert fs.cat_file(path, start, end) == b""
        assert fs.cat_ranges([path], [start], [end], on_error="raise") == [b""]
    with fs.open(path) as file:
        assert (file.read(), file.read(5), file.seek(0, 2), file.readline(), list(file)) == (b"", b"", 0, b"", [])
    fs.get_file(path, str(tmp_path / "empty"))
    assert (tmp_path / "empty").read_bytes() == fs.head(path) == fs.tail(path) == b""
    assert (fs.info(path)["size"], fs.du(branch)) == (0, 0)


def test_what_is_no_text_and_no_bytes_is_refused(fs: GravelerFileSystem, branch: str) -> None:
    wrong: Any
    for wrong in ({"metadata": {"rows": 5}}, {"content_type": 5}):
        with pytest.raises((ValueError, TypeError)):
            fs.pipe_file(f"{branch}/x", b"", **wrong)
        file = fs.open(f"{branch}/x", "wb", **wrong)
        with pytest.raises((ValueError, TypeError)):
            file.close()
    for wrong in (5, "text", None, [1]):
        with pytest.raises(TypeError):
            fs.pipe_file(f"{branch}/x", wrong)
    fs.pipe({f"{branch}/a": bytearray(b"1"), f"{branch}/b": memoryview(b"22")})
    assert fs.cat(fs.find(branch)) == {f"{branch}/a": b"1", f"{branch}/b": b"22"}


def test_a_whole_ref_has_places(fs: GravelerFileSystem, branch: str) -> None:
    fs.pipe({f"{branch}/{name}": b"1" for name in ("a", "b/c")})
    assert [name for name, _ in fs.places(branch)] == [f"{branch}/a", f"{branch}/b/c"]
    branch_of(fs, branch).commit("Two")
    assert len(fs.native(branch)) == len(fs.native(f"graveler://{branch}/")) == 2


def test_a_repository_that_was_made_again_is_the_new_one(
    fs: GravelerFileSystem, branch: str, storage_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = branch.removesuffix("/main")
    fs.pipe_file(f"{branch}/old", b"old")
    other = GravelerFileSystem(**storage_options, skip_instance_cache=True)
    lake = other.opened.lake
    lake.repository(repository).delete()
    with pytest.raises(FileNotFoundError):
        fs.pipe_file(f"{branch}/lost", b"")
    for look in (fs.find, fs.info):
        with pytest.raises(FileNotFoundError):
            look(branch)
    assert not fs.exists(f"{branch}/old")
    lake.repository(repository).create(f"{lake.verbs.home}{repository}-again")
    other.pipe_file(f"{branch}/new", b"new")
    assert (fs.find(branch), fs.cat(f"{branch}/new")) == ([f"{branch}/new"], b"new")
    lake.repository(repository).delete()
    lake.repository(repository).create(f"{lake.verbs.home}{repository}-third")
    monkeypatch.setattr(lakes, "FRESH", -1)  # as a minute later
    assert fs.find(branch) == []
    other.opened.close()


def test_slashes_around_a_path_do_not_matter(fs: GravelerFileSystem, branch: str) -> None:
    repository = branch.removesuffix("/main")
    name = f"{branch}/a/b.txt"
    fs.pipe_file(f"/{branch}/a/b.txt", b"1")
    fs.pipe_file(f"{branch}//c", b"2")  # a folder without a name
    for form in (name, f"/{name}", f"//{name}", f"graveler:///{name}", f"graveler://{name}/", f"/{name}/"):
        assert fs.info(form)["name"] == name
        assert (fs.cat_file(form), fs.find(form), fs.isfile(form)) == (b"1", [name], True)
        assert fs.open(form).read() == b"1"
    assert fs.ls(f"/{repository}", detail=False) == [branch]
    assert fs.glob(f"/{branch}/a/*.txt") == fs.expand_path(f"/{branch}/a/*.txt") == [name]
    assert fs.cat([f"/{name}", f"{branch}//c"]) == {name: b"1", f"{branch}//c": b"2"}
    assert fs._strip_protocol([f"/{name}", "graveler:///"]) == [name, ""]
    fs.mv(f"/{name}", f"/{branch}/d")
    fs.rm(f"/{branch}/d")
    assert fs.find(f"/{branch}") == [f"{branch}//c"]


def test_a_writer_cannot_be_pickled_and_says_so(fs: GravelerFileSystem, branch: str) -> None:
    writer = fs.open(f"{branch}/x", "wb")
    with pytest.raises(TypeError, match=r"writer of .*/main/x' cannot be pickled"):
        pickle.dumps(writer)
    writer.discard()
