"""Names of files that a query reads: quoted texts in the place of a table, and in the first argument of a reader function."""

import re
from collections.abc import Iterator
from typing import Final

from graveler.sql.calls import tokens_of

_READER: Final = re.compile(r"read_\w+|parquet_\w+|sniff_csv", re.IGNORECASE)
_NAMES: Final = frozenset({"STRING", "IDENTIFIER"})
"""Tokens that may be the name of a file."""


def files_read(query: str) -> Iterator[str]:
    """Yield the names of files that a query reads, and patterns of such names. Those that it writes are not among them. A text
    that is not SQL has none."""
    from sqlglot.errors import TokenError

    try:
        tokens = tokens_of(query)
    except TokenError:
        return
    kinds = [token.token_type.name for token in tokens]
    for index, token in enumerate(tokens):
        previous = kinds[index - 1] if index else ""
        if kinds[index] in _NAMES and previous in ("FROM", "JOIN"):
            yield token.text
        elif previous == "L_PAREN" and index > 1 and _READER.fullmatch(tokens[index - 2].text):
            if kinds[index] == "STRING":
                yield token.text
            elif kinds[index] == "L_BRACKET":
                end = next((close for close in range(index, len(kinds)) if kinds[close] == "R_BRACKET"), len(kinds))
                yield from (inner.text for inner in tokens[index:end] if inner.token_type.name == "STRING")
