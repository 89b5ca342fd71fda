"""A deployment's functions on this machine: from the built layer, by the runtime's own client, on DynamoDB's own engine and a
real S3 server, with proxies between them."""

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from threading import Event
from typing import Any, Final
from unittest.mock import patch

import msgspec
import urllib3

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.lake.lake import Lake
from graveler.lake.opening.aws import open_lake
from graveler.storage.objects.s3 import S3Settings
from tests.functions.events import event
from tests.functions.runtime import Started, started, unpacked_layer
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.proxy import FaultyProxy, Schedule
from tests.support.servers import REGION, dynamodb_local, s3proxy

NAME: Final = "served"
REPOSITORY: Final = f"/api/v1/repositories/{NAME}"


class Served(msgspec.Struct, frozen=True):
    """A lake with an empty repository, functions that work on it through proxies (before DynamoDB and before S3, which share one
    event for what hangs), and what they need."""

    lake: Lake
    layer: Path
    environment: dict[str, str]
    authorization: str
    folder: Path
    proxies: tuple[FaultyProxy, FaultyProxy]

    @contextmanager
    def function(self, verb: str) -> Iterator[Started]:
        """One that has just been started, on a machine where none was before."""
        environment = {**self.environment, "GRAVELER_CACHE": str(self.folder / f"cache-{token_hex(6)}")}
        with started(verb, self.layer, environment, self.folder / f"{verb}.log") as function:
            yield function

    def begin(self, schedule: Schedule) -> None:
        """Count requests from zero, under this schedule."""
        for proxy in self.proxies:
            proxy.begin(schedule)

    def asked(
        self, method: str, path: str, *, query: str = "", body: Any = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """An event that asks something of the repository."""
        made = event(method, REPOSITORY + path, query=query, body=body, authorization=self.authorization)
        return {**made, "headers": {**made["headers"], **(headers or {})}}


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Until the end of the block. Objects of a bucket ``raw`` may be taken over."""
    layer = unpacked_layer(folder / "layer", "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64")
    name = f"served-{token_hex(6)}"
    hanging = Event()
    with (
        patch.dict("os.environ", CREDENTIALS),
        FaultyProxy(dynamodb_local(), hanging=hanging) as tables,
        FaultyProxy(s3proxy(), hanging=hanging) as objects,
    ):
        settings = S3Settings(REGION, s3proxy())
        make_bucket(name, settings)
        lake = open_lake(
            f"s3://{name}",
            f"dynamodb://{name}",
            s3=settings,
            region=REGION,
            dynamodb_endpoint_url=dynamodb_local(),
            create_table=True,
        )
        lake.create_repository(NAME, f"s3://{name}/{NAME}")
        environment = {
            **CREDENTIALS,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL_DYNAMODB": tables.url,
            "AWS_ENDPOINT_URL_S3": objects.url,
            "GRAVELER_OBJECTS": f"s3://{name}",
            "GRAVELER_TABLES": f"dynamodb://{name}",
            "GRAVELER_DATA_BUCKETS": "raw",
        }
        made = Served(lake, layer, environment, "", folder, (tables, objects))
        admin = Access(lake.tables).create_key("a", Role.ADMIN)
        basic = f"{admin.key.key_id}:{admin.secret}"
        yield msgspec.structs.replace(made, authorization=urllib3.make_headers(basic_auth=basic)["authorization"])
        lake.close()
