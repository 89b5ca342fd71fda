"""Clients of S3, the lakes that they write to, and the ways to run them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from msgspec import Struct

import graveler
from graveler.gateway.control import KeyPair
from graveler.gateway.run.environment import program_environment
from graveler.lake.opening.location import FolderLake
from graveler.model import ObjectEntry
from graveler.sdk.lake import open_lake
from tests.gateway.clients.tools import CLIENTS, DUCKDB, JAVASCRIPT, SPARK, commands_of
from tests.server.support import KEY_ID, SECRET, started
from tests.support.certificates import Certificates
from tests.support.hadoop_aws import hadoop_aws_jars
from tests.support.lakes_on_aws import new_lake_on_aws
from tests.support.patience import PATIENCE
from tests.support.servers import REGION

PROGRAMS: Final = Path(__file__).parent / "programs"
INTERPRETERS: Final = {".sh": "bash", ".js": "node"}
_SERVED: Final = Path("served")  # the variables that name a lake are of no use to a client of S3


class S3Client(Struct, frozen=True):
    """A program that tries a client, the variable of the environment that it runs in, and patterns of the objects that it leaves
    in the folder of its name, within some ``seconds``. ``needs`` are commands and devices that not every machine has."""

    name: str
    environment: str
    objects: tuple[str, ...]
    needs: tuple[str, ...] = ()
    seconds: float = PATIENCE

    def __str__(self) -> str:
        return self.name

    def command(self, place: str) -> list[str]:
        """Return the words that run the program for a place, BUCKET or BUCKET/PREFIX."""
        (program,) = Path(__file__).parent.glob(f"*/{self.name}_program.*")
        interpreter = INTERPRETERS.get(program.suffix) or str(commands_of(self.environment) / "python")
        return [interpreter, str(program), place]


S3_CLIENTS: Final = (
    S3Client("boto3", "", ("copied", "large")),
    S3Client("awscli", CLIENTS, ("copied", "moved", "piped", "tree/large")),
    S3Client("s3fs", CLIENTS, ("copied", "frame.parquet", "large")),
    S3Client(
        "pyarrow",
        CLIENTS,
        ("days/", "days/day=[123]/", "days/day=[123]/part-0.parquet", "large", "moved.parquet", "one.parquet"),
    ),
    S3Client("obstore", CLIENTS, ("large", "log/0", "renamed é%2F+")),
    S3Client(
        "polars", CLIENTS, ("days/day=[12]/*.parquet", "large.parquet", "one.csv", "one.parquet", "sunk/two.parquet")
    ),
    S3Client("duckdb", DUCKDB, ("days/day=[012]/*.parquet", "large.parquet", "one é.csv")),
    S3Client(
        "deltalake", CLIENTS, ("_delta_log/*.json", "_delta_log/*.parquet", "_delta_log/_last_checkpoint", "*.parquet")
    ),
    S3Client("pylance", CLIENTS, ("data/*.lance", "_versions/*.manifest", "_transactions/*.txn", "_deletions/*")),
    S3Client(
        "icechunk",
        CLIENTS,
        ("chunks/*", "manifests/*", "snapshots/*", "transactions/*", "refs/branch.main/ref.json"),
    ),
    S3Client("rclone", CLIENTS, ("copied", "moved", "piped", "tree/large")),
    S3Client("rclone_mount", CLIENTS, ("large", "moved"), ("fusermount3", "/dev/fuse")),
    S3Client("s5cmd", CLIENTS, ("copied", "moved")),
    S3Client(
        "hadoop_aws",
        SPARK,
        ("created", "large", *(f"{committer}/*" for committer in ("file", "directory", "magic"))),
        ("java", "mvn"),
        3 * PATIENCE,
    ),
    S3Client("javascript", JAVASCRIPT, ("copied é+%2F", "large", "log/0", "signed", "streamed"), ("node", "npm")),
)


class ClientLake(Struct, frozen=True):
    """A lake with the repository ``sales``: the variables and options that name it, and the arguments of
    :func:`graveler.sdk.lake.open_lake`."""

    variables: Mapping[str, str]
    options: tuple[str, ...]
    place: Mapping[str, Any]

    @contextmanager
    def opened(self) -> Iterator[graveler.Lake]:
        """Open the lake for a block."""
        with patch.dict(os.environ, self.variables), open_lake(**self.place, user="bob") as lake:
            yield lake


def folder_lake(folder: Path) -> ClientLake:
    """Create a lake in a folder."""
    lake = ClientLake({"GRAVELER_LAKE": str(folder)}, ("--lake", str(folder)), {"location": str(folder)})
    with graveler.create(folder, user="bob") as created:
        created.repository("sales").create()
    return lake


def lake_on_aws(cache: Path) -> ClientLake:
    """Create a lake on S3 and DynamoDB."""
    variables, place = new_lake_on_aws("clients", cache)
    options = {
        "--objects": place["objects"],
        "--tables": place["location"],
        "--region": REGION,
        "--s3-endpoint-url": place["s3_endpoint_url"],
        "--dynamodb-endpoint-url": place["dynamodb_endpoint_url"],
    }
    lake = ClientLake(
        {
            **variables,
            "GRAVELER_LAKE": place["location"],
            "GRAVELER_OBJECTS": place["objects"],
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL_S3": place["s3_endpoint_url"],
            "AWS_ENDPOINT_URL_DYNAMODB": place["dynamodb_endpoint_url"],
        },
        tuple(word for option in options.items() for word in option),
        place,
    )
    with lake.opened() as created:
        created.repository("sales").create()
    return lake


def client_variables(environment: str, home: Path) -> dict[str, str]:
    """Return the variables that a program in an environment has before a gateway adds its own: no configuration of this user."""
    path = f"{commands_of(environment)}{os.pathsep}{os.environ['PATH']}"
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GRAVELER_", "RCLONE_"))
    }
    variables = {**inherited, "PATH": path, "HOME": str(home), "TMPDIR": str(home)}
    if environment == SPARK:
        variables["SPARK_CONF_DIR"] = str(_spark_configuration(home))
    return variables


def _spark_configuration(folder: Path) -> Path:
    """Write a folder of configuration with which Spark takes the jars of hadoop-aws before its own."""
    configuration = folder / "spark-conf"
    configuration.mkdir(exist_ok=True)
    jars = ":".join(map(str, hadoop_aws_jars()))
    lines = [
        f"spark.{process}.{name} {value}"
        for process in ("driver", "executor")
        for name, value in {
            "extraClassPath": jars,
            "extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }.items()
    ]
    (configuration / "spark-defaults.conf").write_text("\n".join(lines))
    return configuration


def run_in_transaction(lake: ClientLake, client: S3Client, home: Path, *options: str) -> str:
    """Run the program of a client by ``graveler run`` on ``main``. Return what it and the runner say."""
    command = [sys.executable, "-m", "graveler.cli", "run", "sales/main", *options, "--", *client.command("sales")]
    variables = {**client_variables(client.environment, home), **lake.variables, "GRAVELER_USER": "ada"}
    return finished(command, variables, client.seconds)


class ServedLake(Struct, frozen=True):
    """A lake behind ``graveler serve --s3-port``, with the variables that lead a client there."""

    port: int
    keys: KeyPair
    authority: Path | None = None

    def run(self, client: S3Client, home: Path) -> str:
        """Run the program of a client on the branch ``main``. Return what it says."""
        variables = self.variables(client_variables(client.environment, home))
        return finished(client.command("sales/main"), variables, client.seconds)

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a program: those of ``graveler run``, for this port."""
        variables = program_environment(environment, self.port, self.keys, FolderLake(_SERVED), "sales/main")
        if self.authority is None:
            return variables
        secure = {name: value.replace("http://", "https://") for name, value in variables.items()}
        trusted = dict.fromkeys(("AWS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), str(self.authority))
        return {**secure, **trusted, "DUCKDB_S3_USE_SSL": "true"}


@contextmanager
def serving(lake: ClientLake, folder: Path, certificates: Certificates | None = None) -> Iterator[ServedLake]:
    """Serve a lake to S3 clients until the end of the block, by TLS if there are certificates."""
    tls = ("--s3-certificate", certificates.chain, "--s3-certificate-key", certificates.key) if certificates else ()
    options = (*lake.options, "--s3-port", "0", *map(str, tls))
    with patch.dict(os.environ, lake.variables), started(folder, *options) as server:
        assert server.s3_url is not None
        create = [sys.executable, "-m", "graveler.cli", "keys", "create", "etl", "--role", "writer", "--s3", "--json"]
        admin = {"GRAVELER_ACCESS_KEY_ID": KEY_ID, "GRAVELER_SECRET_ACCESS_KEY": SECRET}
        said = subprocess.run(
            [*create, "--lake", server.url], env={**os.environ, **admin}, capture_output=True, text=True, check=False
        )
        assert said.returncode == 0, said.stderr
        key = json.loads(said.stdout)
        keys = KeyPair(key["access_key_id"], key["secret_access_key"])
        port = int(server.s3_url.rpartition(":")[2])
        yield ServedLake(port, keys, certificates.authority if certificates else None)


def run_writers(server: ServedLake, home: Path, client: str, writers: int, commits: int, *verbs: str) -> None:
    """Run ``writers_program.py`` with a client on the branch ``main``."""
    words = [client, "sales/main", str(writers), str(commits), *verbs]
    variables = server.variables(client_variables(CLIENTS, home))
    finished([str(commands_of(CLIENTS) / "python"), str(PROGRAMS / "writers_program.py"), *words], variables, 3600)


def check_objects(lake: ClientLake, client: S3Client) -> None:
    """Assert that the branch ``main`` has what a client left there: whole, and nothing else."""
    folder = f"{client.name}/"  # a marker of that name is of no interest
    with lake.opened() as opened:
        branch = opened.repository("sales").branch("main")
        objects = {
            found.path.removeprefix(folder): found for found in branch.objects(prefix=folder) if found.path != folder
        }
        strangers = [path for path in objects if not any(fnmatchcase(path, pattern) for pattern in client.objects)]
        assert not strangers, f"{strangers} are no objects of {client.name}"
        for pattern in client.objects:
            assert any(fnmatchcase(path, pattern) for path in objects), f"no {pattern} among {sorted(objects)}"
        for path, found in objects.items():
            assert isinstance(found, ObjectEntry)
            with branch.object(f"{folder}{path}").reader("rb") as reader:
                assert len(reader.read()) == found.size


def finished(command: list[str], variables: Mapping[str, str], seconds: float = PATIENCE) -> str:
    """Run a command to its end, which must be a good one, within some seconds. Return what it says."""
    done = subprocess.run(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout
