"""The results of events and of commits, as values."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final

from msgspec import Struct

from graveler.errors import (
    BusyError,
    ChangesHeldError,
    CorruptError,
    GravelerError,
    InvalidError,
    RuleError,
    TurnKeptError,
    UnavailableError,
)
from graveler.ingest.events import ObjectEvent, parse_message
from graveler.ingest.rules import RepositoryRules
from graveler.model import Commit

_RETRY: Final = (BusyError, CorruptError, UnavailableError)


class Outcome(str, Enum):
    """The outcome of an event. ``staged``: the branch has it. ``stale``: it was seen before, or a newer one was. ``skipped``: no
    rule wants it, or its object is gone. ``retry``: the same event may succeed later. ``poison``: it cannot, until a person
    changes something."""

    STAGED = "staged"
    STALE = "stale"
    SKIPPED = "skipped"
    RETRY = "retry"
    POISON = "poison"

    @property
    def is_done(self) -> bool:
        """True if the event need not be sent again."""
        return self not in (Outcome.RETRY, Outcome.POISON)


_WORSE: Final = list(Outcome)
_WORSE.sort(key=[Outcome.SKIPPED, Outcome.STALE, Outcome.STAGED, Outcome.RETRY, Outcome.POISON].index)


class Result(Struct, frozen=True):
    """The outcome of an event, and the reason."""

    outcome: Outcome
    reason: str = ""


class Made(Struct, frozen=True):
    """A commit that a rule's policy asked for."""

    repository: str
    rule: str
    commit: Commit


class NotMade(Struct, frozen=True):
    """A commit that is due and could not be made; the next check of the rule retries it."""

    repository: str
    rule: str
    reason: str


class Unread(Struct, frozen=True):
    """A repository, or one of its rules, that cannot be read: its events are delivered again, and its commits wait."""

    repository: str
    rule: str
    reason: str


class Overdue(Struct, frozen=True):
    """A rule whose commit has been due for ``seconds``, by its windows or its seconds."""

    repository: str
    rule: str
    seconds: int


class Batch(Struct, frozen=True):
    """The ``results`` of events, in order, and the commits made meanwhile. ``unread`` are repositories and rules that cannot be
    read; only :meth:`graveler.ingest.ingester.Ingester.commit_due` reports ``overdue``."""

    results: tuple[Result, ...]
    commits: tuple[Made, ...] = ()
    commits_failed: tuple[NotMade, ...] = ()
    unread: tuple[Unread, ...] = ()
    overdue: tuple[Overdue, ...] = ()


class Message(Struct, frozen=True):
    """A message of a queue."""

    id: str
    body: str


class Notes:
    """Results collected by the events' positions in the batch."""

    def __init__(self) -> None:
        self._results: dict[int, Result] = {}
        self._made: list[Made] = []
        self._not_made: list[NotMade] = []
        self._unread: list[Unread] = []
        self.overdue: list[Overdue] = []

    def note(self, position: int, result: Result) -> None:
        """Record an event's result by one rule; the worst of several rules counts."""
        noted = self._results.get(position)
        self._results[position] = result if noted is None else worst(noted, result)

    def take(self, other: "Notes") -> None:
        """Add the results of a successful attempt."""
        for position, result in other._results.items():
            self.note(position, result)

    def commits(self, repository: str, rule: str, make: Callable[[], Sequence[Commit]]) -> Sequence[Commit] | None:
        """Make commits, and return them; None after a failure, which is recorded, and affects no event. A commit that waits as
        the rules of its branch want it has not failed: the next check of the rule makes it."""
        try:
            commits = make()
        except GravelerError as error:
            if not is_waiting(error):
                self.not_made(repository, rule, error)
            return None
        self._made += [Made(repository, rule, commit) for commit in commits]
        return commits

    def not_made(self, repository: str, rule: str, error: GravelerError) -> None:
        """Record that a commit could not be made."""
        self._not_made.append(NotMade(repository, rule, str(error)))

    def unread(self, rules: RepositoryRules, rule: str, reason: str) -> None:
        """Record that a rule cannot be read; without a name, all of its repository."""
        unread_rule = Unread(rules.repository or rules.uid, rule, reason)
        if unread_rule not in self._unread:
            self._unread.append(unread_rule)

    def finished(
        self, events: Sequence[ObjectEvent] = (), buckets: AbstractSet[str] = frozenset(), *, any_rule: bool = True
    ) -> Batch:
        """Return all results; ``buckets`` are those that have rules, and ``any_rule`` as of :func:`unwanted`."""
        results = [
            self._results.get(position)
            or (
                Result(Outcome.SKIPPED, "no rule applies to it")
                if event.bucket in buckets
                else unwanted(event, any_rule=any_rule)
            )
            for position, event in enumerate(events)
        ]
        return Batch(tuple(results), tuple(self._made), tuple(self._not_made), tuple(self._unread), tuple(self.overdue))


def by_message(
    messages: Sequence[Message], process: Callable[[Sequence[ObjectEvent]], Batch]
) -> tuple[list[Result], Batch]:
    """Run ``process`` on the events of messages; returns the worst result of the events in each, in order, and all results."""
    parsed: list[list[ObjectEvent] | Result] = []
    for message in messages:
        try:
            parsed.append(parse_message(message.body))
        except InvalidError as error:
            parsed.append(Result(Outcome.POISON, str(error)))
    batch = process([event for events in parsed if isinstance(events, list) for event in events])
    results = iter(batch.results)
    of_messages: list[Result] = []
    for events in parsed:
        if isinstance(events, Result):
            of_messages.append(events)
        else:
            message_result = Result(Outcome.SKIPPED, "" if events else "not an object event")
            for _ in events:
                message_result = worst(message_result, next(results))
            of_messages.append(message_result)
    return of_messages, batch


def unwanted(event: ObjectEvent, *, any_rule: bool) -> Result:
    """Return the result of an event from a source that no rule is about: poison in a lake with ``any_rule``, since somebody may
    have forgotten one, but nothing to report while ingest is not used at all."""
    if not any_rule:
        return Result(
            Outcome.SKIPPED, "there is no rule; once there is one, reconcile it to take what is there already"
        )
    return Result(Outcome.POISON, f"no rule applies to {event.bucket!r}, where {event.address!r} comes from")


def failed(error: GravelerError) -> Result:
    """Return the result of an event that could not be processed."""
    return Result(Outcome.RETRY if isinstance(error, _RETRY) else Outcome.POISON, str(error))


def is_waiting(error: GravelerError) -> bool:
    """Return whether a commit waits for the checks of a candidate: its own, one that keeps the branch's turn, or one that holds
    the branch's changes. Each ends by itself."""
    return isinstance(error, TurnKeptError | ChangesHeldError) or (isinstance(error, RuleError) and error.waits)


def worst(earlier: Result, later: Result) -> Result:
    """Return, of two results of an event, or of events that belong together, the one that counts; of equal ones that with a
    reason."""
    return max(earlier, later, key=lambda result: (_WORSE.index(result.outcome), bool(result.reason)))
