"""Requests of a repository that something happens to on their way."""

from collections.abc import Callable
from typing import Any

import pytest

from graveler.lake.context import UNLIMITED, Context
from graveler.lake.repository import OpenRepository
from graveler.requests.base import Request


def intercept(
    patch: pytest.MonkeyPatch,
    repository: OpenRepository,
    kind: type[Request[Any]],
    handle: Callable[[Callable[[], Any]], Any],
) -> None:
    """Let ``handle`` do the repository's requests of a ``kind``: it gets a function that runs the request."""
    run = repository.run

    def run_or_handle(request: Request[Any], context: Context = UNLIMITED) -> Any:
        return handle(lambda: run(request, context)) if type(request) is kind else run(request, context)

    patch.setattr(repository, "run", run_or_handle)
