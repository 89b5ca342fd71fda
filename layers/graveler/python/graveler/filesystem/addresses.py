"""Paths of the filesystem: repository, ref and object, separated by slashes."""

from typing import Final, NamedTuple

PROTOCOL: Final = "graveler"


class Place(NamedTuple):
    """What a path names: an object or a folder of objects; with an empty ``path`` a ref, with an empty ``ref`` a repository, and
    with an empty ``repository`` the lake."""

    repository: str
    ref: str
    path: str

    @property
    def prefix(self) -> str:
        """What the paths of all objects below it begin with."""
        return f"{self.path}/" if self.path else ""

    @property
    def name(self) -> str:
        """The path again, without protocol."""
        return "/".join(self if self.path else filter(None, self))

    def named(self, path: str) -> str:
        """Return the filesystem's path of an object or a folder of the same ref."""
        return f"{self.repository}/{self.ref}/{path}"


def place_of(path: str) -> Place:
    """Return what a path without protocol and slashes at its end names."""
    repository, _, rest = path.partition("/")
    ref, _, inner = rest.partition("/")
    return Place(repository, ref, inner)
