"""A deployment's settings, from the environment variables that it gives its functions."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.access.sources import ImportSources
from graveler.api.settings import DEFAULT_OPERATION_RECORDS, DEFAULT_PRESIGN_SECONDS, Settings
from graveler.errors import InvalidError
from graveler.lake.opening.aws import STAGING_SHARDS
from graveler.staging.tokens import MAX_SHARDS

_PREFIX: Final = "GRAVELER_"
_S3: Final = "s3://"
_DEFAULT_CACHE_BYTES: Final = 384 << 20
_SHARED_CACHE_BYTES: Final = 64 << 30


class Configuration(Struct, frozen=True, kw_only=True):
    """``objects`` (``s3://bucket``) is where new repositories lie, ``tables`` (``dynamodb://table``) the lake's table;
    ``data_buckets`` may hold repositories too, and import sources, ``import_buckets`` only the latter; each is a bucket, or a
    folder in one (``bucket/folder/``). Objects that arrive in ``ingest_buckets`` may be ingested. Files of trees are cached in
    the folder ``cache``, up to ``cache_bytes``, and behind it in ``shared_cache``, if functions share a file system.

    ``read_seconds`` is how long to wait for the next byte of a response from S3, less than the function's own time.

    ``operations_queue`` is the URL of the queue for long operations, ``operations_machine`` the ARN of the state machine for
    those that are cut into parts of ``part_records`` each: verbs that read more than ``operation_records``. Without both, the
    request does all the work. ``ingest_queue`` is the URL of the queue whose messages are ingested, ``ingest_dead_letters`` that
    of the one for messages that cannot be; None: they come again, at the queue's own intervals, until it gives them up.
    ``kms_key`` is the ARN of the key that seals the secrets in the table; without one no secret can be opened. The uncommitted
    changes of a branch are spread over ``staging_shards`` partitions of the table. AWS principals log in if their clients sign
    one of the names ``aws_login``. With ``front_door``, secrets, functions only respond to requests that have one of them
    (:mod:`graveler.functions.front_door`). A function that is ``paused`` serves no request. ``table_role`` as for
    :class:`graveler.api.settings.Settings`.
    """

    objects: str
    tables: str
    data_buckets: tuple[str, ...] = ()
    import_buckets: tuple[str, ...] = ()
    ingest_buckets: tuple[str, ...] = ()
    presign_seconds: int = DEFAULT_PRESIGN_SECONDS
    read_seconds: int = 9
    cache: Path = Path("/tmp/cache")
    cache_bytes: int = _DEFAULT_CACHE_BYTES
    shared_cache: Path | None = None
    shared_cache_bytes: int = _SHARED_CACHE_BYTES
    operations_queue: str | None = None
    operations_machine: str | None = None
    part_records: int = 500_000
    operation_records: int = DEFAULT_OPERATION_RECORDS
    ingest_queue: str | None = None
    ingest_dead_letters: str | None = None
    kms_key: str | None = None
    staging_shards: int = STAGING_SHARDS
    aws_login: tuple[str, ...] = ()
    front_door: tuple[str, ...] = ()
    paused: bool = False
    table_role: str = ""

    def __repr__(self) -> str:
        return f"Configuration(objects={self.objects!r}, tables={self.tables!r}, …)"

    @property
    def sources(self) -> tuple[str, ...]:
        """All buckets, and folders, that a repository may lie in, the deployment's own one first."""
        return (self.objects.removeprefix(_S3).partition("/")[0], *self.data_buckets)

    def api_settings(self) -> Settings:
        """Return the settings of the API. Only the other buckets are sources of imports: through its own one a repository could
        read another's data."""
        names = "|".join(re.escape(source.rstrip("/")) for source in self.sources)
        return Settings(
            namespace_prefix=f"{self.objects.rstrip('/')}/",
            namespace_pattern=f"^s3://({names})/.+",
            presign_seconds=self.presign_seconds,
            secure_cookies=True,
            decoded_paths=True,
            import_sources=_sources((*self.data_buckets, *self.import_buckets)),
            ingest_sources=_sources((*self.data_buckets, *self.ingest_buckets)),
            operation_records=self.operation_records,
            # Without a worker to hand it to, the request does all the work.
            hands_over=bool(self.operations_queue or self.operations_machine),
            page_stores=tuple(f"{_S3}{source}" for source in (*self.sources, *self.import_buckets)),
            table_role=self.table_role,
        )


def _sources(sources: tuple[str, ...]) -> ImportSources:
    return ImportSources([f"{_S3}{source}" for source in sources])


def read_configuration(environ: Mapping[str, str]) -> Configuration:
    """Return the configuration in these variables. :class:`InvalidError` names a missing or malformed one."""

    def text(name: str) -> str:
        value = environ.get(_PREFIX + name, "")
        if not value:
            raise InvalidError(
                f"environment variable {_PREFIX}{name} is not set; the deployment (infra/functions.py) sets it"
            )
        return value

    def number(name: str, default: int, most: int = sys.maxsize) -> int:
        value = environ.get(_PREFIX + name) or str(default)
        if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= most:
            upto = "on" if most == sys.maxsize else f"to {most:,}"
            raise InvalidError(
                f"environment variable {_PREFIX}{name} is {value!r}; it must be a whole number from 1 {upto}"
            )
        return int(value)

    def names(name: str) -> tuple[str, ...]:
        return tuple(item for item in environ.get(_PREFIX + name, "").split(",") if item)

    objects = text("OBJECTS")
    if not objects.startswith(_S3) or not objects.removeprefix(_S3).strip("/"):
        raise InvalidError(
            f"environment variable {_PREFIX}OBJECTS is {objects!r}; it must be s3://<bucket>, or a folder in it"
        )
    return Configuration(
        objects=objects,
        tables=text("TABLES"),
        data_buckets=names("DATA_BUCKETS"),
        import_buckets=names("IMPORT_BUCKETS"),
        ingest_buckets=names("INGEST_BUCKETS"),
        presign_seconds=number("PRESIGN_SECONDS", DEFAULT_PRESIGN_SECONDS),
        read_seconds=number("READ_SECONDS", 9),
        cache=Path(environ.get(f"{_PREFIX}CACHE") or "/tmp/cache"),
        cache_bytes=number("CACHE_BYTES", _DEFAULT_CACHE_BYTES),
        shared_cache=Path(shared) if (shared := environ.get(f"{_PREFIX}SHARED_CACHE")) else None,
        shared_cache_bytes=number("SHARED_CACHE_BYTES", _SHARED_CACHE_BYTES),
        operations_queue=environ.get(f"{_PREFIX}OPERATIONS_QUEUE") or None,
        operations_machine=environ.get(f"{_PREFIX}OPERATIONS_MACHINE") or None,
        part_records=number("PART_RECORDS", 500_000),
        operation_records=number("OPERATION_RECORDS", DEFAULT_OPERATION_RECORDS),
        ingest_queue=environ.get(f"{_PREFIX}INGEST_QUEUE") or None,
        ingest_dead_letters=environ.get(f"{_PREFIX}INGEST_DEAD_LETTERS") or None,
        kms_key=environ.get(f"{_PREFIX}KMS_KEY") or None,
        staging_shards=number("STAGING_SHARDS", STAGING_SHARDS, MAX_SHARDS),
        aws_login=names("AWS_LOGIN"),
        front_door=names("FRONT_DOOR"),
        paused=environ.get(f"{_PREFIX}PAUSED") == "true",
        table_role=environ.get(f"{_PREFIX}TABLE_ROLE") or "",
    )
