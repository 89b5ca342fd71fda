"""Exceptions as a code and fields, for the wire and for stored operations; and back.

A class that declares a ``code`` crosses as itself; any other crosses as its nearest ancestor that does. Its fields are the
annotations without a value in its body and in those of its ancestors. Sentences are for people: no program reads them.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, get_type_hints

import msgspec

from graveler import errors, model
from graveler.errors import GravelerError, field_types

ELSEWHERE: Final[Mapping[str, str]] = {
    "graveler.access.refusals": "AuthenticationError IdentityRefusedError NotPermittedError TooManyFailuresError "
    "SourceNotAllowedError OthersNamespaceError PrincipalRuleNotFoundError KeyNotFoundError",
    "graveler.lake.importing.listing_files": "ListingError",
    "graveler.lake.pulls.pull_errors": "PullRequestNotFoundError PullRequestEndedError OwnApprovalError",
    "graveler.operations.work": "CancelledError",
}
"""Classes with a code that modules other than :mod:`graveler.errors` declare, by module; a test compares it with the code."""


def code_of(error: GravelerError) -> str:
    """Return the code under which an error crosses the wire."""
    return _wire_class(type(error)).code


def fields_of(error: GravelerError) -> dict[str, Any]:
    """Return the fields of an error as JSON values."""
    types = field_types(_wire_class(type(error)))
    return {name: msgspec.to_builtins(getattr(error, name)) for name in types}


def rebuild(code: str, fields: Mapping[str, Any], sentence: str) -> GravelerError | None:
    """Return the exception for a code, with its fields and the message ``sentence``; None for a code that this version does not
    know. A field that is missing, or has another type than here, is blank."""
    kind = _class_of(code)
    return None if kind is None else make(kind, fields, sentence)


def make(kind: type[GravelerError], fields: Mapping[str, Any], sentence: str) -> GravelerError:
    """Return an exception of this class with these fields, as of JSON, and the message ``sentence``."""
    error = kind.__new__(kind)
    error.args = (sentence,)
    for name, annotation in _types(kind).items():
        setattr(error, name, _convert(fields.get(name), annotation))
    return error


def _types(kind: type[GravelerError]) -> dict[str, Any]:
    """Return the types of the fields that travel with an error."""
    types = get_type_hints(kind, localns=vars(model))
    return {name: types[name] for name in field_types(kind)}


def _convert(value: Any, annotation: Any) -> Any:
    for candidate in (value, None, "", 0, ()):
        try:
            return msgspec.convert(candidate, annotation)
        except msgspec.ValidationError:
            continue
    raise AssertionError(f"no blank value is a {annotation}")


def _wire_class(kind: type[GravelerError]) -> type[GravelerError]:
    return next(base for base in kind.__mro__ if "code" in base.__dict__)


@cache
def _class_of(code: str) -> type[GravelerError] | None:
    return next((kind for kind in _classes() if kind.code == code), None)


def _classes() -> Iterator[type[GravelerError]]:
    """Yield all classes with a code of their own; those elsewhere are loaded only if the code is none of the usual ones."""
    yield from (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GravelerError))
    for module, names in ELSEWHERE.items():
        classes = vars(import_module(module))
        yield from (classes[name] for name in names.split())
