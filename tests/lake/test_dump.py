"""Dump and restore: what was acknowledged when a dump began is there after its restore, whatever happened meanwhile; a damaged or
unfinished dump is refused; a restore that died is repeated; history comes back from the object store alone."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    CorruptError,
    InvalidError,
    NotFoundError,
    RepositoryNotFoundError,
    UnavailableError,
)
from graveler.history.commits import CommitStore
from graveler.history.reflog import Event
from graveler.history.refs import Refs
from graveler.lake.dump.chunks import Manifest, dumps, get_manifest
from graveler.lake.dump.dump import dump
from graveler.lake.dump.history import MissingParent, rebuild_commits
from graveler.lake.dump.restore import Restored, restore
from graveler.lake.fsck.check import fsck
from graveler.lake.lake import Lake
from graveler.lake.opening.repositories import Repositories
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID, RepositoryUID
from graveler.staging.cleanup import LONGEST_REQUEST
from graveler.staging.tokens import new_token
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Key, Tables
from tests.lake.fsck_support import FolderLake, build
from tests.lake.support import NAME, NAMESPACE, World, commit, put, texts
from tests.support.campaigns import WHOLE, seed
from tests.support.instruments import Boundaries, CountingObjects, Fault, FaultyObjects, FaultyTables, fail_nth

Schedule = Callable[[str, int], Fault]


def story() -> World:
    """Branches, a hidden one among them, a merge, a tag; changes under open tokens, and under sealed ones of main and stuck."""
    world = World()
    commit(world.main, {f"k/{n:02}": f"{n}" for n in range(20)}, message="first")
    world.main.create_tag("v1", "main@")
    world.main.create_branch("dev", "main@")
    world.main.create_branch("quiet", "main@", hidden=True)
    commit(world.main, {"k/03": "dev"}, "dev", message="dev")
    commit(world.main, {"k/07": "main"}, message="main")
    world.main.merge("dev@", "main")
    world.main.create_branch("stuck", "main@")
    put(world.main, {"x/one": "x", "k/01": None}, "stuck")
    seal(world, "stuck")
    put(world.main, {"s/one": "1", "s/two": "2", "k/01": None})
    seal(world, "main")
    put(world.main, {"s/two": "newer", "s/three": "3"})
    put(world.main, {"d/one": "d", "k/02": None, "no/such": None}, "dev")
    return world


def seal(world: World, branch: str) -> None:
    """What a committer does first, before it dies."""
    refs = Refs(world.tables, world.main.repository.uid)
    state = refs.branch(branch)
    assert state is not None
    after = msgspec.structs.replace(state, open=new_token(), sealed=(*state.sealed, state.open))
    writes = refs.move_branch_writes(state, after, None)
    writes.append(world.outcomes().seal_write(state.open, "died", 0.0))
    world.tables.transact(writes)


def take(world: World, schedule: Schedule | None = None) -> Manifest:
    tables: Tables = world.tables
    objects: MemoryObjects | FaultyObjects = world.objects()
    if schedule is not None:
        boundaries = Boundaries()
        tables = FaultyTables(tables, schedule, boundaries)
        objects = FaultyObjects(objects, schedule, boundaries)
    return dump(world.main.repository, tables, objects, world.clock)


def into(
    world: World, dump_id: str, tables: Tables | None = None, name: str = NAME
) -> tuple[OpenRepository, Restored, Tables]:
    """Restore into an empty table."""
    target = MemoryTables() if tables is None else tables
    restored = restore(target, world.objects(), dump_id, name, world.clock.now(), by="ann")
    return Lake(target, world.objects, clock=world.clock).repository(name), restored, target


Shown = dict[str, object]


def shown(repository: OpenRepository) -> Shown:
    """All that a user sees of a repository."""
    branches = repository.branches(show_hidden=True).results
    return {
        "branches": [(branch.name, branch.commit_id) for branch in branches],
        "visible": [branch.name for branch in repository.branches().results],
        "tags": [(tag.name, tag.commit_id) for tag in repository.tags().results],
        "logs": {branch.name: repository.log(branch.name, amount=1000).results for branch in branches},
        "entries": {branch.name: list(repository.objects(branch.name)) for branch in branches},
        "committed": {branch.name: list(repository.objects(f"{branch.name}@")) for branch in branches},
        "uncommitted": {branch.name: repository.uncommitted(branch.name, amount=1000).results for branch in branches},
        "repository": repository.repository,
    }


# Round trip


def test_a_restored_repository_shows_all_that_the_dumped_one_did() -> None:
    world = story()
    manifest = take(world)
    repository, restored, tables = into(world, manifest.id)
    assert shown(repository) == shown(world.main)
    assert texts(repository) == texts(world.main)
    assert (restored.branches, restored.tags, restored.missing) == (4, 1, ())
    assert (manifest.branches, manifest.tags) == (4, 1)
    assert restored.staged == 9  # of two values of one path, the newer
    assert restored.commits == len({c.id for b in ("main", "dev", "quiet") for c in world.main.log(b).results})
    assert (repository.reflog("main")[0].event.operation, repository.reflog("main")[0].event.by) == ("restore", "ann")
    assert fsck(Repositories(tables).get(NAME), tables, world.objects()).findings == ()


def test_the_dump_names_the_commits_that_the_collector_has_to_keep() -> None:
    world = story()
    manifest = take(world)
    heads = {branch.commit_id for branch in world.main.branches(show_hidden=True).results}
    assert set(manifest.commits) == heads | {tag.commit_id for tag in world.main.tags().results}
    assert dumps(world.objects()) == [manifest.id]
    world.clock.time += 10
    later = take(world)
    assert dumps(world.objects()) == [manifest.id, later.id]
    assert get_manifest(world.objects(), manifest.id) == manifest


def test_a_folder_lake_is_restored_into_a_new_table(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    lake = build(tmp_path / "lake")
    before = shown(lake.repository)
    manifest = dump(lake.repository.repository, lake.tables, lake.objects, lake.clock)
    lake.tables.close()
    for path in (tmp_path / "lake").glob("tables.sqlite*"):
        path.unlink()
    again = FolderLake(tmp_path / "lake")
    restore(again.tables, again.objects, manifest.id, "repo", again.clock.now())
    assert shown(again.repository) == before
    assert again.fsck().findings == ()
    again.tables.close()


def test_work_goes_on_after_a_restore() -> None:
    world = story()
    repository, _, _ = into(world, take(world).id)
    expected = texts(world.main)
    address = world.main.new_address("main", "late")  # handed out before, used afterwards
    assert address.startswith(NAMESPACE)
    made = repository.commit("main", "after")
    assert texts(repository, made.id) == expected
    put(repository, {"new": "n"}, "dev")
    repository.commit("dev", "dev, too")
    repository.merge("dev@", "main")
    assert texts(repository)["d/one"] == "d"
    entry = world.main.stat("main", "s/three")
    world.objects().put(address.removeprefix(f"{NAMESPACE}/"), b"late")
    repository.link("main", msgspec.structs.replace(entry, path="late", address=address, size=4, checksum="not an MD5"))
    assert repository.read("main", "late") == b"late"


def test_commits_made_after_the_dump_are_not_there_after_the_restore() -> None:
    world = story()
    manifest = take(world)
    before = shown(world.main)
    world.main.commit("main", "later")
    world.main.create_branch("later", "main@")
    repository, _, _ = into(world, manifest.id)
    assert shown(repository) == before


def test_many_refs_and_changes_go_through_chunks_and_transactions() -> None:
    world = World()
    commit(world.main, {"a": "1"})
    for n in range(130):
        world.main.create_branch(f"b{n}", "main@")
        world.main.create_tag(f"t{n}", "main@")
    put(world.main, {f"x/{'y' * 900}/{n}": None for n in range(1500)})
    entry = world.main.stat("main", "a")
    world.main.link_many(
        "b7",
        [
            msgspec.structs.replace(
                entry, path=f"p/{n:05}", address=f"file:///{'long/' * 180}{n}", metadata={"k": "v" * 300}
            )
            for n in range(1500)
        ],
    )
    manifest = take(world)
    assert sum(chunk.kind == "staged" for chunk in manifest.chunks) > 2
    assert max(chunk.size for chunk in manifest.chunks) < 3 << 20
    repository, restored, _ = into(world, manifest.id)
    assert restored.branches == 131
    for branch in ("main", "b7"):
        mine, theirs = (list(r.objects(branch)) for r in (repository, world.main))
        assert mine == theirs
    assert repository.branches(amount=1000) == world.main.branches(amount=1000)
    assert repository.tags(amount=1000) == world.main.tags(amount=1000)


def test_a_token_with_many_shards_keeps_them() -> None:
    world = story()
    refs = Refs(world.tables, world.main.repository.uid)
    state = refs.branch("quiet")
    assert state is not None
    world.tables.transact(refs.move_branch_writes(state, msgspec.structs.replace(state, open=new_token(8)), None))
    put(world.main, {f"q/{n}": "q" for n in range(40)}, "quiet")
    repository, _, _ = into(world, take(world).id)
    assert texts(repository, "quiet") == texts(world.main, "quiet")


def test_an_attribute_that_this_version_does_not_know_comes_back() -> None:
    world = story()
    uid = world.main.repository.uid
    keys = [Key("repositories", NAME.encode()), Refs(world.tables, uid).branch_key("dev")]
    for key in keys:
        world.tables.put(key, {**(world.tables.get(key) or {}), "some_day": ["x"]})
    _, _, tables = into(world, take(world).id)
    assert all((tables.get(key) or {})["some_day"] == ["x"] for key in keys)


# A dump at which others are at work


def stage_and_commit(world: World) -> None:
    put(world.main, {"s/one": "changed", "later": "l"})
    world.main.commit("main", "meanwhile")


def only_commit(world: World) -> None:
    world.main.commit("main", "meanwhile")


def commit_and_sweep(world: World) -> None:
    world.main.commit("main", "meanwhile")
    world.clock.time += LONGEST_REQUEST + 1
    put(world.main, {"sweep": "s"})
    world.main.commit("main", "sweeps")


def two_commits(world: World) -> None:
    world.main.commit("main", "one")
    put(world.main, {"s/two": "newest", "s/one": None})
    world.main.commit("main", "two")


def commit_all_and_merge(world: World) -> None:
    world.main.commit("main", "meanwhile")
    world.main.commit("dev", "meanwhile")
    world.main.merge("dev@", "main")
    put(world.main, {"s/two": "newest"})


def only_stage(world: World) -> None:
    put(world.main, {"s/two": "newest", "later": "l"})
    put(world.main, {"later": "l"}, "dev")


def new_branch(world: World) -> None:
    world.main.create_branch("late", "dev@")
    put(world.main, {"later": "l"}, "late")


def delete_branch(world: World) -> None:
    world.main.delete_branch("dev")


def rename(world: World, name: str = "renamed") -> None:
    """One transaction that gives a branch another name, with its tokens."""
    refs = Refs(world.tables, world.main.repository.uid)
    state = refs.branch("dev")
    assert state is not None
    event = Event(1, "rename", "op", "")
    renamed = msgspec.structs.replace(state, name=name)
    world.tables.transact([*refs.delete_branch_writes(state, event), *refs.create_branch_writes(renamed, event)])


def rename_to_where_was_read(world: World) -> None:
    """A listing that has read dev2's shard and not dev's yet sees neither."""
    rename(world, "dev2")


def rename_and_commit(world: World) -> None:
    rename(world, "dev2")
    world.main.commit("dev2", "by its new name")


def rename_and_replace(world: World) -> None:
    rename(world, "dev2")
    world.main.create_branch("dev", "main@")


def publish_and_sweep(world: World) -> None:
    """What an adopter of a dead one's work does; then so much time passes that the applied changes are removed."""
    world.main.commit("stuck", "adopted")
    world.cleanup().sweep(world.staged(), world.clock.now() + LONGEST_REQUEST + 1)


MEANWHILE: dict[str, tuple[Callable[[World], None], set[str]]] = {
    act.__name__: (act, touched)
    for act, touched in (
        (stage_and_commit, {"s/one", "later"}),
        (only_commit, set()),
        (two_commits, {"s/one", "s/two"}),
        (commit_and_sweep, {"sweep"}),
        (commit_all_and_merge, {"s/two", "d/one", "k/02"}),
        (only_stage, {"s/two", "later"}),
        (new_branch, {"later"}),
        (delete_branch, set()),
        (rename, set()),
        (rename_to_where_was_read, set()),
        (rename_and_commit, set()),
        (rename_and_replace, {"d/one", "k/02", "k/07"}),
        (publish_and_sweep, set()),
    )
}


RENAMES = (rename, rename_to_where_was_read, rename_and_commit, rename_and_replace)
ALL_COMMITTED = (only_commit, two_commits, commit_and_sweep)
"""After these, nothing is staged on any branch that they touch."""


def test_the_names_for_renaming_lie_before_and_behind_in_a_listing() -> None:
    refs = Refs(MemoryTables(), RepositoryUID("uid"))
    before, at, behind = (refs.branch_key(name).partition for name in ("dev2", "dev", "renamed"))
    assert before < at < behind


@pytest.mark.search
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_was_acknowledged_is_there_whatever_happens_at_any_request_of_the_dump(meanwhile: str) -> None:
    act, touched = MEANWHILE[meanwhile]
    every = 1 if WHOLE else 5
    moments = (seed() + crc32(meanwhile.encode())) % every
    while True:
        world = story()
        before = {b.name: texts(world.main, b.name) for b in world.main.branches(show_hidden=True).results}
        happened = False

        def at(_: str, number: int, moment: int = moments, world: World = world) -> Fault:
            nonlocal happened
            if number == moment:
                happened = True
                act(world)
            return None

        manifest = take(world, at)
        if not happened:
            break
        after = {b.name: texts(world.main, b.name) for b in world.main.branches(show_hidden=True).results}
        repository, _, tables = into(world, manifest.id)
        assert fsck(Repositories(tables).get(NAME), tables, world.objects()).findings == ()
        names = {branch.name for branch in repository.branches(show_hidden=True).results}
        assert names in ({*before}, {*after}), moments
        if act in RENAMES:
            assert before["dev"] in [texts(repository, name) for name in names], moments
        for name in names:
            then = before.get(name, after.get(name, {}))
            now = after.get(name, then)
            got = texts(repository, name)
            for path in {*then, *now, *got}:
                allowed = (then.get(path), now.get(path)) if path in touched else (then.get(path),)
                assert got.get(path) in allowed, (moments, name, path)
        moments += every
    assert moments > 50


@pytest.mark.parametrize("act", [rename_and_replace, rename_and_commit, stage_and_commit, publish_and_sweep])
def test_a_dump_whose_rounds_are_used_up_gives_up_rather_than_miss_a_branch(
    act: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graveler.lake.dump.dump._ROUNDS", 1)
    gave_up = 0
    for moment in range(45):
        world = story()
        before = {name: texts(world.main, name) for name in ("dev", "stuck")}

        def at(_: str, number: int, moment: int = moment, world: World = world) -> Fault:
            if number == moment:
                act(world)
            return None

        try:
            repository, _, _ = into(world, take(world, at).id)
        except BusyError:
            gave_up += 1
            continue
        got = [texts(repository, branch.name) for branch in repository.branches(show_hidden=True).results]
        assert before["dev"] in got, moment
        assert before["stuck"] in got, moment
    assert gave_up < 30
    assert gave_up > 0 or act not in RENAMES


def test_a_dump_during_which_every_request_meets_a_commit_ends_and_loses_nothing() -> None:
    world = story()
    busy = False

    def at(method: str, number: int) -> Fault:
        nonlocal busy
        if not busy and number % 5 == 0:
            busy = True
            put(world.main, {f"new/{number}": "n"})
            world.main.commit("main", f"{number}")
            busy = False
        return None

    before = texts(world.main)
    repository, _, _ = into(world, take(world, at).id)
    got = texts(repository)
    assert {path: got.get(path) for path in before} == before


def test_a_dump_of_branches_that_vanish_without_a_trace_gives_up() -> None:
    world = story()
    refs = Refs(world.tables, world.main.repository.uid)

    def at(method: str, number: int) -> Fault:
        world.tables.delete(refs.branch_key(f"x{number - 40}"))
        key = refs.branch_key(f"x{number}")
        item = dict(world.tables.get(refs.branch_key("dev")) or {})
        world.tables.put(key, {**item, "open": f"{number:032}-1"})
        return None

    with pytest.raises(BusyError, match="change too fast"):
        take(world, at)
    assert dumps(world.objects()) == []


@pytest.mark.parametrize("fault", ["fail_before", "fail_after"])
def test_a_dump_that_fails_is_not_there_or_is_whole(fault: Fault) -> None:
    world = story()
    boundaries = Boundaries()
    dump(world.main.repository, FaultyTables(world.tables, lambda *_: None, boundaries), world.objects(), world.clock)
    for moment in range(0, len(boundaries.seen) + 12, 3):
        world = story()
        with suppress(UnavailableError):
            take(world, fail_nth(moment, fault))
        for dump_id in dumps(world.objects()):
            assert shown(into(world, dump_id)[0]) == shown(world.main)


def test_a_head_whose_record_is_lost_is_put_back_by_a_dump() -> None:
    world = story()
    head = world.main.branch("main").commit_id
    world.objects().delete(f"_graveler/commits/{head}")
    assert shown(into(world, take(world).id)[0]) == shown(world.main)


def test_a_ref_that_points_at_nothing_stops_a_dump() -> None:
    world = story()
    refs = Refs(world.tables, world.main.repository.uid)
    world.tables.put(refs.tag_key("v1"), {"commit": "ab" * 32})
    with pytest.raises(CorruptError, match="abab"):
        take(world)


def test_a_repository_that_was_deleted_meanwhile_is_not_dumped() -> None:
    world = story()
    world.lake().delete_repository(NAME)
    with pytest.raises(RepositoryNotFoundError):
        take(world)


# Damaged dumps


@pytest.mark.parametrize("kind", ["staged", "branches", "tags", "settings"])
@pytest.mark.parametrize("damage", ["flip", "cut", "delete"])
def test_a_damaged_chunk_is_named_and_no_repository_appears(kind: str, damage: str) -> None:
    world = story()
    manifest = take(world)
    chunk = next(chunk for chunk in manifest.chunks if chunk.kind == kind)
    key = f"_graveler/dumps/{manifest.id}/{chunk.name}"
    data = bytearray(world.objects().get(key))
    if damage == "delete":
        world.objects().delete(key)
    else:
        data[len(data) // 2] ^= 1
        world.objects().put(key, bytes(data) if damage == "flip" else bytes(data[:-1]))
    tables = MemoryTables()
    with pytest.raises(CorruptError, match=chunk.name):
        into(world, manifest.id, tables)
    assert not Repositories(tables).exists(NAME)


def test_a_damaged_manifest_and_one_that_is_missing_are_told_apart() -> None:
    world = story()
    manifest = take(world)
    key = f"_graveler/dumps/{manifest.id}/manifest.json"
    world.objects().put(key, world.objects().get(key)[:-9])
    with pytest.raises(CorruptError, match=r"manifest\.json is damaged"):
        into(world, manifest.id)
    world.objects().delete(key)
    with pytest.raises(NotFoundError, match="never finished"):
        into(world, manifest.id)
    assert dumps(world.objects()) == []
    for bad in ("", "..", "a/b"):
        with pytest.raises(InvalidError, match="is not the ID of a dump"):
            into(world, bad)


def test_a_dump_of_a_newer_format_is_refused_by_name() -> None:
    world = story()
    manifest = take(world)
    key = f"_graveler/dumps/{manifest.id}/manifest.json"
    world.objects().put(key, msgspec.json.encode({"version": 2, "what": "ever"}))
    with pytest.raises(InvalidError, match="has format 2"):
        into(world, manifest.id)


def test_a_head_that_the_object_store_lost_is_named_and_nothing_appears() -> None:
    world = story()
    manifest = take(world)
    head = world.main.branch("main").commit_id
    world.objects().delete(f"_graveler/commits/{head}")
    tables = MemoryTables()
    with pytest.raises(CorruptError, match=head):
        into(world, manifest.id, tables)
    assert not Repositories(tables).exists(NAME)


def test_an_older_commit_that_the_object_store_lost_is_told_and_the_rest_restored() -> None:
    world = story()
    manifest = take(world)
    first = world.main.log("main", amount=100).results[-1]
    (child,) = [c.id for c in world.main.log("main", amount=100).results if first.id in c.parents]
    world.objects().delete(f"_graveler/commits/{first.id}")
    repository, restored, _ = into(world, manifest.id)
    assert restored.missing == (MissingParent(child, first.id),)
    assert texts(repository) == texts(world.main)


# Restoring where something is already


def test_a_repository_that_is_there_is_not_restored_over() -> None:
    world = story()
    manifest = take(world)
    with pytest.raises(AlreadyExistsError, match="already exists"):
        into(world, manifest.id, world.tables)
    with pytest.raises(AlreadyExistsError, match="the repository that this dump was made of"):
        into(world, manifest.id, world.tables, "other")
    target = MemoryTables()
    into(world, manifest.id, target)
    with pytest.raises(AlreadyExistsError):
        into(world, manifest.id, target)


def test_a_deleted_repository_comes_back_as_dumped_without_what_came_later() -> None:
    world = story()
    before = shown(world.main)
    manifest = take(world)
    put(world.main, {"later": "l"})
    put(world.main, {"later": "l"}, "dev")
    world.main.create_branch("later", "main@")
    world.main.create_tag("later-tag", "main@")
    world.main.commit("main", "later")
    world.lake().delete_repository(NAME)
    repository, _, _ = into(world, manifest.id, world.tables)
    assert shown(repository) == before
    with pytest.raises(InvalidError, match="belongs to repository"):
        world.lake().create_repository("other", NAMESPACE)


def test_a_restored_repository_may_have_another_name_and_keeps_its_namespace() -> None:
    world = story()
    repository, _, tables = into(world, take(world).id, name="other")
    assert texts(repository) == texts(world.main)
    assert repository.repository.uid == world.main.repository.uid
    assert fsck(Repositories(tables).get("other"), tables, world.objects()).findings == ()
    world.clock.time += 10_000
    with pytest.raises(InvalidError, match="belongs to repository 'other'"):
        Lake(tables, world.objects, clock=world.clock).create_repository("third", NAMESPACE)


def test_a_namespace_that_belongs_to_another_by_now_is_left_alone() -> None:
    world = story()
    manifest = take(world)
    marker = msgspec.json.decode(world.objects().get("_graveler/repository"))
    world.objects().put("_graveler/repository", msgspec.json.encode({**marker, "uid": "other"}))
    tables = MemoryTables()
    with pytest.raises(InvalidError, match=r"belongs to repository .* now"):
        into(world, manifest.id, tables)
    assert not Repositories(tables).exists(NAME)


@pytest.mark.parametrize("fault", ["fail_before", "fail_after", "repeat"])
def test_a_restore_that_fails_at_any_request_is_repeated_to_the_same_end(fault: Fault) -> None:
    world = story()
    manifest = take(world)
    expected = shown(world.main)
    marker = world.objects().get("_graveler/repository")
    boundaries = Boundaries()
    restore(FaultyTables(MemoryTables(), lambda *_: None, boundaries), world.objects(), manifest.id, NAME, 0)
    world.objects().put("_graveler/repository", marker)
    assert len(boundaries.seen) > 40
    for moment in range(len(boundaries.seen)):
        tables = MemoryTables()
        lake = Lake(tables, world.objects, clock=world.clock)
        try:
            restore(FaultyTables(tables, fail_nth(moment, fault)), world.objects(), manifest.id, NAME, 0)
        except UnavailableError:
            if not Repositories(tables).exists(NAME):
                restore(tables, world.objects(), manifest.id, NAME, 0)
        assert shown(lake.repository(NAME)) == expected, moment


def test_of_two_restores_at_once_one_wins_and_its_users_lose_nothing() -> None:
    world = story()
    manifest = take(world)
    boundaries = Boundaries()
    restore(FaultyTables(MemoryTables(), lambda *_: None, boundaries), world.objects(), manifest.id, NAME, 0)
    for moment in range(len(boundaries.seen)):
        tables = MemoryTables()
        lake = Lake(tables, world.objects, clock=world.clock)
        used: Shown = {}

        def at(
            _: str,
            number: int,
            moment: int = moment,
            tables: Tables = tables,
            lake: Lake = lake,
            used: Shown = used,
        ) -> Fault:
            if number == moment:
                restore(tables, world.objects(), manifest.id, NAME, 0)
                repository = lake.repository(NAME)
                put(repository, {"s/two": "after", "mine": "m"})
                put(repository, {"d/one": "after"}, "dev")
                repository.commit("main", "by a user of the faster one")
                used.update(shown(repository))
            return None

        with pytest.raises(AlreadyExistsError):
            restore(FaultyTables(tables, at), world.objects(), manifest.id, NAME, 0)
        assert used
        assert shown(lake.repository(NAME)) == used, moment


# History from the object store alone


def test_history_comes_back_from_the_object_store_alone_with_its_lines() -> None:
    world = story()
    uid = world.main.repository.uid
    for n in range(45):
        world.main.commit("quiet", f"{n}", allow_empty=True)
    commits = {c.id: c for b in ("main", "dev", "quiet") for c in world.main.log(b, amount=1000).results}
    tables = MemoryTables()
    for _ in range(2):  # and once more, to no effect
        rebuilt = rebuild_commits(tables, uid, world.objects())
        assert (rebuilt.commits, rebuilt.damaged, rebuilt.missing) == (len(commits), (), ())
        for cid in commits:
            key = CommitStore(tables, uid).key(cid)
            assert tables.get(key) == world.tables.get(key)
    heads = [branch.commit_id for branch in world.main.branches(show_hidden=True).results]
    assert {commit.id for commit in rebuilt.heads} <= set(heads)
    assert {world.main.branch("main").commit_id, world.main.branch("quiet").commit_id} == {c.id for c in rebuilt.heads}
    assert list(rebuilt.heads) == sorted(rebuilt.heads, key=lambda c: (-c.created, -c.generation, c.id))


def test_damaged_records_and_missing_parents_are_named() -> None:
    world = story()
    uid = world.main.repository.uid
    log = world.main.log("main", amount=100, first_parent=True).results
    broken, gone = log[1].id, log[-1].id
    world.objects().put(f"_graveler/commits/{broken}", b"{}")
    world.objects().put("_graveler/commits/no-commit", b"{}")
    world.objects().delete(f"_graveler/commits/{gone}")
    tables = MemoryTables()
    rebuilt = rebuild_commits(tables, uid, world.objects())
    assert set(rebuilt.damaged) == {f"_graveler/commits/{broken}", "_graveler/commits/no-commit"}
    assert set(rebuilt.missing) == {MissingParent(log[0].id, broken), MissingParent(log[-2].id, gone)}
    assert CommitStore(tables, uid).get(log[0].id) == log[0]


def test_only_what_is_asked_for_is_rebuilt_and_is_alive_afterwards() -> None:
    world = story()
    uid = world.main.repository.uid
    dev = world.main.branch("dev").commit_id
    key = CommitStore(world.tables, uid).key(dev)
    before = world.tables.get(key)
    assert before is not None
    world.tables.put(key, {**before, "expired": 5})
    assert rebuild_commits(world.tables, uid, world.objects()).commits > 4
    assert (world.tables.get(key) or {})["expired"] == 5
    tables = MemoryTables()
    rebuilt = rebuild_commits(tables, uid, world.objects(), reachable_from=[dev, CommitID("ab" * 32)])
    assert rebuilt.commits == len(world.main.log("dev", amount=100).results)
    assert rebuilt.missing == (MissingParent(None, CommitID("ab" * 32)),)
    assert [commit.id for commit in rebuilt.heads] == [dev]
    rebuild_commits(world.tables, uid, world.objects(), reachable_from=[dev])
    assert world.tables.get(key) == before


def test_a_damaged_item_is_replaced_and_each_record_is_read_once() -> None:
    world = story()
    uid = world.main.repository.uid
    key = CommitStore(world.tables, uid).key(world.main.branch("dev").commit_id)
    before = world.tables.get(key)
    world.tables.put(key, {"record": b"nonsense"})
    objects = CountingObjects(world.objects())
    rebuilt = rebuild_commits(world.tables, uid, objects)
    assert world.tables.get(key) == before
    assert objects.calls == {"list": 1, "get": rebuilt.commits}


def test_a_reset_of_some_paths_at_any_moment_of_a_dump_loses_nothing_of_the_others() -> None:
    """It puts what a dead commit had sealed, and is to stay, into the open token: maybe after the dump has read that."""
    for moment in range(200):
        world = story()
        reached = False

        def schedule(_: str, number: int, at: int = moment, world: World = world) -> Fault:
            nonlocal reached
            if number == at:
                reached = True
                world.main.reset("main", path="s/one")
            return None

        manifest = take(world, schedule)
        if not reached:
            break
        repository, _, _ = into(world, manifest.id)
        found = texts(repository)
        found.pop("s/one", None)
        assert found == texts(world.main), moment
    else:
        raise AssertionError("a dump makes fewer requests")
