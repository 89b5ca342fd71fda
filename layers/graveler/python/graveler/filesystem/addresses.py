"""Paths of the filesystem: repository, ref and object, separated by slashes."""

from typing import Final

from graveler.values.addresses import SCHEMES, Address, quote_ref

PROTOCOL: Final = "graveler"
"""The protocol of names that the filesystem returns."""
PROTOCOLS: Final = (PROTOCOL, *(name for scheme in SCHEMES if (name := scheme.removesuffix("://")) != PROTOCOL))
"""All protocols that a path may have; the first one is :data:`PROTOCOL`."""


class Place(Address):
    """The target of a path: an object or a folder of objects; with an empty ``path`` a ref, with an empty ``ref`` a repository,
    and with an empty ``repository`` the lake."""

    __slots__ = ()

    @property
    def prefix(self) -> str:
        """The beginning of the paths of all objects below it."""
        return f"{self.path}/" if self.path else ""

    @property
    def name(self) -> str:
        """The path again, without protocol."""
        if self.path:
            return self.named(self.path)
        return f"{self.repository}/{quote_ref(self.ref)}" if self.ref else self.repository

    def named(self, path: str) -> str:
        """Return the filesystem's path of an object or a folder of the same ref."""
        return f"{self.repository}/{quote_ref(self.ref)}/{path}"
