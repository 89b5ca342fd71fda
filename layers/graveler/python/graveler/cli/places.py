"""The lake that a command works on, and a refusal of folders that hold it."""

from pathlib import Path
from typing import TYPE_CHECKING

from graveler.errors import InvalidError
from graveler.places import HIDDEN as HIDDEN
from graveler.places import LAKE as LAKE
from graveler.places import find_lake as find_lake
from graveler.places import user_name as user_name
from graveler.places import working_folder as working_folder

if TYPE_CHECKING:
    from graveler.lake.lake import Lake
    from graveler.lake.repository import OpenRepository


def open_lake(named: Path | None) -> "Lake":
    """The lake that :func:`find_lake` finds."""
    from graveler.lake.folder import open_folder_lake

    return open_folder_lake(find_lake(named))


def open_repository(named: Path | None, repository: str) -> "OpenRepository":
    """A repository of that lake."""
    return open_lake(named).repository(repository)


def refuse_own_lake(folder: Path, lake: Path) -> None:
    """:class:`InvalidError` if ``folder`` holds the lake: its files change while they would be read."""
    inner, outer = lake.resolve(), folder.resolve()
    if inner.is_relative_to(outer):
        raise InvalidError(
            f"folder {str(folder)!r} holds the lake itself ({str(lake)!r}); name a folder beside it, or keep the lake elsewhere"
        )
