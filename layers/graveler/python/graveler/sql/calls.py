"""Calls of the lake's table functions in a query's text, and the text with the names of views in their places.

The text is changed only there, so all else means what DuckDB says, even what sqlglot does not know. Where sqlglot cannot parse
the query, the calls are found all the same, and only the key ranges are missing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from logging import ERROR, getLogger
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.tree.key_range import KeyRange

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token
    from sqlglot.tokens import Tokenizer

ARGUMENTS: Final = {
    "objects": ("'REPOSITORY/REF'",),
    "diff": ("'REPOSITORY'", "'REF'", "'REF'"),
    "staged": ("'REPOSITORY/BRANCH'",),
    "blame": ("'REPOSITORY/REF'",),
    "commits": ("'REPOSITORY/REF'",),
    "reflog": ("'REPOSITORY/BRANCH'",),
    "branches": ("'REPOSITORY'",),
    "tags": ("'REPOSITORY'",),
    "repositories": (),
}
"""The table functions, and what each takes."""

_CALL: Final = re.compile(rf"\b({'|'.join(ARGUMENTS)})\s*(\(|/\*|--)", re.IGNORECASE)
_BEFORE: Final = frozenset({"FROM", "JOIN", "COMMA", "L_PAREN", "LATERAL", "PIVOT", "UNPIVOT", "USING", "COLON"})
"""Tokens after which a table may stand."""


class Call(Struct, frozen=True):
    """A call of ``function`` from ``start`` up to, not including, ``end`` in the text; ``keys`` limits the paths it needs. The
    view in its place is called as the function, unless it ``has_alias`` in the text."""

    function: str
    arguments: tuple[str, ...]
    start: int
    end: int
    view: str
    has_alias: bool = False
    keys: tuple[KeyRange, ...] = (KeyRange(),)


class Rewritten(Struct, frozen=True):
    """A query that names a view in the place of each call."""

    text: str
    calls: tuple[Call, ...]


def rewritten(query: str, parses: Callable[[str], bool], *, narrowed: bool = True, number: int = 0) -> Rewritten:
    """Return a statement with a view in the place of each call of a table function. The names of the views have numbers from
    ``number`` on. ``parses`` says whether DuckDB takes a text for SQL. Without ``narrowed``, no call has key ranges.
    A query without any call takes 1 µs; sqlglot is not imported for it. :class:`InvalidError` for arguments that a function
    does not take."""
    if not _CALL.search(query):
        return Rewritten(query, ())
    calls = tuple(replace(call, has_alias=not parses(_replaced(query, [call]))) for call in _calls(query, number))
    if calls:
        calls = _placed(_replaced(query, calls), calls, narrowed=narrowed)
    return Rewritten(_replaced(query, calls), calls)


def _calls(query: str, number: int) -> Iterator[Call]:
    from sqlglot.errors import TokenError
    from sqlglot.tokenizer_core import TokenType

    try:
        tokens = tokens_of(query)
    except TokenError:
        return  # DuckDB will say what is wrong
    for index, token in enumerate(tokens[:-1]):
        name = token.text.lower()
        if name not in ARGUMENTS or tokens[index + 1].token_type is not TokenType.L_PAREN or token.text.startswith('"'):
            continue
        if index and tokens[index - 1].token_type.name not in _BEFORE:
            continue
        arguments: list[str] = []
        close = index + 2
        while close < len(tokens) and tokens[close].token_type is not TokenType.R_PAREN:
            inside = tokens[close]
            if inside.token_type is TokenType.STRING:
                arguments.append(inside.text)
            elif inside.token_type is not TokenType.COMMA:
                raise InvalidError(
                    f"{query[token.start : inside.end + 1]}…: the arguments of {name} are texts in quotes; "
                    f"write {_usage(name)}"
                )
            close += 1
        if close == len(tokens):
            return
        end = tokens[close].end + 1
        if len(arguments) != len(ARGUMENTS[name]):
            raise InvalidError(f"{query[token.start : end]}: write {_usage(name)}")
        yield Call(name, tuple(arguments), token.start, end, f"graveler_{name}_{number}")
        number += 1


def tokens_of(query: str) -> "Sequence[Token]":
    """Return the tokens of a text of SQL. ``sqlglot.errors.TokenError`` for one that has none."""
    from sqlglot.dialects.duckdb import DuckDB

    return _tokenizer()(dialect=DuckDB()).tokenize(query)


@cache
def _tokenizer() -> "type[Tokenizer]":
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.tokenizer_core import TokenType

    class Whole(DuckDB.Tokenizer):
        """Also takes apart what comes after EXPLAIN, PREPARE and others."""

        COMMANDS: ClassVar[set[TokenType]] = set()

    return Whole


def _usage(name: str) -> str:
    return f"{name}({', '.join(ARGUMENTS[name])})"


def _replaced(query: str, calls: Sequence[Call]) -> str:
    parts: list[str] = []
    position = 0
    for call in calls:
        parts += query[position : call.start], call.view, "" if call.has_alias else f" AS {call.function}"
        position = call.end
    return "".join((*parts, query[position:]))


def _placed(text: str, calls: Sequence[Call], *, narrowed: bool) -> tuple[Call, ...]:
    """Return those calls that stand where a table does, with the key ranges that the query, ``text``, has for them."""
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    from graveler.sql.pushdown import key_ranges_of

    logger = getLogger("sqlglot")
    level = logger.level
    logger.setLevel(ERROR)  # it would warn of what it does not know
    try:
        statements = parse(text, dialect="duckdb")
    except SqlglotError:
        return tuple(calls)
    finally:
        logger.setLevel(level)
    for statement in statements:
        if isinstance(statement, exp.Command):
            return tuple(calls)  # of EXPLAIN and PREPARE, for example, sqlglot knows only the text
        if isinstance(statement, exp.Create) and statement.kind != "TABLE":
            narrowed = False  # another collation may be set when it is read, and a macro's "path" may be its parameter
    tables = {
        table.name: table
        for statement in statements
        if statement is not None
        for table in statement.find_all(exp.Table)
    }
    return tuple(
        replace(call, keys=key_ranges_of(tables[call.view])) if narrowed else call
        for call in calls
        if call.view in tables
    )
