"""Statuses by handles of refs."""

import pytest

from graveler.errors import ForbiddenError, InvalidError
from graveler.lake.context import Context
from graveler.lake.gates.statuses import GRAVELER
from graveler.lake.lake import Lake as LakeVerbs
from graveler.model import Actor, StatusState
from graveler.requests.statuses import PostStatus
from graveler.sdk.lake import Lake
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables


def test_a_ref_has_the_statuses_of_its_tree() -> None:
    verbs = LakeVerbs(MemoryTables(), MemoryObjects)
    branch = Lake(verbs, "ada").repository("repo").create("mem://repo").branch("main")
    posted = branch.post_status("dbt", "success", "fine", url="https://ci/1", expires=60)
    assert (posted.state, posted.by, posted.principal) == (StatusState.SUCCESS, "ada", "ada")
    assert branch.get_commit().metarange == "", "the tree without objects has statuses, too"
    assert branch.statuses() == (posted,)
    assert branch.post_status("dbt", "success", "fine", url="https://ci/1", expires=60) == posted
    with pytest.raises(ValueError, match="fine"):
        branch.post_status("dbt", "fine")  # type: ignore[arg-type]


def test_nobody_posts_as_graveler() -> None:
    repository = LakeVerbs(MemoryTables(), MemoryObjects).create_repository("repo", "mem://repo")
    request = PostStatus(commit="main", name="sql", state=StatusState.SUCCESS)
    with pytest.raises(ForbiddenError, match="graveler's own checks"):
        repository.run(request, Context(by=GRAVELER))
    with pytest.raises(ForbiddenError, match="graveler's own checks"):
        repository.run(request, Context(by="ann", actor=Actor("ann", GRAVELER, "AKIA")))
    with pytest.raises(InvalidError, match="not of 'branch'"):
        repository.run(PostStatus(commit="main", name="sql", state=StatusState.SUCCESS, of="branch"))  # type: ignore[arg-type]
