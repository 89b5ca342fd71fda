"""Repositories, branches and tags."""

from typing import Final

from graveler.errors import AlreadyExistsError, RefNotFoundError, RepositoryNotFoundError
from graveler.lake.lake import Lake
from tests.lake.faults.case import Case
from tests.lake.faults.model import BranchModel, RepositoryModel
from tests.lake.faults.scenes import Scene
from tests.lake.faults.story import main_of, moved, nothings
from tests.lake.support import NAME, TINY


def create_repository(lake: Lake, _: Scene) -> object:
    return lake.create_repository("new", "mem://new", split=TINY)


CASES: Final[tuple[Case, ...]] = (
    Case(
        "create repository",
        create_repository,
        lambda model: model.update(new=RepositoryModel()),
        again=(AlreadyExistsError,),
    ),
    Case(
        "delete repository",
        lambda lake, _: lake.delete_repository(NAME),
        lambda model: model.__delitem__(NAME),
        again=(RepositoryNotFoundError,),
    ),
    Case(
        "create branch",
        lambda lake, _: lake.repository(NAME).create_branch("new", "main~1"),
        lambda model: model[NAME].branches.update(
            new=BranchModel(dict(model[NAME].tags["v1"]), main_of(model).said[1:])
        ),
        again=(AlreadyExistsError,),
    ),
    Case(
        "delete branch",
        lambda lake, _: lake.repository(NAME).delete_branch("spare"),
        lambda model: model[NAME].branches.__delitem__("spare"),
        again=(RefNotFoundError,),
    ),
    Case(
        "rename branch",
        lambda lake, _: lake.repository(NAME).rename_branch("spare", "renamed"),
        lambda model: model[NAME].branches.update(renamed=model[NAME].branches.pop("spare")),
        again=(RefNotFoundError,),
    ),
    Case(
        "create tag",
        lambda lake, _: lake.repository(NAME).create_tag("v2", "main"),
        lambda model: model[NAME].tags.update(v2=dict(main_of(model).committed)),
        again=(AlreadyExistsError,),
    ),
    Case(
        "delete tag",
        lambda lake, _: lake.repository(NAME).delete_tag("v1"),
        lambda model: model[NAME].tags.__delitem__("v1"),
        again=(RefNotFoundError,),
    ),
    Case("hard reset", lambda lake, _: lake.repository(NAME).hard_reset("main", "v1"), moved),
    Case(
        "hard reset over what is staged and changes nothing",
        lambda lake, _: lake.repository(NAME).hard_reset("main", "v1"),
        moved,
        nothings,
    ),
    Case("undo", lambda lake, _: lake.repository(NAME).undo("main"), moved, once=True),
)
