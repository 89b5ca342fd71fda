"""Stores that refuse, are busy, or delete many objects at once; unfinished uploads; the order of reads."""

import builtins
from collections.abc import Iterator, Sequence

import pytest

from graveler.errors import BusyError, GravelerError, UnavailableError
from graveler.lake.clock import GRACE
from graveler.lake.objects.uploads import finish_upload, upload_part
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.rate_limit import Pace
from graveler.retention.runs import Candidate, Kind, Mode, Outcome, Summary, Tally
from graveler.retention.sweeper import Sweeper
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import NotPermittedError, StoredObject, UnfinishedUpload
from tests.lake.support import FakeClock, World
from tests.retention.support import AGE, collect, keys, write
from tests.support.instruments import CountingObjects


@pytest.fixture
def world() -> World:
    world = World()
    write(world.main, "main", kept="kept")
    return world


def drop(world: World, *texts: str) -> list[str]:
    """Objects that nobody needs, and that are old."""
    before = keys(world, "data/")
    for text in texts:
        world.main.upload("main", text, text.encode())
    world.main.reset("main")
    world.clock.time += AGE
    return sorted(keys(world, "data/") - before)


def collect_from(world: World, objects: MemoryObjects | CountingObjects, mode: Mode = Mode.DELETE) -> Summary:
    opened = world.repository()
    opened.namespace = objects
    return Garbage(opened, Options(mode, threads=1)).run()


class Refusing(MemoryObjects):
    """Whoever asks has no right to delete some objects, nor to look at uploads."""

    def __init__(self, inner: MemoryObjects, refused: str) -> None:
        super().__init__(inner.namespace)
        self.__dict__.update(inner.__dict__)
        self._refused = refused

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        if key == self._refused:
            raise NotPermittedError(f"{key}: these credentials do not allow it")
        super().delete(key, if_match=if_match)

    def uploads(self) -> Iterator[UnfinishedUpload]:
        raise NotPermittedError("these credentials do not allow it")


@pytest.mark.parametrize("mode", [Mode.DELETE, Mode.QUARANTINE])
def test_what_may_not_be_removed_stays_and_is_said(world: World, mode: Mode) -> None:
    first, second = drop(world, "one", "two")
    slept = world.clock.slept
    summary = collect_from(world, Refusing(world.objects(), second), mode)
    done = Outcome.DELETED if mode is Mode.DELETE else Outcome.QUARANTINED
    assert summary.outcomes["object"] == {Outcome.FAILED.value: Tally(1, 3), done.value: Tally(1, 3)}
    assert second in keys(world, "data/")
    assert first not in keys(world, "data/")
    assert summary.plan.unlisted == ("unfinished uploads: these credentials do not allow it",)
    assert world.clock.slept - slept < 1, "nobody asks again for what is not allowed"
    assert collect(world).outcomes["object"] == {Outcome.DELETED.value: Tally(1, 3)}, "the next run may be allowed to"


class Busy(MemoryObjects):
    """Takes only so many requests that delete within a second, and asks to slow down."""

    def __init__(self, clock: FakeClock, rate: int) -> None:
        super().__init__("mem://busy", clock.now)
        self._rate = rate
        self.asked: list[float] = []
        self.refused = 0

    def delete_many(self, objects: Sequence[tuple[str, str]]) -> builtins.list[GravelerError | None]:
        now = self._clock()
        self.asked.append(now)
        if sum(at > now - 1 for at in self.asked) > self._rate:
            self.refused += 1
            return [BusyError("reduce your request rate") for _ in objects]
        return super().delete_many(objects)


def test_a_busy_store_is_asked_more_slowly_by_all_and_everything_goes(world: World) -> None:
    store = Busy(world.clock, 20)
    candidates = []
    for number in range(300):
        stored = store.put(f"data/{number:06}", b"1")
        candidates.append(Candidate(Kind.OBJECT, stored.key, 1, stored.etag, stored.modified, ""))
    pace = Pace(world.clock, 1000.0)
    sweeper = Sweeper(store, world.clock, 1, pace)
    began = world.clock.now()
    for candidate in candidates:
        assert sweeper.sweep("run", Mode.DELETE, [candidate], lambda: None) == [Outcome.DELETED]
    took = world.clock.now() - began
    assert list(store.list()) == []
    assert store.refused < 60, "it learns how much the store takes"
    assert 300 / 20 * 0.9 <= took <= 300 / 20 * 4
    assert pace.rate < 100


def test_a_store_that_stays_busy_is_given_up_and_loses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (key,) = drop(world, "one")
    store = world.objects()
    counted = CountingObjects(store)

    def never(_: Sequence[tuple[str, str]]) -> list[GravelerError | None]:
        raise UnavailableError("no answer")

    monkeypatch.setattr(counted, "delete_many", never)
    began = world.clock.now()
    assert collect_from(world, counted).outcomes["object"] == {Outcome.FAILED.value: Tally(1, 3)}
    assert 50 <= world.clock.now() - began <= 120
    assert key in keys(world, "data/")
    assert collect(world).outcomes["object"] == {Outcome.DELETED.value: Tally(1, 3)}


def test_many_objects_go_with_one_request(world: World) -> None:
    drop(world, *(f"object {number}" for number in range(50)))
    counted = CountingObjects(world.objects())
    assert collect_from(world, counted).total(Outcome.DELETED).files == 50
    assert (counted.calls["delete_many"], counted.calls["delete"]) == (1, 0)


def test_in_quarantine_no_byte_passes_through(world: World) -> None:
    drop(world, "one", "two")
    counted = CountingObjects(world.objects())
    summary = collect_from(world, counted, Mode.QUARANTINE)
    assert counted.calls["copy"] == 2
    assert not [key for method, key in counted.keys if method in ("get", "stream") and key.startswith("data/")]
    counted.reset()
    opened = world.repository()
    opened.namespace = counted
    assert [restored for _, restored in Garbage(opened).restore(summary.plan.run)] == [True, True]
    assert (counted.calls["copy"], counted.calls["get"]) == (2, 0)


def test_uploads_that_nobody_finished_go_after_the_grace(world: World) -> None:
    repository, objects = world.main, world.objects()
    old = repository.begin_upload("main", "old")
    objects.create_multipart("theirs/file")
    tree = objects.create_multipart("_graveler/ranges/x")
    world.clock.time += AGE
    young = repository.begin_upload("main", "young")
    summary = collect(world)
    assert summary.outcomes[Kind.UPLOAD.value] == {Outcome.DELETED.value: Tally(2, 0)}
    left = {(upload.key, upload.upload_id) for upload in objects.uploads()}
    assert {upload_id for _, upload_id in left}.isdisjoint({old.upload_id, tree})
    assert young.upload_id in {upload_id for _, upload_id in left}
    assert "theirs/file" in {key for key, _ in left}, "whoever writes there has his own ways"
    parts = [(1, upload_part(repository.parts, "main", "young", young, 1, b"young"))]
    finish_upload(repository.parts, "main", "young", young, parts)
    assert repository.read("main", "young") == b"young"


def test_a_dry_run_lists_uploads_and_leaves_them(world: World) -> None:
    world.main.begin_upload("main", "old")
    world.clock.time += AGE
    summary = Garbage(world.repository(), Options(threads=1)).plan()
    assert summary.outcomes[Kind.UPLOAD.value] == {Outcome.LISTED.value: Tally(1, 0)}
    assert len(list(world.objects().uploads())) == 1


class OldListing(MemoryObjects):
    """Lists what was there when it was made, as S3 Inventory does, or a store whose listing lags behind."""

    def __init__(self, inner: MemoryObjects) -> None:
        super().__init__(inner.namespace)
        self._listed = list(inner.list())
        self.__dict__.update(inner.__dict__)

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        ours = super().list(prefix, after) if prefix.startswith("_graveler/gc") else iter(())
        old = (stored for stored in self._listed if stored.key.startswith(prefix) and stored.key > after)
        return iter(sorted([*ours, *old], key=lambda stored: stored.key))


def test_a_listing_that_is_older_than_the_run_takes_nothing_that_is_live(world: World) -> None:
    """What came since is not listed, so it stays; what was put again has another ETag."""
    drop(world, "one")
    store = OldListing(world.objects())
    key = next(stored.key for stored in store._listed if stored.key.startswith("data/") and stored.size == 3)
    world.objects().put(key, b"again")
    write(world.main, "main", new="new")
    world.clock.time += GRACE / 4
    summary = collect_from(world, store)
    assert summary.outcomes["object"] == {Outcome.CHANGED.value: Tally(1, 3)}
    assert world.objects().get(key) == b"again"
    assert world.repository().read("main", "new") == b"new"
    assert world.repository().read("main", "kept") == b"kept"
