"""Paths of universal-pathlib, ``UPath("graveler://repository/ref/path")``, which finds this class by its entry points."""

from fsspec import get_filesystem_class
from upath import UPath

from graveler.filesystem.addresses import PROTOCOL

get_filesystem_class(
    PROTOCOL
)  # registers it, so that UPath asks it about addresses, and does not warn of an unknown one

__all__ = ["LakePath"]


class LakePath(UPath):
    """A path in a lake. Its methods are those of :class:`pathlib.Path`; storage options, errors and cost are those of
    :class:`graveler.filesystem.GravelerFileSystem`."""

    __slots__ = ()
