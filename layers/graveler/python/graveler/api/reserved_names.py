"""Bare repositories: notes that something will be restored under a name. The repository exists only once that is done."""

from contextlib import suppress
from typing import Final

from graveler.api.call import Call
from graveler.errors import AlreadyExistsError, RepositoryNotFoundError
from graveler.history.names import check_repository
from graveler.storage.tables.port import Key

PARTITION: Final = "bare-repositories"


def note_bare(call: Call, repository: str, namespace: str) -> None:
    """Record the location to restore from; recording it again replaces it. One table read, one write. :class:`AlreadyExistsError`
    if a repository has this name, :class:`InvalidError` for an invalid name."""
    with suppress(RepositoryNotFoundError):
        call.lake.repository(check_repository(repository))
        raise AlreadyExistsError("repository", repository)
    call.lake.tables.put(_key(repository), {"namespace": namespace})


def bare_namespace(call: Call, repository: str) -> str:
    """Return the location to restore this name from; empty if none is recorded. One table read."""
    item = call.lake.tables.get(_key(repository))
    return "" if item is None else str(item["namespace"])


def forget_bare(call: Call, repository: str) -> None:
    """Delete the note, once the repository exists. One table write."""
    call.lake.tables.delete(_key(repository))


def _key(repository: str) -> Key:
    return Key(PARTITION, repository.encode("utf-8", "surrogateescape"))
