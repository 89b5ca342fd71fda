"""What each role may do, and where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.access.errors import NotPermittedError
from graveler.access.permissions import Identity, Role
from graveler.requests.base import Permission

READ, WRITE, ADMIN = Permission.READ, Permission.WRITE, Permission.ADMIN
MATRIX = {Role.READER: {READ}, Role.WRITER: {READ, WRITE}, Role.ADMIN: {READ, WRITE, ADMIN}}
NAMES = st.sampled_from(["", "lake", "lab", "feature-1", "feature-x/y"])
PATTERNS = st.lists(st.sampled_from(["*", "la*", "lake", "feature-*", "feature-?", "[ab]*"]), max_size=2).map(tuple)
IDENTITIES = st.builds(
    Identity, st.just("AKIA"), st.just("ann"), st.sampled_from(Role), repositories=PATTERNS, branches=PATTERNS
)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("permission", Permission)
def test_a_role_may_do_what_the_matrix_says(role: Role, permission: Permission) -> None:
    identity = Identity("AKIA", "ann", role)
    assert identity.allows(permission) == (permission in MATRIX[role])
    assert identity.allows(permission, "lake", "main") == (permission in MATRIX[role])


@given(IDENTITIES, st.sampled_from(Permission), NAMES, NAMES)
def test_limits_only_ever_take_away(identity: Identity, permission: Permission, repository: str, branch: str) -> None:
    unlimited = Identity("AKIA", "ann", identity.role)
    if identity.allows(permission, repository, branch):
        assert unlimited.allows(permission, repository, branch)
        identity.require(permission, repository, branch)
    else:
        with pytest.raises(NotPermittedError, match=r"cannot|not for|may not|limited"):
            identity.require(permission, repository, branch)


def test_a_key_for_some_repositories_is_for_no_others() -> None:
    ann = Identity("AKIA", "ann", Role.ADMIN, repositories=("lake", "lab-*"))
    assert all(ann.allows(permission, name) for permission in Permission for name in ("lake", "lab-1"))
    assert not any(ann.allows(permission, name) for permission in Permission for name in ("lakes", "lab", "Lake"))
    assert [name for name in ("lake", "other", "lab-2") if ann.sees(name)] == ["lake", "lab-2"]


def test_a_limited_key_may_look_at_the_lake_but_not_change_it() -> None:
    ann = Identity("AKIA", "ann", Role.ADMIN, repositories=("lake",))
    assert ann.allows(READ)
    assert not ann.allows(WRITE)
    assert not ann.allows(ADMIN)


def test_a_key_for_some_branches_reads_all_and_changes_those() -> None:
    ann = Identity("AKIA", "ann", Role.WRITER, branches=("feature-*",))
    assert ann.allows(READ, "lake", "main")
    assert ann.allows(WRITE, "lake", "feature-1")
    assert ann.allows(WRITE, "lake", "feature-a/b")
    assert not ann.allows(WRITE, "lake", "main")
    assert not ann.allows(WRITE, "lake"), "a change without a branch, such as a tag, is beyond a branch"


def test_a_refusal_says_why() -> None:
    with pytest.raises(NotPermittedError, match=r"^a reader cannot write$"):
        Identity("AKIA", "ann", Role.READER).require(WRITE, "lake", "main")
    with pytest.raises(NotPermittedError, match="not for repository 'other'"):
        Identity("AKIA", "ann", Role.READER, repositories=("lake",)).require(READ, "other")
    with pytest.raises(NotPermittedError, match="may not change branch 'main'"):
        Identity("AKIA", "ann", Role.WRITER, branches=("dev",)).require(WRITE, "lake", "main")
