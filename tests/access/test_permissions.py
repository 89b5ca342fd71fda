"""What each role may do, and where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.access.permissions import Identity, Role
from graveler.access.refusals import NotPermittedError
from graveler.model import Actor
from graveler.requests.base import Permission
from graveler.values.error_codes import fields_of

READ, CHECK, WRITE, ADMIN = Permission.READ, Permission.CHECK, Permission.WRITE, Permission.ADMIN
MATRIX = {
    Role.READER: {READ},
    Role.CHECKER: {READ, CHECK},
    Role.WRITER: {READ, CHECK, WRITE},
    Role.ADMIN: {READ, CHECK, WRITE, ADMIN},
}
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
        with pytest.raises(
            NotPermittedError,
            match=r"^key AKIA of 'ann' \(an? \w+\) may not (read|post statuses in|change|administer) .*: "
            r"(only|it is limited) .*\. Use a key for ",
        ):
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


@pytest.mark.parametrize(
    ("identity", "needed", "sentence"),
    [
        (
            Identity("AKIA", "ann", Role.WRITER),
            (ADMIN, "lake", ""),
            (
                "key AKIA of 'ann' (a writer) may not administer repository 'lake': only an admin may. Use a key for the "
                "role admin, or ask an admin to create it (`graveler keys create … --role admin`)"
            ),
        ),
        (
            Identity("aws:1", "ann", Role.READER),
            (WRITE, "lake", "main"),
            (
                "rule aws:1 of 'ann' (a reader) may not change branch 'main' of repository 'lake': only a writer or an "
                "admin may. Use a rule for the role writer, or ask an admin to create it (`graveler principals create … "
                "--role writer`)"
            ),
        ),
        (
            Identity("AKIA", "ann", Role.READER, repositories=("lake", "lab-*")),
            (READ, "other", ""),
            (
                "key AKIA of 'ann' (a reader) may not read repository 'other': it is limited to the repositories lake, "
                "lab-*. Use a key for that repository, or ask an admin to create it (`graveler keys create … --repository "
                "other`)"
            ),
        ),
        (
            Identity("AKIA", "ann", Role.ADMIN, repositories=tuple(f"lake-{number}" for number in range(1_006))),
            (ADMIN, "", ""),
            (
                "key AKIA of 'ann' (an admin) may not administer the lake: it is limited to the repositories lake-0, "
                "lake-1, lake-2, lake-3, lake-4 and 1,001 more. Use a key for all repositories, or ask an admin to create "
                "it (`graveler keys create`)"
            ),
        ),
        (
            Identity("AKIA", "ann", Role.WRITER, branches=("dev",)),
            (WRITE, "lake", "main"),
            (
                "key AKIA of 'ann' (a writer) may not change branch 'main' of repository 'lake': it is limited to changes "
                "of the branches dev. Use a key for that branch, or ask an admin to create it (`graveler keys create … "
                "--branch main`)"
            ),
        ),
        (
            Identity("AKIA", "ann", Role.WRITER, branches=("dev",)),
            (WRITE, "lake", ""),
            (
                "key AKIA of 'ann' (a writer) may not change repository 'lake': it is limited to changes of the branches "
                "dev, and this change is not of one branch. Use a key for all branches, or ask an admin to create it "
                "(`graveler keys create`)"
            ),
        ),
    ],
)
def test_a_refusal_names_key_action_and_remedy(
    identity: Identity, needed: tuple[Permission, str, str], sentence: str
) -> None:
    with pytest.raises(NotPermittedError) as refused:
        identity.require(*needed)
    permission, repository, branch = needed
    assert str(refused.value) == sentence
    assert fields_of(refused.value) == {
        "key_id": identity.key_id,
        "role": identity.role.value,
        "permission": permission.value,
        "repository": repository,
        "branch": branch,
    }


def test_a_checker_posts_the_statuses_of_its_key() -> None:
    checker = Identity("AKIA", "ci", Role.CHECKER, repositories=("lake",), statuses=("dbt*", "a/%+b"))
    for name in ("dbt", "dbt/orders", "a/%+b"):
        checker.require_status("lake", name)
    with pytest.raises(NotPermittedError, match=r"may not post the status 'gx': it posts those named dbt\*, a/%\+b"):
        checker.require_status("lake", "gx")
    with pytest.raises(NotPermittedError, match="limited to the repositories lake"):
        checker.require_status("other", "dbt")
    Identity("AKIA", "ann", Role.WRITER, branches=("dev",)).require_status("lake", "any")
    with pytest.raises(NotPermittedError, match="only a checker or a writer or an admin may"):
        Identity("AKIA", "ann", Role.READER).require_status("lake", "any")


def test_people_are_told_apart_by_what_they_do_not_choose() -> None:
    assert Identity("AKIA", "ann", Role.WRITER).actor == Actor("ann", "ann", "AKIA", "writer")
    login = Identity("aws:1", "a session", Role.CHECKER, principal="aws:1/etl")
    assert login.actor == Actor("a session", "aws:1/etl", "aws:1", "checker")


def test_a_caller_without_a_key_is_named_so() -> None:
    with pytest.raises(
        NotPermittedError, match=r"^a caller without a key may not change repository 'lake': only a writer"
    ):
        Identity("", "", Role.READER).require(WRITE, "lake")
