"""A repository that is opened on first use."""

from typing import TYPE_CHECKING

from graveler.files.shared_lake import SharedLake

if TYPE_CHECKING:
    from graveler.lake.opening.location import AwsLake, FolderLake
    from graveler.location.environment import ServedLake
    from graveler.remote.any_repository import AnyLake, AnyRepository


class RepositoryAccess:
    """A repository by name, which need not exist. Changes are attributed to ``user``. Pickles without what it has read."""

    def __init__(self, lake: SharedLake, repository_id: str, user: str = "") -> None:
        self._lake = lake
        self._opened: AnyRepository | None = None
        self.id = repository_id
        self.user = user

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": None}  # the other process reads it itself

    @property
    def lake(self) -> "AnyLake":
        """The lake that the repository is in. No request, but the first use may open it."""
        return self._lake.lake

    @property
    def location(self) -> "FolderLake | AwsLake | ServedLake":
        """The location of the lake, with this process's credentials. :class:`InvalidError` for one whose address has a
        password."""
        return self._lake.location

    @property
    def repository(self) -> "AnyRepository":
        """The opened repository. Cost: one table read, the first time."""
        if self._opened is None:
            self._opened = self._lake.lake.repository(self.id)
        return self._opened

    def replace(self, repository: "AnyRepository | None") -> None:
        """Use another opened repository from now on; None: open it again on the next use."""
        self._opened = repository
