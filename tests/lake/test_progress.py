"""Progress of uploads, commits and merges: what is told adds up, and nobody pays who does not ask."""

from pathlib import Path

from tests.lake.support import TINY, World, commit


class Told:
    """The sums of what was told, and in how many calls."""

    def __init__(self) -> None:
        self.objects = self.size = self.calls = 0

    def __call__(self, objects: int, size: int) -> None:
        self.objects += objects
        self.size += size
        self.calls += 1


def test_an_upload_tells_its_bytes_and_the_object(tmp_path: Path) -> None:
    world, told = World(), Told()
    world.main.upload("main", "a", b"12345", progress=told)
    file = tmp_path / "file"
    file.write_bytes(b"x" * 3_000_000)
    world.main.upload("main", "b", file, progress=told)
    assert (told.objects, told.size) == (2, 3_000_005)


def test_a_commit_tells_each_change_once() -> None:
    world, told = World(split=TINY), Told()
    for number in range(2500):
        world.main.upload("main", f"{number:04}", b"12")
    world.main.commit("main", "all", progress=told)
    assert (told.objects, told.size, told.calls) == (2500, 5000, 3)
    world.main.delete("main", ["0000"])
    world.main.commit("main", "fewer", progress=told)
    assert (told.objects, told.size, told.calls) == (2501, 5000, 4)


def test_a_merge_tells_the_objects_of_the_merged_tree() -> None:
    world, told = World(split=TINY), Told()
    commit(world.main, {f"{number:04}": "12" for number in range(500)})
    world.main.create_branch("dev", "main")
    commit(world.main, {f"{number:04}x": "3" for number in range(0, 500, 7)}, branch="dev")
    commit(world.main, {"0000": "4"})
    world.main.merge("dev", "main", progress=told)
    usage = world.main.du("main@")
    assert told.calls > 1
    assert (told.objects, told.size) == (usage.objects, usage.size)
