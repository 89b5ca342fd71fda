"""Bare repositories: notes that something is to be restored under a name. There is no repository until that was done."""

from contextlib import suppress
from typing import Final

from graveler.api.call import Call
from graveler.errors import AlreadyExistsError, RepositoryNotFoundError
from graveler.history.names import check_repository
from graveler.storage.tables import Key

PARTITION: Final = "bare-repositories"


def note_bare(call: Call, repository: str, namespace: str) -> None:
    """Note where what is to be restored lies; noting it again replaces it. One table read, one write.
    :class:`AlreadyExistsError` if there is a repository of this name, :class:`InvalidError` for a name that none can have."""
    with suppress(RepositoryNotFoundError):
        call.lake.repository(check_repository(repository))
        raise AlreadyExistsError("repository", repository)
    call.lake.tables.put(_key(repository), {"namespace": namespace})


def bare_namespace(call: Call, repository: str) -> str:
    """Where what is to be restored under this name lies; empty if nothing is. One table read."""
    item = call.lake.tables.get(_key(repository))
    return "" if item is None else str(item["namespace"])


def forget_bare(call: Call, repository: str) -> None:
    """The repository is there. One table write."""
    call.lake.tables.delete(_key(repository))


def _key(repository: str) -> Key:
    return Key(PARTITION, repository.encode("utf-8", "surrogateescape"))
