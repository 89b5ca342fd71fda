"""``repository.pulls``."""

import pytest

from graveler.lake.pulls.pull_errors import OwnApprovalError, PullRequestNotFoundError
from graveler.sdk.repository import Repository


def test_a_pull_request_is_made_approved_discussed_and_merged(repo: Repository) -> None:
    main = repo.branch("main")
    main.object("a").upload("1")
    main.commit("first")
    dev = repo.branch("dev").create(main)
    dev.object("b").upload("2")
    repo.user = "bob"
    head = dev.commit("second")
    repo.user = "ada"
    pull = repo.pulls.create(dev, main, "Measurements", "of June", reviewers=["cyd"], squash_merge=True)
    assert (pull.id, pull.author, pull.reviewers, pull.squash) == ("1", "ada", ("cyd",), True)
    assert repo.pulls.update(1, title="June", squash_merge=False, strategy="source-wins").strategies.default.value
    assert [listed.title for listed in repo.pulls.list()] == ["June"]
    with pytest.raises(OwnApprovalError, match="'ada' may not approve"):
        repo.pulls.approve(pull.id, head)
    repo.user = "cyd"
    assert [approval.name for approval in repo.pulls.approve(1, head).approvals] == ["cyd"]
    assert repo.pulls.withdraw_approval(1).approvals == ()
    repo.pulls.comment(1, "good")
    assert [(said.author, said.text) for said in repo.pulls.comments(1)] == [("cyd", "good")]
    assert not repo.pulls.close(1).is_open
    assert repo.pulls.reopen(1).is_open
    merged = repo.pulls.merge(1, message="June", expected_head=head)
    assert main.get_commit().message == "June"
    assert repo.pulls.merge(1) == merged == repo.pulls.get("1")
    assert list(repo.pulls.list()) == []
    assert list(repo.pulls.list("merged")) == [merged]
    assert repr(repo.pulls) == f"PullRequests({repo.id!r})"
    for call in (repo.pulls.get, repo.pulls.close, repo.pulls.merge):
        with pytest.raises(PullRequestNotFoundError):
            call(2)
