"""From a refusal of the API (status and message) to the exception that the verb raises on a lake of one's own.

The messages are, or with an older server begin with, words that clients match (``docs/api.md``); the lake's own sentence stands
beside them, or follows. That is what is shown.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    AnswerLostError,
    BusyError,
    BytesGoneError,
    ConflictError,
    CorruptError,
    DamagedObjectError,
    DirtyBranchError,
    ExpiredCommitError,
    ForbiddenError,
    GoneError,
    GravelerError,
    InvalidError,
    NoChangesError,
    NotCommittedError,
    NotFoundError,
    ObjectNotFoundError,
    ParentNotFoundError,
    PreconditionError,
    ProtectedBranchError,
    ReadOnlyRepositoryError,
    RefNotFoundError,
    RepositoryNotFoundError,
    TouchedError,
    UnavailableError,
)
from graveler.remote.answers import Said

_NAME: Final = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
"""A text as ``repr`` writes it, which is how messages name things."""
_REF: Final = re.compile(rf"ref {_NAME} not found")
_OBJECT: Final = re.compile(rf"object {_NAME} does not exist in {_NAME}$")
_UNCOMMITTED: Final = re.compile(rf"object {_NAME} is an uncommitted change of {_NAME}")
_REPOSITORY: Final = re.compile(rf"repository {_NAME} does not exist")
_TAKEN: Final = re.compile(rf"(\w+) {_NAME} already exists")
_DIRTY: Final = re.compile(rf"branch {_NAME} has uncommitted changes(?: where .*? would change the same \({_NAME}\),)?")
_TOUCHED: Final = re.compile(rf"merging {_NAME} into {_NAME}: somebody changed objects below {_NAME} in ")
_EXPIRED: Final = re.compile(r"commit (\w+) has expired")
_BYTES_GONE: Final = re.compile(rf"the bytes of object {_NAME} of {_NAME} are gone: nothing is at (.*) any more; ")
_DAMAGED: Final = re.compile(
    rf"the bytes of {_NAME} are not those that {_NAME} noted: (.*) has (.*?), noted were (.*?)\. "
)
_PROTECTED: Final = re.compile(rf"branch {_NAME} is protected by the pattern {_NAME}: ")
_READ_ONLY: Final = re.compile(rf"repository {_NAME} is read-only, ")
_UNEXPECTED: Final = "unexpected error"
_UNKNOWN: Final = "error authenticating request"
UNKNOWN_OUTCOME: Final = "the outcome is unknown"
UNKNOWN_ROUTE: Final = "invalid API endpoint"

_WORDS: Final[Mapping[int, tuple[str, ...]]] = {
    400: ("commit: no changes", "no changes", "uncommitted changes (dirty branch)", "invalid ref"),
    404: ("repository not found", "not found"),
    409: (
        "error creating repository: not unique",
        "branch already exists: not unique",
        "tag already exists: not unique",
        "already exists",
        "conflict found",
        "conflict",
    ),
    410: ("gone",),
    412: ("path already exists", "precondition failed"),
    429: ("too many tries",),
}
"""By status, what messages begin with: a sentence follows behind a colon, or in parentheses."""


def refusal(status: int, said: Said, what: str) -> GravelerError:
    """The error that an answer with this status means; ``what`` names the request where the answer says nothing."""
    words, sentence = (said.message, said.detail) if said.detail else _split(status, said.message)
    text = sentence or f"{what}: the server answered {status}"
    make = _BY_STATUS.get(status)
    if make is not None:
        return make(words, text)
    if status >= 500:
        return UnavailableError(f"{text} (status {status})")
    return InvalidError(f"{text} (status {status})")


def _split(status: int, message: str) -> tuple[str, str]:
    for words in _WORDS.get(status, ()):
        if message.startswith(words):
            rest = message.removeprefix(words)
            if rest.startswith(": "):
                return words, rest[2:]
            if rest.startswith(" (") and rest.endswith(")"):
                return words, rest[2:-1]
            return words, message
    return "", message


def _with(error: GravelerError, text: str) -> GravelerError:
    """The error, saying ``text``."""
    error.args = (text,)
    return error


def _read(name: str) -> str:
    """What a message names: the text whose ``repr`` this is."""
    if "\\" not in name:
        return name[1:-1]
    from ast import literal_eval  # few names have such characters

    return str(literal_eval(name))


def _invalid(words: str, text: str) -> GravelerError:
    if words.endswith("no changes"):
        return NoChangesError(text)
    if words == "invalid ref":
        found = _REF.search(text)
        return _with(ParentNotFoundError(_read(found[1]) if found else ""), text)
    if words:
        found = _DIRTY.search(text)
        branch, path = (_read(found[1]), _read(found[2] or "")) if found else ("", "")
        return _with(DirtyBranchError(branch, "", path), text)
    return InvalidError(text)


def _unauthorized(_: str, text: str) -> GravelerError:
    if text == _UNKNOWN:
        text += (
            ": the server does not take this access key with this secret, or this token, or not any more; "
            "give GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY of a live one, or log in again"
        )
    return ForbiddenError(text)


def _forbidden(_: str, text: str) -> GravelerError:
    if found := _PROTECTED.match(text):
        return _with(ProtectedBranchError(_read(found[1]), _read(found[2])), text)
    if found := _READ_ONLY.match(text):
        return _with(ReadOnlyRepositoryError(_read(found[1])), text)
    return ForbiddenError(text)


def _not_found(words: str, text: str) -> GravelerError:
    if words == "repository not found":
        found = _REPOSITORY.search(text)
        return _with(RepositoryNotFoundError(_read(found[1]) if found else ""), text)
    if found := _REF.match(text):
        return _with(RefNotFoundError(_read(found[1])), text)
    if found := _UNCOMMITTED.match(text):
        return _with(NotCommittedError(_read(found[1]), _read(found[2])), text)
    if found := _OBJECT.match(text):
        return _with(ObjectNotFoundError(_read(found[1]), _read(found[2])), text)
    return NotFoundError(text)


def _conflict(_: str, text: str) -> GravelerError:
    found = _TAKEN.match(text)
    if found is not None:
        return _with(AlreadyExistsError(found[1], _read(found[2])), text)
    found = _TOUCHED.match(text)
    if found is not None:
        return _with(TouchedError(*map(_read, found.groups())), text)
    return ConflictError(text)


def _gone(_: str, text: str) -> GravelerError:
    if found := _EXPIRED.match(text):
        return _with(ExpiredCommitError(found[1]), text)
    if found := _BYTES_GONE.match(text):
        return _with(BytesGoneError(_read(found[1]), _read(found[2]), found[3]), text)
    return GoneError(text)


def _precondition(words: str, text: str) -> GravelerError:
    return _conflict(words, text) if words == "path already exists" else PreconditionError(text)


def _corrupt(_: str, text: str) -> GravelerError:
    found = _DAMAGED.match(text)
    if found is not None:
        path, ref, address, has, noted = found.groups()
        return _with(DamagedObjectError(_read(path), _read(ref), address, noted, has), text)
    return UnavailableError(text) if text.startswith(_UNEXPECTED) else CorruptError(text)


_BY_STATUS: Final[Mapping[int, Callable[[str, str], GravelerError]]] = {
    400: _invalid,
    401: _unauthorized,
    403: _forbidden,
    404: _not_found,
    409: _conflict,
    410: _gone,
    412: _precondition,
    429: lambda _, text: BusyError(text),
    500: _corrupt,
    501: lambda _, text: InvalidError(text),
    503: lambda words, text: (AnswerLostError if words == UNKNOWN_OUTCOME else UnavailableError)(text),
}
