"""The tests of test_transaction, for a lake behind a server."""

from collections.abc import Iterator
from secrets import token_hex

import pytest

from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from tests.sdk import test_transaction
from tests.support.retold import tell_again

LEFT_OUT: dict[str, str] = {}
tell_again(globals(), test_transaction, LEFT_OUT)


@pytest.fixture
def lake(served_lake: Lake) -> Lake:
    return served_lake


@pytest.fixture
def repo(lake: Lake) -> Iterator[Repository]:
    made = lake.repository("demo").create(f"{lake.verbs.home}demo-{token_hex(6)}")
    yield made
    made.delete()
