"""The permissions of roles, and where they apply: the whole permission model.

A key has one role. It may be limited to repositories and to branches, each by glob patterns (``*``, ``?``, ``[…]``; ``*`` also
matches slashes). Limits to branches concern changes only: a key that may read a repository reads all of it, since every commit
can be reached from many branches. A checker posts the statuses whose names match its patterns. Who writes may post any; the rules
of a branch decide whose count.
"""

import shlex
from enum import Enum
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from graveler.access.refusals import NotPermittedError
from graveler.model import Actor
from graveler.requests.base import Permission


class Role(Enum):
    """The role of a key's holder."""

    READER = "reader"
    CHECKER = "checker"
    WRITER = "writer"
    ADMIN = "admin"


_GRANTS: Final = {
    Role.READER: (Permission.READ,),
    Role.CHECKER: (Permission.READ, Permission.CHECK),
    Role.WRITER: (Permission.READ, Permission.CHECK, Permission.WRITE),
    Role.ADMIN: tuple(Permission),
}


class Identity(Struct, frozen=True):
    """The caller: the key, the name of its holder, the role, and the patterns that limit it (none: no limit). ``expires`` is the
    end of the token that proved it, in Unix seconds; None for a key's secret, which has none. ``statuses`` are patterns of the
    names that a checker posts. ``principal`` tells people apart who choose the name themselves; empty if it is the name."""

    key_id: str
    name: str
    role: Role
    repositories: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    expires: int | None = None
    statuses: tuple[str, ...] = ()
    principal: str = ""

    @property
    def actor(self) -> Actor:
        """The caller as the rules of branches and tags see it."""
        return Actor(self.name, self.principal or self.name, self.key_id, self.role.value)

    def require_status(self, repository: str, name: str) -> None:
        """Raise :class:`NotPermittedError` unless this identity may post statuses of this name. No request."""
        self.require(Permission.CHECK, repository)
        if self.statuses and not _matches(name, self.statuses):
            raise NotPermittedError(
                f"{self._described()} may not post the status {name[:100]!r}: it posts those named {_listed(self.statuses)}. "
                f"{self._remedy('that name', f'--role checker --status {shlex.quote(name[:100])}')}",
                key_id=self.key_id,
                role=self.role.value,
                permission=Permission.CHECK.value,
                repository=repository,
            )

    def allows(self, permission: Permission, repository: str = "", branch: str = "") -> bool:
        """Return whether this identity has the permission. No request.

        Without ``repository`` the whole lake is concerned: then a key that is limited to repositories may only read (filter the
        results with :meth:`sees`). Without ``branch`` more than one branch is concerned: then a key that is limited to branches
        may not change anything.
        """
        return not self._why_not(permission, repository, branch)

    def require(self, permission: Permission, repository: str = "", branch: str = "") -> None:
        """Raise :class:`NotPermittedError` unless :meth:`allows`. No request."""
        if reason := self._why_not(permission, repository, branch):
            raise NotPermittedError(
                f"{self._described()} may not {_action(permission, repository, branch)}: {reason}",
                key_id=self.key_id,
                role=self.role.value,
                permission=permission.value,
                repository=repository,
                branch=branch,
            )

    def sees(self, repository: str) -> bool:
        """Return whether a list of repositories shows it this one."""
        return not self.repositories or _matches(repository, self.repositories)

    def _why_not(self, permission: Permission, repository: str, branch: str) -> str:
        """Return the reason of a refusal, with its remedy; "" if this identity has the permission."""
        if permission not in _GRANTS[self.role]:
            able = [role for role in Role if permission in _GRANTS[role]]
            who = " or ".join(map(_with_article, able))
            return f"only {who} may. {self._remedy(f'the role {able[0].value}', f'--role {able[0].value}')}"
        if self.repositories and not _matches(repository, self.repositories):
            limit = f"it is limited to the repositories {_listed(self.repositories)}"
            if repository:
                return f"{limit}. {self._remedy('that repository', f'--repository {shlex.quote(repository)}')}"
            if permission is not Permission.READ:
                return f"{limit}. {self._remedy('all repositories')}"
        if self.branches and permission in _OF_BRANCHES and not _matches(branch, self.branches):
            limit = f"it is limited to changes of the branches {_listed(self.branches)}"
            if branch:
                return f"{limit}. {self._remedy('that branch', f'--branch {shlex.quote(branch)}')}"
            return f"{limit}, and this change is not of one branch. {self._remedy('all branches')}"
        return ""

    def _described(self) -> str:
        """Return the caller in words: the key or rule, its holder, the role."""
        if not self.key_id:
            return "a caller without a key"
        return f"{self._kind} {self.key_id} of {self.name!r} ({_with_article(self.role)})"

    @property
    def _kind(self) -> str:
        """The kind of credential that admitted the caller: an access key, or a rule for AWS principals, whose IDs have a
        colon."""
        return "rule" if ":" in self.key_id else "key"

    def _remedy(self, scope: str, option: str = "") -> str:
        """Return what helps: a key or rule for ``scope``, which an admin creates with ``option``."""
        command = "graveler principals create" if self._kind == "rule" else "graveler keys create"
        options = f" … {option}" if option else ""
        return f"Use a {self._kind} for {scope}, or ask an admin to create it (`{command}{options}`)"


_OF_BRANCHES: Final = (Permission.WRITE, Permission.ADMIN)
"""The permissions that limits to branches concern. A status is no change of a branch."""
_SHOWN: Final = 5
"""The number of a key's patterns that a refusal lists."""


def _action(permission: Permission, repository: str, branch: str) -> str:
    """Return in words what a permission is needed for."""
    lake = f"repository {repository!r}" if repository else "the lake"
    match permission:
        case Permission.READ:
            return f"read {lake}"
        case Permission.CHECK:
            return f"post statuses in {lake}"
        case Permission.WRITE:
            return f"change branch {branch!r} of {lake}" if branch else f"change {lake}"
        case Permission.ADMIN:
            return f"administer {lake}"


def _listed(patterns: tuple[str, ...]) -> str:
    more = f" and {len(patterns) - _SHOWN:,} more" if len(patterns) > _SHOWN else ""
    return f"{', '.join(patterns[:_SHOWN])}{more}"


def _with_article(role: Role) -> str:
    return f"{'an' if role is Role.ADMIN else 'a'} {role.value}"


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return bool(name) and any(fnmatchcase(name, pattern) for pattern in patterns)
