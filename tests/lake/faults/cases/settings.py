"""Settings of a repository."""

from typing import Final

from graveler.errors import NotFoundError
from graveler.lake.lake import Lake
from graveler.model import RetentionRules
from tests.lake.faults.case import Case
from tests.lake.faults.model import Model
from tests.lake.faults.scenes import Scene
from tests.lake.faults.story import stage
from tests.lake.support import NAME


def note_metadata(lake: Lake, _: Scene, model: Model) -> None:
    lake.repository(NAME).set_metadata({"owner": "me", "team": "a"})
    model[NAME].metadata.update(owner="me", team="a")


def protect_main(lake: Lake, _: Scene, model: Model) -> None:
    lake.repository(NAME).protect(["main", "v*"])
    model[NAME].protected = ("main", "v*")


def make_read_only(lake: Lake, _: Scene, model: Model) -> None:
    lake.repository(NAME).set_read_only(True)
    model[NAME].read_only = True


CASES: Final[tuple[Case, ...]] = (
    Case(
        "set metadata",
        lambda lake, _: lake.repository(NAME).set_metadata({"owner": "me"}),
        lambda model: model[NAME].metadata.update(owner="me"),
    ),
    Case(
        "delete metadata",
        lambda lake, _: lake.repository(NAME).delete_metadata(["owner"]),
        lambda model: model[NAME].metadata.__delitem__("owner"),
        note_metadata,
        like="set metadata",
    ),
    Case(
        "set retention",
        lambda lake, _: lake.repository(NAME).set_retention(RetentionRules(30)),
        lambda model: setattr(model[NAME], "days", 30),
        like="set metadata",
    ),
    Case(
        "unprotect",
        lambda lake, _: lake.repository(NAME).unprotect(["main"]),
        lambda model: setattr(model[NAME], "protected", ("v*",)),
        protect_main,
        again=(NotFoundError,),
    ),
    Case(
        "allow changes again",
        lambda lake, _: lake.repository(NAME).set_read_only(False),
        lambda model: setattr(model[NAME], "read_only", False),
        make_read_only,
        like="set metadata",
    ),
    Case(
        "protect a branch with uncommitted changes",
        lambda lake, _: lake.repository(NAME).protect(["spare"]),
        lambda model: setattr(model[NAME], "protected", ("spare",)),
    ),
    Case(
        "make read-only",
        lambda lake, _: lake.repository(NAME).set_read_only(True),
        lambda model: setattr(model[NAME], "read_only", True),
        stage,
    ),
)
