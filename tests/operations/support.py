"""Branches that differ everywhere, and requests to merge them in parts."""

from threading import Event

import msgspec

from graveler.lake.repository import OpenRepository
from graveler.operations.parts.division import Sizes
from graveler.operations.pinned_requests import KINDS
from graveler.operations.store import Operation, Operations, OperationState
from graveler.requests.merging import Merge
from tests.lake.support import World, put
from tests.support.patience import PATIENCE
from tests.support.pinned import Asked, pinned_commit, pinned_merge

SMALL = Sizes(records=20, parts=6)


def diverged(repository: OpenRepository, count: int = 120) -> None:
    """Branches main and dev, each with changes of its own."""
    put(repository, {f"{number:03}": "base" for number in range(count)})
    repository.commit("main", "base")
    repository.create_branch("dev", "main")
    for branch, begin in (("dev", 0), ("main", 1)):
        put(repository, {f"{number:03}": branch for number in range(begin, count, 5)}, branch)
        repository.commit(branch, branch)


def merge_ask(repository: OpenRepository) -> Asked:
    return pinned_merge(source="dev", source_id=repository.commit_of("dev").id, destination="main", message="together")


def commit_ask(repository: OpenRepository) -> Asked:
    put(repository, {f"{number:03}": "new" for number in range(0, 120, 4)})
    return pinned_commit(branch="main", message="together")


def alone(repository: OpenRepository, ask: Asked) -> str:
    """The tree that one call makes, on another branch."""
    repository.create_branch("alone", "main")
    if isinstance(ask.request, Merge):
        return repository.merge("dev", "alone").metarange_id
    put(repository, {f"{number:03}": "new" for number in range(0, 120, 4)}, "alone")
    return repository.commit("alone", "together").metarange_id


def write_down(world: World, ask: Asked, operation_id: str = "op", *, attempt: int = 1) -> Operation:
    """An operation that nobody works on yet."""
    kind = KINDS[type(ask.request)]
    now = world.clock.now()
    operation = Operation(
        operation_id, kind, msgspec.json.encode(ask), OperationState.RUNNING, now, now, attempt=attempt, branch="main"
    )
    assert operations(world).add(operation)
    return operation


def operations(world: World) -> Operations:
    return Operations(world.tables, world.main.repository.uid)


def ended(world: World, operation_id: str = "op") -> Operation:
    """The operation when it has come to an end; waits for it."""
    never = Event()
    for _ in range(int(PATIENCE / 0.01)):
        operation = operations(world).get(operation_id)
        if operation.is_finished:
            return operation
        never.wait(0.01)
    raise AssertionError(f"{operation_id} does not end")
