"""The lake that a command works on, and checks against folders that hold it."""

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graveler.cli.lake_options import lake_options
from graveler.cli.terminal import warn
from graveler.errors import InvalidError
from graveler.lake.opening.location import FolderLake, LakeLocation, open_at
from graveler.location.environment import ENDPOINT as ENDPOINT
from graveler.location.environment import HIDDEN as HIDDEN
from graveler.location.environment import LAKE as LAKE
from graveler.location.environment import TABLES as TABLES
from graveler.location.environment import Named as Named
from graveler.location.environment import ServedLake as ServedLake
from graveler.location.environment import find_default as find_default
from graveler.location.environment import find_lake as find_lake
from graveler.location.environment import find_location as find_location
from graveler.location.environment import working_folder as working_folder

if TYPE_CHECKING:
    from graveler.lake.lake import Lake
    from graveler.remote.any_repository import AnyLake, AnyRepository
    from graveler.remote.connection import Connection


_NAMED: "Final[ContextVar[tuple[Named | None, str]]]" = ContextVar("_NAMED", default=(None, ""))


def named_by_command() -> "tuple[Named | None, str]":
    """Return the lake and the repository that the command opened last, for the report of an error; "" if it opened none."""
    return _NAMED.get()


def forget_named() -> None:
    """Begin a command, which has opened nothing yet."""
    _NAMED.set((None, ""))


def user_name() -> str:
    """Return the committer's name, of the profile that the command's options name or of the one in use."""
    from graveler.location.environment import user_name

    named = lake_options()
    return user_name(None if named is None else named.profile)


def open_lake(named: Named | None) -> "AnyLake":
    """Return the lake that :func:`find_lake` finds."""
    _NAMED.set((named, ""))
    location = find_lake(named)
    if isinstance(location, ServedLake):
        from graveler.remote.opening import open_served

        return open_served(location)
    return _opened(location)


def open_repository(named: Named | None, repository: str) -> "AnyRepository":
    """Return a repository of that lake."""
    lake = open_lake(named)
    _NAMED.set((named, repository))
    return lake.repository(repository)


def open_own_lake(named: Named | None) -> "Lake":
    """Return the lake itself, for verbs that need a local lake. :class:`InvalidError` if a server is named."""
    _NAMED.set((named, ""))
    return _opened(find_location(named))


def connection_to(named: Named | None) -> "Connection | None":
    """Return the connection to the server of the lake; None for a local lake."""
    location = find_lake(named)
    if not isinstance(location, ServedLake):
        return None
    from graveler.remote.opening import connect

    return connect(location)


def _opened(location: LakeLocation) -> "Lake":
    """Return the lake at this location. Warn if it can only be read, and once if its folder is accessible to others."""
    lake = open_at(location)
    if lake.notice:
        warn(lake.notice)
    if (
        lake.folder_permissions is not None
        and (wider := lake.folder_permissions.wider())
        and lake.folder_permissions.tell_once()
    ):
        warn(
            f"{str(wider[0])!r} is open to users who should not use this lake; `graveler fsck --repair` of any repository "
            "closes it. This warning is shown only once"
        )
    return lake


def own_folder(named: Named | None) -> Path | None:
    """Return the lake's folder, without links; None for a lake elsewhere."""
    location = find_lake(named)
    return location.folder.resolve() if isinstance(location, FolderLake) else None


def expect_local_files(doing: str, named: Named | None) -> None:
    """Raise :class:`InvalidError` for a lake that cannot import this machine's files without copying: readers on another machine
    would not find them."""
    location = find_lake(named)
    if isinstance(location, FolderLake) or (isinstance(location, ServedLake) and location.is_on_this_machine):
        return
    raise _not_readable(doing, location)


def _not_readable(doing: str, location: object) -> InvalidError:
    return InvalidError(
        f"cannot {doing}: the lake {str(location)!r} is used from other machines, which cannot read this machine's files in "
        "place; copy them with `graveler put -r`, or name objects in S3"
    )


def refuse_own_lake(folder: Path, named: Named | None) -> None:
    """Raise :class:`InvalidError` if ``folder`` holds the lake: its files would change while they are read."""
    location = find_lake(named)
    if isinstance(location, FolderLake) and location.folder.resolve().is_relative_to(folder.resolve()):
        raise InvalidError(
            f"folder {str(folder)!r} contains the lake itself ({str(location)!r}); "
            "name another folder, or move the lake elsewhere"
        )


def refuse_inside_of_lake(folder: Path, named: Named | None) -> None:
    """Raise :class:`InvalidError` if ``folder`` lies in the lake, which owns its files."""
    location = find_lake(named)
    if isinstance(location, FolderLake) and folder.resolve().is_relative_to(location.folder.resolve()):
        raise InvalidError(
            f"folder {str(folder)!r} is inside the lake ({str(location)!r}); export to a folder elsewhere"
        )
