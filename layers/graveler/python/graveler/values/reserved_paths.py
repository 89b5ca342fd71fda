"""Reserved paths: those below which a lake keeps the entries of tables, which no verb for objects may change."""

from collections.abc import Iterable
from typing import Final

from graveler.errors import ForbiddenError, sentence

RESERVED: Final = b"_iceberg/"
"""The beginning of every key that is part of a table, a view or a namespace. Data tools hide names with an underscore."""


_TABLE: Final = b".table"
FILES: Final = RESERVED + b".files/"
"""The beginning of the keys of tables' files."""
END: Final = b"_iceberg0"
"""The first key behind them."""


@sentence("{path!r} is part of an Iceberg table; change tables through the catalog of the branch (docs/iceberg.md)")
class TablePathError(ForbiddenError):
    """A verb for objects would change an entry or a file of a table, a view or a namespace."""

    path: str


def is_table(key: bytes) -> bool:
    """Return whether a key is the entry of a table."""
    return key.startswith(RESERVED) and key.endswith(_TABLE) and not key.startswith(FILES)


def expect_free(keys: Iterable[bytes]) -> None:
    """Raise :class:`TablePathError` if one of these keys is part of a table, a view or a namespace."""
    for key in keys:
        if key.startswith(RESERVED):
            raise TablePathError(key.decode())
