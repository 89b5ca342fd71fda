"""Spark's errors, translated for people: the cause, if it is one of graveler's errors, else Spark's own first sentence."""

import builtins
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

import graveler.errors
from graveler.errors import GravelerError, InvalidError, NotFoundError, UnavailableError

_OURS: Final = re.compile(r"^graveler(?:\.\w+)*\.(\w+Error): (.*)$", re.MULTILINE)
"""The last line of a task's traceback, if the error is graveler's."""
_TRACEBACK: Final = re.compile(
    r"^Traceback \(most recent call last\):\n((?:[ \t].*\n)+)([A-Za-z_][\w.]*)(?:: (.*))?$", re.MULTILINE
)
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+), in (.*)$', re.MULTILINE)
_DATA: Final = re.compile(r"(\[[A-Z_.]+\] [^\[]*?) SQLSTATE: (?:2[123]|42|P0)\w{3}\b")
"""Spark's report of a wrong value or expression, by the class of its SQLSTATE: a retry would fail again."""
_CONDITIONS: Final = {"PATH_NOT_FOUND": NotFoundError, "TABLE_OR_VIEW_NOT_FOUND": NotFoundError}
_ADVICE: Final = "Check that s3a's credentials are the right ones, still valid, and allowed to do it"
_CAUSE: Final = re.compile(r"^(?:Caused by: )?[\w.$]+(?:Exception|Error): (.*)$", re.MULTILINE)
_S3A: Final = re.compile(r"(\w[\w ]* on \S+): software\.amazon\.awssdk\S+Exception: (.*?) \(Service: [^\n]*\):(\w+)")
"""s3a's report of its operation and object, S3's message, and S3's code."""


@contextmanager
def spark_errors(doing: str) -> Iterator[None]:
    """Translate what Spark raises in the block into graveler's errors. ``doing`` names the activity: "importing to 'main'"."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise explained(doing, error) from error


def explained(doing: str, error: Exception) -> GravelerError:
    """Return graveler's error for one of Spark's: with the class and message that a task raised; :class:`NotFoundError` and
    :class:`InvalidError` for an invalid plan, a value that an expression does not accept, and errors of user functions; otherwise
    :class:`UnavailableError`."""
    text = str(error)
    matches = list(_OURS.finditer(text))
    if matches:
        name, message = matches[-1].groups()
        return _kind(name)(message.strip())
    if isinstance(error, PySparkException) and not isinstance(error, Py4JJavaError):
        condition = (_condition(error) or "").partition(".")[0]
        if condition in _CONDITIONS:
            return _CONDITIONS[condition](f"{doing}: {_sentence(text)}")
        if type(error).__name__ in ("AnalysisException", "ParseException", "IllegalArgumentException"):
            return InvalidError(f"{doing}: {_sentence(text)}")
    refused = _S3A.search(text)
    if refused:
        did, message, code = refused.groups()
        return UnavailableError(f"{doing}: Spark's job failed: {did}: S3 refused it ({code}: {message}). {_ADVICE}")
    if (users := _users_error(text)) is not None:
        kind, message = users
        return kind(f"{doing}: {message}")
    causes = [cause for cause in _CAUSE.findall(text) if cause]
    return UnavailableError(f"{doing}: Spark's job failed: {_sentence(causes[-1] if causes else text)}")


def _users_error(text: str) -> tuple[type[GravelerError], str] | None:
    """Return what a user's function or expression raised in a task, and where; None if it was neither."""
    for frames, name, message in reversed(_TRACEBACK.findall(text)):
        file, line, function = _FRAME.findall(frames)[-1]
        if "/graveler/" in file or "/pyspark/" in file:
            continue
        raised = getattr(builtins, name, None)
        lasting = isinstance(raised, type) and not issubclass(raised, OSError | MemoryError)
        reason = f"a function of the job raised {name}{f': {message}' if message else ''} ({file}, line {line}, in {function})"
        return InvalidError if lasting else UnavailableError, reason
    wrong = _DATA.findall(text)
    return (InvalidError, " ".join(wrong[-1].split())) if wrong else None


def _condition(error: PySparkException) -> str | None:
    """Return its condition name, for Spark 4.0 and 3.5."""
    return error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()


def _kind(name: str) -> type[GravelerError]:
    """Return the class of an error; for one with its own arguments, the nearest base class that takes only a message."""
    kind = getattr(graveler.errors, name, UnavailableError)
    while kind.__init__ is not Exception.__init__ and GravelerError in kind.__mro__[1:]:
        kind = kind.__mro__[1]
    return kind if issubclass(kind, GravelerError) else UnavailableError


def _sentence(text: str) -> str:
    """Return the first line with content, without Spark's frames."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else "no reason given")[:500]
