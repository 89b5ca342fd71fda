"""Mapping between the API's documents and the lake's requests: fields of the same name map by themselves.

A field that the API names otherwise has the request's name in Python, and the API's by ``msgspec.field(name=...)``.
"""

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

S = TypeVar("S", bound=Struct)


def request_of(kind: type[S], document: Struct, **given: object) -> S:
    """Return the request that a document asks for. ``given`` are fields that do not come from the document, or not as they are
    there; a field that is null in the document, or not in it, has the request's default. ``force`` has to be given, since only an
    admin's counts."""
    for name, wanted in _shared(type(document), kind):
        if name != "force" and name not in given and (value := getattr(document, name)) is not None:
            given[name] = msgspec.convert(value, wanted, from_attributes=True)
    return kind(**given)


def document_of(kind: type[S], request: Struct, **given: object) -> S:
    """Return the document that asks for a request: the reverse of :func:`request_of`. Fields that the request does not have
    itself come from its ``info``."""
    info: Struct | None = getattr(request, "info", None)
    for source in (request, info):
        if source is not None:
            for name, wanted in _shared(type(source), kind):
                if name not in given:
                    given[name] = msgspec.convert(getattr(source, name), wanted, from_attributes=True)
    return kind(**given)


@cache
def _shared(source: type[Struct], goal: type[Struct]) -> tuple[tuple[str, Any], ...]:
    """The fields of ``goal`` that ``source`` has too, with their types."""
    there = set(source.__struct_fields__)
    return tuple((field.name, field.type) for field in msgspec.structs.fields(goal) if field.name in there)
