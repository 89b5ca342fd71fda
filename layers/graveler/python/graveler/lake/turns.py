"""Turns: those who wait for one branch change it in the order in which they came, and nobody overtakes them for ever.

The first to come takes no place in line and makes no request for it: it reads the line together with the branch, finds it empty,
and goes on. A verb that loses a race, or has to wait for another, takes a ticket; those that come while tickets are waiting take
one too, behind them. A ticket goes in the transaction that changes the branch, or when the verb ends.

A turn lasts at most :data:`TURN` seconds. While it waits, a ticket's owner renews its beat, which the others judge by their own
monotonic clocks (:mod:`graveler.lake.leases`); while it works, it does not. So a process that was killed and one that works for
minutes are passed over alike, all of them after one such time, and the ticket is removed. Who was passed over, and loses, begins
again at the end of the line.

A long operation keeps its turn from one step to the next, once it had to begin another round: its ticket has a name that all its
steps know, and is renewed while they work. It is believed for :data:`KEPT` seconds, less than others' patience, so an operation
that died holds a branch up for that long at most. (A version before this one knows of no such ticket, and passes it over after
:data:`TURN`: the operation stands in line again then.)

Threads of one process line up in memory first, and wake at once. The first of them stands in a line of this machine's processes,
where the lake has such lines (:mod:`graveler.storage.lines`), and only the first one there reads the table's. So processes of one
folder lake neither lose races with each other nor write tickets; one that dies is out of line at once, and one that stays first
for longer than :data:`TURN` is passed over.

No promise rests on a turn (docs/concurrency.md): going out of turn costs others time, and publishing depends on the branch alone.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from secrets import randbits, token_hex
from threading import Event, Lock
from types import TracebackType
from typing import Final

from graveler.errors import GravelerError
from graveler.history.refs import BranchState
from graveler.lake.clock import Clock, Polls
from graveler.lake.leases import LeaseWatch
from graveler.lake.refs.branches import Branches, busy
from graveler.lake.settings.rules import Intent
from graveler.model import RepositoryUID
from graveler.storage.lines import Lines, Place
from graveler.storage.tables import (
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
"""Seconds for which others wait for one whose turn it is, or whose ticket shows no beat."""

KEPT: Final = 20.0
"""Seconds for which others wait for a turn that is kept, between two signs of life: what passes between two steps."""

PATIENT: Final = 300.0
"""Seconds for which a step of an operation waits for others: another one may have kept its turn for a round."""

_GLANCE: Final = 0.0005
"""Seconds between two looks of the next one in the machine's line, which cost some microseconds each."""

_FURTHER: Final = 10
"""How many times that for each one more that is before."""

_TICKET_TTL: Final = 86_400


class Turns:
    """The lines before the branches of one repository. Safe to share between threads; one for each process is best."""

    def __init__(
        self,
        uid: RepositoryUID,
        tables: Tables,
        branches: Branches,
        clock: Clock,
        watch: LeaseWatch,
        lines: Lines | None = None,
    ) -> None:
        self.uid = uid
        self.tables = tables
        self.branches = branches
        self.clock = clock
        self.watch = watch
        self.lines = lines
        self.threads = _Threads()

    def at(
        self, branch: str, ticket: str = "", *, keep: bool = False, meanwhile: Callable[[], None] | None = None
    ) -> "Turn":
        """A turn of one verb at a branch, which begins when it first reads the branch. A context manager, which ends the turn if
        the verb has not. ``ticket`` names a ticket that the steps of an operation share: it stays in line when one of them fails,
        and with ``keep``, which takes it in any case, also when one succeeds. ``meanwhile`` is work that the verb has to do
        anyway and that needs no turn: called at most once, when other processes of this machine have theirs before."""
        return Turn(self, branch, ticket, keep=keep, meanwhile=meanwhile)

    def let_go(self, branch: str, ticket: str) -> None:
        """Give a turn back that an operation has kept. One table write."""
        self.tables.delete(self.key(branch, ticket))

    def renew(self, branch: str, ticket: str) -> None:
        """A sign of life for a kept ticket, if it is in line. One table write."""
        with suppress(ConditionFailedError):
            self.tables.put(self.key(branch, ticket), self.kept_item(), Matches({"kept": 1}))

    @contextmanager
    def keeping(self, branch: str, ticket: str) -> Iterator[None]:
        """Renews a kept ticket while the body works, from another thread, and when it begins and ends."""

        def renew() -> None:
            with suppress(GravelerError):  # others pass it over if it stays like this, which costs time alone
                self.renew(branch, ticket)

        renew()
        try:
            with self.clock.repeating(KEPT / 3, renew):
                yield
        finally:
            renew()

    def kept_item(self) -> Item:
        """A kept ticket's, with a beat that it never had."""
        return {"beat": randbits(53), "seconds": int(KEPT), "kept": 1, "expires": int(self.clock.now()) + _TICKET_TTL}

    def key(self, branch: str, ticket: str) -> Key:
        """Of a ticket's item."""
        return Key(f"{self.uid}/turns", branch.encode() + b"\0" + ticket.encode())


class Turn:
    """One verb's turn at one branch. For one thread."""

    def __init__(
        self, turns: Turns, branch: str, ticket: str, *, keep: bool, meanwhile: Callable[[], None] | None
    ) -> None:
        self._turns = turns
        self._branch = branch
        self._kept = ticket
        self._keeps = keep
        self._keeping = ExitStack()
        self._renews = False
        self._partition = f"{turns.uid}/turns"
        self._line_key = Key(self._partition, branch.encode() + b"\0")
        self._polls = self._patience()
        self._was_first = False
        self._event: Event | None = None
        self._line_place: Place | None = None
        self._meanwhile = meanwhile
        self._must_join = keep
        self._ahead = 0
        self._has_come = False
        self._ticket = ""
        self._beat = 0
        self._renewed = 0.0
        self._line: list[str] = []
        """All tickets, as far as this one knows, gone ones too."""
        self._seconds: dict[str, float] = {}
        """For how long each ticket that is waiting is believed."""

    def __enter__(self) -> "Turn":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._keeping.close()
            if self._ticket and not (self._kept and (self._keeps or error is not None)):
                with suppress(GravelerError):  # it is passed over in the end
                    self._turns.tables.delete(self._key(self._ticket))
                self.left()
        finally:
            self._let_others()

    def state(self, intent: Intent | None = None) -> BranchState:
        """The branch as it is when this verb's turn has come. Errors as :meth:`Branches.state`, :class:`BusyError` when the
        patience is used up.

        One table read, of branch, repository and line together. Where others wait: one read more, one transaction for the ticket,
        one read for each look, 5 to 100 ms apart, and a write every :data:`TURN` / 3 seconds.
        """
        self._has_come = False
        if not self._kept:  # else those before it in this process might wait for its own ticket
            self._event = self._turns.threads.wait(self._branch, self._event)
            self._wait_on_machine()
        while True:
            state, waiting = self._look(intent)
            before = self._before(waiting)
            if not before and (self._ticket or not self._must_join):
                self._tidy(waiting)
                self._has_come = True
                if (
                    not self._was_first
                ):  # what is at work is waited for anew: an owner that died may be before it, and another one
                    self._was_first, self._polls = True, self._patience()
                return state
            if not self._ticket and self._join(waiting) and not before:
                continue  # what was read is from before the ticket
            if len(before) != self._ahead:
                self._ahead = len(before)
                self._polls.progress()
            self._pause(max(1, len(before)))
            self._renew()

    def wait(self, *, ticket: bool = True) -> None:
        """Waits some milliseconds; :class:`BusyError` when the patience is used up. With ``ticket``, this verb lost a race, or
        waits for work that was begun before: from the next look on nobody who comes later goes first."""
        self._must_join = self._must_join or ticket
        self._pause(1)
        self._renew()

    def step_aside(self) -> bool:
        """Let those go first who wait behind a kept turn; whether there are any. From the next look on it is behind them. One
        table read and one write, nothing for a turn that is not kept."""
        if not self._ticket or self._ticket != self._kept:
            return False
        _, waiting = self._look(None)
        if list(waiting)[-1:] in ([], [self._ticket]):
            return False
        self._turns.let_go(self._branch, self._kept)
        self._ticket, self._must_join = "", True
        return True

    def leaving(self) -> list[Write]:
        """What ends the turn, as part of the transaction that changes the branch; :meth:`left` afterwards. At most one write."""
        return [Delete(self._key(self._ticket))] if self._ticket else []

    def left(self) -> None:
        """The transaction with :meth:`leaving` has happened. No request, unless nobody waits behind this one: then one write,
        which leaves the line as if nobody had ever waited."""
        if self._ticket and self._has_come and self._line[-1] == self._ticket:
            self._clear(self._line)  # all who were before it have gone
        self._ticket = ""
        self._must_join = False
        self._let_others()

    def _let_others(self) -> None:
        """Leave the lines of this machine and of this process."""
        place, self._line_place = self._line_place, None
        event, self._event = self._event, None
        try:
            if place is not None:
                place.leave()
        finally:
            self._turns.threads.leave(self._branch, event)

    def _wait_on_machine(self) -> None:
        """Wait until those processes of this machine have gone that came before. No request. :class:`BusyError` when the patience
        is used up."""
        lines, clock = self._turns.lines, self._turns.clock
        if lines is None:
            return
        self._stand(lines)
        first, since = -1, 0.0
        polls = Polls(clock, step=_GLANCE, even=32)
        while self._line_place is not None and (ahead := self._line_place.ahead()) is not None:
            if self._meanwhile is not None:
                meanwhile, self._meanwhile = self._meanwhile, None
                meanwhile()
                self._stand(lines)
                continue
            if ahead != first:
                first, since = ahead, clock.monotonic()
                polls.progress()
            elif clock.monotonic() - since > TURN:
                if not self._line_place.pass_over(ahead):
                    return  # out of turn, which costs others time alone
                continue
            if not polls.wait(1 + _FURTHER * (self._line_place.number - ahead - 1)):
                raise busy(self._branch)

    def _stand(self, lines: Lines) -> None:
        """Stand in the machine's line; at its end, if others do not wait for this one any more."""
        if self._line_place is not None and self._line_place.is_passed_over():
            place, self._line_place = self._line_place, None
            place.leave()
        if self._line_place is None:
            self._line_place = lines.enter(f"{self._turns.uid}/{self._branch}")

    def _patience(self) -> Polls:
        return Polls(self._turns.clock, patience=PATIENT) if self._kept else Polls(self._turns.clock)

    def _pause(self, place: int) -> None:
        if not self._polls.wait(place):
            raise busy(self._branch)

    def _look(self, intent: Intent | None) -> tuple[BranchState, dict[str, int]]:
        """The branch, and the beats of the tickets that are waiting, in their order."""
        known = self._line
        keys = [self._line_key, *map(self._key, known)]
        state, (line, *items) = self._turns.branches.state_beside(self._branch, keys, intent)
        found: dict[str, Item | None] = dict(zip(known, items, strict=True))
        self._line = _tickets(line)
        fresh = [ticket for ticket in self._line if ticket not in found]
        if fresh:
            found.update(zip(fresh, self._turns.tables.get_many([*map(self._key, fresh)]), strict=True))
        items_of = {ticket: item for ticket in self._line if (item := found[ticket]) is not None}
        waiting = {ticket: _number(item, "beat") for ticket, item in items_of.items()}
        self._seconds = {ticket: _number(item, "seconds") or TURN for ticket, item in items_of.items()}
        if self._kept in waiting:
            self._has_kept()
        elif self._ticket not in waiting:
            self._ticket = ""  # others passed it over
        return state, waiting

    def _before(self, waiting: dict[str, int]) -> list[str]:
        """The tickets before this one's whose owners are at work. Removes those of others."""
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

    def _join(self, waiting: dict[str, int]) -> bool:
        """Take a ticket, behind those that wait. One transaction. False if somebody else was faster: look again."""
        ticket = self._kept or token_hex(8)
        line = [*waiting, ticket]
        expires = int(self._turns.clock.now()) + _TICKET_TTL
        condition: Condition = Matches({"tickets": self._line}) if self._line else Absent()
        try:
            self._turns.tables.transact(
                [
                    Put(self._line_key, {"tickets": line, "expires": expires}, condition),
                    Put(self._key(ticket), self._turns.kept_item() if self._kept else {"beat": 0, "expires": expires}),
                ]
            )
        except ConditionFailedError:
            return False
        self._ticket, self._line = ticket, line
        self._beat, self._renewed = 0, self._turns.clock.monotonic()
        if self._kept:
            self._has_kept()
        return True

    def _has_kept(self) -> None:
        """The kept ticket is in line: it is renewed until this turn ends."""
        self._ticket = self._kept
        if not self._renews:
            self._renews = True
            self._keeping.enter_context(self._turns.keeping(self._branch, self._kept))

    def _renew(self) -> None:
        """One table write, if it is time."""
        if not self._ticket or self._turns.clock.monotonic() - self._renewed < TURN / 3:
            return
        if self._kept:
            self._renewed = self._turns.clock.monotonic()
            self._turns.renew(self._branch, self._kept)
            return
        self._renewed = self._turns.clock.monotonic()
        item = {"beat": self._beat + 1, "expires": int(self._turns.clock.now()) + _TICKET_TTL}
        with suppress(ConditionFailedError):  # others passed it over, as the next look tells
            self._turns.tables.put(self._key(self._ticket), item, Matches({"beat": self._beat}))
            self._beat += 1

    def _tidy(self, waiting: dict[str, int]) -> None:
        """All who were in line have gone, and the last one died before it could remove the line: else each one that comes would
        look for them."""
        if self._line and not waiting:
            self._clear(self._line)
            self._line = []

    def _clear(self, line: Sequence[str]) -> None:
        """Remove the line, if it still is this one. It is a courtesy: nothing depends on it."""
        with suppress(GravelerError):
            self._turns.tables.delete(self._line_key, Matches({"tickets": list(line)}))

    def _key(self, ticket: str) -> Key:
        return self._turns.key(self._branch, ticket)

    def _lease(self, ticket: str) -> str:
        return f"{self._partition}/{ticket}"


def _tickets(line: Item | None) -> list[str]:
    found = None if line is None else line.get("tickets")
    return [*found] if isinstance(found, list) else []


def _number(item: Item, name: str) -> int:
    found = item.get(name)
    return found if isinstance(found, int) else 0


class _Threads:
    """The threads of this process that wait for a branch, the first of which may go on."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = Lock()
        self._lines: dict[str, deque[Event]] = {}
        self._process = os.getpid()

    def wait(self, branch: str, mine: Event | None) -> Event:
        """Stand in line, at its end unless ``mine`` is in it, until those before have gone. One before that stays for longer than
        :data:`TURN` seconds loses its place."""
        if self._process != os.getpid():
            self._begin()  # a forked child has none of its parent's threads, and maybe a lock that one of them held
        with self._lock:
            line = self._lines.setdefault(branch, deque())
            if mine is None or mine not in line:
                mine = Event()
                line.append(mine)
            first = line[0]
        while first is not mine:
            gone = not mine.wait(TURN)
            with self._lock:
                line = self._lines.setdefault(branch, deque())
                if mine not in line:  # passed over, since it did not wake up in time: back to the end
                    mine.clear()
                    line.append(mine)
                elif gone and line[0] is first:
                    self._remove(branch, first)
                first = line[0]
        return mine

    def leave(self, branch: str, mine: Event | None) -> None:
        """Leave the line; nothing happens to who is not in it."""
        if self._process != os.getpid():
            return  # a child was forked in the middle of a verb
        with self._lock:
            if mine is not None and mine in self._lines.get(branch, ()):
                self._remove(branch, mine)

    def _remove(self, branch: str, event: Event) -> None:
        line = self._lines[branch]
        line.remove(event)
        if line:
            line[0].set()
        else:
            del self._lines[branch]
