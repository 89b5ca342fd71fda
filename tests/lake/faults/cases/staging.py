"""Uncommitted changes: made, copied, dropped."""

from typing import Final

from graveler.errors import AlreadyExistsError, ObjectChangedError, ObjectNotFoundError
from graveler.lake.lake import Lake
from graveler.lake.objects.uploads import finish_upload, upload_part
from tests.lake.faults.case import Case
from tests.lake.faults.model import Model
from tests.lake.faults.scenes import Scene
from tests.lake.faults.story import MANY, die_committing, drop, entry, main_of, stage, stage_many
from tests.lake.support import NAME


def upload_in_parts(lake: Lake, _: Scene) -> object:
    repository = lake.repository(NAME)
    upload = repository.begin_upload("main", "k")
    part = upload_part(repository.parts, "main", "k", upload, 1, b"5")
    return finish_upload(repository.parts, "main", "k", upload, [(1, part)])


def upload_one(lake: Lake, _: Scene, model: Model) -> None:
    lake.repository(NAME).upload("main", "u", b"7")
    main_of(model).staged["u"] = "7"


def in_either_place(_: Scene, model: Model, __: bool) -> None:
    """What is moved is at its old path, at its new one, or at both."""
    current = main_of(model).current
    for old, new in (("a", "k"), ("p/x", "c/x"), ("p/y", "c/y")):
        assert old in current or new in current


CASES: Final[tuple[Case, ...]] = (
    Case(
        "upload",
        lambda lake, _: lake.repository(NAME).upload("main", "k", b"5"),
        lambda model: main_of(model).staged.update(k="5"),
    ),
    Case(
        "link",
        lambda lake, _: lake.repository(NAME).link("main", entry("a", "5")),
        lambda model: main_of(model).staged.update(a="5"),
    ),
    Case(
        "link many",
        lambda lake, _: lake.repository(NAME).link_many("main", [entry(path, "5") for path in MANY]),
        lambda model: main_of(model).staged.update(dict.fromkeys(MANY, "5")),
        pieces=MANY,
    ),
    Case(
        "upload if absent",
        lambda lake, _: lake.repository(NAME).upload("main", "k", b"5", if_absent=True),
        lambda model: main_of(model).staged.update(k="5"),
        again=(AlreadyExistsError,),  # of other bytes: each upload has its own
    ),
    Case(
        "link if absent, over a tombstone",
        lambda lake, _: lake.repository(NAME).link("main", entry("b", "5"), if_absent=True),
        lambda model: main_of(model).staged.update(b="5"),
        stage,
        again=(AlreadyExistsError,),
    ),
    Case(
        "upload if match",
        lambda lake, _: lake.repository(NAME).upload("main", "a", b"5", if_match="*"),
        lambda model: main_of(model).staged.update(a="5"),
    ),
    Case(
        "link if match",
        lambda lake, _: lake.repository(NAME).link("main", entry("a", "5"), if_match=entry("a", "1").checksum),
        lambda model: main_of(model).staged.update(a="5"),
        again=(ObjectChangedError,),
    ),
    Case(
        "delete if match",
        lambda lake, _: lake.repository(NAME).delete("main", ["a"], if_match=entry("a", "1").checksum),
        lambda model: main_of(model).staged.update(a=None),
    ),
    Case("upload in parts", upload_in_parts, lambda model: main_of(model).staged.update(k="5")),
    Case(
        "copy",
        lambda lake, _: lake.repository(NAME).copy("main", "b", "k", source_ref="v1"),
        lambda model: main_of(model).staged.update(k="1"),
    ),
    Case(
        "duplicate",
        lambda lake, _: lake.repository(NAME).duplicate("main", "u", "k"),
        lambda model: main_of(model).staged.update(k="7"),
        upload_one,
    ),
    Case(
        "move",
        lambda lake, _: lake.repository(NAME).move("main", "a", "k"),
        lambda model: main_of(model).staged.update(a=None, k="1"),
        again=(ObjectNotFoundError,),
        pieces=("a", "k"),
        verify=in_either_place,
    ),
    Case(
        "move prefix",
        lambda lake, _: list(lake.repository(NAME).move_prefix("main", "p/", "c/")),
        lambda model: main_of(model).staged.update({"p/x": None, "p/y": None, "c/x": "1", "c/y": "1"}),
        pieces=("p/x", "p/y", "c/x", "c/y"),
        verify=in_either_place,
    ),
    Case(
        "copy prefix",
        lambda lake, _: list(lake.repository(NAME).copy_prefix("main", "p/", "c/", source_ref="v1")),
        lambda model: main_of(model).staged.update({"c/x": "1", "c/y": "1"}),
        pieces=("c/x", "c/y"),
        like="move prefix",
    ),
    Case(
        "update metadata",
        lambda lake, _: lake.repository(NAME).update_metadata("main", "a", {"k": "v"}),
        lambda model: main_of(model).staged.update(a="1 k=v"),
    ),
    Case(
        "update metadata of what is staged",
        lambda lake, _: lake.repository(NAME).update_metadata("main", "q", {"k": "v"}),
        lambda model: main_of(model).staged.update(q="1 k=v"),
        stage,
    ),
    Case(
        "delete",
        lambda lake, _: lake.repository(NAME).delete("main", ["a"]),
        lambda model: main_of(model).staged.update(a=None),
    ),
    Case(
        "delete many",
        lambda lake, _: lake.repository(NAME).delete("main", MANY),
        lambda model: main_of(model).staged.update(dict.fromkeys(MANY)),
        stage_many,
        pieces=MANY,
    ),
    Case("reset", lambda lake, _: lake.repository(NAME).reset("main"), lambda m: main_of(m).staged.clear(), stage),
    Case(
        "reset path",
        lambda lake, _: lake.repository(NAME).reset("main", path="a"),
        lambda model: drop(model, "a"),
        stage,
    ),
    Case(
        "reset prefix",
        lambda lake, _: lake.repository(NAME).reset("main", prefix="p/"),
        lambda model: drop(model, "p/x", "p/n"),
        stage,
    ),
    Case(
        "reset after a commit that died",
        lambda lake, _: lake.repository(NAME).reset("main"),
        lambda model: main_of(model).staged.clear(),
        die_committing,
    ),
    Case(
        "reset path after a commit that died",
        lambda lake, _: lake.repository(NAME).reset("main", path="a"),
        lambda model: drop(model, "a"),
        die_committing,
    ),
    Case(
        "reset prefix after a commit that died",
        lambda lake, _: lake.repository(NAME).reset("main", prefix="p/"),
        lambda model: drop(model, "p/x", "p/y", "p/n"),
        die_committing,
        pieces=("p/x", "p/y", "p/n"),
    ),
)
