"""Turns: processes that wait for a branch change it in the order in which they came, so none waits for ever.

The first to come takes no ticket and makes no extra request: it reads the queue together with the branch, finds it empty,
and goes on. A verb that loses a race, or has to wait for another, takes a ticket; verbs that come while tickets are waiting
take one too, behind them. The transaction that changes the branch removes the ticket, or else the end of the verb does.

A turn lasts at most :data:`TURN` seconds. While it waits, a ticket's owner renews its beat, which the others judge by their own
monotonic clocks (:mod:`graveler.lake.leases`); while it works, it does not. So the others pass over a process that was killed
and one that works for minutes alike, all of them after one such time, and remove the ticket. A verb that was passed over and
then loses a race begins again at the end of the queue.

A candidate that lost its branch to another change while it was checked may keep its turn while it is checked once more, for as
long as its rule says (``docs/design/0023-gates.md``). Its ticket says so, and other verbs end at once, with who keeps the turn
and until when, unless they are steps of an operation.

A long operation that had to begin another round keeps its turn from one step to the next: all its steps know the name of its
ticket, and renew it while they work. Others trust it for :data:`KEPT` seconds, which is less than their patience, so an
operation that died blocks a branch for that long at most. (An older version does not know such tickets, and passes them over
after :data:`TURN`: the operation then queues again.)

The threads and processes of one machine queue in the kernel first, where the lake has such queues
(:mod:`graveler.storage.machine_queue`), and only the first one there reads the table's queue. So those of one folder lake neither
lose races with each other nor write tickets; a process that dies leaves the queue at once, and one that stays first for longer
than :data:`TURN` is passed over.

No promise rests on a turn (docs/concurrency.md): going out of turn costs others time, and publishing depends on the branch alone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from secrets import randbits, token_hex
from types import TracebackType
from typing import Final

from msgspec import Struct

from graveler.errors import GravelerError, TurnKeptError
from graveler.history.refs import BranchState
from graveler.lake.clock import Clock, Polls
from graveler.lake.leases import LeaseWatch
from graveler.lake.refs.branches import Branches, busy
from graveler.lake.settings.repository_settings import Intent
from graveler.model import RepositoryUID
from graveler.storage.machine_queue import MachineQueue, QueueSlot
from graveler.storage.tables.port import (
    Absent,
    Condition,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Matches,
    Put,
    Tables,
    Write,
)

TURN: Final = 4.0
"""Seconds for which others wait for the owner of the current turn, or for a ticket whose beat does not change."""

KEPT: Final = 20.0
"""Seconds for which others wait for a kept turn between two renewals: the longest pause between two steps."""

PATIENT: Final = 300.0
"""Seconds for which a step of an operation waits for others: another operation may keep its turn for a whole round."""

_GLANCE: Final = 0.0005
"""Seconds between two polls by the next in the machine's queue; each poll costs some microseconds."""

_FURTHER: Final = 10
"""The factor by which that pause grows for each further one before it."""

_TICKET_TTL: Final = 86_400


class KeptFor(Struct, frozen=True):
    """The candidate for which a turn is kept while it is checked: its commit, its author, and the end (Unix seconds)."""

    candidate: str
    author: str
    until: int

    def attributes(self) -> Item:
        """Return the attributes of the ticket."""
        return {"candidate": self.candidate, "author": self.author, "until": self.until}


class Turns:
    """The queues for the branches of one repository. Safe to share between threads; one for each process is best."""

    def __init__(
        self,
        uid: RepositoryUID,
        tables: Tables,
        branches: Branches,
        clock: Clock,
        watch: LeaseWatch,
        machine_queue: MachineQueue | None = None,
    ) -> None:
        self.uid = uid
        self.tables = tables
        self.branches = branches
        self.clock = clock
        self.watch = watch
        self.machine_queue = machine_queue

    def at(
        self,
        branch: str,
        ticket: str = "",
        *,
        keep: bool = False,
        meanwhile: Callable[[], None] | None = None,
        patient: bool | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> "Turn":
        """Return the turn of one verb at a branch, which begins when it first reads the branch. As a context manager, it ends the
        turn if the verb has not. ``ticket`` names a ticket that the steps of an operation share: it stays in the queue when one
        of them fails, and with ``keep``, which always takes it, and also when one succeeds. ``meanwhile`` is work that the verb
        has to do anyway and that needs no turn; it is called at most once, while other processes of this machine have their
        turns. ``patient`` is a verb that waits for minutes, as steps of operations do: by default one with a ticket. Once
        ``stop`` returns true, it waits no longer."""
        patient = bool(ticket) if patient is None else patient
        return Turn(self, branch, ticket, keep=keep, meanwhile=meanwhile, patient=patient, stop=stop)

    def release(self, branch: str, ticket: str) -> None:
        """Give up a turn that an operation has kept. One table write."""
        self.tables.delete(self.key(branch, ticket))

    def renew(self, branch: str, ticket: str, kept_for: KeptFor | None = None) -> None:
        """Renew a kept ticket, if it is in the queue, and note what the turn is kept for. One table write."""
        item = self.kept_item() if kept_for is None else {**self.kept_item(), **kept_for.attributes()}
        with suppress(ConditionFailedError):
            self.tables.put(self.key(branch, ticket), item, Matches({"kept": 1}))

    @contextmanager
    def keeping(self, branch: str, ticket: str, kept_for: KeptFor | None = None) -> Iterator[None]:
        """Renew a kept ticket while the body works, from another thread, and when it begins and ends. ``kept_for``: until then at
        most, and other verbs do not wait."""

        def renew() -> None:
            if kept_for is not None and self.clock.now() > kept_for.until:
                return
            with suppress(GravelerError):  # if this keeps failing, others pass it over, which costs only time
                self.renew(branch, ticket, kept_for)

        renew()
        try:
            with self.clock.repeating(KEPT / 3, renew):
                yield
        finally:
            renew()

    def kept_item(self) -> Item:
        """Return the item of a kept ticket, with a beat that it never had."""
        return {"beat": randbits(53), "seconds": int(KEPT), "kept": 1, "expires": int(self.clock.now()) + _TICKET_TTL}

    def key(self, branch: str, ticket: str) -> Key:
        """Return the key of a ticket's item."""
        return Key(f"{self.uid}/turns", branch.encode() + b"\0" + ticket.encode())


class Turn:
    """One verb's turn at one branch. Not safe to share between threads."""

    def __init__(
        self,
        turns: Turns,
        branch: str,
        ticket: str,
        *,
        keep: bool,
        meanwhile: Callable[[], None] | None,
        patient: bool,
        stop: Callable[[], bool] | None,
    ) -> None:
        self._turns = turns
        self._stop = stop or (lambda: False)
        self._branch = branch
        self._kept = ticket
        self._keeps = keep
        self._patient = patient
        self._keeping = ExitStack()
        self._renews = False
        self._partition = f"{turns.uid}/turns"
        self._queue_key = Key(self._partition, branch.encode() + b"\0")
        self._polls = self._patience()
        self._was_first = False
        self._slot: QueueSlot | None = None
        self._meanwhile = meanwhile
        self._must_join = keep
        self._ahead = 0
        self._has_come = False
        self._ticket = ""
        self._beat = 0
        self._renewed = 0.0
        self._tickets: list[str] = []
        """All tickets that this one knows, including removed ones."""
        self._seconds: dict[str, float] = {}
        """The seconds for which each waiting ticket is trusted."""
        self._kept_for: dict[str, KeptFor] = {}
        """The candidates for which waiting tickets keep the turn."""

    def __enter__(self) -> "Turn":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._keeping.close()
            if self._ticket and not (self._kept and (self._keeps or error is not None)):
                with suppress(GravelerError):  # others pass it over eventually
                    self._turns.tables.delete(self._key(self._ticket))
                self.mark_released()
        finally:
            self._leave_machine_queue()

    def state(self, intent: Intent | None = None) -> BranchState:
        """Return the branch once this verb's turn has come. Errors as :meth:`Branches.state`, and :class:`BusyError` when the
        patience is used up.

        One table read, of branch, repository and queue together. If others wait: one more read, one transaction for the ticket,
        one read for each look, 5 to 100 ms apart, and a write every :data:`TURN` / 3 seconds.
        """
        self._has_come = False
        if not self._kept:  # else those before it on this machine might wait for its own ticket
            self._wait_on_machine()
        while True:
            state, waiting = self._look(intent)
            before = self._before(waiting) if waiting else []
            self._refuse_kept(before)
            if not before and (self._ticket or not self._must_join):
                if self._tickets and not waiting:
                    self._tidy()
                self._has_come = True
                if (
                    not self._was_first
                ):  # start a new wait for the work in progress: a dead owner may be before it, and another one
                    self._was_first, self._polls = True, self._patience()
                return state
            if not self._ticket and self._join(waiting) and not before:
                continue  # what was read predates the ticket
            if len(before) != self._ahead:
                self._ahead = len(before)
                self._polls.progress()
            self._pause(max(1, len(before)))
            self._renew()

    def wait(self, *, ticket: bool = True) -> None:
        """Wait some milliseconds; :class:`BusyError` when the patience is used up. With ``ticket``, this verb lost a race, or
        waits for work that began earlier: from the next look on, later verbs cannot overtake it."""
        self._must_join = self._must_join or ticket
        self._pause(1)
        self._renew()

    def step_aside(self) -> bool:
        """Let the verbs that wait behind a kept turn go first; return whether there are any. From the next look on, this one is
        behind them. One table read and one write, nothing for a turn that is not kept."""
        if not self._ticket or self._ticket != self._kept:
            return False
        _, waiting = self._look(None)
        if list(waiting)[-1:] in ([], [self._ticket]):
            return False
        self._turns.release(self._branch, self._kept)
        self._ticket, self._must_join = "", True
        return True

    def release_writes(self) -> list[Write]:
        """Return the writes that end the turn, for the transaction that changes the branch. Call :meth:`mark_released`
        afterwards. At most one write."""
        return [Delete(self._key(self._ticket))] if self._ticket else []

    def mark_released(self) -> None:
        """Record that the transaction with :meth:`release_writes` has happened. No request, unless this verb was last in the
        queue: then one write, which removes the queue."""
        if self._ticket and self._has_come and self._tickets[-1] == self._ticket:
            self._clear(self._tickets)  # all tickets before it are gone
        self._ticket = ""
        self._must_join = False
        self._leave_machine_queue()

    def _leave_machine_queue(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.leave()

    def _wait_on_machine(self) -> None:
        """Wait until the earlier threads and processes of this machine have gone. No request. :class:`BusyError` when the
        patience is used up."""
        machine_queue, clock = self._turns.machine_queue, self._turns.clock
        if machine_queue is None:
            return
        slot = self._slot = self._slot or machine_queue.enter(f"{self._turns.uid}/{self._branch}")
        if slot is None or (number := slot.predecessor()) is None:
            return
        polls, oldest, since = Polls(clock, step=_GLANCE, even=32), -1, 0.0
        while number is not None:
            if self._meanwhile is not None:
                meanwhile, self._meanwhile = self._meanwhile, None
                meanwhile()
            elif number != oldest:
                oldest, since = number, clock.monotonic()
                polls.progress()
            elif clock.monotonic() - since > TURN:
                if not slot.pass_over(number):
                    return  # out of turn, which only costs others time
            elif self._stop() or not polls.wait(1 + _FURTHER * (slot.number - number - 1)):
                raise busy(self._branch)
            number = slot.predecessor()

    def _patience(self) -> Polls:
        return Polls(self._turns.clock, patience=PATIENT) if self._patient else Polls(self._turns.clock)

    def _pause(self, place: int) -> None:
        if self._stop() or not self._polls.wait(place):
            raise busy(self._branch)

    def _look(self, intent: Intent | None) -> tuple[BranchState, dict[str, int]]:
        """Return the branch, and the beats of the waiting tickets, in their order."""
        keys = [self._queue_key, *map(self._key, self._tickets)]
        state, (queue, *items) = self._turns.branches.state_beside(self._branch, keys, intent)
        if queue is None and not self._tickets:
            return state, {}
        item_of: dict[str, Item | None] = dict(zip(self._tickets, items, strict=True))
        self._tickets = _tickets_of(queue)
        fresh = [ticket for ticket in self._tickets if ticket not in item_of]
        if fresh:
            item_of.update(zip(fresh, self._turns.tables.get_many([*map(self._key, fresh)]), strict=True))
        items_of = {ticket: item for ticket in self._tickets if (item := item_of[ticket]) is not None}
        waiting = {ticket: _number(item, "beat") for ticket, item in items_of.items()}
        self._seconds = {ticket: _number(item, "seconds") or TURN for ticket, item in items_of.items()}
        self._kept_for = {
            ticket: KeptFor(str(item.get("candidate")), str(item.get("author")), _number(item, "until"))
            for ticket, item in items_of.items()
            if "until" in item
        }
        if self._kept in waiting:
            self._has_kept()
        elif self._ticket not in waiting:
            self._ticket = ""  # others passed it over
        return state, waiting

    def _before(self, waiting: dict[str, int]) -> list[str]:
        """Return the tickets ahead of this one whose owners are alive. Remove the other tickets ahead."""
        before = []
        for ticket, beat in list(waiting.items()):
            if ticket == self._ticket:
                break
            if self._turns.watch.is_held(self._lease(ticket), str(beat), self._seconds[ticket]):
                before.append(ticket)
                continue
            with suppress(ConditionFailedError):
                self._turns.tables.delete(self._key(ticket), Matches({"beat": beat}))
                self._turns.watch.forget(self._lease(ticket))
                del waiting[ticket]
        return before

    def _refuse_kept(self, before: Sequence[str]) -> None:
        """Raise :class:`TurnKeptError` if a turn ahead is kept for a candidate, unless this is a step of an operation."""
        kept_for = next((self._kept_for[ticket] for ticket in before if ticket in self._kept_for), None)
        if kept_for is not None and not self._patient and self._turns.clock.now() <= kept_for.until:
            until = datetime.fromtimestamp(kept_for.until, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            raise TurnKeptError(self._branch, kept_for.candidate, kept_for.author, until)

    def _join(self, waiting: dict[str, int]) -> bool:
        """Take a ticket, behind those that wait. One transaction. Return False if a concurrent verb was faster: look again."""
        ticket = self._kept or token_hex(8)
        tickets = [*waiting, ticket]
        expires = int(self._turns.clock.now()) + _TICKET_TTL
        condition: Condition = Matches({"tickets": self._tickets}) if self._tickets else Absent()
        try:
            self._turns.tables.transact(
                [
                    Put(self._queue_key, {"tickets": tickets, "expires": expires}, condition),
                    Put(self._key(ticket), self._turns.kept_item() if self._kept else {"beat": 0, "expires": expires}),
                ]
            )
        except ConditionFailedError:
            return False
        self._ticket, self._tickets = ticket, tickets
        self._beat, self._renewed = 0, self._turns.clock.monotonic()
        if self._kept:
            self._has_kept()
        return True

    def _has_kept(self) -> None:
        """Note that the kept ticket is in the queue, and renew it until this turn ends."""
        self._ticket = self._kept
        if not self._renews:
            self._renews = True
            self._keeping.enter_context(self._turns.keeping(self._branch, self._kept))

    def _renew(self) -> None:
        """Renew the ticket if it is time. One table write."""
        if not self._ticket or self._turns.clock.monotonic() - self._renewed < TURN / 3:
            return
        if self._kept:
            self._renewed = self._turns.clock.monotonic()
            self._turns.renew(self._branch, self._kept)
            return
        self._renewed = self._turns.clock.monotonic()
        item = {"beat": self._beat + 1, "expires": int(self._turns.clock.now()) + _TICKET_TTL}
        with suppress(ConditionFailedError):  # others passed it over, as the next look shows
            self._turns.tables.put(self._key(self._ticket), item, Matches({"beat": self._beat}))
            self._beat += 1

    def _tidy(self) -> None:
        """Remove the queue, whose tickets are all gone but whose last owner died before it could remove it; otherwise each new
        verb would look for those tickets."""
        self._clear(self._tickets)
        self._tickets = []

    def _clear(self, tickets: Sequence[str]) -> None:
        """Remove the queue, if it has not changed. This is a courtesy: nothing depends on it."""
        with suppress(GravelerError):
            self._turns.tables.delete(self._queue_key, Matches({"tickets": list(tickets)}))

    def _key(self, ticket: str) -> Key:
        return self._turns.key(self._branch, ticket)

    def _lease(self, ticket: str) -> str:
        return f"{self._partition}/{ticket}"


def _tickets_of(queue: Item | None) -> list[str]:
    tickets = None if queue is None else queue.get("tickets")
    return [*tickets] if isinstance(tickets, list) else []


def _number(item: Item, name: str) -> int:
    number = item.get(name)
    return number if isinstance(number, int) else 0
