"""Attempts to bring an unchecked commit into a guarded branch, or to make rules fail those who keep them."""

import pytest
from msgspec.structs import replace

from graveler.errors import RuleError
from graveler.model import RequiredStatus, Rule
from graveler.requests.pulls import CreatePullRequest, MergePullRequest, UpdatePullRequest
from tests.lake.gates.support import by, guarded_world
from tests.lake.support import Before, put

FEW_OBJECTS = Rule(
    name="few",
    branches=("main",),
    statuses=(RequiredStatus("objects", check={"kind": "limits", "most_objects": 100}),),
)


def test_other_bytes_under_a_stated_checksum_touch_the_path_of_a_status() -> None:
    rule = Rule(name="r", branches=("main",), statuses=(RequiredStatus("test", posters=("ci",), paths=("a",)),))
    repository = guarded_world(rule).main
    put(repository, {"elsewhere": "1"})
    repository.link("main", replace(repository.stat("main", "a"), address="mem://elsewhere/other"))
    with pytest.raises(RuleError, match="test"):
        repository.commit("main", "the same checksums")


def test_a_pull_request_that_changes_while_its_merge_is_checked_is_read_again() -> None:
    world = guarded_world(FEW_OBJECTS)
    pull = world.main.run(CreatePullRequest(source="dev", destination="main", title="before"), by())
    rename = UpdatePullRequest(pull=pull.id, title="after")
    meanwhile = Before("tables.transact", 2, lambda: world.main.run(rename, by()))
    merged = world.repository(meanwhile).run(MergePullRequest(pull=pull.id), by())
    assert meanwhile.reached
    assert (merged.title, merged.merged_commit) == ("after", world.main.branch("main").commit_id)
