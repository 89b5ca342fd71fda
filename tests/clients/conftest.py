"""One server for all tests of a process, and a repository of its own for each test."""

from collections import Counter
from collections.abc import Iterator

import lakefs
import pytest
from lakefs.client import Client

from tests.clients.lakes_on_s3 import ServedOnS3, serving_on_s3
from tests.clients.support import Served, Wire, new_name, serving
from tests.support.lakefs_clients import drop_connections
from tests.support.shell import Shell


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    given = f"file://{tmp_path_factory.getbasetemp()}/"
    with serving(tmp_path_factory.mktemp("served") / "lake", "--import-source", given) as server:
        yield server


@pytest.fixture(scope="session")
def served_on_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedOnS3]:
    with serving_on_s3(tmp_path_factory.mktemp("served-on-s3")) as server:
        yield server


@pytest.fixture(autouse=True)
def environment(served: Served, shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What users set, so that every client finds the server by itself; and no configuration of theirs."""
    shell.export_all(served.environment)
    shell.export("HOME", str(tmp_path_factory.getbasetemp()))


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    made = Client(host=served.url, username=served.key_id, password=served.secret)
    yield made
    drop_connections(made)


@pytest.fixture
def repo(client: Client) -> lakefs.Repository:
    """A new repository."""
    name = new_name()
    return lakefs.Repository(name, client=client).create(storage_namespace=f"local://{name}")


@pytest.fixture
def main(repo: lakefs.Repository) -> lakefs.Branch:
    """The default branch of a new repository."""
    return repo.branch("main")


@pytest.fixture
def wire(served: Served) -> Iterator[Wire]:
    made = Wire(served)
    yield made
    made.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many requests were made from the OpenAPI document, of how many operations, and how they were answered."""
    statuses: Counter[str] = Counter()
    operations = 0
    for report in terminalreporter.getreports("passed"):
        made = [value for name, value in getattr(report, "user_properties", []) if name == "fuzzed"]
        if report.when == "call" and made:
            operations += 1
            statuses.update(
                str(status) if int(str(status)) >= 500 else f"{int(str(status)) // 100}xx" for status in made
            )
    if operations:
        answered = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        terminalreporter.write_line(f"schemathesis: {operations} operations, {statuses.total()} requests: {answered}")
