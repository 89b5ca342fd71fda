"""Opening the lake of a deployment: DynamoDB, S3, and a cache that counts what it finds."""

from pathlib import Path
from typing import Final

from graveler.functions.configuration import Configuration
from graveler.functions.traffic import Traffic
from graveler.lake.aws import open_lake
from graveler.lake.clock import GRACE
from graveler.lake.lake import Lake
from graveler.storage.cache import CachedFile, FileCache

_SCRATCH: Final = Path("/tmp")


class CountedCache(FileCache):
    """A cache that tells ``traffic`` what it finds and what not."""

    def __init__(self, folder: Path, max_bytes: int, traffic: Traffic) -> None:
        super().__init__(folder, max_bytes, GRACE / 2)
        self._traffic = traffic

    def get(self, name: str) -> CachedFile | None:
        """The copy of this name, or None."""
        found = super().get(name)
        self._traffic.note_cache(found is not None)
        return found


def open_deployed_lake(configuration: Configuration, traffic: Traffic) -> Lake:
    """The lake that a configuration names. No request: clients are made when they are first used.

    One process works for an operation: Lambda has no shared memory for more of them.
    """
    return open_lake(
        configuration.objects,
        configuration.tables,
        cache=CountedCache(configuration.cache, configuration.cache_bytes, traffic),
        scratch=_SCRATCH,
    )
