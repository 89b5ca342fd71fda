"""Mapping between the API's documents and the lake's values: fields of the same name map by themselves."""

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

S = TypeVar("S", bound=Struct)


def mapped(kind: type[S], source: Struct, **fields: object) -> S:
    """Return the value that has these ``fields``, and all others from ``source``."""
    shared = {
        name: msgspec.convert(getattr(source, name), type_, from_attributes=True)
        for name, type_ in _shared(type(source), kind)
        if name not in fields
    }
    return kind(**shared | fields)


@cache
def _shared(source: type[Struct], kind: type[Struct]) -> tuple[tuple[str, Any], ...]:
    """Return the fields of ``kind`` that ``source`` has too, with their types."""
    names = set(source.__struct_fields__)
    return tuple((field.name, field.type) for field in msgspec.structs.fields(kind) if field.name in names)
