"""Errors on the wire: the words that published clients compare, the lake's own sentence, and a code and fields for programs."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from graveler.errors import GravelerError
from graveler.values.error_codes import code_of, fields_of

UNEXPECTED_CODE: Final = "unexpected"
"""A bug, or a status about which nothing more is known."""
NOT_IMPLEMENTED_CODE: Final = "not_implemented"
NO_COMMON_HISTORY_CODE: Final = "no_common_history"
"""Two refs have no common ancestor."""
NO_RULES_CODE: Final = "retention_rules_not_found"
"""The repository has no retention rules."""
UNKNOWN_ROUTE_CODE: Final = "unknown_route"
"""No route has this method and path: the server is older than its client, or the path is wrong."""


class Error(Struct, frozen=True, omit_defaults=True):
    """An error. ``message`` is the text that published clients compare, ``detail`` graveler's own explanation and advice;
    ``code`` and ``fields`` are for programs. If clients compare no text, ``message`` has the explanation, and ``detail`` is
    empty."""

    message: str = ""
    detail: str = ""
    code: str = ""
    fields: Mapping[str, Any] = {}

    @property
    def sentence(self) -> str:
        """The sentence to show to people."""
        return self.detail or self.message


class ObjectError(Struct, frozen=True):
    """The error for one of many objects, which the request left unchanged."""

    status_code: int
    message: str
    path: str = ""
    code: str = ""
    fields: Mapping[str, Any] = {}


def document(error: GravelerError, words: str = "") -> Error:
    """Return an error as a document; ``words`` are those that published clients compare, if any."""
    sentence = str(error)
    code, fields = code_of(error), fields_of(error)
    return Error(words, sentence, code, fields) if words else Error(sentence, "", code, fields)
