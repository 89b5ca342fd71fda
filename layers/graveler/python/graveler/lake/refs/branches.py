"""Branches and tags: reading their state, creating, listing and deleting them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Final

import msgspec

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    CorruptError,
    ForbiddenError,
    InvalidError,
    MovedError,
    ReadOnlyRepositoryError,
    RefNotFoundError,
    RuleError,
    UnavailableError,
)
from graveler.history.commits import CommitStore
from graveler.history.owners import BranchLease, Owners
from graveler.history.reflog import Event, RefKind, RefLog
from graveler.history.refs import BranchState, Refs
from graveler.lake.clock import Backoff, Clock
from graveler.lake.deadline import StoppedError
from graveler.lake.leases import LeaseWatch
from graveler.lake.objects.traces import Traces
from graveler.lake.opening.repositories import check_same, identity_attributes, repository_key
from graveler.lake.settings.repository_settings import READ_ONLY, RULES_VERSION, Intent, decode_settings
from graveler.model import Branch, Commit, CommitID, Page, Repository, Settings, Tag, Token
from graveler.staging.cleanup import CleanupQueue
from graveler.staging.tokens import Outcomes, TokenState, new_token
from graveler.storage.tables.port import Check, ConditionFailedError, Item, Key, Matches, Tables, Value, Write
from graveler.system.random_bytes import random_bytes

RENAME_LEASE: Final = 6.0
"""Seconds for which a branch that is being renamed stays closed after the renaming process's last sign of life."""


_READS: Final = 100
"""The number of times that a branch is read which is newer than the rules that were read with it; then its item is damaged."""


class Admission(msgspec.Struct, frozen=True):
    """The leave to point a branch or a tag at a commit: the conditions on which its rules were fulfilled, and the ``version`` of
    the rules that guard it, 0 if none does."""

    checks: Sequence[Check] = ()
    version: int = 0


Admit = Callable[[Settings], Admission]
"""Judges a name and its new commit by the rules in these settings. :class:`RuleError`."""


def _admit_all(_: Settings) -> Admission:
    return Admission()


class Branches:
    """The branches and tags of one repository."""

    def __init__(
        self,
        repository: Repository,
        tables: Tables,
        refs: Refs,
        reflog: RefLog,
        commits: CommitStore,
        outcomes: Outcomes,
        cleanup: CleanupQueue,
        traces: Traces,
        clock: Clock,
        leases: LeaseWatch,
        first_token: Callable[[], Token] = new_token,
    ) -> None:
        self._repository = repository
        self._repository_key = repository_key(repository.name)
        self._tables = tables
        self._refs = refs
        self._reflog = reflog
        self._commits = commits
        self._outcomes = outcomes
        self._cleanup = cleanup
        self._traces = traces
        self._clock = clock
        self._leases = leases
        self.owners = Owners(tables, repository.uid)
        self._first_token = first_token

    def find(self, name: str, intent: Intent | None = None) -> BranchState | None:
        """Return the branch, or None. One table read, of branch and repository together, so that no verb works on one that was
        deleted, or created again under its name. With an ``intent``, :class:`ForbiddenError` if the repository's settings refuse
        it."""
        return self._find(name, (), intent)[0]

    def state(self, name: str, intent: Intent | None = None) -> BranchState:
        """Return the branch. One table read. :class:`RefNotFoundError`.

        With an ``intent``, as :meth:`find`, once no rename of it is in progress: what a rename has copied must not change
        unnoticed (promise C1). :class:`BusyError` if one does not end.
        """
        return self.state_beside(name, (), intent)[0]

    def state_beside(
        self, name: str, keys: Sequence[Key], intent: Intent | None = None
    ) -> tuple[BranchState, list[Item | None]]:
        """Return the branch as :meth:`state`, and other items read together with it, or before it if a rename was in progress."""
        state, items = self._find(name, keys, intent)
        return self._existing(name, state, intent), items

    def _find(
        self, name: str, keys: Sequence[Key], intent: Intent | None
    ) -> tuple[BranchState | None, list[Item | None]]:
        for _ in range(_READS):
            branch, repository, *items = self._tables.get_many([*self.keys(name), *keys])
            state = self._checked(name, branch, repository, intent)
            if state is None or not state.rules or state.rules <= _rules_version(repository):
                return state, items
            # Else the repository was read before its rules changed, and the branch after it.
        raise CorruptError(
            f"the table's item of branch {name!r} names a later version of the rules than repository "
            f"{self._repository.name!r} has; restore the table from a copy"
        )

    def keys(self, name: str) -> tuple[Key, Key]:
        """Return the keys of branch and repository, for callers that read them together with other items, for :meth:`judge`."""
        return self._refs.branch_key(name), self._repository_key

    def judge(self, name: str, items: Sequence[Item | None], intent: Intent) -> BranchState:
        """Return the branch as :meth:`state`, from the items read under :meth:`keys`."""
        branch, repository = items
        return self._existing(name, self._checked(name, branch, repository, intent), intent)

    def _existing(self, name: str, state: BranchState | None, intent: Intent | None) -> BranchState:
        """Return the branch; with an ``intent``, once no rename of it is in progress. :class:`RefNotFoundError`."""
        if intent is not None and state is not None and state.renaming is not None:
            state = self._await_rename(state, intent)
        if state is None:
            raise RefNotFoundError(name, kind="branch")
        return state

    def _checked(
        self, name: str, branch: Item | None, repository: Item | None, intent: Intent | None
    ) -> BranchState | None:
        """Return the branch from the items of branch and repository; None if it does not exist. :class:`ForbiddenError` if the
        settings refuse the ``intent``."""
        repository = check_same(self._repository.uid, self._repository.name, repository)
        state = self._refs.decode_branch(name, branch)
        if intent is not None:
            intent.check(self._repository.name, repository, name, hidden=state is not None and state.hidden)
        return state

    def commit(self, commit_id: CommitID) -> Commit:
        """Return a commit that a ref points at. One table read, none if it is in memory. :class:`CorruptError` if it is
        missing."""
        try:
            return self._commits.get(commit_id)
        except RefNotFoundError:
            raise CorruptError(
                f"commit {commit_id} is missing from the table, although a ref of repository {self._repository.name!r} "
                f"points to it; restore the table from a copy (the commit's record is _graveler/commits/{commit_id} in "
                f"{self._repository.namespace})"
            ) from None

    def create(
        self,
        name: str,
        commit_id: CommitID,
        by: str,
        *,
        hidden: bool = False,
        force: bool = False,
        owner: str = "",
        only_while: Check | None = None,
        admit: Admit = _admit_all,
    ) -> Branch:
        """Point a new branch at an existing commit. One table read, one transaction; nothing is copied. With an ``owner``, the
        branch gets a lease, which :meth:`renew` renews. ``only_while`` is a condition of the transaction, ``admit`` the gate.

        :class:`AlreadyExistsError`, :class:`InvalidError` for the name, or for the owner of a branch that is not hidden,
        :class:`RefNotFoundError` if the commit is expired, :class:`StoppedError` if ``only_while`` fails.
        """
        if owner and not hidden:
            raise InvalidError(
                f"branch {name!r} cannot have an owner without being hidden; only the branch of a transaction has an owner"
            )
        self._refs.branch_key(name)
        backoff = Backoff(self._clock)
        event = self.event("create branch", by)
        opened = self._first_token()

        def writes_of(admission: Admission) -> list[Write]:
            state = BranchState(
                name, commit_id, opened, (), hidden, moves=self.next_number(name), rules=admission.version
            )
            writes = self._refs.create_branch_writes(state, event)
            if hidden:  # a lease of an earlier branch of this name does not count for this one
                writes.append(self.owners.claim_write(name, owner) if owner else self.owners.gone_write(name))
            return writes

        while True:
            try:
                self._create("branch", name, commit_id, writes_of, event, only_while, admit, force=force)
                return Branch(name, commit_id, hidden)
            except ConditionFailedError:  # a branch of this name existed meanwhile, and is deleted: its rows are older
                if not backoff.wait():
                    raise busy(name) from None

    def next_number(self, name: str) -> int:
        """Return the first move number for a new branch of this name. One table read."""
        return self._reflog.last_number("branch", name) + 1

    def renew(self, name: str, owner: str) -> None:
        """Renew the lease of a hidden branch whose owner is alive. One table write. :class:`RefNotFoundError`."""
        if not self.owners.renew(name, owner):
            raise RefNotFoundError(name, f"{owner!r} no longer owns a hidden branch of this name")

    def end(self, lease: BranchLease) -> bool:
        """Remove the branch of a transaction whose owner is gone, on condition that neither the branch nor the lease has changed
        since they were read; return False if one has. A lease without a hidden branch is removed alone, and does not count. One
        table read, one transaction (promise C5). Waits for a rename, whose user wants to keep the branch."""
        state = self._refs.branch(lease.branch)
        if state is not None and state.renaming is not None:
            try:
                state = self._await_rename(state, Intent(direct=False, force=True))
            except BusyError:
                return False  # the next run looks again
        owned = state is not None and state.hidden
        event = self.event("end transaction", "garbage collection")
        writes = self._delete_writes(state, event) if state is not None and state.hidden else []
        try:
            self._tables.transact([*writes, self.owners.over_write(lease)])
        except (ConditionFailedError, UnavailableError) as error:
            if not owned or not self._happened("branch", lease.branch, event):
                if isinstance(error, UnavailableError):
                    raise
                return False
        return owned

    def delete(
        self,
        name: str,
        by: str,
        *,
        force: bool = False,
        head_id: CommitID | None = None,
        accept: Callable[[Settings], None] | None = None,
    ) -> None:
        """Remove a branch and its uncommitted changes; with ``head_id``, only if that is its head. One table read, one
        transaction. ``accept`` as of :class:`Intent`.

        :class:`ForbiddenError` for the default branch, and for a protected one; :class:`MovedError` if it has another head.
        """
        if name == self._repository.default_branch:
            raise ForbiddenError(
                f"branch {name!r} is the default branch of repository {self._repository.name!r} and cannot be deleted"
            )
        backoff = Backoff(self._clock)
        operation = token_hex(16)
        while True:
            state = self.state(name, Intent(direct=True, force=force, accept=accept))
            if head_id is not None and state.commit_id != head_id:
                raise MovedError(name, head_id, state.commit_id)
            event = self.event("delete branch", by, operation)
            writes = self._delete_writes(state, event)
            if state.hidden:
                writes.append(self.owners.gone_write(name))
            try:
                self._tables.transact(writes)
                return
            except ConditionFailedError:
                if self._happened("branch", name, event):
                    return
                if not backoff.wait():
                    raise busy(name) from None

    def _delete_writes(self, state: BranchState, event: Event) -> list[Write]:
        """Return the writes that remove a branch which is as it was read, with its staged changes."""
        writes = self._refs.delete_branch_writes(state, event)
        writes.append(self._traces.gone_write("branch", state.name))
        if state.renaming is not None:
            writes.append(self._cleanup.add_write(state.renaming.into, self._clock.now()))
        for token in (*state.sealed, state.open):
            writes += self.drop_token_writes(token, TokenState.DELETED, event.operation_id)
        return writes

    def change(self, name: str, writes: Sequence[Write], event: Event) -> None:
        """Make the transaction that changes a branch and writes ``event`` into its reference log. One table read more if it
        fails: if the row exists, it happened, and only the response was lost. :class:`ConditionFailedError`."""
        try:
            self._tables.transact(writes)
        except (ConditionFailedError, UnavailableError):
            if not self._happened("branch", name, event):
                raise

    def drop_token_writes(
        self,
        token: Token,
        outcome: TokenState,
        operation: str,
        commit_id: CommitID | None = None,
        into: Token | None = None,
        *,
        alone: bool = False,
    ) -> list[Write]:
        """Return the writes that take a token from its branch: its outcome, and its place in the clean-up queue.
        ``into`` and ``alone`` as of :meth:`Outcomes.decide_write`."""
        now = self._clock.now()
        return [
            self._outcomes.decide_write(token, outcome, operation, now, commit_id, into, alone=alone),
            self._cleanup.add_write(token, now),
        ]

    def end_rename_writes(self, state: BranchState) -> list[Write]:
        """Return the writes that reopen a branch that a rename has closed; what was staged for the rename is cleaned up."""
        assert state.renaming is not None
        opened = msgspec.structs.replace(state, renaming=None)
        queued = self._cleanup.add_write(state.renaming.into, self._clock.now())
        return [*self._refs.move_branch_writes(state, opened, None), queued]

    def page(self, prefix: str, after: str, amount: int, *, show_hidden: bool = False) -> Page[Branch]:
        """Return a page of branches, by name. About one table read for each of 16 shards."""
        page = self._refs.list_branches(prefix, after, amount, show_hidden=show_hidden)
        return Page(tuple(Branch(state.name, state.commit_id, state.hidden) for state in page.results), page.next_after)

    def create_tag(
        self,
        name: str,
        commit_id: CommitID,
        by: str,
        *,
        force: bool = False,
        only_while: Check | None = None,
        admit: Admit = _admit_all,
    ) -> Tag:
        """Create a permanent name for a commit. One transaction. Errors as for a branch."""
        tag = Tag(name, commit_id)
        event = self.event("create tag", by)
        writes = self._refs.create_tag_writes(tag, event)
        self._create("tag", name, commit_id, lambda _: writes, event, only_while, admit, force=force)
        return tag

    def delete_tag(self, name: str, by: str, *, force: bool = False, admit: Admit = _admit_all) -> None:
        """Remove a tag. One table read, one transaction; both again if the tag was changed in between.
        :class:`RefNotFoundError`, and what ``admit`` raises."""
        settings = self._repository.settings
        while True:
            _, settings = self._admitted(admit, settings)
            tag = self._refs.tag(name)
            if tag is None:
                raise RefNotFoundError(name, kind="tag")
            event = self.event("delete tag", by)
            writes = self._refs.delete_tag_writes(tag, event)
            try:
                unchanged = self.here_check(settings.rules.version, force=force)
                self._tables.transact([*writes, unchanged, self._traces.gone_write("tag", name)])
                return
            except ConditionFailedError as error:
                if self._happened("tag", name, event):
                    return
                if 0 not in error.failures:
                    settings = self.settings_here(error.failures[len(writes)], settings, force=force)

    def event(self, operation: str, by: str, operation_id: str = "") -> Event:
        """Return the reference log's event for a change made now."""
        return Event(int(self._clock.now() * 1e9), operation, operation_id or random_bytes(16).hex(), by)

    @property
    def last_settings(self) -> Settings:
        """The repository's settings, as they were when it was opened: a guess, which :meth:`here_check` verifies."""
        return self._repository.settings

    def here_check(self, rules_version: int, *, force: bool) -> Check:
        """Return the condition that the repository still exists, that its rules have this version, and that it is not read-only,
        unless the change is forced."""
        writable: dict[str, Value | None] = {} if force else {READ_ONLY: None}
        identity = identity_attributes(self._repository.uid, rules_version)
        return Check(repository_key(self._repository.name), Matches({**identity, **writable}))

    def settings_here(self, item: Item | None, before: Settings, *, force: bool) -> Settings:
        """Return the settings in an item on which the condition of :meth:`here_check` failed because the rules have changed.
        :class:`RepositoryNotFoundError`, :class:`ReadOnlyRepositoryError` if it failed for another reason."""
        item = check_same(self._repository.uid, self._repository.name, item)
        settings = decode_settings(self._repository.name, item)
        if settings.read_only and not force:
            raise ReadOnlyRepositoryError(self._repository.name)
        if settings.rules.version == before.rules.version:
            raise busy(self._repository.name)
        return settings

    def _await_rename(self, state: BranchState, intent: Intent) -> BranchState | None:
        """Return the branch once no rename of it is in progress; None if it has another name then. Reopens it if the renaming
        process has died."""
        backoff = Backoff(self._clock)
        current: BranchState | None = state
        while current is not None and current.renaming is not None:
            if self._leases.is_held(f"rename/{current.renaming.into}", current.renaming.beat, RENAME_LEASE):
                if not backoff.wait():
                    raise busy(current.name)
            else:
                with suppress(ConditionFailedError):  # another process was faster
                    self._tables.transact(self.end_rename_writes(current))
            current = self.find(state.name, intent)
        return current

    def _happened(self, kind: RefKind, name: str, event: Event) -> bool:
        """Return whether the transaction that just failed happened: after a lost response, an adapter repeats a request, and the
        second one finds what the first one did. The ref's newest rows show whose change it was. One table read."""
        return any(row.event == event for row in self._reflog.entries(kind, name, 4))

    def _admitted(self, admit: Admit, settings: Settings) -> tuple[Admission, Settings]:
        """Return the leave, and the settings by which it was given: these, or those of now if these refuse it and are older. One
        table read in that case. :class:`RuleError`."""
        try:
            return admit(settings), settings
        except RuleError:
            item = check_same(self._repository.uid, self._repository.name, self._tables.get(self._repository_key))
            current = decode_settings(self._repository.name, item)
            if current.rules.version == settings.rules.version:
                raise
            return admit(current), current

    def _create(
        self,
        kind: RefKind,
        name: str,
        commit_id: CommitID,
        writes_of: Callable[[Admission], Sequence[Write]],
        event: Event,
        only_while: Check | None,
        admit: Admit,
        *,
        force: bool,
    ) -> None:
        settings = self._repository.settings
        while True:
            admission, settings = self._admitted(admit, settings)
            writes = writes_of(admission)
            conditions = [*admission.checks, *(() if only_while is None else (only_while,))]
            unchanged = self.here_check(settings.rules.version, force=force)
            try:
                self._tables.transact([self._commits.alive_check(commit_id), unchanged, *writes, *conditions])
                return
            except ConditionFailedError as error:
                if self._happened(kind, name, event):
                    return
                last = 1 + len(writes) + len(conditions)
                if only_while is not None and last in error.failures:
                    raise StoppedError(
                        f"{kind} {name!r} was not created: the work on the request was stopped"
                    ) from None
                if 1 in error.failures:
                    settings = self.settings_here(error.failures[1], settings, force=force)
                elif 0 in error.failures:
                    raise RefNotFoundError(commit_id, "the commit does not exist, or has expired") from None
                elif 2 in error.failures:
                    raise AlreadyExistsError(kind, name) from None
                elif 2 + len(writes) not in error.failures:
                    raise
                # Else the statuses changed: judge again.


def _rules_version(repository: Item | None) -> int:
    version = None if repository is None else repository.get(RULES_VERSION)
    return version if isinstance(version, int) else 0


def busy(branch: str) -> BusyError:
    """Return the error for a branch with too many concurrent changes."""
    return BusyError(f"branch {branch!r} is being changed by too many others at once; nothing was changed, try again")
