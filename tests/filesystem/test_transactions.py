"""Transactions: one commit or nothing."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from graveler.errors import DirtyBranchError, InvalidError, MergeConflictError
from graveler.filesystem.filesystem import GravelerFileSystem
from tests.filesystem.conftest import new_repository
from tests.filesystem.test_filesystem import branch_of


def messages(fs: GravelerFileSystem, branch: str) -> list[str]:
    return [commit.message for commit in branch_of(fs, branch).log(first_parent=True)]


def test_all_writes_are_one_commit(
    fs: GravelerFileSystem, branch: str, storage_options: dict[str, Any], tmp_path: Any
) -> None:
    other = GravelerFileSystem(**storage_options, skip_instance_cache=True)
    (tmp_path / "local").write_text("local")
    with fs.transaction as transaction:
        transaction.message = "Load"
        fs.pipe_file(f"{branch}/a", b"1")
        with fs.open(f"{branch}/b", "wb") as file:
            file.write(b"2")
        with fs.open(f"{branch}/c", "w") as text:
            text.write("3")
        fs.put_file(str(tmp_path / "local"), f"{branch}/d")
        fs.mv(f"{branch}/a", f"{branch}/e")
        assert fs.cat(f"{branch}/e") == b"1"
        assert other.find(branch) == []
    assert other.find(branch) == [f"{branch}/{name}" for name in "bcde"]
    assert messages(fs, branch) == ["Merge transaction: Load", "Repository created"]
    assert not list(branch_of(fs, branch).uncommitted())
    fs.pipe_file(f"{branch}/after", b"")
    assert fs.exists(f"{branch}/after")


def test_an_exception_leaves_nothing(fs: GravelerFileSystem, branch: str) -> None:
    with pytest.raises(KeyError), fs.transaction:  # noqa: PT012
        fs.pipe_file(f"{branch}/a", b"1")
        raise KeyError
    assert fs.find(branch) == []
    assert messages(fs, branch) == ["Repository created"]
    repository = fs.opened.repository(branch.removesuffix("/main"))
    assert [one.id for one in repository.branches(show_hidden=True)] == ["main"]
    with fs.transaction:
        pass
    with fs.transaction:
        fs.pipe_file(f"{branch}/a", b"1")
    assert fs.find(branch) == [f"{branch}/a"]


def test_a_file_that_is_still_open_ends_it_without_a_commit(fs: GravelerFileSystem, branch: str) -> None:
    with pytest.raises(ValueError, match="still open"), fs.transaction:  # noqa: PT012
        fs.pipe_file(f"{branch}/a", b"1")
        fs.open(f"{branch}/b", "wb").write(b"2")
    assert fs.find(branch) == []


def test_one_transaction_is_of_one_branch(fs: GravelerFileSystem, branch: str, storage_options: dict[str, Any]) -> None:
    other = f"{new_repository(storage_options)}/main"
    fs.pipe_file(f"{other}/x", b"1")
    with pytest.raises(ValueError, match="cannot also write"), fs.transaction:  # noqa: PT012
        fs.pipe_file(f"{branch}/a", fs.cat(f"{other}/x"))
        fs.pipe_file(f"{other}/a", b"1")
    assert (fs.find(branch), fs.find(other)) == ([], [f"{other}/x"])


def test_what_another_wrote_meanwhile_is_kept(fs: GravelerFileSystem, branch: str) -> None:
    fs.pipe({f"{branch}/a": b"0", f"{branch}/b": b"0"})
    branch_of(fs, branch).commit("Two")
    with fs.transaction:
        fs.pipe_file(f"{branch}/a", b"mine")
        branch_of(fs, branch).object("b").upload("theirs")
        branch_of(fs, branch).commit("Theirs")
    assert fs.cat(f"{branch}/*") == {f"{branch}/a": b"mine", f"{branch}/b": b"theirs"}
    with pytest.raises(MergeConflictError), fs.transaction:  # noqa: PT012
        fs.pipe_file(f"{branch}/a", b"mine again")
        branch_of(fs, branch).object("a").upload("theirs")
        branch_of(fs, branch).commit("Theirs")
    assert fs.cat(f"{branch}/a") == b"theirs"


def test_a_branch_with_uncommitted_changes_is_refused(fs: GravelerFileSystem, branch: str) -> None:
    fs.pipe_file(f"{branch}/a", b"1")
    with pytest.raises(DirtyBranchError), fs.transaction:
        fs.pipe_file(f"{branch}/b", b"1")
    assert fs.find(branch) == [f"{branch}/a"]


def test_a_second_transaction_does_not_end_the_first(fs: GravelerFileSystem, branch: str) -> None:
    def inner() -> None:
        with fs.transaction:
            fs.pipe_file(f"{branch}/inner", b"")

    with pytest.raises(ValueError, match="has a transaction already"), fs.transaction:  # noqa: PT012
        fs.pipe_file(f"{branch}/outer", b"")
        inner()
    assert fs.find(branch) == []
    fs.start_transaction()
    fs.pipe_file(f"{branch}/a", b"")
    with pytest.raises(ValueError, match="has a transaction already"):
        fs.start_transaction()
    fs.pipe_file(f"{branch}/b", b"")
    fs.end_transaction()
    fs.end_transaction()
    assert fs.find(branch) == [f"{branch}/a", f"{branch}/b"]
    assert messages(fs, branch) == ["Merge transaction: Write files in a transaction", "Repository created"]
    repository = fs.opened.repository(branch.removesuffix("/main"))
    assert [one.id for one in repository.branches(show_hidden=True)] == ["main"]


def test_a_transaction_can_begin_again(fs: GravelerFileSystem, branch: str) -> None:
    transaction = fs.transaction
    with transaction:
        fs.pipe_file(f"{branch}/a", b"")
    with pytest.raises(KeyError), transaction:  # noqa: PT012
        fs.pipe_file(f"{branch}/b", b"")
        raise KeyError
    assert fs.find(branch) == [f"{branch}/a"]
    with pytest.raises(InvalidError, match="has ended"):
        transaction.writing(*branch.split("/"))


def test_threads_share_a_transaction(fs: GravelerFileSystem, branch: str) -> None:
    paths = [f"{branch}/{n:02}" for n in range(16)]
    together = Barrier(len(paths), timeout=60)

    def write(path: str) -> None:
        together.wait()
        fs.pipe_file(path, b"")

    with fs.transaction, ThreadPoolExecutor(len(paths)) as pool:
        list(pool.map(write, paths))
    assert fs.find(branch) == paths
    assert messages(fs, branch) == ["Merge transaction: Write files in a transaction", "Repository created"]


def test_of_two_threads_that_begin_at_once_one_is_refused(fs: GravelerFileSystem, branch: str) -> None:
    together, both = Barrier(2, timeout=60), Barrier(2, timeout=60)

    def work(path: str) -> str:
        together.wait()
        try:
            with fs.transaction:
                both.wait()
                fs.pipe_file(path, b"")
        except ValueError:
            both.wait()
            return ""
        return path

    with ThreadPoolExecutor(2) as pool:
        written = list(pool.map(work, (f"{branch}/a", f"{branch}/b")))
    assert written.count("") == 1
    assert fs.find(branch) == [path for path in written if path]
    assert not list(branch_of(fs, branch).uncommitted())
