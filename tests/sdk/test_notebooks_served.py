"""The tests of test_notebooks, for a lake behind a server."""

from collections.abc import Iterator
from secrets import token_hex

import pytest

from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from tests.sdk import test_notebooks
from tests.support.retold import tell_again

LEFT_OUT = {"test_who_shows_nothing_loads_nothing": "needs no lake"}
tell_again(globals(), test_notebooks, LEFT_OUT)


@pytest.fixture
def lake(served_lake: Lake) -> Lake:
    return served_lake


@pytest.fixture
def repo(lake: Lake) -> Iterator[Repository]:
    made = lake.repository("demo").create(f"{lake.verbs.home}demo-{token_hex(6)}")
    yield made
    made.delete()
