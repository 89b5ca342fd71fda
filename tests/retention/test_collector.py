"""The collector: what it keeps, removes and refuses."""

from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.errors import (
    BusyError,
    DamagedFileError,
    ExpiredCommitError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    RefNotFoundError,
)
from graveler.lake.clock import GRACE
from graveler.lake.gates.statuses import Statuses
from graveler.lake.leases import LeaseWatch
from graveler.model import ObjectEntry, RetentionRules, StatusState
from graveler.operations.store import Operation, Operations, OperationState
from graveler.operations.work import CancelledError
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.rules import DAY
from graveler.retention.runs import LEASE, Claim, Kind, Mode, Outcome, Plan, Runs, Tally
from graveler.retention.sweeper import QUARANTINE
from graveler.storage.tables.port import Key
from graveler.tree.sstable import write_table
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.lake.support import DieAt, Died, OwnClock, World
from tests.retention.support import AGE, check_live, collect, contents, keys, needed_objects, write
from tests.support.instruments import CountingObjects

TEXTS = {f"k{number:02}": f"text {number}" for number in range(40)}


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_reachable_goes(world: World) -> None:
    write(world.main, "main", **TEXTS)
    world.main.create_branch("side", "main")
    write(world.main, "side", more="more")
    world.main.create_tag("v1", "main")
    write(world.main, "main", k00="changed")
    world.main.upload("main", "uncommitted", b"uncommitted")
    before = check_live(world)
    for _ in range(3):
        world.clock.time += AGE
        summary = collect(world)
        assert not summary.plan.found
    assert check_live(world) == before


def test_what_nobody_reaches_goes_after_its_grace_data_and_metadata(world: World) -> None:
    write(world.main, "main", **TEXTS)
    kept = keys(world, "")
    items = world.lake().fsck(world.main.repository.name).counts.commits
    world.main.create_branch("side", "main")
    write(world.main, "side", **{f"s{number}": f"side {number}" for number in range(30)})
    world.main.delete_branch("side")
    world.clock.time += AGE
    assert collect(world).plan.expired == 1, "first a commit is only marked"
    assert kept < keys(world, "")
    world.clock.time += AGE
    summary = collect(world)
    assert summary.forgotten == 1
    assert summary.total(Outcome.DELETED) == Tally(
        sum(t.files for t in summary.plan.found.values()), sum(t.bytes for t in summary.plan.found.values())
    )
    assert {key for key in keys(world, "") if not key.startswith("_graveler/gc/")} == kept
    report = world.lake().fsck(world.main.repository.name)
    assert report.garbage.commit_items == report.garbage.commit_records == report.garbage.ranges == 0
    assert report.counts.commits == items


def test_an_object_that_was_never_linked_or_was_reset_goes(world: World) -> None:
    address = world.main.new_address("main", "orphan")
    world.objects().put(address.removeprefix(f"{world.main.repository.namespace}/"), b"orphan")
    world.main.upload("main", "reset", b"reset")
    world.main.reset("main")
    collect(world)
    assert len(keys(world, "data/")) == 2, "young files stay"
    world.clock.time += AGE
    collect(world)
    assert keys(world, "data/") == set()


def test_of_a_data_folder_each_file_goes_by_itself(world: World) -> None:
    repository, names = world.main, [f"day={number % 3}/part-{number:02}" for number in range(60)]
    folder = repository.new_address("main", "events/")
    inside = folder.removeprefix(f"{repository.repository.namespace}/")
    for name in names:
        world.objects().put(f"{inside}/{name}", name.encode())
    linked = {f"events/{name}": name for name in names[::2]}
    repository.link_many(
        "main", [ObjectEntry(path, f"{folder}/{name}", len(name), "not an MD5", 1) for path, name in linked.items()]
    )
    repository.commit("main", "half of them")
    write(repository, "main", one="beside")
    repository.link("main", ObjectEntry("events/late", f"{folder}/late", 4, "not an MD5", 1))
    world.objects().put(f"{inside}/late", b"late")
    assert len(keys(world, "data/")) == 62
    world.clock.time += AGE
    assert collect(world).plan.found == {"object": Tally(30, sum(map(len, names[1::2])))}
    assert check_live(world)["main"] == linked | {"one": "beside", "events/late": "late"}
    repository.delete("main", [f"events/{name}" for name in names[:30:2]])
    repository.reset("main", path="events/late")
    assert {key for key in keys(world, "data/") if "late" in key}
    collect(world)
    assert not {key for key in keys(world, "data/") if "late" in key}
    assert keys(world, "data/") == needed_objects(world)


def test_a_dry_run_changes_nothing_but_its_own_notes(world: World) -> None:
    write(world.main, "main", a="1")
    world.main.create_branch("side", "main")
    write(world.main, "side", b="2")
    world.main.delete_branch("side")
    world.main.upload("main", "c", b"3")
    world.main.reset("main")
    world.clock.time += AGE
    before = keys(world, "")
    garbage = Garbage(world.repository(), Options(threads=1))
    for _ in range(2):
        summary = garbage.plan()
        assert summary.plan.found == {"object": Tally(1, 1)}
        assert summary.total(Outcome.LISTED) == Tally(1, 1)
        world.clock.time += AGE
    assert {key for key in keys(world, "") if not key.startswith("_graveler/gc/")} == before


def test_the_first_run_moves_to_quarantine_from_which_objects_come_back(world: World) -> None:
    write(world.main, "main", a="1")
    world.main.upload("main", "lost", b"lost")
    lost = keys(world, "data/") - needed_objects_committed(world)
    world.main.reset("main")
    world.clock.time += AGE
    garbage = Garbage(world.repository(), Options(threads=1))
    summary = garbage.run()
    assert summary.plan.mode is Mode.QUARANTINE
    assert summary.total(Outcome.QUARANTINED) == Tally(1, 4)
    assert not lost & keys(world, "data/")
    run = summary.plan.run
    assert keys(world, f"{QUARANTINE}/{run}/") == {f"{QUARANTINE}/{run}/{key}" for key in lost}
    assert list(garbage.restore(run, "data/")) == [(key, True) for key in lost]
    assert world.objects().get(next(iter(lost))) == b"lost"
    assert keys(world, f"{QUARANTINE}/") == set()
    with pytest.raises(NotFoundError):
        list(garbage.restore(run))


def needed_objects_committed(world: World) -> set[str]:
    inside = f"{world.main.repository.namespace}/"
    return {entry.address.removeprefix(inside) for entry in world.main.objects("main@")}


def test_quarantine_ends(world: World) -> None:
    world.main.upload("main", "lost", b"lost")
    world.main.reset("main")
    world.clock.time += AGE
    collect(world, Mode.QUARANTINE)
    world.clock.time += 6 * DAY
    collect(world)
    assert len(keys(world, f"{QUARANTINE}/")) == 1
    world.clock.time += 2 * DAY
    summary = collect(world)
    assert summary.plan.found == {Kind.QUARANTINE.value: Tally(1, 4)}
    assert keys(world, f"{QUARANTINE}/") == set()


def test_tags_holds_and_dumps_keep_a_commit(world: World) -> None:
    repository = world.main
    ids = {}
    for name in ("dumped", "tagged", "held", "nothing"):
        repository.create_branch(name, "main")
        ids[name] = write(repository, name, **{name: name})
        if name == "dumped":
            world.lake().dump(repository.repository.name)
            repository.delete_branch(name)
    repository.create_tag("v1", "tagged")
    Garbage(repository).hold("held", "a case at court", "ann")
    for name in ("tagged", "held", "nothing"):
        repository.delete_branch(name)
    for _ in range(2):
        world.clock.time += AGE
        collect(world)
    fresh = world.repository()
    for name in ("tagged", "held", "dumped"):
        assert contents(fresh, ids[name]) == {name: name}
    with pytest.raises(RefNotFoundError):
        fresh.commit_of(ids["nothing"])
    assert [hold.commit_id for hold in Garbage(fresh).holds()] == [ids["held"]]
    Garbage(fresh).release(ids["held"])
    for _ in range(2):
        world.clock.time += AGE
        collect(world)
    with pytest.raises(RefNotFoundError):
        world.repository().commit_of(ids["held"])


def test_what_the_reference_log_names_of_late_can_be_undone(world: World) -> None:
    first = world.main.commit_of("main").id
    write(world.main, "main", a="1")
    world.clock.time += AGE
    world.main.hard_reset("main", first)
    world.clock.time += GRACE - 10
    collect(world)
    world.repository().undo("main")
    assert contents(world.repository(), "main") == {"a": "1"}


def test_rules_take_the_data_of_old_commits_and_leave_their_metadata(world: World) -> None:
    repository = world.main
    old = write(repository, "main", a="old", b="stays")
    repository.create_branch("side", "main")
    repository.delete("main", ["a"])
    write(repository, "main", d="new")
    repository.set_retention(RetentionRules(30, {"side": 60}))
    world.clock.time += 40 * DAY
    assert collect(world).plan.expired == 0, "the rule of the other branch keeps it: it is its head"
    repository.delete("side", ["a"])
    write(repository, "side", c="side")
    world.clock.time += 70 * DAY
    assert collect(world).plan.expired == 2, "the first commit, and the one that was replaced on both"
    world.clock.time += AGE
    summary = collect(world)
    assert summary.plan.found == {"object": Tally(1, 3)}
    fresh = world.repository()
    with pytest.raises(ExpiredCommitError, match="expired"):
        fresh.read(old, "a")
    assert fresh.read(old, "b") == b"stays", "other commits hold it, too"
    for point in (
        lambda: fresh.create_tag("v0", old),
        lambda: fresh.create_branch("again", old),
        lambda: fresh.hard_reset("main", old),
        lambda: fresh.cherry_pick("side", old),
        lambda: fresh.revert("main", "main"),
    ):
        refused(point)
    fresh.merge("side", "main")
    assert contents(fresh, "main") == {"b": "stays", "c": "side", "d": "new"}, "the merge's base is the expired commit"
    assert world.lake().fsck(repository.repository.name).findings == ()


def refused(point: Callable[[], object]) -> None:
    with pytest.raises(RefNotFoundError, match="expired"):
        point()


def test_a_mark_is_taken_back_when_rules_come_to_keep_the_commit(world: World) -> None:
    repository = world.main
    old = write(repository, "main", a="old")
    write(repository, "main", a="new")
    repository.set_retention(RetentionRules(1))
    world.clock.time += 2 * DAY
    assert collect(world).plan.expired == 2
    repository.set_retention(RetentionRules(1000))
    assert collect(world).plan.revived == 2
    world.clock.time += AGE
    collect(world)
    fresh = world.repository()
    assert fresh.read(old, "a") == b"old"
    fresh.create_tag("v0", old)


def test_rules_show_what_they_would_take_before_they_are_set(world: World) -> None:
    world.clock.time += 10
    old = write(world.main, "main", a="old")
    write(world.main, "main", a="new")
    world.clock.time += 3 * DAY
    garbage = Garbage(world.repository())
    preview = garbage.preview(RetentionRules(2))
    assert preview.lost[0].id == old
    assert (preview.reached, preview.kept) == (3, 1)
    assert garbage.preview(RetentionRules(4)).lost == ()
    with pytest.raises(InvalidError, match="at least 1"):
        garbage.preview(RetentionRules(0))


def test_a_mark_reads_only_what_is_new(world: World) -> None:
    for number in range(5):
        write(world.main, "main", **{f"{key}{number}": text for key, text in TEXTS.items()})
    world.clock.time += AGE
    collect(world)
    write(world.main, "main", k000="changed")
    counted = CountingObjects(world.objects())
    opened = world.repository()
    opened.namespace = counted
    summary = Garbage(opened, Options(Mode.DELETE, threads=1)).run()
    read = [key for method, key in counted.keys if method == "get" and "/ranges/" in key]
    trees = [key for method, key in counted.keys if method == "get" and "/metaranges/" in key]
    assert len(trees) == 1
    assert len(read) == summary.plan.ranges_read <= 3
    assert summary.plan.ranges > 50
    assert sum(method == "delete" and not key.startswith("_graveler/gc/") for method, key in counted.keys) == 0


def test_marks_that_are_lost_are_made_again(world: World) -> None:
    write(world.main, "main", **TEXTS)
    world.clock.time += AGE
    collect(world)
    for key in keys(world, "_graveler/gc/marks/"):
        if key.endswith(".rows"):
            world.objects().delete(key)
    world.clock.time += AGE
    assert collect(world).plan.ranges_read > 0
    check_live(world)


def test_files_of_others_are_kept_and_listed(world: World) -> None:
    objects = world.objects()
    strange = ["AAA", "_graveler/strange", "data/x", "data/not/ours", "zzz/file"]
    for key in strange:
        objects.put(key, b"12345")
    world.clock.time += AGE
    summary = collect(world)
    assert set(strange) <= keys(world, "")
    assert summary.plan.unknown == Tally(len(strange), 5 * len(strange))
    assert set(summary.plan.unknown_examples) == set(strange)


def test_what_operations_left_for_each_other_goes_after_the_grace(world: World) -> None:
    left = ["_graveler/operations/op/plans/1", "_graveler/operations/op/parts/x", "_graveler/imports/id/task-000001"]
    for key in left:
        world.objects().put(key, b"left")
    world.clock.time += AGE
    world.objects().put("_graveler/operations/new/plans/1", b"young")
    assert collect(world).outcomes[Kind.OPERATION.value] == {Outcome.DELETED.value: Tally(3, 12)}
    assert keys(world, "_graveler/operations/") == {"_graveler/operations/new/plans/1"}
    assert keys(world, "_graveler/imports/") == set()


def test_a_file_put_again_since_the_mark_survives(world: World) -> None:
    """Contents written, dropped, and written again around a sweep."""
    repository = world.main
    write(repository, "main", **TEXTS)
    repository.create_branch("side", "main")
    write(repository, "side", k00="side")
    tree = repository.commit_of("side").metarange
    repository.delete_branch("side")
    world.clock.time += AGE
    collect(world)
    world.clock.time += AGE
    garbage = Garbage(world.repository(), Options(Mode.DELETE, threads=1))
    runs = Runs(world.objects())
    plan = died_before_sweeping(world)
    assert plan.found["metarange"].files == 1
    world.objects().put(f"_graveler/metaranges/{tree}", world.objects().get(f"_graveler/metaranges/{tree}"))
    summary = garbage.run()
    assert summary.plan.run == plan.run, "the run that died is finished"
    assert summary.outcomes["metarange"] == {Outcome.CHANGED.value: Tally(1, plan.found["metarange"].bytes)}
    assert f"_graveler/metaranges/{tree}" in keys(world, "_graveler/metaranges/")
    assert [over for _, over in runs.all()] == [True, True]


def died_before_sweeping(world: World) -> Plan:
    """The plan of a run that died before it removed anything."""
    opened = world.repository(DieAt("objects.delete"))
    with pytest.raises(Died):
        Garbage(opened, Options(Mode.DELETE, threads=1)).run()
    world.clock.time += LEASE + 1
    runs = Runs(world.objects())
    return runs.plan(runs.all()[-1][0])


def test_runs_of_one_second_are_listed_in_their_order(world: World) -> None:
    runs = Runs(world.objects())
    names = [runs.new(1_700_000_000 + thousandths / 1000) for thousandths in range(0, 1000, 50)]
    assert names == sorted(names)


@pytest.mark.parametrize("ahead", [-DAY, 0.0, 300.0, DAY])
def test_one_collector_at_a_time(world: World, ahead: float) -> None:
    """A collector that gives signs of life keeps its turn, and one that died does for one lease, whatever its clock says."""
    uid, clock = world.main.repository.uid, OwnClock(world.clock, ahead)
    first = Claim(world.tables, uid, clock, LeaseWatch(clock))
    world.clock.on_sleep = first.renew
    slept = world.clock.slept
    with pytest.raises(BusyError, match="another collector"):
        collect(world)
    assert world.clock.slept - slept < LEASE / 2, "one sign of life is enough"
    world.clock.on_sleep = None
    slept = world.clock.slept
    collect(world)
    assert LEASE <= world.clock.slept - slept < LEASE + 10
    slept = world.clock.slept
    collect(world)
    assert world.clock.slept - slept < 1, "the turn was given back"
    with pytest.raises(BusyError, match="another collector"):
        first.renew()


def test_a_collector_that_waits_can_be_cancelled(world: World) -> None:
    Claim(world.tables, world.main.repository.uid, world.clock, world.main.leases)

    def cancel(phase: str, _done: int, _total: int) -> None:
        assert phase == "waiting for another collector"
        raise CancelledError

    with pytest.raises(CancelledError):
        Garbage(world.repository()).run(cancel)


def test_the_turn_that_an_earlier_version_took_is_watched_as_any_other(world: World) -> None:
    key = Key(f"{world.main.repository.uid}/gc", b"turn")
    until = int((world.clock.time + DAY) * 1000)
    world.tables.put(key, {"owner": "somebody", "lease_ms": until})

    def renew() -> None:
        world.tables.put(key, {"owner": "somebody", "lease_ms": until + 30_000})

    world.clock.on_sleep = renew
    with pytest.raises(BusyError, match="another collector"):
        collect(world)
    world.clock.on_sleep = None
    collect(world)


def test_a_grace_shorter_than_that_of_the_writers_is_refused(world: World) -> None:
    with pytest.raises(InvalidError, match="shorter"):
        Garbage(world.repository(), Options(grace=GRACE - 1)).plan()


def test_an_operation_longer_than_half_the_grace_stops_the_collector(world: World) -> None:
    operations = Operations(world.tables, world.main.repository.uid)
    now = world.clock.now()
    running = Operation("op", "import", b"", OperationState.RUNNING, now, now, owner="somebody", seconds=20.0)
    operations.add(running)
    collect(world)
    world.clock.time += GRACE / 2 + 1

    def renew() -> None:
        operations.change("op", lambda now: now)

    world.clock.on_sleep = renew
    with pytest.raises(PreconditionError, match="op \\(import\\) has been running for"):
        collect(world)
    world.clock.on_sleep = None
    slept = world.clock.slept
    collect(world)
    assert world.clock.slept - slept >= 20.0, "its worker has died; that was watched"


def test_a_tree_whose_ranges_have_not_come_stops_no_collector(world: World) -> None:
    """A commit writes range and metarange at the same time: it may be at work, or have died between the two."""
    repository = world.repository()
    write(repository, "main", a="1")
    objects = world.objects()
    tree = repository.tree("main")
    records = [(b"b", packed) for _, packed in tree.records()]
    lone = build(tree.store, repository.repository.split, records)
    lone.save()
    objects.delete(f"_graveler/ranges/{lone.info(0).name}")
    collect(world)
    assert keys(world, f"_graveler/metaranges/{lone.name()}"), "it is young, its ranges may be about to come"
    build(tree.store, repository.repository.split, records)
    collect(world)
    assert contents(world.repository(), "main") == {"a": "1"}


@pytest.mark.parametrize("again", [True, False])
def test_a_young_tree_keeps_its_objects_though_its_commit_is_dead(world: World, again: bool) -> None:
    """Whoever writes the contents of an expired commit again is about to commit them."""
    repository = world.main
    old = repository.commit_of(write(repository, "main", a="old"))
    lost = keys(world, "data/")
    write(repository, "main", a="new")
    repository.set_retention(RetentionRules(1))
    world.clock.time += 2 * DAY
    assert collect(world).plan.expired == 2
    world.clock.time += AGE
    key = f"_graveler/metaranges/{old.metarange}"
    if again:
        world.objects().put(key, world.objects().get(key))
    collect(world)
    assert lost & keys(world, "data/") == (lost if again else set())
    assert keys(world, key) == {key}


def test_a_damaged_tree_stops_the_collector(world: World) -> None:
    write(world.main, "main", **TEXTS)
    world.main.upload("main", "x", b"x")
    world.main.reset("main")
    world.clock.time += AGE
    for key in keys(world, "_graveler/metaranges/"):
        world.objects().delete(key)
    before = keys(world, "data/")
    with pytest.raises(Exception, match="nothing was collected"):
        collect(world)
    assert keys(world, "data/") == before


@pytest.mark.parametrize("labelled", [True, False])
def test_an_exchanged_file_stops_the_collector(world: World, labelled: bool) -> None:
    """What another range names would decide what is garbage."""
    write(world.main, "main", **TEXTS)
    tree = world.main.tree("main")
    world.main.upload("main", "x", b"x")
    write(world.main, "main", y="y")
    other = world.main.tree("main")
    world.clock.time += AGE
    here = next(number for number in range(len(tree)) if tree.packed[number] not in other.packed)
    there = next(number for number in range(len(other)) if other.packed[number] not in tree.packed)
    data = world.objects().get(f"_graveler/ranges/{other.info(there).name}")
    if not labelled:
        records = list(Tree(other.store, [other.lasts[there]], [other.packed[there]]).records())
        data = write_table([key for key, _ in records], [value for _, value in records], other.store.scratch)
    world.objects().put(f"_graveler/ranges/{tree.info(here).name}", data)
    before = keys(world, "data/")
    with pytest.raises(DamagedFileError, match=r"contains another file.*nothing was collected"):
        collect(world)
    assert keys(world, "data/") == before


def test_expired_rows_and_leftovers_of_tokens_go(world: World) -> None:
    for number in range(3):
        world.main.upload("main", "a", b"%d" % number)
        world.main.commit("main", "again", request_id=f"request {number}")
    world.clock.time += 40 * DAY
    assert collect(world).rows > 0
    world.clock.time += 200 * DAY
    collect(world)
    assert world.tables.remove_expired(world.clock.now()) == 0
    check_live(world)


def test_the_report_is_a_table(world: World, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    world.main.upload("main", "x", b"x")
    world.main.reset("main")
    world.clock.time += AGE
    summary = collect(world)
    path = tmp_path / "report.parquet"
    path.write_bytes(world.objects().get(Runs(world.objects()).report_key(summary.plan.run)))
    (row,) = parquet.read_table(path).to_pylist()
    assert (row["kind"], row["size"], row["outcome"]) == ("object", 1, "deleted")
    assert row["key"].startswith("data/")


def test_statuses_go_with_the_file_of_their_tree(world: World) -> None:
    statuses = Statuses(world.main.tables, world.main.repository.uid)
    world.main.create_branch("side", "main")
    write(world.main, "main", live="1")
    gone = world.main.commit_of(write(world.main, "side", gone="1"))
    for ref in ("main", "main~1", gone.id):
        world.main.post_status(ref, "dbt", StatusState.FAILURE)
    world.main.delete_branch("side")
    for _ in range(4):
        world.clock.time += AGE
        collect(world)
    assert not any(gone.metarange in key for key in keys(world, "_graveler/metaranges/"))
    assert statuses.read(gone.metarange).version == 0
    assert [world.main.statuses(ref)[0].state for ref in ("main", "main~1")] == [StatusState.FAILURE] * 2
