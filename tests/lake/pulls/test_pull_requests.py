"""Pull requests: what they hold, how they change, and how they end."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from graveler.errors import (
    BusyError,
    InvalidError,
    MergeConflictError,
    NoChangesError,
    PreconditionError,
    RefNotFoundError,
    UnexpectedHeadError,
)
from graveler.lake.pulls.pull_errors import PullRequestEndedError, PullRequestNotFoundError
from graveler.lake.pulls.pull_store import PullStore
from graveler.lake.repository import OpenRepository
from graveler.model import MergeStrategies, MergeStrategy
from graveler.requests.pulls import PullComment, PullRequest, PullState
from tests.lake.support import Before, World


@pytest.fixture
def world() -> World:
    """Branch ``dev`` has one commit of bob's that ``main`` lacks."""
    world = World()
    repository = world.main
    repository.upload("main", "a", b"1")
    repository.commit("main", "one")
    repository.create_branch("dev", "main")
    repository.upload("dev", "b", b"1")
    repository.commit("dev", "two", committer="bob")
    return world


@pytest.fixture
def repository(world: World) -> OpenRepository:
    return world.main


def propose(repository: OpenRepository, **options: Any) -> PullRequest:
    proposed: PullRequest = repository.create_pull_request("change", "dev", "main", by="ada", **options)
    return proposed


def test_a_pull_request_is_numbered_and_has_what_it_was_created_with(repository: OpenRepository, world: World) -> None:
    pull = propose(repository, description="why", draft=True, reviewers=("cyd", "cyd"), message="m", squash=True)
    assert (pull.id, pull.title, pull.description, pull.author, pull.principal) == ("1", "change", "why", "ada", "ada")
    assert (pull.state, pull.draft, pull.reviewers) == (PullState.OPEN, True, ("cyd",))
    assert (pull.source, pull.destination, pull.created) == ("dev", "main", int(world.clock.now()))
    assert (pull.message, pull.squash, pull.version) == ("m", True, 1)
    assert repository.pull_request("1") == pull
    assert propose(repository).id == "2"


def test_a_repeated_request_with_an_id_creates_one(repository: OpenRepository) -> None:
    assert propose(repository, request_id="r") == propose(repository, request_id="r")
    assert len(repository.pull_requests().results) == 1
    comments = [repository.comment_on_pull_request("1", "good", request_id="s") for _ in range(2)]
    assert comments[0] == comments[1]
    assert repository.pull_comments("1").results == (comments[0],)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"title": ""}, "title of a pull request is empty"),
        ({"title": "é" * 128}, "256 bytes, but at most 255"),
        ({"description": "x" * 65537}, "65,537 bytes, but at most 65,536"),
        ({"message": "x" * 65537}, "65,537 bytes, but at most 65,536"),
        ({"title": "\ud800"}, "title"),
        ({"reviewers": tuple(map(str, range(101)))}, "101 reviewers are too many"),
        ({"reviewers": (" ",)}, "reviewer is empty"),
        ({"reviewers": ("x" * 256,)}, "at most 255"),
        (
            {"strategies": MergeStrategies(by_prefix=tuple((str(n), MergeStrategy.NONE) for n in range(101)))},
            "too many",
        ),
    ],
)
def test_too_much_text_is_refused_at_once_and_later(
    repository: OpenRepository, change: dict[str, Any], words: str
) -> None:
    options = {"title": "t", **change}
    if "strategies" in options:
        options["strategy"] = options.pop("strategies")
    with pytest.raises(InvalidError, match=words):
        repository.create_pull_request(source="dev", destination="main", **options)
    propose(repository)
    with pytest.raises(InvalidError, match=words):
        repository.update_pull_request("1", **{name: value for name, value in options.items() if name in options})
    assert repository.pull_request("1").version == 1


def test_two_existing_branches_are_needed(repository: OpenRepository) -> None:
    with pytest.raises(InvalidError, match="same branch 'dev'"):
        repository.create_pull_request("t", "dev", "dev")
    for source, destination in (("none", "main"), ("dev", "none")):
        with pytest.raises(RefNotFoundError, match="'none'"):
            repository.create_pull_request("t", source, destination)
    with pytest.raises(InvalidError, match="branch"):
        repository.create_pull_request("t", "dev~1", "main")


@pytest.mark.parametrize("pull", ["2", "0", "01", "x", "1.0", "-1", "9" * 11, "\u0661", ""])
def test_what_is_no_pull_request_is_not_found(repository: OpenRepository, pull: str) -> None:
    propose(repository)
    with pytest.raises(PullRequestNotFoundError):
        repository.pull_request(pull or "0")


def test_it_is_changed_closed_and_opened_again(repository: OpenRepository) -> None:
    propose(repository)
    changed = repository.update_pull_request("1", title="new", draft=True, reviewers=["cyd"])
    assert (changed.title, changed.draft, changed.reviewers, changed.version) == ("new", True, ("cyd",), 2)
    assert repository.update_pull_request("1", title="new") == changed, "nothing changes"
    closed = repository.update_pull_request("1", status="closed", by="bob")
    assert (closed.state, closed.closed_by, closed.closed > 0) == (PullState.CLOSED, "bob", True)
    with pytest.raises(PullRequestEndedError, match="is closed; nothing was changed"):
        repository.merge_pull_request("1")
    opened = repository.update_pull_request("1", status="open")
    assert (opened.state, opened.closed_by, opened.closed) == (PullState.OPEN, "", 0)
    with pytest.raises(InvalidError, match="merge it instead"):
        repository.update_pull_request("1", status="merged")


def test_a_merge_ends_it_and_a_repetition_returns_the_same(repository: OpenRepository) -> None:
    propose(repository)
    merged = repository.merge_pull_request("1", committer="cyd")
    commit = repository.commit_of("main")
    assert (merged.state, merged.merged_commit, merged.closed_by) == (PullState.MERGED, commit.id, "cyd")
    assert (commit.message, len(commit.parents)) == ("Merge pull request 1: change", 2)
    assert repository.read("main", "b") == b"1"
    assert repository.merge_pull_request("1") == merged
    for status in ("open", "closed"):
        with pytest.raises(PullRequestEndedError, match=f"1 is merged: merged as {commit.id[:16]}"):
            repository.update_pull_request("1", status=status)
    assert repository.commit_of("main") == commit


def test_the_terms_are_the_request_s_unless_the_merge_has_others(repository: OpenRepository) -> None:
    propose(repository, squash=True, message="squashed")
    repository.merge_pull_request("1")
    commit = repository.commit_of("main")
    assert (commit.message, len(commit.parents)) == ("squashed", 1)
    repository.upload("dev", "c", b"1")
    repository.commit("dev", "three")
    repository.upload("main", "c", b"2")
    repository.commit("main", "other")
    propose(repository, squash=True)
    with pytest.raises(MergeConflictError):
        repository.merge_pull_request("2")
    merged = repository.merge_pull_request("2", strategies=MergeStrategies(MergeStrategy.SOURCE_WINS), squash=False)
    assert (merged.squash, merged.strategies.default) == (False, MergeStrategy.SOURCE_WINS)
    assert repository.read("main", "c") == b"1"


def test_a_draft_another_head_and_no_change_are_not_merged(repository: OpenRepository) -> None:
    propose(repository, draft=True)
    with pytest.raises(PreconditionError, match="is a draft"):
        repository.merge_pull_request("1")
    repository.update_pull_request("1", draft=False)
    with pytest.raises(UnexpectedHeadError):
        repository.merge_pull_request("1", expected_head=repository.commit_of("main").id)
    repository.merge("dev", "main")
    with pytest.raises(NoChangesError):
        repository.merge_pull_request("1")
    assert repository.pull_request("1").is_open


def test_two_clients_who_merge_at_once_make_one_commit(world: World, repository: OpenRepository) -> None:
    propose(repository)
    race = Before("tables.transact", 1, lambda: repository.merge_pull_request("1", committer="other"))
    merged = world.repository(race).merge_pull_request("1", committer="this")
    assert race.reached
    assert merged.closed_by == "other"
    assert [commit.committer for commit in repository.log("main", first_parent=True).results][:2] == ["other", ""]


@pytest.mark.parametrize("side", ["dev", "main2"])
@pytest.mark.parametrize("again", [False, True])
def test_it_is_closed_once_a_branch_of_it_is_another(repository: OpenRepository, side: str, again: bool) -> None:
    repository.create_branch("main2", "main")
    repository.create_pull_request("t", "dev", "main2")
    repository.create_pull_request("t", "main", "main2")
    repository.rename_branch(side, "elsewhere")
    if again:
        repository.create_branch(side, "elsewhere")
    reason = "another branch is called" if again else "was deleted or renamed"
    seen = repository.pull_request("1")
    assert (seen.state, seen.closed) == (PullState.CLOSED, 0)
    assert reason in seen.reason
    assert repository.pull_requests("open").results[-1] == seen, "as long as nobody changed it"
    with pytest.raises(PullRequestEndedError, match=reason):
        repository.merge_pull_request("1")
    assert repository.pull_requests("closed").results[-1].reason == seen.reason
    with pytest.raises(PullRequestEndedError, match="cannot be opened again"):
        repository.update_pull_request("1", status="open")
    assert repository.pull_request("2").is_open == (side == "dev")


def test_a_branch_that_is_made_anew_during_the_merge_gets_no_commit(world: World, repository: OpenRepository) -> None:
    def replace() -> None:
        repository.delete_branch("stable")
        repository.create_branch("stable", "main")

    requests = [("tables.get_many", number) for number in range(1, 5)] + [("tables.query", 1), ("tables.transact", 1)]
    for place, (request, number) in enumerate(requests, 1):
        repository.create_branch("stable", "main")
        repository.create_pull_request("t", "dev", "stable")
        race = Before(request, number, replace)
        with pytest.raises(PullRequestEndedError):
            world.repository(race).merge_pull_request(str(place))
        assert race.reached
        assert repository.commit_of("stable") == repository.commit_of("main")
        repository.delete_branch("stable")


def test_lists_are_by_state_the_newest_first(repository: OpenRepository) -> None:
    for _ in range(12):
        propose(repository)
    for number in (2, 5, 11):
        repository.update_pull_request(str(number), status="closed")
    repository.merge_pull_request("7")

    def numbers(*place: Any, **options: Any) -> list[int]:
        return [pull.number for pull in repository.pull_requests(*place, **options).results]

    assert numbers() == [*range(12, 0, -1)]
    assert numbers("open") == [12, 10, 9, 8, 6, 4, 3, 1]
    assert numbers("closed") == [11, 7, 5, 2]
    assert numbers("merged") == [7]
    assert numbers("closed", after="7") == [5, 2]
    assert numbers(after="0") == numbers(after="1") == []
    assert numbers(prefix="1") == [12, 11, 10, 1]
    assert numbers(prefix="1", after="11") == [10, 1]
    assert numbers(prefix="2") == [2]
    assert numbers(prefix="0") == []
    page = repository.pull_requests("closed", amount=3)
    assert ([pull.number for pull in page.results], page.next_after) == ([11, 7, 5], "5")
    assert repository.pull_requests("closed", after="5", amount=3).next_after is None
    for options in ({"status": "none"}, {"after": "x"}, {"prefix": "x"}, {"amount": 0}):
        with pytest.raises(InvalidError):
            repository.pull_requests(**options)


def test_a_page_of_many_closed_ones_reads_little(world: World, repository: OpenRepository) -> None:
    propose(repository)
    store = PullStore(repository.parts.tables, repository.parts.uid)
    pull = repository.update_pull_request("1", status="closed")
    for number in range(2, 302):
        copy = PullRequest(
            number=number,
            title="t",
            source="dev",
            destination="main",
            source_life="",
            destination_life="",
            state=pull.state,
        )
        world.tables.transact(store.create_writes(copy, {"number": number - 1}, ""))
    counted = world.counted()
    assert len(counted.repository.pull_requests("closed", amount=100).results) == 100
    assert counted.tables.calls == {"query": 2, "get_many": 1}, "closed and merged ones"


def test_comments_are_in_order_and_bounded(repository: OpenRepository) -> None:
    propose(repository)
    for number in range(5):
        repository.comment_on_pull_request("1", f"comment {number}", by="cyd")
    page = repository.pull_comments("1", amount=2)
    assert [(comment.number, comment.text, comment.author) for comment in page.results] == [
        (1, "comment 0", "cyd"),
        (2, "comment 1", "cyd"),
    ]
    rest = repository.pull_comments("1", after=page.next_after or "")
    assert ([comment.number for comment in rest.results], rest.next_after) == ([3, 4, 5], None)
    assert repository.pull_comments("1", after="9999999999").results == ()
    for text, words in (("", "empty"), (" \n", "empty"), ("x" * 16385, "at most 16,384"), ("\ud800", "comment")):
        with pytest.raises(InvalidError, match=words):
            repository.comment_on_pull_request("1", text)
    for pull in ("2", "x"):
        with pytest.raises(PullRequestNotFoundError):
            repository.comment_on_pull_request(pull, "text")
        with pytest.raises(PullRequestNotFoundError):
            repository.pull_comments(pull)
    store = PullStore(repository.parts.tables, repository.parts.uid)
    repository.parts.tables.put(*_last_comment(store))
    with pytest.raises(PreconditionError, match="1,000 comments"):
        repository.comment_on_pull_request("1", "one more")


def _last_comment(store: PullStore) -> tuple[Any, Any]:
    write = store.comment_write(1, PullComment(1000, "last"), "")
    return write.key, write.item


def test_who_loses_every_race_is_told_to_try_again(world: World, repository: OpenRepository) -> None:
    propose(repository)
    names = map(str, count())
    changes: list[Callable[[OpenRepository], object]] = [
        lambda client: client.create_pull_request("t", "dev", "main"),
        lambda client: client.update_pull_request("1", title=next(names)),
        lambda client: client.comment_on_pull_request("1", "text"),
    ]
    for change in changes:

        def faster(request: str, _: int, change: Callable[[OpenRepository], object] = change) -> None:
            if request == "tables.transact":
                change(repository)

        with pytest.raises(BusyError):
            change(world.repository(faster))
