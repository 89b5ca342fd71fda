"""A lake on DynamoDB and S3, or on compatible servers: for functions, servers and the library.

The table has the same contents as any lake's. Repositories lie in S3 at their storage namespaces; ``objects`` is only the
prefix below which they should lie, and which no repository may read as outside objects.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from graveler.errors import ForbiddenError, InvalidError
from graveler.lake.clock import GRACE, Clock
from graveler.lake.lake import Lake
from graveler.lake.opening.lake_parts import Surroundings, TreeSettings
from graveler.storage.objects.cache import Cache, FileCache
from graveler.storage.objects.namespaces import locate, open_namespace
from graveler.storage.objects.port import Objects
from graveler.storage.objects.s3 import SCHEME, S3Settings
from graveler.storage.secrets.keyring import Keyring, KeySource
from graveler.storage.tables.dynamodb import DynamoDBTables, settings_of
from graveler.storage.tables.port import Tables

_CACHE_BYTES: Final = 512 << 20

STAGING_SHARDS: Final = 8
"""Partitions of the table for the uncommitted changes of a branch: each takes 1,000 writes of 1 KB a second
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html)."""


def open_lake(
    objects_url: str,
    tables_url: str,
    *,
    s3: S3Settings | None = None,
    region: str | None = None,
    dynamodb_endpoint_url: str | None = None,
    create_table: bool = False,
    cache: Path | Cache | None = None,
    cache_bytes: int = _CACHE_BYTES,
    notes: Cache | None = None,
    found_open: Callable[[], None] | None = None,
    scratch: Path | None = None,
    workers: int = 1,
    writes_at_once: int = 8,
    reads_at_once: int = 8,
    memory: int | None = None,
    clock: Clock | None = None,
    sealing_key: KeySource | None = None,
    staging_shards: int = STAGING_SHARDS,
    wrap_tables: Callable[[Tables], Tables] = lambda tables: tables,
    wrap_objects: Callable[[Objects], Objects] = lambda objects: objects,
) -> Lake:
    """Open the lake whose table is ``dynamodb://<table>``, for repositories below ``s3://<bucket>/<prefix>``.

    ``region`` applies to both, unless ``s3`` names another; credentials are found as AWS's own tools find them. ``create_table``
    creates the table if it does not exist. ``cache`` is a folder for copies of immutable files, of at most ``cache_bytes``, or an
    existing cache; ``notes`` (unless ``cache`` is a folder, which has them too), ``found_open``, ``scratch``, ``workers``,
    ``writes_at_once``, ``reads_at_once`` and ``memory`` as for :class:`~graveler.lake.opening.lake_parts.TreeSettings`, and
    ``staging_shards`` as for :class:`~graveler.lake.lake.Lake`.
    ``sealing_key`` is the source of the key that seals the secrets in the table. ``wrap_…`` may wrap the adapters,
    for example to count their requests.

    Cost: none, unless ``create_table``: clients are created, and requests sent, on first use. :class:`InvalidError` for URLs
    of another form.
    """
    if not objects_url.startswith(SCHEME):
        raise InvalidError(f"{objects_url!r} is not a place in S3; write {SCHEME}<bucket>/<prefix>")
    settings = s3 or S3Settings(region)
    open_namespace(objects_url, s3=settings)
    table = DynamoDBTables(settings_of(tables_url, region=region, endpoint_url=dynamodb_endpoint_url))
    if create_table:
        table.create_table()
    tables = wrap_tables(table)
    return Lake(
        tables,
        partial(_open, settings, wrap_objects),
        clock=clock,
        trees=TreeSettings(
            cache=FileCache(cache, cache_bytes, GRACE / 2) if isinstance(cache, Path) else cache,
            notes=FileCache(cache / "notes", cache_bytes // 2, math.inf) if isinstance(cache, Path) else notes,
            found_open=found_open,
            scratch=scratch,
            workers=workers,
            writes_at_once=writes_at_once,
            reads_at_once=reads_at_once,
            memory=memory,
        ),
        surroundings=Surroundings(home=f"{objects_url.rstrip('/')}/", keyring=Keyring(tables, sealing_key)),
        outside=partial(_locate, settings, objects_url.rstrip("/")),
        staging_shards=staging_shards,
    )


def _open(settings: S3Settings, wrap: Callable[[Objects], Objects], namespace: str) -> Objects:
    if not namespace.startswith(SCHEME):
        raise InvalidError(
            f"storage namespace {namespace!r} is not in S3; a lake on AWS keeps repositories in {SCHEME}…"
        )
    return wrap(open_namespace(namespace, s3=settings))


def _locate(settings: S3Settings, namespace: str, address: str) -> tuple[Objects, str]:
    """Return the store and key of an address outside of the repository that names it. The lake's own prefix is excluded: a user
    with permission to write to one repository could otherwise link another one's objects, and read them."""
    if not address.startswith(SCHEME):
        raise InvalidError(f"{address!r} is not in S3, the only place that a lake on AWS reads from")
    if address.startswith(f"{namespace}/"):
        raise ForbiddenError(f"{address!r} is in the lake's own place, which cannot be used as a source")
    return locate(address, s3=settings)
