"""The run that a gateway on another host has joined: it must acknowledge nothing that the run does not publish.

The run's commit takes what is staged under the branch's open token, and opens another one. So a change belongs to the run if,
*after* it was staged, the token is still open with which the branch began: the seal comes later, and takes it. Otherwise the
change may be too late, and is refused; it has no promise then, whether the commit took it or not.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from graveler.errors import NotFoundError
from graveler.gateway.control import Mount
from graveler.gateway.lakes import Opened
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.history.owners import LEASE
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import Token

R = TypeVar("R")

WATCH_SECONDS: Final = 5.0
"""Time between two looks whether the run is over."""


class JoinedRun:
    """The run whose hidden branch ``mount`` shows, and ``token`` the open token with which that began. ``now`` is a monotonic
    clock (seconds)."""

    def __init__(self, lake: Lake, mount: Mount, token: Token, now: Callable[[], float] = time.monotonic) -> None:
        self._lake = lake
        self._mount = mount
        self._token = token
        self._now = now
        self._beat, self._since = "", now()

    def confirmed(self, change: Callable[[Opened], R]) -> Callable[[Opened], R]:
        """Return ``change``, followed by one table read. :class:`S3Error` if the run may not publish what it did."""

        def change_and_look(opened: Opened) -> R:
            result = change(opened)
            assert isinstance(opened, OpenRepository)  # no invitation is to a lake behind a server
            state = opened.parts.branches.find(self._mount.ref)
            if state is None or state.open != self._token:
                raise run_is_over()
            return result

        return change_and_look

    def is_over(self) -> bool:
        """Return whether the run publishes by now, has ended, or was killed, which shows after :data:`LEASE` seconds. Two table
        reads."""
        try:
            branches = self._lake.repository(self._mount.repository).parts.branches
            state, lease = branches.find(self._mount.ref), branches.owners.get(self._mount.ref)
        except NotFoundError:
            return True
        if state is None or state.open != self._token or lease is None:
            return True
        if lease.beat != self._beat:
            self._beat, self._since = lease.beat, self._now()
        return self._now() - self._since > LEASE


def run_is_over() -> S3Error:
    """Return the error for a request that comes after the end of its run."""
    return S3Error(
        "AccessDenied",
        "the run that this gateway has joined is over, or its branch was committed or reset: what is written now would not be "
        "published",
    )
