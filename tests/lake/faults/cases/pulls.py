"""Pull requests: whose merge and state are one, and that none is made or approved twice."""

from typing import Final

from graveler.lake.lake import Lake
from graveler.model import RequiredApprovals, Rule
from graveler.requests.pulls import PullState
from tests.lake.faults.case import Case
from tests.lake.faults.cases.in_parts import in_parts
from tests.lake.faults.model import Model
from tests.lake.faults.scenes import Scene, client
from tests.lake.faults.story import merged
from tests.lake.gates.support import set_rules
from tests.lake.support import NAME
from tests.support.pinned import pinned_merge


def propose(lake: Lake, _: Scene, __: Model) -> None:
    lake.repository(NAME).create_pull_request("side", "side", "main", by="ada", message="merge")


def propose_guarded(lake: Lake, scene: Scene, model: Model) -> None:
    """As :func:`propose`; ``main`` needs an approval, which there is."""
    propose(lake, scene, model)
    repository = lake.repository(NAME)
    set_rules(repository, Rule(name="reviewed", branches=("main",), approvals=(RequiredApprovals(1),)))
    repository.approve_pull_request("1", repository.commit_of("side").id, by="cyd")


def wait_for_approval(lake: Lake, scene: Scene, model: Model) -> None:
    """The same without the approval, for which a merge waits."""
    propose(lake, scene, model)
    repository = lake.repository(NAME)
    set_rules(repository, Rule(name="reviewed", branches=("main",), approvals=(RequiredApprovals(1),)))
    repository.merge_pull_request("1", when_ready=True, by="ada")


def merged_with_its_commit(scene: Scene, model: Model, _: bool) -> None:
    """The pull request is merged if its commit is on the branch, and only then."""
    repository = client(scene).repository(NAME)
    pull = repository.pull_request("1")
    commits = [commit.id for commit in repository.log("main").results if commit.message == "merge"]
    assert commits == ([pull.merged_commit] if pull.state is PullState.MERGED else [])
    assert bool(commits) == (model[NAME].branches["main"].said[0] == "merge")
    listed = {status: len(repository.pull_requests(status).results) for status in ("open", "merged")}
    assert listed == {"open": int(not commits), "merged": int(bool(commits))}


def merged_behind_the_gate(scene: Scene, model: Model, repeated: bool) -> None:
    """As :func:`merged_with_its_commit`. Afterwards the branch is open to all, who go on with it."""
    merged_with_its_commit(scene, model, repeated)
    set_rules(client(scene).repository(NAME))


def created_once(scene: Scene, _: Model, repeated: bool) -> None:
    listed = client(scene).repository(NAME).pull_requests().results
    assert [pull.title for pull in listed] in ([["side"]] if repeated else [["side"], []])


def approved_once(scene: Scene, _: Model, repeated: bool) -> None:
    approvals = client(scene).repository(NAME).pull_request("1").approvals
    assert [approval.name for approval in approvals] in ([["cyd"]] if repeated else [["cyd"], []])


def said_once(scene: Scene, _: Model, repeated: bool) -> None:
    comments = client(scene).repository(NAME).pull_comments("1").results
    assert [comment.text for comment in comments] in ([["good"]] if repeated else [["good"], []])


def approve_and_merge(lake: Lake) -> None:
    """Approve. The merge that waits may fail by a fault, and then waits on: whoever notices merges."""
    repository = lake.repository(NAME)
    if repository.pull_request("1").is_open:
        repository.approve_pull_request("1", repository.commit_of("side").id, by="cyd")
        repository.merge_pull_request("1")


CASES: Final[tuple[Case, ...]] = (
    Case(
        "pull request",
        lambda lake, _: lake.repository(NAME).create_pull_request("side", "side", "main", by="ada", request_id="r"),
        verify=created_once,
    ),
    Case(
        "approval of a pull request",
        lambda lake, _: lake.repository(NAME).approve_pull_request(
            "1", lake.repository(NAME).commit_of("side").id, by="cyd"
        ),
        prepare=propose,
        verify=approved_once,
    ),
    Case(
        "comment on a pull request",
        lambda lake, _: lake.repository(NAME).comment_on_pull_request("1", "good", by="cyd", request_id="r"),
        prepare=propose,
        verify=said_once,
    ),
    Case(
        "merge of a pull request",
        lambda lake, _: lake.repository(NAME).merge_pull_request("1"),
        lambda model: merged(model, "merge"),
        propose,
        verify=merged_with_its_commit,
    ),
    Case(
        "merge of a pull request into a guarded branch",
        lambda lake, _: lake.repository(NAME).merge_pull_request("1"),
        lambda model: merged(model, "merge"),
        propose_guarded,
        verify=merged_behind_the_gate,
    ),
    Case(
        "approval for which a merge waits",
        lambda lake, _: approve_and_merge(lake),
        lambda model: merged(model, "merge"),
        wait_for_approval,
        verify=merged_behind_the_gate,
    ),
    Case(
        "merge of a pull request in parts",
        lambda lake, _: in_parts(
            lake,
            lambda repository: pinned_merge(
                source="side",
                source_id=repository.commit_of("side").id,
                destination="main",
                message="merge",
                pull_request="1",
            ),
        ),
        lambda model: merged(model, "merge"),
        propose,
        verify=merged_with_its_commit,
        like="merge in parts",
    ),
)
