"""The passage of a new commit through the gate of a branch, as a candidate (``docs/design/0023-gates.md``).

1. :meth:`Passage.prepare` stores the commit as a candidate.
2. :meth:`Passage.finish` judges it, runs graveler's own checks, and
3. :meth:`Passage.publish` moves the branch, on condition of everything that was judged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any, Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import (
    BusyError,
    CheckSettingsError,
    ConflictError,
    GravelerError,
    InvalidError,
    RefNotFoundError,
    RuleError,
    TooMuchWorkError,
    UnavailableError,
)
from graveler.history.refs import BranchState
from graveler.lake.clock import Backoff
from graveler.lake.committing.clean_heads import wait_for_clean_head
from graveler.lake.committing.publish import HeadMovedError, NotePublishing, Prepared, Publishing, publish
from graveler.lake.deadline import Deadline
from graveler.lake.gates.candidates import (
    PULL_REQUEST_SECONDS,
    CandidateRow,
    Candidates,
    ended_error,
    lives_of,
    new_lease,
    open_seconds,
)
from graveler.lake.gates.carried_statuses import carry_statuses
from graveler.lake.gates.gate import GateKeeper, GateTerms, checks_of
from graveler.lake.gates.judgement import is_transaction
from graveler.lake.gates.statuses import TreeStatuses
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.lake.turns import KeptFor
from graveler.model import (
    Candidate,
    CandidateState,
    Commit,
    CommitID,
    Lack,
    MergeStrategies,
    MetarangeName,
    MovedHead,
    Token,
)
from graveler.staging.tokens import LEASE, TokenOutcome
from graveler.storage.tables.port import Check, ConditionFailedError, Write
from graveler.tree.tree import Tree

ROUNDS: Final = 8
"""The number of times that a candidate is judged, or made, anew because something moved meanwhile, before the verb gives up."""

NO_COMMIT: Final = CommitID("")


class Attempt(Struct, frozen=True, kw_only=True):
    """One candidate on its way: ``statuses`` are those of its tree, if they were read when it was made. ``state`` is the branch
    as it was built on, ``trees`` those of the head and of the commit. ``applied`` are the sealed tokens that it takes, and
    ``adopted`` the requests that had sealed them. ``is_new``: this call made it, and has not waited since."""

    state: BranchState
    head: Commit
    commit: Commit
    trees: tuple[Tree, Tree]
    row: CandidateRow
    applied: tuple[Token, ...] = ()
    adopted: frozenset[str] = frozenset()
    required_commits: Sequence[CommitID] = ()
    statuses: TreeStatuses | None = None
    is_new: bool = False


class Publication(Struct, frozen=True, kw_only=True):
    """The additions of a verb to the transaction that publishes, as of :func:`publish`."""

    request_id: str = ""
    extra_writes: Sequence[Write] = ()
    condition: Check | None = None
    note: NotePublishing = lambda _: None


class Passage(GateKeeper):
    """The gate before a branch, for a verb that makes a commit."""

    def __init__(self, repository: RepositoryParts, branch: str, verb: str, terms: GateTerms) -> None:
        super().__init__(repository, branch, verb, terms)
        self._candidates = Candidates(repository.tables, repository.uid)
        self._digest = ""
        self._kept_until = 0
        self.newest_id = ""
        """The ID of the candidate that this verb made last; empty before."""

    @property
    def digest(self) -> str:
        """The identifier of the request."""
        self._digest = self._digest or self.terms.digest
        return self._digest

    def reopen(self, row: CandidateRow, intent: Intent | None = None) -> Attempt | None:
        """Return an open candidate that an earlier call made, if the branch still is as it was built on and no process works on
        it. ``intent`` is that of a verb that has not read the branch with one before. Three or four table reads, as many again as
        :func:`wait_for_clean_head` if it holds no changes; two object reads. :class:`DirtyBranchError`, :class:`RuleError`."""
        candidate, repository = row.candidate, self.repository
        if not row.in_progress or not candidate.commit_id or self._is_over(row) or self._is_at_work(row):
            return None
        state = self._state(candidate, intent or Intent(direct=False, force=True, accept=self.accept))
        if state is None or state.commit_id != candidate.head:
            return None
        if state.sealed[: len(candidate.tokens)] != candidate.tokens:
            return None
        head, commit = repository.commits.get_many([candidate.head, candidate.commit_id])
        before, after = repository.trees.load_many([head.metarange, commit.metarange])
        outcomes = repository.outcomes.get_many(candidate.tokens) if candidate.tokens else []
        return Attempt(
            state=state,
            head=head,
            commit=commit,
            trees=(before, after),
            row=row,
            applied=candidate.tokens,
            adopted=frozenset(outcome.request for outcome in outcomes if outcome is not None and outcome.request),
            required_commits=commit.parents[1:],
        )

    def ticket(self, number: int) -> str:
        """Return the ticket by which a candidate keeps the branch's turn in its round of this ``number``, from 0; "" if it does
        not: in the first round nobody waits for its checks."""
        return token_hex(8) if number and self.gate.hold and self.gate.moved_head is MovedHead.EXACT else ""

    @contextmanager
    def queueing(self, ticket: str) -> Iterator[None]:
        """Give the ticket up after the body, however that ends: others would wait for it. A table write, none without one."""
        try:
            yield
        finally:
            if ticket:
                with suppress(GravelerError):  # others pass it over eventually
                    self.repository.turns.release(self.name, ticket)

    @contextmanager
    def keeping_turn(self, attempt: Attempt, ticket: str) -> Iterator[None]:
        """Keep the turn by this ticket while the body checks the candidate, for as long as its rules say, counted from the first
        time. A table write at the beginning, every few seconds, and at the end; none without a ticket."""
        if not ticket:
            yield
            return
        self._kept_until = self._kept_until or int(self.repository.clock.now()) + self.gate.hold
        kept_for = KeptFor(attempt.commit.id, attempt.row.candidate.author, self._kept_until)
        with self.repository.turns.keeping(self.name, ticket, kept_for):
            yield

    @property
    def has_kept_turn(self) -> bool:
        """True once the time is over for which rules let a candidate keep the turn. A verb that was being checked before it was
        kept may still overtake."""
        return 0 < self._kept_until < self.repository.clock.now()

    def moved_error(self) -> BusyError:
        """Return the error for a branch that moved in each round while the change was checked."""
        rules = ", ".join(repr(rule.name) for rule in self.gate.rules)
        return BusyError(
            f"branch {self.name!r} moved each time while the change was checked, although rules {rules} let a candidate keep the "
            f"branch for {self.gate.hold} s; it was not changed. Make the checks faster, raise `hold`, or set `moved_head` to "
            "`apart`"
        )

    def _state(self, candidate: Candidate, intent: Intent) -> BranchState | None:
        """Return the branch of an earlier candidate. One that holds no changes is published only if nothing is staged by now, as
        when it was made. :class:`DirtyBranchError`."""
        repository = self.repository
        state = repository.branches.find(self.name, intent)
        if state is None or candidate.tokens or state.commit_id != candidate.head:
            return state
        with repository.turns.at(self.name) as turn:
            return wait_for_clean_head(repository, turn, self.name, "publishing a candidate there", intent)[0]

    def resume(self) -> Attempt | None:
        """Return the open candidate of an earlier call of the same request that holds uncommitted changes. One or two table
        reads, and as :meth:`reopen`."""
        _, row = self._candidates.newest(self.digest)
        return None if row is None or not row.candidate.tokens else self.reopen(row)

    def give_up(self, *, resumed: bool) -> bool:
        """End the open candidate of an earlier call of the same request that holds uncommitted changes, since it cannot be
        published as the branch is now; return False if there is none, or a process works on it, other than this one, which has
        ``resumed`` it. Two table reads and a write."""
        _, row = self._candidates.newest(self.digest)
        if row is None or not row.in_progress or not row.candidate.tokens or (self._is_at_work(row) and not resumed):
            return False
        reason = "the branch has moved, and the same request makes a new candidate"
        self._candidates.end(row, CandidateState.SUPERSEDED, reason, self.repository.clock.now())
        return True

    def end_unguarded(self, candidate: str) -> bool:
        """End the candidate of this commit, which holds changes of the branch, if no rule guards that any more: nobody would wait
        for its verdicts. Return False if a rule does, or a process works on it. One or two table reads and a write."""
        if self.gate:
            return False
        row = self._candidates.find(candidate, self.repository.commits)
        if self._is_at_work(row):
            return False
        reason = "no rule guards the branch any more, and another commit takes the changes"
        self._candidates.end(row, CandidateState.WITHDRAWN, reason, self.repository.clock.now())
        return True

    def prepare(
        self,
        state: BranchState,
        head: Commit,
        commit: Commit,
        trees: tuple[Tree, Tree],
        deadline: Deadline,
        *,
        source: CommitID = NO_COMMIT,
        base: CommitID = NO_COMMIT,
        required_commits: Sequence[CommitID] = (),
        tokens: Mapping[Token, TokenOutcome] | None = None,
    ) -> Attempt:
        """Store the commit as a candidate, which ends the previous one of the same request; an equal one is reused.
        ``tokens`` are the branch's oldest sealed tokens, which the commit takes, with their outcomes: the candidate holds them.

        One table read, two if there is a previous one; one object write, one transaction. :class:`HeadMovedError` if another call
        of the same request was faster; :class:`BusyError` if one is at work; :class:`RuleError` if the same was refused before;
        :class:`RefNotFoundError` if a required commit has expired; :class:`TooLateError`.
        """
        repository, terms, tokens = self.repository, self.terms, tokens or {}
        now = repository.clock.now()
        newest, previous, lives, statuses = self._previous(state, commit.metarange)
        seconds = PULL_REQUEST_SECONDS if terms.pull_request else open_seconds(tuple(tokens))
        candidate = Candidate(
            id=commit.operation,
            state=CandidateState.OPEN,
            verb=self.verb,
            destination=self.name,
            head=head.id,
            commit_id=commit.id,
            metarange=commit.metarange,
            source=source,
            base=base,
            strategies=terms.strategies or MergeStrategies(),
            message=commit.message,
            author=commit.committer,
            principal=terms.actor.principal,
            key_id=terms.actor.key_id,
            created=int(now),
            expires=int(now) + seconds,
            tokens=tuple(tokens),
            pull_request=terms.pull_request,
            lives=lives,
        )
        attempt = Attempt(
            state=state,
            head=head,
            commit=commit,
            trees=trees,
            row=CandidateRow(candidate, *new_lease(at_work=True), terms.request_id, terms.application),
            applied=candidate.tokens,
            adopted=frozenset(outcome.request for outcome in tokens.values() if outcome.request),
            required_commits=required_commits,
            statuses=statuses,
            is_new=True,
        )
        if previous is not None and self._is_same(previous, candidate):
            stored = repository.commits.get(previous.candidate.commit_id)
            return replace(attempt, commit=stored, row=previous, is_new=False)
        if previous is not None and previous.candidate.id != self.newest_id:
            self._refuse_again(previous, candidate, attempt)
            self._wait_for(previous)
        self._candidates.check_room(candidate)
        deadline.check(f"{self.verb} on branch {self.name!r}")
        written = repository.commits.put_write(commit, now)
        writes = [
            *map(repository.commits.alive_check, required_commits),
            written,
            *repository.records.put(commit, now),
            *self._candidates.open_writes(attempt.row, self.digest, newest, previous),
            *(repository.outcomes.hold_write(token, outcome, candidate.id) for token, outcome in tokens.items()),
        ]
        try:
            repository.tables.transact(writes)
        except (ConditionFailedError, UnavailableError) as error:
            if self._candidates.get(candidate.id) is None:
                if isinstance(error, UnavailableError):
                    raise
                for number, required in enumerate(required_commits):
                    if number in error.failures:
                        raise RefNotFoundError(required, "the commit has expired; nothing was changed") from None
                raise HeadMovedError from None
        repository.commits.remember(commit, written)
        if previous is not None:
            carry_statuses(repository, self.gate, previous.candidate, commit, trees)
            attempt = replace(attempt, statuses=None)  # some may be more by now
        self.newest_id = candidate.id
        return attempt

    def _wait_for(self, row: CandidateRow) -> None:
        """Wait until no other process is at work on a candidate of the same request, and raise :class:`HeadMovedError` if one
        was: build anew. :class:`BusyError` once it is known to be alive: the checks that it runs are not begun a second time. No
        request if none is at work; else one table read for each look, for a lease's length at most."""
        backoff = Backoff(self.repository.clock, longest=LEASE / 6, patience=2 * LEASE)
        current: CandidateRow | None = row
        was_at_work = False
        while current is not None and current.in_progress and current.beat and self._is_at_work(current):
            was_at_work = True
            if self._candidates.is_renewed(current, self.repository.leases) or not backoff.wait():
                raise BusyError(
                    f"the same request is being checked as candidate {row.candidate.commit_id}; branch {self.name!r} was not "
                    "changed. Send the request again for its result"
                )
            current = self._candidates.get(row.candidate.id)
        if was_at_work:
            raise HeadMovedError

    def finish(self, attempt: Attempt, publication_of: Callable[[], Publication]) -> Commit:
        """Judge the candidate, run graveler's own checks where their verdicts are missing, publish it, and return its commit.
        ``publication_of`` is called before each judgement: its conditions may have changed, as the statuses may.

        :class:`RuleError` if something is lacking: the candidate stays open if that may still come, otherwise it ends.
        :class:`HeadMovedError` if the branch has moved: build anew. :class:`CandidateEndedError`; :class:`TooMuchWorkError` and
        :class:`BusyError` if the time of the call is over.
        """
        checked = False
        try:
            for _ in range(ROUNDS):
                publication = publication_of()
                statuses, lacks = self.judge(attempt.commit, attempt.trees)
                if not lacks:
                    if (commit := self.publish(attempt, statuses, publication)) is not None:
                        self.report_admitted()
                        return commit
                    continue
                definitions = {} if checked else checks_of(self.gate, lacks)
                if not definitions:
                    self._refuse_candidate(attempt, lacks)
                self._check(attempt, definitions)
                attempt, checked = replace(attempt, is_new=False), True
            raise BusyError(
                f"the statuses of candidate {attempt.commit.id}, or its pull request, keep changing; branch {self.name!r} was "
                "not changed, try again"
            )
        except (RuleError, TooMuchWorkError, BusyError, CheckSettingsError):
            self._leave(attempt)
            raise

    def finish_at_once(self, attempt: Attempt, publication: Publication) -> Commit | None:
        """Publish the candidate if nothing is lacking, and return its commit; None if something is, or changes at this moment:
        :meth:`finish` waits for it. :class:`HeadMovedError`, :class:`CandidateEndedError`."""
        statuses, lacks = self.judge(attempt.commit, attempt.trees, attempt.statuses)
        return None if lacks else self.publish(attempt, statuses, publication)

    def publish(self, attempt: Attempt, statuses: TreeStatuses, publication: Publication) -> Commit | None:
        """Move the branch to the candidate, and return its commit; None if the statuses, or the pull request, are not those
        that were judged: judge again. One transaction; one table read more for each branch that an older candidate depends on,
        two more if it fails. :class:`HeadMovedError`, :class:`CandidateEndedError`."""
        repository, row = self.repository, attempt.row
        now = repository.clock.now()
        if not attempt.is_new and (reason := self._candidates.gone(row, repository.refs)):
            raise ended_error(self._candidates.end(row, CandidateState.GONE, reason, now))
        prepared = Prepared(
            [
                self._candidates.end_write(row, CandidateState.PUBLISHED, "", now),
                self.statuses.unchanged_check(statuses),
            ],
            lambda: self._is_published(row.candidate.id),
        )
        try:
            publish(
                repository,
                attempt.state,
                attempt.commit,
                self.log_words,
                None,
                applied=attempt.applied,
                adopted=attempt.adopted,
                required_commits=attempt.required_commits,
                request_id=publication.request_id,
                extra_writes=publication.extra_writes,
                condition=publication.condition,
                note=lambda progress: None if progress is Publishing.FAILED else publication.note(progress),
                prepared=prepared,
            )
        except HeadMovedError:
            current = self._candidates.get(row.candidate.id) or row
            if not current.in_progress:
                if current.candidate.state is CandidateState.PUBLISHED:
                    return attempt.commit  # another call of the same request was faster
                raise ended_error(current) from None
            if repository.refs.branch(self.name) == attempt.state:
                return None
            raise
        self.admitted = attempt.commit, attempt.head, attempt.trees, statuses
        return attempt.commit

    def _previous(
        self, state: BranchState, metarange: MetarangeName
    ) -> tuple[str, CandidateRow | None, tuple[tuple[str, str], ...], TreeStatuses]:
        """Return the ID of the newest candidate of the same request, if it has one, and its row; the branches that a new one
        depends on: the destination, and the source if that is a branch, and no transaction's; and the statuses of its tree. One
        table read, two with a candidate."""
        keys = [self._candidates.pointer_key(self.digest), self.statuses.key(metarange)]
        source = self.terms.source
        if source and not is_transaction(
            source
        ):  # that branch ends with its program, whether or not the merge is refused
            with suppress(InvalidError):  # an expression
                keys.append(self.repository.refs.branch_key(source))
        pointer, posted, *items = self.repository.tables.get_many(keys)
        branches = [self.repository.refs.decode_branch(source, item) for item in items]
        newest = "" if pointer is None else str(pointer.get("id"))
        row = self._candidates.get(newest) if newest else None
        lives = lives_of([state, *(branch for branch in branches if branch is not None)])
        return newest, row, lives, self.statuses.decode(metarange, posted)

    def _check(self, attempt: Attempt, definitions: Mapping[str, Mapping[str, Any]]) -> None:
        """Run graveler's own checks, while nobody waits for the branch; cancel them when the candidate ends."""
        row = attempt.row

        def renew() -> None:
            with suppress(GravelerError, ConflictError):
                self._candidates.note_work(row, at_work=True)

        def stop() -> None:
            current = self._candidates.get(row.candidate.id) or row
            if not current.in_progress:
                raise ended_error(current)
            if self.terms.stop is not None and self.terms.stop():
                self._run_out_of_time(attempt)

        renew()
        with self.repository.clock.repeating(LEASE / 3, renew):
            self.run_checks(attempt.commit, attempt.head, definitions, stop)

    def _run_out_of_time(self, attempt: Attempt) -> NoReturn:
        """Raise the error for checks that take longer than the call may: :class:`TooMuchWorkError`, or :class:`BusyError` if the
        candidate holds changes, which an operation would seal again."""
        if not attempt.applied:
            raise TooMuchWorkError(f"checking candidate {attempt.commit.id}")
        raise BusyError(
            f"the checks of candidate {attempt.commit.id} take longer than this call may; branch {self.name!r} was not changed. "
            "Send the same request again, which goes on with the checks that have no verdict yet"
        )

    def _refuse_candidate(self, attempt: Attempt, lacks: Sequence[Lack]) -> NoReturn:
        """Raise :class:`RuleError`. The candidate ends if a lack is final, other than that the caller may not bypass a rule."""
        final = [lack.words for lack in lacks if not lack.passing and lack.requirement != "permission"]
        if final:
            self._candidates.end(attempt.row, CandidateState.REFUSED, "; ".join(final), self.repository.clock.now())
        raise RuleError(self.name, lacks, attempt.commit.id)

    def _leave(self, attempt: Attempt) -> None:
        """Leave the candidate open without a process that works on it. One table read, one write."""
        row = self._candidates.get(attempt.row.candidate.id)
        if row is not None and row.in_progress:
            with suppress(GravelerError):  # else its lease runs out
                self._candidates.note_work(row, at_work=False)

    def _is_same(self, row: CandidateRow, candidate: Candidate) -> bool:
        """Return whether an open candidate of the same request is what the request would make now."""
        is_usable = row.in_progress and not self._is_over(row) and not self._is_at_work(row)
        return is_usable and _is_alike(row.candidate, candidate)

    def _refuse_again(self, row: CandidateRow, candidate: Candidate, attempt: Attempt) -> None:
        """Raise :class:`RuleError` if what the request would make now was refused before, and what it lacked for good is lacking
        still: a client that repeats it makes no new candidate. No request for others, else as :meth:`judge`."""
        earlier = row.candidate
        if earlier.state is not CandidateState.REFUSED or not _is_alike(earlier, candidate):
            return
        _, lacks = self.judge(replace(attempt.commit, id=earlier.commit_id), attempt.trees, attempt.statuses)
        if any(not lack.passing for lack in lacks):
            raise RuleError(self.name, lacks, earlier.commit_id)

    def _is_over(self, row: CandidateRow) -> bool:
        return self._candidates.over(row, self.repository.clock.now(), self.repository.leases) is not None

    def _is_at_work(self, row: CandidateRow) -> bool:
        return bool(row.beat) and self._candidates.is_at_work(row, self.repository.leases)

    def _is_published(self, id_: str) -> bool:
        row = self._candidates.get(id_)
        return row is not None and row.candidate.state is CandidateState.PUBLISHED


def _is_alike(candidate: Candidate, other: Candidate) -> bool:
    """Return whether two candidates of one request bring the same tree to the same head, of the same branches."""
    names = ("head", "metarange", "source", "base", "lives", "tokens", "pull_request")
    return all(getattr(candidate, name) == getattr(other, name) for name in names)
