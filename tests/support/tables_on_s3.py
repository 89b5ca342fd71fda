"""A lake with a table on a real S3 server, behind an application in this process."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from secrets import token_hex
from typing import Final
from unittest.mock import patch

from msgspec import Struct

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.access.sources import ImportSources
from graveler.api.application import Application
from graveler.api.settings import Settings
from graveler.lake.lake import Lake
from graveler.storage.objects.namespaces import locate, open_namespace
from graveler.storage.objects.s3 import S3Settings
from graveler.storage.tables.memory import MemoryTables
from tests.api.support import EventClient, World, basic
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.keyrings import keyring
from tests.support.role_sessions import ROLE, RoleSessions, role_sessions
from tests.support.servers import REGION, s3proxy

SCHEMA: Final = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


class TablesOnS3(Struct, frozen=True):
    """The lake, whose repositories ``sales`` and ``other`` have the table shop.orders on main; its bucket, which has an import
    source below ``raw/``; and its STS."""

    world: World
    bucket: str
    sts: RoleSessions

    @property
    def call(self) -> EventClient:
        return EventClient(self.world)

    def key(self, role: Role, *, repositories: tuple[str, ...] = (), branches: tuple[str, ...] = ()) -> str:
        """The Authorization header of a new key."""
        return basic(self.world.access.create_key("Ann", role, repositories, branches))


@contextmanager
def world_on_s3(settings: Callable[[str], Settings]) -> Iterator[tuple[World, str]]:
    """An application with an empty lake, and the lake's bucket, until the end of the block. ``settings`` returns those of the
    application for the bucket."""
    place, bucket, tables = S3Settings(REGION, s3proxy()), f"tables-{token_hex(6)}", MemoryTables()
    with patch.dict(os.environ, CREDENTIALS):
        make_bucket(bucket, place)
        lake = Lake(tables, partial(open_namespace, s3=place), outside=partial(locate, s3=place))
        access = Access(tables, keyring(tables))
        application = Application(lake, access, settings(bucket))
        admin, reader = (basic(access.create_key(role.value, role)) for role in (Role.ADMIN, Role.READER))
        yield World(lake, access, application, admin, reader), bucket
        application.close()


@contextmanager
def tables_on_s3(role: str = ROLE) -> Iterator[TablesOnS3]:
    """The lake, until the end of the block."""

    def settings(bucket: str) -> Settings:
        return Settings(import_sources=ImportSources([f"s3://{bucket}/raw/"]), table_role=role)

    with (
        role_sessions() as sts,
        patch.dict(os.environ, {"AWS_ENDPOINT_URL_STS": sts.url}),
        world_on_s3(settings) as (world, bucket),
    ):
        tables_of_lake = TablesOnS3(world, bucket, sts)
        for name in ("sales", "other"):
            world.lake.create_repository(name, f"s3://{bucket}/lake/{name}")
            call, catalog = tables_of_lake.call, f"!/iceberg/v1/{name}/main/namespaces"
            assert call("POST", catalog, body={"namespace": ["shop"]}).status == 200
            assert call("POST", f"{catalog}/shop/tables", body={"name": "orders", "schema": SCHEMA}).status == 200
        sts.requests.clear()
        yield tables_of_lake
