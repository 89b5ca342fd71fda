"""The state of interrupted work: what Ctrl-C left behind, checked instead of guessed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graveler.cli.exits import InterruptedVerbError
from graveler.errors import GravelerError

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository


@contextmanager
def moving(repository: "AnyRepository", branch: str) -> Iterator[None]:
    """Guard a body that moves ``branch`` in one step, at its end: on Ctrl-C, check whether that step was made."""
    before = repository.branch(branch).commit_id
    try:
        yield
    except KeyboardInterrupt:
        try:
            after = repository.branch(branch).commit_id
        except GravelerError:
            after = None
        if after == before:
            raise InterruptedVerbError("nothing was committed") from None
        now = f"moved from {before[:12]} to {after[:12]}" if after else "cannot be read"
        raise InterruptedVerbError(f"branch {branch!r} {now}; see `graveler reflog`") from None


@contextmanager
def staging(uri: str) -> Iterator[None]:
    """Guard a body that stages changes one after the other."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedVerbError(
            f"nothing was committed; `graveler status {uri}` shows what was staged before that"
        ) from None
