"""Ingest in a function: it takes messages of a queue, returns the IDs of those to deliver again, and makes the commits that the
clock makes due.

A message that cannot succeed goes to the queue of dead letters at once, and one that failed too often when it comes for the last
time, with its reason as the attribute ``reason``: so an operator sees why, and nothing is tried in vain. If that queue is not
configured, or cannot be reached, the message comes again, and ends there by itself. A message that may succeed later comes again
after a while, each time a longer one; so does each message of a batch that fails as a whole. If a fault of the program ends a
batch, its halves are tried, and theirs: what a message brings about is its own failure, and not that of the others.

Before a batch is processed, its messages are hidden for the time that this run has left, and for that while: so a run that is
killed, or runs out of time, delays them by minutes, not by the queue's own interval. That is six times a function's time, which
Lambda needs to try again if the function is throttled
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html). A killed run takes longer than one that fails, so no
message becomes a dead letter sooner by it.
"""

import random
import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from math import ceil
from typing import Any, Final

import msgspec

from graveler.api.ingest_commits import OperationCommits
from graveler.errors import GravelerError, UnavailableError
from graveler.functions.entry import Context, Event, Function, initialise
from graveler.functions.queue import Queue
from graveler.functions.sqs import SqsQueue
from graveler.functions.workers import dispatcher
from graveler.ingest.ingester import Ingester
from graveler.ingest.results import Batch, Message, Outcome, Result
from graveler.lake.clock import SystemClock

OVERDUE: Final = "a commit is due and cannot be made"
PENDING: Final = "something has been pending for too long"
UNREAD: Final = "an item of ingest cannot be read"
"""The log lines that alarms look for."""

RESERVE: Final = 60.0
"""Seconds before the end of its time from which on a function begins no more commits. A commit that it has begun hands over its
remaining work in half of the time that was left: the other half is for the current range, and for handing over."""

LONGEST_WAIT: Final = 900
"""Seconds after which a message that failed comes again, at the latest."""

TRIES: Final = 20
"""Number of times that the queue delivers a message before it gives it up by itself: as infra.ingest.TRIES. The last time, a
failed message is given up here, since the queue would not say why."""

ATTEMPTS: Final = 100
"""Parts of a batch that are tried at most after a fault of the program: those around four or five messages of 480."""

_FIRST_WAIT: Final = 5
_REASON_CHARS: Final = 1000
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
"""The characters that are escaped in a reason: SQS refuses or replaces control characters
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html)."""


class _Attributes(msgspec.Struct, frozen=True):
    received: str = msgspec.field(name="ApproximateReceiveCount", default="1")


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    message_id: str
    body: str
    receipt_handle: str = ""
    attributes: _Attributes = _Attributes()


class _Queues(msgspec.Struct, frozen=True):
    """The queue that messages come from, and the one for those that cannot be ingested, if configured."""

    incoming: Queue | None
    dead_letters: Queue | None


class _Time:
    """The remaining time of the current event, in seconds."""

    def __init__(self) -> None:
        self._end = 0.0

    def begin(self, context: Context) -> None:
        """Begin an event."""
        self._end = time.monotonic() + context.get_remaining_time_in_millis() / 1000

    def left(self) -> float:
        """Return the seconds until Lambda stops the process."""
        return self._end - time.monotonic()


def ingest_handler() -> Callable[[Event, Context], dict[str, Any]]:
    """Return the handler of ``ingest``: an event with records is from the queue, any other from the clock."""

    of_event = _Time()

    @cache
    def opened() -> tuple[Function, Ingester, _Queues]:
        function = Function("ingest")
        configuration, tables = function.configuration, function.lake.tables
        # Without a worker to hand them to, all commits are made here.
        operator = dispatcher(tables, configuration) if configuration.operations_machine else None
        long = None if operator is None else OperationCommits(operator, configuration.operation_records, of_event.left)
        queues = _Queues(_queue(configuration.ingest_queue), _queue(configuration.ingest_dead_letters))
        return function, Ingester(function.lake, SystemClock(), long), queues

    initialise(opened)

    def handler(event: Event, context: Context) -> dict[str, Any]:
        began = time.perf_counter()
        function, ingester, queues = opened()
        function.telemetry.begin(context.aws_request_id)
        log = function.telemetry.logger
        of_event.begin(context)

        def go_on() -> bool:
            return of_event.left() > RESERVE

        failed: list[_Record] = []
        counts: dict[str, int] = {}
        try:
            if "Records" in event:
                records = msgspec.convert(event["Records"], list[_Record])
                _postpone(function, queues.incoming, records, ceil(of_event.left()))
                messages = [Message(record.message_id, record.body) for record in records]
                try:
                    results, batch = _processed(function, ingester, messages, go_on)
                except BaseException:  # a fault of the program, which Lambda counts
                    _postpone(function, queues.incoming, records)
                    raise
                for record, message, result in zip(records, messages, results, strict=True):
                    counts[result.outcome.value] = counts.get(result.outcome.value, 0) + 1
                    if result.outcome is Outcome.STAGED and result.reason:
                        log.warning("ingested", extra={"message_id": message.id, "reason": result.reason})
                    last = int(record.attributes.received) >= TRIES
                    if result.outcome.is_done:
                        continue
                    if not _buried(function, queues.dead_letters, message, result, last=last):
                        failed.append(record)
                _postpone(function, queues.incoming, failed)
            else:
                batch = ingester.commit_due(go_on=go_on)
            _tell(function, batch)
            counts["commits"] = len(batch.commits)
        finally:
            function.telemetry.tell(function.traffic.take(), (time.perf_counter() - began) * 1000, dict(counts))
        return {"batchItemFailures": [{"itemIdentifier": record.message_id} for record in failed]}

    return handler


def _queue(url: str | None) -> Queue | None:
    return None if url is None else SqsQueue(url)


def _buried(function: Function, dead_letters: Queue | None, message: Message, result: Result, *, last: bool) -> bool:
    """Return whether a message that failed need not come again: it cannot succeed, or it was its ``last`` time. The log records
    its outcome in any case."""
    log = function.telemetry.logger
    log.warning(
        "not ingested", extra={"message_id": message.id, "outcome": result.outcome.value, "reason": result.reason}
    )
    if not (last or result.outcome is Outcome.POISON) or dead_letters is None:
        return False
    reason = _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), result.reason)[:_REASON_CHARS]
    try:
        dead_letters.send(message.body, {"reason": reason})
    except UnavailableError as error:
        log.warning("the dead-letter queue cannot be reached", extra={"message_id": message.id, "error": str(error)})
        return False
    return True


def _processed(
    function: Function, ingester: Ingester, messages: Sequence[Message], go_on: Callable[[], bool]
) -> tuple[list[Result], Batch]:
    """Process messages. If that fails for all of them, as when the rules cannot be read, each may succeed later. A fault of the
    program is raised if no message succeeds."""
    log = function.telemetry.logger
    results: dict[int, Result] = {}
    total = Batch(())
    fault: Exception | None = None
    parts, attempts = [range(len(messages))], 0
    while parts:
        part = parts.pop()
        if attempts == ATTEMPTS or (fault is not None and not go_on()):
            results.update(
                (position, Result(Outcome.RETRY, f"not tried after a fault: {_described(fault)}")) for position in part
            )
            continue
        attempts += 1
        try:
            outcomes, batch = ingester.process_messages([messages[position] for position in part], go_on=go_on)
        except GravelerError as error:
            log.error("a batch cannot be ingested", extra={"reason": str(error)})
            results.update((position, Result(Outcome.RETRY, str(error))) for position in part)
        except Exception as error:
            fault = error
            if len(part) > 1:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
            else:
                result = Result(Outcome.RETRY, f"a fault of the program: {_described(error)}")
                log.exception(UNREAD, extra={"message_id": messages[part[0]].id, "reason": result.reason})
                results[part[0]] = result
        else:
            results.update(zip(part, outcomes, strict=True))
            total = _both(total, batch)
    if fault is not None and all(result.outcome is Outcome.RETRY for result in results.values()):
        raise fault
    return [results[position] for position in range(len(messages))], total


def _both(batch: Batch, other_batch: Batch) -> Batch:
    """Return the results of two parts of a batch; those of events are in the results of their messages."""
    return Batch(
        (),
        batch.commits + other_batch.commits,
        batch.commits_failed + other_batch.commits_failed,
        batch.unread + tuple(unread for unread in other_batch.unread if unread not in batch.unread),
        batch.overdue + other_batch.overdue,
    )


def _described(fault: Exception | None) -> str:
    return f"{type(fault).__name__}: {fault}"


def _postpone(function: Function, incoming: Queue | None, records: Sequence[_Record], seconds: int = 0) -> None:
    """Hide messages for ``seconds`` and :func:`wait`. One request for ten. A message for which that fails comes again at the
    queue's own interval."""
    if incoming is None or not records:
        return
    waits = {
        record.receipt_handle: seconds + wait(int(record.attributes.received), random.random()) for record in records
    }
    for reason in incoming.put_off(waits):
        function.telemetry.logger.warning("messages cannot be postponed", extra={"reason": reason})


def wait(received: int, chance: float) -> int:
    """Return the seconds until a message received so often comes again: twice as many each time, of which ``chance`` (0 to 1)
    takes away up to half, so that messages that failed together do not come together."""
    longest = min(_FIRST_WAIT << min(max(received, 1), 16), LONGEST_WAIT)
    return longest - int(chance * longest / 2)


def _tell(function: Function, batch: Batch) -> None:
    log = function.telemetry.logger
    for commit in batch.commits:
        log.info("committed", extra={"repository": commit.repository, "rule": commit.rule, "commit": commit.commit.id})
    for failed in batch.commits_failed:
        log.error(
            OVERDUE,
            extra={"repository": failed.repository, "rule": failed.rule, "reason": failed.reason},
        )
    for late in batch.overdue:
        log.error(PENDING, extra={"repository": late.repository, "rule": late.rule, "seconds": late.seconds})
    for unread in batch.unread:
        log.error(UNREAD, extra={"repository": unread.repository, "rule": unread.rule, "reason": unread.reason})
