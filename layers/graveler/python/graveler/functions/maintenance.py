"""Work without a waiting client: operations from the queue, and the clean-up that the clock starts.

Both are idempotent and may be interrupted anywhere; the next run finds unfinished work again.
"""

import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from graveler.errors import RepositoryNotFoundError, UnavailableError
from graveler.functions.entry import Context, Event, Function, initialise
from graveler.functions.queue import OperationMessage, Queue
from graveler.functions.sqs import SqsQueue
from graveler.functions.workers import dispatcher
from graveler.lake.lake import Lake
from graveler.model import Repository
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.runner import Runner
from graveler.operations.sweeper import sweep_and_watch
from graveler.retention.operation import ALL_KINDS
from graveler.staging.changes import StagedChanges
from graveler.staging.cleanup import CleanupQueue

_RESERVE: Final = 20.0
"""Seconds before the end of its time at which a run stops."""

AGAIN_SECONDS: Final = 60
"""Seconds until a message comes again whose operation has not ended: longer than its worker counts as alive without a sign of
life."""

_LOOK_EVERY: Final = 1.0


def maintain_handler() -> Callable[[Event, Context], dict[str, Any]]:
    """Return the handler of ``maintain``: an event with records is from the queue, any other from the clock."""

    @cache
    def opened() -> tuple[Function, Dispatcher, Queue | None]:
        function = Function("maintain")
        url = function.configuration.operations_queue
        queue = None if url is None else SqsQueue(url)
        return function, dispatcher(function.lake.tables, function.configuration), queue

    initialise(opened)

    def handler(event: Event, context: Context) -> dict[str, Any]:
        began = time.perf_counter()
        function, operator, queue = opened()
        function.telemetry.begin(context.aws_request_id)
        deadline = time.time() + context.get_remaining_time_in_millis() / 1000 - _RESERVE
        done: dict[str, Any] = {}
        try:
            if "Records" in event:
                for record in event["Records"]:
                    message = msgspec.json.decode(record["body"], type=OperationMessage)
                    done = {"operation": message.operation, "repository": message.repository}
                    try:
                        work_on(function.lake, message, deadline)
                    except BaseException:
                        _bring_again(function, queue, str(record.get("receiptHandle", "")))
                        raise
            else:
                cleaned = sweep(function.lake, deadline)
                begun = sweep_and_watch(function.lake, operator, go_on=lambda: time.time() < deadline)
                done = {"operations": begun, "tokens": cleaned}
        finally:
            function.telemetry.tell(function.traffic.take(), (time.perf_counter() - began) * 1000, done)
        return done

    return handler


def _bring_again(function: Function, queue: Queue | None, receipt_handle: str) -> None:
    """Make a message come again soon, since the queue itself would wait for six times as long as a function may take. If that
    fails, the sweep finds the operation."""
    if queue is None or not receipt_handle:
        return
    for reason in queue.put_off({receipt_handle: AGAIN_SECONDS}):
        function.telemetry.logger.warning("a message cannot be postponed", extra={"reason": reason})


def work_on(lake: Lake, message: OperationMessage, deadline: float) -> None:
    """Work on an operation until it ends. :class:`UnavailableError` at the ``deadline`` (Unix seconds), or while another process
    works on it: the queue then delivers the message again, for another run to go on. One that is gone with its repository is
    done."""
    try:
        repository = lake.repository(message.repository)
    except RepositoryNotFoundError:
        return
    runner = Runner(lake.tables, ALL_KINDS)
    try:
        operation = runner.look(repository, message.operation)
        while not operation.is_finished:
            if time.time() >= deadline:
                raise UnavailableError(
                    f"operation {operation.id!r} has not ended within one run; another one continues"
                )
            time.sleep(_LOOK_EVERY)
            operation = runner.look(repository, operation.id)  # if its worker has died, this one takes it over
    finally:
        runner.close()


def sweep(lake: Lake, deadline: float) -> int:
    """Clean up everything that is due in all repositories, until the ``deadline`` (Unix seconds). Returns the number of finished
    tokens. Cost: a table read for each repository, and for each ten tokens; with each token, the cost of its items."""
    finished = 0
    for repository in _repositories(lake):
        if time.time() >= deadline:
            break
        queue, staged = CleanupQueue(lake.tables, repository.uid), StagedChanges(lake.tables, repository.uid)
        finished += queue.sweep_all(staged, time.time(), lambda: time.time() < deadline)
    return finished


def _repositories(lake: Lake) -> Iterator[Repository]:
    after = ""
    while True:
        page = lake.repositories(after=after)
        yield from page.results
        if page.next_after is None:
            return
        after = page.next_after
