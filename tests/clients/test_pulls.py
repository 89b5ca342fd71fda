"""Pull requests by the published package ``lakefs-sdk``, whose models check each answer; and by graveler's own client."""

from typing import Any

import lakefs
import pytest
from lakefs.client import Client
from lakefs_sdk.exceptions import ApiException
from lakefs_sdk.models import PullRequestBasic, PullRequestCreation

import graveler
from graveler.lake.pulls.pull_errors import OwnApprovalError, PullRequestEndedError
from tests.clients.support import Served

pytestmark = pytest.mark.ci


@pytest.fixture
def pulls(client: Client) -> Any:
    return client.sdk_client.pulls_api


@pytest.fixture
def dev(repo: lakefs.Repository, main: lakefs.Branch) -> lakefs.Branch:
    """A branch with a commit that the default branch lacks."""
    branch = repo.branch("dev").create("main")
    branch.object("a").upload(b"1")
    branch.commit("On dev")
    return branch


def create(pulls: Any, repo: lakefs.Repository, source: str = "dev", destination: str = "main") -> str:
    creation = PullRequestCreation(title="t é", description="why", source_branch=source, destination_branch=destination)
    return str(pulls.create_pull_request(repo.id, creation).id)


def test_lakefs_clients_create_list_change_and_merge_them(
    pulls: Any, repo: lakefs.Repository, dev: lakefs.Branch
) -> None:
    ids = [create(pulls, repo) for _ in range(3)]
    shown = pulls.get_pull_request(repo.id, ids[0])
    assert (shown.status, shown.title, shown.description) == ("open", "t é", "why")
    assert (shown.source_branch, shown.destination_branch, shown.closed_date) == ("dev", "main", None)
    page = pulls.list_pull_requests(repo.id, amount=2, status="open")
    assert ([pull.id for pull in page.results], page.pagination.has_more) == (["3", "2"], True)
    rest = pulls.list_pull_requests(repo.id, amount=2, after=page.pagination.next_offset)
    assert ([pull.id for pull in rest.results], rest.pagination.has_more) == (["1"], False)
    pulls.update_pull_request(repo.id, "2", PullRequestBasic(status="closed", title="new"))
    closed = pulls.get_pull_request(repo.id, "2")
    assert (closed.status, closed.title, closed.description, closed.closed_date is None) == (
        "closed",
        "new",
        "why",
        False,
    )
    merged = pulls.merge_pull_request(repo.id, "1")
    assert pulls.merge_pull_request(repo.id, "1") == merged
    shown = pulls.get_pull_request(repo.id, "1")
    assert (shown.status, shown.merged_commit_id) == ("merged", merged.reference)
    assert merged.reference == repo.branch("main").get_commit().id
    assert [pull.id for pull in pulls.list_pull_requests(repo.id, status="closed").results] == ["2", "1"]


@pytest.mark.parametrize(
    ("source", "destination", "status"), [("dev", "dev", 400), ("none", "main", 404), ("dev", "none", 404)]
)
def test_refusals_of_a_creation(
    pulls: Any, repo: lakefs.Repository, dev: lakefs.Branch, source: str, destination: str, status: int
) -> None:
    with pytest.raises(ApiException) as caught:
        create(pulls, repo, source, destination)
    assert caught.value.status == status


def test_refusals_of_a_merge_and_a_change(pulls: Any, repo: lakefs.Repository, dev: lakefs.Branch) -> None:
    def status_of(call: Any, *arguments: Any) -> Any:
        with pytest.raises(ApiException) as caught:
            call(repo.id, *arguments)
        return caught.value.status

    create(pulls, repo)
    assert status_of(pulls.get_pull_request, "2") == status_of(pulls.merge_pull_request, "x") == 404
    assert status_of(pulls.update_pull_request, "1", PullRequestBasic(status="merged")) == 400
    repo.branch("main").object("a").upload(b"2")
    repo.branch("main").commit("conflict")
    assert status_of(pulls.merge_pull_request, "1") == 409
    pulls.update_pull_request(repo.id, "1", PullRequestBasic(status="closed"))
    assert status_of(pulls.merge_pull_request, "1") == 409


def test_graveler_s_client_does_the_same_as_a_local_lake(
    served: Served, repo: lakefs.Repository, dev: lakefs.Branch
) -> None:
    with graveler.open(served.url) as lake:
        pulls = lake.repository(repo.id).pulls
        pull = pulls.create("dev", "main", "t", draft=True, strategy="dest-wins", reviewers=["ada"])
        assert (pull.draft, pull.strategies.default.value, pull.reviewers) == (True, "dest-wins", ("ada",))
        assert not pulls.update(pull.id, draft=False).draft
        with pytest.raises(OwnApprovalError):
            pulls.approve(pull.id, dev.get_commit().id)
        assert pulls.withdraw_approval(pull.id).approvals == ()
        assert pulls.comment(pull.id, "good") == next(pulls.comments(pull.id))
        dev.object("b").upload(b"1")
        dev.commit("more")
        merged = pulls.merge(pull.id, message="June")
        assert merged == pulls.merge(pull.id)
        with pytest.raises(PullRequestEndedError):
            pulls.close(pull.id)
        assert [listed.id for listed in pulls.list("merged")] == [pull.id]
