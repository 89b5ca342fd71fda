"""The fields of a request as interfaces see them: name, type, default and help."""

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import NODEFAULT, Struct

from graveler.requests.base import Field, Request

_UNNAMED = Field()


class RequestField(Struct, frozen=True):
    """A field of a request. ``type`` is its type without annotations; ``default`` is ``msgspec.NODEFAULT`` if the field is
    required."""

    name: str
    type: Any
    default: Any
    words: Field

    @property
    def is_required(self) -> bool:
        """True if the field has no default."""
        return self.default is NODEFAULT

    @property
    def wire(self) -> str:
        """The name in the HTTP API."""
        return self.words.wire or self.name

    @property
    def option(self) -> str:
        """The name of the command-line option."""
        return self.words.option or f"--{self.name.replace('_', '-')}"


@cache
def fields_of(kind: type[Request[Any]]) -> Mapping[str, RequestField]:
    """Return the fields of a request by name, in the order of their declaration."""
    fields = {}
    for field in msgspec.structs.fields(kind):
        bare, *notes = get_args(field.type) if hasattr(field.type, "__metadata__") else (field.type,)
        words = next((note for note in notes if isinstance(note, Field)), _UNNAMED)
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        fields[field.name] = RequestField(field.name, bare, default, words)
    return fields
