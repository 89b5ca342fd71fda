"""Mapping between the API's documents and the lake's requests and values: fields of the same name map by themselves.

A field that the API names otherwise has the request's name in Python, and the API's by ``msgspec.field(name=...)``.
"""

from collections.abc import Collection
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

S = TypeVar("S", bound=Struct)


def mapped(kind: type[S], source: Struct, **given: object) -> S:
    """Return the value that has the fields of ``source``, except for those that are ``given``."""
    return kind(**_fields(kind, source, without=given) | given)


def request_of(kind: type[S], document: Struct, **given: object) -> S:
    """Return the request that a document asks for. ``given`` are fields that do not come from the document, or not as they are
    there; a field that is null in the document, or not in it, has the request's default. ``force`` has to be given, since only an
    admin's counts."""
    return kind(**_fields(kind, document, without={"force", *given}, nulls=False) | given)


def document_of(kind: type[S], request: Struct, **given: object) -> S:
    """Return the document that asks for a request: the reverse of :func:`request_of`. Fields that the request does not have
    itself come from its ``info``."""
    info: Struct | None = getattr(request, "info", None)
    fields = {} if info is None else _fields(kind, info, without=given)
    return kind(**fields | _fields(kind, request, without=given) | given)


def _fields(kind: type[Struct], source: Struct, without: Collection[str], *, nulls: bool = True) -> dict[str, Any]:
    """Return the fields of ``kind`` that ``source`` has too, with values of the types that ``kind`` wants."""
    return {
        name: msgspec.convert(value, wanted, from_attributes=True)
        for name, wanted in _shared(type(source), kind)
        if name not in without and ((value := getattr(source, name)) is not None or nulls)
    }


@cache
def _shared(source: type[Struct], goal: type[Struct]) -> tuple[tuple[str, Any], ...]:
    """Return the fields of ``goal`` that ``source`` has too, with their types."""
    there = set(source.__struct_fields__)
    return tuple((field.name, field.type) for field in msgspec.structs.fields(goal) if field.name in there)
