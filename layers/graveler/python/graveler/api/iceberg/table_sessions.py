"""Sessions of the role for tables, which this process has for a while."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.access.permissions import Identity
from graveler.api.iceberg.session_policies import TableRights, partition_of, policy_of, session_name
from graveler.storage.role_sessions import MAX_SECONDS, MIN_SECONDS, RoleSession, assume_role
from graveler.system.forks import new_lock

_MAX_SESSIONS: Final = 1_000
"""Sessions that a process has, some 2 KB each."""


class _ReusableSession(Struct, frozen=True):
    """A session that is handed out until ``renewal`` (Unix seconds)."""

    session: RoleSession
    renewal: float


class TableSessions:
    """The sessions that were made last, by role, policy and caller, each until half its time is over. Safe to share between
    threads; ``clock`` returns Unix seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._lock = new_lock()
        self._clock = clock
        self._sessions: OrderedDict[tuple[str, str, str], _ReusableSession] = OrderedDict()

    def session_for(self, role: str, caller: Identity, rights: TableRights, region: str) -> RoleSession:
        """Return a session with these rights, for an hour at most, and not for longer than they last. AWS's sessions last
        at least a quarter of an hour; for rights that end sooner, the policy ends then. One request to STS, unless there is a
        session whose first half is not over. Errors as :func:`graveler.storage.role_sessions.assume_role`."""
        now = self._clock()
        seconds = MAX_SECONDS if rights.ends is None else min(MAX_SECONDS, int(rights.ends - now))
        if seconds >= MIN_SECONDS:
            rights, end = replace(rights, ends=None), now + seconds
        else:
            seconds, end = MIN_SECONDS, now + seconds
        policy = policy_of(rights, partition_of(role))
        name = role, policy, session_name(caller)
        with self._lock:
            reusable = self._sessions.get(name)
            if (
                reusable is not None
                and now < reusable.renewal
                and (caller.expires is None or reusable.session.ends <= end + 1)
            ):
                self._sessions.move_to_end(name)
                return reusable.session
        session = assume_role(role, name[2], policy, seconds, region)
        session = replace(session, ends=min(session.ends, end))
        with self._lock:
            self._sessions[name] = _ReusableSession(session, now + (session.ends - now) / 2)
            while len(self._sessions) > _MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return session


session_for: Final = TableSessions().session_for
