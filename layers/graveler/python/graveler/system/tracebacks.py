"""Short tracebacks: an error of the lake shows where it was called, and not the fourteen frames below.

A method of the Python API raises such an error anew, without the frames between it and the place that found the error. What is
left is the caller's line and one frame of ours; cause and context stay. That frame has a local variable ``__tracebackhide__``, so
that pytest and notebooks leave it out, and show the caller's line alone. With GRAVELER_TRACEBACK=full all frames stay.

Until an error comes, this costs one call more (0.2 µs) in methods that make requests, and nothing in :meth:`StoredObject.stat`,
of which the others take several times as long.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from types import FunctionType, TracebackType
from typing import Final, Generic, ParamSpec, TypeVar

from graveler.errors import GravelerError

VARIABLE: Final = "GRAVELER_TRACEBACK"
FULL: Final = "full"

P = ParamSpec("P")
T = TypeVar("T")

_SPECIAL: Final = frozenset(("__enter__", "__exit__"))


def are_short() -> bool:
    """Return whether tracebacks are short: the environment does not ask for all frames."""
    return os.environ.get(VARIABLE) != FULL


def shortened(error: GravelerError) -> GravelerError:
    """Return an error, to be raised anew, without the frames that it has passed; with all, if the environment asks for them."""
    return error.with_traceback(None) if are_short() else error


def short_traceback(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function whose errors of the lake have one frame below the caller's."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except GravelerError as error:
            __tracebackhide__ = are_short()
            raise shortened(error)  # noqa: B904 - the same error

    if isinstance(function, FunctionType) and isinstance(call, FunctionType):
        call.__code__ = call.__code__.replace(co_name=function.__name__)  # tracebacks show this name
    return call


def short_tracebacks(*plain: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator that gives all public methods of a class a :func:`short_traceback`, but those with the names ``plain``,
    which make no request, or call :func:`shortened` themselves."""

    def decorate(cls: type[T]) -> type[T]:
        for name, function in list(vars(cls).items()):
            is_public = not name.startswith("_") or name in _SPECIAL
            if is_public and name not in plain and isinstance(function, FunctionType):
                setattr(cls, name, short_traceback(function))
        return cls

    return decorate


class ShortBlock(AbstractContextManager[T], Generic[T]):
    """A ``with`` block of which the errors at its beginning and end have short tracebacks; one that the block itself raises keeps
    its own."""

    def __init__(self, block: AbstractContextManager[T]) -> None:
        self._block = block

    def __enter__(self) -> T:
        try:
            return self._block.__enter__()
        except GravelerError as error:
            __tracebackhide__ = are_short()
            raise shortened(error)  # noqa: B904 - the same error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            return self._block.__exit__(kind, error, traceback)
        except GravelerError as raised:
            __tracebackhide__ = are_short()
            raise shortened(raised)  # noqa: B904 - the same error
