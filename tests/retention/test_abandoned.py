"""A transaction whose process was killed: the collector deletes its hidden branch. One that lives keeps it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.errors import RefNotFoundError
from graveler.history.owners import LEASE, RENEWAL, Owners
from graveler.lake.clock import GRACE
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.retention.abandoned_transactions import Abandoned
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode, Summary
from tests.lake.support import DieAt, Died, FakeClock, World
from tests.retention.support import AGE, check_live, collect, contents, keys, write
from tests.server.support import running
from tests.support.instruments import Fault

HIDDEN = "tx-1"
OWNER = "owner"


@pytest.fixture
def world() -> World:
    made = World()
    write(made.main, "main", a="a")
    return made


def begin(world: World, name: str = HIDDEN) -> None:
    """What a transaction has done when it is killed."""
    world.main.create_branch(name, "main", hidden=True, owner=OWNER)
    write(world.main, name, committed="committed by the transaction")
    world.main.upload(name, "staged", b"staged by the transaction")


def names(repository: OpenRepository) -> list[str]:
    return [branch.name for branch in repository.branches(show_hidden=True).results]


def leases(world: World) -> list[str]:
    return [lease.branch for lease in Owners(world.tables, world.main.repository.uid).all()]


def abandoned(world: World) -> Abandoned:
    return Abandoned(world.main.repository, world.tables, world.clock, GRACE)


def silent(_done: int, _total: int) -> None:
    """Told, and does nothing about it."""


def test_the_branch_of_a_transaction_that_gives_no_sign_goes_and_later_what_it_held(world: World) -> None:
    before = keys(world, "")
    begin(world)
    summary = collect(world)
    assert summary.transactions == 1
    assert LEASE <= world.clock.slept <= LEASE + RENEWAL
    assert names(world.main) == ["main"]
    assert leases(world) == []
    for _ in range(4):
        world.clock.time += AGE
        assert collect(world).transactions == 0
    assert {key for key in keys(world, "") if not key.startswith("_graveler/gc/")} == before
    check_live(world)


def test_where_no_transaction_is_nothing_is_waited_for(world: World) -> None:
    world.main.create_branch("made-by-hand", "main", hidden=True)
    collect(world)
    assert world.clock.slept == 0


@pytest.mark.parametrize("off", [0, 86_400, -86_400], ids=["right", "a day ahead", "a day behind"])
def test_a_transaction_that_renews_keeps_its_branch_whatever_its_clock_says(world: World, off: float) -> None:
    clock = FakeClock(world.clock.time + off)
    mine = Lake(world.tables, world.objects, clock=clock).repository(world.main.repository.name)
    mine.create_branch(HIDDEN, "main", hidden=True, owner=OWNER)
    mine.upload(HIDDEN, "staged", b"staged by the transaction")
    renewed = world.clock.monotonic()

    def live() -> None:
        nonlocal renewed
        if world.clock.monotonic() - renewed >= RENEWAL:
            renewed = world.clock.monotonic()
            mine.renew_branch(HIDDEN, OWNER)

    world.clock.on_sleep = live
    for _ in range(3):
        assert collect(world).transactions == 0
        world.clock.time += AGE
    assert world.clock.slept < 3 * LEASE, "a sign of life ends the watch"
    assert contents(world.main, HIDDEN) == {"a": "a", "staged": "staged by the transaction"}
    assert leases(world) == [HIDDEN]


@pytest.mark.parametrize("alive", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_clocks_that_are_set_meanwhile_neither_end_a_transaction_nor_keep_a_dead_one(
    world: World, seed: int, *, alive: bool
) -> None:
    """At each look of the collector, by any amount, to and fro. The owner's clock is another one, which is set as well."""
    random = Random(seed)
    own = FakeClock(world.clock.time)
    mine = Lake(world.tables, world.objects, clock=own).repository(world.main.repository.name)
    mine.create_branch(HIDDEN, "main", hidden=True, owner=OWNER)
    begun = renewed = world.clock.monotonic()
    pause = RENEWAL * random.randrange(1, 9)

    def passes() -> None:
        nonlocal renewed
        for clock in (world.clock, own):
            clock.jump(random.choice([-1, 1]) * random.choice([0.0, 1.0, RENEWAL, LEASE, 1e5, 1e6]))
        if alive and world.clock.monotonic() - renewed >= pause:
            renewed = world.clock.monotonic()
            mine.renew_branch(HIDDEN, OWNER)

    world.clock.on_sleep = passes
    assert abandoned(world).end(silent) == (not alive)
    assert names(world.main) == (["main", HIDDEN] if alive else ["main"])
    took = world.clock.monotonic() - begun
    assert took <= pause + RENEWAL if alive else LEASE <= took <= LEASE + RENEWAL


def test_a_transaction_that_renews_in_the_last_moment_keeps_its_branch(world: World) -> None:
    begin(world)
    [lease] = Owners(world.tables, world.main.repository.uid).all()
    world.main.renew_branch(HIDDEN, OWNER)
    assert not world.main.parts.branches.end(lease)
    assert names(world.main) == ["main", HIDDEN]
    assert leases(world) == [HIDDEN]


def test_a_transaction_that_changes_its_branch_in_the_last_moment_keeps_it(world: World) -> None:
    begin(world)

    def commit_first(request: str, number: int) -> Fault:
        if (request, number) == ("tables.transact", 1):
            world.main.commit(HIDDEN, "in the last moment")
        return None

    [lease] = Owners(world.tables, world.main.repository.uid).all()
    assert not world.repository(commit_first).parts.branches.end(lease)
    assert names(world.main) == ["main", HIDDEN]


def test_two_collectors_at_once_end_a_transaction_once(world: World) -> None:
    begin(world)
    ended: list[int] = []

    def second() -> None:
        world.clock.on_sleep = None
        ended.append(abandoned(world).end(silent))

    world.clock.on_sleep = second
    ended.append(abandoned(world).end(silent))
    assert sorted(ended) == [0, 1]
    assert names(world.main) == ["main"]
    check_live(world)


def test_a_collector_that_was_stopped_watches_anew(world: World) -> None:
    """The machine slept, and the transaction on it as well: neither could do anything about it."""
    begin(world)

    def sleep() -> None:
        world.clock.time += 10 * LEASE
        world.clock.on_sleep = renew

    def renew() -> None:
        world.clock.on_sleep = None
        world.main.renew_branch(HIDDEN, OWNER)

    world.clock.on_sleep = sleep
    assert abandoned(world).end(silent) == 0
    assert names(world.main) == ["main", HIDDEN]


@pytest.mark.parametrize("after", [False, True])
def test_a_collector_that_dies_while_it_ends_a_transaction_leaves_the_lease_with_the_branch(
    world: World, after: bool
) -> None:
    begin(world)
    client = world.repository(DieAt("tables.transact", after=after))
    with pytest.raises(Died):
        Abandoned(client.repository, client.tables, world.clock, GRACE).end(silent)
    assert names(world.main) == (["main"] if after else ["main", HIDDEN])
    assert leases(world) == names(world.main)[1:]
    assert abandoned(world).end(silent) == (0 if after else 1)
    check_live(world)


def test_hidden_branches_without_an_owner_stay_and_are_reported(world: World) -> None:
    world.main.create_branch("made-by-hand", "main", hidden=True)
    begin(world)
    world.main.create_branch("tx-kept", "main", hidden=True, owner=OWNER)
    world.main.release_branch("tx-kept", OWNER)
    for mode in (Mode.DRY_RUN, Mode.DELETE):
        summary = collect(world, mode) if mode is Mode.DELETE else Garbage(world.repository()).plan()
        assert summary.plan.ownerless == 2
        assert summary.plan.ownerless_examples == ("made-by-hand", "tx-kept")
    world.clock.time += AGE
    collect(world)
    assert names(world.main) == ["made-by-hand", "main", "tx-kept"]


def test_a_plan_neither_waits_nor_ends_a_transaction(world: World) -> None:
    begin(world)
    slept = world.clock.slept
    assert Garbage(world.repository()).plan().transactions == 0
    assert world.clock.slept == slept
    assert names(world.main) == ["main", HIDDEN]


def test_a_transaction_that_ends_by_itself_leaves_no_lease(world: World) -> None:
    begin(world)
    world.main.delete_branch(HIDDEN)
    assert leases(world) == []


def test_a_branch_that_its_user_renamed_is_no_transaction_any_more(world: World) -> None:
    begin(world)
    world.main.rename_branch(HIDDEN, "rescued")
    assert leases(world) == []
    assert collect(world).transactions == 0
    assert names(world.main) == ["main", "rescued"]
    with pytest.raises(RefNotFoundError):
        world.main.renew_branch(HIDDEN, OWNER)


def test_a_transaction_whose_renaming_died_as_well_goes(world: World) -> None:
    begin(world)
    client = world.repository(DieAt("tables.transact", 2))
    with pytest.raises(Died):
        client.rename_branch(HIDDEN, "rescued")
    assert collect(world).transactions == 1
    assert names(world.main) == ["main"]
    assert leases(world) == []
    check_live(world)


def test_a_lease_without_its_branch_goes_alone(world: World) -> None:
    """A process of an older version has deleted the branch, and knew of no lease."""
    owners = Owners(world.tables, world.main.repository.uid)
    world.tables.transact([owners.claim_write(name, OWNER) for name in ("gone", "main")])
    assert collect(world).transactions == 0
    assert leases(world) == []
    assert names(world.main) == ["main"]


def test_a_hidden_branch_made_by_hand_takes_no_old_lease_over(world: World) -> None:
    world.tables.transact([Owners(world.tables, world.main.repository.uid).claim_write("mine", OWNER)])
    world.main.create_branch("mine", "main", hidden=True)
    assert leases(world) == []


PROGRAM = """
import sys
import graveler
with graveler.open(sys.argv[1], user="ada") as lake:
    with lake.repository("sales").branch("main").transaction("never") as tx:
        tx.object("x").upload("written by the transaction")
        print(tx.id, flush=True)
        sys.stdin.read()
"""


@contextmanager
def killed(place: str, environment: dict[str, str]) -> Iterator[str]:
    """A transaction in a process, which is killed in the midst of it: its hidden branch."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        hidden = process.stdout.readline().strip()
        assert hidden.startswith("tx-")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    yield hidden


def collect_folder(folder: Path, clock: FakeClock) -> Summary:
    with open_folder_lake(folder, clock=clock) as lake:
        return Garbage(lake.repository("sales"), Options(Mode.DELETE, threads=1, parquet=False)).run()


def is_cleared(folder: Path, hidden: str) -> None:
    """Collectors delete the branch and then what only it held; in the end there is nothing left to do."""
    clock = FakeClock(time.time() + 1)
    with open_folder_lake(folder, clock=clock) as lake:
        repository = lake.repository("sales")
        assert hidden in names(repository)
        [written] = [entry for entry in repository.objects(hidden) if entry.path == "x"]
        key = written.address.removeprefix(f"{repository.repository.namespace}/")
        assert collect_folder(folder, clock).transactions == 1
        assert names(repository) == ["main"]
        assert repository.namespace.head(key).size
        clock.time += AGE
        assert collect_folder(folder, clock).plan.found["object"].files == 1
        assert key not in {stored.key for stored in repository.namespace.list("data/")}
        clock.time += AGE
        last = collect_folder(folder, clock)
        assert (last.transactions, last.plan.found) == (0, {})
        assert not repository.fsck().findings


def test_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("sales", "local://sales")
    with killed(str(tmp_path / "lake"), {}) as hidden:
        is_cleared(tmp_path / "lake", hidden)


def test_what_a_killed_process_left_through_a_server_goes(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("sales", "local://sales")
        made = Access(lake.tables).create_key("ada", Role.ADMIN, (), ())
    environment = {"GRAVELER_ACCESS_KEY_ID": made.key.key_id, "GRAVELER_SECRET_ACCESS_KEY": made.secret}
    with running(tmp_path, workers=1, key=False) as server, killed(server.url, environment) as hidden:
        is_cleared(tmp_path / "lake", hidden)
