"""The tests of test_files, for a lake behind a server."""

from collections.abc import Iterator
from secrets import token_hex

import pytest

from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from tests.sdk import test_files
from tests.support.retold import tell_again

LEFT_OUT = {
    "test_any_seeks_and_reads_are_as_of_a_file_in_memory": "it needs no lake",
    "test_text_is_read_as_of_a_file_in_memory": "it needs no lake",
    "test_the_raw_reader_refuses_what_makes_no_sense": "it needs no lake",
    "test_reading_costs_a_request_for_each_buffer": "it counts requests of a lake in memory",
    "test_parquet_goes_through": "it counts requests of a lake in memory",
}
tell_again(globals(), test_files, LEFT_OUT)


@pytest.fixture
def lake(served_lake: Lake) -> Lake:
    return served_lake


@pytest.fixture
def repo(lake: Lake) -> Iterator[Repository]:
    made = lake.repository("demo").create(f"{lake.verbs.home}demo-{token_hex(6)}")
    yield made
    made.delete()
