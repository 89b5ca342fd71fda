"""Changing the settings of a repository, so that concurrent changes are not lost, and no writer bypasses a new rule.

Each change reads the repository's item and puts it back on condition that it is as it was read; otherwise it starts over.
After a lost response, the next read shows that the change has already happened.

A writer that remembers a branch's open token stages first and reads the rules afterwards (docs/concurrency.md). So after a rule
that forbids staging, each branch that it affects and on which nothing is staged gets a new open token: what such a
writer stages in vain then lies under a token that is never read. The old token is sealed, looked at, and dropped if it is still
empty. What was acknowledged under it was put there before it was sealed, so nothing acknowledged is dropped. On a branch with
uncommitted changes the token stays; a write refused at that very moment may appear among them.
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
from graveler.history.refs import BranchState
from graveler.lake.clock import Backoff
from graveler.lake.committing.publish import HeadMovedError, drop_tokens
from graveler.lake.context import Context
from graveler.lake.opening.repositories import (
    check_same,
    decode_repository,
    repository_key,
    with_settings,
)
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import ATTRIBUTES, Intent, check_settings, etag, settings_attributes
from graveler.model import Settings
from graveler.requests import setting_changes as requests
from graveler.storage.tables.port import Check, ConditionFailedError, Item, Matches, Put, Value

_PAGE = 1000


def read_settings(repository: RepositoryParts) -> Settings:
    """Return the settings. One table read. :class:`RepositoryNotFoundError`."""
    return _read(repository)[1]


def set_metadata(repository: RepositoryParts, request: requests.SetMetadata, _: Context) -> Mapping[str, str]:
    """See :class:`graveler.requests.setting_changes.SetMetadata`."""
    return _change_metadata(repository, request.metadata, (), force=request.force)


def delete_metadata(repository: RepositoryParts, request: requests.DeleteMetadata, _: Context) -> Mapping[str, str]:
    """See :class:`graveler.requests.setting_changes.DeleteMetadata`."""
    return _change_metadata(repository, {}, request.keys, force=request.force)


def _change_metadata(
    repository: RepositoryParts, new: Mapping[str, str], removed: Collection[str], *, force: bool
) -> Mapping[str, str]:
    def change(settings: Settings) -> Settings:
        metadata = {key: value for key, value in settings.metadata.items() if key not in removed} | dict(new)
        return msgspec.structs.replace(settings, metadata=metadata)

    return change_settings(repository, change, force=force).metadata


def set_protection(repository: RepositoryParts, request: requests.SetProtection, _: Context) -> str:
    """See :class:`graveler.requests.setting_changes.SetProtection`."""

    def change(settings: Settings) -> Settings:
        if request.if_match is not None and etag(settings.protected) != request.if_match:
            raise PreconditionError(
                f"the protection rules of repository {repository.name!r} were changed by someone else; read them again"
            )
        return msgspec.structs.replace(settings, protected=tuple(dict.fromkeys(request.patterns)))

    changed = change_settings(repository, change, force=request.force)
    _forbid_staging(repository, changed)
    return etag(changed.protected)


def protect(repository: RepositoryParts, request: requests.Protect, _: Context) -> tuple[str, ...]:
    """See :class:`graveler.requests.setting_changes.Protect`."""

    def change(settings: Settings) -> Settings:
        patterns = tuple(dict.fromkeys([*settings.protected, *request.patterns]))
        return msgspec.structs.replace(settings, protected=patterns)

    changed = change_settings(repository, change, force=request.force)
    _forbid_staging(repository, changed)
    return changed.protected


def unprotect(repository: RepositoryParts, request: requests.Unprotect, _: Context) -> tuple[str, ...]:
    """See :class:`graveler.requests.setting_changes.Unprotect`."""

    def change(settings: Settings) -> Settings:
        for pattern in request.patterns:
            if pattern not in settings.protected:
                raise NotFoundError(f"no protection rule has the pattern {pattern!r}; list the existing ones")
        patterns = tuple(pattern for pattern in settings.protected if pattern not in request.patterns)
        return msgspec.structs.replace(settings, protected=patterns)

    return change_settings(repository, change, force=request.force).protected


def set_retention(repository: RepositoryParts, request: requests.SetRetention, _: Context) -> None:
    """See :class:`graveler.requests.setting_changes.SetRetention`."""
    change_settings(
        repository,
        lambda settings: msgspec.structs.replace(settings, retention=request.rules),
        force=request.force,
    )


def delete_retention(repository: RepositoryParts, request: requests.DeleteRetention, _: Context) -> None:
    """See :class:`graveler.requests.setting_changes.DeleteRetention`."""
    change_settings(repository, lambda settings: msgspec.structs.replace(settings, retention=None), force=request.force)


def set_import_sources(repository: RepositoryParts, request: requests.SetImportSources, _: Context) -> None:
    """See :class:`graveler.requests.setting_changes.SetImportSources`."""
    prefixes = None if request.prefixes is None else tuple(dict.fromkeys(request.prefixes))
    change_settings(
        repository,
        lambda settings: msgspec.structs.replace(settings, import_sources=prefixes),
        force=request.force,
    )


def set_read_only(repository: RepositoryParts, request: requests.SetReadOnly, _: Context) -> None:
    """See :class:`graveler.requests.setting_changes.SetReadOnly`."""
    changed = change_settings(
        repository, lambda settings: msgspec.structs.replace(settings, read_only=request.read_only), force=True
    )
    _forbid_staging(repository, changed)


def _forbid_staging(repository: RepositoryParts, settings: Settings) -> None:
    """Enforce new rules on writers that remember open tokens: those of this process, and others by new tokens."""
    _renew_tokens(repository, settings)
    repository.stager.forget()


def _read(repository: RepositoryParts) -> tuple[Item, Settings]:
    item = check_same(repository.uid, repository.name, repository.tables.get(repository_key(repository.name)))
    return item, decode_repository(repository.name, item).repository.settings


def change_settings(
    repository: RepositoryParts,
    change: Callable[[Settings], Settings],
    *,
    force: bool,
    condition: Check | None = None,
) -> Settings:
    """Change the settings. One table read, one write; none if nothing changes. Both again after losing a race.
    :class:`ConditionFailedError` if the ``condition`` of another item does not hold."""
    backoff = Backoff(repository.clock)
    tried: Settings | None = None
    while True:
        item, settings = _read(repository)
        if settings == tried:
            return settings  # only the response was lost
        if settings.read_only and not force:
            raise ReadOnlyRepositoryError(repository.name)
        changed = change(settings)
        if changed == settings:
            return settings
        check_settings(changed)
        as_read: dict[str, Value | None] = {**dict.fromkeys(ATTRIBUTES), **item}
        tried = changed
        written = Put(repository_key(repository.name), with_settings(item, changed), Matches(as_read))
        try:
            if condition is None:
                repository.tables.put(written.key, written.item, written.condition)
            else:
                repository.tables.transact([written, condition])
            return changed
        except ConditionFailedError as error:
            if 1 in error.failures:
                raise
            if not backoff.wait():
                raise BusyError(
                    f"the settings of repository {repository.name!r} are being changed by too many others at once; try again"
                ) from None
        except UnavailableError:
            if _read(repository)[1] != changed:
                raise
            return changed


def _renew_tokens(repository: RepositoryParts, settings: Settings) -> None:
    """Give each branch that no longer accepts staging a new open token, unless something is staged there.

    Three table reads and two transactions for each, besides listing the branches; nothing without rules.
    """
    if not settings.read_only and not settings.protected:
        return
    item = settings_attributes(settings)
    for state in branch_states(repository):
        try:
            Intent(direct=True).check(repository.name, item, state.name, hidden=state.hidden)
        except ForbiddenError:
            _renew_token(repository, state.name)


def branch_states(repository: RepositoryParts) -> Iterator[BranchState]:
    after: str | None = ""
    while after is not None:
        page = repository.refs.list_branches("", after, _PAGE, show_hidden=True)
        yield from page.results
        after = page.next_after


def _renew_token(repository: RepositoryParts, name: str) -> None:
    """Give a branch a new open token. After a concurrent change, look once more, then leave it: that change opened a new token,
    or staged something."""
    for _ in range(2):
        state = repository.branches.find(name)
        if state is None or state.sealed or repository.staged.exists([state.open]):
            return
        operation = token_hex(16)
        sealed = msgspec.structs.replace(state, open=repository.staged.next_token(state.open), sealed=(state.open,))
        writes = repository.refs.move_branch_writes(state, sealed, None, amid_conditional=True)
        writes.append(repository.outcomes.seal_write(state.open, operation, 0.0))
        try:
            repository.tables.transact(writes)
        except ConditionFailedError:
            continue
        if not repository.staged.exists([state.open]):
            with suppress(HeadMovedError):  # another process takes the token
                drop_tokens(repository, sealed, sealed.sealed, operation)
        return
