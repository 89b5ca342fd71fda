"""Requests of a repository that something happens to on their way."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from graveler.lake.context import UNLIMITED, Context
from graveler.lake.repository import OpenRepository
from graveler.requests.base import Request


@contextmanager
def intercepted(
    repository: OpenRepository, kind: type[Request[Any]], handle: Callable[[Callable[[], Any]], Any]
) -> Iterator[None]:
    """Let ``handle`` do the repository's next request of a ``kind``: it gets a function that runs the request."""
    run = repository.run
    waiting = [True]

    def run_or_handle(request: Request[Any], context: Context = UNLIMITED) -> Any:
        if type(request) is kind and waiting:
            waiting.clear()
            return handle(lambda: run(request, context))
        return run(request, context)

    vars(repository)["run"] = run_or_handle
    try:
        yield
    finally:
        del vars(repository)["run"]
