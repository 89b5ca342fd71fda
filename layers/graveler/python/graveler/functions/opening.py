"""Opening the lake of a deployment: DynamoDB, S3, and a cache that counts what it finds."""

from pathlib import Path
from typing import Final

from graveler.errors import ForbiddenError
from graveler.functions.configuration import Configuration
from graveler.functions.traffic import Traffic
from graveler.lake.clock import GRACE
from graveler.lake.lake import Lake
from graveler.storage.cache import CachedFile, FileCache
from graveler.storage.dynamodb_tables import DynamoDBTables, settings_of
from graveler.storage.objects import Objects
from graveler.storage.s3_objects import S3Objects

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
    return Lake(
        DynamoDBTables(settings_of(configuration.tables)),
        lambda namespace: S3Objects(*_split(namespace, configuration)),
        cache=CountedCache(configuration.cache, configuration.cache_bytes, traffic),
        scratch=_SCRATCH,
        outside=lambda address: _outside(address, configuration),
    )


def _outside(address: str, configuration: Configuration) -> tuple[Objects, str]:
    """The object at an address outside of the repository that names it."""
    bucket, key = _split(address, configuration)
    return S3Objects(bucket), key


def _split(address: str, configuration: Configuration) -> tuple[str, str]:
    """Bucket and key. :class:`ForbiddenError` for what the deployment does not know: its role would be refused there too, but
    says less about why."""
    scheme, _, rest = address.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or bucket not in configuration.buckets:
        raise ForbiddenError(
            f"{address!r} does not lie in a bucket of this deployment ({', '.join(configuration.buckets)}); "
            f"more of them are given by data_buckets in cdk.json"
        )
    return bucket, key.strip("/") if address.endswith("/") else key
