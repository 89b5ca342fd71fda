"""What may not be written is refused when it is opened, before the caller writes gigabytes, and at no request more."""

from collections.abc import Callable
from typing import Any

import pytest

from graveler.access.permissions import Role
from graveler.errors import ProtectedBranchError
from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.remote.access_keys import RemoteKeys
from graveler.remote.repository import RemoteRepository
from tests.filesystem.test_filesystem import branch_of
from tests.sdk.conftest import CountedLake
from tests.support.shell import Shell


def test_a_file_that_may_not_be_written_does_not_open(fs: GravelerFileSystem, branch: str) -> None:
    repository = branch.removesuffix("/main")
    fs.pipe_file(f"{branch}/x", b"1")
    head = branch_of(fs, branch).commit("One").id
    fs.opened.repository(repository).tag("v1").create("main")
    fs.opened.verbs(repository).protect(["main"])
    writes: list[Callable[[str], object]] = [
        *(lambda path, mode=mode: fs.open(path, mode) for mode in ("wb", "w", "xb", "x")),
        lambda path: fs.open(path, "wb", compression="gzip"),
        lambda path: fs.pipe_file(path, b""),
        lambda path: fs.cp_file(f"{branch}/x", path),
        fs.touch,
    ]
    for write in writes:
        for ref in ("main", "v1", "main~0", head):
            with pytest.raises(PermissionError):
                write(f"{repository}/{ref}/y")
        with pytest.raises(FileNotFoundError):
            write(f"{repository}/none/y")
        with pytest.raises(FileNotFoundError):
            write("none-such/main/y")
    for delete in (fs.rm_file, fs.rm, lambda path: fs.mv(path, f"{path}-moved")):
        for ref in ("main", "v1", "main~0", head):
            with pytest.raises(PermissionError):
                delete(f"{repository}/{ref}/x")
    with pytest.raises(PermissionError, match="protected") as raised:
        fs.open(f"{branch}/y", "wb")
    assert isinstance(raised.value.__cause__, ProtectedBranchError)
    with pytest.raises(PermissionError, match="'v1' is not a branch"):
        fs.open(f"{repository}/v1/y", "wb")
    assert fs.find(branch) == [f"{branch}/x"]


def test_a_protected_branch_takes_a_transaction(fs: GravelerFileSystem, branch: str) -> None:
    repository = branch.removesuffix("/main")
    fs.opened.verbs(repository).protect(["main"])
    with fs.transaction, fs.open(f"{branch}/x", "wb") as file:
        file.write(b"1")
    assert fs.cat(f"{branch}/x") == b"1"
    fs.opened.repository(repository).tag("v1").create("main")
    for ref, error in (("v1", PermissionError), ("none", FileNotFoundError)):
        with pytest.raises(error), fs.transaction:
            fs.open(f"{repository}/{ref}/y", "wb")


def test_a_key_that_may_only_read_opens_no_file_for_writing(served_options: dict[str, Any], shell: Shell) -> None:
    fs = GravelerFileSystem(**served_options, skip_instance_cache=True)
    fs.opened.repository("readable").create()
    verbs = fs.opened.verbs("readable")
    assert isinstance(verbs, RemoteRepository)
    keys = RemoteKeys(verbs.connection)
    made = [keys.create_key("bob", Role.READER), keys.create_key("bob", Role.WRITER, (), ("bobs-*",))]
    fs.opened.repository("readable").branch("bobs-own").create("main")
    for each, its_own in zip(made, (False, True), strict=True):
        shell.export("GRAVELER_ACCESS_KEY_ID", each.key.key_id)
        shell.export("GRAVELER_SECRET_ACCESS_KEY", each.secret)
        limited = GravelerFileSystem(**served_options, skip_instance_cache=True)
        with pytest.raises(PermissionError):
            limited.open("readable/main/x", "wb")
        if its_own:
            limited.open("readable/bobs-own/x", "wb").discard()
        else:
            with pytest.raises(PermissionError):
                limited.open("readable/bobs-own/x", "wb")
        limited.opened.close()
    fs.opened.close()


def test_opening_for_writing_costs_one_read_and_writing_no_more_than_the_upload() -> None:
    lake = CountedLake()
    lake.repository("rep").create("mem://rep")
    fs = GravelerFileSystem(lake, skip_instance_cache=True)
    fs.pipe_file("rep/main/before", b"")

    def requests(work: Callable[[], object]) -> int:
        before = lake.requests
        work()
        return lake.requests - before

    upload = requests(lambda: fs.opened.verbs("rep").upload("main", "one", b"1"))
    assert requests(lambda: fs.pipe_file("rep/main/two", b"1")) == upload
    assert requests(lambda: fs.touch("rep/main/three")) == upload
    file = fs.open("rep/main/four", "wb")
    assert requests(file.close) == upload
    assert requests(lambda: fs.open("rep/main/five", "wb").discard()) == 1
    with pytest.raises(FileNotFoundError):
        fs.open("rep/none/six", "wb")
