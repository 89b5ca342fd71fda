"""The lake that all cases begin with, and what several of them prepare in it."""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from hashlib import md5
from typing import Final

from graveler.errors import UnavailableError
from graveler.lake.committing.sealing import MAX_SEALED, holding, seal
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from tests.lake.faults.kinds import HANGS
from tests.lake.faults.model import BranchModel, Model, RepositoryModel
from tests.lake.faults.scenes import Scene, client
from tests.lake.support import NAME, TINY, DieAt, died


def put(repository: OpenRepository, branch: str, files: Mapping[str, str | None]) -> None:
    for path, text in files.items():
        if text is None:
            repository.delete(branch, [path])
        else:
            repository.upload(branch, path, text.encode())


def entry(path: str, text: str) -> ObjectEntry:
    return ObjectEntry(path, f"mem://elsewhere/{path}/{text}", len(text), md5(text.encode()).hexdigest(), 0)


def story(lake: Lake, model: Model) -> None:
    """``main`` and ``side`` have each a commit on a common one; ``spare`` has uncommitted changes; a tag."""
    repository = lake.create_repository(NAME, "mem://repo", split=TINY)
    main = BranchModel()
    put(repository, "main", one := {"a": "1", "b": "1", "p/x": "1", "p/y": "1"})
    repository.commit("main", "one")
    main.commit("one", dict(one))
    repository.create_branch("side", "main")
    side = deepcopy(main)
    put(repository, "side", {"s": "1", "p/y": None})
    repository.commit("side", "side")
    side.commit("side", {"s": "1", "p/y": None})
    put(repository, "main", {"b": "2"})
    repository.commit("main", "two")
    tag = dict(main.committed)
    main.commit("two", {"b": "2"})
    repository.create_tag("v1", "main~1")
    repository.create_branch("spare", "main")
    spare = deepcopy(main)
    put(repository, "spare", {"z": "1", "a": None})
    spare.staged = {"z": "1", "a": None}
    model[NAME] = RepositoryModel({"main": main, "side": side, "spare": spare}, {"v1": tag})


def main_of(model: Model) -> BranchModel:
    return model[NAME].branches["main"]


STAGED: Final[Mapping[str, str | None]] = {"a": "9", "p/x": "9", "p/n": "1", "q": "1", "b": None}
MANY: Final = tuple(f"m/{number:02}" for number in range(30))
"""More than a batch of the table."""


def stage(lake: Lake, _: Scene, model: Model) -> None:
    put(lake.repository(NAME), "main", STAGED)
    main_of(model).staged |= STAGED


def stage_many(lake: Lake, _: Scene, model: Model) -> None:
    lake.repository(NAME).link_many("main", [entry(path, "1") for path in MANY])
    main_of(model).staged |= dict.fromkeys(MANY, "1")


def die_committing(lake: Lake, scene: Scene, model: Model) -> None:
    """A commit has sealed what is staged, and is dead; more is staged over it."""
    stage(lake, scene, model)
    assert died(lambda: client(scene, DieAt("put")).repository(NAME).commit("main", "dead"))
    scene.clock.time += HANGS
    more = {"a": "8", "p/y": None, "r": "1"}
    put(lake.repository(NAME), "main", more)
    main_of(model).staged |= more


def fail_committing(lake: Lake, scene: Scene, model: Model) -> None:
    """As many commits as a branch may have sealed tokens of have failed after sealing, each with a request of its own."""
    stage(lake, scene, model)
    repository = lake.repository(NAME)
    for number in range(MAX_SEALED):
        name = f"failed {number}"
        sealed = seal(repository.parts, "main", name, name)
        assert sealed.own_token is not None
        with suppress(UnavailableError), holding(repository.parts, sealed.own_token, name, name):
            raise UnavailableError("on purpose")
        more = {"a": str(number % 10), f"m/{number:02}": "1"}
        repository.link_many("main", [entry(path, text) for path, text in more.items()])
        main_of(model).staged |= more


def nothings(lake: Lake, _: Scene, __: Model) -> None:
    """What is staged changes nothing, but would hide what a merge brings."""
    put(lake.repository(NAME), "main", {"s": None, "p/y": "1"})


def drop(model: Model, *paths: str) -> None:
    for path in paths:
        main_of(model).staged.pop(path, None)


def merged(model: Model, message: str) -> None:
    main_of(model).commit(message, {"s": "1", "p/y": None})


def moved(model: Model) -> None:
    main = main_of(model)
    main.committed, main.staged, main.said = dict(model[NAME].tags["v1"]), {}, main.said[1:]
