"""Dumps, restores, exports, repairs."""

from pathlib import Path
from typing import Final

from graveler.errors import AlreadyExistsError
from graveler.lake.committing.records import COMMITS_FOLDER
from graveler.lake.lake import Lake
from graveler.lake.opening.repositories import MARKER
from graveler.storage.tables.memory import MemoryTables
from tests.lake.faults.case import Case
from tests.lake.faults.model import Model, seen, shown
from tests.lake.faults.scenes import Scene, client
from tests.lake.faults.story import die_committing, main_of
from tests.lake.support import NAME


def dump_and_delete(lake: Lake, _: Scene, model: Model) -> None:
    lake.dump(NAME)
    lake.delete_repository(NAME)
    model["was"] = model.pop(NAME)


def restored(model: Model) -> None:
    model[NAME] = model.pop("was")


def lose_copies(_: Lake, scene: Scene, __: Model) -> None:
    """The store lost its copies of two commits, and to whom the namespace belongs."""
    objects = scene.objects("mem://repo")
    for stored in [*objects.list(f"{COMMITS_FOLDER}/")][:2]:
        objects.delete(stored.key)
    objects.delete(MARKER)


def exported_to(scene: Scene) -> Path:
    return scene.outside / "export"


def check_export(scene: Scene, model: Model, repeated: bool) -> None:
    if repeated:
        found = {
            path.relative_to(exported_to(scene)).as_posix(): path.read_text()
            for path in exported_to(scene).rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }
        assert found == main_of(model).committed


def check_dumps(scene: Scene, model: Model, repeated: bool) -> None:
    """Each dump that is listed is whole: restored into an empty table, it is what was dumped."""
    lake = client(scene)
    ids = lake.dumps("mem://repo")
    assert ids or not repeated
    for dump_id in ids:
        elsewhere = scene.copy(scene.outside / dump_id)
        try:
            elsewhere.tables = MemoryTables()
            other = client(elsewhere)
            other.restore("mem://repo", dump_id, NAME)
            assert seen(other) == shown(model)
        finally:
            elsewhere.close()


CASES: Final[tuple[Case, ...]] = (
    Case("dump", lambda lake, _: lake.dump(NAME), verify=check_dumps, prepare=die_committing),
    Case(
        "restore",
        lambda lake, _: lake.restore("mem://repo", lake.dumps("mem://repo")[0], NAME),
        restored,
        dump_and_delete,
        again=(AlreadyExistsError,),
    ),
    Case(
        "export",
        lambda lake, scene: lake.repository(NAME).export("main", exported_to(scene), threads=1),
        verify=check_export,
    ),
    Case("fsck with repair", lambda lake, _: lake.fsck(NAME, repair=True), prepare=lose_copies, heals=True),
)
