"""One Spark session for all tests of a process; by their group, all of them run in one."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from graveler.spark.session import local_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starting Spark costs 10 seconds and 500 MB: once is enough."""
    for item in items:
        if "tests/spark" in str(item.path):
            item.add_marker(pytest.mark.xdist_group("spark"))
            # Spark's own clients of the JVM leave their sockets to the collector of garbage.
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores of this machine."""
    session = local_session("graveler tests", spark__sql__shuffle__partitions="4")
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
