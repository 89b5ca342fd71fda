"""A temporary folder that is full: the collector says so, and has changed nothing."""

from pathlib import Path

from tests.support.disk import on_a_disk_of_its_own

PROGRAM = """
import os, tempfile
import pytest
os.environ["TMPDIR"] = str(disk)
from graveler.errors import UnavailableError
from graveler.retention.runs import Mode
from tests.lake.support import World
from tests.retention.support import collect, write

world = World()
main = world.main
write(main, "main", **{f"k{number:03}": str(number) for number in range(300)})
main.delete("main", [f"k{number:03}" for number in range(200)])
main.commit("main", "fewer")
assert tempfile.gettempdir() == str(disk)
objects = world.objects()
before = sorted(stored.key for stored in objects.list() if not stored.key.startswith("_graveler/gc/"))
world.clock.time += 30 * 86400
with open(disk / "fill", "wb") as file:
    file.write(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize))
for mode in (Mode.DRY_RUN, Mode.DELETE):
    with pytest.raises(UnavailableError, match="in the temporary folder .*set TMPDIR to use another.* failed: the disk is full"):
        collect(world, mode)
    left = [os.path.join(at, name) for at, _, names in os.walk(disk) for name in names]
    assert not [path for path in left if "gc-" in path], left
assert sorted(stored.key for stored in objects.list() if not stored.key.startswith("_graveler/gc/")) == before
os.unlink(disk / "fill")
print(collect(world, Mode.DRY_RUN) is not None)
"""


def test_a_full_temporary_folder_is_an_error_that_names_it_and_nothing_is_collected(tmp_path: Path) -> None:
    assert on_a_disk_of_its_own(PROGRAM, tmp_path / "disk", size="256k") == "True\n"
