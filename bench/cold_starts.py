"""``python -m bench.cold_starts`` prints how long functions take, cold and warm, on this machine, from the built layer.

It needs ``make deploy-tools``.
"""

import json
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import msgspec
import urllib3
from tests.functions.events import event
from tests.functions.runtime import started, unpacked_layer
from tests.infra.emulator import emulating

_WARM = 20
_REPOSITORIES = "/api/v1/repositories"
_MAKE = """
import json
from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.storage.tables.dynamodb import DynamoDBTables, settings_of
tables = DynamoDBTables(settings_of("dynamodb://lake"))
tables.create_table()
made = Access(tables).create_key("a", Role.ADMIN)
print(json.dumps({"access_key_id": made.key.key_id, "secret_access_key": made.secret}))
"""
"""Makes the table and an access key."""


class Prepared(msgspec.Struct, frozen=True):
    """A layer, and a lake with one commit in an emulator."""

    layer: Path
    environment: dict[str, str]
    authorization: str
    folder: Path


class Figures(msgspec.Struct, frozen=True):
    """Milliseconds, the best of all starts: cold from the start of the process to its first answer (a page of a committed
    listing), of which the initialisation takes until the function asks for an event; warm the median of further ones. As time
    passes, and as time of a core."""

    init_ms: float
    init_cpu_ms: float
    cold_ms: float
    cold_cpu_ms: float
    warm_ms: float
    warm_cpu_ms: float


@contextmanager
def prepared(folder: Path) -> Iterator[Prepared]:
    """A lake to ask, until the end of the block."""
    machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    layer = unpacked_layer(folder / "layer", machine)
    with emulating(folder / "emulator") as emulator:
        s3 = boto3.client(
            "s3",
            endpoint_url=emulator.url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        s3.create_bucket(Bucket="lake")
        s3.close()
        environment = {
            **emulator.environment,
            "GRAVELER_OBJECTS": "s3://lake",
            "GRAVELER_TABLES": "dynamodb://lake",
            "GRAVELER_CACHE": str(folder / "cache"),
        }
        key = json.loads(_run(_MAKE, layer, environment))
        with started("write", layer, environment, folder / "write.log") as write:
            authorization = urllib3.make_headers(basic_auth=f"{key['access_key_id']}:{key['secret_access_key']}")[
                "authorization"
            ]
            for path, body in (
                (_REPOSITORIES, {"name": "cold", "storage_namespace": "s3://lake/cold"}),
                (f"{_REPOSITORIES}/cold/branches/main/commits", {"message": "one", "allow_empty": True}),
            ):
                answer = write.invoke(event("POST", path, body=body, authorization=authorization))
                assert answer["statusCode"] == 201, answer
        yield Prepared(layer, environment, authorization, folder)


def cold_starts(verb: str, ready: Prepared, *, starts: int) -> Figures:
    """Start a function so many times, ask it, and keep the best."""
    asked = event("GET", f"{_REPOSITORIES}/cold/refs/main/objects/ls", authorization=ready.authorization)
    found = []
    for _ in range(starts):
        began = time.perf_counter()
        with started(verb, ready.layer, ready.environment, ready.folder / f"{verb}.log") as function:
            function.initialised()
            init, init_cpu = time.perf_counter() - began, function.cpu_seconds()
            assert function.invoke(asked)["statusCode"] == 200
            cold, cpu = time.perf_counter() - began, function.cpu_seconds()
            times = []
            for _ in range(_WARM):
                began = time.perf_counter()
                assert function.invoke(asked)["statusCode"] == 200
                times.append(time.perf_counter() - began)
            warm_cpu = (function.cpu_seconds() - cpu) / _WARM
        found.append(
            Figures(
                init * 1000, init_cpu * 1000, cold * 1000, cpu * 1000, statistics.median(times) * 1000, warm_cpu * 1000
            )
        )
    return Figures(*(round(min(getattr(each, name) for each in found), 1) for name in Figures.__struct_fields__))


def _run(code: str, layer: Path, environment: dict[str, str]) -> str:
    """What the code prints, in the functions' own Python."""
    import subprocess

    from tests.infra.tools import PYTHON

    return subprocess.run(
        [PYTHON.resolve(), "-c", code],
        env={**environment, "PYTHONPATH": str(layer)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, prepared(Path(temporary)) as lake:
        for name in ("read", "commit", "merge", "diff"):
            print(name, cold_starts(name, lake, starts=5))
