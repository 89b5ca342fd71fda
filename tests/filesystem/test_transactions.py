"""Transactions: one commit or nothing."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from fsspec.callbacks import Callback

from graveler.errors import DirtyBranchError, InvalidError, MergeConflictError
from graveler.filesystem.filesystem import GravelerFileSystem
from tests.filesystem.conftest import new_repository
from tests.filesystem.test_filesystem import branch_of


def messages(fs: GravelerFileSystem, branch: str) -> list[str]:
    return [commit.message for commit in branch_of(fs, branch).log(first_parent=True)]


def test_what_is_missing_is_missing_on_the_named_branch(fs: GravelerFileSystem, branch: str, tmp_path: Path) -> None:
    missing = f"{branch}/none"
    noted: list[str] = []
    fs._resolver.on_error = lambda error: noted.append(str(error))
    with fs.transaction:
        fs.pipe_file(f"{branch}/x", b"1")
        reads: list[Callable[[], object]] = [
            lambda: fs.cat_file(missing),
            lambda: fs.ls(missing),
            lambda: fs.open(missing),
            lambda: fs.sign(missing),
            lambda: fs.get_file(missing, tmp_path / "none"),
            lambda: fs.cp_file(missing, f"{branch}/y"),
            lambda: fs.rm_file(missing),
        ]
        for read in reads:
            with pytest.raises(FileNotFoundError, match="object 'none' does not exist in 'main'"):
                read()
    assert len(noted) >= len(reads)
    assert {*noted} == {"object 'none' does not exist in 'main'"}


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
    with pytest.raises(InvalidError, match="has ended"), transaction.changing(*branch.split("/")):
        pass


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


def test_transactions_of_two_threads_do_not_mix(fs: GravelerFileSystem, branch: str) -> None:
    step = Barrier(2, timeout=60)

    def work(name: str) -> list[str]:
        step.wait()
        with fs.transaction as transaction:
            step.wait()
            transaction.message = name
            fs.pipe_file(f"{branch}/{name}", b"")
            step.wait()
            with fs.open(f"{branch}/{name}-2", "w") as file:
                step.wait()
                file.write(name)
            found = list(fs.find(branch))
            step.wait()
            if name == "failing":
                raise KeyError
        return found

    with ThreadPoolExecutor(2) as pool:
        first = [pool.submit(work, name) for name in ("ada", "bob")]
        assert [each.result() for each in first] == [[f"{branch}/{n}", f"{branch}/{n}-2"] for n in ("ada", "bob")]
        assert sorted(messages(fs, branch)) == [
            "Merge transaction: ada", "Merge transaction: bob", "Repository created",
        ]  # fmt: skip
        second = [pool.submit(work, name) for name in ("carol", "failing")]
        second[0].result()
        with pytest.raises(KeyError):
            second[1].result()
    assert fs.find(branch) == [f"{branch}/{n}" for n in ("ada", "ada-2", "bob", "bob-2", "carol", "carol-2")]
    assert not list(branch_of(fs, branch).uncommitted())
    repository = fs.opened.repository(branch.removesuffix("/main"))
    assert [one.id for one in repository.branches(show_hidden=True)] == ["main"]


def test_a_thread_that_began_none_of_several_transactions_is_refused(fs: GravelerFileSystem, branch: str) -> None:
    both, looked = Barrier(3, timeout=60), Barrier(3, timeout=60)
    fs.pipe_file(f"{branch}/before", b"")
    branch_of(fs, branch).commit("One")

    def work(name: str) -> None:
        with fs.transaction:
            fs.pipe_file(f"{branch}/{name}", b"")
            both.wait()
            looked.wait()

    with ThreadPoolExecutor(2) as pool:
        working = [pool.submit(work, name) for name in "ab"]
        both.wait()
        for write in (
            lambda: fs.pipe_file(f"{branch}/c", b""),
            lambda: fs.open(f"{branch}/c", "wb"),
            lambda: fs.rm(f"{branch}@/before"),
            fs.end_transaction,
            lambda: fs.find(branch),
        ):
            with pytest.raises(ValueError, match="began none of them"):
                write()
        assert fs.find(f"{branch}@") == [f"{branch}@/before"]
        looked.wait()
        for each in working:
            each.result()
    assert fs.find(branch) == [f"{branch}/{name}" for name in ("a", "b", "before")]


def test_tasks_of_one_event_loop_have_transactions_of_their_own(fs: GravelerFileSystem, branch: str) -> None:
    async def work(name: str, begun: list[str], all_begun: asyncio.Event) -> list[str]:
        with fs.transaction as transaction:
            transaction.message = name
            begun.append(name)
            if len(begun) == 2:
                all_begun.set()
            await all_begun.wait()
            await fs._pipe_file(f"{branch}/{name}", b"")
            return list(await fs._find(branch))

    async def both() -> list[list[str]]:
        begun: list[str] = []
        all_begun = asyncio.Event()
        return await asyncio.gather(*(work(name, begun, all_begun) for name in "ab"))

    assert asyncio.run(both()) == [[f"{branch}/a"], [f"{branch}/b"]]
    assert sorted(messages(fs, branch)) == ["Merge transaction: a", "Merge transaction: b", "Repository created"]


def test_a_thread_that_is_still_writing_at_the_end_writes_nothing(
    fs: GravelerFileSystem, branch: str, tmp_path: Path
) -> None:
    writing, ended = Event(), Event()
    (tmp_path / "local").write_bytes(b"1")

    class Waiting(Callback):  # type: ignore[misc]  # fsspec has no types
        def relative_update(self, inc: int = 1) -> None:
            writing.set()
            assert ended.wait(60)

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="still writing"), fs.transaction:  # noqa: PT012
            fs.pipe_file(f"{branch}/a", b"")
            late = pool.submit(fs.put_file, str(tmp_path / "local"), f"{branch}/b", callback=Waiting())
            assert writing.wait(60)
        ended.set()
        with pytest.raises((FileNotFoundError, ValueError)):
            late.result()
    assert fs.find(branch) == []
    assert messages(fs, branch) == ["Repository created"]


def test_a_file_belongs_to_the_transaction_in_which_it_was_opened(fs: GravelerFileSystem, branch: str) -> None:
    before = fs.open(f"{branch}/before", "wb")
    with fs.transaction:
        inside = fs.open(f"{branch}/inside", "wb")
        inside.close()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(fs.pipe_file, f"{branch}/other-thread", b"").result()
    before.close()
    assert [change.path for change in branch_of(fs, branch).uncommitted()] == ["before"]
    branch_of(fs, branch).commit("Before")
    assert fs.find(branch) == [f"{branch}/{name}" for name in ("before", "inside", "other-thread")]


def test_a_message_may_be_set_beforehand(fs: GravelerFileSystem, branch: str) -> None:
    fs.transaction.message = "Beforehand"
    with fs.transaction:
        fs.pipe_file(f"{branch}/a", b"")
    with fs.transaction:
        fs.pipe_file(f"{branch}/b", b"")
    assert messages(fs, branch)[:2] == [
        "Merge transaction: Write files in a transaction", "Merge transaction: Beforehand",
    ]  # fmt: skip
