"""A lake in memory for each test, and a repository in it; lakes elsewhere for those that ask."""

from collections.abc import Callable, Iterator
from secrets import token_hex

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.lake.lake import Lake as LakeVerbs
from graveler.lake.opening.folder import create_folder_lake
from graveler.sdk.lake import Lake, create_lake, open_lake
from graveler.sdk.repository import Repository
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.s3 import S3Settings
from graveler.storage.tables.memory import MemoryTables
from tests.server.support import running
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.instruments import CountingObjects, CountingTables
from tests.support.servers import REGION, dynamodb_local, s3proxy
from tests.support.shell import Shell

OpenLake = Callable[[], "CountedLake"]


class CountedLake(Lake):
    """A lake in memory that counts its requests."""

    def __init__(self) -> None:
        self.tables = CountingTables(MemoryTables())
        self.stores: dict[str, CountingObjects] = {}
        super().__init__(LakeVerbs(self.tables, self.objects), "ada")

    def objects(self, namespace: str) -> CountingObjects:
        if namespace not in self.stores:
            self.stores[namespace] = CountingObjects(MemoryObjects(namespace))
        return self.stores[namespace]

    @property
    def requests(self) -> int:
        """All requests so far."""
        return self.tables.requests + sum(store.requests for store in self.stores.values())


@pytest.fixture
def lake() -> CountedLake:
    return CountedLake()


@pytest.fixture
def repo(lake: CountedLake) -> Repository:
    return lake.repository("demo").create("mem://demo")


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """URL of a server, and an admin's key of its, whose name is the tests' user."""
    folder = tmp_path_factory.mktemp("served")
    with create_folder_lake(folder / "lake") as lake:
        made = Access(lake.tables).create_key("ada", Role.ADMIN, (), ())
    given = f"file://{tmp_path_factory.getbasetemp()}/"
    with running(folder, "--import-source", given, workers=1, key=False) as server:
        yield server.url, made.key.key_id, made.secret


@pytest.fixture
def served_lake(endpoint: tuple[str, str, str], shell: Shell) -> Iterator[Lake]:
    """The lake behind a server."""
    url, key_id, secret = endpoint
    shell.export("GRAVELER_ACCESS_KEY_ID", key_id)
    shell.export("GRAVELER_SECRET_ACCESS_KEY", secret)
    with open_lake(url, user="ada") as lake:
        yield lake


@pytest.fixture(scope="session")
def lake_on_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake on DynamoDB Local and s3proxy."""
    name = f"sdk-{token_hex(6)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for variable, value in CREDENTIALS.items():
            patch.setenv(variable, value)
        make_bucket(name, S3Settings(REGION, s3proxy()))
        with create_lake(
            f"dynamodb://{name}",
            user="ada",
            create_table=True,
            objects=f"s3://{name}/lake",
            region=REGION,
            s3_endpoint_url=s3proxy(),
            dynamodb_endpoint_url=dynamodb_local(),
        ) as lake:
            yield lake
