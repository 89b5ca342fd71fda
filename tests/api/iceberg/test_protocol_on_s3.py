"""The protocol of the catalog on a real S3 server: the tests of its lakes in memory again."""

from collections.abc import Iterator

import pytest

from graveler.api.settings import Settings
from tests.api.iceberg import test_protocol
from tests.api.support import ANYWHERE, Client, FunctionClient
from tests.support.retold import tell_again
from tests.support.tables_on_s3 import world_on_s3


@pytest.fixture
def call() -> Iterator[Client]:
    """A client of an API, by events as functions get them, whose repository ``repo`` lies on S3."""
    with world_on_s3(lambda _: Settings(import_sources=ANYWHERE, decoded_paths=True)) as (world, bucket):
        world.lake.create_repository("repo", f"s3://{bucket}/lake/repo")
        yield FunctionClient(world)


tell_again(globals(), test_protocol, {}, "call")
