"""A transaction comes to its branch as a whole, or not at all, and leaves no branch behind."""

import pytest

import graveler
from graveler.sdk.branch import Branch
from graveler.sdk.repository import Repository


@pytest.fixture
def main(repo: Repository) -> Branch:
    branch = repo.branch("main")
    branch.object("old").upload("old")
    branch.commit("first")
    return branch


def all_branches(repo: Repository) -> list[str]:
    return [branch.id for branch in repo.branches(show_hidden=True)]


def test_a_transaction_is_merged_and_its_branch_removed(repo: Repository, main: Branch) -> None:
    with main.transaction("both", metadata={"k": "v"}, tag="v1") as tx:
        tx.object("new").upload("new")
        tx.object("old").delete()
        assert [item.path for item in tx.objects()] == ["new"]
        assert [item.path for item in main.objects()] == ["old"]
        assert tx.source_id == "main"
        assert tx.id not in [branch.id for branch in repo.branches()]
        assert tx.id in all_branches(repo)
    assert [item.path for item in main.objects()] == ["new"]
    assert all_branches(repo) == ["main"]
    assert [commit.message for commit in main.log(max_amount=3)] == ["Merge transaction: both", "both", "first"]
    assert main.get_commit().metadata == {"k": "v", ".lakefs.merge.strategy": "default"}
    assert tx.merged == main.head.id == repo.tag("v1").get_commit().id


def test_message_metadata_and_tag_may_be_set_in_the_block(repo: Repository, main: Branch) -> None:
    with main.transact() as tx:
        tx.object("new").upload("new")
        tx.commit_message, tx.commit_metadata, tx.tag = "counted 1", {"rows": "1"}, "v1"
    assert repo.ref("v1^2").get_commit().message == "counted 1"
    assert repo.ref("v1^2").get_commit().metadata == {"rows": "1"}


def test_a_transaction_is_the_way_into_a_protected_branch(repo: Repository, main: Branch) -> None:
    repo.protect("*")
    with pytest.raises(graveler.ForbiddenError):
        main.object("new").upload("new")
    with main.transaction("by review") as tx:
        tx.object("new").upload("new")
    assert [item.path for item in main.objects()] == ["new", "old"]
    assert all_branches(repo) == ["main"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_a_block_that_fails_changes_nothing(repo: Repository, main: Branch, error: BaseException) -> None:
    head = main.head.id
    with pytest.raises(type(error)) as caught, main.transaction("never", tag="v1") as tx:
        tx.object("new").upload("new")
        raise error
    assert caught.value is error
    assert main.head.id == head
    assert [item.path for item in main.objects()] == ["old"]
    assert list(repo.tags()) == []
    assert all_branches(repo) == ["main"]


def test_what_fails_while_tidying_up_does_not_hide_the_error(repo: Repository, main: Branch) -> None:
    with pytest.raises(ValueError, match="the reason"), main.transaction("never") as tx:
        repo.branch(tx.id).delete()
        raise ValueError("the reason")


@pytest.mark.parametrize("removed", ["deleted", "renamed"])
def test_a_block_whose_branch_went_is_told_and_nothing_of_it_lands(
    repo: Repository, main: Branch, removed: str
) -> None:
    head = main.head.id
    with (
        pytest.raises(graveler.TransactionGoneError, match="'main' was not changed") as caught,
        main.transaction("late", tag="v1") as tx,
    ):
        tx.object("new").upload("new")
        if removed == "deleted":
            repo.branch(tx.id).delete()
        else:
            repo.branch(tx.id).rename("rescued")
        tx.object("newer").upload("newer")
    assert (caught.value.hidden, caught.value.branch) == (tx.id, "main")
    assert main.head.id == head
    assert list(repo.tags()) == []
    assert all_branches(repo) == (["main"] if removed == "deleted" else ["main", "rescued"])


def test_a_block_whose_branch_went_is_told_when_it_ends(repo: Repository, main: Branch) -> None:
    head = main.head.id
    with pytest.raises(graveler.TransactionGoneError), main.transaction("late") as tx:
        tx.object("new").upload("new")
        repo.branch(tx.id).delete()
    assert main.head.id == head


def test_what_a_block_does_not_find_is_told_as_it_is(main: Branch) -> None:
    with pytest.raises(graveler.ObjectNotFoundError), main.transaction("never") as tx:
        tx.object("nowhere").reader().read()


def test_a_failed_block_may_leave_its_branch_to_look_at(repo: Repository, main: Branch) -> None:
    with (
        pytest.raises(ValueError, match="no"),
        main.transact("never", delete_branch_on_error=False) as tx,
    ):
        tx.object("new").upload("new")
        raise ValueError("no")
    assert repo.branch(tx.id).object("new").exists()


def test_a_conflict_changes_nothing(repo: Repository, main: Branch) -> None:
    with pytest.raises(graveler.MergeConflictError), main.transaction("mine") as tx:
        tx.object("old").upload("mine")
        main.object("old").upload("theirs")
        theirs = main.commit("theirs")
    assert main.head.id == theirs.id
    assert all_branches(repo) == ["main"]


def test_work_on_other_objects_meanwhile_is_kept(main: Branch) -> None:
    with main.transaction("mine") as tx:
        tx.object("new").upload("mine")
        main.object("other").upload("theirs")
        main.commit("theirs")
    assert [item.path for item in main.objects()] == ["new", "old", "other"]


def test_a_block_that_changes_nothing_is_told(repo: Repository, main: Branch) -> None:
    head = main.head.id
    with (
        pytest.raises(graveler.NoChangesError, match="transaction on 'main': its block changed nothing"),
        main.transaction("nothing") as tx,
    ):
        tx.object("old").upload("old")
    assert main.head.id == head
    assert all_branches(repo) == ["main"]


def test_a_dirty_branch_is_refused_before_the_work(repo: Repository, main: Branch) -> None:
    main.object("staged").upload("staged")
    with pytest.raises(graveler.DirtyBranchError), main.transaction("late"):
        pytest.fail("the block ran")
    assert all_branches(repo) == ["main"]
    assert main.object("staged").exists()


def test_a_branch_that_got_dirty_meanwhile_is_left_as_it_is(repo: Repository, main: Branch) -> None:
    with pytest.raises(graveler.DirtyBranchError), main.transaction("mine") as tx:
        tx.object("new").upload("mine")
        main.object("staged").upload("staged")
    assert [change.path for change in main.uncommitted()] == ["staged"]
    assert all_branches(repo) == ["main"]


@pytest.mark.parametrize("tag", ["v1", "not a tag"])
def test_a_tag_that_cannot_be_made_is_found_before_the_merge(repo: Repository, main: Branch, tag: str) -> None:
    repo.tag("v1").create(main)
    head = main.head.id
    with pytest.raises((graveler.AlreadyExistsError, graveler.InvalidError)), main.transaction("t", tag=tag) as tx:
        tx.object("new").upload("new")
    assert main.head.id == head
    assert all_branches(repo) == ["main"]


def test_a_branch_that_is_not_there_is_told(repo: Repository) -> None:
    with pytest.raises(graveler.RefNotFoundError), repo.branch("nowhere").transaction("t"):
        pytest.fail("the block ran")
