"""Commits that a later version of graveler made: every way to them says so and names them, none takes them for damage, and
nothing that may depend on them is repaired, restored, collected or counted as garbage. What is damaged stays damage."""

from collections.abc import Callable

import msgspec
import pytest

from graveler.errors import CorruptError, GravelerError, LaterVersionError
from graveler.history.commits import CommitStore
from graveler.lake.dump.history import rebuild_commits
from graveler.lake.dump.restore import restore
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.repository import OpenRepository
from graveler.model import Application, CommitID
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Item, Key
from tests.lake.fsck_support import FolderLake, kinds, link, names, one
from tests.lake.support import NAMESPACE, World, commit, put

K = FindingKind
Copies = tuple[bool, bool]
"""Whether the table's copy of a record changes, and the object store's."""
BOTH: Copies = (True, True)


def next_version(record: bytes) -> bytes:
    return record.replace(b'{"version":1', b'{"version":2')


def other_fields(record: bytes) -> bytes:
    return msgspec.json.encode({"version": 7, "levels": [1, 2], "message": msgspec.json.decode(record)["message"]})


def more_fields(record: bytes) -> bytes:
    return record.replace(b'{"version":1', b'{"version":1,"flavour":"x"')


def truncated(record: bytes) -> bytes:
    return next_version(record)[:-9]


LATER = [next_version, other_fields]
DAMAGE = [more_fields, truncated]
Change = Callable[[bytes], bytes]


def change(lake: FolderLake, commit_id: CommitID, changed: Change, copies: Copies = BOTH) -> None:
    """Change a commit's record, in the table, in the object store, or in both."""
    key = lake.commit_key(commit_id)
    record = lake.item(key)["record"]
    assert isinstance(record, bytes)
    if copies[0]:
        lake.change_item(key, record=changed(record))
    if copies[1]:
        lake.objects.put(f"_graveler/commits/{commit_id}", changed(record))


def stored(lake: FolderLake) -> tuple[dict[str, bytes], dict[str, Item | None]]:
    """All files, and the items of all commits that have a record."""
    files = {entry.key: lake.objects.get(entry.key) for entry in lake.objects.list("")}
    records = [key.rpartition("/")[2] for key in files if key.startswith("_graveler/commits/")]
    return files, {name: lake.tables.get(lake.commit_key(CommitID(name))) for name in records}


VERBS: list[Callable[[OpenRepository], object]] = [
    lambda r: r.commit_of("main"),
    lambda r: r.stat("main", "inside"),
    lambda r: r.list_objects("main"),
    lambda r: r.log("main"),
    lambda r: r.diff("main", "dev"),
    lambda r: r.merge("dev", "main"),
    lambda r: r.merge("main", "dev"),
    lambda r: r.revert("main", "dev"),
    lambda r: r.commit("main", "m", allow_empty=True),
]


@pytest.mark.parametrize("changed", [*LATER, *DAMAGE])
def test_every_verb_names_the_commit_and_what_to_do(lake: FolderLake, changed: Change) -> None:
    head = lake.head("main").id
    lake.repository.reset("dev")
    change(lake, head, changed)
    fresh = FolderLake(lake.folder)
    for verb in VERBS:
        with pytest.raises(GravelerError, match=head) as refused:
            verb(fresh.repository)
        is_later = changed in LATER
        assert isinstance(refused.value, LaterVersionError if is_later else CorruptError)
        assert ("made by a later version of graveler" in str(refused.value)) == is_later
    assert fresh.repository.branch("main").commit_id == head
    fresh.tables.close()


@pytest.mark.parametrize("changed", LATER)
@pytest.mark.parametrize("repair", [False, True])
def test_fsck_takes_it_for_no_damage_and_changes_nothing(lake: FolderLake, changed: Change, repair: bool) -> None:
    head = lake.head("main")
    change(lake, head.id, changed)
    before = stored(lake)
    report = lake.fsck(repair=repair)
    finding = one(report)
    assert (finding.kind, finding.commits, finding.repaired) == (K.LATER_VERSION, (head.id,), False)
    assert "made by a later version of graveler" in finding.why
    assert "Upgrade graveler" in finding.remedy
    assert names(finding) == {("main", False)}
    assert (report.remaining, report.later) == ((), (finding,))
    assert (report.clean, report.complete) == (False, False)
    assert stored(lake) == before


def test_what_only_it_reaches_is_no_garbage_and_is_not_counted_as_checked(lake: FolderLake) -> None:
    whole = lake.fsck()
    head = lake.head("dev")
    change(lake, head.id, next_version)
    report = lake.fsck()
    assert report.counts.commits < whole.counts.commits
    assert not any(msgspec.structs.astuple(report.garbage))
    assert (whole.scope.garbage, report.scope.garbage) == (True, False)


@pytest.mark.parametrize("copies", [(True, False), (False, True)])
@pytest.mark.parametrize("repair", [False, True])
def test_one_copy_of_a_later_version_is_not_rebuilt_from_the_other(
    lake: FolderLake, copies: Copies, repair: bool
) -> None:
    commits = lake.fsck().counts.commits
    change(lake, lake.head("main").id, next_version, copies)
    before = stored(lake)
    report = lake.fsck(repair=repair)
    finding = one(report)
    assert (finding.kind, finding.repaired) == (K.LATER_VERSION, False)
    assert "only the other copy was checked" in finding.why
    assert report.counts.commits == commits
    assert stored(lake) == before


@pytest.mark.parametrize("changed", DAMAGE)
@pytest.mark.parametrize(
    ("copies", "kind"), [((True, False), K.COMMIT_ITEM), ((False, True), K.COMMIT_RECORD), (BOTH, K.COMMIT_DAMAGED)]
)
def test_other_fields_in_this_version_and_truncated_bytes_are_damage(
    lake: FolderLake, changed: Change, copies: Copies, kind: FindingKind
) -> None:
    change(lake, lake.head("main").id, changed, copies)
    report = lake.fsck()
    assert one(report).kind is kind
    assert report.complete
    repaired = lake.fsck(repair=True)
    assert one(repaired).repaired == (copies != BOTH)
    if copies != BOTH:
        assert not lake.fsck().findings


def test_a_row_without_its_checksum_is_damage_in_any_version(lake: FolderLake) -> None:
    head = lake.head("main").id
    change(lake, head, next_version, (False, True))
    lake.smash_item(lake.commit_key(head))
    before = lake.objects.get(f"_graveler/commits/{head}")
    for repair in (False, True):
        report = lake.fsck(repair=repair)
        assert kinds(report) == {K.LATER_VERSION: 1, K.COMMIT_ITEM: 1}
        assert len(report.remaining) == 1
        assert "Upgrade graveler and run again with repair" in report.remaining[0].remedy
    assert lake.objects.get(f"_graveler/commits/{head}") == before


def test_damage_elsewhere_is_found_and_repaired_beside_it(lake: FolderLake) -> None:
    change(lake, lake.head("main").id, next_version)
    lake.objects.delete(f"_graveler/commits/{lake.head('dev').id}")
    report = lake.fsck(repair=True)
    assert kinds(report) == {K.LATER_VERSION: 1, K.COMMIT_RECORD: 1}
    assert (report.remaining, report.complete) == ((), False)
    assert kinds(lake.fsck()) == {K.LATER_VERSION: 1}


def test_of_two_copies_none_is_right_if_that_depends_on_a_parent_of_a_later_version(lake: FolderLake) -> None:
    head = lake.head("main")
    change(lake, head.parents[0], next_version)
    changed = lake.objects.get(f"_graveler/commits/{head.id}").replace(
        b'"generation":%d' % head.generation, b'"generation":%d' % (head.generation + 1)
    )
    lake.objects.put(f"_graveler/commits/{head.id}", changed)
    for repair in (False, True):
        report = lake.fsck(repair=repair)
        assert kinds(report) == {K.LATER_VERSION: 1, K.COMMIT_DISAGREES: 1}
        (damage,) = report.remaining
        assert "It is unknown which one is right" in damage.remedy
    assert lake.objects.get(f"_graveler/commits/{head.id}") == changed


def test_one_that_only_a_reference_log_or_nothing_names_is_told_too(lake: FolderLake) -> None:
    link(lake, "dev", {"p/new": 1})
    dropped = lake.repository.commit("dev", "dropped").id
    lake.repository.undo("dev")
    change(lake, dropped, next_version)
    logged = one(lake.fsck())
    assert (logged.kind, [ref.kind for ref in logged.refs]) == (K.LATER_VERSION, ["reflog"])
    unreached = lake.fsck(reflog=False)
    assert (one(unreached).kind, one(unreached).refs) == (K.LATER_VERSION, ())
    assert not unreached.scope.garbage


def test_a_row_of_an_application_is_not_judged_by_what_cannot_be_read(lake: FolderLake) -> None:
    repository = lake.repository
    repository.create_branch("try", "main", hidden=True)
    link(lake, "try", {"batch/1": 1})
    repository.commit("try", "batch")
    written = repository.merge("try", "main", application=Application("stream", 1))
    link(lake, "main", {"p/new": 1})
    head = lake.repository.commit("main", "later").id
    for commit_id in (head, written.id):
        change(lake, commit_id, next_version)
        report = lake.fsck(repair=True)
        assert set(kinds(report)) == {K.LATER_VERSION}
    row = lake.tables.query(f"{lake.uid}/applications", limit=9)
    assert len(row.items) == 1


# Dumps


def make_later(world: World, commit_id: CommitID, changed: Change = next_version) -> None:
    key = CommitStore(world.tables, world.main.repository.uid).key(commit_id)
    item: Item = world.tables.get(key) or {}
    record = item["record"]
    assert isinstance(record, bytes)
    world.tables.put(key, {**item, "record": changed(record)})
    world.objects().put(f"_graveler/commits/{commit_id}", changed(record))


def written() -> World:
    world = World()
    for number in range(4):
        commit(world.main, {f"k/{number}": f"{number}"}, message=f"{number}")
    put(world.main, {"staged": "1"})
    return world


@pytest.mark.parametrize("changed", LATER)
def test_a_dump_of_such_a_head_is_refused(changed: Change) -> None:
    world = written()
    head = world.main.commit_of("main")
    make_later(world, head.id, changed)
    with pytest.raises(LaterVersionError, match=head.id):
        world.repository().dump()
    assert not world.lake().dumps(NAMESPACE)


@pytest.mark.parametrize("changed", LATER)
@pytest.mark.parametrize("back", [0, 2])
def test_a_restore_that_needs_one_writes_nothing(changed: Change, back: int) -> None:
    world = written()
    dump_id = world.main.dump().id
    lost = world.main.log("main").results[back].id
    make_later(world, lost, changed)
    tables = MemoryTables()
    with pytest.raises(LaterVersionError, match=lost):
        restore(tables, world.objects(), dump_id, "again", world.clock.time)
    assert not any(tables.query(f"{world.main.repository.uid}/commit/{digit:x}", limit=1).items for digit in range(16))


def test_a_restore_that_does_not_need_one_leaves_it_alone() -> None:
    world = written()
    dump_id = world.main.dump().id
    commit(world.main, {"k/new": "new"})
    since = world.main.branch("main").commit_id
    make_later(world, since)
    record = world.objects().get(f"_graveler/commits/{since}")
    restored = restore(MemoryTables(), world.objects(), dump_id, "again", world.clock.time)
    assert restored.missing == ()
    assert world.objects().get(f"_graveler/commits/{since}") == record


def test_history_is_not_rebuilt_around_one() -> None:
    world = written()
    uid = world.main.repository.uid
    head = world.main.commit_of("main")
    make_later(world, head.id)
    tables = MemoryTables()
    with pytest.raises(LaterVersionError, match=head.id):
        rebuild_commits(tables, uid, world.objects())
    assert tables.get(Key(f"{uid}/commit/{head.parents[0][0]}", head.parents[0].encode())) is None
    rebuilt = rebuild_commits(tables, uid, world.objects(), reachable_from=[head.parents[0]])
    assert rebuilt.missing == ()
