"""The Python API on the lake of a filesystem."""

from graveler.filesystem import GravelerFileSystem
from graveler.sdk.lake import Lake


def lake_of(fs: GravelerFileSystem) -> Lake:
    """The handle on the lake that a filesystem has opened."""
    return Lake(fs.opened.lake.verbs, fs.opened.lake.user)
