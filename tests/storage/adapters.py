"""The adapters that the contracts run against. A new one is one entry in a table here."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from secrets import token_hex
from unittest.mock import patch

from graveler.storage.objects.confined_folder import Confinement
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Objects
from graveler.storage.objects.presigned import UrlSigner
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.tables.dynamodb import DynamoDBSettings, DynamoDBTables
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Tables
from graveler.storage.tables.sqlite import SqliteTables
from graveler.system.retries import Retries
from tests.support.instruments import CountingObjects, CountingTables, FaultyObjects, FaultyTables
from tests.support.servers import ACCESS_KEY, REGION, SECRET_KEY, dynamodb_local, s3proxy

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""For the environment: what the servers of the tests take, and nothing of the person who runs them."""
PAGE = 20
"""Keys in a page of a listing, so that few objects make several pages."""


@contextmanager
def _folder_objects(folder: Path) -> Iterator[Objects]:
    yield FolderObjects(folder / "objects", signer=UrlSigner("http://127.0.0.1:8000/objects", b"secret"))


@contextmanager
def _confined_objects(folder: Path) -> Iterator[Objects]:
    signer = UrlSigner("http://127.0.0.1:8000/objects", b"secret")
    yield FolderObjects(folder / "objects", signer=signer, confinement=Confinement("/", frozenset({(0, 0)})))


@contextmanager
def _memory_objects(folder: Path) -> Iterator[Objects]:
    yield MemoryObjects()


@contextmanager
def _wrapped_objects(folder: Path) -> Iterator[Objects]:
    yield CountingObjects(FaultyObjects(MemoryObjects(), lambda *_: None))


@contextmanager
def aws() -> Iterator[None]:
    """moto's AWS in this process, empty."""
    import moto

    with patch.dict(os.environ, CREDENTIALS), moto.mock_aws():
        yield


@contextmanager
def _moto_objects(folder: Path) -> Iterator[Objects]:
    with aws():
        make_bucket("bucket", S3Settings(REGION))
        yield S3Objects("bucket", "pre fix/ü", S3Settings(REGION, list_page=PAGE))


def s3_settings() -> S3Settings:
    """How s3proxy is spoken to."""
    return S3Settings(REGION, s3proxy(), list_page=PAGE, retries=Retries(3))


@contextmanager
def _s3proxy_objects(folder: Path) -> Iterator[Objects]:
    with patch.dict(os.environ, CREDENTIALS):
        bucket = f"bucket-{token_hex(8)}"
        make_bucket(bucket, s3_settings())
        yield S3Objects(bucket, "pre/fix", s3_settings())


def make_bucket(name: str, settings: S3Settings) -> None:
    """An empty bucket of this name."""
    import boto3

    boto3.session.Session(region_name=settings.region).client("s3", endpoint_url=settings.endpoint_url).create_bucket(
        Bucket=name
    )


@contextmanager
def _sqlite_tables(folder: Path) -> Iterator[Tables]:
    with SqliteTables(folder / "table.db") as tables:
        yield tables


@contextmanager
def _together_tables(folder: Path) -> Iterator[Tables]:
    with SqliteTables(folder / "table.db") as tables:
        tables.write_together()
        yield tables


@contextmanager
def _memory_tables(folder: Path) -> Iterator[Tables]:
    yield MemoryTables()


@contextmanager
def _wrapped_tables(folder: Path) -> Iterator[Tables]:
    yield CountingTables(FaultyTables(MemoryTables(), lambda *_: None))


@contextmanager
def _moto_tables(folder: Path) -> Iterator[Tables]:
    with aws():
        tables = DynamoDBTables(DynamoDBSettings("table", REGION))
        tables.create_table()
        yield tables


@contextmanager
def _dynamodb_local_tables(folder: Path) -> Iterator[Tables]:
    with patch.dict(os.environ, CREDENTIALS):
        tables = DynamoDBTables(DynamoDBSettings(f"table-{token_hex(8)}", REGION, dynamodb_local()))
        tables.create_table()
        yield tables


OBJECTS: Mapping[str, Callable[[Path], AbstractContextManager[Objects]]] = {
    "folder": _folder_objects,
    "confined": _confined_objects,
    "memory": _memory_objects,
    "moto": _moto_objects,
    "s3proxy": _s3proxy_objects,
    "wrapped": _wrapped_objects,
}
"""From a name to what opens an empty store, given an empty folder."""

TABLES: Mapping[str, Callable[[Path], AbstractContextManager[Tables]]] = {
    "dynamodb-local": _dynamodb_local_tables,
    "memory": _memory_tables,
    "moto": _moto_tables,
    "sqlite": _sqlite_tables,
    "sqlite-together": _together_tables,
    "wrapped": _wrapped_tables,
}
"""From a name to what opens an empty table, given an empty folder."""

WITHOUT_NESTED_KEYS = frozenset({"folder", "confined", "s3proxy"})
"""Stores in which ``x`` and ``x/y`` cannot both be objects."""

EXAMPLES: Mapping[str, int] = {"dynamodb-local": 10, "moto": 20, "s3proxy": 10}
"""How many examples a property is tried with, where it is not 60."""

ONE_AT_A_TIME = frozenset({"moto"})
"""Stores that do not say who wins when two requests come at once."""

LENIENT = frozenset({"moto", "s3proxy"})
"""Stores that take a part of an upload that nobody began, list in another order than S3, or fail where nothing is left to list:
of these laws the others are asked."""
