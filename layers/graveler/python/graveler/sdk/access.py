"""What a handle needs of its repository."""

from typing import Protocol

from graveler.anywhere import AnyRepository


class RepositoryAccess(Protocol):
    """A repository that is opened when it is first needed. ``user`` makes the changes that its handles make."""

    user: str

    @property
    def id(self) -> str:
        """The name."""
        ...

    @property
    def verbs(self) -> AnyRepository:
        """The use cases."""
        ...
