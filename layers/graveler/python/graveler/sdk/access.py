"""What a handle needs of its repository."""

from typing import Protocol

from graveler.verbs import RepositoryVerbs


class RepositoryAccess(Protocol):
    """A repository that is opened when it is first needed. ``user`` makes the changes that its handles make."""

    user: str

    @property
    def id(self) -> str:
        """The name."""
        ...

    @property
    def verbs(self) -> RepositoryVerbs:
        """The use cases."""
        ...
