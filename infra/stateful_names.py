"""The names of the table's attributes, as graveler.storage.tables.dynamodb has them."""

from typing import Final

PARTITION_KEY: Final = "P"
SORT_KEY: Final = "S"
TTL_ATTRIBUTE: Final = "expires"
