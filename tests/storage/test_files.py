"""Immutable files: cached for ever, but not trusted for ever; young again when they are put again."""

import pickle
from pathlib import Path

import pytest

from graveler.errors import AnswerLostError, InvalidError
from graveler.storage.objects.cache import FileCache
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import ObjectMissingError
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.system import pauses
from tests.support.instruments import CountingObjects

GRACE = 1000.0


class Lake:
    """A store, a cache and the files, under one clock."""

    def __init__(self, folder: Path, cached: bool = True) -> None:
        self.now = 5_000_000.0
        self.objects = CountingObjects(MemoryObjects(clock=lambda: self.now))
        self.cache = FileCache(folder, 1 << 20, GRACE / 2, clock=lambda: self.now) if cached else None
        self.files = ImmutableFiles(self.objects, self.cache, GRACE, clock=lambda: self.now)

    def another_reader(self, folder: Path) -> ImmutableFiles:
        return ImmutableFiles(self.objects, FileCache(folder, 1 << 20, GRACE / 2, lambda: self.now), GRACE)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "cache")


def test_a_file_has_its_place_in_the_namespace(lake: Lake) -> None:
    lake.files.put("ranges", "r", b"1")
    lake.files.put("metaranges", "m", b"2")
    assert [stored.key for stored in lake.objects.list()] == ["_graveler/metaranges/m", "_graveler/ranges/r"]


def test_a_put_costs_one_write_and_a_get_afterwards_nothing(lake: Lake) -> None:
    lake.files.put("ranges", "r", b"1")
    assert lake.objects.calls == {"put": 1}
    assert lake.files.get("ranges", "r") == b"1"
    assert lake.objects.calls == {"put": 1}


def test_a_cold_get_costs_one_read_once(lake: Lake, tmp_path: Path) -> None:
    lake.files.put("ranges", "r", b"1")
    reader = lake.another_reader(tmp_path / "other")
    lake.objects.reset()
    assert [reader.get("ranges", "r") for _ in range(3)] == [b"1"] * 3
    assert lake.objects.calls == {"get": 1}


def test_without_a_cache_each_get_is_a_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path, cached=False)
    lake.files.put("ranges", "r", b"1")
    assert [lake.files.get("ranges", "r", fresh=fresh) for fresh in (False, True)] == [b"1"] * 2
    assert lake.objects.calls == {"put": 1, "get": 2}


def test_fresh_replaces_a_damaged_copy(lake: Lake, tmp_path: Path) -> None:
    lake.files.put("ranges", "r", b"whole")
    (copy,) = (tmp_path / "cache").iterdir()
    copy.write_bytes(b"dam")
    assert lake.files.get("ranges", "r") == b"dam"
    assert lake.files.get("ranges", "r", fresh=True) == b"whole"
    assert lake.files.get("ranges", "r") == b"whole"
    assert lake.objects.calls["get"] == 1


def test_the_end_of_a_file_is_all_of_a_fresh_copy_and_otherwise_read_from_the_store(lake: Lake, tmp_path: Path) -> None:
    lake.files.put("metaranges", "m", b"0123456789")
    reader = lake.another_reader(tmp_path / "other")
    lake.objects.reset()
    assert [lake.files.get_end("metaranges", "m", 4) for _ in range(2)] == [b"0123456789"] * 2
    assert lake.objects.calls == {}
    assert [reader.get_end("metaranges", "m", length) for length in (4, 10)] == [b"6789", b"0123456789"]
    assert lake.objects.calls == {"get_range": 2}
    assert [reader.get_end("metaranges", "m", length) for length in (11, 4)] == [b"0123456789"] * 2, "a copy stays"
    assert lake.objects.calls == {"get_range": 3}
    lake.now += GRACE / 2 + 1
    assert reader.get_end("metaranges", "m", 4) == b"6789", "a copy that is due is not trusted"
    assert lake.objects.calls == {"get_range": 4}
    lake.objects.delete("_graveler/metaranges/m")
    lake.now += GRACE
    with pytest.raises(ObjectMissingError):
        reader.get_end("metaranges", "m", 4)
    with pytest.raises(ObjectMissingError):
        reader.get_part("metaranges", "m", 0, 4)


def test_parts_of_metaranges_are_cached_until_they_are_due(lake: Lake, tmp_path: Path) -> None:
    """Each process of a command line looks up one object."""
    lake.files.put("metaranges", "m", b"0123456789")
    lake.objects.reset()
    for _ in range(3):
        process = lake.another_reader(tmp_path / "other")
        assert process.get_end("metaranges", "m", 4) == b"6789"
        assert process.get_part("metaranges", "m", 2, 3) == b"234"
    assert lake.objects.calls == {"get_range": 2}
    assert process.get_part("metaranges", "m", 2, 2) == b"23", "a copy of another length is not the part"
    assert process.get_part("metaranges", "m", 8, 9) == b"89"
    assert process.get_part("metaranges", "m", 8, 9) == b"89", (
        "nor is one that reaches the end of a file, which may be damaged"
    )
    assert lake.objects.calls == {"get_range": 5}
    lake.now += GRACE / 2 + 1
    lake.objects.reset()
    assert process.get_end("metaranges", "m", 4) == b"6789"
    assert process.get_part("metaranges", "m", 2, 2) == b"23"
    assert lake.objects.calls == {"get_range": 2}
    other = ImmutableFiles(MemoryObjects("mem://other"), lake.cache, GRACE)
    with pytest.raises(ObjectMissingError):
        other.get_part("metaranges", "m", 2, 2)


def test_parts_of_metaranges_are_not_read_in_an_event_loop(lake: Lake) -> None:
    """The store may be far away, and other requests would wait as well."""
    lake.files.put("metaranges", "m", b"0123456789")
    lake.now += GRACE
    lake.objects.reset()
    pauses.install_waiter(Loop())
    try:
        with pytest.raises(pauses.WouldWaitError):
            lake.files.get_end("metaranges", "m", 4)
        with pytest.raises(pauses.WouldWaitError):
            lake.files.get_part("metaranges", "m", 0, 4)
    finally:
        pauses.install_waiter(None)
    assert lake.objects.calls == {}


class Loop:
    """The thread of an event loop, in which a request has written nothing yet."""

    def pause(self) -> pauses.Pause:
        raise pauses.WouldWaitError

    def sleep(self, seconds: float) -> None:
        raise pauses.WouldWaitError

    def require_cached(self) -> None:
        raise pauses.WouldWaitError


def test_an_old_copy_is_given_only_after_a_look_at_the_store(lake: Lake) -> None:
    lake.files.put("ranges", "r", b"1")
    lake.now += GRACE / 2 + 1
    lake.objects.reset()
    assert [lake.files.get("ranges", "r") for _ in range(3)] == [b"1"] * 3
    assert lake.objects.calls == {"head": 1}
    lake.now += GRACE / 2 + 1
    lake.objects.delete("_graveler/ranges/r")
    for _ in range(2):
        with pytest.raises(ObjectMissingError):
            lake.files.get("ranges", "r")
    lake.objects.put("_graveler/ranges/r", b"restored")
    assert lake.files.get("ranges", "r") == b"restored"  # the copy was dropped


def test_a_young_file_is_not_written_again(lake: Lake) -> None:
    lake.files.put("ranges", "r", b"1")
    before = lake.objects.head("_graveler/ranges/r")
    lake.now += GRACE / 2
    lake.objects.reset()
    lake.files.put("ranges", "r", b"1")
    assert lake.objects.calls == {"put": 1, "head": 1}
    assert lake.objects.head("_graveler/ranges/r") == before


def test_an_old_file_is_written_again_and_has_a_new_etag(lake: Lake) -> None:
    lake.files.put("ranges", "r", b"1")
    before = lake.objects.head("_graveler/ranges/r")
    lake.now += GRACE / 2 + 1
    lake.objects.reset()
    lake.files.put("ranges", "r", b"1")
    assert lake.objects.calls == {"put": 2, "head": 1}
    after = lake.objects.head("_graveler/ranges/r")
    assert after.etag != before.etag
    assert after.modified == lake.now


def test_a_file_swept_between_two_looks_is_written(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.files.put("ranges", "r", b"1")
    head = lake.objects.head

    def swept_before(key: str) -> object:
        lake.objects.delete(key)
        return head(key)

    monkeypatch.setattr(lake.objects, "head", swept_before)
    lake.files.put("ranges", "r", b"1")
    assert lake.objects.get("_graveler/ranges/r") == b"1"


@pytest.mark.parametrize("arrived", [True, False])
def test_a_file_whose_answer_was_lost_is_looked_for(lake: Lake, monkeypatch: pytest.MonkeyPatch, arrived: bool) -> None:
    put = lake.objects.put

    def lose(key: str, data: bytes, *, if_absent: bool = False) -> object:
        if if_absent:
            if arrived:
                put(key, data, if_absent=True)
            raise AnswerLostError("on purpose")
        return put(key, data)

    monkeypatch.setattr(lake.objects, "put", lose)
    lake.objects.reset()
    lake.files.put("ranges", "r", b"1")
    assert lake.objects.calls == {"put": 1, "head": 1}
    assert lake.objects.get("_graveler/ranges/r") == b"1"


def test_what_is_missing_is_named(lake: Lake) -> None:
    with pytest.raises(ObjectMissingError, match="_graveler/ranges/nowhere"):
        lake.files.get("ranges", "nowhere")
    with pytest.raises(ObjectMissingError):
        lake.files.get("ranges", "nowhere", fresh=True)


@pytest.mark.parametrize(
    ("kind", "name"), [("commits", "x"), ("", "x"), ("ranges", ""), ("ranges", "../x"), ("ranges", "a/b")]
)
def test_only_files_of_the_tree(lake: Lake, kind: str, name: str) -> None:
    with pytest.raises(InvalidError):
        lake.files.get(kind, name)
    with pytest.raises(InvalidError):
        lake.files.put(kind, name, b"")
    assert lake.objects.requests == 0


def test_namespaces_do_not_share_copies(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "cache", 1 << 20, 1000)
    one, other = (ImmutableFiles(FolderObjects(tmp_path / name), cache) for name in ("one", "other"))
    one.put("ranges", "r", b"1")
    with pytest.raises(ObjectMissingError):
        other.get("ranges", "r")


def test_they_can_be_pickled(tmp_path: Path) -> None:
    files = ImmutableFiles(FolderObjects(tmp_path / "root"), FileCache(tmp_path / "cache", 1 << 20, 1000), GRACE)
    files.put("ranges", "r", b"1")
    assert pickle.loads(pickle.dumps(files)).get("ranges", "r") == b"1"
