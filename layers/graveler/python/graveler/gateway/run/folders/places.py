"""The places of a run's folders: where each is on this machine, and which objects are its files."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.gateway.control import Location
from graveler.lake.opening.location import FolderLake

_READ_ONLY: Final = ":ro"


class FolderPlace(Struct, frozen=True, kw_only=True):
    """A folder of a run: the file ``<folder>/<name>`` is the object ``<prefix><name>``. ``folder`` is an absolute path, and
    ``prefix`` is empty or ends with a slash. The program may change no file of a ``read_only`` one."""

    folder: Path
    prefix: str
    read_only: bool = False


def parse_folder(text: str) -> FolderPlace:
    """Return the place that ``--folder FOLDER=PREFIX[:ro]`` names; a relative folder is one of the working folder.
    :class:`InvalidError`."""
    folder, equals, rest = text.partition("=")
    prefix = rest.removesuffix(_READ_ONLY)
    if not folder or not equals or not prefix:
        raise InvalidError(
            f"`--folder {text}` names no folder and prefix; write FOLDER=PREFIX, such as data=tables/events, or data=/ for the "
            "whole branch"
        )
    if "\0" in text:
        raise InvalidError(f"`--folder {text!r}` contains NUL, which no folder's name can have")
    prefix = prefix.strip("/")
    return FolderPlace(
        folder=Path(folder).absolute(), prefix=f"{prefix}/" if prefix else "", read_only=rest.endswith(_READ_ONLY)
    )


def expect_apart(places: Sequence[FolderPlace], lake: Location) -> None:
    """Check that no folder lies in another one or in the lake, and that no object is a file of two folders of which one may
    change. :class:`InvalidError`."""
    for place in places:
        if isinstance(lake, FolderLake) and place.folder.resolve().is_relative_to(lake.folder.resolve()):
            raise InvalidError(f"folder {str(place.folder)!r} is in the lake, which owns its files; name one elsewhere")
    for place, other in combinations(places, 2):
        folders = place.folder.resolve(), other.folder.resolve()
        if folders[0].is_relative_to(folders[1]) or folders[1].is_relative_to(folders[0]):
            raise InvalidError(
                f"`--folder` names {str(place.folder)!r} and {str(other.folder)!r}, which are one folder or lie in one another; "
                "give each prefix a folder of its own"
            )
        overlap = place.prefix.startswith(other.prefix) or other.prefix.startswith(place.prefix)
        if overlap and not (place.read_only and other.read_only):
            raise InvalidError(
                f"the folders {str(place.folder)!r} and {str(other.folder)!r} have objects in common, and both versions of one "
                "could not be published; name prefixes that do not overlap, or make both folders read-only with :ro"
            )
