"""Changing the settings of a repository, so that no two changes at once lose one another, and no writer passes a new rule by.

Each change reads the repository's item and puts it back on condition that it is as it was read; when it is not, it begins anew.
An answer that was lost shows at the next reading: what was to be changed is so already.

A writer that remembers a branch's open token stages first and reads the rules afterwards (docs/concurrency.md). So a rule that
forbids staging is followed by a new open token for each branch that it is about and on which nothing is staged: what such a
writer stages in vain then lies under a token that nobody reads. The old token is sealed, looked at, and dropped if it is still
empty. What was acknowledged under it was put there before it was sealed, so nothing acknowledged is dropped. On a branch with
uncommitted changes the token stays; what is refused there at that very moment may show among them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from secrets import token_hex

import msgspec

from graveler.errors import (
    BusyError,
    ForbiddenError,
    NotFoundError,
    PreconditionError,
    ReadOnlyRepositoryError,
    UnavailableError,
)
from graveler.history.refs import BranchState, Refs
from graveler.lake.branches import Branches
from graveler.lake.clock import Backoff, Clock
from graveler.lake.publish import HeadMovedError, Publisher
from graveler.lake.repositories import check_same, decode_repository, repository_key
from graveler.lake.rules import ATTRIBUTES, Intent, check_settings, etag, settings_attributes
from graveler.model import Repository, RetentionRules, Settings
from graveler.staging.changes import StagedChanges
from graveler.staging.tokens import Outcomes
from graveler.storage.tables import ConditionFailedError, Item, Matches, Tables, Value

_PAGE = 1000


class SettingsKeeper:
    """Reads and changes the settings of one repository."""

    def __init__(
        self,
        repository: Repository,
        tables: Tables,
        refs: Refs,
        branches: Branches,
        staged: StagedChanges,
        outcomes: Outcomes,
        publisher: Publisher,
        clock: Clock,
    ) -> None:
        self._name, self._uid = repository.name, repository.uid
        self._tables = tables
        self._refs = refs
        self._branches = branches
        self._staged = staged
        self._outcomes = outcomes
        self._publisher = publisher
        self._clock = clock

    def read(self) -> Settings:
        """The settings. One table read. :class:`RepositoryNotFoundError`."""
        return self._read()[1]

    def change_metadata(self, new: Mapping[str, str], removed: Collection[str], *, force: bool) -> Settings:
        """Set some keys of the metadata and remove others. See :meth:`OpenRepository.set_metadata`."""

        def change(settings: Settings) -> Settings:
            metadata = {key: value for key, value in settings.metadata.items() if key not in removed} | dict(new)
            return msgspec.structs.replace(settings, metadata=metadata)

        return self._change(change, force=force)

    def set_protection(self, patterns: tuple[str, ...], if_match: str | None, *, force: bool) -> Settings:
        """Replace the protection rules. See :meth:`OpenRepository.set_protection`."""

        def change(settings: Settings) -> Settings:
            if if_match is not None and etag(settings.protected) != if_match:
                raise PreconditionError(
                    f"the protection rules of repository {self._name!r} were changed by somebody else; read them again"
                )
            return msgspec.structs.replace(settings, protected=patterns)

        changed = self._change(change, force=force)
        self._renew_tokens(changed)
        return changed

    def change_protection(self, added: tuple[str, ...], removed: tuple[str, ...], *, force: bool) -> Settings:
        """Add patterns to the protection rules and take others away. :class:`NotFoundError` for one that is not among them."""

        def change(settings: Settings) -> Settings:
            for pattern in removed:
                if pattern not in settings.protected:
                    raise NotFoundError(f"no protection rule has the pattern {pattern!r}; list the ones there are")
            patterns = dict.fromkeys([*settings.protected, *added])
            kept = tuple(pattern for pattern in patterns if pattern not in removed)
            return msgspec.structs.replace(settings, protected=kept)

        changed = self._change(change, force=force)
        if added:
            self._renew_tokens(changed)
        return changed

    def set_retention(self, rules: RetentionRules | None, *, force: bool) -> Settings:
        """Replace the retention rules, or (None) remove them."""
        return self._change(lambda settings: msgspec.structs.replace(settings, retention=rules), force=force)

    def set_import_sources(self, prefixes: tuple[str, ...] | None, *, force: bool) -> Settings:
        """Replace the import sources, or (None) allow all that the deployment does."""
        return self._change(lambda settings: msgspec.structs.replace(settings, import_sources=prefixes), force=force)

    def set_read_only(self, read_only: bool) -> Settings:
        """See :meth:`OpenRepository.set_read_only`."""
        changed = self._change(lambda settings: msgspec.structs.replace(settings, read_only=read_only), force=True)
        self._renew_tokens(changed)
        return changed

    def _read(self) -> tuple[Item, Settings]:
        item = check_same(self._uid, self._name, self._tables.get(repository_key(self._name)))
        return item, decode_repository(self._name, item).repository.settings

    def _change(self, change: Callable[[Settings], Settings], *, force: bool) -> Settings:
        """One table read, one write; none if nothing changes. Both again after losing a race."""
        backoff = Backoff(self._clock)
        tried: Settings | None = None
        while True:
            item, settings = self._read()
            if settings == tried:
                return settings  # the answer was lost, and no more
            if settings.read_only and not force:
                raise ReadOnlyRepositoryError(self._name)
            wanted = change(settings)
            if wanted == settings:
                return settings
            check_settings(wanted)
            kept = {name: value for name, value in item.items() if name not in ATTRIBUTES}
            as_read: dict[str, Value | None] = {**dict.fromkeys(ATTRIBUTES), **item}
            tried = wanted
            try:
                self._tables.put(repository_key(self._name), {**kept, **settings_attributes(wanted)}, Matches(as_read))
                return wanted
            except ConditionFailedError:
                if not backoff.wait():
                    raise BusyError(
                        f"the settings of repository {self._name!r} are being changed by too many others at once; try again"
                    ) from None
            except UnavailableError:
                if self._read()[1] != wanted:
                    raise
                return wanted

    def _renew_tokens(self, settings: Settings) -> None:
        """Give each branch that may not be staged on any more a new open token, unless something is staged there.

        Three table reads and two transactions for each, besides listing the branches; nothing without rules.
        """
        if not settings.read_only and not settings.protected:
            return
        item = settings_attributes(settings)
        for state in self._states():
            try:
                Intent(direct=True).check(self._name, item, state.name, hidden=state.hidden)
            except ForbiddenError:
                self._renew_token(state.name)

    def _states(self) -> Iterator[BranchState]:
        after: str | None = ""
        while after is not None:
            page = self._refs.list_branches("", after, _PAGE, show_hidden=True)
            yield from page.results
            after = page.next_after

    def _renew_token(self, name: str) -> None:
        """Where somebody else changes the branch meanwhile, look once more, then let it be: that opened a new token, or staged
        something."""
        for _ in range(2):
            state = self._branches.find(name)
            if state is None or state.sealed or self._staged.exists([state.open]):
                return
            operation = token_hex(16)
            sealed = msgspec.structs.replace(state, open=self._staged.next_token(state.open), sealed=(state.open,))
            writes = self._refs.move_branch_writes(state, sealed, None)
            writes.append(self._outcomes.seal_write(state.open, operation, 0.0))
            try:
                self._tables.transact(writes)
            except ConditionFailedError:
                continue
            if not self._staged.exists([state.open]):
                with suppress(HeadMovedError):  # somebody takes the token
                    self._publisher.drop(sealed, sealed.sealed, operation)
            return
