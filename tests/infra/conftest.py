"""Assemblies and a deployment, made once for all tests of a run."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import boto3
import msgspec
import pytest
from lakefs.client import Client

from infra.settings import QUICK_STARTS
from tests.infra.emulator import Emulator, launch, terminate
from tests.infra.iam.recorder import Recorded, recording
from tests.infra.iam.templates import Stacks
from tests.infra.sharing import held, made_once, shared_folder
from tests.infra.tools import host_architecture, require_tools, resources, synthesise, templates
from tests.support.lakefs_clients import drop_connections

ENCRYPTION_KEY: Final = "arn:aws-nowhere:kms:nowhere:000000000000:key/5d0e7c1a-2b9f-4b43-8f0e-7a1c6e2d9b10"
"""Of the account, for the deployment's own buckets, table and queues."""
KMS_KEY: Final = "arn:aws-nowhere:kms:nowhere::key/0b1f7a3e-6f7c-4a1d-9a63-0c4f5d1e2b3a"
SPARK_JOBS: Final[dict[str, dict[str, Any]]] = {
    "nightly": {"schedule": "cron(0 2 * * ? *)", "job": "gc", "arguments": ["--repository", "sales"]},
    "hourly": {
        "schedule": "rate(1 hour)",
        "job": "import_",
        "arguments": ["--repository", "sales", "--branch", "feed", "--prefix", "s3://first-bucket/tables/"],
        "calls": [
            {
                "method": "POST",
                "path": "/repositories/sales/refs/feed/merge/main",
                "body": {"message": "Tables of this hour"},
            }
        ],
    },
}


DOMAIN: Final = "lake.example.org"
CERTIFICATE: Final = "arn:aws-nowhere:acm:nowhere:000000000000:certificate/0b1f7a3e"
DATA_BUCKET: Final = "graveler-data"
"""From which objects may be imported."""


class Deployed(msgspec.Struct, frozen=True):
    """A deployment: the emulator that it is in, what its stacks told of it, and an admin's key."""

    emulator: Emulator
    outputs: dict[str, str]
    key_id: str
    secret: str
    assembly: str
    """Folder of the templates."""
    names: dict[str, dict[str, str]]
    """Of resources, by stack and logical ID."""
    calls: str
    """Folder in which each function notes its calls."""

    @property
    def url(self) -> str:
        """Of the API."""
        return self.outputs["Endpoint"]

    @property
    def bucket(self) -> str:
        """Of the lake."""
        return self.outputs["ObjectsBucket"]


LONG_NAMES: Final = tuple(f"data-{number:02}-{'x' * 55}" for number in range(37))
"""As many buckets with names of 63 characters as a function may be told."""


@pytest.fixture(scope="session")
def default_assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody deploys who changes nothing."""
    return made_once(shared_folder(tmp_path_factory), "default", synthesised)


def stub_package(assembly: Path) -> str:
    """Folder of a package of Spark jobs beside an assembly, with the names of a true one and no contents: that has 100 MB."""
    folder = assembly.parent / f"{assembly.name}-package"
    (folder / "jobs").mkdir(parents=True)
    for name in ("graveler-arm64-0.tar.gz", "jobs/export.py", "jobs/gc.py", "jobs/import_.py"):
        (folder / name).write_text(name)
    return str(folder)


@pytest.fixture(scope="session")
def full_assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every option."""

    def make(into: Path) -> None:
        synthesised(
            into,
            spark_package=stub_package(into),
            shared_cache=True,
            tracing=True,
            data_buckets=["first-bucket", "second-bucket", "shared-bucket/lake/"],
            import_buckets=["raw-bucket", "shared-bucket/raw/daily/"],
            ingest_buckets=["third-bucket", *LONG_NAMES[:34]],
            cors_origins=["https://example.org"],
            alarm_email="on-call@example.org",
            reserved_concurrency=10,
            removal="destroy",
            spark=True,
            spark_jobs=SPARK_JOBS,
            kms_keys=[KMS_KEY],
            encryption_key=ENCRYPTION_KEY,
            warm_writes=10_000,
            domain=DOMAIN,
            certificate=CERTIFICATE,
            hosted_zone="Z0EXAMPLE",
            throttles=["mergeIntoBranch=20/40", "createRepository=1/2"],
            monthly_budget=50,
            aws_login=["endpoint", "lake.example.org"],
            api_connection="arn:aws-nowhere:events:nowhere::connection/graveler/id",
        )

    return made_once(shared_folder(tmp_path_factory), "full", make)


EASTERN: Final = "arn:aws-nowhere:acm:us-east-1:000000000000:certificate/0b1f7a3e"
WEB_ACL: Final = "arn:aws-nowhere:wafv2:us-east-1:000000000000:global/webacl/lake/0b1f7a3e"


QUALITY: Final = "arn:aws:lambda:us-east-1:000000000000:function:quality"
"""A function that rules of the emulated deployment may name."""

CHECKS: Final[dict[str, Any]] = {
    "lambdas": {
        "quality": "arn:aws-nowhere:lambda:nowhere:000000000000:function:quality",
        "schema": "arn:aws-nowhere:lambda:nowhere:000000000000:function:schema:live",
    },
    "secrets": {"hooks": "arn:aws-nowhere:secretsmanager:nowhere:000000000000:secret:Hooks-AbCdEf"},
    "private_hosts": ["hooks.internal:8080"],
}
"""What rules may name in their checks."""

OTHER: Final[dict[str, Any]] = {
    "checks": CHECKS,
    "check_function": True,
    "table_credentials": True,
    "snap_start": ["read", "write", "commit", "merge", "operate"],
    "provisioned": ["diff=2", "maintain=1", "ingest=3"],
    "domain": DOMAIN,
    "certificate": EASTERN,
    "hosted_zone": "Z0EXAMPLE",
    "web_acl": WEB_ACL,
    "front_door_key": 2,
    "encryption_key": "own",
}
"""Options that exclude some of :func:`full_assembly`'s."""


@pytest.fixture(scope="session")
def other_assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the options that the full one does not have."""
    return made_once(shared_folder(tmp_path_factory), "other", lambda into: synthesised(into, **OTHER))


SEALING_KEY: Final = "arn:aws-nowhere:kms:nowhere:000000000000:key/3c2d1e0f-2b9f-4b43-8f0e-7a1c6e2d9b10"
BOUNDARY: Final = "arn:aws-nowhere:iam::000000000000:policy/boundaries/Functions"
ADOPTED: Final[dict[str, Any]] = {
    "bucket": "old-objects",
    "landing_bucket": "old-landing",
    "table": "old-table",
    "sealing_key": SEALING_KEY,
    "first_key": "arn:aws-nowhere:secretsmanager:nowhere:000000000000:secret:FirstKey-AbCdEf",
    "former_encryption_keys": ["own", ENCRYPTION_KEY],
    "permissions_boundary": BOUNDARY,
    "checks": CHECKS,
    "table_credentials": True,
    "data_buckets": ["first-bucket", "shared-bucket/lake/"],
    "import_buckets": ["raw-bucket"],
    "kms_keys": [KMS_KEY],
    "spark": True,
    "api_connection": "arn:aws-nowhere:events:nowhere::connection/graveler/id",
    "monthly_budget": 20,
}
"""All that an earlier deployment left, and keys that it encrypted with."""


@pytest.fixture(scope="session")
def adopted_assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a deployment that adopts."""

    def make(into: Path) -> None:
        synthesised(into, spark_package=stub_package(into), **ADOPTED)

    return made_once(shared_folder(tmp_path_factory), "adopted", make)


@pytest.fixture(scope="session")
def adopted(adopted_assembly: Path) -> dict[str, dict[str, Any]]:
    """Templates of a deployment that adopts."""
    return templates(adopted_assembly)


RESTORED: Final = "lake-then"
"""A table that takes over from the stack's own."""


@pytest.fixture(scope="session")
def crowded_assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With more buckets than one policy holds, and all that makes policies and environments longer."""

    def make(into: Path) -> None:
        synthesised(
            into,
            shared_cache=True,
            tracing=True,
            spark=True,
            spark_package=stub_package(into),
            spark_jobs={"nightly": SPARK_JOBS["nightly"]},
            data_buckets=LONG_NAMES,
            name="c" * 20,
            table=RESTORED,
            paused=True,
            aws_login=["endpoint"],
            kms_keys=[f"{KMS_KEY[:-2]}{number:02}" for number in range(20)],
            encryption_key=ENCRYPTION_KEY,
            former_encryption_keys=["own", *(f"{ENCRYPTION_KEY[:-2]}{number}" for number in (20, 30, 40))],
            domain=DOMAIN,
            certificate=EASTERN,
            web_acl=WEB_ACL,
            front_door_key=2,
            api_connection="arn:aws-nowhere:events:nowhere::connection/graveler/id",
            permissions_boundary=BOUNDARY,
            provisioned=[f"{function}=1" for function in QUICK_STARTS],
        )

    return made_once(shared_folder(tmp_path_factory), "crowded", make)


@pytest.fixture(scope="session")
def crowded(crowded_assembly: Path) -> dict[str, dict[str, Any]]:
    """Templates with the longest policies."""
    return templates(crowded_assembly)


@pytest.fixture(scope="session")
def default(default_assembly: Path) -> dict[str, dict[str, Any]]:
    """Templates of the default deployment."""
    return templates(default_assembly)


@pytest.fixture(scope="session")
def full(full_assembly: Path) -> dict[str, dict[str, Any]]:
    """Templates with every option."""
    return templates(full_assembly)


@pytest.fixture(scope="session")
def other(other_assembly: Path) -> dict[str, dict[str, Any]]:
    """Templates with the options that the full ones do not have."""
    return templates(other_assembly)


@pytest.fixture(scope="session")
def names() -> Iterator[None]:
    """Names that end in ``.localhost`` are this machine (RFC 6761), though not each one's resolver knows."""
    with pytest.MonkeyPatch.context() as patch:
        ask = socket.getaddrinfo

        def resolve(host: Any, *arguments: Any, **more: Any) -> Any:
            local = isinstance(host, str) and host.endswith(".localhost")
            return ask("127.0.0.1" if local else host, *arguments, **more)

        patch.setattr(socket, "getaddrinfo", resolve)
        yield


@pytest.fixture(scope="session")
def emulated_assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a deployment in an emulator. Expressions in alarms are what that does not know."""

    def make(into: Path) -> None:
        synthesised(
            into,
            architecture=host_architecture(),
            alarm_email="on-call@example.org",
            data_buckets=[DATA_BUCKET],
            request_records=60,
            part_records=40,
            parts_at_once=3,
            check_function=True,
            checks={"lambdas": {"quality": QUALITY}},
            table_credentials=True,
        )
        without_expressions(into / "graveler-observability.template.json")

    return made_once(shared_folder(tmp_path_factory), "assembly", make)


@pytest.fixture(scope="session")
def deployed(names: None, tmp_path_factory: pytest.TempPathFactory, emulated_assembly: Path) -> Iterator[Deployed]:
    """A deployment for all tests."""
    folder, assembly = shared_folder(tmp_path_factory), emulated_assembly

    def start() -> dict[str, Any]:
        calls = folder / "calls"
        emulator, process = launch(folder / "emulator", **recording(calls))
        try:
            outputs = emulator.deploy(assembly)
            key = first_key(emulator, outputs)
            names = emulator.names(templates(assembly))
        except BaseException:
            terminate(process)
            raise
        return {
            "process": process,
            "deployed": msgspec.to_builtins(
                Deployed(
                    emulator, outputs, key["access_key_id"], key["secret_access_key"], str(assembly), names, str(calls)
                )
            ),
        }

    with held(folder, "deployed", start, lambda told: terminate(told["process"])) as told:
        yield msgspec.convert(told["deployed"], Deployed)


@pytest.fixture(scope="session")
def recorded(deployed: Deployed) -> Iterator[Recorded]:
    """The calls of the deployment's functions. What they call after the last test has to be allowed as well."""
    stacks = Stacks(templates(Path(deployed.assembly)), lambda stack, logical: deployed.names[stack][logical])
    found = Recorded(Path(deployed.calls), stacks, deployed.emulator.role_of)
    yield found
    assert not found.judge()


@pytest.fixture(autouse=True)
def allowed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each call that a function made meanwhile is one that the policies allow, whichever test it was made for."""
    found = request.getfixturevalue("recorded") if "deployed" in request.fixturenames else None
    yield
    assert found is None or not found.judge()


def first_key(emulator: Emulator, outputs: dict[str, str]) -> dict[str, str]:
    """What the secret of a deployment holds."""
    with patch.dict(os.environ, emulator.environment):
        secrets = boto3.client("secretsmanager")
        kept: dict[str, str] = json.loads(secrets.get_secret_value(SecretId=outputs["FirstKeySecret"])["SecretString"])
    return kept


@pytest.fixture
def client(deployed: Deployed) -> Iterator[Client]:
    """The field's own client, of the deployment."""
    made = Client(host=deployed.url, username=deployed.key_id, password=deployed.secret)
    yield made
    drop_connections(made)


def synthesised(into: Path, **settings: Any) -> None:
    """The templates of these settings, without a finding."""
    require_tools()
    done = synthesise(into, **settings)
    # cdk-nag's findings that nobody acknowledged end the synthesis.
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def without_expressions(file: Path) -> None:
    """Have alarms watch the first metric of their expression."""
    template = json.loads(file.read_text())
    for alarm in resources(template, "AWS::CloudWatch::Alarm").values():
        properties = alarm["Properties"]
        if "Metrics" in properties:
            watched = next(each["MetricStat"] for each in properties.pop("Metrics") if "MetricStat" in each)
            properties |= {**watched["Metric"], "Period": watched["Period"], "Statistic": watched["Stat"]}
    file.write_text(json.dumps(template))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for an assembly or a deployment needs the tools, wherever the test stands."""
    for item in items:
        if {
            "default_assembly",
            "full_assembly",
            "crowded_assembly",
            "other_assembly",
            "adopted_assembly",
            "emulated_assembly",
            "deployed",
        } & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.ci)
