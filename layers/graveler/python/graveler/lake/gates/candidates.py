"""Candidates: commits that are built and stored, and that no ref names yet (``docs/design/0023-gates.md``).

Items: partition ``<repository uid>/candidates``, sort key the candidate's ID, which is the commit's ``operation``: so whoever has
the commit finds the row. Attributes: ``state``; ``row``, a JSON object of the rest of :class:`Candidate`; ``commit`` while the
row holds that commit for the collector; ``request_id``, and ``application`` with its ``version``, of a request that has them;
``beat`` and ``length_ms``, the lease of the process that works on it, if one does; and after the end ``expires`` (Unix seconds),
when the row may be removed. Partition ``<uid>/candidate-of/<digest of the request>``,
sort key ``candidate``: the ID of the request's newest candidate.

An end never changes: each write of a row has the condition that it is as it was read.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import (
    UNREADABLE,
    CandidateEndedError,
    ChangesHeldError,
    CorruptError,
    InvalidError,
    PreconditionError,
    RefNotFoundError,
)
from graveler.history.commits import CommitStore, is_hex
from graveler.history.refs import BranchState, Refs
from graveler.lake.leases import LeaseWatch
from graveler.model import Application, Candidate, CandidateState, CommitID, Page, RepositoryUID, Token
from graveler.staging.tokens import LEASE, TokenOutcome, life_of
from graveler.storage.limits import text_key
from graveler.storage.tables.port import (
    Absent,
    ConditionFailedError,
    Item,
    Key,
    Matches,
    Put,
    Tables,
    Value,
    Write,
)
from graveler.storage.tables.walking import items

CANDIDATE_SECONDS: Final = 7 * 86_400
"""Seconds after which a candidate that holds no changes ends by itself."""
PULL_REQUEST_SECONDS: Final = 30 * 86_400
"""The same for the candidate of an open pull request."""
HOLDING_SECONDS: Final = 3_600
"""The same for one that holds uncommitted changes: the longest time for which other commits of the branch may be refused."""
MAX_OPEN: Final = 10_000
"""The maximum number of open candidates of a repository; one in :data:`_COUNTED` new ones counts them, so some may be more."""
MAX_OPEN_OF_PRINCIPAL: Final = 2_000
"""The same for one principal."""
_COUNTED: Final = 64
_LOG_SECONDS: Final = 30 * 86_400
"""Seconds for which the row of a candidate stays after its end."""
_PUBLISHED_SECONDS: Final = 2 * 86_400
"""The same for one that was published: there may be many, and the reference log has them."""
_IN_PROGRESS: Final = (CandidateState.BUILDING, CandidateState.OPEN)
_ID_DIGITS: Final = 32

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Candidate).decode


class CandidateRow(Struct, frozen=True):
    """A candidate as the table has it: with the ``beat`` of the process that works on it, for ``seconds`` from the last one;
    empty if none does. ``request_id`` and ``application`` are those of its request: whoever publishes it fulfils that (promise
    C4)."""

    candidate: Candidate
    beat: str = ""
    seconds: float = 0.0
    request_id: str = ""
    application: Application | None = None

    @property
    def in_progress(self) -> bool:
        """True before the end."""
        return self.candidate.state in _IN_PROGRESS


class Candidates:
    """The candidates of one repository. ``now`` is in Unix seconds."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self._uid = uid
        self.partition = f"{uid}/candidates"

    def key(self, id_: str) -> Key:
        """Return the key of a candidate's row."""
        return Key(self.partition, id_.encode())

    def pointer_key(self, digest: str) -> Key:
        """Return the key of the item that names the newest candidate of a request."""
        return Key(f"{self._uid}/candidate-of/{digest}", b"candidate")

    def get(self, id_: str) -> CandidateRow | None:
        """Return the row, or None. One table read."""
        return self.decode(id_, self._tables.get(self.key(id_)))

    def newest(self, digest: str) -> tuple[str, CandidateRow | None]:
        """Return the newest candidate of a request, and its row; an empty ID if it has none. Two table reads, one without a
        candidate."""
        item = self._tables.get(self.pointer_key(digest))
        id_ = "" if item is None else str(item.get("id"))
        return id_, self.get(id_) if id_ else None

    def find(self, name: str, commits: CommitStore) -> CandidateRow:
        """Return the row of a candidate, named by its ID or by its commit's. One or two table reads. :class:`RefNotFoundError`,
        :class:`InvalidError` for another name."""
        if not is_hex(name) or len(name) not in (_ID_DIGITS, 2 * _ID_DIGITS):
            raise InvalidError(
                f"{name[:80]!r} is not a candidate: give its ID (32 hex digits), or the whole ID of its commit (64)"
            )
        row = self.get(name if len(name) == _ID_DIGITS else commits.get(CommitID(name)).operation)
        if row is None:
            raise RefNotFoundError(name, "no candidate has this ID; it may have ended more than a month ago")
        return row

    def page(self, after: str = "", amount: int = 100) -> Page[Candidate]:
        """Return a page of candidates by ID, ended ones included. One table read."""
        start = after.encode() + b"\0" if after else b""
        page = self._tables.query(self.partition, start=start, limit=amount)
        rows = [self._decoded(text_key(self.partition, sort), item).candidate for sort, item in page.items]
        return Page(tuple(rows), rows[-1].id if page.more and rows else None)

    def all(self) -> Iterable[CandidateRow]:
        """Yield all rows, by ID. One table read for each thousand."""
        for sort, item in items(self._tables, self.partition):
            yield self._decoded(text_key(self.partition, sort), item)

    def decode(self, id_: str, item: Item | None) -> CandidateRow | None:
        """Return the row in the item at :meth:`key`; None without an item. :class:`CorruptError`."""
        return None if item is None else self._decoded(id_, item)

    def check_room(self, candidate: Candidate) -> None:
        """Check that the repository, and the principal, may have one more open candidate: :class:`PreconditionError`. For one in
        :data:`_COUNTED`, one table read for each thousand rows; no request for the others."""
        if int(candidate.id[:8], 16) % _COUNTED:
            return
        principals = [row.candidate.principal for row in self.all() if row.in_progress]
        for number, most, whose in (
            (len(principals), MAX_OPEN, "the repository"),
            (principals.count(candidate.principal), MAX_OPEN_OF_PRINCIPAL, repr(candidate.principal)),
        ):
            if number >= most:
                raise PreconditionError(
                    f"{whose} has {number:,} open candidates, and may have {most:,}; publish or withdraw some "
                    "(`graveler candidate list`)"
                )

    def open_writes(self, row: CandidateRow, digest: str, newest: str, previous: CandidateRow | None) -> list[Write]:
        """Return the writes that make a candidate: its row, the pointer of its request, which named ``newest`` so far, and the
        end of the ``previous`` candidate, if that has not ended."""
        candidate = row.candidate
        condition = Matches({"id": newest}) if newest else Absent()
        writes: list[Write] = [
            Put(self.key(candidate.id), _item(row), Absent()),
            Put(self.pointer_key(digest), {"id": candidate.id, "expires": candidate.expires + _LOG_SECONDS}, condition),
        ]
        if previous is not None and previous.in_progress:
            reason = f"candidate {candidate.id} of the same request is newer"
            writes.append(self.end_write(previous, CandidateState.SUPERSEDED, reason, candidate.created))
        return writes

    def end_write(self, row: CandidateRow, state: CandidateState, reason: str, now: float) -> Put:
        """Return the write that ends a candidate, on condition that it has not ended and is as it was read, whoever works on
        it."""
        ended = replace(row.candidate, state=state, reason=reason)
        seconds = _PUBLISHED_SECONDS if state is CandidateState.PUBLISHED else _LOG_SECONDS
        item = {**_item(CandidateRow(ended)), "expires": int(now) + seconds}
        return Put(self.key(ended.id), item, Matches({"state": row.candidate.state.value, "row": _row(row.candidate)}))

    def end(self, row: CandidateRow, state: CandidateState, reason: str, now: float) -> CandidateRow:
        """End a candidate, and return its row, which may have another end by then. One table write, and a read if it failed."""
        write = self.end_write(row, state, reason, now)
        try:
            self._tables.put(write.key, write.item, write.condition)
        except ConditionFailedError:
            current = self.get(row.candidate.id)
            if current is not None and current.in_progress:
                return self.end(current, state, reason, now)
            return current or row
        return CandidateRow(replace(row.candidate, state=state, reason=reason))

    def note_work(self, row: CandidateRow, *, at_work: bool) -> CandidateRow:
        """Renew the lease of the process that works on the candidate, or give it back. One table write.
        :class:`CandidateEndedError`."""
        beat, seconds = new_lease(at_work=at_work)
        renewed = replace(row, beat=beat, seconds=seconds)
        condition = Matches({"state": row.candidate.state.value, "row": _row(row.candidate)})
        try:
            self._tables.put(self.key(row.candidate.id), _item(renewed), condition)
        except ConditionFailedError:
            raise ended_error(self.get(row.candidate.id) or row) from None
        return renewed

    def over(self, row: CandidateRow, now: float, leases: LeaseWatch) -> tuple[CandidateState, str] | None:
        """Return the end that the time has brought, if it has: its own expiry, or the death of the process that worked on it,
        whose beat has to stay the same for the lease's length, as this process sees it. No request."""
        if now > row.candidate.expires:
            return CandidateState.EXPIRED, "nobody published it in time"
        if row.beat and not self.is_at_work(row, leases):
            return CandidateState.GONE, "the process that worked on it ended without a result"
        return None

    def release(self, id_: str, now: float, leases: LeaseWatch) -> bool:
        """Return whether a candidate does not hold uncommitted changes any more; end it if its time is over. False while it is
        unknown whether the process that works on it is alive: look again. One table read, and a write if it ends.
        :class:`ChangesHeldError` if it goes on holding them."""
        row = self.get(id_)
        if row is None or not row.in_progress:
            return True
        if (end := self.over(row, now, leases)) is not None:
            self.end(row, *end, now)
            return True
        if row.beat and not self.is_renewed(row, leases):
            return False
        candidate = row.candidate
        until = datetime.fromtimestamp(candidate.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
        raise ChangesHeldError(candidate.destination, candidate.commit_id or id_, candidate.author, until)

    def withdraw_holders(self, outcomes: Iterable[TokenOutcome | None], reason: str, now: float) -> None:
        """End the candidates that hold tokens with these outcomes. One table read and one write for each."""
        for holder in sorted({outcome.owner for outcome in outcomes if outcome is not None and outcome.is_held}):
            row = self.get(holder)
            if row is not None and row.in_progress:
                self.end(row, CandidateState.WITHDRAWN, reason, now)

    @staticmethod
    def is_at_work(row: CandidateRow, leases: LeaseWatch) -> bool:
        """Return whether the process that works on the candidate may be alive, as far as this one knows. No request."""
        return leases.is_held(_lease_name(row.candidate.id), row.beat, row.seconds)

    @staticmethod
    def is_renewed(row: CandidateRow, leases: LeaseWatch) -> bool:
        """Return whether this process has seen another one at work on the candidate. No request."""
        return leases.is_renewed(_lease_name(row.candidate.id))

    def gone(self, row: CandidateRow, refs: Refs) -> str:
        """Return why a side of the candidate is not the branch any more with which it was made; "" if all are. One table read
        for each."""
        for name, life in row.candidate.lives:
            state = refs.branch(name)
            if state is None or life_of(state.open) != life:
                return f"branch {name!r} was deleted or renamed"
        return ""

    def _decoded(self, id_: str, item: Item) -> CandidateRow:
        row, state, beat, length = (item.get(name) for name in ("row", "state", "beat", "length_ms"))
        try:
            candidate = _decode(row if isinstance(row, str) else b"")
        except UNREADABLE as error:
            raise CorruptError(f"the row of candidate {id_} cannot be read: {error}") from None
        if candidate.id != id_ or candidate.state.value != state:
            raise CorruptError(f"the row of candidate {id_} is that of {candidate.id} in state {candidate.state.value}")
        request_id, application, version = (item.get(name) for name in ("request_id", "application", "version"))
        decoded = CandidateRow(candidate, request_id=request_id if isinstance(request_id, str) else "")
        if isinstance(application, str) and isinstance(version, int):
            decoded = replace(decoded, application=Application(application, version))
        if isinstance(beat, str) and isinstance(length, int):
            decoded = replace(decoded, beat=beat, seconds=length / 1000)
        return decoded


def ended_error(row: CandidateRow) -> CandidateEndedError:
    """Return the error for a candidate that has ended."""
    candidate = row.candidate
    reason = f": {candidate.reason}" if candidate.reason else ""
    return CandidateEndedError(candidate.commit_id or candidate.id, candidate.state.value, reason)


def lives_of(states: Sequence[BranchState]) -> tuple[tuple[str, str], ...]:
    """Return the lives of branches, each with its name, for :attr:`Candidate.lives`."""
    return tuple((state.name, life_of(state.open)) for state in states)


def open_seconds(tokens: Sequence[Token]) -> int:
    """Return the seconds for which a candidate stays open that holds these tokens."""
    return HOLDING_SECONDS if tokens else CANDIDATE_SECONDS


def _lease_name(id_: str) -> str:
    return f"candidate/{id_}"


def new_lease(*, at_work: bool) -> tuple[str, float]:
    """Return the beat and the length of the lease of a process that works on a candidate, or of none."""
    return (token_hex(8), LEASE) if at_work else ("", 0.0)


def _row(candidate: Candidate) -> str:
    return _encode(candidate).decode()


def _item(row: CandidateRow) -> dict[str, Value]:
    candidate = row.candidate
    item: dict[str, Value] = {"state": candidate.state.value, "row": _row(candidate)}
    if row.in_progress and candidate.commit_id:
        item["commit"] = candidate.commit_id
    if row.request_id:
        item["request_id"] = row.request_id
    if row.application is not None:
        item |= {"application": row.application.id, "version": row.application.version}
    if row.beat:
        item |= {"beat": row.beat, "length_ms": int(row.seconds * 1000)}
    return item
