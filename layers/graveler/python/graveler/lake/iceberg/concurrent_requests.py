"""Requests for files of tables, of which several are sent at a time to S3."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects

FILES_AT_ONCE: Final = 32
TABLES_AT_ONCE: Final = 8
"""Each of these tables may in turn read :data:`FILES_AT_ONCE` files."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def concurrent_results(
    stores: Iterable[Objects], work: Callable[[Task], Result], tasks: Sequence[Task], at_once: int = FILES_AT_ONCE
) -> Iterator[Result]:
    """Yield the result of ``work`` for each task, in order. Up to ``at_once`` tasks run at a time, or wait to be yielded. In
    folders they run one after another, since they hardly wait there. The first error, in order of the tasks, is raised once no
    task runs any more."""
    if len(tasks) < 2 or all(isinstance(store, FolderObjects) for store in stores):
        yield from map(work, tasks)
        return
    with ThreadPoolExecutor(min(at_once, len(tasks)), "graveler-tables") as threads:
        running: deque[Future[Result]] = deque()
        for task in tasks:
            running.append(threads.submit(work, task))
            if len(running) == at_once:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
