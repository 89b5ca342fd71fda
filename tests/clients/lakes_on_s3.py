"""A running server of a lake on S3 and DynamoDB, whose tables clients reach with credentials or by signatures."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import lakefs
from lakefs.client import Client
from msgspec import Struct

from tests.clients.support import Served, new_name, serving
from tests.server.support import sealing_key_file
from tests.support.lakefs_clients import drop_connections
from tests.support.lakes_on_aws import new_lake_on_aws
from tests.support.role_sessions import ROLE, role_sessions


class ServedOnS3(Struct, frozen=True):
    """The server; the ``environment`` that opens its lake without it; and the lake's ``bucket``, which has an import source below
    ``source_path``."""

    served: Served
    environment: dict[str, str]
    bucket: str
    source_path: str = "raw"


@contextmanager
def serving_on_s3(folder: Path, longest_session: int = 3600) -> Iterator[ServedOnS3]:
    """The server of a new lake, until the end of the block. It gives its clients sessions of a role, whose keys are the S3
    server's own, for ``longest_session`` seconds at most. ``folder`` is for files of the server's."""
    variables, place = new_lake_on_aws("tables", folder / "cache")
    objects = str(place["objects"])
    bucket = objects.removeprefix("s3://").partition("/")[0]
    with role_sessions(longest_session) as sts, ExitStack() as server:
        variables |= {
            "GRAVELER_TABLES": place["location"],
            "GRAVELER_OBJECTS": objects,
            "GRAVELER_SEALING_KEY_FILE": str(sealing_key_file(folder)),
            "AWS_REGION": place["region"],
            "AWS_ENDPOINT_URL_S3": place["s3_endpoint_url"],
            "AWS_ENDPOINT_URL_DYNAMODB": place["dynamodb_endpoint_url"],
        }
        places = ("--tables", place["location"], "--objects", objects)
        more = {"AWS_ENDPOINT_URL_STS": sts.url, "GRAVELER_TABLE_ROLE": ROLE}
        with patch.dict(os.environ, variables | more):  # of the server, and of nothing else that runs beside it
            served = server.enter_context(
                serving(folder / "lake", "--import-source", f"s3://{bucket}/raw/", place=places)
            )
        yield ServedOnS3(Served(served.url), variables, bucket)


@contextmanager
def new_repository(served: Served) -> Iterator[lakefs.Repository]:
    """A new repository of a server, whose lake is in a folder or on S3."""
    client, name = Client(host=served.url, username=served.key_id, password=served.secret), new_name()
    place = "local:/" if served.lake is not None else client.storage_config.default_namespace_prefix.rstrip("/")
    yield lakefs.Repository(name, client=client).create(storage_namespace=f"{place}/{name}")
    drop_connections(client)
