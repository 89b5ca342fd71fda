"""fsck: a clean lake is clean; each damage is found and named with the refs, commits and paths that it affects, and nothing
else is; recoverable files are rebuilt, and others reported as lost."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree

import msgspec
import pytest

from graveler.errors import UnavailableError
from graveler.history.commits import encode_commit
from graveler.lake.fsck.check import fsck
from graveler.lake.fsck.files import describe
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.opening.repositories import Repositories
from graveler.model import CommitID, MetarangeName
from graveler.staging.cleanup import LONGEST_REQUEST
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Objects
from graveler.storage.tables.port import Key
from graveler.tree.range_info import RangeInfo
from graveler.tree.split import cuts_after
from graveler.tree.tree import Tree
from tests.lake.fsck_support import NAME, NAMESPACE, OUTSIDE, SPLIT, FolderLake, kinds, link, names, one
from tests.lake.support import World, commit, put
from tests.support.instruments import (
    Boundaries,
    CountingObjects,
    CountingTables,
    Fault,
    FaultyObjects,
    FaultyTables,
)

K = FindingKind


@pytest.fixture
def cached(fsck_template: Path, tmp_path: Path) -> Iterator[FolderLake]:
    """A lake with a cache that has a copy of every file."""
    copytree(fsck_template, tmp_path / "lake")
    opened = FolderLake(tmp_path / "lake", cache=tmp_path / "cache")
    for made in opened.commits():
        list(opened.repository.tree(made.id).records())
    yield opened
    opened.tables.close()


def unshared(lake: FolderLake, branch: str = "main") -> RangeInfo:
    """A range that the fewest commits have, this branch's head among them."""
    return min(lake.ranges(lake.head(branch).metarange), key=lambda info: len(lake.having(info.name)))


def check_repaired(lake: FolderLake, kind: FindingKind, source: str) -> None:
    """Without repair the finding tells what could be done, and nothing is written; with repair it is done, and all is well."""
    before = one(lake.fsck())
    assert (before.kind, before.repaired) == (kind, False)
    assert "repair" in before.remedy
    assert one(lake.fsck()) == before
    report = lake.fsck(repair=True)
    finding = one(report)
    assert finding.repaired
    assert source in finding.remedy
    assert not report.remaining
    assert lake.fsck().findings == ()


# Clean


def test_objects_that_add_up_to_more_than_a_description_can_say_are_no_finding(lake: FolderLake) -> None:
    link(lake, "main", {"p/010": (1 << 63) - 1, "p/011": (1 << 63) - 1, "p/012": (1 << 63) - 1})
    lake.repository.commit("main", "huge")
    assert lake.fsck().findings == ()


def test_a_clean_lake_with_merges_and_a_criss_cross_has_no_findings(lake: FolderLake) -> None:
    report = lake.fsck()
    assert report.findings == ()
    assert not report.remaining
    commits = lake.commits()
    ranges = {info.name: info.count for commit in commits for info in lake.ranges(commit.metarange)}
    counts = report.counts
    assert (counts.branches, counts.tags, counts.commits) == (3, 2, len(commits))
    assert (counts.ranges, counts.records) == (len(ranges), sum(ranges.values()))
    assert counts.metaranges == len({commit.metarange for commit in commits} - {""})
    assert (counts.staged, counts.objects) == (4, 1)
    garbage = report.garbage
    assert (garbage.commit_items, garbage.commit_records, garbage.ranges, garbage.metaranges) == (0, 0, 0, 0)


def test_each_file_is_read_once_and_tables_in_batches(lake: FolderLake) -> None:
    objects, tables = CountingObjects(lake.objects), CountingTables(lake.tables)
    report = lake.fsck(objects=objects, tables=tables)
    gets = Counter(key for method, key in objects.keys if method == "get")
    assert set(gets.values()) == {1}
    files = [key for key in gets if "/ranges/" in key or "/metaranges/" in key]
    assert len(files) == report.counts.ranges + report.counts.metaranges
    assert sum("/commits/" in key for key in gets) == report.counts.commits
    assert len(gets) == len(files) + report.counts.commits + 1  # and the marker
    assert objects.calls["head"] == report.counts.objects
    assert objects.calls["put"] == 0
    assert tables.calls["get_many"] <= 4
    assert tables.calls["query"] < 100
    assert tables.calls["put"] + tables.calls["transact"] == 0


def test_a_long_line_of_commits_is_read_in_batches(lake: FolderLake) -> None:
    for n in range(150):
        lake.repository.commit("quiet", f"empty {n}", allow_empty=True)
    tables = CountingTables(lake.tables)
    report = lake.fsck(tables=tables)
    assert report.findings == ()
    assert report.counts.commits > 150
    assert tables.calls["get_many"] < 150 / 32 + 8


def test_repairing_a_clean_lake_writes_nothing(lake: FolderLake) -> None:
    objects, tables = CountingObjects(lake.objects), CountingTables(lake.tables)
    assert lake.fsck(objects=objects, tables=tables, repair=True).findings == ()
    assert set(objects.calls) <= {"get", "head", "list"}
    assert set(tables.calls) <= {"get", "get_many", "query"}


def test_progress_tells_each_phase_to_its_end(lake: FolderLake) -> None:
    seen: dict[str, tuple[int, int]] = {}

    def progress(phase: str, done: int, total: int) -> None:
        assert done >= seen.get(phase, (0, 0))[0]
        seen[phase] = done, total

    report = lake.fsck(progress=progress)
    assert {"refs", "commits", "metaranges", "ranges", "staged"} <= set(seen)
    assert all(done == total for done, total in seen.values())
    assert seen["ranges"][0] == report.counts.ranges


def test_what_nothing_reaches_is_counted_as_garbage_and_is_no_finding(lake: FolderLake) -> None:
    forged = lake.forge_head("quiet", lake.head("main").metarange)
    lake.change_item(lake.branch_key("quiet"), commit=forged.parents[0])
    lake.objects.put("_graveler/ranges/of-somebody-who-died", b"12345")
    lake.objects.put("_graveler/metaranges/of-somebody-who-died", b"12345")
    report = lake.fsck()
    assert report.findings == ()
    garbage = report.garbage
    assert (garbage.commit_items, garbage.commit_records, garbage.ranges, garbage.metaranges) == (1, 1, 1, 1)
    assert garbage.bytes == 10 + len(encode_commit(forged))


def commit_and_sweep(world: World) -> None:
    put(world.main, {"k/01": "new"})
    world.main.commit("main", "meanwhile")
    world.clock.time += LONGEST_REQUEST + 1
    put(world.main, {"k/02": "new"})
    world.main.commit("main", "sweeps")
    world.main.merge("main@", "dev")


def refs_come_and_go(world: World) -> None:
    world.main.create_branch("new", "main@")
    put(world.main, {"k/01": "new"}, "new")
    world.main.create_tag("new", "main@")
    world.main.delete_branch("gone")


def only_stage(world: World) -> None:
    put(world.main, {"k/01": None, "k/03": "new"})
    put(world.main, {"k/03": "new"}, "dev")


@pytest.mark.parametrize("meanwhile", [commit_and_sweep, refs_come_and_go, only_stage])
def test_others_at_work_are_no_findings_whatever_the_moment(meanwhile: Callable[[World], None]) -> None:
    moment = 0
    happened = True
    while happened:
        world = World()
        commit(world.main, {f"k/{n:02}": f"{n}" for n in range(20)})
        for name in ("dev", "gone"):
            world.main.create_branch(name, "main@")
        put(world.main, {"k/05": "staged", "k/06": None})
        put(world.main, {"k/05": "staged"}, "gone")
        happened = False

        def at(_: str, number: int, moment: int = moment, world: World = world) -> Fault:
            nonlocal happened
            if number == moment:
                happened = True
                meanwhile(world)
            return None

        boundaries = Boundaries()
        report = fsck(
            Repositories(world.tables).get("repo"),
            FaultyTables(world.tables, at, boundaries),
            FaultyObjects(world.objects(), at, boundaries),
            committed_objects=True,
        )
        assert [str(finding) for finding in report.findings] == [], moment
        moment += 1
    assert moment > 80


# Ranges


DAMAGES: dict[str, tuple[Callable[[FolderLake, str], None], str]] = {
    "flipped": (lambda lake, key: lake.flip(key), "damaged"),
    "flipped at the end": (lambda lake, key: lake.flip(key, 3), "damaged"),
    "truncated": (lambda lake, key: lake.truncate(key), "damaged"),
    "emptied": (lambda lake, key: lake.empty(key), "damaged"),
    "deleted": (lambda lake, key: lake.path(key).unlink(), "missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_damaged_range_is_named_with_its_paths_refs_and_commits(lake: FolderLake, damage: str, number: int) -> None:
    info = lake.ranges(lake.head("main").metarange)[number]
    having = lake.having(info.name)
    affected = lake.affected(having)
    act, said = DAMAGES[damage]
    act(lake, f"_graveler/ranges/{info.name}")
    report = lake.fsck()
    finding = one(report)
    assert finding.kind is (K.RANGE_MISSING if damage == "deleted" else K.RANGE_DAMAGED)
    assert finding.what == f"range {info.name}"
    assert said in finding.why
    assert (finding.first, finding.last) == (info.first.decode(), info.last.decode())
    assert (set(finding.commits), finding.commit_count) == (having, len(having))
    assert names(finding) == affected
    assert report.remaining


def test_a_range_that_holds_another_ones_records_is_found(lake: FolderLake) -> None:
    one_, other = lake.ranges(lake.head("main").metarange)[:2]
    lake.path(f"_graveler/ranges/{one_.name}").write_bytes(lake.path(f"_graveler/ranges/{other.name}").read_bytes())
    finding = one(lake.fsck())
    assert (finding.kind, finding.what) == (K.RANGE_DAMAGED, f"range {one_.name}")
    assert other.name in finding.why


def test_two_damages_are_two_findings(lake: FolderLake) -> None:
    first, second = lake.ranges(lake.head("main").metarange)[1:3]
    lake.truncate(f"_graveler/ranges/{first.name}")
    lake.path(f"_graveler/ranges/{second.name}").unlink()
    assert kinds(lake.fsck()) == {K.RANGE_DAMAGED: 1, K.RANGE_MISSING: 1}


def test_a_damage_in_old_commits_only_is_one_of_their_history(lake: FolderLake) -> None:
    old = {info.name: info for info in lake.ranges(lake.head("v0").metarange)}
    for ref in ("main", "dev", "quiet"):
        for info in lake.ranges(lake.head(ref).metarange):
            old.pop(info.name, None)
    assert old
    info = next(iter(old.values()))
    lake.truncate(f"_graveler/ranges/{info.name}")
    finding = one(lake.fsck())
    assert ("v0", False) in names(finding)
    assert ("main", True) in names(finding)


def test_a_range_is_repaired_from_the_cache(cached: FolderLake) -> None:
    info = unshared(cached)
    cached.flip(f"_graveler/ranges/{info.name}")
    check_repaired(cached, K.RANGE_DAMAGED, "cache")


def test_a_missing_range_is_repaired_from_the_cache(cached: FolderLake) -> None:
    info = unshared(cached)
    cached.path(f"_graveler/ranges/{info.name}").unlink()
    check_repaired(cached, K.RANGE_MISSING, "cache")


def test_a_damaged_copy_in_the_cache_is_not_believed(cached: FolderLake) -> None:
    info = cached.ranges(cached.head("v0").metarange)[0]
    cached.truncate(f"_graveler/ranges/{info.name}")
    for copy in (cached.folder.parent / "cache").glob(f"*{info.name}"):
        copy.write_bytes(copy.read_bytes()[:-3])
    assert not one(cached.fsck(repair=True)).repaired


def test_the_last_range_of_a_tree_is_rebuilt_from_the_commit_that_appended_to_it(lake: FolderLake) -> None:
    tail = lake.ranges(lake.head("dev").metarange)[-1]
    assert not cuts_after(SPLIT, tail.size, tail.last)
    lake.repository.create_branch("appended", "dev@")
    link(lake, "appended", {"zz/more": 1})
    lake.repository.commit("appended", "append")
    assert tail.name not in {info.name for info in lake.ranges(lake.head("appended").metarange)}
    lake.path(f"_graveler/ranges/{tail.name}").unlink()
    check_repaired(lake, K.RANGE_MISSING, "which has its records")


def merged_range(lake: FolderLake) -> RangeInfo:
    """A range that a merge made, and that none of its parents has."""
    merges = [commit for commit in lake.commits("main") if len(commit.parents) == 2]
    for merge in merges:
        for info in lake.ranges(merge.metarange):
            if lake.having(info.name).isdisjoint(merge.parents):
                return info
    raise AssertionError("no merge made a range of its own")


def test_a_range_of_a_merge_is_rebuilt_by_merging_again(lake: FolderLake) -> None:
    link(lake, "dev", {"p/070": 1})
    lake.repository.commit("dev", "one side")
    link(lake, "main", {"p/071": 1})
    lake.repository.commit("main", "the other, in the same range")
    lake.repository.merge("dev@", "main")
    info = merged_range(lake)
    lake.truncate(f"_graveler/ranges/{info.name}")
    check_repaired(lake, K.RANGE_DAMAGED, "done again")


def test_a_range_that_only_one_commit_has_is_said_to_be_lost(lake: FolderLake) -> None:
    link(lake, "main", {"p/075": 7})
    made = lake.repository.commit("main", "the only one")
    info = unshared(lake)
    assert lake.having(info.name) == {made.id}
    lake.flip(f"_graveler/ranges/{info.name}")
    report = lake.fsck(repair=True)
    finding = one(report)
    assert not finding.repaired
    assert "cannot be rebuilt" in finding.remedy
    assert "lost" in finding.remedy
    assert names(finding) == {("main", False)}
    assert report.remaining


# Metaranges


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_metarange_takes_all_paths_of_its_commits(lake: FolderLake, damage: str) -> None:
    metarange = lake.head("v1").metarange
    commits = {commit.id for commit in lake.commits() if commit.metarange == metarange}
    affected = lake.affected(commits)
    DAMAGES[damage][0](lake, f"_graveler/metaranges/{metarange}")
    finding = one(lake.fsck())
    assert finding.kind is (K.METARANGE_MISSING if damage == "deleted" else K.METARANGE_DAMAGED)
    assert finding.what == f"metarange {metarange}"
    assert (finding.first, finding.last) == (None, None)
    assert set(finding.commits) == commits
    assert names(finding) == affected
    assert "lost" in finding.remedy


def test_a_metarange_is_repaired_from_the_cache(cached: FolderLake) -> None:
    cached.path(f"_graveler/metaranges/{cached.head('v1').metarange}").unlink()
    check_repaired(cached, K.METARANGE_MISSING, "cache")


def test_the_metarange_of_a_merge_is_rebuilt_by_merging_again(lake: FolderLake) -> None:
    head = lake.head("main")
    assert len(head.parents) == 2
    lake.truncate(f"_graveler/metaranges/{head.metarange}")
    check_repaired(lake, K.METARANGE_DAMAGED, "done again")


def test_ranges_of_a_rebuilt_metarange_are_looked_at(cached: FolderLake) -> None:
    head = cached.head("main")
    info = unshared(cached)
    cached.path(f"_graveler/metaranges/{head.metarange}").unlink()
    cached.truncate(f"_graveler/ranges/{info.name}")
    assert kinds(cached.fsck()) == {K.METARANGE_MISSING: 1, K.RANGE_DAMAGED: 1}
    assert len(cached.fsck(repair=True).remaining) == 0
    assert cached.fsck().findings == ()


# Forged trees: each file is what its name says, and the tree is not what it has to be


def parts(lake: FolderLake) -> tuple[list[RangeInfo], list[list[bytes]], list[list[bytes]]]:
    """The ranges of main, and the records of each."""
    tree = lake.tree(lake.head("main").metarange)
    infos = [tree.info(number) for number in range(len(tree))]
    keys: list[list[bytes]] = []
    packed: list[list[bytes]] = []
    for number in range(len(tree)):
        blocks = list(tree.range_blocks(number))
        keys.append([key for block, _ in blocks for key in block])
        packed.append([record for _, block in blocks for record in block])
    return infos, keys, packed


def test_a_range_that_goes_on_after_a_cut_is_found(lake: FolderLake) -> None:
    infos, keys, packed = parts(lake)
    joined = describe(keys[1] + keys[2], packed[1] + packed[2])
    lake.put_range(keys[1] + keys[2], packed[1] + packed[2], joined)
    made = lake.forge_head("main", lake.put_tree([infos[0], joined, *infos[3:]]))
    finding = one(lake.fsck())
    assert (finding.kind, finding.what) == (K.CUT, f"range {joined.name}")
    assert repr(infos[1].last) in finding.why
    assert (finding.first, finding.last) == (joined.first.decode(), joined.last.decode())
    assert finding.commits == (made.id,)
    assert names(finding) == {("main", False)}


def test_a_range_that_ends_without_a_cut_is_found_once_for_all_trees_that_have_it(lake: FolderLake) -> None:
    infos, keys, packed = parts(lake)
    at = next(n for n, info in enumerate(infos[:-1]) if info.count > 2)
    halves = [describe(keys[at][:1], packed[at][:1]), describe(keys[at][1:], packed[at][1:])]
    lake.put_range(keys[at][:1], packed[at][:1], halves[0])
    lake.put_range(keys[at][1:], packed[at][1:], halves[1])
    forged = [*infos[:at], *halves, *infos[at + 1 :]]
    first = lake.forge_head("main", lake.put_tree(forged))
    second = lake.forge_head("main", lake.put_tree(forged[:-1]))
    findings = lake.fsck().findings
    # The second half ends where the whole range did; by then too little may have come since the cut before it.
    wrong = [half.name for half in halves if not cuts_after(SPLIT, half.size, half.last)]
    assert {finding.kind for finding in findings} == {K.CUT}
    assert len(findings) == len(wrong)
    for name, finding in zip(wrong, findings, strict=True):
        assert name in finding.why
        assert set(finding.commits) == {first.id, second.id}


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("first", b"p/00"), ("count", 99), ("size", 1_000_000), ("total", 5)],
)
def test_a_false_description_is_found_and_told(lake: FolderLake, field: str, wrong: object) -> None:
    infos, _, _ = parts(lake)
    at = next(n for n, info in enumerate(infos) if info.first > b"p/00" and info.count > 1) if field == "first" else 1
    false = msgspec.structs.replace(infos[at], **{field: wrong})
    made = lake.forge_head("main", lake.put_tree([*infos[:at], false, *infos[at + 1 :]]))
    finding = one(lake.fsck())
    assert finding.kind is K.DESCRIPTION
    assert finding.what == f"metarange {made.metarange}"
    assert infos[at].name in finding.why
    assert f"{field} is {getattr(infos[at], field)!r}, not {wrong!r}" in finding.why
    assert finding.last == infos[at].last.decode()
    assert finding.commits == (made.id,)


def test_a_false_description_is_judged_also_where_the_range_was_seen_with_a_true_one_later(lake: FolderLake) -> None:
    infos, _, _ = parts(lake)
    false = msgspec.structs.replace(infos[1], count=99)
    lake.repository.create_branch("aaa", "main@")
    made = lake.forge_head("aaa", lake.put_tree([infos[0], false, *infos[2:]]))
    again = lake.forge_head("aaa", lake.put_tree([infos[0], false, *infos[2:-1]]))
    finding = one(lake.fsck())
    assert finding.kind is K.DESCRIPTION
    assert set(finding.commits) == {made.id, again.id}
    assert names(finding) == {("aaa", False)}


def test_ranges_that_overlap_are_found(lake: FolderLake) -> None:
    infos, keys, packed = parts(lake)
    at = next(n for n, info in enumerate(infos[:-1]) if info.count > 1)
    more_keys = sorted([*keys[at + 1], keys[at][0] + b"x"])
    position = more_keys.index(keys[at][0] + b"x")
    more = [*packed[at + 1][:position], packed[at][0], *packed[at + 1][position:]]
    overlapping = describe(more_keys, more)
    lake.put_range(more_keys, more, overlapping)
    made = lake.forge_head("main", lake.put_tree([*infos[: at + 1], overlapping, *infos[at + 2 :]]))
    findings = [finding for finding in lake.fsck().findings if finding.kind is not K.CUT]
    assert [finding.kind for finding in findings] == [K.METARANGE_DAMAGED]
    assert "overlap" in findings[0].why
    assert findings[0].commits == (made.id,)


def test_records_that_cannot_be_read_are_found(lake: FolderLake) -> None:
    infos, keys, packed = parts(lake)
    bad = [*packed[0]]
    bad[0] = bad[0][:-3]
    info = describe(keys[0], bad)
    lake.put_range(keys[0], bad, info)
    made = lake.forge_head("main", lake.put_tree([info, *infos[1:]]))
    finding = one(lake.fsck())
    assert (finding.kind, finding.what) == (K.RECORD, f"range {info.name}")
    assert (finding.first, finding.last) == (keys[0][0].decode(), keys[0][0].decode())
    assert finding.commits == (made.id,)


def test_a_metarange_under_another_name_is_found(lake: FolderLake) -> None:
    tree = Tree(lake.tree(lake.head("main").metarange).store)
    infos = parts(lake)[0]
    tree.lasts, tree.packed = [info.last for info in infos], [info.pack() for info in infos]
    name = tree.name()
    # RocksDB refuses to write keys out of order; a metarange under the name of another is the nearest that can be forged.
    lake.put_file("metaranges", MetarangeName(f"{'0' * 64}-{'0' * 32}"), tree.lasts, tree.packed)
    made = lake.forge_head("main", MetarangeName(f"{'0' * 64}-{'0' * 32}"))
    finding = one(lake.fsck())
    assert finding.kind is K.METARANGE_DAMAGED
    assert name in finding.why
    assert finding.commits == (made.id,)


# Commits


def some_commit(lake: FolderLake) -> CommitID:
    return lake.head("v1").id


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_commits_record_in_the_store_is_rebuilt_from_the_table(lake: FolderLake, damage: str) -> None:
    cid = some_commit(lake)
    DAMAGES[damage][0](lake, f"_graveler/commits/{cid}")
    finding = one(lake.fsck())
    assert finding.what == f"commit {cid}"
    assert finding.commits == (cid,)
    assert names(finding) == {("v1", False), ("main", True), ("dev", True)}
    check_repaired(lake, K.COMMIT_RECORD, "table")


def but_for_its_time(item: dict[str, object]) -> dict[str, object]:
    """The item of a commit without the time of its record, which is the machine's here, and not the clock's."""
    return {name: value for name, value in item.items() if name != "published"}


@pytest.mark.parametrize("how", ["smashed", "gone", "no record", "flipped"])
def test_a_commits_item_is_rebuilt_from_the_store(lake: FolderLake, how: str) -> None:
    cid = some_commit(lake)
    key = lake.commit_key(cid)
    before = lake.item(key)
    if how == "smashed":
        lake.smash_item(key)
    elif how == "gone":
        lake.tables.delete(key)
    elif how == "no record":
        lake.change_item(key, record=None)
    else:
        record = before["record"]
        assert isinstance(record, bytes)
        lake.change_item(key, record=record.replace(b"m1", b"mX"))
    assert one(lake.fsck()).what == f"commit {cid}"
    check_repaired(lake, K.COMMIT_ITEM, "object store")
    assert but_for_its_time(lake.item(key)) == before


def test_all_commit_items_are_rebuilt_with_their_lines(lake: FolderLake) -> None:
    keys = [lake.commit_key(commit.id) for commit in lake.commits()]
    before = [lake.item(key) for key in keys]
    for key in keys:
        lake.tables.delete(key)
    report = lake.fsck(repair=True)
    assert kinds(report) == {K.COMMIT_ITEM: len(keys)}
    assert report.remaining == ()
    assert [but_for_its_time(lake.item(key)) for key in keys] == before
    assert lake.fsck().findings == ()


def test_a_parent_that_does_not_exist_is_named_with_its_child(lake: FolderLake) -> None:
    cid = some_commit(lake)
    children = [commit.id for commit in lake.commits() if cid in commit.parents]
    affected = lake.affected([cid])
    lake.tables.delete(lake.commit_key(cid))
    lake.repository.delete_tag("v1")
    lake.path(f"_graveler/commits/{cid}").unlink()
    report = lake.fsck()
    finding = one(report)
    assert finding.kind is K.COMMIT_MISSING
    assert finding.what == f"commit {cid}"
    assert any(child in finding.why for child in children)
    assert names(finding) == {("main", True), ("dev", True)} == affected - {("v1", False)}
    assert "cannot be rebuilt" in finding.remedy


def test_a_ref_that_points_at_nothing_is_named(lake: FolderLake) -> None:
    lake.change_item(lake.tag_key("v1"), commit="ab" * 32)
    finding = one(lake.fsck())
    assert (finding.kind, finding.what) == (K.COMMIT_MISSING, f"commit {'ab' * 32}")
    assert "tag 'v1'" in finding.why
    assert names(finding) == {("v1", False)}


def test_a_commit_of_which_both_copies_are_damaged_is_lost(lake: FolderLake) -> None:
    cid = some_commit(lake)
    lake.truncate(f"_graveler/commits/{cid}")
    lake.smash_item(lake.commit_key(cid))
    finding = one(lake.fsck(repair=True))
    assert finding.kind is K.COMMIT_DAMAGED
    assert not finding.repaired


def test_a_wrong_generation_is_one_finding_not_one_for_each_descendant(lake: FolderLake) -> None:
    lying = lake.forge_head("main", lake.head("main").metarange, generation=2)
    lake.repository.create_branch("above", "main@")
    link(lake, "above", {"x": 1})
    made = lake.repository.commit("above", "on top")  # 3, and should be more
    report = lake.fsck()
    assert kinds(report) == {K.GENERATION: 2}
    assert {finding.commits[0] for finding in report.findings} == {lying.id, made.id}
    true = max(commit.generation for commit in lake.commits("dev")) + 3
    assert any(str(true) in finding.why for finding in report.findings)


@pytest.mark.parametrize("bad", ["table", "store"])
@pytest.mark.parametrize("field", ["generation", "metarange"])
def test_copies_that_differ_are_settled_by_what_is_true(lake: FolderLake, bad: str, field: str) -> None:
    head = lake.head("main")
    wrong: object = 77 if field == "generation" else MetarangeName(head.metarange[:-4] + "0000")
    record = encode_commit(msgspec.structs.replace(head, **{field: wrong}))
    if bad == "table":
        lake.change_item(lake.commit_key(head.id), record=record)
    else:
        lake.path(f"_graveler/commits/{head.id}").write_bytes(record)
    finding = one(lake.fsck())
    assert finding.kind is K.COMMIT_DISAGREES
    assert field in finding.why
    check_repaired(lake, K.COMMIT_DISAGREES, "object store" if bad == "table" else "table")


def test_an_expired_commit_under_a_ref_is_found(lake: FolderLake) -> None:
    cid = some_commit(lake)
    lake.change_item(lake.commit_key(cid), expired=1_700_000_000)
    finding = one(lake.fsck())
    assert (finding.kind, finding.commits) == (K.EXPIRED, (cid,))


# Objects of committed records, and the namespace


def test_objects_of_committed_records_are_looked_for_if_asked(lake: FolderLake) -> None:
    entry = lake.repository.stat("main@", "inside")
    lake.path(entry.address.removeprefix(f"{NAMESPACE}/")).unlink()
    assert lake.fsck().findings == ()
    finding = one(lake.fsck(committed_objects=True))
    assert (finding.kind, finding.what) == (K.OBJECT_MISSING, f"object {entry.address}")
    assert (finding.first, finding.last) == ("inside", "inside")
    assert names(finding) == lake.affected(commit.id for commit in lake.commits() if commit.metarange)


def test_objects_in_other_stores_are_looked_for_only_if_asked(lake: FolderLake) -> None:
    def empty(address: str) -> tuple[Objects, str]:
        return MemoryObjects(OUTSIDE), address.removeprefix(OUTSIDE)

    staged = lake.fsck(outside=empty)
    assert (staged.findings, staged.complete, staged.clean) == ((), True, True)
    assert staged.counts.objects_not_checked == 1  # the one that is staged
    every = lake.fsck(committed_objects=True, outside=empty)
    assert (every.findings, every.complete, every.clean) == ((), False, False)
    assert every.counts.objects_not_checked > 150
    report = lake.fsck(committed_objects=True, outside_objects=True, outside=empty)
    assert set(kinds(report)) == {K.OBJECT_MISSING}
    assert report.complete
    assert any("objects, s3://nowhere/" in finding.what for finding in report.findings)


def test_an_object_is_looked_for_once_though_many_ranges_name_it(lake: FolderLake) -> None:
    objects = CountingObjects(lake.objects)
    lake.fsck(objects=objects, committed_objects=True)
    heads = Counter(key for method, key in objects.keys if method == "head")
    assert set(heads.values()) == {1}


def test_a_missing_marker_is_written_again(lake: FolderLake) -> None:
    before = lake.path("_graveler/repository").read_bytes()
    lake.path("_graveler/repository").unlink()
    check_repaired(lake, K.MARKER, "Written again")
    assert lake.path("_graveler/repository").read_bytes() == before


@pytest.mark.parametrize("change", [("uid", "other"), ("lake", "other")])
def test_a_marker_of_somebody_else_is_found_and_left_alone(lake: FolderLake, change: tuple[str, str]) -> None:
    path = lake.path("_graveler/repository")
    said = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**said, change[0]: change[1]}))
    before = path.read_bytes()
    assert one(lake.fsck(repair=True)).kind is K.MARKER
    assert path.read_bytes() == before


def test_the_tables_word_for_the_namespace_is_written_again(lake: FolderLake) -> None:
    sort, _ = lake.tables.query("namespaces").items[0]
    lake.tables.delete(Key("namespaces", sort))
    check_repaired(lake, K.MARKER, "Written again")


def test_a_file_that_the_store_refuses_is_not_said_to_be_damaged(lake: FolderLake) -> None:
    info = lake.ranges(lake.head("main").metarange)[0]

    class Refusing(CountingObjects):
        def get(self, key: str) -> bytes:
            if info.name in key:
                raise UnavailableError("no answer")
            return super().get(key)

    finding = one(lake.fsck(objects=Refusing(lake.objects), repair=True))
    assert (finding.kind, finding.repaired) == (K.UNREADABLE, False)
    assert "Run again" in finding.remedy


def test_a_store_that_is_out_of_reach_ends_the_run(lake: FolderLake) -> None:
    with pytest.raises(UnavailableError):
        lake.fsck(objects=FaultyObjects(lake.objects, lambda *_: "fail_before"))


def test_a_repository_with_only_its_first_commit_is_clean(tmp_path: Path) -> None:
    lake = FolderLake(tmp_path)
    lake.lake.create_repository(NAME, NAMESPACE)
    report = lake.fsck()
    assert report.findings == ()
    assert (report.counts.commits, report.counts.metaranges) == (1, 0)
    lake.tables.close()
