"""The permissions of roles, and where they apply: the whole permission model.

A key has one role. It may be limited to repositories and to branches, each by glob patterns (``*``, ``?``, ``[…]``; ``*`` also
matches slashes). Limits to branches concern changes only: a key that may read a repository reads all of it, since every commit
can be reached from many branches.
"""

from enum import Enum
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from graveler.access.errors import NotPermittedError
from graveler.requests.base import Permission


class Role(Enum):
    """The role of a key's holder."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"


_GRANTS: Final = {
    Role.READER: (Permission.READ,),
    Role.WRITER: (Permission.READ, Permission.WRITE),
    Role.ADMIN: tuple(Permission),
}


class Identity(Struct, frozen=True):
    """The caller: the key, the name of its holder, the role, and the patterns that limit it (none: no limit)."""

    key_id: str
    name: str
    role: Role
    repositories: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()

    def allows(self, permission: Permission, repository: str = "", branch: str = "") -> bool:
        """Return whether this identity has the permission. No request.

        Without ``repository`` the whole lake is concerned: then a key that is limited to repositories may only read (filter the
        results with :meth:`sees`). Without ``branch`` more than one branch is concerned: then a key that is limited to branches
        may not change anything.
        """
        return not self._why_not(permission, repository, branch)

    def require(self, permission: Permission, repository: str = "", branch: str = "") -> None:
        """Raise :class:`NotPermittedError` unless :meth:`allows`. No request."""
        if why := self._why_not(permission, repository, branch):
            raise NotPermittedError(why)

    def sees(self, repository: str) -> bool:
        """Return whether a list of repositories shows it this one."""
        return not self.repositories or _matches(repository, self.repositories)

    def _why_not(self, permission: Permission, repository: str, branch: str) -> str:
        if permission not in _GRANTS[self.role]:
            return f"a {self.role.value} cannot {permission.value}"
        if self.repositories and not _matches(repository, self.repositories):
            if repository:
                return f"key {self.key_id} is not for repository {repository!r}"
            if permission is not Permission.READ:
                return f"key {self.key_id} is limited to some repositories"
        if self.branches and permission is not Permission.READ and not _matches(branch, self.branches):
            if branch:
                return f"key {self.key_id} may not change branch {branch!r}"
            return f"key {self.key_id} is limited to some branches"
        return ""


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return bool(name) and any(fnmatchcase(name, pattern) for pattern in patterns)
