"""The lake of a deployment: DynamoDB, S3, and caches that count their hits and misses.

A file of a tree is looked for in this process's memory, then in ``/tmp``, then in the file system that functions share (if any),
then in S3. A cache's failure, since a disk is full or a file system is missing, is counted, and S3 has the file.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from graveler.functions.deployment_settings import Configuration
from graveler.functions.traffic import Tier, Traffic
from graveler.lake.clock import GRACE
from graveler.lake.lake import Lake
from graveler.lake.opening.aws import open_lake
from graveler.storage.objects.cache import Cache, CachedFile, FileCache, Tiers
from graveler.storage.objects.s3 import SCHEME, S3Objects, S3Settings
from graveler.storage.secrets.kms import KmsKey
from graveler.storage.tables.dynamodb import DynamoDBTables, settings_of

_SCRATCH: Final = Path("/tmp")
_NOTES_SHARE: Final = 8
"""One part in this many of the near cache is for notes computed from its files."""


class Counted:
    """A cache that calls ``hit`` and ``miss`` for each of these."""

    def __init__(
        self, cache: Cache, hit: Callable[[], None] = lambda: None, miss: Callable[[], None] = lambda: None
    ) -> None:
        self._cache, self._hit, self._miss = cache, hit, miss
        self.put, self.confirm, self.drop = cache.put, cache.confirm, cache.drop

    def get(self, name: str) -> CachedFile | None:
        """Return the copy of this name, or None."""
        copy = self._cache.get(name)
        (self._miss if copy is None else self._hit)()
        return copy


def connect(configuration: Configuration) -> None:
    """Make the clients of the table and of the bucket that :func:`open_deployed_lake` uses, and load their modules: most of a
    function's start. No request of either."""
    DynamoDBTables(settings_of(configuration.tables)).connect()
    bucket = configuration.objects.removeprefix(SCHEME).partition("/")[0]
    S3Objects(bucket, settings=S3Settings(read_timeout=configuration.read_seconds)).connect()


def open_deployed_lake(configuration: Configuration, traffic: Traffic) -> Lake:
    """Return the lake in a configuration. No request: clients are made on first use.

    One process works for an operation: Lambda has no shared memory for more of them.
    """
    note = {tier: partial(traffic.note_file, tier) for tier in Tier}
    files = partial(FileCache, failed=traffic.note_cache_failure)
    notes_bytes = max(1, configuration.cache_bytes // _NOTES_SHARE)
    files_bytes = max(1, configuration.cache_bytes - notes_bytes)
    cache: Cache = Counted(files(configuration.cache / "files", files_bytes, GRACE / 2), note[Tier.SCRATCH])
    if configuration.shared_cache is not None:
        shared = files(configuration.shared_cache, configuration.shared_cache_bytes, GRACE / 2)
        cache = Tiers(cache, Counted(shared, note[Tier.SHARED]))
    key = configuration.kms_key
    return open_lake(
        configuration.objects,
        configuration.tables,
        s3=S3Settings(read_timeout=configuration.read_seconds),
        cache=Counted(cache, miss=note[Tier.STORE]),
        notes=files(configuration.cache / "notes", notes_bytes, math.inf),
        found_open=note[Tier.MEMORY],
        scratch=_SCRATCH,
        staging_shards=configuration.staging_shards,
        sealing_key=None if key is None else KmsKey(key, configuration.tables.removeprefix("dynamodb://")),
    )
