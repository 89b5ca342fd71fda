"""What test_refs tells, of a lake behind a server."""

from collections.abc import Iterator
from secrets import token_hex

import pytest

from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from tests.sdk import test_refs
from tests.support.retold import tell_again

LEFT_OUT = {
    "test_branches_are_made_listed_renamed_and_removed": "the HTTP API cannot rename a branch",
    "test_a_listing_is_taken_over": "the HTTP API has no such operation",
}
tell_again(globals(), test_refs, LEFT_OUT)


@pytest.fixture
def lake(served_lake: Lake) -> Lake:
    return served_lake


@pytest.fixture
def repo(lake: Lake) -> Iterator[Repository]:
    made = lake.repository("demo").create(f"{lake.verbs.home}demo-{token_hex(6)}")
    yield made
    made.delete()
