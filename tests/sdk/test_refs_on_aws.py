"""The tests of test_refs, for a lake on AWS."""

from collections.abc import Iterator
from secrets import token_hex

import pytest

from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from tests.sdk import test_refs
from tests.support.retold import tell_again

ELSEWHERE = "the only place that a lake on AWS reads from"
LEFT_OUT = {
    "test_an_import_takes_objects_over_where_they_lie": ELSEWHERE,
    "test_an_import_says_what_it_changes_before_and_after": ELSEWHERE,
    "test_an_import_leaves_out_what_is_ignored": ELSEWHERE,
}
tell_again(globals(), test_refs, LEFT_OUT)


@pytest.fixture
def lake(lake_on_aws: Lake) -> Lake:
    return lake_on_aws


@pytest.fixture
def repo(lake: Lake) -> Iterator[Repository]:
    made = lake.repository("demo").create(f"{lake.verbs.home}demo-{token_hex(6)}")
    yield made
    made.delete()
