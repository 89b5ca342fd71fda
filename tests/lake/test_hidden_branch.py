"""The hidden branch of a transaction: its lease is renewed as long as its process is at work, and no longer."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from graveler.errors import InvalidError, RefNotFoundError
from graveler.history.owners import Owners
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.refs.hidden_branch import hidden_branch, lease_kept
from graveler.requests.base import Request
from tests.lake.support import World
from tests.support.instruments import Fault
from tests.support.patience import PATIENCE


@pytest.fixture
def world() -> World:
    return World()


def owners(world: World) -> Owners:
    return Owners(world.tables, world.main.repository.uid)


def branches(world: World) -> list[str]:
    return [branch.name for branch in world.main.branches(show_hidden=True).results]


@pytest.mark.parametrize("fault", [None, "refuse", "fail_before", "fail_after"])
def test_a_lease_is_renewed_until_the_block_ends_whatever_fails_meanwhile(world: World, fault: Fault) -> None:
    renewed = threading.Semaphore(0)

    def schedule(request: str, number: int) -> Fault:
        if request == "tables.put":
            renewed.release()
            return fault if number == 2 else None
        return None

    world.main.create_branch("tx", "main", hidden=True, owner="me")
    first = owners(world).get("tx")
    with lease_kept(world.repository(schedule), "tx", "me", seconds=0.001):
        for _ in range(4):
            renewed.acquire()
    last = owners(world).get("tx")
    assert first is not None
    assert last is not None
    assert (first.owner, last.owner) == ("me", "me")
    assert first.beat != last.beat
    assert "graveler-transaction" not in [thread.name for thread in threading.enumerate()]


def test_who_finds_no_lease_any_more_stops_asking_and_lets_the_block_find_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up, run = threading.Event(), world.main.run

    def run_when_looked_up(request: Request[None]) -> None:
        looked_up.wait(PATIENCE)
        run(request)

    monkeypatch.setattr(world.main, "run", run_when_looked_up)
    with lease_kept(world.main, "gone", "me", seconds=0.001):
        [keeper] = [thread for thread in threading.enumerate() if thread.name == "graveler-transaction"]
        looked_up.set()
        keeper.join()


def test_a_transaction_leaves_neither_branch_nor_lease(world: World) -> None:
    with hidden_branch(world.main, "main", "me") as name:
        assert [lease.branch for lease in owners(world).all()] == [name]
        assert branches(world) == ["main", name]
    assert owners(world).all() == []
    assert branches(world) == ["main"]


def test_a_branch_that_is_kept_is_its_users_and_has_no_lease(world: World) -> None:
    with pytest.raises(ValueError, match="no"), hidden_branch(world.main, "main", "me", keep_on_error=True) as name:
        raise ValueError("no")
    assert owners(world).all() == []
    assert branches(world) == ["main", name]


def test_only_its_owner_renews_a_lease(world: World) -> None:
    world.main.create_branch("tx", "main", hidden=True, owner="me")
    before = owners(world).all()
    with pytest.raises(RefNotFoundError, match="'you' no longer owns"):
        world.main.renew_branch("tx", "you")
    world.main.release_branch("tx", "you")
    assert owners(world).all() == before


@pytest.mark.parametrize(("hidden", "owner"), [(False, "me"), (True, "x" * 201)])
def test_an_owner_that_cannot_be_is_refused(world: World, hidden: bool, owner: str) -> None:
    with pytest.raises(InvalidError):
        world.main.create_branch("tx", "main", hidden=hidden, owner=owner)
    assert branches(world) == ["main"]


FORKED = """
import os, sys
import graveler
with graveler.open(sys.argv[1], user="ada") as lake:
    repository = lake.repository("sales")
    with repository.branch("main").transaction("forked") as tx:
        tx.object("x").upload("x")
        child = os.fork()
        if child == 0:
            sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    print([branch.id for branch in repository.branches(show_hidden=True)], [o.path for o in repository.branch("main").objects()])
"""


def test_a_forked_child_that_ends_leaves_the_transaction_to_its_parent(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path) as lake:
        lake.create_repository("sales", "local://sales")
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout == "['main'] ['x']\n"


LEFT = """
import os, sys
import graveler
from tests.support.children import end_process
with graveler.open(sys.argv[1], user="ada") as lake:
    main = lake.repository("sales").branch("main")
    try:
        with main.transaction("forked") as tx:
            tx.object("x").upload("x")
            child = os.fork()
            if child:
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                print(code, [o.path for o in main.objects()])
                tx.object("y").upload("y")
    except graveler.InvalidError as error:
        assert child == 0 and "forked in a transaction on 'main'" in str(error), error
        end_process(3)
    print([o.path for o in main.objects()], len(list(main.log(first_parent=True))))
"""


def test_a_forked_child_that_leaves_the_block_commits_nothing_of_its_parent(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path) as lake:
        lake.create_repository("sales", "local://sales")
    done = subprocess.run(
        [sys.executable, "-c", LEFT, str(tmp_path)], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.splitlines() == ["3 []", "['x', 'y'] 2"]
