"""Opening a lake from Python."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from graveler.lake.folder import create_folder_lake, open_folder_lake
from graveler.lake.lake import Lake as LakeVerbs
from graveler.paging import items
from graveler.places import find_lake, user_name
from graveler.sdk.page_size import page_size
from graveler.sdk.repository import Repository


class Lake:
    """Repositories that are kept together. A context manager that closes the lake.

    ``verbs`` is the room below, for whatever has no word here. ``user`` is who makes the changes, and signs the commits.
    """

    def __init__(self, verbs: LakeVerbs, user: str = "") -> None:
        self.verbs = verbs
        self.user = user

    def repository(self, repository_id: str) -> Repository:
        """The repository of this name, which may be still to create. No request."""
        return Repository(self.verbs, repository_id, self.user)

    def repositories(self, max_amount: int | None = None, after: str = "", prefix: str = "") -> Iterator[Repository]:
        """Repositories by name. Cost: one table read for each thousand, when it is read that far."""
        amount = page_size(max_amount)
        listing = items(lambda position: self.verbs.repositories(prefix, position, amount), max_amount, after)
        return (self.repository(found.name) for found in listing)

    def close(self) -> None:
        """Let go of files and connections."""
        self.verbs.close()

    def __enter__(self) -> "Lake":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_lake(folder: str | Path | None = None, *, user: str | None = None) -> Lake:
    """The lake in ``folder`` (``~`` is the home folder), or in its ``.graveler``. Exported as ``graveler.open``.

    Without one, the lake that GRAVELER_LAKE names, else the nearest upward from the working folder. ``user`` signs commits;
    without one, GRAVELER_USER or the login name does. :class:`NotFoundError` if there is no lake.
    """
    verbs = open_folder_lake(find_lake(None if folder is None else Path(folder).expanduser()))
    return Lake(verbs, user_name() if user is None else user)


def create_lake(folder: str | Path, *, user: str | None = None) -> Lake:
    """Make an empty lake in ``folder``, which is made if need be, and open it. Exported as ``graveler.create``.

    ``user`` as in :func:`open_lake`. :class:`AlreadyExistsError` if there is a lake.
    """
    verbs = create_folder_lake(Path(folder).expanduser())
    return Lake(verbs, user_name() if user is None else user)
