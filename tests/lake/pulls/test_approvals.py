"""Approvals: who may give one, and how long it counts."""

from collections.abc import Iterator

import pytest

from graveler.errors import InvalidError, MovedError
from graveler.history.graph import commits_without
from graveler.lake.context import Context
from graveler.lake.pulls.approvals import share_a_key, valid_approvals
from graveler.lake.pulls.pull_errors import OwnApprovalError, PullRequestEndedError
from graveler.lake.repository import OpenRepository
from graveler.model import Actor, CommitID, MergeStrategies, MergeStrategy
from graveler.requests.pulls import Approval, ApprovePullRequest, PullRequest, WithdrawApproval
from graveler.tree.diff import Difference
from tests.lake.support import World

ADA, BOB, CYD = (Actor(name, f"{name}@lake", f"key-{name}", "writer") for name in ("ada", "bob", "cyd"))

PLAIN = MergeStrategies()


@pytest.fixture
def repository() -> OpenRepository:
    """Ada proposes bob's commit on ``dev`` for ``main``."""
    repository = World().main
    for path in ("a", "b", "c"):
        repository.upload("main", path, b"1")
    repository.commit("main", "one", committer="eve")
    repository.create_branch("dev", "main")
    repository.upload("dev", "b", b"2")
    repository.commit("dev", "two", committer="bob")
    repository.create_pull_request("change", "dev", "main", by="ada")
    return repository


def approve(repository: OpenRepository, actor: Actor, commit_id: CommitID | None = None) -> PullRequest:
    commit_id = commit_id or repository.commit_of("dev").id
    return repository.run(ApprovePullRequest(pull="1", source_commit=commit_id), Context(actor=actor))


def counting(
    repository: OpenRepository, strategies: MergeStrategies = PLAIN, *, squash: bool = False
) -> tuple[Approval, ...]:
    source, head = repository.commit_of("dev"), repository.commit_of("main")
    base = repository.merge_base("dev", "main")
    assert base is not None
    pull = repository.pull_request("1")
    return valid_approvals(repository.parts, pull, source, base, head, strategies, squash)


def test_an_approval_says_who_gave_it_and_what_it_covers(repository: OpenRepository) -> None:
    (approval,) = approve(repository, CYD).approvals
    assert (approval.principal, approval.name, approval.key_id) == ("cyd@lake", "cyd", "key-cyd")
    assert (approval.commit_id, approval.base) == (repository.commit_of("dev").id, repository.commit_of("main").id)
    assert counting(repository) == (approval,)
    assert approve(repository, CYD).version == 2, "the same again is no change"


def test_the_author_of_the_request_or_of_a_commit_in_it_may_not_approve(repository: OpenRepository) -> None:
    with pytest.raises(OwnApprovalError, match="it is theirs"):
        approve(repository, ADA)
    with pytest.raises(OwnApprovalError, match="they made commit"):
        approve(repository, BOB)
    by_principal = Actor("someone", "bob", "key", "writer")
    with pytest.raises(OwnApprovalError):
        approve(repository, by_principal)
    assert approve(repository, Actor("Bob", "Bob", "key")).approvals, "upper and lower case differ"
    assert len(approve(repository, Actor("eve", "eve@lake")).approvals) == 2, "a commit of the destination is not in it"
    with pytest.raises(InvalidError, match="needs the name"):
        approve(repository, Actor())


def test_a_commit_behind_a_merge_is_in_it_too(repository: OpenRepository) -> None:
    repository.create_branch("topic", "main")
    repository.upload("topic", "d", b"1")
    repository.commit("topic", "three", committer="cyd")
    repository.merge("topic", "dev", committer="dan")
    with pytest.raises(OwnApprovalError):
        approve(repository, CYD)
    repository.merge("topic", "main")
    approve(repository, CYD)


def test_the_commits_of_a_branch_are_those_that_the_other_lacks(repository: OpenRepository) -> None:
    for number in range(3):
        repository.merge("main", "dev", message=f"merge {number}", allow_empty=True)
        repository.upload("main", "m", str(number).encode())
        repository.commit("main", f"main {number}")
    dev, main = repository.commit_of("dev").id, repository.commit_of("main").id
    commits = repository.parts.commits
    reached = {name: {commit.id for commit in repository.log(name, amount=1000).results} for name in (dev, main)}
    for tip, without in ((dev, main), (main, dev)):
        walked = [commit.id for commit in commits_without(commits, tip, without)]
        assert len(walked) == len(set(walked))
        assert set(walked) == reached[tip] - reached[without]
    assert list(commits_without(commits, dev, dev)) == []


def test_an_approval_of_another_commit_is_refused(repository: OpenRepository) -> None:
    approved = repository.commit_of("dev").id
    repository.upload("dev", "x", b"1")
    repository.commit("dev", "three", committer="bob")
    with pytest.raises(MovedError):
        approve(repository, CYD, approved)
    for text in ("dev", approved[:12], "x" * 64, ""):
        with pytest.raises(InvalidError, match="whole commit ID"):
            repository.approve_pull_request("1", text, by="cyd")
    assert repository.pull_request("1").approvals == ()


def test_a_push_or_other_terms_make_it_stale(repository: OpenRepository) -> None:
    approve(repository, CYD)
    assert counting(repository, squash=True) == ()
    assert counting(repository, MergeStrategies(MergeStrategy.SOURCE_WINS)) == ()
    repository.upload("dev", "x", b"1")
    repository.commit("dev", "three", committer="bob")
    assert counting(repository) == ()
    assert len(approve(repository, CYD).approvals) == 1, "it replaces the stale one"
    assert len(counting(repository)) == 1
    repository.update_pull_request("1", squash=True)
    assert len(counting(repository, squash=True)) == 0
    approve(repository, CYD)
    assert len(counting(repository, squash=True)) == 1


def test_another_base_makes_it_stale(repository: OpenRepository) -> None:
    repository.upload("dev", "x", b"1")
    repository.commit("dev", "three", committer="bob")
    approve(repository, CYD)
    repository.merge("dev~1", "main")
    assert counting(repository) == ()


@pytest.mark.parametrize(
    ("path", "text", "valid"), [("a", b"9", True), ("z", b"9", True), ("b", b"9", False), ("b", b"2", False)]
)
def test_a_moved_destination_makes_it_stale_if_both_sides_changed_a_key(
    repository: OpenRepository, path: str, text: bytes, valid: bool
) -> None:
    approve(repository, CYD)
    repository.upload("main", path, text)
    repository.commit("main", "moved")
    assert bool(counting(repository)) == valid
    repository.hard_reset("main", "main~1")
    assert counting(repository), "as it was approved"


def test_an_approval_may_be_taken_back(repository: OpenRepository) -> None:
    approve(repository, CYD)
    approve(repository, Actor("dan", "dan@lake"))
    after = repository.run(WithdrawApproval(pull="1"), Context(actor=CYD))
    assert [approval.name for approval in after.approvals] == ["dan"]
    assert repository.run(WithdrawApproval(pull="1"), Context(actor=CYD)) == after
    repository.update_pull_request("1", status="closed")
    for change in (
        WithdrawApproval(pull="1"),
        ApprovePullRequest(pull="1", source_commit=repository.commit_of("dev").id),
    ):
        with pytest.raises(PullRequestEndedError):
            repository.run(change, Context(actor=CYD))


def test_approvals_are_bounded_and_stale_ones_make_room(repository: OpenRepository) -> None:
    for number in range(100):
        approve(repository, Actor(f"p{number}", f"p{number}"))
    with pytest.raises(InvalidError, match="100 approvals"):
        approve(repository, CYD)
    repository.upload("dev", "x", b"1")
    repository.commit("dev", "three", committer="bob")
    assert [approval.name for approval in approve(repository, CYD).approvals] == ["cyd"]


@pytest.mark.parametrize(
    ("left", "right", "common"), [("", "a", False), ("ace", "bdf", False), ("ace", "be", True), ("a", "a", True)]
)
def test_two_differences_may_have_a_key_in_common(left: str, right: str, common: bool) -> None:
    def differences(keys: str) -> Iterator[Difference]:
        return iter([(key.encode(), None, b"") for key in keys])

    assert share_a_key(differences(left), differences(right)) == common
    assert share_a_key(differences(right), differences(left)) == common
