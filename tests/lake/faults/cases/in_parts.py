"""The steps of an operation in parts."""

from collections.abc import Callable

from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.operations.parts.division import Sizes
from graveler.operations.parts.rounds import open_rounds
from tests.lake.support import NAME
from tests.support.pinned import Asked


def in_parts(lake: Lake, ask: Callable[[OpenRepository], Asked]) -> None:
    """All the steps of an operation, each of which finds what the ones before have left in the store."""
    for number in range(10):
        repository = lake.repository(NAME)
        operation = open_rounds(
            repository,
            "operation",
            ask(repository),
            began=repository.clock.now(),
            sizes=Sizes(records=1, parts=3),
        )
        for part in range(operation.plan(number).parts):
            operation.run_part(part, number)
        if operation.publish(number) is not None:
            return
    raise AssertionError("no round is the last one")
