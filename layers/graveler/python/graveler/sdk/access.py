"""The interface through which a handle uses its repository."""

from typing import Protocol

from graveler.remote.any_repository import AnyLake, AnyRepository


class RepositoryAccess(Protocol):
    """A repository that is opened on first use. Changes made through its handles are attributed to ``user``."""

    user: str

    @property
    def id(self) -> str:
        """The repository's name."""
        ...

    @property
    def verbs(self) -> AnyRepository:
        """The repository's operations."""
        ...

    @property
    def lake_verbs(self) -> AnyLake:
        """The operations of the lake that the repository is in."""
        ...
