"""Paths of universal-pathlib, ``UPath("graveler://repository/ref/path")``, which finds this class by its entry point."""

from upath import UPath

__all__ = ["LakePath"]


class LakePath(UPath):
    """A path in a lake. Its methods are those of :class:`pathlib.Path`; storage options, errors and cost are those of
    :class:`graveler.filesystem.GravelerFileSystem`."""

    __slots__ = ()
