"""A process that runs the steps of an operation, comes to a certain point, says so, and stays there until it is killed.

``python -m tests.operations.step_worker LAKE REPOSITORY OPERATION POINT``
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from graveler.lake.committing import commit, landing
from graveler.lake.opening.folder import open_folder_lake
from graveler.operations.machine import Machine, Next, Task
from graveler.operations.parts.part_files import PartFiles
from graveler.storage.objects.tree_files import ImmutableFiles
from tests.operations.support import SMALL
from tests.operations.worker import stay

PUBLISHING: Final = (commit, landing)
"""Modules that publish."""

POINTS: Final[dict[str, tuple[Sequence[object], str, bool]]] = {
    "before its plan is written": ((PartFiles,), "keep_plan", False),
    "after a range of its first part": ((ImmutableFiles,), "put", True),
    "after the result of a part": ((PartFiles,), "keep_result", True),
    "before its commit is published": (PUBLISHING, "publish", False),
    "after its commit is published": (PUBLISHING, "publish", True),
}
"""Who has a method or function of this name, and whether to stay after it or before."""


def staying(real: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    def stays(*arguments: Any, **named: Any) -> None:
        if after:
            real(*arguments, **named)
        stay()

    return stays


def main(lake: str, name: str, operation: str, point: str) -> None:
    """One execution, up to the point."""
    owners, name_of_step, after = POINTS[point]
    for owner in owners:
        setattr(owner, name_of_step, staying(getattr(owner, name_of_step), after=after))
    machine, task = Machine(open_folder_lake(Path(lake)), sizes=SMALL), Task(name, operation, 1)
    planned = machine.plan(task)
    assert planned.state is Next.PARTS
    for number in planned.numbers:
        machine.part(task, number)
    machine.publish(task)


if __name__ == "__main__":
    main(*sys.argv[1:])
