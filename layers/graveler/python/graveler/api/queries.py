"""Query parameters: conversion of ``a=1&b=x`` to a typed value.

A route's parameters are a subclass of :class:`Query`. Parsing is lenient: ``a=`` means that ``a`` is absent, booleans have any
spelling, a parameter whose type is a tuple may repeat. Unknown parameters are ignored.
"""

from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, cast, get_args
from urllib.parse import unquote_plus

import msgspec
from msgspec import Meta

from graveler.api.errors import bad_request
from graveler.model import RefDetail, RefSelection
from graveler.wire.request_shapes import RequestShape

DEFAULT_AMOUNT: Final = 100
MAX_AMOUNT: Final = 1000

Amount = Annotated[int, Meta(ge=-1, le=MAX_AMOUNT, description="maximum number of results; 0 and -1 mean 100")]
Seconds = Annotated[float, Meta(gt=0, le=20)]
RequiredText = Annotated[str, Meta(min_length=1)]
"""A required text: give it no default."""

_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "true"), "true"),
    **dict.fromkeys(("0", "f", "false"), "false"),
}


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parameters of a route."""

    _booleans: ClassVar[frozenset[str]] = frozenset()
    _lists: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kinds: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            kinds.update(getattr(base, "__annotations__", {}))
        cls._booleans = frozenset(name for name, kind in kinds.items() if kind is bool)
        cls._lists = frozenset(name for name, kind in kinds.items() if getattr(kind, "__origin__", None) is tuple)


class AmountQuery(Query, frozen=True, kw_only=True):
    """The number of results."""

    amount: Amount = DEFAULT_AMOUNT

    @property
    def limit(self) -> int:
        """The number of results per page."""
        return self.amount if self.amount > 0 else DEFAULT_AMOUNT


class AfterQuery(AmountQuery, frozen=True, kw_only=True):
    """The position and size of a page."""

    after: Annotated[str, Meta(description="only results after this: the `next_offset` of the previous page")] = ""


class PageQuery(AfterQuery, frozen=True, kw_only=True):
    """The page of a listing by name."""

    prefix: Annotated[str, Meta(description="only results that start with this")] = ""


class RefsQuery(PageQuery, frozen=True, kw_only=True):
    """The branches or tags to list, and the details of each."""

    details: Annotated[
        str,
        Meta(
            description="some of `commit`, `counts`, `uncommitted`, with commas between them: the last commit, the distance from "
            "`base`, whether anything is staged"
        ),
    ] = ""
    base: Annotated[
        str, Meta(description="any ref, from which `counts` are counted; the default branch, if there is none")
    ] = ""
    sort: Annotated[
        Literal["name", "updated"],
        Meta(
            description="`updated`: the one with the newest commit first; each page reads all with the prefix, at most 10,000"
        ),
    ] = "name"

    @property
    def selection(self) -> RefSelection:
        """The refs that the request names. :class:`ApiError` for a detail that there is not."""
        details = cast(tuple[RefDetail, ...], tuple(chosen_names("details", self.details, get_args(RefDetail))))
        return RefSelection(
            details=details,
            base=self.base,
            by_update=self.sort == "updated",
            prefix=self.prefix,
            after=self.after,
            amount=self.limit,
        )


class ForceQuery(Query, frozen=True, kw_only=True):
    """``force``: also if the repository is read-only."""

    force: bool = False


Q = TypeVar("Q", bound=Query)


def query_of(shape: RequestShape[Any]) -> type[Query]:
    """Return the query of a request: its ``force`` first, then the other fields, where an empty text means None."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, field in shape.query.items():
        if name == "force":
            continue
        if field.is_required:
            fields.append((name, RequiredText))
        else:
            fields.append((name, str, "") if field.default is None else (name, field.type, field.default))
    base = ForceQuery if "force" in shape.query else Query
    name = f"{shape.kind.__name__}Query"
    return cast(type[Query], msgspec.defstruct(name, fields, bases=(base,), frozen=True, kw_only=True))


def chosen_names(parameter: str, text: str, names: Collection[str]) -> list[str]:
    """Return the names in a parameter's text, between commas. :class:`ApiError` for one that is not among ``names``."""
    chosen = [name.strip() for name in text.split(",")] if text else []
    for name in chosen:
        if name not in names:
            raise bad_request(
                f"query parameter {parameter}: there is no {name[:80]!r} here; name some of {', '.join(names)}"
            )
    return chosen


def split_query(raw: str) -> list[tuple[str, str]]:
    """Return the decoded names and values of a raw query string, in order, without those that have no value. 400 if it is not
    UTF-8."""
    if not raw:
        return []
    pairs = []
    for part in raw.split("&"):
        name, _, value = part.partition("=")
        if not value:
            continue
        pairs.append((_decoded(name), _decoded(value)))
    return pairs


def read_query(kind: type[Q], pairs: list[tuple[str, str]]) -> Q:
    """Return the parameters as a value of their type. A 400 names the wrong parameter, and why."""
    values: dict[str, str | list[str]] = {}
    for name, value in pairs:
        if name in kind._booleans:
            values[name] = _BOOLEANS.get(value.lower(), value)
        elif name in kind._lists:
            listed = values.setdefault(name, [])
            if isinstance(listed, list):
                listed.append(value)
        else:
            values[name] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise bad_request(f"query parameter: {error}") from None


def _decoded(text: str) -> str:
    if "%" not in text and "+" not in text:
        return text
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise bad_request(f"query string: {text[:200]!r} is not UTF-8 after percent-decoding") from None
