"""A store whose ETag is a digest of the contents, as S3's is: a tree's file that is put again can be told from the old one."""

from collections.abc import Sequence
from hashlib import md5
from pathlib import Path

import pytest
from msgspec import structs

from graveler.lake.clock import GRACE
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import LEASE, Mode, Outcome
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Sent, StoredObject
from graveler.storage.objects.tree_files import ImmutableFiles
from tests.lake.support import NAMESPACE, DieAt, Died, World
from tests.retention.support import AGE, collect, keys, write


class DigestObjects(MemoryObjects):
    """A put twice has one ETag; an upload in parts another one."""

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        """Write an object."""
        stored = super().put(key, data, if_absent=if_absent, sent=sent)
        return self._tell(key, stored, md5(self.get(key), usedforsecurity=False).hexdigest())

    def complete_multipart(
        self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool = False
    ) -> StoredObject:
        """Make the object of its parts."""
        stored = super().complete_multipart(key, upload_id, parts, if_absent=if_absent)
        return self._tell(key, stored, f"{md5(self.get(key), usedforsecurity=False).hexdigest()}-{len(parts)}")

    def _tell(self, key: str, stored: StoredObject, etag: str) -> StoredObject:
        told = structs.replace(stored, etag=etag)
        self.objects[key] = self.objects[key][0], told
        return told


class DigestWorld(World):
    """A lake on such a store."""

    def objects(self, namespace: str = NAMESPACE) -> MemoryObjects:
        if namespace not in self.stores:
            self.stores[namespace] = DigestObjects(namespace, self.clock.now)
        return self.stores[namespace]


@pytest.fixture
def world() -> World:
    return DigestWorld()


def dead_tree(world: World) -> tuple[str, bytes]:
    """Key and contents of a metarange that nobody needs any more, and that the next run takes."""
    repository = world.main
    write(repository, "main", a="a")
    repository.create_branch("side", "main")
    repository.upload("side", "b", b"b")
    key = f"_graveler/metaranges/{repository.commit('side', 'b').metarange}"
    repository.delete_branch("side")
    world.clock.time += AGE
    collect(world)
    world.clock.time += AGE
    return key, world.objects().get(key)


def put_again(world: World, key: str, data: bytes) -> None:
    """As somebody does who builds the same tree."""
    kind, name = key.split("/")[1:]
    ImmutableFiles(world.objects(), None, GRACE, world.clock.now).put(kind, name, data)


def died_before_sweeping(world: World) -> None:
    with pytest.raises(Died):
        Garbage(world.repository(DieAt("objects.delete")), Options(Mode.DELETE, threads=1)).run()
    world.clock.time += LEASE + 1


@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_was_put_again_since_the_mark_stays(world: World, times: int) -> None:
    key, data = dead_tree(world)
    died_before_sweeping(world)
    for _ in range(times):  # after two the ETag is the one that the mark saw
        put_again(world, key, data)
        world.clock.time += AGE
    summary = collect(world)
    assert summary.outcomes["metarange"][Outcome.CHANGED.value].files == 1
    assert key in keys(world, "_graveler/metaranges/")


def test_a_run_that_goes_on_leaves_what_came_in_the_place_of_what_was_taken(world: World) -> None:
    key, data = dead_tree(world)
    died_before_sweeping(world)
    world.objects().delete(key)  # as a run does that dies before it says so
    put_again(world, key, data)
    summary = collect(world)
    assert summary.outcomes["metarange"][Outcome.CHANGED.value].files == 1
    assert key in keys(world, "_graveler/metaranges/")


def test_an_old_file_that_is_put_again_has_another_etag_each_time(world: World) -> None:
    key, data = dead_tree(world)
    etags = [world.objects().head(key).etag]
    for _ in range(3):
        put_again(world, key, data)
        etags.append(world.objects().head(key).etag)
        world.clock.time += AGE
    assert etags[0] == etags[2] != etags[1] == etags[3]
    assert world.objects().get(key) == data
