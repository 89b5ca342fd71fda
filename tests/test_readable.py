"""Names and URLs as people read them."""

import pytest

from graveler.storage.tables.dynamodb import DynamoDBTables, settings_of
from graveler.text.readable import printable, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/a@b", "https://example.com/a@b"),
        ("https://user@example.com", "https://…@example.com"),
        ("http://user:p@ss@localhost:8000/api/v1", "http://…@localhost:8000/api/v1"),
        ("lake", "lake"),
    ],
)
def test_passwords_are_left_out_of_urls(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_tables_on_aws_show_no_password() -> None:
    tables = DynamoDBTables(settings_of("dynamodb://lake", endpoint_url="http://user:hidden@localhost:8000"))
    assert "http://…@localhost:8000" in repr(tables)
    assert "hidden" not in repr(tables)


def test_a_name_is_one_line_in_one_direction() -> None:
    assert printable("a\n\u202eb\u200f\udcff") == "a\\n\\u202eb\\u200f\\udcff"
    assert printable("„odd“ שלום") == "„odd“ שלום"
