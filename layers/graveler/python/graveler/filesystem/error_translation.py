"""The lake's errors as the exceptions that programs expect of files."""

import errno
from collections.abc import Callable
from types import TracebackType
from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    CorruptError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from graveler.storage.objects.port import NotPermittedError
from graveler.system.tracebacks import are_short, shortened

_NUMBERS: Final[tuple[tuple[type[GravelerError], int], ...]] = (
    (NotFoundError, errno.ENOENT),
    (AlreadyExistsError, errno.EEXIST),
    (ForbiddenError, errno.EACCES),
    (NotPermittedError, errno.EACCES),
    (BusyError, errno.EBUSY),
    (CorruptError, errno.EIO),
    (UnavailableError, errno.EIO),
)
"""The number of each class, from which Python chooses ``FileNotFoundError``, ``PermissionError`` and so on. The first that
matches counts."""


def as_os_error(error: GravelerError, path: str) -> Exception:
    """Return Python's own exception for an error: an ``OSError`` of the right class, ``ValueError`` for an invalid argument. A
    conflict, or a condition that does not hold, has none: the error itself."""
    for kind, number in _NUMBERS:
        if isinstance(error, kind):
            return OSError(number, str(error), path)
    return ValueError(f"{error}: {path!r}") if isinstance(error, InvalidError) else error


class translating_lake_errors:  # noqa: N801 - used like a function
    """A block whose errors of the lake are raised as those of files; the original is the ``__cause__``, with a traceback as short
    as :func:`shortened` makes it. ``note`` returns the error to raise for one. (A generator as context manager takes three times
    as long, and each open has such a block.)"""

    __slots__ = ("_note", "_path")

    def __init__(self, path: str, note: Callable[[GravelerError], GravelerError] | None = None) -> None:
        self._path = path
        self._note = note

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, GravelerError):
            if self._note is not None:
                error = self._note(error)
            __tracebackhide__ = are_short()
            raise as_os_error(error, self._path) from shortened(error)
