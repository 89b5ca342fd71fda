"""Files in the folders of tables are collected when no commit has them, after a grace period of their own; and no commit names
one that a collector may be about to remove."""

from hashlib import sha256
from random import Random

import msgspec
import pytest

from graveler.errors import InvalidError
from graveler.lake.clock import GRACE, TABLE_GRACE
from graveler.lake.deadline import SKEW
from graveler.lake.objects.issued_addresses import NAMESPACES, TableFolders
from graveler.requests.iceberg import TableChange
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.leftovers import Leftovers
from graveler.retention.live_listing import (
    Comparison,
    Horizon,
    Unknown,
    candidates,
    intervals,
)
from graveler.retention.mark_state import STATE
from graveler.retention.marks import write_names
from graveler.retention.runs import Mode
from graveler.retention.space import space
from graveler.storage.objects.memory import MemoryObjects
from graveler.tree.record import base32, data_id, data_path
from tests.lake.iceberg.support import ORDERS, append, appended, keys, metadata, set_property, with_table, write_file
from tests.lake.support import DieAt, World, died
from tests.retention.support import AGE, check_live, collect
from tests.retention.support import keys as stored_keys

TABLE_AGE = TABLE_GRACE + SKEW + 10
"""Seconds after which every file of a table is old."""


def key_of(world: World, location: str) -> str:
    return location.removeprefix(world.main.parts.namespace + "/")


def test_a_file_that_no_commit_has_is_removed_after_the_grace_period_of_tables() -> None:
    world = with_table()
    lost = write_file(world, "data/lost")
    append(world, "data/kept")
    committed = f"{metadata(world)['location']}/data/kept"
    world.clock.time += AGE
    assert collect(world).plan.found == {}
    world.clock.time += TABLE_AGE
    [candidate] = [row for row, _ in Garbage(world.repository()).rows(collect(world, Mode.DRY_RUN).plan.run)]
    assert (candidate.key, candidate.kind.value) == (key_of(world, lost), "file of a table")
    collect(world)
    assert key_of(world, lost) not in stored_keys(world, "tables/")
    assert key_of(world, committed) in stored_keys(world, "tables/")
    check_live(world)


def test_the_files_of_a_dropped_table_go_when_no_commit_has_them() -> None:
    world = with_table()
    world.main.create_branch("dev", "main")
    set_property(world, "a", "b", "dev")
    world.main.delete_branch("dev")
    before = stored_keys(world, "tables/")
    for _ in range(3):
        world.clock.time += TABLE_AGE
        collect(world)
    assert len(before - stored_keys(world, "tables/")) == 1
    assert metadata(world)
    check_live(world)


def test_folders_that_the_repository_did_not_make_are_kept() -> None:
    world = with_table()
    other = f"tables/{base32(1, 20)}/{base32(2, 20)}/data/a"
    folder = key_of(world, metadata(world)["location"])
    forged = folder[:-1] + ("1" if folder.endswith("0") else "0")
    for key in (other, "tables/readme", f"{forged}/a", "zzz"):
        world.objects().put(key, b"a")
    world.clock.time += TABLE_AGE
    plan = collect(world).plan
    assert (plan.found, plan.unknown.files) == ({}, 4)
    assert other in plan.unknown_examples
    assert NAMESPACES not in plan.unknown_examples
    assert NAMESPACES in stored_keys(world, "tables/")


def test_unfinished_uploads_of_tables_end_after_the_grace_period_of_tables() -> None:
    world = with_table()
    key = key_of(world, f"{metadata(world)['location']}/data/large")
    world.objects().create_multipart(key)
    world.clock.time += AGE
    assert collect(world).plan.found == {}
    world.clock.time += TABLE_AGE
    assert list(collect(world).plan.found) == ["unfinished upload"]


def test_a_commit_refuses_an_old_file_that_no_branch_has() -> None:
    world = with_table()
    write_file(world, "data/old")
    append(world, "data/a")
    world.clock.time += TABLE_GRACE / 2 - 1
    set_property(world, "a", "b")  # the metadata files of earlier states are old, and the branch has them
    change = appended(world.main.parts, metadata(world), "data/old")
    world.clock.time += 2
    with pytest.raises(InvalidError, match=r"data/old.* 3\.5 days old"):
        world.main.commit_tables("main", tables=(change,))
    world.clock.time += TABLE_AGE
    append(world, "data/b")
    check_live(world)


def test_a_merge_takes_old_files_over_from_its_source() -> None:
    world = with_table()
    world.main.create_branch("dev", "main")
    append(world, "data/a", branch="dev")
    append(world, "data/b")
    world.clock.time += TABLE_AGE
    world.main.merge("dev", "main")
    collect(world)
    check_live(world)


def test_registering_over_a_table_leaves_the_links_of_files_that_both_states_name() -> None:
    world = with_table()
    append(world, "data/a")
    entry = world.main.stat("main", "_iceberg/shop/orders.table")
    before = set(keys(world))
    world.main.register_table("main", table=ORDERS, location=entry.address, overwrite=True)
    assert before <= set(keys(world))


def test_a_repeated_request_makes_its_old_metadata_file_young() -> None:
    world = with_table()
    change = TableChange(ORDERS, (), ({"action": "set-properties", "updates": {"a": "b"}},))
    before = stored_keys(world, "tables/")
    dying = world.repository(DieAt("tables.transact"))
    assert died(lambda: dying.commit_tables("main", tables=(change,)))
    [key] = stored_keys(world, "tables/") - before
    old = world.objects().head(key)
    world.clock.time += TABLE_GRACE / 2 + 1
    world.main.commit_tables("main", tables=(change,))
    assert world.main.stat("main", "_iceberg/shop/orders.table").address.endswith(key)
    young = world.objects().head(key)
    assert young.modified > old.modified
    assert young.etag != old.etag


def test_notes_of_a_version_that_did_not_know_tables_are_not_believed() -> None:
    world = with_table()
    collect(world)
    saved = msgspec.msgpack.decode(world.objects().get(STATE)[32:])
    rows = f"_graveler/gc/marks/{saved['files'][0]}"
    write_names(world.objects(), iter(()), 0, rows)
    state = msgspec.msgpack.encode({**saved, "version": 3})
    world.objects().put(STATE, sha256(state).digest() + state)
    world.clock.time += TABLE_AGE
    assert collect(world).plan.found == {}


def test_a_copied_link_is_noted_for_the_collector() -> None:
    world = with_table()
    set_property(world, "a", "b")
    address = world.main.stat("main", keys(world)[0]).address
    assert world.main.parts.traces.needed([address]) == [key_of(world, address)]


def test_a_shorter_grace_period_than_that_of_the_lake_is_refused() -> None:
    world = with_table()
    with pytest.raises(InvalidError, match="for files of tables"):
        Garbage(world.repository(), Options(table_grace=GRACE)).plan()


def test_files_of_tables_count_as_space_of_their_branches() -> None:
    world = with_table()
    write_file(world, "data/a")
    measured = space(world.repository())
    assert measured.unheld.files == 1
    assert measured.unknown.files == 0
    assert {holding.held.files for holding in measured.holders} == {1}


def test_a_purge_removes_the_folders_of_tables() -> None:
    world = with_table()
    lake = world.lake()
    write_file(world, "data/a")
    uid = world.main.repository.uid
    lake.delete_repository(world.main.repository.name)
    Leftovers(lake.tables, lake.store_of, world.clock, GRACE, SKEW).purge(uid, at_once=True)
    assert stored_keys(world, "") == set()


@pytest.mark.parametrize("amount", [1, 2, 9])
def test_intervals_together_list_objects_and_files_of_tables(amount: int) -> None:
    random = Random(amount)
    objects = MemoryObjects("mem://intervals")
    folders = TableFolders(b"key")
    names = [random.randbytes(25) for _ in range(60)]
    stamps = [base32(random.getrandbits(100), 20) for _ in range(30)]
    written = [f"data/{data_path(name)}" for name in names]
    written += [f"tables/{stamp}/{folders.proof(stamp)}/{number}" for stamp in stamps for number in range(3)]
    for key in [*written, "aaa", "t", f"tables/{stamps[0]}/{stamps[1]}/0", "zzz"]:
        objects.put(key, b"1")
    ids = {key: data_id(key) for key in written}
    needed = {name for key, name in ids.items() if name is not None and random.random() < 0.3}
    write_names(objects, iter(sorted(needed)), 0, "_graveler/rows")
    now = objects.head("zzz").modified
    work = Comparison(objects, ("_graveler/rows",), b"\1", Horizon(now, now, folders))

    unknown = Unknown()
    unneeded: list[str] = []
    for interval in intervals(random.sample(names, 40), amount):
        unneeded += [row.key for row in candidates(work, interval, iter(()), unknown, lambda _: None)]
    assert sorted(unneeded) == sorted(key for key, name in ids.items() if name not in needed)
    assert sorted(unknown.examples) == sorted(["aaa", "t", f"tables/{stamps[0]}/{stamps[1]}/0", "zzz"])
