"""Revert and cherry-pick, squash, dry runs: their effects on a branch, and their refusals."""

import pytest

from graveler.errors import DirtyBranchError, InvalidError, MergeConflictError, NoChangesError, RefNotFoundError
from graveler.lake.repository import OpenRepository
from graveler.model import MergeStrategies, MergeStrategy
from tests.lake.support import World, commit, put, texts


def history() -> tuple[OpenRepository, list[str]]:
    """Three commits on main: a and b are added, then a is changed, then c is added."""
    repository = World().main
    return repository, [
        commit(repository, {"a": "1", "b": "1"}),
        commit(repository, {"a": "2"}),
        commit(repository, {"c": "1"}),
    ]


def test_a_revert_takes_back_one_commit_and_nothing_else() -> None:
    repository, ids = history()
    reverted = repository.revert("main", ids[1], committer="ann")
    assert texts(repository) == {"a": "1", "b": "1", "c": "1"}
    assert reverted.message == f"Revert {ids[1]}"
    assert reverted.parents == (ids[2],)
    assert ("revert", "ann") in [(row.event.operation, row.event.by) for row in repository.reflog("main")]


def test_a_revert_of_the_first_commit_with_objects_removes_them() -> None:
    repository, ids = history()
    with pytest.raises(MergeConflictError) as conflict:
        repository.revert("main", ids[0])
    assert [c.path for c in conflict.value.conflicts] == ["a"]
    repository.revert("main", ids[1])
    repository.revert("main", ids[0])
    assert texts(repository) == {"c": "1"}


def test_reverting_the_creation_of_the_repository_changes_nothing() -> None:
    repository, ids = history()
    with pytest.raises(NoChangesError):
        repository.revert("main", f"{ids[0]}~1")


def test_a_revert_of_a_revert_brings_it_back() -> None:
    repository, ids = history()
    before = texts(repository)
    repository.revert("main", ids[1])
    repository.revert("main", "main")
    assert texts(repository) == before
    assert repository.commit_of("main").metarange_id == repository.commit_of(ids[2]).metarange_id


def test_a_revert_that_changes_nothing_is_refused_unless_it_may_be_empty() -> None:
    repository, ids = history()
    repository.revert("main", ids[1])
    with pytest.raises(NoChangesError, match="nothing to revert"):
        repository.revert("main", ids[1])
    assert repository.revert("main", ids[1], allow_empty=True).generation == 6


def test_a_merge_is_reverted_against_the_parent_that_is_named() -> None:
    repository, _ = history()
    repository.create_branch("side", "main")
    commit(repository, {"d": "side"}, "side")
    commit(repository, {"a": "main"})
    merged = repository.merge("side", "main")
    with pytest.raises(InvalidError, match=r"by parent 1 .* or parent 2"):
        repository.revert("main", merged.id)
    with pytest.raises(InvalidError, match="no parent 3"):
        repository.revert("main", merged.id, parent_number=3)
    repository.revert("main", merged.id, parent_number=1)
    assert texts(repository) == {"a": "main", "b": "1", "c": "1"}


def test_a_pick_makes_one_commit_again_with_its_message_and_metadata() -> None:
    repository, _ = history()
    repository.create_branch("side", "main~1")
    put(repository, {"e": "1"}, "side")
    one = repository.commit("side", "add e", committer="ann", metadata={"ticket": "7"})
    commit(repository, {"f": "1"}, "side")
    picked = repository.cherry_pick("main", one.id, committer="bob")
    assert texts(repository) == {"a": "2", "b": "1", "c": "1", "e": "1"}
    assert (picked.message, picked.committer) == ("add e", "bob")
    assert picked.metadata == {"ticket": "7", "cherry-pick-origin": one.id, "cherry-pick-committer": "ann"}
    with pytest.raises(NoChangesError, match="nothing to pick"):
        repository.cherry_pick("main", one.id)


def test_strategies_decide_the_conflicts_of_replays() -> None:
    repository = World().main
    commit(repository, {"a": "1", "raw/b": "1"})
    bad = commit(repository, {"a": "2", "raw/b": "2", "c": "2"})
    commit(repository, {"a": "3", "raw/b": "3"})
    by_prefix = (("raw/", MergeStrategy.DEST_WINS),)
    with pytest.raises(MergeConflictError) as conflict:
        repository.revert("main", bad, strategy=MergeStrategies(by_prefix=by_prefix))
    assert [c.path for c in conflict.value.conflicts] == ["a"]
    repository.revert("main", bad, strategy=MergeStrategies(MergeStrategy.SOURCE_WINS, by_prefix))
    assert texts(repository) == {"a": "1", "raw/b": "3"}
    repository.create_branch("old", f"{bad}~1")
    commit(repository, {"a": "old"}, "old")
    with pytest.raises(MergeConflictError):
        repository.cherry_pick("old", bad)
    repository.cherry_pick("old", bad, strategy=MergeStrategy.DEST_WINS)
    assert texts(repository, "old") == {"a": "old", "raw/b": "2", "c": "2"}


def test_replays_with_a_request_id_happen_once() -> None:
    repository, ids = history()
    first = repository.revert("main", ids[1], request_id="r")
    assert repository.revert("main", ids[1], request_id="r").id == first.id
    repository.create_branch("gone", ids[1])
    picked = repository.cherry_pick("main", "gone", request_id="p")
    repository.delete_branch("gone")
    assert repository.cherry_pick("main", "gone", request_id="p").id == picked.id
    assert picked.parents == (first.id,)


@pytest.mark.parametrize("verb", ["revert", "cherry_pick"])
def test_replays_refuse_uncommitted_changes_and_unknown_refs(verb: str) -> None:
    repository, ids = history()
    with pytest.raises(RefNotFoundError):
        getattr(repository, verb)("main", "nowhere")
    put(repository, {"x": "staged"})
    with pytest.raises(DirtyBranchError):
        getattr(repository, verb)("main", ids[1])
    assert texts(repository)["x"] == "staged"


def test_a_squashed_merge_has_one_parent_and_the_same_contents() -> None:
    repository, ids = history()
    repository.create_branch("side", "main~1")
    commit(repository, {"d": "1"}, "side")
    commit(repository, {"e": "1"}, "side")
    squashed = repository.merge("side", "main", squash=True)
    assert squashed.parents == (ids[2],)
    assert texts(repository) == {"a": "2", "b": "1", "c": "1", "d": "1", "e": "1"}


def test_a_merge_of_nothing_may_be_empty_when_asked() -> None:
    repository, ids = history()
    with pytest.raises(NoChangesError):
        repository.merge("main~1", "main")
    assert repository.merge("main~1", "main", allow_empty=True).parents == (ids[2], ids[1])
    assert len(repository.merge("main", "main", allow_empty=True).parents) == 1


def test_a_dry_run_tells_what_the_merge_does_and_changes_nothing() -> None:
    repository, ids = history()
    repository.create_branch("side", ids[1])
    put(repository, {"a": "side", "d": "1234"}, "side")
    repository.delete("side", ["b"])
    repository.commit("side", "side")
    commit(repository, {"a": "main"})
    head = repository.branch("main")
    preview = repository.preview_merge("side", "main")
    assert preview.base == ids[1]
    assert [conflict.path for conflict in preview.conflicts] == ["a"]
    assert (preview.totals.added, preview.totals.added_bytes) == (1, 4)
    assert (preview.totals.removed, preview.totals.removed_bytes) == (1, 1)
    assert preview.totals.changed == 0
    wins = repository.preview_merge("side", "main", MergeStrategy.SOURCE_WINS)
    assert not wins.conflicts
    assert (wins.totals.changed, wins.totals.changed_bytes_after) == (1, 4)
    assert repository.branch("main") == head


def test_the_longest_prefix_decides_the_strategy() -> None:
    repository = World().main
    commit(repository, {"raw/a": "0", "raw/keep/b": "0", "top": "0"})
    repository.create_branch("side", "main")
    commit(repository, {"raw/a": "side", "raw/keep/b": "side", "top": "side"}, "side")
    commit(repository, {"raw/a": "main", "raw/keep/b": "main", "top": "main"})
    by_prefix = (("raw/", MergeStrategy.SOURCE_WINS), ("raw/keep/", MergeStrategy.DEST_WINS))
    with pytest.raises(MergeConflictError) as conflict:
        repository.merge("side", "main", strategy=MergeStrategies(by_prefix=by_prefix))
    assert [c.path for c in conflict.value.conflicts] == ["top"]
    repository.merge("side", "main", strategy=MergeStrategies(MergeStrategy.DEST_WINS, by_prefix))
    assert texts(repository) == {"raw/a": "side", "raw/keep/b": "main", "top": "main"}
